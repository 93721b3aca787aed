#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints where a toolkit with nvcc and cuda.h is: CUDA's own directory, or a virtual
environment with the wheels of it, which is made if need be (100 MB).

    toolkit.py [--wheels]    of wheels in any case
"""
import glob
import os
import subprocess
import sys
import venv

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
WHEELS = [f"nvidia-{name}==13.0.*"
          for name in ("cuda-nvcc", "nvvm", "cuda-crt", "cuda-runtime")]
PLACE = os.path.normpath(os.path.join(ROOT, ".venv-cuda-13.0"))


def of_system():
    """An nvcc on PATH may be a script that calls the one of CUDA's directory."""
    for place in ["/usr/local/cuda/bin", *os.environ["PATH"].split(":")]:
        toolkit = os.path.dirname(os.path.realpath(place))
        if (os.access(toolkit + "/bin/nvcc", os.X_OK)
                and os.path.exists(toolkit + "/include/cuda.h")):
            return toolkit
    return None


def of_wheels():
    found = glob.glob(PLACE + "/lib/python3*/site-packages/nvidia/cu13/bin/nvcc")
    return found and os.path.dirname(os.path.dirname(found[0]))


def main():
    toolkit = None if "--wheels" in sys.argv else of_system()
    if not toolkit and not of_wheels():
        venv.create(PLACE, with_pip=True)
        subprocess.run([PLACE + "/bin/pip", "install", "-q", *WHEELS],
                       check=True, stdout=sys.stderr)
    print(toolkit or of_wheels())


if __name__ == "__main__":
    main()
