#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes kernels.ptx of kernels.cu, for those who build without nvcc and for drivers that
refuse the machine code of this build.

    ptx.py [NVCC]     writes it
    ptx.py --check    whether it was made of the sources as they are

It is for all devices since sm_80 and for all drivers that know PTX 7.0 (CUDA 11.0, driver
450): nvcc writes its own, newest number, though nothing in it is newer.
"""
import hashlib
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../../..")
SOURCES = ["core/gpu/driver/" + name
           for name in ("kernels.cu", "body.h", "change.h", "tile.h")]
CARRIED = os.path.join(HERE, "kernels.ptx")
VERSION = "7.0"
MARK = "// made of sources with SHA-256 "


def digest():
    sums = hashlib.sha256()
    for path in SOURCES:
        with open(os.path.join(ROOT, path), "rb") as file:
            sums.update(hashlib.sha256(file.read()).digest())
    return sums.hexdigest()


def carried_digest():
    with open(CARRIED) as file:
        return file.readline().strip().removeprefix(MARK)


def assemble(toolkit, ptx):
    """Fails if it needs a newer version than it says."""
    for arch in "sm_80", "sm_90":
        subprocess.run([os.path.join(toolkit, "ptxas"), "-arch=" + arch, "-o", "/dev/null", ptx], check=True)


def make(nvcc):
    with tempfile.TemporaryDirectory() as place:
        ptx = os.path.join(place, "kernels.ptx")
        subprocess.run([nvcc, "-ptx", "-O3", "-std=c++17", "-arch=compute_80",
                        "-o", ptx, os.path.join(HERE, "kernels.cu")], check=True)
        with open(ptx) as file:
            text = re.sub(r"^//.*\n|\t// \.globl.*", "", file.read(), flags=re.M).lstrip()
        text = re.sub(r"\n{2,}", "\n", re.sub(r"^\.version .*", ".version " + VERSION, text, flags=re.M))
        with open(ptx, "w") as file:
            file.write(f"{MARK}{digest()}\n// by ptx.py\n{text}")
        assemble(os.path.dirname(nvcc), ptx)
        with open(ptx) as file, open(CARRIED, "w") as out:
            out.write(file.read())


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if carried_digest() == digest() else "kernels.ptx is of other sources: run ptx.py")
    make(sys.argv[1] if len(sys.argv) > 1 else "/usr/local/cuda/bin/nvcc")
