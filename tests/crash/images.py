# SPDX-License-Identifier: MIT
"""File systems in files, and power cuts on them.

    with Image("ext4", "/tmp/x") as image:
        ... write below image.root, image.settle() ...
        image.cut("lost")
        image.recover()

The shutdown ioctl of ext4 and XFS stops a file system: data not yet written to
its device are lost, and the next mount replays the journal. States:

    lost     nothing more reaches the device
    journal  the journal is committed first
    fsync    another program syncs a file of its own first, which commits
             the journal as well, at its own time and by another path
    partly   some unsynced data of open files is written first, then as lost
    all      everything is written first: the cut comes late

The device keeps every write that it received. Loss of a drive's volatile cache
is therefore not simulated.
"""
import ctypes
import errno
import fcntl
import os
import random
import subprocess
import time

EXT4_IOC_SHUTDOWN = XFS_IOC_GOINGDOWN = 0x8004587D      # _IOR('X', 125, u32)
FLUSH_ALL, FLUSH_LOG, FLUSH_NOTHING = 0, 1, 2
STATES = ("lost", "journal", "fsync", "partly", "all")

# name: type, MiB, options of mkfs, options of mount. "strict" is an ext4 that
# does not write data before a rename replaces a file. "ext4-4k" reserves no
# blocks for root and uses blocks of 4 KiB, like the other file systems.
KINDS = {
    "ext4": ("ext4", 64, ["-q", "-F", "-E", "lazy_itable_init=0"], ""),
    "xfs": ("xfs", 320, ["-q", "-f"], ""),
    "ext4-4k": ("ext4", 64, ["-q", "-F", "-b", "4096", "-m", "0", "-E",
                             "lazy_itable_init=0"], ""),
    "strict": ("ext4", 64, ["-q", "-F", "-E", "lazy_itable_init=0"],
               "noauto_da_alloc,data=writeback"),
}

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
MNT_DETACH = 2

libc = ctypes.CDLL(None, use_errno=True)
WRITE_AND_WAIT = 7      # sync_file_range(2)


class Trouble(Exception):
    """Images cannot be used here; the text is the reason."""


def checked(status, what):
    if status:
        code = ctypes.get_errno()
        raise Trouble(f"{what}: {os.strerror(code)}")


def keep_mounts_private():
    """Moves this process to a private mount namespace. Its mounts end with it,
    and no copy of a mount in another namespace keeps a file system busy. A
    daemon exits only when the last copy of its mount is removed."""
    checked(libc.unshare(CLONE_NEWNS), "unshare")
    checked(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None),
            "private mounts")
    with open("/proc/self/mounts") as mounts:
        found = [line.split()[1] for line in mounts
                 if line.split()[2] == "fuse.ckptfs"]
    for place in found:
        libc.umount2(place.encode(), MNT_DETACH)


def run(*argv):
    try:
        return subprocess.run(argv, check=True, capture_output=True,
                              text=True).stdout.strip()
    except FileNotFoundError:
        raise Trouble(f"no {argv[0]}")
    except subprocess.CalledProcessError as problem:
        raise Trouble(f"{argv[0]}: {problem.stderr.strip()[:200]}")


class Image:
    def __init__(self, kind, work):
        self.kind = kind
        self.type, size, self.mkfs, self.options = KINDS[kind]
        self.file, self.root = f"{work}/{kind}.img", f"{work}/{kind}"
        self.device, self.mounted = None, False
        with open(self.file, "wb") as out:
            out.truncate(size << 20)

    def __enter__(self):
        os.makedirs(self.root, exist_ok=True)
        try:
            run("mkfs." + self.type, *self.mkfs, self.file)
            self.device = run("losetup", "--find", "--show", self.file)
            self.mount()
        except Trouble:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.mounted:
            libc.umount2(self.root.encode(), MNT_DETACH)
        if self.device:
            run("losetup", "--detach", self.device)
        os.unlink(self.file)

    def mount(self):
        checked(libc.mount(self.device.encode(), self.root.encode(),
                           self.type.encode(), 0, self.options.encode()),
                f"mount {self.kind}")
        self.mounted = True

    def unmount(self):
        checked(libc.umount2(self.root.encode(), 0), f"umount {self.kind}")
        self.mounted = False

    def settle(self):
        """Syncs all written data, so that no later cut loses it."""
        fd = os.open(self.root, os.O_RDONLY)
        try:
            checked(libc.syncfs(fd), "syncfs")
        finally:
            os.close(fd)

    def cut(self, state, pids=(), seed=0):
        if state == "fsync":
            self.another_fsync()
        if state == "partly":
            self.write_some(pids, random.Random(seed))
        flags = {"journal": FLUSH_LOG, "all": FLUSH_ALL}.get(
            state, FLUSH_NOTHING)
        fd = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, flags.to_bytes(4, "little"))
        finally:
            os.close(fd)

    def another_fsync(self):
        with open(self.root + "/neighbour", "wb") as out:
            out.write(b"of another program")
            out.flush()
            os.fsync(out.fileno())

    def open_files(self, pids):
        """Paths to the open files of these processes on this image, unlinked
        files included, and to all named files."""
        for pid in pids:
            try:
                fds = os.listdir(f"/proc/{pid}/fd")
            except OSError:
                continue
            yield from (f"/proc/{pid}/fd/{fd}" for fd in sorted(fds))
        for folder, _, files in sorted(os.walk(self.root)):
            yield from (f"{folder}/{name}" for name in sorted(files))

    def write_some(self, pids, rng):
        device = os.stat(self.root).st_dev
        for path in self.open_files(pids):
            try:
                status = os.stat(path)
                if status.st_dev != device or rng.random() < 0.5 or \
                        not os.path.isfile(path):
                    continue
                fd = os.open(path, os.O_RDONLY)
            except OSError:
                continue
            length = rng.choice([status.st_size, status.st_size // 2])
            libc.sync_file_range(fd, ctypes.c_int64(0),
                                 ctypes.c_int64(length), WRITE_AND_WAIT)
            os.close(fd)

    def recover(self):
        """Mounts the image again, as the next boot does. A process that still
        holds the old mount would make the kernel reuse the dead file system."""
        self.unmount()
        end = time.monotonic() + 60
        while not self.is_free():
            if time.monotonic() > end:
                raise Trouble(f"{self.device} stays in use after umount")
            time.sleep(0.005)
        self.mount()

    # --- a full disk ---

    def free(self):
        """Free bytes that root can allocate for files."""
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def fill(self, free):
        """Fills the disk up to about `free` bytes; returns the free bytes."""
        fd = os.open(self.root + "/filler", os.O_CREAT | os.O_WRONLY)
        size = 0
        for _ in range(5):      # blocks of removed files are freed late
            self.settle()
            if self.free() - free < 4096:
                break
            size = self.allocate(fd, size, free)
        os.close(fd)
        return self.free()

    def allocate(self, fd, size, free):
        """Extents of the filler take some blocks, too."""
        for piece in (16 << 20, 1 << 20, 64 << 10, 4 << 10):
            while self.free() - free >= piece:
                try:
                    os.posix_fallocate(fd, size, piece)
                except OSError as problem:
                    if problem.errno != errno.ENOSPC:
                        raise
                    break
                size += piece
        return size

    def unfill(self):
        os.unlink(self.root + "/filler")
        self.settle()

    def is_free(self):
        try:
            os.close(os.open(self.device, os.O_RDONLY | os.O_EXCL))
        except OSError:
            return False
        return True


def why_not(work, kind="ext4"):
    """Why images cannot be used here, None if they can."""
    if os.geteuid() != 0:
        return "only root can mount images"
    try:
        with Image(kind, work) as image:
            image.cut("lost")
            image.recover()
    except (Trouble, OSError) as problem:
        return str(problem)
    return None
