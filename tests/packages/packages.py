#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds sdist, wheel and .deb twice, compares the bytes, and uses each package where nothing else is installed:
virtual environments with NumPy, and a Debian 12 in a directory, there also without root and without /dev/fuse.

    packages.py SOURCE [PART...]

Parts: wheel, sdist, debian; all by default. PACKAGES=DIR takes the packages of DIR, and builds nothing.
Needs root, a network, and twenty minutes.
"""
import ast
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.dont_write_bytecode = True
SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(SOURCE / "tests/lib"))
from tap import Tap  # noqa: E402

PACKAGE = SOURCE / "mount-helpers/python"
BUILD = SOURCE / "mount-helpers/package/build"
SAMPLE = SOURCE / "tests/fixtures/sample"
TOOLS = SOURCE / "build-packages/tools/bin"
NAMES = {"libckptfs.so.1", "bin/ckptfs", "bin/ckptfs-gpu.so"}
WQ = "model.layers.0.attention.wq.weight"

# Reads without NumPy; prints the sums of one tensor and the version.
PLAIN = f"""
import ckptfs, hashlib, sys
assert not {{"numpy", "torch"}} & set(sys.modules)
ck = ckptfs.open(sys.argv[1])
out = {{name: bytearray(ck[name].nbytes) for name in ck}}
ck.state_dict(out=out)
print(hashlib.sha256(out["{WQ}"]).hexdigest(), ckptfs.__version__)
"""
# Compares all tensors and a slice with the files of raw/.
NUMPY = f"""
import ckptfs, numpy, sys
ck = ckptfs.open(sys.argv[1])
for name, tensor in ck.items():
    assert tensor.numpy().tobytes() == ck.read(f"raw/{{tensor.stem}}"), name
assert (ck["{WQ}"][3:9:2, 1:].numpy() == ck["{WQ}"].numpy()[3:9:2, 1:]).all()
assert (numpy.from_dlpack(ck["{WQ}"]) == ck["{WQ}"].numpy()).all()
print(len(ck), numpy.__version__)
"""


def run(*arguments, **options):
    """(exit status, what it printed)."""
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("PYTHONPATH", "CKPTFS_LIBRARY", "LD_LIBRARY_PATH", "SOURCE_DATE_EPOCH")}
    done = subprocess.run([str(a) for a in arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", env=environment, check=False,
                          **options)
    return done.returncode, done.stdout


def tail(got):
    return got[1][-2000:]


def digest_of_sample():
    """The sum of one tensor, by the build that the tests run."""
    t = run(SOURCE / "build/mount-helpers/ckptfs", "cat", SAMPLE, f"raw/{WQ}")
    return t[0], t[1]


def built_twice(t, work):
    """The packages of two builds, the second one without anything that the first one compiled."""
    first, second = work / "first", work / "second"
    got = run(BUILD, "-o", first)
    t.check(got[0] == 0, "sdist, wheel and .deb are built", tail(got))
    for name in ("source", "wheel", "wheel-build", "zig-cache", "deb"):
        shutil.rmtree(SOURCE / "build-packages" / name, ignore_errors=True)
    got = run(BUILD, "-o", second)
    t.check(got[0] == 0, "and again", tail(got))
    sums = [{path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
            for folder in (first, second)]
    t.check(len(sums[0]) == 3 and sums[0] == sums[1], "with the same bytes", *sums)
    return first


def environment(work, name, *packages):
    """The Python of a new virtual environment with these packages, and the output of pip."""
    got = run(sys.executable, "-m", "venv", work / name)
    if got[0] == 0:
        got = run(work / name / "bin/pip", "install", "-q", "--disable-pip-version-check", *packages)
    return work / name / "bin/python", got


def contents(t, wheel):
    names = zipfile.ZipFile(wheel).namelist()
    t.check(NAMES <= {name[7:] for name in names if name.startswith("ckptfs/")}, "library, program and module", names)
    t.check({path.name for path in (PACKAGE / "ckptfs").iterdir() if path.suffix in (".py", ".typed")}
            == {name[7:] for name in names if re.fullmatch(r"ckptfs/\w+\.(py|typed)", name)}, "all of the package", names)
    t.check(all(any(re.search(library, name) for name in names) for library in (r"libs/libfuse3.*\.so\.3", r"libs/libseccomp")),
            "libfuse3 and libseccomp", names)
    texts = {name.rsplit("/", 1)[1] for name in names if "/licenses/" in name}
    t.check({"LICENSE", "fuse3.txt", "libseccomp.txt", "libcap2.txt", "libisal.txt", "libzstd.txt", "utf8proc.txt",
             "xxhash.txt", "sources.txt"} <= texts, "their licences", texts)
    t.check(all("numpy" not in line and "torch" not in line for line in
                zipfile.ZipFile(wheel).read(next(n for n in names if n.endswith("/METADATA"))).decode().splitlines()
                if line.startswith("Requires-Dist")), "no requirement")


def syntax(t):
    """Python 3.9 parses each file, and has all that it uses; later versions up to that of this Python parse it."""
    files = [*PACKAGE.glob("*.py"), *PACKAGE.glob("ckptfs/*.py"), PACKAGE / "ckptfs_command"]
    wrong = []
    for file in files:
        for minor in range(9, 14):
            try:
                ast.parse(file.read_text(), str(file), feature_version=(3, minor))
            except SyntaxError as e:
                wrong.append((minor, e))
    t.check(not wrong, "the syntax of Python 3.9 to 3.13", *wrong)


def versions(t, work):
    python, got = environment(work, "lint", "vermin", "ruff")
    if got[0]:
        t.skip("what Python 3.9 has", f"pip cannot install vermin and ruff: {tail(got)}")
        return
    got = run(python.parent / "vermin", "-t=3.9-", "--no-tips", "--no-parse-comments", PACKAGE / "ckptfs")
    t.check(got[0] == 0, "the package uses nothing that Python 3.9 lacks", tail(got))
    for minor in range(9, 14):
        got = run(python, "-m", "ruff", "check", "--isolated", "--no-cache", "--select", "E9,F63,F7,F82",
                  "--target-version", f"py3{minor}", PACKAGE / "ckptfs")
        t.check(got[0] == 0, f"ruff for Python 3.{minor}", tail(got))


def wheel_part(t, work, packages):
    wheel = next(packages.glob("*.whl"))
    contents(t, wheel)
    got = run(TOOLS / "auditwheel", "show", wheel)
    t.check(got[0] == 0 and 'platform tag: "manylinux_2_28_x86_64"' in " ".join(got[1].split()),
            "auditwheel: manylinux_2_28_x86_64", tail(got))
    for numpy in ("1.26", "2.4"):
        python, got = environment(work, f"numpy-{numpy}", f"numpy=={numpy}.*", wheel)
        t.check(got[0] == 0, f"pip installs it beside NumPy {numpy}", tail(got))
        got = run(python, "-c", NUMPY, SAMPLE)
        t.check(got[0] == 0 and got[1].startswith(f"84 {numpy}."), f"all tensors, by NumPy {numpy}", tail(got))
        got = run(python.parent / "ckptfs", "--version")
        t.check(got[0] == 0 and "GPUs" in got[1] and "no GPUs" not in got[1], "the command", tail(got))
    got = run(python, "-c", "import ckptfs, errno\ntry: ckptfs.open('/srv/none')\n"
                            "except ckptfs.Error as e: print(e.errno == errno.ENOENT, e)")
    t.check(got[0] == 0 and got[1].startswith("True ") and "No such file or directory" in got[1],
            "the text of an error number, which glibc 2.28 lacks", tail(got))
    if not os.path.exists("/dev/fuse"):
        t.skip("a mount by the wheel", "there is no /dev/fuse")
    else:
        got = run(python, "-c", f"import ckptfs, sys, os\nwith ckptfs.mount(sys.argv[1]) as p: "
                                f"print(os.path.getsize(p + '/raw/{WQ}'))", SAMPLE)
        t.check(got == (0, "1024\n"), "a mount by the wheel", tail(got))


def sdist_part(t, work, packages):
    python, got = environment(work, "sdist", next(packages.glob("*.tar.gz")))
    t.check(got[0] == 0, "pip builds and installs the sdist", tail(got))
    got = run(python, "-c", PLAIN, SAMPLE)
    t.check(got[0] == 0, "and it reads", tail(got))
    got = run(python.parent / "ckptfs", "ls", SAMPLE)
    t.check(got[0] == 0 and got[1].startswith("full\n"), "its command, too", tail(got))


def mirror():
    """Where apt of this machine gets Debian from."""
    for path in [*pathlib.Path("/etc/apt").glob("sources.list.d/*.sources"), pathlib.Path("/etc/apt/sources.list")]:
        found = re.search(r"^(?:URIs: |deb )(\S*://\S+/debian)/?(?: |$)", path.read_text() if path.exists() else "", re.M)
        if found:
            return found.group(1)
    return None


def without_root(t, root, wheel):
    """An unprivileged user of a container: no /dev/fuse, no fusermount3, no capability."""
    shutil.copy(wheel, root / "srv")
    shutil.copytree(SAMPLE, root / "srv/sample")
    # /proc is that of a namespace of each command, as in a container.
    user = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", 'mount -t proc proc "$0/proc" && exec chroot '
            '--userspec=65534:65534 "$0" env -i HOME=/tmp/home PATH=/usr/bin:/bin "$@"', root]
    t.check(not (root / "dev/fuse").exists() and not (root / "usr/bin/fusermount3").exists(), "no FUSE")
    got = run(*user, "python3", "-m", "venv", "/tmp/venv")
    t.check(got[0] == 0, "a user makes a virtual environment", tail(got))
    got = run(*user, "/tmp/venv/bin/pip", "install", "-q", "--no-index", f"/srv/{wheel.name}")
    t.check(got[0] == 0, "and installs the wheel", tail(got))
    got = run(*user, "/tmp/venv/bin/python", "-c", PLAIN, "/srv/sample")
    t.check(got[0] == 0 and len(got[1].split()[0]) == 64, "all tensors", tail(got))
    got = run(*user, "/tmp/venv/bin/ckptfs", "check", "/srv/sample", "--full")
    t.check(got[0] == 0 and "0 findings" in got[1], "its command checks the sample", tail(got))
    got = run(*user, "/tmp/venv/bin/python", "-c", "import ckptfs\nwith ckptfs.mount('/srv/sample'): pass")
    t.check(got[0] != 0 and "ckptfs.Error" in got[1], "a mount is an error that says why", tail(got))


def installed_deb(t, root, deb):
    shutil.copy(deb, root / "srv")
    inside = ["chroot", str(root), "env", "DEBIAN_FRONTEND=noninteractive"]
    got = run(*inside, "apt-get", "install", "-y", "--no-install-recommends", f"/srv/{deb.name}")
    t.check(got[0] == 0, "apt installs the .deb and its dependencies", tail(got))
    got = run(*inside, "ckptfs", "check", "/srv/sample", "--full")
    t.check(got[0] == 0 and "0 findings" in got[1], "the program", tail(got))
    got = run(*inside, "ckptfs", "--version")
    t.check("several hosts" in got[1] and "manual pages" in got[1] and "no GPUs" not in got[1], "its parts", tail(got))
    got = run(*inside, "python3", "-c", PLAIN, "/srv/sample")
    t.check(got[0] == 0, "the Python package", tail(got))
    for file in ("usr/share/man/man1/ckptfs.1.gz", "usr/share/man/man5/ckptfs.5.gz", "usr/share/man/man8/mount.ckptfs.8.gz",
                 "usr/share/bash-completion/completions/ckptfs", "usr/share/zsh/site-functions/_ckptfs",
                 "usr/include/ckptfs/client.h", "usr/lib/x86_64-linux-gnu/pkgconfig/ckptfs.pc"):
        t.check((root / file).is_file(), file)
    got = run(*inside, "dpkg", "--verify", "ckptfs")
    t.check(got == (0, ""), "dpkg --verify", tail(got))
    got = run(*inside, "apt-get", "remove", "-y", "ckptfs")
    left = [str(path) for path in (root / "usr").rglob("*ckptfs*") if "__pycache__" not in str(path)]
    t.check(got[0] == 0 and not left, "apt removes it, with all files", tail(got), left)


def debian_part(t, work, packages):
    if os.geteuid() or not shutil.which("debootstrap") or not mirror():
        t.skip("a Debian 12 in a directory", "needs root, debootstrap, and a source of apt for Debian")
        return
    root = work / "debian"
    got = run("debootstrap", "--variant=minbase", "--include=python3-venv,ca-certificates", "bookworm", root, mirror())
    if got[0]:
        t.check(False, "debootstrap makes a Debian 12", tail(got))
        return
    without_root(t, root, next(packages.glob("*.whl")))
    installed_deb(t, root, next(packages.glob("*.deb")))


def main(work):
    t = Tap()
    parts = sys.argv[2:] or ["wheel", "sdist", "debian"]
    packages = pathlib.Path(os.environ["PACKAGES"]) if "PACKAGES" in os.environ else built_twice(t, work)
    if "wheel" in parts:
        syntax(t)
        versions(t, work)
        wheel_part(t, work, packages)
    if "sdist" in parts:
        sdist_part(t, work, packages)
    if "debian" in parts:
        debian_part(t, work, packages)
    return t.finish()


with tempfile.TemporaryDirectory(prefix="ckptfs-packages-") as folder:
    os.chmod(folder, 0o755)
    status = main(pathlib.Path(folder))
sys.exit(status)
