# SPDX-License-Identifier: MIT
"""libckptfs.so.1 by ctypes: the functions and structs of ckptfs/client.h."""
from __future__ import annotations

import ctypes
import functools
import os

u32, u64, i64, text = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64, ctypes.c_char_p


class _Error(ctypes.Structure):
    _fields_ = [("err", ctypes.c_int), ("text", text), ("fqn", text), ("file", text), ("expected", text),
                ("found", text)]


class TensorInfo(ctypes.Structure):
    _fields_ = [("fqn", ctypes.c_void_p), ("stem", text), ("fqn_len", u64), ("dtype", text),
                ("shape", ctypes.POINTER(i64)), ("nbytes", u64), ("alias_of", u64), ("chunks", u64), ("ndim", u32),
                ("itemsize", u32), ("err", ctypes.c_int32), ("file", u32), ("position", u64), ("key", ctypes.c_void_p),
                ("key_len", u64)]


class ObjectInfo(ctypes.Structure):
    _fields_ = [("fqn", ctypes.c_void_p), ("stem", text), ("fqn_len", u64), ("key", ctypes.c_void_p), ("key_len", u64)]


class Box(ctypes.Structure):
    _fields_ = [("fqn", text), ("path", text), ("tensor", u64), ("ndim", u32), ("err", ctypes.c_int32),
                ("offsets", ctypes.POINTER(u64)), ("sizes", ctypes.POINTER(u64)), ("steps", ctypes.POINTER(u64)),
                ("to", ctypes.c_void_p), ("strides", ctypes.POINTER(i64)), ("reserved", u64)]


class _Part(ctypes.Structure):
    _fields_ = [("tensor", u64), ("begin", u64), ("size", u64)]


class _Entry(ctypes.Structure):
    _fields_ = [("name", text), ("type", u32)]


class _List(ctypes.Structure):
    _fields_ = [("n", u64), ("entries", ctypes.POINTER(_Entry))]


class _Stat(ctypes.Structure):
    _fields_ = [("number", u64), ("size", u64), ("mode", u32), ("uid", u32), ("gid", u32), ("mtime_nsec", u32),
                ("mtime", i64), ("reserved", u64 * 4)]


NONE = 2**64 - 1  # alias_of of a tensor that is no alias

_FUNCTIONS = {
    "ckptfs_last_error": (ctypes.POINTER(_Error), []),
    "ckptfs_version": (text, []),
    "ckptfs_open": (ctypes.c_int, [text, text, ctypes.POINTER(ctypes.c_void_p)]),
    "ckptfs_close": (None, [ctypes.c_void_p]),
    "ckptfs_kind": (text, [ctypes.c_void_p]),
    "ckptfs_tensors": (u64, [ctypes.c_void_p]),
    "ckptfs_tensor_at": (ctypes.POINTER(TensorInfo), [ctypes.c_void_p, u64]),
    "ckptfs_tensor": (ctypes.POINTER(TensorInfo), [ctypes.c_void_p, text]),
    "ckptfs_tensor_number": (u64, [ctypes.c_void_p, ctypes.POINTER(TensorInfo)]),
    "ckptfs_check_tensor": (ctypes.c_int, [ctypes.c_void_p, u64]),
    "ckptfs_parts": (i64, [ctypes.c_void_p, text, ctypes.POINTER(_Part), u64]),
    "ckptfs_objects": (u64, [ctypes.c_void_p]),
    "ckptfs_object_at": (ctypes.POINTER(ObjectInfo), [ctypes.c_void_p, u64]),
    "ckptfs_read_many": (ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(Box), u64, ctypes.c_uint]),
    "ckptfs_list": (ctypes.c_int, [ctypes.c_void_p, text, ctypes.POINTER(ctypes.POINTER(_List))]),
    "ckptfs_list_free": (None, [ctypes.POINTER(_List)]),
    "ckptfs_stat": (ctypes.c_int, [ctypes.c_void_p, text, ctypes.POINTER(_Stat)]),
    "ckptfs_getxattr": (i64, [ctypes.c_void_p, text, text, ctypes.c_void_p, ctypes.c_size_t]),
    "ckptfs_read": (i64, [ctypes.c_void_p, text, ctypes.c_void_p, ctypes.c_size_t, u64]),
}


class Error(OSError):
    """A checkpoint cannot be read. The message has all of these, as far as they apply:

    errno: ENODATA: no file has some bytes; EIO: some cannot be read; EBADMSG: some cannot be
    interpreted; ESTALE: a file changed since the open; and others.
    fqn: name of the tensor or object. file: the data file. expected, found: two values that differ.
    """

    __module__ = "ckptfs"

    def __init__(self, errno: int, message: str, fqn: str = "", file: str = "", expected: str = "", found: str = ""):
        super().__init__(errno, message)
        self.fqn, self.file, self.expected, self.found = fqn, file, expected, found

    def __str__(self) -> str:
        return self.strerror

    def __reduce__(self):
        return Error, (self.errno, self.strerror, self.fqn, self.file, self.expected, self.found)


def decoded(name: bytes) -> str:
    """A name as str: UTF-8 with lone surrogates; other bytes are escaped as in file names."""
    try:
        return name.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return name.decode("utf-8", "surrogateescape")


def encoded(name: str) -> bytes:
    """Raises ValueError for a NUL, which would end the name in the library."""
    if "\0" in name:
        raise ValueError("embedded null character")
    try:
        return name.encode("utf-8", "surrogatepass")
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogateescape")


def _places():
    """Where the library may be: a variable, beside this file (in a wheel), the prefix of an installation."""
    here = os.path.dirname(os.path.abspath(__file__))
    prefix = os.path.normpath(os.path.join(here, *[".."] * 4))
    if os.environ.get("CKPTFS_LIBRARY"):
        yield os.environ["CKPTFS_LIBRARY"]
        return
    yield os.path.join(here, "libckptfs.so.1")
    import glob  # half of the time of importing this package
    for place in ("lib*/libckptfs.so.1", "lib/*/libckptfs.so.1"):
        yield from sorted(glob.glob(os.path.join(glob.escape(prefix), place)))
    yield "libckptfs.so.1"


@functools.lru_cache(maxsize=None)
def library():
    """The library, loaded by the first call. Raises ImportError if it is not found."""
    reason: object = "there is no such file"
    for place in _places():
        if "/" not in place or os.path.exists(place):
            try:
                found = ctypes.CDLL(place)
                break
            except OSError as e:
                reason = e
    else:
        raise ImportError(f"libckptfs.so.1: {reason}; install ckptfs, or set CKPTFS_LIBRARY to its path")
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


def version() -> str:
    return library().ckptfs_version().decode()


def last_error() -> Error:
    """The error of the last call of this thread."""
    e = library().ckptfs_last_error()[0]
    return Error(e.err, *(decoded(part) for part in (e.text, e.fqn, e.file, e.expected, e.found)))


class Handle:
    """An open checkpoint. It is closed when no call and no object uses it any more."""

    def __init__(self, source: bytes, options: bytes):
        if b"\0" in source or b"\0" in options:
            raise ValueError("embedded null byte")
        self._close = library().ckptfs_close
        self._as_parameter_ = ctypes.c_void_p()
        if library().ckptfs_open(source, options, ctypes.byref(self._as_parameter_)):
            raise last_error()

    def __del__(self):
        if getattr(self, "_as_parameter_", None):
            self._close(self._as_parameter_)
            self._as_parameter_ = None

    # --- paths ------------------------------------------------------------------------

    def names(self, path: bytes) -> list[bytes]:
        listed = ctypes.POINTER(_List)()
        if library().ckptfs_list(self, path, ctypes.byref(listed)):
            raise last_error()
        try:
            return [listed[0].entries[i].name for i in range(listed[0].n)]
        finally:
            library().ckptfs_list_free(listed)

    def size(self, path: bytes) -> int:
        st = _Stat()
        if library().ckptfs_stat(self, path, ctypes.byref(st)):
            raise last_error()
        return st.size

    def attribute(self, path: bytes, name: bytes) -> bytes:
        size = 1024
        while True:
            value = ctypes.create_string_buffer(size)
            got = library().ckptfs_getxattr(self, path, name, value, size)
            if got >= 0:
                return value.raw[:got]
            size = library().ckptfs_getxattr(self, path, name, None, 0)
            if size <= 1024:
                raise last_error()

    def read(self, path: bytes, offset: int, size: int) -> bytes:
        room = ctypes.create_string_buffer(max(size, 1))
        got = library().ckptfs_read(self, path, room, size, offset)
        if got < 0:
            raise last_error()
        return room.raw[:got]

    def read_into(self, path: bytes, offset: int, room: memoryview) -> int:
        """Fills a writable buffer that is not empty. Returns the number of bytes, fewer at the end of the file."""
        got = library().ckptfs_read(self, path, (ctypes.c_char * room.nbytes).from_buffer(room), room.nbytes, offset)
        if got < 0:
            raise last_error()
        return got

    def parts(self, path: bytes) -> list[tuple[int, int, int]]:
        """(number of the tensor, begin, size) of all elements in a file."""
        n = library().ckptfs_parts(self, path, None, 0)
        found = (_Part * max(n, 0))()
        if n < 0 or library().ckptfs_parts(self, path, found, n) < 0:
            raise last_error()
        return [(part.tensor, part.begin, part.size) for part in found]

    # --- boxes ------------------------------------------------------------------------

    def read_boxes(self, boxes, threads: int) -> None:
        """Reads all boxes; raises the first error at the end."""
        if library().ckptfs_read_many(self, boxes, len(boxes), threads):
            raise last_error()
