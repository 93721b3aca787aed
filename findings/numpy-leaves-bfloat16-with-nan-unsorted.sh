#!/bin/sh
# SPDX-License-Identifier: MIT
#
# NumPy 2.4.6 with ml_dtypes 0.6.0: np.sort() of a bfloat16 or 8-bit float array that has a
# NaN does not sort it, and np.median() returns a number instead of NaN, without a warning.
#
# NumPy promises that sort() puts NaN last; median(), percentile(), unique(), partition() and
# searchsorted() rely on it. The comparison that ml_dtypes registers for its types has no
# order for NaN, so that each NaN separates the values before it from those behind it.
# np.median() looks for a NaN in the last element and finds a number there. float16 and
# float32 are right, and so is torch.sort() of a bfloat16 tensor.
#
# Cost: quantiles of the weights of a bfloat16 model, for clipping or quantization, are wrong
# exactly in the tensors that have a NaN, and look plausible.
# Remedy: x.astype(np.float32) before sorting; it loses nothing.
#
# Output seen, of the values 10, NaN, and 8 down to 0:
#	dtype          np.sort()                 median  90th percentile
#	float16        0 1 2 3 4 5 6 7 8 10 nan  nan     nan
#	bfloat16       10 nan 0 1 2 3 4 5 6 7 8  3       7
#	float8_e4m3fn  10 nan 0 1 2 3 4 5 6 7 8  3       7
#	float8_e5m2    10 nan 0 1 2 3 4 5 6 7 8  3       7
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv && venv/bin/pip install -q numpy==2.4.6 ml_dtypes==0.6.0 >&2 || exit 2

cat >show.py <<'END'
import sys
import warnings

import ml_dtypes
import numpy as np

warnings.simplefilter("error")
RIGHT, WRONG = ("0 1 2 3 4 5 6 7 8 10 nan", "nan", "nan"), ("10 nan 0 1 2 3 4 5 6 7 8", "3", "7")
values, changed = [10, float("nan"), *range(8, -1, -1)], False
print(f"{'dtype':15}{'np.sort()':26}{'median':8}90th percentile")
for dtype, was in ((np.float16, RIGHT), (ml_dtypes.bfloat16, WRONG), (ml_dtypes.float8_e4m3fn, WRONG),
                   (ml_dtypes.float8_e5m2, WRONG)):
    x = np.array(values).astype(dtype)
    found = " ".join(f"{float(v):g}" for v in np.sort(x)), f"{float(np.median(x)):g}", f"{float(np.percentile(x, 90)):g}"
    print(f"{dtype.__name__:15}{found[0]:26}{found[1]:8}{found[2]}" + ("" if found == was else f"  CHANGED, was {was}"))
    changed |= found != was
sys.exit(changed)
END
venv/bin/python show.py 2>errors && exit 0
cat errors >&2
exit 1
