# SPDX-License-Identifier: MIT
"""What a power cut may leave by POSIX alone, whatever our own file systems do.

Watch follows a writer. A file's bytes last since the last fsync of that file,
a name since the last fsync of its directory; each change of names after that
may or may not have reached the disk, whatever became of earlier ones. (ext4
and XFS keep them in order, so they never show what a first fsync of the
directory is for.) States are made as files, with the bytes of files that were
not synced as they were when they last were, as they are, or torn.
"""
import itertools
import os
import random
import re
import stat

import injector

MOST_STATES = 64        # subsets of names; beyond it, some by lot


def unescaped(path):
    return re.sub("%([0-9A-F]{2})", lambda m: chr(int(m[1], 16)), path)


class State:
    """names: name -> inode; data: inode -> (bytes, mode, owner, group)."""

    def __init__(self, names, data):
        self.names, self.data = names, data

    def make(self, path):
        for entry in os.scandir(path):
            if entry.is_file(follow_symlinks=False):
                os.unlink(entry.path)
        for name, inode in self.names.items():
            content, mode, owner, group = self.data[inode]
            with open(f"{path}/{name}", "wb") as out:
                out.write(content)
                os.fchmod(out.fileno(), mode)
                os.fchown(out.fileno(), owner, group)


def content_of(file):
    status = os.stat(file)
    with open(file, "rb") as f:
        return (f.read(), stat.S_IMODE(status.st_mode), status.st_uid,
                status.st_gid)


class Watch(injector.Fault):
    """Follows up to call `at`, which does not happen, or to the end."""

    def __init__(self, field, at):
        super().__init__(at)
        self.field, self.names, self.lasting = field, None, {}
        self.pending, self.kept = [], {}

    def listing(self):
        return {entry.name: entry.inode()
                for entry in os.scandir(self.field.path)
                if entry.is_file(follow_symlinks=False)}

    def contents(self, names):
        return {inode: content_of(f"{self.field.path}/{name}")
                for name, inode in names.items()}

    def begin(self):
        if self.names is None:
            self.names = self.now = self.listing()
            self.lasting = self.contents(self.names)

    def before(self, call):
        self.begin()
        # A file that loses its name may get it back.
        if call.name in injector.NAMES:
            self.kept.update(self.contents(self.listing()))
        return super().before(call)

    def others(self, call):
        return "watch" if call.name in self.counted else "go"

    def strike(self, _call):
        return "killall"

    def after(self, call, result):
        if result < 0:
            return "go"
        now = self.listing()
        if now != self.now:
            self.pending.append({name: now.get(name)
                                 for name in {**now, **self.now}
                                 if now.get(name) != self.now.get(name)})
            self.now = now
        if call.name in injector.SYNCS - {"sync_file_range"}:
            self.synced(call)
        return "go"

    def synced(self, call):
        path = unescaped(call.paths[0])
        if call.name == "syncfs":
            self.lasting.update(self.contents(self.now))
        if call.name == "syncfs" or path == ".":
            self.names, self.pending = self.now, []
            return
        nameless = re.fullmatch(r"#(\d+) \(deleted\)", path)
        inode = int(nameless[1]) if nameless else self.now.get(path)
        for fd in os.listdir(f"/proc/{call.tid}/fd"):
            file = f"/proc/{call.tid}/fd/{fd}"
            if os.path.exists(file) and os.stat(file).st_ino == inode and \
                    os.stat(file).st_dev == os.stat(self.field.path).st_dev:
                self.lasting[inode] = content_of(file)
                return

    def subsets(self):
        count = len(self.pending)
        if 1 << count <= MOST_STATES:
            yield from itertools.product((False, True), repeat=count)
            return
        rng = random.Random(self.at)
        for _ in range(MOST_STATES):
            yield [rng.random() < 0.5 for _ in range(count)]

    def data(self, how):
        """Of all files, unsynced ones by `how`."""
        present = {**self.kept, **self.contents(self.listing())}
        found = {}
        for inode, (content, *rest) in {**self.lasting, **present}.items():
            last = self.lasting.get(inode, (b"",))[0]
            if content != last:
                half = len(content) // 2
                content = {"lost": last, "there": content,
                           "torn": content[:half] + bytes(len(content) - half)
                           }[how]
            found[inode] = content, *rest
        return found

    def states(self):
        self.begin()
        subsets = list(self.subsets())
        for how in ("lost", "there", "torn"):
            data = self.data(how)
            for chosen in subsets:
                names = dict(self.names)
                for op in itertools.compress(self.pending, chosen):
                    names.update(op)
                yield State({n: i for n, i in names.items() if i}, data)
