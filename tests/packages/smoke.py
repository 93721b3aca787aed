#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A wheel of the build directory, with the files where the real wheel has them, installed in a clean virtual
environment without NumPy and PyTorch. The suite packages tests the real one.

    smoke.py SOURCE BUILD
"""
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
import zipfile

sys.dont_write_bytecode = True
SOURCE, BUILD = map(pathlib.Path, sys.argv[1:3])
sys.path.insert(0, str(SOURCE / "tests/lib"))
from tap import Tap  # noqa: E402

USE = """
import sys
import ckptfs
assert not {"numpy", "torch"} & set(sys.modules)
ck = ckptfs.open(sys.argv[1])
name = "model.layers.0.attention.wq.weight"
out = bytearray(ck[name].nbytes)
ck.state_dict(prefix="model.layers.0.attention.wq", out={"weight": out})
assert out == ck.read(f"raw/{name}") and len(out) == 1024
assert ck[name][10:12].shape == (2, 16)
print(ckptfs.__file__, ckptfs.__version__)
"""


def layout(prefix, wheel):
    """Writes a wheel of an installation. Real wheels have $ORIGIN/.. as the path of the program's library."""
    program = re.sub(rb"\$ORIGIN/\.\./lib[^\0]*", lambda m: b"$ORIGIN/..".ljust(len(m.group()), b"\0"),
                     (prefix / "bin/ckptfs").read_bytes())
    version = subprocess.run([prefix / "bin/ckptfs", "--version"], capture_output=True, text=True, check=True).stdout
    version = re.match(r"ckptfs (\S+)", version).group(1)
    info, files = f"ckptfs-{version}.dist-info", {}
    for path in (prefix / "share/ckptfs/python").rglob("*.*"):
        files[str(path.relative_to(prefix / "share/ckptfs/python"))] = path.read_bytes()
    files["ckptfs/libckptfs.so.1"] = next(prefix.glob("lib*/**/libckptfs.so.1")).read_bytes()
    files["ckptfs/bin/ckptfs"] = program
    files[f"ckptfs-{version}.data/scripts/ckptfs"] = (SOURCE / "mount-helpers/python/ckptfs_command").read_bytes()
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: ckptfs\nVersion: {version}\n".encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in files).encode()
    wheel = wheel / f"ckptfs-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if "/bin/" in name or "/scripts/" in name else 0o100644) << 16
            archive.writestr(entry, content)
    return version, wheel


def pip_of_ensurepip():
    """The wheel of pip that Python has: it runs without an installation, which would take longer than this test."""
    import ensurepip
    places = [os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"), sysconfig.get_config_var("WHEEL_PKG_DIR"),
              "/usr/share/python-wheels"]
    return next((found for place in places if place for found in sorted(glob.glob(f"{place}/pip-*.whl"))), None)


def main(work):
    t = Tap()
    subprocess.run([shutil.which("meson"), "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", work / "dest"],
                   check=True, stdout=subprocess.DEVNULL)
    version, wheel = layout(next((work / "dest").rglob("bin/ckptfs")).parent.parent, work)
    venv.create(work / "venv", with_pip=False, symlinks=True)
    python, command = work / "venv/bin/python", work / "venv/bin/ckptfs"
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PYTHONPATH", "CKPTFS_LIBRARY", "LD_LIBRARY_PATH")}

    def run(*arguments):
        done = subprocess.run(arguments, capture_output=True, text=True, env=environment, cwd=work)
        return done.returncode, done.stdout, done.stderr

    got = run(python, f"{pip_of_ensurepip()}/pip", "install", "-q", "--no-index", "--no-compile",
              "--disable-pip-version-check", wheel)
    t.check(got[0] == 0, "pip installs the wheel", got[2])
    got = run(python, "-c", USE, SOURCE / "tests/fixtures/sample")
    t.check(got[0] == 0 and got[1].endswith(f"ckptfs/__init__.py {version}\n") and "/venv/" in got[1],
            "import, one tensor and one slice, by the library of the wheel", *got[1:])
    got = run(command, "--version")
    t.check(got[0] == 0 and got[1].startswith(f"ckptfs {version}"), "the command of the virtual environment", *got[1:])
    got = run(command, "ls", SOURCE / "tests/fixtures/sample")
    t.check(got[1].split()[:2] == ["full", "raw"], "it reads a checkpoint", *got[1:])
    return t.finish()


if __name__ == "__main__":
    if not pip_of_ensurepip():
        print("1..0 # SKIP Python has no ensurepip (package python3-venv)")
        sys.exit(0)
    with tempfile.TemporaryDirectory(prefix="ckptfs-wheel-") as folder:
        status = main(pathlib.Path(folder))
    sys.exit(status)
