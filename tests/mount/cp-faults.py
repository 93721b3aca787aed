# SPDX-License-Identifier: MIT
"""See cp-faults.sh: the files that an interrupted or failed copy leaves."""
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE.parent / "crash")]
import injector  # noqa: E402
from tap import Tap, cases, seed  # noqa: E402

class Said(Tap):
    """Prints details of failed results only."""

    def result(self, good, what, notes=()):
        super().result(good, what, () if good else notes)


CKPTFS, MUTE = os.environ["CKPTFS"], os.environ["LIBMUTE_BIN"]
tap, dest = Said(), pathlib.Path("dest")


def cp(*arguments, **more):
    return subprocess.run([CKPTFS, "cp", *arguments], text=True,
                          capture_output=True, **more)


def right(folder):
    """The bytes of each file below a directory by relative path: the files that a copy may contain, besides the mark of an
    incomplete copy."""
    return {str(p.relative_to(folder)): p.read_bytes()
            for p in pathlib.Path(folder).rglob("*") if p.is_file() and not p.name.startswith(".ckptfs-copy-")}


def temporary(folder):
    return [p.name for p in pathlib.Path(folder).rglob(".ckptfs-cp-*")]


def wrong(folder, want):
    """Incomplete files under their final names."""
    return [name for name, data in right(folder).items()
            if not pathlib.Path(name).name.startswith(".ckptfs-cp-") and
            want.get(name) != data]


def anew():
    shutil.rmtree(dest, ignore_errors=True)
    dest.mkdir()


def slow(msec, **more):
    asan = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    return {**os.environ, "LD_PRELOAD": MUTE, "MUTE_WRITE": str(msec),
            "ASAN_OPTIONS": asan, **more}


# --- killed ---------------------------------------------------------------------

def killed_at(source, what, at, late):
    """Returns the call before or after which cp was killed, or None; and the errors."""
    anew()
    fault = injector.Kill(at, late)
    injector.Injector([CKPTFS, "cp", "-r", "-j", "2", "--sync", source, *what,
                       str(dest)], str(dest.resolve()), fault).wait()
    return fault.hit, len(fault.seen)


def kill(source, what, points):
    assert cp("-r", source, *what, "want").returncode in (0, 2)
    anew()
    cp("-r", source, *what, str(dest))
    want, names, bad = right(dest), set(), []
    hit, count = killed_at(source, what, 0, False)
    tap.result(hit is None and not wrong(dest, want) and
               right(dest) == want, f"{source}: not killed it copies all")
    for at in points(count):
        for late in (False, True):
            hit, _ = killed_at(source, what, at, late)
            names.add(hit.name if hit else "none")
            bad += [(at, late, name) for name in wrong(dest, want)]
    tap.result(not bad, f"{source}: killed at {sorted(names)}", map(str, bad))
    return names


EACH = cases("CKPTFS_NTH", 3, 1)
names = kill("small", ["raw"], lambda count: range(1, count + 1, EACH))
tap.result(EACH > 1 or {"openat", "pwrite64", "fchmod", "utimensat", "fsync",
                        "renameat"} <= names, "these are calls of all kinds", sorted(names))
dice = random.Random(seed())
kill("large", ["full/t0.npy"],
     lambda count: sorted(dice.sample(range(1, count + 1), cases("CKPTFS_KILLS", 2, 6))))


# The oracle must detect an incomplete file.
anew()
(dest / "t0").write_bytes(b"half")
tap.result(wrong(dest, {"t0": b"whole"}) == ["t0"], "a half file is found")

# --- signals --------------------------------------------------------------------

HOLD = pathlib.Path("hold")


def begun(*command):
    """Starts a copy that creates a temporary file, and writes no byte while the file HOLD
    exists."""
    anew()
    HOLD.touch()
    copy = subprocess.Popen([*command, str(dest)], env=slow(0, MUTE_HOLD=str(HOLD.resolve())),
                            text=True, stderr=subprocess.PIPE)
    while not temporary(dest) and copy.poll() is None:
        time.sleep(0.01)
    return copy


def signalled(copy, number):
    copy.send_signal(number)
    HOLD.unlink()
    return copy.communicate()[1]


for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    copy = begun(CKPTFS, "cp", "-r", "large", "raw", "full")
    said = signalled(copy, number)
    tap.result(copy.returncode == -number and
               said == "ckptfs: dest: an incomplete copy; --resume completes it\n",
               f"{number.name}: it dies of it, and a line names --resume", [f"{copy.returncode} {said}"])
    tap.result(not right(dest), f"{number.name}: nothing is left",
               right(dest))
copy = begun("nohup", CKPTFS, "cp", "large", "raw/t0")
signalled(copy, signal.SIGHUP)
tap.result(copy.returncode == 0, "a signal that is ignored ends nothing")

# A second copy completes the files of an interrupted one.
signalled(begun(CKPTFS, "cp", "-r", "large", "raw"), signal.SIGTERM)
mode = (dest / "raw").stat().st_mode & 0o777
tap.result(mode == 0o755, "what was begun shows to others what it will",
           [oct(mode)])
tap.result(cp("-r", "large", "raw", str(dest)).returncode == 0 and
           not temporary(dest), "it can be ended")

# --- standard error is not read ----------------------------------------------------
shutil.copytree("small", "torn")
os.truncate("torn/__1_0.distcp", 1000)


def unread(*last):
    """Starts a copy with many messages to a full pipe. Returns it and the read end."""
    anew()
    end, begin = os.pipe()
    os.set_blocking(begin, False)
    while True:
        try:
            os.write(begin, b"x" * 4096)
        except BlockingIOError:
            break
    os.set_blocking(begin, True)
    copy = subprocess.Popen([CKPTFS, "cp", "-r", "-j", "4", "torn", "raw",
                             "local", *last, str(dest)], stderr=begin)
    os.close(begin)
    return copy, end


copy, end = unread()
time.sleep(0.5)
tap.result(copy.poll() is None, "who is not read waits")
copy.terminate()
try:
    tap.result(copy.wait(60) == -signal.SIGTERM, "SIGTERM ends that")
except subprocess.TimeoutExpired:
    tap.result(False, "SIGTERM ends that")
    copy.kill()
tap.result(not temporary(dest), "and nothing is left", temporary(dest))
os.close(end)
copy, end = unread()
os.close(end)
tap.result(copy.wait() == 1, "whose reader is gone copies the rest",
           [str(copy.returncode)])
tap.result(not temporary(dest) and len(list((dest / "local/rank-0").iterdir()))
           == 3, "all of it", temporary(dest))

# --- too large ----------------------------------------------------------------------
anew()
big = b"\x8a\x08" + (1 << 53).to_bytes(8, "little")
data = pathlib.Path("single/.metadata").read_bytes()
pathlib.Path("single/.metadata").write_bytes(data.replace(b"M\x00\x02", big, 2))
done = cp("-r", "single", "raw", str(dest))
tap.result(done.returncode == 1 and done.stderr.startswith("ckptfs: raw/t0: ")
           and done.stderr.count("\n") == 1 and set(right(dest)) ==
           {"raw/t1", "raw/t2"}, "a size that is damage is damage",
           [str(done)])
anew()
done = subprocess.run(
    ["bash", "-c", 'ulimit -f 1000; "$0" cp -j 1 large raw/t0 dest; s=$?; '
     '"$0" cp -j 1 small raw/t0 raw/t1 dest && exit $s', CKPTFS],
    text=True, capture_output=True)
tap.result(done.returncode == 2 and done.stderr ==
           "ckptfs: dest/t0: File too large\n" and not temporary(dest),
           "a file that may not be so large: its name, and 2", [str(done)])

# --- no space -------------------------------------------------------------------
cp("small", "raw/t0", "raw/t1", "raw/t2", str(dest))
want = right(dest)
done = cp("-r", "small", "raw", "space")
small = {"raw/" + name: data for name, data in want.items()
         if (dest / name).stat().st_size < 10 ** 6}
done = cp("-j", "4", "large", "full/t0.npy", "raw/t0", "space")
tap.result(done.returncode == 2, "no space: 2", [str(done)])
tap.result(done.stderr in
           [f"ckptfs: space/{name}: No space left on device\n"
            for name in ("t0.npy", "t0")], "no space: one line", [done.stderr])
tap.result(set(right("space")) == {"raw/t0", "raw/t1", "raw/t2"} and
           not temporary("space"), "no space: what was complete stays",
           list(right("space")))
subprocess.run(["mount", "-o", "remount,ro", "space"], check=True)
done = cp("small", "raw/t0", "raw/t1", "space")
tap.result(done.returncode == 2 and done.stderr in
           [f"ckptfs: space/t{n}: Read-only file system\n" for n in (0, 1)],
           "a file system for reading: one line", [done.stderr])


# --- the source changes ---------------------------------------------------------

def replaced(shard):
    new = shard.with_suffix(".new")
    shutil.copy(shard, new)
    new.rename(shard)


def rewritten(shard):
    with open(shard, "r+b") as out:
        out.seek(3000)
        out.write(b"x" * 100000)


def cut(shard):
    os.truncate(shard, 100)


def changed(source, what, change):
    """Changes the source after a temporary file exists, before bytes are written to it."""
    shutil.copytree(source, "changing")
    copy = begun(CKPTFS, "cp", "-j", "1", "changing", what)
    change(pathlib.Path("changing/__0_0.distcp"))
    HOLD.unlink()
    said = copy.communicate()[1]
    shutil.rmtree("changing")
    tap.result(copy.returncode == 1 and said.startswith(f"ckptfs: {what}: ")
               and said.count("\n") == 1,
               f"{source}, {change.__name__}: 1, and its name", [said])
    tap.result(not right(dest), f"{source}, {change.__name__}: it is not there",
               right(dest))


for change in (replaced, rewritten, cut):
    changed("large", "raw/t0", change)
    changed("small", "raw/t0", change)
sys.exit(tap.finish())
