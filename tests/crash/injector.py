# SPDX-License-Identifier: MIT
"""The Python side of inject: runs a command, and lets a fault decide the
result of each of its system calls beneath a directory.

    run = Injector(["writer", path], path, fault)
    status, output = run.wait()

inject calls the fault's `before(call)` and, if that returned "watch",
`after(call)`. Calls are numbered from 1 in the order of execution; each fault
selects the calls that it counts.
"""
import collections
import errno
import mmap
import os
import struct
import subprocess
import threading

INJECT = os.environ.get("INJECT_BIN", "inject")
NOMEM = os.environ.get("NOMEM_BIN", "libnomem.so")
PATIENCE, HUNG = 120, 999       # seconds; the exit status after a timeout
Call = collections.namedtuple("Call", "tid name length paths")

DATA = set("write pwrite64 writev pwritev pwritev2 copy_file_range sendfile "
           "splice".split())
LOOKS = set("read pread64 readv preadv preadv2".split())
SYNCS = set("fsync fdatasync sync_file_range syncfs".split())
NAMES = set("open creat openat openat2 link linkat rename renameat renameat2 "
            "unlink unlinkat rmdir mkdir mkdirat mknod mknodat symlink "
            "symlinkat".split())
ATTRIBUTES = set("fallocate ftruncate truncate ioctl chmod fchmod fchmodat "
                 "chown lchown fchown fchownat utimensat setxattr lsetxattr "
                 "fsetxattr removexattr lremovexattr fremovexattr".split())
# Calls that can change the state. Opening can: O_CREAT, O_TRUNC.
CHANGES = DATA | SYNCS | NAMES | ATTRIBUTES

ERRNOS = ("EIO", "ENOSPC", "EDQUOT", "EINTR", "EAGAIN", "ENOMEM", "EMFILE",
          "EROFS", "ESTALE")


class Fault:
    """Lets every call run and records it. Derived faults act once, at the call
    of number `at`."""

    def __init__(self, at=0, counted=CHANGES):
        self.at, self.counted = at, counted
        self.seen, self.hit, self.armed = [], None, True
        self.over = False       # later calls are ignored

    def before(self, call):
        if self.over:
            return "rest"
        if not self.armed or self.counted and call.name not in self.counted:
            return self.others(call)
        self.seen.append(call)
        if len(self.seen) != self.at:
            return self.others(call)
        self.hit = call
        return self.strike(call)

    def others(self, _call):
        return "go"

    def strike(self, _call):
        return "go"

    def finish(self):
        """All requests to a daemon are complete; it will be stopped."""

    def after(self, _call, _result):
        return "go"


class Kill(Fault):
    """SIGKILL before the call or, late, after it."""

    def __init__(self, at, late=False, **more):
        super().__init__(at, **more)
        self.late = late

    def strike(self, _call):
        return "watch" if self.late else "kill"

    def after(self, _call, _result):
        return "kill"


class Cut(Fault):
    """Power cut: runs `cut`, then kills all processes of the run."""

    def __init__(self, at, cut, late=False, whom="killall", **more):
        super().__init__(at, **more)
        self.late, self.cut, self.whom = late, cut, whom

    def strike(self, call):
        return "watch" if self.late else self.after(call, 0)

    def after(self, call, _result):
        self.cut(call)
        return self.whom


class Fail(Fault):
    """The call fails without being executed. After a failed fsync the kernel
    marks the pages clean. Later fsyncs of that file therefore return 0 and
    write no data."""

    def __init__(self, at, error, **more):
        more.setdefault("counted", None)
        super().__init__(at, **more)
        self.error = getattr(errno, error)
        self.clean = None

    def strike(self, call):
        if call.name in SYNCS:
            self.clean = call.paths
        return f"return {-self.error}"

    def others(self, call):
        if self.clean == call.paths and call.name in SYNCS:
            return "return 0"
        return "go"


class Short(Fault):
    """The call moves one byte, or half of its data."""

    def __init__(self, at, half=False, **more):
        more.setdefault("counted", DATA | LOOKS)
        super().__init__(at, **more)
        self.half = half

    def strike(self, call):
        return f"short {max(1, call.length // 2) if self.half else 1}"


class Skip(Fault):
    """The call returns 0 without being executed: a protocol without it."""

    def __init__(self, at, counted=frozenset(SYNCS), **more):
        super().__init__(at, counted=counted, **more)

    def strike(self, _call):
        return "return 0"


class Both:
    """Two faults in one run, such as an omitted sync and then a power cut.
    Each counts separately; the first that acts decides."""

    def __init__(self, *faults):
        self.faults = faults

    def before(self, call):
        replies = [fault.before(call) for fault in self.faults]
        return next((r for r in replies if r != "go"), "go")

    def after(self, call, result):
        replies = [fault.after(call, result) for fault in self.faults]
        return next((r for r in replies if r != "go"), "go")

    def finish(self):
        for fault in self.faults:
            fault.finish()

    @property
    def armed(self):
        return self.faults[-1].armed

    @armed.setter
    def armed(self, yes):
        for fault in self.faults:
            fault.armed = yes

    @property
    def hit(self):
        return self.faults[-1].hit

    @property
    def seen(self):
        return self.faults[-1].seen


class NoMemory:
    """Allocation `at` fails, and `times - 1` after it. The settings are written
    to the file that nomem.c maps. `prefix` starts the command line."""

    FIELDS = struct.Struct("QQQQQ")     # armed, count, at, times, hits

    def __init__(self, path, at=0, times=1):
        with open(path, "wb+") as f:
            f.truncate(self.FIELDS.size)
            self.map = mmap.mmap(f.fileno(), self.FIELDS.size)
        self.map[:] = self.FIELDS.pack(1, 0, at, times, 0)
        self.prefix = ["env", f"CRASH_NOMEM={path}", f"LD_PRELOAD={NOMEM}"]

    @property
    def armed(self):
        return bool(self.FIELDS.unpack(self.map)[0])

    @armed.setter
    def armed(self, yes):
        self.map[:8] = struct.pack("Q", yes)

    @property
    def count(self):
        return self.FIELDS.unpack(self.map)[1]

    @property
    def hit(self):
        return self.FIELDS.unpack(self.map)[4] or None

    def before(self, _call):
        return "go"

    def finish(self):
        """glibc aborts when it cannot allocate for a thread that ends."""
        self.armed = False


class Injector:
    def __init__(self, argv, directory, fault, more_fds=(), **more):
        events, give = os.pipe()
        take, replies = os.pipe()
        self.fault, self.problem, self.hung = fault, None, False
        self.process = subprocess.Popen(
            [INJECT, str(give), str(take), directory, *argv],
            pass_fds=(give, take, *more_fds), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
        os.close(give)
        os.close(take)
        self.talk = threading.Thread(target=self.converse,
                                     args=(events, replies), daemon=True)
        self.talk.start()

    def converse(self, events, replies):
        pending = {}
        with open(events) as lines, open(replies, "w") as out:
            for line in lines:
                try:
                    reply = self.answer(line.split(" "), pending)
                except Exception as problem:  # ends the run; wait() raises it
                    self.problem, reply = problem, "killall"
                try:
                    print(reply, file=out, flush=True)
                except BrokenPipeError:
                    return

    def answer(self, words, pending):
        tid = int(words[1])
        if words[0] == "done":
            return self.fault.after(pending.pop(tid), int(words[2]))
        call = Call(tid, words[2], int(words[3]),
                    tuple(words[4:6]) if words[5].strip() else (words[4],))
        call = call._replace(paths=tuple(p.strip() for p in call.paths))
        reply = self.fault.before(call)
        if reply == "watch":
            pending[tid] = call
        return reply

    def end(self):
        """Kills a run after its timeout; the traced processes die with inject."""
        self.process.kill()
        self.hung = True

    def wait(self):
        """Exit status (128 + signal, or HUNG) and the output."""
        try:
            output, _ = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.end()
            output, _ = self.process.communicate()
        self.talk.join(10)
        if self.problem:
            raise self.problem
        status = HUNG if self.hung else self.process.returncode
        return status, output.decode(errors="replace")
