# SPDX-License-Identifier: MIT
"""See cp-resume.sh: an interrupted copy, and the run that completes it."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE.parent / "crash")]
import injector  # noqa: E402
from tap import Tap, cases, seed  # noqa: E402

CKPTFS, MUTE = os.environ["CKPTFS"], os.environ["LIBMUTE_BIN"]
tap, top = Tap(), pathlib.Path("top")
out = top / "out"


def cp(*arguments, **more):
    return subprocess.run([CKPTFS, "cp", "-r", *map(str, arguments)], text=True, capture_output=True, **more)


def resume(*arguments, **more):
    return cp("--resume", *arguments, **more)


def skipped(done):
    """(skipped, all) of the last line, or the whole output."""
    words = (done.stderr.splitlines() or [""])[-1].split()
    return (int(words[2]), int(words[5])) if words[:2] == ["ckptfs:", "skipped"] else done.stderr


def tree(folder):
    """Type, mode, time and bytes of a directory and all files below it, without counters of reads."""
    folder = pathlib.Path(folder)
    return {str(p.relative_to(folder)): (p.lstat().st_mode, p.lstat().st_mtime_ns, p.read_bytes() if p.is_file() else b"")
            for p in [folder, *folder.rglob("*")] if p.parts[-2:] != (".ckptfs", "stats")}


def inodes(folder):
    return {p.name: p.stat().st_ino for p in pathlib.Path(folder).rglob("*") if p.is_file()}


def left(folder=top):
    """Temporary files and marks."""
    return [str(p) for p in pathlib.Path(folder).rglob(".ckptfs-*")]


def marks(folder=top):
    return list(pathlib.Path(folder).rglob(".ckptfs-copy-*"))


def other(a, b):
    """Names that differ between two trees."""
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))


def start():
    subprocess.run(["chmod", "-R", "u+w", str(top)], check=False, stderr=subprocess.DEVNULL)
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()


def want(*arguments):
    """The tree of an uninterrupted copy of the same source."""
    start()
    cp(*arguments, out)
    return tree(out)


def killed(at, *arguments, calls=("renameat",), late=True, into=out):
    """Sends SIGKILL at the call of that number in the copy's directory, by default after a
    rename."""
    fault = injector.Kill(at, late, counted=frozenset(calls) if calls else injector.CHANGES)
    injector.Injector([CKPTFS, "cp", "-r", "-j", "1", *map(str, arguments), str(into)], str(top.resolve()), fault).wait()
    return fault


def saved(name, source="small"):
    """A copy of a checkpoint with all of its times."""
    shutil.rmtree(name, ignore_errors=True)
    shutil.copytree(source, name)
    return pathlib.Path(name)


# --- a directory that the first run made --------------------------------------------
# The first rename is that of DEST, each later one that of a file.

whole = want("small", "full")
start()
killed(4, "small", "full")
before, mark = inodes(out), marks()
tap.check(len(before) == 4 and len(mark) == 1 and mark[0].parent == out, "killed: three files and a mark", before, mark)
done = cp("small", "full", out)
tap.check(done.returncode == 2 and done.stderr == "ckptfs: top/out: an incomplete copy; --resume completes it\n" and
          not (out / "full").exists(), "without --resume: refused, and no directory in it", done)
done = resume("small", "full", out)
tap.check(done.returncode == 0 and not other(tree(out), whole), "resumed: as if it had not been interrupted",
          done, other(tree(out), whole))
# The last file has its final name, but is not in the mark.
tap.check(skipped(done) == (2, 5), "resumed: two files of five are skipped", done)
tap.check(sum(before.get(name) == ino for name, ino in inodes(out).items()) == 2, "resumed: those are the same files", before)
tap.check(not left(), "resumed: no mark and no temporary file", left())
(out / "t0.npy").chmod(0o600)
tap.check(other(tree(out), whole) == ["t0.npy"], "canary: another mode is found", other(tree(out), whole))
done = resume("small", "full", out)
tap.check(done.returncode == 2 and "has files of such a copy, and no mark of an interrupted one; it may be" in done.stderr and not (out / "full").exists(),
          "complete: --resume makes no directory in it", done)
out.chmod(0o755)
(out / "t0.npy").unlink()
done = resume("small", "full", out)
tap.check(done.returncode == 2 and "no mark" in done.stderr and not (out / "full").exists(),
          "complete, and the first file removed: --resume makes no directory in it", done)
start()
killed(4, "small", "full")
done = resume("small", "raw", out)
tap.check(done.returncode == 0 and skipped(done) == (0, 5) and (out / "raw").is_dir() and marks() == mark,
          "another directory: not skipped, and no mark is lost", done)
tap.check(skipped(resume("small", "full/", out)) == (2, 5), "a PATH may be spelled otherwise", marks())

# Its temporary name is known in advance.
start()
seen = killed(1, "small", "full", calls=("mkdirat",)).seen
planted = top / pathlib.Path(seen[0].paths[-1]).name
tap.check(planted.name.startswith(".ckptfs-cp-") and planted.is_dir(), "killed: DEST has its temporary name", seen)
(planted / "config.json").write_text("planted")
if os.geteuid() == 0:
    os.chown(planted, 65534, 65534)
    done = cp("small", "full", out)
    got, kept = tree(out), left()
    tap.check(done.returncode == 0 and not other(got, whole) and kept == [str(planted)] and (planted / "config.json").exists(),
              "a directory of another user has the temporary name: it does not become DEST", done, kept, other(got, whole))

# --- a directory that existed --------------------------------------------------------

start()
out.mkdir()
(out / "own").write_text("own")
killed(3, "small", "full", "raw")
tap.check(marks() and marks()[0].parent == out, "into a directory: it has the mark", marks())
done = resume("small", "full", "raw", out)
tap.check(done.returncode == 0 and skipped(done) == (2, 10) and not other(tree(out / "full"), whole) and
          sorted(os.listdir(out)) == ["full", "own", "raw"], "into a directory: resumed there", done, os.listdir(out))
start()
out.mkdir()
killed(3, "small", "full")
done = cp("small", "full", out)
tap.check(done.returncode == 0 and not done.stderr and not other(tree(out / "full"), whole) and not left(),
          "into a directory, without --resume: all is copied", done, left())
done = resume("small", "full", out)
tap.check(done.returncode == 0 and skipped(done) == (0, 5), "into a directory: nothing to resume", done)

# --- files that must be copied again ---------------------------------------------------------


def not_skipped(what, change, count, *options, first=(), source="changing"):
    """After the change, so many of the five files are skipped, and the result equals a new
    copy."""
    start()
    saved(source)
    killed(5, *first, source, "full")
    change(pathlib.Path(source))
    done = resume(*options, source, "full", out)
    got = tree(out)
    expect = want(*options, source, "full")
    tap.check(done.returncode == 0 and skipped(done) == (count, 5) and not other(got, expect), what, done, other(got, expect))


def rewritten(source):
    data = bytearray((source / "__0_0.distcp").read_bytes())
    data[3000:3008] = b"12345678"
    (source / "__0_0.distcp").write_bytes(data)


def in_place(source):
    """Other bytes under the old mtime."""
    st = (source / "__0_0.distcp").stat()
    rewritten(source)
    os.utime(source / "__0_0.distcp", ns=(st.st_atime_ns, st.st_mtime_ns))


def resaved(source):
    text = (source / ".metadata").read_bytes()
    (source / ".metadata").unlink()
    (source / ".metadata").write_bytes(text)


def extended(_):
    with open(sorted(out.glob("t*"))[0], "ab") as file:
        file.write(b"x")


def altered(_):
    """Same size and mtime; only the ctime differs."""
    path = sorted(out.glob("t*"))[0]
    st = path.stat()
    path.chmod(0o644)
    with open(path, "r+b") as file:
        file.write(b"x")
    path.chmod(st.st_mode & 0o777)
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


def removed(_):
    sorted(out.glob("t*"))[0].unlink()


def rebooted(_):
    """Lines of another boot."""
    marks()[0].write_text(re.sub(r" [0-9a-f]{32}$", " " + "0" * 32, marks()[0].read_text(), flags=re.M))


not_skipped("control: nothing has changed", lambda _: None, 3)
not_skipped("a data file was written: all is copied again", rewritten, 0)
not_skipped("a data file has other bytes, size and mtime as before: all is copied again", in_place, 0)
not_skipped("saved again: all is copied again", resaved, 0)
not_skipped("a copy is longer: it is copied again", extended, 2)
not_skipped("a copy has other bytes, size and mtime as before: it is copied again", altered, 2)
not_skipped("a copy is gone: it is copied again", removed, 2)
not_skipped("the host has restarted: all is copied again", rebooted, 0)
not_skipped("--sync: the host has restarted, and nothing is lost", rebooted, 3, first=["--sync"])
not_skipped("--sync of what was not: skipped", lambda _: None, 3, "--sync")

hf = ["-o", "hf_shard_size=100K"]
start()
killed(4, *hf, "small", "hf")
before = sorted(p.name for p in out.glob("*.safetensors"))
(out / before[0]).write_bytes(b"own")
more = ["-o", "hf_shard_size=200K"]
done = resume(*more, "small", "hf", out)
own = (out / before[0]).read_bytes() if (out / before[0]).exists() else None
(out / before[0]).unlink(missing_ok=True)
got = sorted(os.listdir(out))
tap.check(done.returncode == 0 and skipped(done) == (0, 4) and len(before) == 3,
          "another hf_shard_size=: nothing is skipped", done, before)
tap.check(own == b"own" and got == sorted(name for name in want(*more, "small", "hf") if name != "."),
          "files that only the killed run had are removed, unless they were changed since", own, got)
whole_hf = want(*hf, "small", "hf")
start()
killed(3, *hf, "small", "hf")
done = resume(*hf, "small", "hf", out)
tap.check(done.returncode == 0 and skipped(done)[0] == 1 and not other(tree(out), whole_hf) and len(whole_hf) == 7,
          "hf/ in several files: one is skipped", done, list(whole_hf))

# --- temporary files, and concurrent copies ---------------------------------------------

start()
killed(2, "large", "raw", calls=("pwrite64",))
stale = [name for name in left() if "-cp-" in name]
foreign = out / ".ckptfs-cp-0123456789abcdef"
foreign.write_text("another copy")
done = resume("large", "raw", out)
tap.check(len(stale) == 1 and left() == [str(foreign)], "a temporary file of the killed run is removed, no other", stale, left())


def slow(hold):
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return {**os.environ, "LD_PRELOAD": MUTE, "MUTE_WRITE": "0", "MUTE_HOLD": str(hold), "ASAN_OPTIONS": asan}


def held(*arguments):
    """Starts a copy that waits before its first byte while the file `hold` exists."""
    pathlib.Path("hold").touch()
    copy = subprocess.Popen([CKPTFS, "cp", "-r", *arguments, str(out)], env=slow(pathlib.Path("hold").resolve()),
                            stderr=subprocess.PIPE, text=True)
    while copy.poll() is None and not any("-cp-" in p.name for p in out.glob(".ckptfs-*")):
        time.sleep(0.01)
    return copy


start()
copy = held("large", "raw")
before = left()
done = resume("large", "raw", out)
tap.check(done.returncode == 2 and done.stderr == "ckptfs: top/out: another process is making this copy\n" and left() == before,
          "a second run while the first one copies: refused", done, before, left())
pathlib.Path("hold").unlink()
tap.check(copy.wait() == 0 and not left(), "the first one ends well", left())
for number in signal.SIGINT, signal.SIGTERM:
    start()
    copy = held("large", "raw")
    copy.send_signal(number)
    pathlib.Path("hold").unlink()
    said = copy.communicate()[1]
    tap.check(copy.returncode == -number and left() == [str(marks()[0])], f"{number.name}: the mark stays, and nothing else", left())
    tap.check(said == "ckptfs: top/out: an incomplete copy; --resume completes it\n", f"{number.name}: a line names --resume", said)
done = resume("large", "raw", out)
tap.check(done.returncode == 0 and tree(out) == want("large", "raw"), "after a signal: resumed", done)

# --- files that cannot be written, or read ---------------------------------------------

start()
done = subprocess.run(["bash", "-c", 'ulimit -f 20000; exec "$0" cp -j 1 -r "$@"', CKPTFS, "large", "raw", str(out)],
                      text=True, capture_output=True)
tap.check(done.returncode == 2 and "File too large" in done.stderr and marks(), "no room for a file: 2, and a mark", done)
shutil.copytree("small", "torn")
torn = pathlib.Path("torn/__1_0.distcp")
data = torn.read_bytes()
start()
os.truncate(torn, len(data) // 2)
done = cp("torn", "raw", out)
tap.check(done.returncode == 1 and marks(), "damage: 1, and a mark", done)
os.truncate(torn, 0)
torn.write_bytes(data)
done = resume("torn", "raw", out)
tap.check(done.returncode == 0 and not left() and tree(out) == want("torn", "raw"), "the damage is repaired: complete", done)

# --- the order of --sync ----------------------------------------------------------------

start()
trace = [(call.name, call.paths[-1].rsplit("/", 1)[-1]) for call in killed(0, "--sync", "small", "full", calls=()).seen]
done_at = [i for i, call in enumerate(trace) if call[0] == "renameat" and call[1].startswith("t")]
good = [i for i in done_at if trace[i - 2][0] == "fsync" and trace[i + 1][0] == "write" and "-copy-" in trace[i + 1][1]]
tap.check(len(good) == 5 and good == done_at, "--sync: bytes, then the name, then the mark", trace)

# --- files of 5 GiB -----------------------------------------------------------------------


def sparse(path, *sizes):
    """A sparse safetensors file with such tensors."""
    head, at = {}, 0
    for i, size in enumerate(sizes):
        head[f"t{i}"] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + at)


def planned(*arguments):
    """Names of the files in a copy of hf/, each of at most 1 MB."""
    start()
    done = subprocess.run(["bash", "-c", 'ulimit -f 1000; exec "$0" cp "$@"', CKPTFS, *arguments, str(out)],
                          text=True, capture_output=True)
    return sorted(line.split(": ")[1].rsplit("/", 1)[-1] for line in done.stderr.splitlines() if "too large" in line)


G = 1 << 30
halves = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
sparse(pathlib.Path("huge/model.safetensors"), 3 * G, 2 * G, 1 << 20)
tap.check(planned("-r", "huge", "hf") == halves, "more than 5 GiB: two files", left())
index = json.loads((out / "model.safetensors.index.json").read_text())
tap.check(index["weight_map"] == {"t0": halves[0], "t1": halves[0], "t2": halves[1]}, "exactly 5 GiB are in one", index)
tap.check(planned("-r", "-o", "hf_shard_size=100G", "huge", "hf") == ["model.safetensors"], "hf_shard_size=100G: one file")
tap.check(planned("-r", "huge", "hf/model.safetensors") == [out.name], "a file by its name in ls: one file")
tap.check(planned("huge", "hf/model.safetensors") == [out.name], "without -r: as in a mount")
listed = subprocess.run([CKPTFS, "ls", "huge", "hf"], text=True, capture_output=True, check=False).stdout.split()
tap.check(listed == ["model.safetensors"], "ls: one file", listed)
pathlib.Path("template").mkdir()
pathlib.Path("template/model.safetensors.index.json").write_text(json.dumps({"weight_map": dict.fromkeys(index["weight_map"], "all.safetensors")}))
tap.check(planned("-r", "-o", "hf_template=template", "huge", "hf") == ["all.safetensors"], "the index of a template decides")

# --- killed anywhere -------------------------------------------------------------------------


def anywhere(what, existing, arguments, points, dice):
    """Kills a copy at random calls, kills the resumed one too, and resumes it."""
    expect, hits, bad = None, set(), []
    start()
    if existing:
        out.mkdir()
    count = len(killed(0, *arguments, calls=()).seen)
    expect = tree(out)
    for _ in range(points):
        start()
        if existing:
            out.mkdir()
        at, late = dice.randrange(1, count + 1), dice.random() < 0.5
        hits.add(killed(at, *arguments, calls=(), late=late).hit.name)
        # A copy without a mark is complete: another one would leave its directories with new times.
        again = dice.randrange(1, count + 1) if dice.random() < 0.5 else 0
        if again and marks():
            killed(again, "--resume", *arguments, calls=(), late=late)
        made = out / "full" if existing else out
        done = resume(*arguments, out) if marks() or not made.exists() else None
        # A kill between the removal of the mark and the end leaves only the time of the directory undone.
        wrong = [name for name in other(tree(out), expect) if name != "." or not existing]
        if (done and done.returncode) or (wrong and (done or wrong != ["."])) or left():
            bad.append((at, late, done, other(tree(out), expect), left()))
    tap.check(not bad, f"killed anywhere, {what}: {points} copies are complete", *bad[:3], sorted(hits))


number = cases("CKPTFS_KILLS", 3, 100)
lot = random.Random(seed())
anywhere("a new directory", False, [*hf, "small", "hf"], number, lot)
anywhere("in a directory", True, ["small", "full", "local"], number, lot)
anywhere("--sync", False, ["--sync", "small", "."], number, lot)
start()
sys.exit(tap.finish())
