# SPDX-License-Identifier: MIT
"""Makes every kind of damage of some groups, checks and mounts it, and
compares the results with the expected ones, and the memory and time of each run
with their limits (S-P5). Prints TAP.

    CKPTFS=build/mount-helpers/ckptfs BOUNDED_BIN=build/tests/damage/bounded \\
        python3 tests/damage/verify.py WORK GROUP...
    python3 tests/damage/verify.py --make DIRECTORY KIND
"""
import errno
import json
import os
import shutil
import sys

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import bounds  # noqa: E402
import views  # noqa: E402
from tap import is_long  # noqa: E402

CKPTFS = os.environ.get("CKPTFS", "ckptfs")
meter = None
SECONDS = 1 if is_long() else 60	# processor time, judged in `tests/run --all`


def run(*args):
    return meter.run(CKPTFS, *args)


def errors_of(want, name):
    return {e for _, _, e in want.lost.get(name, ())}


def verify_check(path, want, full):
    """Problems of the report of `ckptfs check`."""
    got = run("check", "--json", path, *(["--full"] if full else []))
    if want.refused:
        if got.returncode != 2 or want.text not in got.stderr:
            yield f"check: exit {got.returncode}, {got.stderr!r}"
        if len(got.stderr.splitlines()) != 1 or not got.stderr.isprintable() \
                and not got.stderr[:-1].isprintable():
            yield f"check: not one clean line: {got.stderr!r}"
        return
    expected = {(name, e) for name in want.lost
                for e in errors_of(want, name)}
    expected |= set(want.objects.items()) | {(None, e) for e in want.files}
    expected |= {(name, e) for name, all_ in want.files_of.items() for e in all_}
    expected |= set(want.lines.items())
    if full:
        expected |= {(name, "EIO") for name in want.full}
    try:
        report = json.loads(got.stdout)
    except ValueError:
        yield f"check: no JSON: {got.stdout!r} {got.stderr!r}"
        return
    faults = [f for f in report["findings"] if f.get("severity") != "warning"]
    found = {(f["fqn"], f["errno"]) for f in faults
             if f["fqn"] not in want.unsure or full and want.full}
    # If a whole tensor is damaged, its boxes may be missing, too.
    found -= {(name, "ENODATA") for name, ranges in want.lost.items()
              if not ranges[0][1]}
    if found != expected:
        yield f"check: found {found}, expected {expected}: {got.stdout}"
    if report["ok"] != (not faults) or \
            got.returncode != (not report["ok"]):
        yield f"check: exit {got.returncode}, ok {report['ok']}"
    if set(want.unknown) - set(report["unknown_globals"]):
        yield f"check: unknown classes {report['unknown_globals']}"
    text = run("check", path).stdout
    if not all(line.isprintable() for line in text.splitlines()):
        yield f"check: unprintable {text!r}"


def verify_bytes(fd, good, ranges):
    size = os.fstat(fd).st_size
    end = max([len(good)] + [r[1] for r in ranges])
    if ranges and not ranges[0][1]:
        end = 0
    if size not in (end, 0):
        yield f"size {size}, expected {end}"
    for at in range(0, max(end, 4), 4):
        bad = [e for begin, to, e in ranges if begin <= at < max(to, 1)]
        try:
            data = os.pread(fd, 4, at)
        except OSError as e:
            if errno.errorcode[e.errno] not in bad:
                yield f"at {at}: {e}, expected {bad or 'data'}"
            continue
        if bad or data != good[at:at + 4]:
            yield f"at {at}: {data!r}, expected {bad or good[at:at + 4]!r}"


def verify_seeks(fd):
    """Damage must not appear as a hole: cp would write zeros for it."""
    size = os.fstat(fd).st_size
    for at in range(0, size, max(size // 4, 1)):
        for how, expected in (os.SEEK_DATA, at), (os.SEEK_HOLE, size):
            found = os.lseek(fd, at, how)
            if found != expected:
                yield f"lseek({at}, {how}): {found}"


def verify_tensor(mnt, name, want):
    from source import values
    ranges = want.lost.get(name, [])
    path = f"{mnt}/raw/{name}"
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as e:
        if name in want.gone:
            if e.errno != errno.ENOENT:
                yield f"{name}: open: {e}, expected no name"
        elif (None, None, errno.errorcode[e.errno]) not in ranges:
            yield f"{name}: open: {e}"
        return
    try:
        if name in want.gone or ranges and ranges[0][0] is None:
            yield f"{name}: was opened"
        elif name not in want.unsure:
            for problem in (*verify_bytes(fd, values(name), ranges), *verify_seeks(fd)):
                yield f"{name}: {problem}"
    finally:
        os.close(fd)
    try:
        text = os.getxattr(path, "user.ckptfs.error").decode()
    except OSError as e:
        text = "" if e.errno == errno.ENODATA else str(e)
    if bool(text) != bool(ranges):
        yield f"{name}: attribute error {text!r}"
    if any(e not in text for e in errors_of(want, name)):
        yield f"{name}: attribute error {text!r}"


def verify_object(mnt, want, good):
    path, expected = mnt + "/objects/o.json", want.objects.get("o")
    if good is None or "o" in want.gone:
        if os.path.exists(path):
            yield "o: is there"
        return
    try:
        with open(path) as f:
            text = f.read()
        if expected or text != good and "o" not in want.full:
            yield f"o: {text!r}, expected {expected or 'its value'}"
    except OSError as e:
        if errno.errorcode[e.errno] != expected:
            yield f"o: {e}, expected {expected or 'its value'}"
    try:
        text = os.getxattr(path, "user.ckptfs.error").decode()
    except OSError as e:
        text = "" if e.errno == errno.ENODATA else str(e)
    if bool(text) != bool(expected) or (expected or "") not in text:
        yield f"o: attribute error {text!r}, expected {expected}"


def verify_damage(mnt, want):
    with open(mnt + "/.ckptfs/damage") as report:
        lines = report.read().splitlines()
    named = {line.split(":")[0] for line in lines
             if line[0] != " " and ": " in line}
    expected = set(want.lost) | set(want.objects) | set(want.files) | set(want.lines)
    if named - set(want.unsure) != expected:
        yield f"damage: names {named}, expected {expected}"
    if not lines[-1].startswith("items checked "):
        yield f"damage: ends with {lines[-1]!r}"


def views_before(work, group):
    """The files in views of a mount of the checkpoint before its damage."""
    from source import Checkpoint
    from want import BASES
    make = BASES.get(group, Checkpoint)
    if make not in views.good:
        path, mnt = work + "/before", work + "/mnt"
        make().write(path)
        meter.run(CKPTFS, "mount", path, mnt)
        try:
            views.good[make] = views.read_all(mnt)
        finally:
            meter.run(CKPTFS, "umount", mnt)
            shutil.rmtree(path)
            meter.take()
    return views.good[make]


def verify_mount(path, mnt, want, text, before):
    got = run("mount", path, mnt)
    if want.refused:
        if got.returncode != 2 or want.text not in got.stderr:
            yield f"mount: exit {got.returncode}, {got.stderr!r}"
        return
    if got.returncode:
        yield f"mount: exit {got.returncode}, {got.stderr!r}"
        return
    try:
        for name in ("a", "b", "c"):
            yield from verify_tensor(mnt, name, want)
        yield from verify_object(mnt, want, text)
        yield from verify_damage(mnt, want)
        if before is not None:
            yield from views.verify_views(mnt, want, before)
        with open(mnt + "/.ckptfs/status") as status:
            pid = status.read().partition("\ndaemon: ")[2].split("\n")[0]
        if pid:
            meter.daemon(pid)
        else:
            yield "the daemon does not answer"
    finally:
        got = run("umount", mnt)
        if got.returncode:
            yield f"umount: {got.stderr!r}"


def verify_judge(work):
    """Canary: the judge detects lost bytes, other bytes and an executed pickle."""
    import sources
    from want import FINE

    def found(group, change):
        return list(verify(work, (group, ""), lambda c: change(c) or FINE, Largest(True)))
    if not found("torch", sources.torch(data={"c": b"1234"})):
        yield "a storage that is too short"
    if not found("torch", sources.torch(data={"c": b"other bytes."})):
        yield "other bytes"
    if not found("run", sources.dcp(lambda path: os.unlink(path + "/.metadata"))):
        yield "a step without .metadata"
    canary = os.environ["CANARY"]
    meter.run(sys.executable, "-c", f"import pickle; pickle.loads({sources.EVIL!r})")
    if not os.path.exists(canary):
        yield "whoever loads the pickles of tests/damage/sources.py runs nothing"
    else:
        os.unlink(canary)
    meter.take()


class Largest:
    """The largest memory and time of a run, for the report."""

    def __init__(self, free):
        self.free = free	# no limits: a build with a sanitizer
        self.memory = self.seconds = (0, "", "")

    def note(self, usage, size, kind):
        what = f"{usage.what}, {kind}, {size} bytes"
        self.memory = max(self.memory, (usage.memory, what))
        self.seconds = max(self.seconds, (usage.seconds, what))

    def show(self):
        print(f"# most memory: {self.memory[0] >> 10} KiB ({self.memory[1]})")
        print(f"# most time: {self.seconds[0] * 1000:.0f} ms "
              f"({self.seconds[1]})")


def verify_bounds():
    """Canary: the meter detects a run that exceeds its limits."""
    meter.run(sys.executable, "-c", "x = bytearray(90 << 20)\n"
              "for i in range(10**6): i * i")
    usage = meter.take()[0]
    if len(list(usage.over(0, seconds=0.01))) != 2:
        yield f"{usage.memory} bytes, {usage.seconds} s are not too much"
    if list(usage.over(10 * bounds.MIB, seconds=60)):
        yield "what a larger checkpoint may take is too much"
    meter.daemon(os.getpid())
    usage = meter.take()[0]
    if len(list(usage.over(0, memory=bounds.MIB, seconds=0.01))) != 2:
        yield f"of a daemon: {usage.memory} bytes, {usage.seconds} s"


def verify(work, key, change, largest):
    from source import Checkpoint
    from want import BASES
    path, mnt = work + "/in/source", work + "/mnt"
    checkpoint = BASES.get(key[0], Checkpoint)()
    is_viewed = is_long() and not hasattr(checkpoint, "verify") and key[1] not in views.OTHER
    before = views_before(work, key[0]) if is_viewed else None
    os.makedirs(work + "/in")
    want = change(checkpoint)
    checkpoint.write(path)
    if hasattr(checkpoint, "verify"):
        yield from checkpoint.verify(run, path, mnt, want)
    else:
        yield from verify_check(path, want, False)
        yield from verify_check(path, want, True)
        yield from verify_mount(path, mnt, want, checkpoint.text, before)
    if os.path.exists(os.environ["CANARY"]):
        yield "something of the checkpoint was run"
    size = bounds.size_of(path)
    for usage in meter.take():
        largest.note(usage, size, key[1])
        if not largest.free:
            yield from usage.over(size, seconds=SECONDS)
    shutil.rmtree(work + "/in")


def report(count, name, problems):
    """Prints one line of TAP; returns true if it failed."""
    problems = list(problems)
    print(f"{'not ' if problems else ''}ok {count} - {name}")
    for problem in problems:
        print(f"# {problem[:600]}")
    return bool(problems)


def main():
    global meter
    work, groups = sys.argv[1], sys.argv[2:]
    os.environ["CANARY"] = work + "/canary"
    import containers  # noqa: F401
    import kinds  # noqa: F401
    import sources  # noqa: F401
    import torch_checkpointing  # noqa: F401
    import variants  # noqa: F401
    from want import KINDS
    if work == "--make":
        return make(KINDS, *groups)
    os.makedirs(work + "/mnt", exist_ok=True)
    meter = bounds.Meter(work, CKPTFS)
    largest = Largest(bounds.sanitized(CKPTFS))
    count = 1
    failed = report(count, "bounds: a run that takes too much is found",
                    verify_bounds())
    count += 1
    failed |= report(count, "canary: a fault is found", verify_judge(work))
    for key, change in KINDS.items():
        if key[0] not in groups:
            continue
        count += 1
        failed |= report(count, key[1], verify(work, key, change, largest))
    largest.show()
    print(f"1..{count}")
    return bool(failed)


def make(kinds, path, name):
    from source import Checkpoint
    from want import BASES
    for key, change in kinds.items():
        if key[1] == name:
            checkpoint = BASES.get(key[0], Checkpoint)()
            change(checkpoint)
            checkpoint.write(path)
            return 0
    print("\n".join(name for _, name in kinds))
    return 2


if __name__ == "__main__":
    sys.exit(main())
