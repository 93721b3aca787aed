# SPDX-License-Identifier: MIT
"""Uses one file of files/ by several opens: files-passthrough.py WHAT SOURCE FILES [PROCESS]"""
import errno
import fcntl
import mmap
import os
import random
import signal
import subprocess
import sys
import threading
import time

WHAT, SOURCE, FILES = sys.argv[1:4]
HERE, THERE = f"{FILES}/area", f"{SOURCE}/area"


def put(name, data):
    with open(f"{THERE}/{name}", "wb") as f:
        f.write(data)


def there(name):
    with open(f"{THERE}/{name}", "rb") as f:
        return f.read()


def equal(got, want):
    if got != want:
        raise SystemExit(f"got {got!r:.100}, want {want!r:.100}")


def shared():
    """Two readers, two writers, the source, each sees the bytes of the others at once."""
    put("x", b"0" * 10000)
    fds = [os.open(f"{HERE}/x", flags) for flags in (os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_APPEND, os.O_RDONLY)]
    os.pwrite(fds[1], b"first", 0)
    os.write(fds[2], b"end")
    put_in_source = os.open(f"{THERE}/x", os.O_WRONLY)
    os.pwrite(put_in_source, b"source", 5000)
    os.close(put_in_source)
    want = b"first" + b"0" * 4995 + b"source" + b"0" * 4994 + b"end"
    equal(there("x"), want)
    for fd in fds[:2] + [os.open(f"{HERE}/x", os.O_RDONLY)]:
        equal(os.pread(fd, 20000, 0)[:5], want[:5])
        equal(os.pread(fd, 20000, 9990), want[9990:])
    os.ftruncate(fds[1], 3)
    equal(os.pread(fds[0], 100, 0), b"fir")
    os.truncate(f"{HERE}/x", 5)
    equal(os.pread(fds[3], 100, 0), b"fir\0\0")
    if os.fstat(fds[0]).st_size != 5:
        raise SystemExit("another size")
    for fd in fds:
        os.close(fd)


def appending():
    put("log", b"line\n")
    first = os.open(f"{HERE}/log", os.O_WRONLY | os.O_APPEND)
    second = os.open(f"{HERE}/log", os.O_RDWR)
    os.write(first, b"more\n")
    equal(os.pread(second, 100, 0), b"line\nmore\n")
    os.pwrite(second, b"L", 0)
    os.write(first, b"end\n")
    os.close(first)
    third = os.open(f"{HERE}/log", os.O_RDONLY)
    equal(os.read(third, 100), b"Line\nmore\nend\n")
    equal(there("log"), b"Line\nmore\nend\n")


def direct_then_not(fd):
    """O_DIRECT is removed, as dd does before its last block, which is no whole one."""
    block = mmap.mmap(-1, 4096)
    block[:] = b"b" * 4096
    if os.pwritev(fd, [block], 0) != 4096:
        raise SystemExit("a short write")
    fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_DIRECT)
    os.pwrite(fd, b"end", 4097)
    equal(os.pread(fd, 4, 4095), b"b\0en")
    equal(there("direct"), b"b" * 4096 + b"\0end")


def direct():
    put("direct", b"")
    fd = os.open(f"{HERE}/direct", os.O_RDWR | os.O_DIRECT)
    direct_then_not(fd)
    os.close(fd)
    put("direct", b"")
    other = os.open(f"{HERE}/direct", os.O_RDWR)
    fd = os.open(f"{HERE}/direct", os.O_RDWR | os.O_DIRECT)
    direct_then_not(fd)
    equal(os.pread(other, 3, 4097), b"end")
    os.pwrite(other, b"END", 4097)
    equal(os.pread(fd, 3, 4097), b"END")
    put("in", b"i" * 10000)
    subprocess.run(["dd", "bs=4096", "oflag=direct", "status=none", f"if={THERE}/in", f"of={HERE}/out"], check=True)
    equal(there("out"), there("in"))


def undirected():
    put("x", b"bytes")
    for place in THERE, HERE:
        try:
            os.open(f"{place}/x", os.O_RDWR | os.O_DIRECT)
        except OSError as e:
            equal(e.errno, errno.EINVAL)
        else:
            raise SystemExit(f"{place}: opened")
    with open(f"{HERE}/x", "rb") as f:
        equal(f.read(), b"bytes")


def lease(name):
    """A lease for reading is refused while the file is open for writing."""
    fd = os.open(f"{THERE}/{name}", os.O_RDONLY)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        return True
    except OSError as e:
        if e.errno != errno.EAGAIN:
            raise
        return False
    finally:
        os.close(fd)


def leased():
    """Nothing has a file open for writing after the last program that had, but the kernel closes it later."""
    put("leased", b"bytes")
    writer = os.open(f"{HERE}/leased", os.O_RDWR)
    reader = os.open(f"{HERE}/leased", os.O_RDONLY)
    if lease("leased"):
        raise SystemExit("a file that is written is leased")
    os.close(writer)
    end = time.monotonic() + 60
    while not lease("leased"):
        if time.monotonic() > end:
            raise SystemExit("open for writing still")
        time.sleep(0.01)
    equal(os.read(reader, 100), b"bytes")


def growing():
    """chattr +a: no mapping changes bytes that were written."""
    put("grows", b"bytes")
    subprocess.run(["chattr", "+a", f"{THERE}/grows"], check=True)
    try:
        reader = os.open(f"{HERE}/grows", os.O_RDONLY)
        fd = os.open(f"{HERE}/grows", os.O_RDWR | os.O_APPEND)
        os.write(fd, b"more")
        with mmap.mmap(fd, 5) as m:
            m[0:1] = b"B"
        os.close(fd)
        os.close(reader)
        equal(there("grows")[:9], b"bytesmore")
    finally:
        subprocess.run(["chattr", "-a", f"{THERE}/grows"], check=True)


def names():
    put("a", b"bytes")
    os.link(f"{HERE}/a", f"{HERE}/b")
    a, b = os.open(f"{HERE}/a", os.O_RDWR), os.open(f"{HERE}/b", os.O_RDWR)
    os.unlink(f"{HERE}/a")
    os.pwrite(a, b"B", 0)
    equal(os.pread(b, 100, 0), b"Bytes")
    os.unlink(f"{HERE}/b")
    put("a", b"another")
    equal(os.pread(a, 100, 0), b"Bytes")
    os.rename(f"{HERE}/a", f"{HERE}/c")
    with open(f"{HERE}/c", "r+b") as f:
        equal(f.read(), b"another")
    created = os.open(f"{HERE}/new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(created, b"created")
    equal(there("new"), b"created")
    os.fsync(created)


def mapped():
    put("m", b"1" * 8192)
    fd = os.open(f"{HERE}/m", os.O_RDWR)
    reader = os.open(f"{HERE}/m", os.O_RDONLY)
    with mmap.mmap(fd, 8192) as one, mmap.mmap(reader, 8192, prot=mmap.PROT_READ) as other:
        one[100:104] = b"page"
        equal(other[100:104], b"page")
        one.flush()
        equal(there("m")[100:104], b"page")
        os.pwrite(fd, b"call", 5000)
        equal(other[5000:5004], b"call")


def use_files(seed, failures):
    choice = random.Random(seed)
    try:
        for _ in range(200):
            name = f"{HERE}/t{choice.randrange(3)}"
            flags = choice.choice((os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_DIRECT))
            fd = os.open(name, flags)
            if flags == os.O_RDWR:
                os.pwrite(fd, b"ab", choice.randrange(100) * 2)
            elif flags == os.O_RDONLY and os.pread(fd, 200, 0) != b"ab" * 100:
                failures.append("wrong bytes")
            os.close(fd)
    except OSError as e:
        failures.append(e)


def threads():
    """Opens and closes meet in every order; none fails."""
    for i in range(3):
        put(f"t{i}", b"ab" * 2048)
    failures = []
    users = [threading.Thread(target=use_files, args=(seed, failures)) for seed in range(8)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    if failures:
        raise SystemExit(failures[0])


def stopped():
    """Reads and mappings of open files wait for no daemon. A write does: the kernel asks it for security.capability."""
    put("s", b"x" * 100000)
    with open(f"{FILES}/../.ckptfs/status", encoding="utf-8") as status:
        daemon = next(int(line.split()[1]) for line in status if line.startswith("daemon: "))
    fd = os.open(f"{HERE}/s", os.O_RDWR)
    with mmap.mmap(fd, 4096) as m:
        os.kill(daemon, signal.SIGSTOP)
        try:
            equal(os.pread(fd, 100000, 0), b"x" * 100000)
            m[:5] = b"begin"
            equal(os.pread(fd, 6, 0), b"beginx")
            equal(there("s")[:6], b"beginx")
        finally:
            os.kill(daemon, signal.SIGCONT)


def closes():
    """More closes than the socket of a stopped process takes."""
    for i in range(400):
        put(f"c{i}", b"")
    fds = [os.open(f"{HERE}/c{i}", os.O_RDONLY) for i in range(400)]
    os.kill(int(sys.argv[4]), signal.SIGSTOP)
    for fd in fds:
        os.close(fd)


globals()[WHAT]()
