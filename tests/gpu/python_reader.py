# SPDX-License-Identifier: MIT
"""Reads tensors of DLPack, in the memory of a GPU or of the host."""
import ctypes
import struct

API = ctypes.pythonapi
API.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
API.PyCapsule_GetPointer.restype = ctypes.c_void_p
API.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
API.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
NAMES = {b"dltensor": b"used_dltensor", b"dltensor_versioned": b"used_dltensor_versioned"}
TENSOR = struct.Struct("=QiiiBBHQQQ")
DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
READ_ONLY = 1


class Memory:
    """Memory of a GPU, copied by the driver; the caller has made a context."""

    def __init__(self, number=0):
        self.number, self.cuda = number, ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: {code}")

    def copy(self, way, at, data, size):
        """Copies by the call `way`; returns the bytes in host memory."""
        number, context, before = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        stream, host = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(number), self.number)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        self.call("cuCtxGetCurrent", ctypes.byref(before))
        self.call("cuCtxSetCurrent", context)
        self.call("cuMemHostAlloc", ctypes.byref(host), ctypes.c_size_t(size), 1)
        self.call("cuStreamCreate", ctypes.byref(stream), 1)
        ctypes.memmove(host, data, len(data))
        at = ctypes.c_uint64(at)
        places = (host, at) if way.startswith("cuMemcpyDtoH") else (at, host)
        self.call(way, *places, ctypes.c_size_t(size), stream)
        self.call("cuStreamSynchronize", stream)
        got = ctypes.string_at(host.value, size)
        self.call("cuStreamDestroy_v2", stream)
        self.call("cuMemFreeHost", host)
        self.call("cuCtxSetCurrent", before)
        self.call("cuDevicePrimaryCtxRelease_v2", number)
        return got

    def read(self, at, size):
        return self.copy("cuMemcpyDtoHAsync_v2", at, b"", size) if size else b""

    def write(self, at, data):
        self.copy("cuMemcpyHtoDAsync_v2", at, data, len(data))


class Taken:
    """The tensor of a capsule; end() releases it, in the way of a consumer."""

    def __init__(self, capsule):
        self.name, = (name for name in NAMES if API.PyCapsule_IsValid(capsule, name))
        self.at = API.PyCapsule_GetPointer(capsule, self.name)
        API.PyCapsule_SetName(capsule, NAMES[self.name])
        self.flags = 0
        if self.name == b"dltensor":
            tensor = self.at
            self.deleter = self.word(self.at + TENSOR.size + 8)
        else:
            self.version = struct.unpack("=II", ctypes.string_at(self.at, 8))
            self.deleter, self.flags = self.word(self.at + 16), self.word(self.at + 24)
            tensor = self.at + 32
        (self.data, device, number, ndim, self.code, self.bits, self.lanes, shape, strides,
         offset) = TENSOR.unpack(ctypes.string_at(tensor, TENSOR.size))
        self.device = device, number
        self.data += offset
        self.shape, self.strides = (struct.unpack(f"={ndim}q", ctypes.string_at(at, 8 * ndim))
                                    for at in (shape, strides))

    @staticmethod
    def word(at):
        return struct.unpack("=Q", ctypes.string_at(at, 8))[0]

    def is_dense(self):
        n = 1
        if not self.size():
            return len(self.shape) == len(self.strides)
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent > 1 and stride != n:
                return False
            n *= extent
        return True

    def size(self):
        n = self.bits // 8
        for extent in self.shape:
            n *= extent
        return n

    def end(self):
        DELETER(self.deleter)(self.at)
