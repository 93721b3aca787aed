#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints where a toolkit with nvcc and cuda.h is: CUDA's own directory, or a virtual
environment with the wheels of it, which is made if need be (100 MB). Or where NCCL's
include/nccl.h and lib/libnccl.so.2 are, of the wheel in any case: of which release is
known then (200 MB).

    toolkit.py [--wheels]    of wheels in any case
    toolkit.py --nccl
"""
import glob
import os
import subprocess
import sys
import venv

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
WHEELS = [f"nvidia-{name}==13.0.*"
          for name in ("cuda-nvcc", "nvvm", "cuda-crt", "cuda-runtime",
                       "cuda-cccl")]
PLACE = os.path.normpath(os.path.join(ROOT, ".venv-cuda-13.0"))
NCCL_WHEEL = "nvidia-nccl-cu13==2.28.9"
NCCL_PLACE = os.path.normpath(os.path.join(ROOT, ".venv-nccl-2.28"))


def of_system():
    """An nvcc on PATH may be a script that calls the one of CUDA's directory."""
    for place in ["/usr/local/cuda/bin", *os.environ["PATH"].split(":")]:
        toolkit = os.path.dirname(os.path.realpath(place))
        if (os.access(toolkit + "/bin/nvcc", os.X_OK)
                and os.path.exists(toolkit + "/include/cuda.h")):
            return toolkit
    return None


def in_wheels(place, folder, files):
    """The folder of a package that has all these files, or None."""
    found = glob.glob(f"{place}/lib/python3*/site-packages/nvidia/{folder}")
    return next((one for one in found
                 if all(os.path.exists(f"{one}/{file}") for file in files)),
                None)


def of_wheels(place, folder, files, wheels):
    if not in_wheels(place, folder, files):
        venv.create(place, with_pip=True)
        subprocess.run([place + "/bin/pip", "install", "-q", *wheels],
                       check=True, stdout=sys.stderr)
    return in_wheels(place, folder, files)


def main():
    if "--nccl" in sys.argv:
        print(of_wheels(NCCL_PLACE, "nccl",
                        ["include/nccl.h", "lib/libnccl.so.2"], [NCCL_WHEEL]))
        return
    toolkit = None if "--wheels" in sys.argv else of_system()
    print(toolkit or of_wheels(PLACE, "cu13", ["bin/nvcc", "include/nv/target"],
                               WHEELS))


if __name__ == "__main__":
    main()
