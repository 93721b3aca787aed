#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Python package without NumPy and PyTorch: the mapping, objects, bytes, errors, fork and pickle.

    python.py PACKAGE LIBRARY

PACKAGE is the directory that has `ckptfs`. The result is TAP.
"""
import errno
import hashlib
import json
import multiprocessing
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
FIXTURES = HERE.parent / "fixtures"
from tap import Tap, raises                                             # noqa: E402

os.environ["CKPTFS_LIBRARY"] = sys.argv[2]
sys.path.insert(0, sys.argv[1])
sys.modules["numpy"] = sys.modules["torch"] = sys.modules["ml_dtypes"] = None  # import raises ImportError
import ckptfs                                                           # noqa: E402

WQ = "model.layers.0.attention.wq.weight"
NORM = "model.norm.weight"


def mapping(t, ck):
    listed = [line.split("\t") for line in (FIXTURES / "sample.tensors.tsv").read_text().splitlines()]
    t.check([(name, tensor.dtype, list(tensor.shape), tensor.nbytes, tensor.chunks) for name, tensor in ck.items()]
            == [(key, dtype, json.loads(shape), int(size), int(chunks)) for key, dtype, shape, size, chunks, *_ in listed],
            "names, dtypes, shapes, sizes and chunks in the order of the checkpoint")
    t.check(len(ck) == len(listed) and WQ in ck and "none" not in ck and 3 not in ck and ck.get("none") is None,
            "a mapping")
    t.check(raises(KeyError, ck.__getitem__, "none").args == ("none",), "an unknown name: KeyError")
    t.check(ck.kind == "dcp" and ckptfs.__version__.count(".") == 2, "kind and version")
    t.check(ck.listdir()[:2] == ["full", "raw"] and ck.getxattr(f"raw/{NORM}", "user.ckptfs.shape") == b"[16]"
            and len(ck.read(f"raw/{NORM}", 60, 100)) == 4, "paths, attributes and bytes")


def objects(t, ck):
    files = {name[:-5]: json.loads(ck.read(f"objects/{name}")) for name in ck.listdir("objects")
             if name.endswith(".json")}
    t.check(dict(ck.objects) == files and len(ck.objects) == len(files) and files["optim.param_groups.0.lr"] == 0.001,
            "objects are decoded JSON")
    t.check(raises(KeyError, ck.objects.__getitem__, "none"), "an unknown object: KeyError")
    t.check(ck == ck and ck != ckptfs.open(FIXTURES / "sample") and ck in {ck}, "a checkpoint is equal to itself only")


def texts(t, ck):
    t.check(NORM in repr(ck) and "... 64 more" in repr(ck) and repr(ck[NORM]).endswith("float32 [16]>"), "repr")
    html = ck._repr_html_()
    t.check(html.count("<tr>") == len(ck) + 1 and html.count("<td") == 5 * len(ck), "a table for notebooks")
    title = repr(ckptfs.open(FIXTURES / "plain")).split("\n")[0]
    t.check(": 5 tensors, " in title and title.endswith(", 1 other entry"), "a title", title)


def relative(t):
    """A path stays the same directory after chdir(), also in a pickle."""
    before = os.getcwd()
    os.chdir(FIXTURES)
    try:
        ck = ckptfs.open("sample")
        os.chdir("/")
        t.check(pickle.loads(pickle.dumps(ck))[NORM].shape == (16,), "a relative path, pickled after chdir()")
    finally:
        os.chdir(before)


def indexes(t, ck):
    w = ck[WQ]
    t.check([w[i].shape for i in (0, -1, slice(2, 9, 3), Ellipsis, (Ellipsis, 1), (slice(9, 2), 3), slice(10**30), ())]
            == [(16,), (16,), (3, 16), (16, 16), (16,), (0,), (16, 16), (16, 16)], "shapes of parts")
    t.check(w[4:][2:9:3][1, 5:].shape == (11,) and w[4:][2:9:3][1].nbytes == 64, "parts of parts")
    wrong = (True, None, 1.0, "a", [1], slice(None, None, -1), slice(None, None, 0), (Ellipsis, Ellipsis), slice(True))
    t.check([raises(TypeError, w.__getitem__, i) is not None for i in wrong] == [True] * len(wrong),
            "other indexes: TypeError")
    t.check([raises(IndexError, w.__getitem__, i) is not None for i in (16, -17, (0, 0, 0))] == [True] * 3,
            "out of bounds: IndexError")


def without_libraries(t, ck):
    for name, accessor in (("numpy", ck[NORM].numpy), ("torch", ck[NORM].torch), ("torch", ck.state_dict)):
        e = raises(ImportError, accessor)
        t.check(e and e.name == name and name in str(e), f"no {name}: ImportError of {accessor.__name__}", e)


def buffers(t, ck):
    out = {name: bytearray(ck[name].nbytes) for name in ck}
    again = ck.state_dict(out=out)
    t.check(again == out and all(bytes(out[name]) == ck.read(f"raw/{name}") for name in ck), "state_dict(out=buffers)")
    part = {"norm.weight": bytearray(64)}
    ck.state_dict("model", out=part)
    t.check(part["norm.weight"] == out[NORM], "a prefix, and names of `out` only")
    wrong = (bytearray(63), bytes(64), memoryview(bytearray(128))[::2], 3)
    t.check([raises(TypeError, lambda place=place: ck.state_dict(out={NORM: place})) is not None for place in wrong]
            == [True] * len(wrong), "destinations that do not fit: TypeError")
    t.check(raises(KeyError, lambda: ck.state_dict(out={"none": bytearray(1)})), "a name that is not there: KeyError")


def ranks(t):
    """local/ and sharded/ are mappings of their files; an npy file ends with its elements."""
    for source, directory, parts_of in (
            ("sample", "local/rank-2", lambda ck: ck.local(2)), ("sample", "sharded/3/rank-1", lambda ck: ck.sharded(3, 1)),
            ("mesh2d", "sharded/dp=2,tp=2/rank-3", lambda ck: ck.sharded("dp=2,tp=2", 3)),
            ("ranks_slices", "local/rank-1", lambda ck: ck.local("rank-1")),
            ("ranks_flat_2", "local/rank-1", lambda ck: ck.local(1)), ("dtypes_sharded", "local/rank-0", lambda ck: ck.local(0))):
        ck = ckptfs.open(FIXTURES / source)
        parts = parts_of(ck)
        files = [name for name in ck.listdir(directory) if name.endswith(".npy")]
        out = {name: bytearray(part.nbytes) for name, part in parts.items()}
        parts.state_dict(out=out)
        t.check(len(parts) == len(files) > 0 and all(
            ck.read(f"{directory}/{file}")[-part.nbytes:] == out[name] or not part.nbytes
            for file, (name, part) in zip(files, parts.items())), f"{directory} of {source}: {len(files)} files")
        t.check(directory in repr(parts) and parts._repr_html_().count("<tr>") == len(files) + 1, "and its repr")
    ck = ckptfs.open(FIXTURES / "sample")
    part = ck.local(2)[WQ]
    t.check((part.shape, part.offset, part[1:3, 2].shape, part.check()) == ((4, 16), (8, 0), (2,), None), "a part")
    t.check(bytes(part[1:3, ::4]._bytes()) == bytes(ck[WQ][9:11, ::4]._bytes()), "and a slice of it")
    rare = ckptfs.open(FIXTURES / "dtypes_rare").sharded(3, 0)
    t.check("quint4x2" in repr(rare) and rare["good"].shape == (1, 2), "parts of dtypes without whole bytes")
    for wrong in (lambda: ck.local(4), lambda: ck.sharded("x", 0), lambda: ck.sharded(3, 3)):
        t.check(raises(ckptfs.Error, wrong).errno == errno.ENOENT, "no such rank: ENOENT")


def all_fixtures(t):
    """Bytes of every tensor, against the digests of the fixtures, which PyTorch made."""
    wrong, n = [], 0
    for path in sorted(FIXTURES.glob("*.sha256")):
        lines = (line.split("  ", 1) for line in path.read_text(errors="surrogateescape").split("\n") if line)
        digests = {name.replace("\\\\", "\\") if digest[0] == "\\" else name: digest.lstrip("\\")
                   for digest, name in lines}
        try:
            ck = ckptfs.open(path.with_suffix(""))
        except ckptfs.Error:
            continue
        names = {name: f"raw/{ck[name].stem}" for name in ck if f"raw/{ck[name].stem}" in digests}
        out = {name: bytearray(ck[name].nbytes) for name in names}
        ck.state_dict(out=out)
        wrong += [f"{path.stem}: {name}" for name in names
                  if hashlib.sha256(out[name]).hexdigest() != digests[names[name]]]
        n += len(names)
    t.check(not wrong and n > 2000, f"{n} tensors of all fixtures", wrong[:9])


def damaged(t, work):
    """The shape in the first item of WQ differs, at byte 2575 of __0_0.distcp."""
    place = shutil.copytree(FIXTURES / "sample", work / "bad")
    with open(place / "__0_0.distcp", "r+b") as f:
        f.seek(2575)
        f.write(b"\5")
    ck = ckptfs.open(place)
    out = {name: bytearray(ck[name].nbytes) for name in ck}
    e = raises(ckptfs.Error, lambda: ck.state_dict(out=out))
    t.check((e.errno, e.fqn, e.file, e.expected, e.found) == (errno.EIO, WQ, "__0_0.distcp", "[4,16]", "[5,16]")
            and isinstance(e, OSError), "damage: errno, FQN, file, expected, found")
    t.check(all(part in str(e) for part in (WQ, "__0_0.distcp", "expected [4,16], found [5,16]")), "and its message", e)
    good = ckptfs.open(FIXTURES / "sample")
    t.check([name for name in ck if out[name] != good.read(f"raw/{name}")] == [WQ], "the rest is read")
    t.check(raises(ckptfs.Error, ck[WQ].check).fqn == WQ and ck[NORM].check() is None, "check()")
    same = pickle.loads(pickle.dumps(e))
    t.check((str(same), same.fqn, same.found) == (str(e), e.fqn, e.found), "the error can be pickled")


def refused(t, work):
    for source, options, number, why in (
            ("/nonexistent", "", errno.ENOENT, "/nonexistent"), (work, "nonsense", errno.EINVAL, "nonsense"),
            (FIXTURES / "sample", "write", errno.EINVAL, "only for mounts"),
            (FIXTURES / "sample", "hosts=a+b", errno.EOPNOTSUPP, "one host"),
            (FIXTURES / "should-fail-dangerous-global", "", errno.EBADMSG, "")):
        e = raises(ckptfs.Error, ckptfs.open, source, options)
        t.check(e and e.errno == number and why in str(e), f"refused: {pathlib.Path(source).name} {options}", e)
    ck = ckptfs.open(FIXTURES / "sample")
    t.check(all(raises(ValueError, ck.read, f"raw/{NORM}", *part) for part in ((-1,), (0, -1)))
            and ck.read(f"raw/{NORM}", 60, 1 << 44) == ck.read(f"raw/{NORM}")[60:] and ck.read(f"raw/{NORM}", 1 << 64) == b"",
            "read() takes no negative numbers, and ends at the end of the file")
    t.check(raises(ValueError, ck.read, f"raw/{NORM}\0x") and raises(ValueError, ck.listdir, "full\0"),
            "a path with NUL: ValueError")
    t.check(raises(ValueError, ckptfs.open, "a\0b") and raises(ValueError, ckptfs.open, "a", "b\0"), "NUL: ValueError")
    shutil.copytree(FIXTURES / "sample", work / "run/step-1")
    e = raises(ckptfs.Error, ckptfs.open, work / "run")
    t.check(e.errno == errno.EISDIR and str(e).endswith("steps: step-1"), "a run directory names its steps", e)


def in_child(ck):
    out = {NORM: bytearray(64)}
    return bytes(ck.state_dict(out=out)[NORM])


def processes(t, ck):
    want, stop, wrong = in_child(ck), threading.Event(), []

    def read_on():
        while not stop.is_set():
            if in_child(ck) != want:
                wrong.append(1)

    readers = [threading.Thread(target=read_on) for _ in range(3)]
    for reader in readers:
        reader.start()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        # ck travels as its source and options: each child opens it again.
        t.check(set(pool.map(in_child, [ck] * 8)) == {want}, "pickled to children of fork()")
    for _ in range(5):
        pid = os.fork()
        if pid == 0:
            os._exit(in_child(ck) != want)
        if os.waitpid(pid, 0)[1]:
            wrong.append(2)
    stop.set()
    for reader in readers:
        reader.join()
    t.check(not wrong, "read by threads, and by children of fork()", wrong)
    w = ck[NORM]
    with w._lock:
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            os._exit(w._bytes() != want)
    t.check(os.waitpid(pid, 0)[1] == 0, "a tensor that another thread reads during fork()")


def closed(t):
    with ckptfs.open(FIXTURES / "sample") as ck:
        w = ck[NORM]
    t.check(raises(ValueError, lambda: ck[NORM]) and raises(ValueError, ck.__len__) and raises(ValueError, w._bytes)
            and w.shape == (16,) and "closed" in repr(ck), "closed: ValueError")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        ckptfs.open(FIXTURES / "sample")[NORM].dtype  # noqa: B018
    t.check(len(os.listdir("/proc/self/fd")) == before, "no descriptor is left")


def documented(t):
    """Public functions have texts, and types of results."""
    import inspect
    wrong = []
    for name in ckptfs.__all__:
        value = getattr(ckptfs, name)
        members = inspect.getmembers(value, lambda m: callable(m) or isinstance(m, property)) if inspect.isclass(value) else []
        for part, member in [(name, value)] + [(f"{name}.{part}", member) for part, member in members if part[0] != "_"
                                               and part in vars(value)]:
            function = member.fget if isinstance(member, property) else member
            if not inspect.getdoc(member) or inspect.isfunction(function) and "return" not in function.__annotations__:
                wrong.append(part)
    t.check(not wrong, "docstrings, and types of results", wrong)


def syntax(t, package):
    import ast
    files = sorted(pathlib.Path(package, "ckptfs").glob("*.py"))
    for minor in range(9, 14):
        for file in files:
            ast.parse(file.read_text(), feature_version=(3, minor))
    t.check(len(files) >= 6, "syntax of Python 3.9 to 3.13")
    done = subprocess.run([sys.executable, "-c", "import ckptfs; print(ckptfs.open)"], text=True, stdout=subprocess.PIPE,
                          env={"PYTHONPATH": package, "CKPTFS_LIBRARY": "/nonexistent"}, check=False)
    t.check(done.returncode == 0, "importing needs no library")
    done = subprocess.run([sys.executable, "-c", "import ckptfs; ckptfs.open('x')"], text=True, stderr=subprocess.PIPE,
                          env={"PYTHONPATH": package, "CKPTFS_LIBRARY": "/nonexistent"}, check=False)
    t.check("ImportError: libckptfs.so.1" in done.stderr, "opening names the library that is missing", done.stderr)


def main():
    t = Tap()
    ck = ckptfs.open(FIXTURES / "sample")
    for test in (mapping, objects, texts, indexes, without_libraries, buffers, processes):
        test(t, ck)
    all_fixtures(t)
    ranks(t)
    relative(t)
    closed(t)
    documented(t)
    syntax(t, sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="ckptfs-client.") as work:
        damaged(t, pathlib.Path(work))
        refused(t, pathlib.Path(work))
    return t.finish()


if __name__ == "__main__":
    sys.exit(main())
