# SPDX-License-Identifier: MIT
"""A checkpoint on several hosts with different or missing files, or with hosts that are down or
die while it is opened. Prints TAP.

    several-hosts-faults.py HOSTS WORK FIXTURES
"""
import json
import os
import shutil
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", name) for name in ("damage", "lib")]
import source as s  # noqa: E402
import spread as d  # noqa: E402
import two_trees as t  # noqa: E402
from tap import Tap  # noqa: E402

KILL, STOP = 9, 19
TIMES = int(os.environ.get("CKPTFS_HOSTS_TIMES", 30))
NO_ONE = "is on no host that is there"


class Case:
    """The checkpoint of tests/damage/source.py. By default host a has __0_0.distcp and .metadata,
    host b has __1_0.distcp, and host c has no files."""

    def __init__(self, work, where=None, n=3, change=None):
        self.path = os.path.join(work, "case")
        if os.path.exists(self.path):
            shutil.rmtree(self.path)
        os.makedirs(self.path)
        self.whole = os.path.join(self.path, "whole")
        checkpoint = s.Checkpoint()
        if change:
            change(checkpoint)
        checkpoint.write(self.whole)
        self.dirs = [os.path.join(self.path, name) for name in "abcde"[:n]]
        for path in self.dirs:
            os.makedirs(path)
        where = {".metadata": "a", s.FIRST: "a", s.SECOND: "b",
                 **(where or {})}
        for name in d.names_below(self.whole):
            for host in where.get(name, "b"):
                d.put(self.whole, name, os.path.join(self.path, host))
        self.hosts = d.Hosts(PROGRAM, self.dirs)
        self.bare = t.Bare(self.whole)

    def at(self, host, name):
        return os.path.join(self.path, host, name)

    def run(self, *args, **more):
        return self.hosts.run(*args, **more)


def refused(tap, what, case, *words):
    """Opening fails with exit status 2 and one line that contains all of these words."""
    begin = time.monotonic()
    got = case.run("ls")
    text = got.stderr.decode()
    good = got.returncode == 2 and not got.stdout and \
        text.count("\n") == 1 and all(word in text for word in words) and \
        time.monotonic() - begin < 8
    tap.result(good, what, [f"exit {got.returncode}: {text!r}"])


def says(tap, what, got, status, *words):
    text = got.stderr.decode()
    good = got.returncode == status and all(word in text for word in words)
    if status == 0:
        good = good and not text
    tap.result(good, what, [f"exit {got.returncode}: {text!r}"])


def opens(tap, what, case, **more):
    """The tree equals that of a single directory."""
    bare, paths = case.bare, ["full/a.npy", "full/c.npy", "objects/o.json"]
    want, got = bare.run("cat", *paths), case.run("cat", *paths, **more)
    tap.result(got.returncode == 0 and got.stdout == want.stdout, what,
               [f"exit {got.returncode}: {got.stderr!r}"])


def flip(path, at=-1):
    with open(path, "r+b") as f:
        data = bytearray(f.read())
        data[at] ^= 1
        f.seek(0)
        f.write(data)


# --- .metadata ---------------------------------------------------------------------------

def metadata_differs(tap, work):
    case = Case(work, {".metadata": "bc"})
    os.utime(case.at("b", ".metadata"), (0, 1000000000))
    os.utime(case.at("c", ".metadata"), (0, 86400))
    opens(tap, ".metadata of other times", case)
    size = os.path.getsize(case.at("b", ".metadata"))
    flip(case.at("c", ".metadata"))
    refused(tap, ".metadata with another byte", case, "differs between hosts",
            f"b has {size} bytes of 2001-09-09T01:46:40Z",
            f"c has {size} bytes of ")
    with open(case.at("c", ".metadata"), "ab") as f:
        f.write(b"x")
    refused(tap, ".metadata of another size", case,
            f"b has {size} bytes", f"c has {size + 1} bytes of ")
    got = case.run("ls", CKPTFS_HOSTS_END=f"2:{KILL}:0")
    says(tap, ".metadata that differs on a dead host", got, 0)


def metadata_missing(tap, work):
    case = Case(work, {".metadata": ""})
    refused(tap, "no .metadata", case, "no host has a .metadata")
    for host in "abc":
        os.rmdir(case.at(host, "")) if host == "c" else \
            shutil.rmtree(case.at(host, ""))
    refused(tap, "no directory", case, "no host has a .metadata")
    case = Case(work, {".metadata": "c"})
    opens(tap, ".metadata on c alone", case)
    case.hosts.env["CKPTFS_HOSTS_END"] = f"2:{KILL}:0"
    refused(tap, "the only .metadata on a dead host", case,
            "no host has a .metadata")


def metadata_odd(tap, work):
    for host in "ab":
        case = Case(work, {".metadata": ""})
        os.mkdir(case.at(host, ".metadata"))
        refused(tap, f".metadata is a directory on {host}", case,
                f"{host}: .metadata: is no regular file")
        d.put(case.whole, ".metadata", case.at("c", ""))
        refused(tap, f".metadata is a directory on {host}, c has one", case,
                f"{host}: .metadata: is no regular file")
        case = Case(work, {".metadata": ""})
        os.symlink("elsewhere", case.at(host, ".metadata"))
        refused(tap, f".metadata is a link on {host}", case,
                f"{host}: .metadata: is a link")
        case = Case(work, {".metadata": ""})
        open(case.at(host, ".metadata"), "wb").close()
        want = t.Bare(case.at(host, "")).run("ls").stderr.decode()
        refused(tap, f".metadata is empty on {host}", case,
                want.strip().split(": ", 2)[2])
        case = Case(work, {".metadata": ""})
        with open(case.at(host, ".metadata"), "wb") as f:
            f.truncate(5 << 30)
        refused(tap, f".metadata is huge on {host}", case,
                f".metadata: {5 << 30} bytes, expected at most {4 << 30}")


# --- data files ----------------------------------------------------------------------------

def on_no_host(tap, work):
    case = Case(work, {s.SECOND: ""})
    says(tap, "a file on no host", case.run("cat", "full/c.npy"), 2,
         "No data available", "its file is missing")
    case.hosts.names.append("z")
    case.hosts.dirs.append(None)
    says(tap, "a file on no host, one is missing",
         case.run("cat", "full/c.npy"), 2, "Input/output error", NO_ONE)
    says(tap, "files that are there", case.run("cat", "full/b.npy"), 0)


def nowhere(tap, work):
    """The first host lacks the directory; its path is relative."""
    case = Case(work, {".metadata": "b", s.FIRST: "c"})
    os.rmdir(case.at("a", ""))
    case.hosts.source = os.path.relpath(case.at("a", "")[:-1])
    opens(tap, "no directory on a", case)
    got = case.run("cat", ".ckptfs/status").stdout.decode()
    path = os.path.join(os.getcwd(), case.hosts.source)
    tap.result(f"\nsource: {path}\n" in got,
               "its path is absolute", [repr(got)])


def on_dead_host(tap, work):
    for what, signal in ("killed", KILL), ("stopped", STOP):
        case = Case(work)
        end = {"CKPTFS_HOSTS_END": f"1:{signal}:0"}
        got = case.run("cat", "full/b.npy", "full/c.npy", **end)
        says(tap, f"a file on a host that is {what}", got, 2, "full/c.npy: ",
             "Input/output error", NO_ONE)
        want = case.bare.run("cat", "full/b.npy").stdout
        tap.result(got.stdout == want, f"another file, a host is {what}")
        got = case.run("check", options=("--json",), **end)
        findings = json.loads(got.stdout)["findings"]
        tap.result(got.returncode == 1 and
                   {f["errno"] for f in findings} == {"EIO"},
                   f"check: a host is {what}", [findings])
        end = {"CKPTFS_HOSTS_END": f"1:{signal}:late"}
        got = case.run("cat", "full/b.npy", "full/c.npy", **end)
        says(tap, f"a host that is {what} when all is open", got, 2,
             "full/c.npy: Input/output error")
        tap.result(got.stdout == want, f"another file, a host is {what} late")
        case = Case(work, {s.SECOND: "bc"})
        opens(tap, f"a copy is on a host that is {what}", case,
              CKPTFS_HOSTS_END=f"1:{signal}:0")


def named(tap, work):
    """Reports name the host."""
    case = Case(work)
    end = {"CKPTFS_HOSTS_END": f"1:{KILL}:late"}
    got = case.run("cat", "full/c.npy", "full/a.npy", **end)
    says(tap, "an error names the host", got, 2, "host b: down since 20",
         f"{s.SECOND} at 606 on host b")
    got = case.run("check", options=("--json",), **end)
    findings = json.loads(got.stdout)["findings"]
    tap.result([(f["fqn"], f["host"]) for f in findings] ==
               [("a", "b"), ("c", "b")], "check: a finding has its host",
               [str(findings)])
    want = case.bare.run("check", options=("--json",)).stdout
    tap.result(b"host" not in want, "check: not of one directory", [want])
    boxes = boxes_of(case)
    tap.result(boxes == [["a"], ["b"], ["a"], ["b"]],
               "inspect: boxes have their hosts", [str(boxes)])
    got = case.run("inspect", options=("--chunks",)).stdout.decode()
    tap.result(got.count("  on a\n") == 2 and got.count("  on b\n") == 2,
               "inspect: in the table, too", [repr(got)])


def boxes_of(case):
    got = case.run("inspect", options=("--chunks", "--json"))
    return [box["hosts"] for tensor in json.loads(got.stdout)["tensors"]
            for box in tensor["boxes"]]


def not_used(tap, work):
    """check detects damage in replicas that are not read."""
    case = Case(work, {s.SECOND: "abc"})
    boxes = boxes_of(case)
    tap.result(boxes == [["a"], ["a", "b", "c"], ["a"], ["a", "b", "c"]],
               "inspect: all copies", [str(boxes)])
    size = os.path.getsize(case.at("a", s.SECOND))
    flip(case.at("b", s.SECOND), 700)
    with open(case.at("c", s.SECOND), "r+b") as f:
        f.truncate(size - 1)
    for host in "ab":
        case.hosts.env["CKPTFS_HOSTS_PREFER"] = str("ab".index(host))
        got = json.loads(case.run("check", options=("--json",)).stdout)
        other = "b" if host == "a" else "a"
        found = [(f["host"], f["file"], f["errno"], f["expected"], f["found"])
                 for f in got["findings"] if "not used" in f["what"]]
        tap.result(found == [(other, s.SECOND, "EIO", None, None),
                             ("c", s.SECOND, "ENODATA", f"at least {size} bytes",
                              str(size - 1))],
                   f"check: copies that are not used, but {host}'s", [str(got)])
        tap.result(got["dead_bytes"] == 0,
                   f"no bytes of them are dead: {host}'s", [str(got)])


def left_here(tap, work):
    """The local replica is lost during reads: another replica is read."""
    for what, late in (("removed", "rm {}"), ("cut", "truncate -s 700 {}"),
                       ("replaced", "cp {0} {0}.new; mv {0}.new {0}")):
        case = Case(work, {s.SECOND: "abc", s.FIRST: "ab"})
        late = late.format(case.at("a", s.SECOND))
        want = case.bare.run("cat", "full/a.npy", "full/c.npy").stdout
        got = case.run("cat", "full/a.npy", "full/c.npy",
                       CKPTFS_HOSTS_LATE=late)
        tap.result(got.returncode == 0 and got.stdout == want and
                   not got.stderr, f"the copy here is {what}",
                   [repr(got.stderr)])
        case = Case(work, {s.SECOND: "a", s.FIRST: "ab"})
        got = case.run("cat", "full/c.npy", CKPTFS_HOSTS_LATE=late)
        tap.result(got.returncode == 2 and "Stale file" in got.stderr.decode(),
                   f"the only copy is {what}", [repr(got.stderr)])


def several_ranks(tap, work):
    """Two ranks on host b: the host is down only if both are killed."""
    case = Case(work, n=2)
    case.hosts.dirs = [case.at("a", ""), case.at("b", ""), case.at("b", "")]
    case.hosts.names = ["a", "b", "b"]
    opens(tap, "two ranks of a host", case)
    for rank in 1, 2:
        opens(tap, f"rank {rank} of two is killed", case,
              CKPTFS_HOSTS_END=f"{rank}:{KILL}:0")
    os.rename(case.at("a", ".metadata"), case.at("b", ".metadata"))
    for rank in 1, 2:
        opens(tap, f"rank {rank} of two is killed, theirs is .metadata", case,
              CKPTFS_HOSTS_END=f"{rank}:{KILL}:0")
    os.unlink(case.at("b", s.SECOND))
    says(tap, "a file on no host, one of two ranks is killed",
         case.run("cat", "full/c.npy", CKPTFS_HOSTS_END=f"2:{KILL}:0"), 2,
         "No data available", "its file is missing")


# --- names and number of hosts --------------------------------------------------------------------

def long_names(tap, work):
    for size in 255, 300, 4000, 4095, 4096, 4097, 5000, 100000:
        name = ("x/" * size)[:size - 1] + "y" if size > 300 else "y" * size

        def change(c, name=name):
            c.row("c", (0,), relative_path=name)
        case = Case(work, change=change)
        want = case.bare.run("check", options=("--json",))
        got = case.run("check", options=("--json",))
        same = got.stdout.replace(b'"host":null,', b"") == want.stdout
        tap.result(want.returncode == 1 and same and
                   got.stderr == want.stderr, f"a name of {size} bytes",
                   [got.stdout, want.stdout, got.stderr])


def many_files(tap, work, count):
    def change(c):
        c.items = {("t", (i,)): [f"__{i}_0.distcp",
                                 s.item((1,), struct.pack("<f", i))]
                   for i in range(count)}
        c.entries = {"t": s.d.tensor((count,), [((i,), (1,))
                                                for i in range(count)])}
    where = {f"__{i}_0.distcp": "abcde"[i % 5] for i in range(count)}
    case = Case(work, where, 5, change)
    for command, *args in (("cat", "full/t.npy"), ("dump",), ("check",)):
        want, got = case.bare.run(command, *args), case.run(command, *args)
        tap.result(got.returncode == 0 and got.stdout == want.stdout,
                   f"{count} files: {command}",
                   [got.stderr, got.stdout[:99], want.stdout[:99]])


def at_any_time(tap, work):
    """A rank dies while the checkpoint is opened or read: the reports are true."""
    def change(c):
        c.items = {("t", (i,)): [f"__{i}_0.distcp",
                                 s.item((1,), struct.pack("<f", i))]
                   for i in range(300)}
        c.entries = {"t": s.d.tensor((300,), [((i,), (1,))
                                              for i in range(300)])}
    where = {f"__{i}_0.distcp": "abc"[i % 3] for i in range(300)}
    case = Case(work, {**where, ".metadata": "bc"}, 3, change)
    want, ends = case.bare.run("cat", "full/t.npy").stdout, {}
    begin = time.monotonic()
    case.run("cat", "full/t.npy")
    took = int((time.monotonic() - begin) * 10**6)
    for rank in range(3):
        wrong = []
        for usec in range(1, took, took // TIMES):
            got = case.run("cat", "full/t.npy",
                           CKPTFS_HOSTS_END=f"{rank}:{KILL}:{usec}")
            text = got.stderr.decode()
            fine = got.returncode == 0 and got.stdout == want and not text
            lost = got.returncode == 2 and want.startswith(got.stdout) and \
                text.count("\n") == 1 and \
                ("full/t.npy: Input/output error" in text or rank == 0 and
                 "its process has ended" in text)
            ends[fine] = ends.get(fine, 0) + 1
            if not fine and not lost:
                wrong.append(f"{usec}: {got.returncode} {text!r}")
        tap.result(not wrong, f"rank {rank} is killed at any time", wrong)
    tap.result(len(ends) == 2, "some reads came before, some after",
               [str(ends)])


def other_byte(tap, work):
    """Canary: the comparisons of the tests above detect a changed byte."""
    case = Case(work)
    bare, name = case.bare, "full/c.npy"
    want = bare.run("cat", name).stdout
    tap.result(case.run("cat", name).stdout == want, "canary: as it was")
    with open(case.at("b", s.SECOND), "rb") as f:
        at = f.read().index(s.values("c"))
    flip(case.at("b", s.SECOND), at)
    tap.result(case.run("cat", name).stdout != want,
               "canary: another byte on b is read")
    got = case.run("check", options=("--full",))
    tap.result(got.returncode == 1 and b"c: " in got.stdout,
               "canary: and found by check --full", [got.stdout])


# --- as another user --------------------------------------------------------------------------

def unreadable(tap, work):
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    case = Case(work)
    for program in PROGRAM, t.CKPTFS:
        if os.getuid() or not shutil.which("setpriv") or subprocess.run(
                [*nobody, program, "--version"],
                capture_output=True).returncode:
            tap.skip("another user", "only root can become one")
            return
    case.hosts.through = case.bare.through = nobody
    for name in s.FIRST, s.SECOND:
        case = Case(work)
        case.hosts.through = case.bare.through = nobody
        for place in "whole", "a", "b":
            if os.path.exists(case.at(place, name)):
                os.chmod(case.at(place, name), 0)
        for args in (("check",), ("cat", "full/c.npy"), ("cat", "full/b.npy"),
                     ("ls",)):
            want, got = case.bare.run(*args), case.run(*args)
            if name == s.SECOND and "full/b.npy" not in args and \
                    args != ("ls",):
                says(tap, f"{name} may not be read: {args}", got,
                     want.returncode)
                continue
            said = [got.returncode, got.stdout.replace(b" on host a", b""),
                    got.stderr]
            tap.result(said == [want.returncode, want.stdout, want.stderr],
                       f"{name} may not be read: {args}",
                       [got.stdout + got.stderr, want.stdout + want.stderr])
    for host in "abc":
        case = Case(work, {s.FIRST: "abc"})
        case.hosts.through = nobody
        for other in {*"abc"} - {host}:
            os.chmod(case.at(other, s.FIRST), 0)
        opens(tap, f"only the copy of {host} may be read", case)
        opens(tap, f"the same, and copies are not compared: {host}", case,
              CKPTFS_HOSTS_FIRST="1")
    for host in "ab":
        case = Case(work, {".metadata": host})
        case.hosts.through = nobody
        os.chmod(case.at(host, ".metadata"), 0)
        refused(tap, f".metadata of {host} may not be read", case,
                ".metadata: Permission denied")


def main(work):
    tap = Tap()
    for test in (metadata_differs, metadata_missing, metadata_odd, on_no_host,
                 nowhere, on_dead_host, named, not_used, left_here,
                 several_ranks, long_names, other_byte,
                 unreadable, at_any_time):
        test(tap, work)
    many_files(tap, work, 3000)
    return tap.finish()


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    sys.exit(main(sys.argv[2]))
