# SPDX-License-Identifier: MIT
"""A client program that gets tensors of a mount in GPU memory, by an IPC handle or by a
descriptor (include/ckptfs/gpu_memory.h). It uses the fake CUDA driver if LD_LIBRARY_PATH leads
to it. A path may be unix:SOCKET#PATH, where tests/gpu/offer_mount.c answers in place of a
mount.

    gpu_client.py FILE...    opens each, waits for a line, then prints its SHA-256
"""
import ctypes
import errno
import fcntl
import hashlib
import os
import socket
import struct
import sys

FORMAT = "=II16sII64sQQQ16QQ32s64s16s"
SIZE = struct.calcsize(FORMAT)
IOC_GPU = 3 << 30 | SIZE << 16 | ord("k") << 8 | 3
FD, PRIVATE = 1, 2
KIND_IPC, KIND_FD = 1, 2
LAZY = 1


class Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Access(ctypes.Structure):
    _fields_ = [("location", Location), ("flags", ctypes.c_int)]


class Driver:
    """A device and the driver calls on it."""

    def __init__(self, ordinal=0):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), ordinal)
        uuid = (ctypes.c_char * 16)()
        self.call("cuDeviceGetUuid", uuid, self.device)
        self.uuid = uuid.raw
        self.context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.call("cuCtxSetCurrent", self.context)
        self.stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)

    def call(self, name, *args):
        for suffix in "_v3", "_v2", "":
            if hasattr(self.lib, name + suffix):
                break
        code = getattr(self.lib, name + suffix)(*args)
        if code:
            raise RuntimeError(f"{name}: {code}")

    def free_bytes(self):
        """Free memory of the device, whichever process uses the rest."""
        free, whole = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo", ctypes.byref(free), ctypes.byref(whole))
        return free.value

    def pinned(self, size):
        at = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(at), ctypes.c_size_t(size), 1)
        return at

    def bytes_at(self, at, size):
        to = self.pinned(size)
        self.call("cuMemcpyDtoHAsync", to, ctypes.c_uint64(at), ctypes.c_size_t(size),
                  self.stream)
        self.call("cuStreamSynchronize", self.stream)
        got = ctypes.string_at(to.value, size)
        self.call("cuMemFreeHost", to)
        return got

    def write_at(self, at, data):
        source = self.pinned(len(data))
        ctypes.memmove(source.value, data, len(data))
        self.call("cuMemcpyHtoDAsync", ctypes.c_uint64(at), source,
                  ctypes.c_size_t(len(data)), self.stream)
        self.call("cuStreamSynchronize", self.stream)
        self.call("cuMemFreeHost", source)


def is_offer(path):
    return path.startswith("unix:")


def open_file(path, mode):
    if not is_offer(path):
        return os.open(path, mode)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(path[5:].rpartition("#")[0])
        return s.detach()


def request(fd, path, argument):
    """Like ioctl(2): replaces the argument by the answer."""
    if not is_offer(path):
        fcntl.ioctl(fd, IOC_GPU, argument)
        return
    os.write(fd, argument + path.rpartition("#")[2].encode())
    answer = os.read(fd, 4 + len(argument))
    code, = struct.unpack_from("=i", answer) if len(answer) >= 4 else (errno.EIO,)
    if code:
        raise OSError(code, os.strerror(code), path)
    argument[:] = answer[4:]


class Export:
    """An open file and its exported memory. Errors are OSError of ioctl(2)."""

    def __init__(self, driver, path, flags=0, uuid=None, version=1, mode=os.O_RDONLY):
        self.driver, self.at = driver, None
        self.path, self.fd = path, open_file(path, mode)
        try:
            self.ask(flags, uuid, version)
        except OSError:
            os.close(self.fd)
            raise

    def ask(self, flags=0, uuid=None, version=1):
        said = bytearray(struct.pack(
            FORMAT, version, flags, uuid or self.driver.uuid, 0, 0, b"", 0, 0, 0,
            *[0] * 16, 0, b"", b"", b""))
        request(self.fd, self.path, said)
        got = struct.unpack(FORMAT, said)
        self.kind, ndim, self.handle, self.size, self.offset, self.bytes = got[3:9]
        self.shape, self.generation = list(got[9:9 + ndim]), got[25]
        self.dtype = got[26].split(b"\0")[0].decode()
        self.socket, self.token = got[27].split(b"\0")[0], got[28]

    def descriptor(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(60)
            s.connect(b"\0" + self.socket)
            s.sendall(self.token)
            _, control, _, _ = s.recvmsg(1, socket.CMSG_SPACE(4))
        return struct.unpack("i", control[0][2])[0] if control else None

    def map_descriptor(self):
        d, fd = self.driver, self.descriptor()
        self.memory, at = ctypes.c_uint64(), ctypes.c_uint64()
        d.call("cuMemImportFromShareableHandle", ctypes.byref(self.memory),
               ctypes.c_void_p(fd), 1)
        os.close(fd)
        size = ctypes.c_size_t(self.size)
        d.call("cuMemAddressReserve", ctypes.byref(at), size, ctypes.c_size_t(0),
               ctypes.c_uint64(0), ctypes.c_uint64(0))
        d.call("cuMemMap", at, size, ctypes.c_size_t(0), self.memory, ctypes.c_uint64(0))
        access = Access(Location(1, d.device.value), 3)
        d.call("cuMemSetAccess", at, size, ctypes.byref(access), ctypes.c_size_t(1))
        return at.value

    def open(self):
        """The address of the tensor in this process; None if it has no bytes."""
        if self.at is None and self.bytes and self.kind == KIND_FD:
            self.at = self.map_descriptor()
        elif self.at is None and self.bytes:
            at = ctypes.c_uint64()
            self.driver.call("cuIpcOpenMemHandle", ctypes.byref(at),
                             Handle.from_buffer_copy(self.handle), LAZY)
            self.at = at.value
        return self.at and self.at + self.offset

    def data(self):
        at = self.open()
        return self.driver.bytes_at(at, self.bytes) if at else b""

    def write(self, data):
        self.driver.write_at(self.open(), data)

    def close(self):
        if self.at is not None and self.kind == KIND_FD:
            size = ctypes.c_size_t(self.size)
            self.driver.call("cuMemUnmap", ctypes.c_uint64(self.at), size)
            self.driver.call("cuMemAddressFree", ctypes.c_uint64(self.at), size)
            self.driver.call("cuMemRelease", self.memory)
        elif self.at is not None:
            self.driver.call("cuIpcCloseMemHandle", ctypes.c_uint64(self.at))
        self.at = None
        if self.fd is not None:
            os.close(self.fd)
        self.fd = None


def main():
    driver = Driver()
    exports = [Export(driver, path) for path in sys.argv[1:]]
    print("ready", flush=True)
    sys.stdin.readline()
    for e in exports:
        print(hashlib.sha256(e.data()).hexdigest(), flush=True)
    for e in exports:
        e.close()


if __name__ == "__main__":
    main()
