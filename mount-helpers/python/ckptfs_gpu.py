# SPDX-License-Identifier: MIT
"""Tensors of a ckptfs mount in the memory of a GPU, for Python.

    import torch, ckptfs_gpu
    w = torch.from_dlpack(ckptfs_gpu.open("/mnt/ck/raw/model.w"))

The mount needs gpu=, as in `ckptfs mount -o gpu=auto`; path is a file of full/, raw/ or
local/. The mount puts the tensor together on the GPU and hands it over without a copy;
programs that open the same tensor have the same memory, and must not write to it, unless
they open it with private=True.

This file is all there is of it: copy it beside your program, or add the directory where
it was installed, as in PYTHONPATH=/usr/local/share/ckptfs. It needs Python 3.8 and CUDA's
driver, and nothing of CUDA happens before the first open().

open(path, device=0, private=False) gives a Tensor, or raises OSError:

    ENODEV      no driver, no such device, or the mount does not use it
    EOPNOTSUPP  the mount uses no GPU, or has lost it
    ENOSPC      no room on the device
    ENOTTY      not a file of a tensor
    ENODATA, EBADMSG, EIO, ESTALE: as reading the file would, and others

A dtype that DLPack lacks, such as fp8, is passed as bytes: uint8, with one more dimension if
an element has several bytes. Tensor.dtype is the name of the dtype in torch:

    t = ckptfs_gpu.open(path)
    w = torch.from_dlpack(t).view(getattr(torch, t.dtype))

The file stays open, and the memory allocated, until the Tensor and all tensors made from it
are deleted. A thread detects this within half a second, Tensor.close() at once.
"""
import atexit
import collections
import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import socket
import sys
import threading
import time

__all__ = ["Tensor", "open"]

# --- ckptfs/gpu_memory.h --------------------------------------------------------------------


class _Gpu(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("flags", ctypes.c_uint32),
                ("uuid", ctypes.c_ubyte * 16), ("kind", ctypes.c_uint32),
                ("ndim", ctypes.c_uint32), ("handle", ctypes.c_ubyte * 64),
                ("size", ctypes.c_uint64), ("offset", ctypes.c_uint64),
                ("bytes", ctypes.c_uint64), ("shape", ctypes.c_uint64 * 16),
                ("generation", ctypes.c_uint64), ("dtype", ctypes.c_char * 32),
                ("socket", ctypes.c_char * 64), ("token", ctypes.c_ubyte * 16)]


_VERSION, _PRIVATE = 1, 2
_IOC_GPU = 3 << 30 | ctypes.sizeof(_Gpu) << 16 | ord("k") << 8 | 3  # _IOWR('k', 3, ...)

_WHY = {
    errno.EOPNOTSUPP: "the mount uses no GPU, or has lost it: .ckptfs/stats has the reason",
    errno.ENODEV: "the mount does not use this GPU",
    errno.ENOSPC: "no room for the tensor on the GPU",
    errno.EBUSY: "others have the tensor in another form: private=True gives one of its own",
    errno.EPERM: "only the user of the mount and root can have tensors on a GPU",
    errno.EOVERFLOW: "the tensor has more than 16 dimensions",
    errno.ENOTTY: "not a file of a tensor in a mount of ckptfs",
    errno.EINVAL: "not as the mount can give it: another version of ckptfs, or not yet committed",
}


_ENDS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}


@contextlib.contextmanager
def _undisturbed():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _ENDS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# A test without FUSE replaces the mount by an AF_UNIX socket, "unix:SOCKET#raw/model.w", behind
# which the mount's own code answers. A connection replaces an open file.
_OFFER = "unix:"


def _is_offer(path):
    return isinstance(path, str) and path.startswith(_OFFER)


def _open(path):
    if not _is_offer(path):
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(path[len(_OFFER):].rpartition("#")[0])
        return s.detach()


def _request(fd, path, gpu):
    if not _is_offer(path):
        fcntl.ioctl(fd, _IOC_GPU, gpu)
        return
    os.write(fd, bytes(gpu) + path.rpartition("#")[2].encode())
    reply = os.read(fd, 4 + ctypes.sizeof(gpu))
    code = int.from_bytes(reply[:4], sys.byteorder) if len(reply) > 4 else errno.EIO
    if code:
        raise OSError(code, os.strerror(code))
    ctypes.memmove(ctypes.byref(gpu), reply[4:], ctypes.sizeof(gpu))


def _ask(fd, path, uuid, flags):
    """Requests the tensor of a file and returns the mount's reply, a _Gpu. The memory stays
    allocated until fd is closed. After an interrupted request the next one blocks signals:
    the signals of a timer could interrupt each request."""
    undisturbed = contextlib.nullcontext
    while True:
        gpu = _Gpu(version=_VERSION, flags=flags, uuid=uuid)
        try:
            with undisturbed():
                _request(fd, path, gpu)
            return gpu
        except InterruptedError:  # its handler has run, and raised nothing
            undisturbed = _undisturbed
        except OSError as error:
            if error.errno is None:  # a TimeoutError of a signal's handler
                raise
            why = _WHY.get(error.errno, os.strerror(error.errno) +
                           ": as when it is read; .ckptfs/log has the reason")
            raise OSError(error.errno, why, path) from None


# --- CUDA's driver ------------------------------------------------------------------------


class _Driver:
    """A function of it is called as a method, and raises OSError."""

    # The first that there is: versions that cuda.h gives the name to.
    NAMES = {"cuDeviceGetUuid": ("cuDeviceGetUuid_v2", "cuDeviceGetUuid"),
             "cuDevicePrimaryCtxRelease": ("cuDevicePrimaryCtxRelease_v2",),
             "cuIpcOpenMemHandle": ("cuIpcOpenMemHandle_v2",)}
    ERRNOS = {2: errno.ENOSPC, 100: errno.ENODEV, 101: errno.ENODEV}

    def __init__(self):
        try:
            self.library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise OSError(errno.ENODEV, f"no driver of CUDA: {error}") from None
        self.cuInit(0)

    def __getattr__(self, name):
        for symbol in self.NAMES.get(name, (name,)):
            function = getattr(self.library, symbol, None)
            if function:
                break
        else:
            raise OSError(errno.ENOSYS, f"CUDA's driver is too old: it has no {name}")

        def call(*arguments):
            code = function(*arguments)
            if code:
                raise OSError(self.ERRNOS.get(code, errno.EIO),
                              f"{name}: {self.error(code)}")
        setattr(self, name, call)
        return call

    def error(self, code):
        text = ctypes.c_char_p()
        self.library.cuGetErrorName(code, ctypes.byref(text))
        return text.value.decode() if text.value else f"error {code} of CUDA"


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_ubyte * 64)]


class _Device:
    """A GPU, identified by its CUDA ordinal in this process, and its primary context."""

    def __init__(self, driver, ordinal):
        self.driver, self.ordinal = driver, ordinal
        self.number = ctypes.c_int()
        driver.cuDeviceGet(ctypes.byref(self.number), ordinal)
        self.uuid = (ctypes.c_ubyte * 16)()
        driver.cuDeviceGetUuid(self.uuid, self.number)
        self.context = ctypes.c_void_p()

    @contextlib.contextmanager
    def current(self):
        """Makes its context current, and restores the previous one at the end."""
        before = ctypes.c_void_p()
        if not self.context:
            self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), self.number)
        self.driver.cuCtxGetCurrent(ctypes.byref(before))
        self.driver.cuCtxSetCurrent(self.context)
        try:
            yield
        finally:
            self.driver.cuCtxSetCurrent(before)

    def map(self, handle):
        at = ctypes.c_uint64()
        with self.current():
            self.driver.cuIpcOpenMemHandle(
                ctypes.byref(at), _Handle.from_buffer_copy(handle), 1)  # with peers
        return at.value

    def unmap(self, at):
        """Waits until all work of the context has ended, then unmaps. Errors are ignored."""
        with contextlib.suppress(OSError), self.current():
            with contextlib.suppress(OSError):
                self.driver.cuCtxSynchronize()
            self.driver.cuIpcCloseMemHandle(ctypes.c_uint64(at))

    def end(self):
        if self.context:
            with contextlib.suppress(OSError):
                self.driver.cuDevicePrimaryCtxRelease(self.number)


# --- open files -----------------------------------------------------------------------------

_lock = threading.Lock()   # protects the following variables except _gone
_driver = None
_devices = {}              # {ordinal: _Device}
_mapped = {}               # {(ordinal, handle): [address, users]}: a handle is opened once
_files = set()
_gone = collections.deque()  # files whose Tensor was deleted; __del__() runs with or without _lock


class _File:
    """An open file, shared by a Tensor and the tensors made from it."""

    def __init__(self, fd, device):
        self.fd, self.device = fd, device
        self.key = None       # in _mapped; None: not mapped
        self.at = 0           # device address
        self.is_left = False  # the Tensor was deleted or closed
        self.lent = set()     # a _Lent for each tensor made from it
        _files.add(self)

    def map(self, gpu):
        if not gpu.bytes:
            return
        key = self.device.ordinal, bytes(gpu.handle)
        if key not in _mapped:
            _mapped[key] = [self.device.map(gpu.handle), 0]
        self.key = key
        _mapped[key][1] += 1
        self.at = _mapped[key][0] + gpu.offset

    def end(self):
        """Unmaps and closes. Errors are ignored: closing the file releases the memory."""
        _files.discard(self)
        key, self.key = self.key, None
        if key:
            _mapped[key][1] -= 1
            if not _mapped[key][1]:
                self.device.unmap(_mapped.pop(key)[0])
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)

    def leave(self):
        self.is_left = True
        if not self.lent:
            self.end()


def _let_go():
    """Releases files whose Tensor was deleted. If another thread holds _lock, that thread
    does it when it releases _lock."""
    while _gone and _lock.acquire(blocking=False):
        try:
            while _gone:
                _gone.popleft().leave()
        finally:
            _lock.release()


@contextlib.contextmanager
def _locked():
    try:
        with _lock:
            yield
    finally:
        _let_go()


# --- DLPack -----------------------------------------------------------------------------------

# Fields and numbers are those of dlpack.h 1.0.
_CUDA = 2
_INT, _UINT, _FLOAT, _BFLOAT, _COMPLEX, _BOOL = 0, 1, 2, 4, 5, 6
_READ_ONLY = 1
_TYPES = {
    "float64": (_FLOAT, 8), "float32": (_FLOAT, 4), "float16": (_FLOAT, 2),
    "bfloat16": (_BFLOAT, 2), "int64": (_INT, 8), "int32": (_INT, 4), "int16": (_INT, 2),
    "int8": (_INT, 1), "uint64": (_UINT, 8), "uint32": (_UINT, 4), "uint16": (_UINT, 2),
    "uint8": (_UINT, 1), "bool": (_BOOL, 1), "complex128": (_COMPLEX, 16),
    "complex64": (_COMPLEX, 8), "complex32": (_COMPLEX, 4),
}
_WIDE = {"bcomplex32": 4, "qint32": 4, "bits16": 2}  # bytes; others without a name have one


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    NAME = b"dltensor"
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p)]


class _Versioned(ctypes.Structure):
    NAME = b"dltensor_versioned"
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_libc = ctypes.CDLL(None)
_libc.calloc.restype = ctypes.c_void_p
_libc.calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_libc.free.restype = None
_libc.free.argtypes = [ctypes.c_void_p]
_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype = ctypes.py_object
_capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_is = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is.argtypes = [ctypes.py_object, ctypes.c_char_p]

# The deleter is called by any thread, during exception handling, or after Python has ended. A
# Python function cannot serve as deleter, since it would lose the exception. time(3) can: it
# writes to its argument, the first field of the struct. _watch() detects the change.
_DELETER = ctypes.cast(_libc.time, ctypes.c_void_p).value


class _Lent:
    """The struct that a capsule points to, in memory that remains valid after Python has ended."""

    def __init__(self, file, kind, tensor):
        self.file, self.name = file, kind.NAME
        head, dims = ctypes.sizeof(kind), 8 * len(tensor.shape)
        self.address = _libc.calloc(1, head + 2 * dims)
        if not self.address:
            raise MemoryError
        managed = kind.from_address(self.address)
        managed.deleter = _DELETER
        if kind is _Versioned:
            managed.major, managed.flags = 1, 0 if tensor.private else _READ_ONLY
        managed.tensor = _DLTensor(
            file.at, _CUDA, file.device.ordinal, len(tensor.shape), tensor.code,
            tensor.bits, 1, self.address + head, self.address + head + dims, 0)
        place = ctypes.c_int64 * len(tensor.shape)
        place.from_address(managed.tensor.shape)[:] = tensor.shape
        place.from_address(managed.tensor.strides)[:] = _strides(tensor.shape)
        self.first = ctypes.c_uint64.from_address(self.address)
        self.was = self.first.value
        self.capsule = _capsule_new(self.address, self.name, None)

    def is_back(self):
        """True if the capsule was deleted unused, or its consumer has called the deleter."""
        if self.capsule and not _capsule_is(self.capsule, self.name):
            self.capsule = None
        if self.capsule:
            return _references(self) <= _ALONE
        return self.first.value != self.was

    def end(self):
        self.capsule = self.first = None
        _libc.free(self.address)
        _lent.discard(self)
        self.file.lent.discard(self)
        if self.file.is_left:
            self.file.leave()


class _Alone:
    def __init__(self):
        self.capsule = object()


def _references(holder):
    return sys.getrefcount(holder.capsule)


_ALONE = _references(_Alone())  # reference count of an object with one owner
_lent = set()
_watcher = None
_SHORT, _LONG = 0.02, 0.5  # seconds


def _strides(shape):
    strides, n = [], 1
    for extent in reversed(shape):
        strides.insert(0, n)
        n *= max(extent, 1)
    return strides


def _take_back(some):
    """Frees those that were returned. True if there were any. Must hold _lock."""
    back = [lent for lent in some if lent.is_back()]
    for lent in back:
        lent.end()
    return bool(back)


def _watch():
    """Thread that frees returned structs; it ends when there are no more. It polls every 20 to
    500 ms, and uses at most 1/20 of the time."""
    global _watcher
    wait = _SHORT
    while True:
        time.sleep(wait)
        with _locked():
            begin = time.monotonic()
            wait = _SHORT if _take_back(_lent) else min(2 * wait, _LONG)
            wait = max(wait, 20 * (time.monotonic() - begin))
            if not _lent or not _is_on:
                _watcher = None
                return


def _lend(file, kind, tensor):
    """Returns a capsule of the tensor. Must hold _lock."""
    global _watcher
    lent = _Lent(file, kind, tensor)
    file.lent.add(lent)
    _lent.add(lent)
    if not _watcher:
        _watcher = threading.Thread(target=_watch, name="ckptfs_gpu", daemon=True)
        with contextlib.suppress(RuntimeError):  # Python ends
            _watcher.start()
    return lent.capsule


# --- public interface -------------------------------------------------------------------------


class _Form:
    """Type code, bits and shape of a tensor in DLPack."""

    def __init__(self, gpu, shape, private):
        self.private, self.shape = private, shape
        self.code, size = _TYPES.get(gpu.dtype.decode(), (None, 0))
        if self.code is None:
            elements = 1
            for extent in shape:
                elements *= extent
            self.code = _UINT
            size = gpu.bytes // elements if elements else _WIDE.get(gpu.dtype.decode(), 1)
            self.shape, size = shape + (size,) if size > 1 else shape, 1
        self.bits = 8 * size


class Tensor:
    """A tensor on a GPU; open() gives it. `shape` and `dtype` are the checkpoint's."""

    def __init__(self, file, gpu, private):
        self._file = file
        self.shape = tuple(gpu.shape[:gpu.ndim])
        self.dtype = gpu.dtype.decode()
        self._form = _Form(gpu, self.shape, private)

    def __repr__(self):
        return f"<ckptfs_gpu.Tensor {self.dtype} {self.shape}>"

    def __dlpack_device__(self):
        return _CUDA, self._file.device.ordinal

    def __dlpack__(self, stream=None, *, max_version=None, dl_device=None, copy=None):
        """For from_dlpack() of torch and others. The tensor is completely written, so streams
        need not be synchronised."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("the tensor is on another device; copy it where it is used")
        if copy:
            raise BufferError("no copies are made here: use clone(), or private=True")
        kind = _Versioned if max_version and max_version[0] >= 1 else _Managed
        with _locked():
            if self._file.fd < 0:
                raise ValueError("the tensor is closed")
            return _lend(self._file, kind, self._form)

    def close(self):
        """Releases the memory. Raises OSError EBUSY if a tensor made from it still exists."""
        with _locked():
            _take_back(self._file.lent)
            if self._file.lent:
                raise OSError(errno.EBUSY, "a tensor that was made of it is still there")
            self._file.leave()

    def __del__(self):
        file = getattr(self, "_file", None)
        if file and file.fd >= 0 and _is_on:
            _gone.append(file)
            _let_go()


def _device(ordinal):
    """Returns the _Device of an ordinal. Must hold _lock."""
    global _driver
    if not _driver:
        _driver = _Driver()
    if ordinal not in _devices:
        try:
            _devices[ordinal] = _Device(_driver, ordinal)
        except OSError as error:
            raise OSError(error.errno, f"GPU {ordinal}: {error.strerror}") from None
    return _devices[ordinal]


def _ask_with_room(*question):
    try:
        return _ask(*question)
    except OSError as error:
        with _locked():
            if error.errno != errno.ENOSPC or not _take_back(_lent):
                raise
    return _ask(*question)


def open(path, device=0, private=False):
    """Returns the tensor of a file of a mount as a Tensor in GPU memory. `device`: ordinal of
    the GPU in this process, as in CUDA and torch. `private`: the memory is not shared and may
    be written."""
    fd = _open(path)
    try:
        with _locked():
            file = _File(fd, _device(device))
    except BaseException:
        os.close(fd)
        raise
    try:
        gpu = _ask_with_room(fd, path, file.device.uuid, _PRIVATE if private else 0)
        with _locked():
            file.map(gpu)
        return Tensor(file, gpu, private)
    except BaseException:
        with _locked():
            file.end()
        raise


# --- end of the process -----------------------------------------------------------------------

_is_on = True  # False or None while Python ends


@atexit.register
def _at_exit():
    """Remaining tensors stay valid until the process ends."""
    global _is_on
    with _locked():
        _take_back(_lent)
        _is_on = False
        if not _files:
            for device in _devices.values():
                device.end()
            _devices.clear()


def _forked():
    """A child of fork() cannot use its parent's CUDA context: closes the files."""
    global _lock, _driver, _watcher
    _lock = threading.Lock()
    for file in list(_files):
        file.key = None
        file.end()
    for table in _files, _mapped, _devices, _lent, _gone:
        table.clear()
    _driver = _watcher = None


os.register_at_fork(after_in_child=_forked)
