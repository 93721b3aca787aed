# SPDX-License-Identifier: MIT
"""Runs xfstests' group quick, with a filesystem for TEST_DIR and one for SCRATCH_MNT.

xfstests mounts by `mount -t fuse.ckptfs NAME DIRECTORY -o OPTIONS`, which calls mount.fuse. The root of a mount of
ckptfs cannot be written: the script below, in place of mount.fuse, mounts elsewhere, binds files/t to DIRECTORY, and
detaches the first mount. The script, and the users that xfstests needs, exist only in the mount namespace of the run.
"""
import os
import re
import select
import shlex
import subprocess
import time

from image import Trouble, output
from outcome import excluded
from processes import end_others

STALL_SECONDS = 1800        # without any output
TEST = re.compile(r"([a-z0-9]+/\d{3,})\s(.*)")
USERS = (("fsgqa", 7001), ("fsgqa2", 7002), ("123456-fsgqa", 7003))

HELPER = """#!/bin/sh
name=$1 place=$2 options= mode=write
case $name in
ckptfs-test) source={folder}/base-0/checkpoint ;;
ckptfs-scratch) source={folder}/base-1/checkpoint ;;
esac
case ,$4, in
*,remount,*) exec mount -i -o "$4" "$place" ;;
esac
for option in $(echo "$4" | tr , ' '); do
	case $option in
	ro) mode=ro options=$options,ro ;;
	suid | dev | exec | nosuid | nodev | noexec | noatime | nodiratime | relatime | strictatime)
		options=$options,$option ;;
	esac
done
first=$(mktemp -d {folder}/first.XXXXXX)
for try in $(seq 100); do # the daemon of the last mount may still end
	text=$({program} mount "$source" "$first" -o $mode,allow_other,fsname=$name 2>&1) && break
	sleep 0.1
done
mountpoint -q "$first" || { echo "$text" >&2; rmdir "$first"; exit 32; }
[ $mode = ro ] || mkdir -p "$first/files/t"
mount --bind "$first/files/t" "$place" && mount -i -o "remount,bind,suid,dev$options" "$place"
status=$?
umount "$first" && rmdir "$first"
exit $status
"""


def users(folder):
    """Puts files with xfstests' users on /etc/passwd and /etc/group, in this mount namespace."""
    for name, line in (("passwd", "{0}:*:{1}:{1}::/tmp:/bin/bash\n"), ("group", "{0}:x:{1}:\n")):
        with open(f"/etc/{name}", encoding="utf-8") as file:
            text = file.read()
        known = {line.split(":")[0] for line in text.splitlines()}
        with open(folder / name, "w", encoding="utf-8") as file:
            file.write(text + "".join(line.format(*user) for user in USERS if user[0] not in known))
        os.chmod(folder / name, 0o644)
        output("mount", "--bind", folder / name, f"/etc/{name}")


def devices(place):
    """For a control: two filesystems of ext4 on loop devices of their own, which run() detaches."""
    found = []
    for n in range(2):
        file = place.folder / f"device-{n}"
        with open(file, "wb") as image:
            image.truncate(4 << 30)
        output("mkfs.ext4", "-q", "-F", file)
        found.append(output("losetup", "-f", "--show", file).strip())
    return found


def configure(place):
    """Writes the configuration and the mount script. The environment of `check`."""
    test, scratch = place.folder / "test", place.folder / "scratch"
    test.mkdir()
    scratch.mkdir()
    if place.control:
        sources, kind = devices(place), {"FSTYP": "ext4"}
    else:
        # A source that is a path is no word for umount.
        sources, kind = ["ckptfs-test", "ckptfs-scratch"], {"FSTYP": "fuse", "FUSE_SUBTYP": ".ckptfs"}
        script = place.folder / "mount.fuse"
        script.write_text(HELPER.replace("{folder}", shlex.quote(str(place.folder)))
                          .replace("{program}", shlex.quote(place.program)))
        script.chmod(0o755)
        output("mount", "--bind", script, os.path.realpath("/sbin/mount.fuse"))
    settings = {**kind, "TEST_DEV": sources[0], "TEST_DIR": test, "SCRATCH_DEV": sources[1], "SCRATCH_MNT": scratch,
                "RESULT_BASE": place.logs}
    config = place.folder / "local.config"
    config.write_text("".join(f"export {name}={shlex.quote(str(value))}\n" for name, value in settings.items()))
    return {**os.environ, "HOST_OPTIONS": str(config), "LC_ALL": "C"}


def wanted(place, environment):
    """Names of the tests to run, in order."""
    if place.tests:
        return place.tests
    done = subprocess.run(["./check", "-n", "-g", "quick"], cwd=place.built, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    names = re.findall(r"^([a-z0-9]+/\d{3,})\s*$", done.stdout, re.M)
    if not names:
        raise Trouble(f"xfstests' check lists no test: {done.stdout[-1000:]}")
    return names


class Judge:
    """Counts the results in the output of `check`, which names a test, and later the result in the same line."""

    def __init__(self, outcome):
        self.outcome = outcome
        self.done, self.failed, self.tail = [], None, ""

    def feed(self, text):
        *lines, self.tail = (self.tail + text).split("\n")
        for line in lines:
            self.line(line)

    def line(self, line):
        if found := TEST.match(line):
            self.flush()
            self.test(*found.groups())
        elif self.failed and (found := re.match(r" {4}([+-])(?![+-]{2} )(.*)", line)):
            self.failed[1 if found.group(1) == "+" else 2].append(found.group(2))

    def test(self, name, rest):
        self.done.append(name)
        if "[not run]" in rest:
            self.outcome.not_run(name, rest.partition("[not run]")[2].strip())
        elif re.search(r"\d+s\s*$", rest) and not re.search(r"\[failed|mismatch|_check_|inconsistent", rest):
            self.outcome.add("ok")
        else:
            self.failed = [name, [], [], re.sub(r"\(see .*?\)", "", rest).strip()]

    def flush(self):
        """Prints the last failure, with the first line that differs: got, and expected."""
        if self.failed:
            name, got, expected, rest = self.failed
            lines = [f"{what} {text.strip()!r}" for what, texts in (("got", got), ("expected", expected))
                     for text in texts[:1]]
            self.outcome.failed(name, ", ".join([rest, *lines])[:600])
        self.failed = None

    def running(self):
        """The test whose result has not come, or None."""
        return self.tail.split()[0] if re.match(r"[a-z0-9]+/\d", self.tail) else None


def check(place, environment, names, judge):
    """Runs these tests. False if one of them stalled: then all processes were ended."""
    with open(place.logs / "check.out", "ab") as log, subprocess.Popen(
            ["./check", *names], cwd=place.built, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as child:
        while True:
            if not select.select([child.stdout], [], [], STALL_SECONDS)[0]:
                end_others()
                return False
            block = os.read(child.stdout.fileno(), 65536)
            if not block:
                return True
            log.write(block)
            log.flush()
            judge.feed(block.decode(errors="replace"))


def every(place, environment, outcome):
    skipped = excluded("xfstests")
    names = wanted(place, environment)
    for name in [name for name in names if name in skipped]:
        outcome.not_run(name, skipped[name])
    left = [name for name in names if name not in skipped]
    while left:
        judge = Judge(outcome)
        complete = check(place, environment, left, judge)
        judge.flush()
        stalled = None if complete else judge.running() or left[len(judge.done)]
        if stalled:
            outcome.failed(stalled, f"no output for {STALL_SECONDS} s")
        elif not judge.done:
            raise Trouble(f"xfstests' check ended at once, see {place.logs}/check.out")
        left = [name for name in left if name not in judge.done and name != stalled]
        unmount(place)


def unmount(place):
    """Also mounts whose daemon was ended, which stat(2) cannot examine."""
    for name in ("test", "scratch"):
        while subprocess.run(["umount", "-l", place.folder / name], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            pass
    time.sleep(1)


def run(place, outcome):
    users(place.folder)
    environment = configure(place)
    try:
        every(place, environment, outcome)
    finally:
        unmount(place)
        for device in output("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE").splitlines():
            if f" {place.folder}/device-" in device:
                subprocess.run(["losetup", "-d", device.split()[0]], check=False)
