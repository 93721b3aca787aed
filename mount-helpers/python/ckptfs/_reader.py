# SPDX-License-Identifier: MIT
"""A storage reader of torch.distributed.checkpoint."""
from __future__ import annotations

import ctypes
import errno
import io
import os
import pickle
from collections import namedtuple

import torch
from torch.distributed.checkpoint import StorageReader as _Base
from torch.distributed.checkpoint import metadata as _metadata
from torch.distributed.checkpoint.planner import LoadItemType, LoadPlan, LoadPlanner
from torch.futures import Future

from . import _destination, _dtypes
from ._checkpoint import Checkpoint
from ._library import Box, Error, decoded, library
from ._tensor import array_of

_BATCH = 512 << 20  # bytes of targets that are resolved, read and committed together

# A tensor of a plan. read: the target, or a tensor that is copied to it; place: address, strides and owner of its memory.
_Read = namedtuple("_Read", "item whole target read place")


class StorageReader(_Base):
    """Reads a checkpoint for dcp.load(state, storage_reader=ckptfs.torch.StorageReader(source)).

    source: a directory or file of any kind that ckptfs.open() takes, or an open Checkpoint. options: as
    of ckptfs.open(). threads: most threads of a read; 0: as many as there are processors, divided by the
    ranks of this host if torchrun started them; at most 16. A path is opened again by each load.

    Keys are those of the state dict that was saved: of DCP those of .metadata, of other kinds the keys
    of nested dicts and the positions in lists, joined by dots. Names as ckptfs shows them, without
    prefixes of wrappers, are accepted if no other entry has such a key. Elements are read into the
    tensors of the state dict, also if these are not contiguous. Only tensors on other devices, or of
    another dtype, are copied. Other entries are loaded on the CPU by the rules of
    torch.load(weights_only=True).

    Raises ckptfs.Error if there is no checkpoint. A damaged entry, or one that weights_only refuses,
    does not prevent the others: when all are loaded, dcp.load raises CheckpointException, and its
    `failures` has the ckptfs.Error of each rank, with errno, fqn, file, expected and found. All other
    tensors of the state dict then have their elements.
    """

    def __init__(self, source: str | os.PathLike | Checkpoint, options: str = "", threads: int = 0):
        super().__init__()
        self.options = options
        self.threads = threads
        self._open(source)

    def _open(self, source) -> None:
        self._is_shared = isinstance(source, Checkpoint)
        if self._is_shared and self.options:
            raise TypeError("an open checkpoint has its own options")
        self._ck = source if self._is_shared else Checkpoint(source, self.options)
        self._is_used = False
        self._tensors: dict[str, int] = {}  # number by key
        self._objects: dict[str, tuple[str, bytes]] = {}  # shown name and stem by key
        self._keys: dict[str, str] = {}  # by shown name, if it is no key

    # --- as DCP calls it ----------------------------------------------------------------

    @property
    def checkpoint_id(self) -> str:
        """The path of the checkpoint."""
        return self._ck.source

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike) -> bool:
        """Whether there is such a directory or file."""
        return os.path.exists(checkpoint_id)

    def reset(self, checkpoint_id: str | os.PathLike | None = None) -> None:
        """Begins a load. checkpoint_id: another path. Raises ckptfs.Error if it cannot be opened."""
        if checkpoint_id is not None:
            self._open(checkpoint_id)

    def read_metadata(self, *args, **kwargs) -> _metadata.Metadata:
        """The Metadata of the checkpoint: each tensor is one chunk, in whatever boxes it is stored."""
        if self._is_used and not self._is_shared:
            self._open(self._ck.source)
        self._is_used = True
        self._find_entries()
        entries, planner_data = _one_rank(self._ck)
        for key, number in self._tensors.items():
            if key not in entries:
                _add_tensor(entries, key, self._ck._whole_at(number))
        for key in self._objects:
            entries.setdefault(key, _metadata.BytesStorageMetadata())
        if planner_data is not None:
            planner_data.update([(key, (key,)) for key in entries if key not in planner_data])
        found = _metadata.Metadata(_Entries(entries, self._keys), planner_data)
        if hasattr(_metadata, "StorageMeta"):
            found.storage_meta = _metadata.StorageMeta(checkpoint_id=self._ck.source)
        return found

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs) -> None:
        """Does nothing: the checkpoint is open."""

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Returns the plan."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Returns the plans."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Reads all items of a plan, by several threads, in the order of the data files.

        Raises ckptfs.Error for the first item that cannot be read, when all others are loaded.
        """
        if not self._is_used:
            self.read_metadata()
        items = [(item, self._tensors[self._key(item)]) for item in plan.items if item.type != LoadItemType.BYTE_IO]
        items.sort(key=lambda it: (*self._ck._order(it[1]), tuple(it[0].storage_offsets)))
        errors: list[Error] = []
        batch, size = [], 0
        for item, number in items:
            whole = self._ck._whole_at(number)
            batch.append((item, whole))
            size += whole.itemsize * torch.Size(item.lengths).numel()
            if size >= _BATCH:
                errors += self._read_tensors(batch, planner)
                batch, size = [], 0
        errors += self._read_tensors(batch, planner)
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                try:
                    planner.load_bytes(item, self._object(*self._objects[self._key(item)]))
                except Error as e:
                    errors.append(e)
        if errors:
            raise errors[0]
        done: Future = Future()
        done.set_result(None)
        return done

    # --- entries ------------------------------------------------------------------------

    def _find_entries(self) -> None:
        lib, handle, shown = library(), self._ck._handle(), {}
        for i in range(lib.ckptfs_tensors(handle)):
            name, key = _names(lib.ckptfs_tensor_at(handle, i)[0])
            self._tensors[key], shown[name] = i, key
        for i in range(lib.ckptfs_objects(handle)):
            info = lib.ckptfs_object_at(handle, i)[0]
            name, key = _names(info)
            self._objects[key], shown[name] = (name, info.stem), key
        self._keys = {name: key for name, key in shown.items() if name not in self._tensors and name not in self._objects}

    def _key(self, item) -> str:
        name = item.storage_index.fqn
        return self._keys.get(name, name)

    def _object(self, name: str, stem: bytes) -> io.BytesIO:
        """An entry that is no tensor as a file of torch.save, saved again after it was loaded by the rules of weights_only, since
        planners load without them."""
        handle, path = self._ck._handle(), b"objects/" + stem + b".pt"
        data = io.BytesIO(handle.read(path, 0, handle.size(path)))
        try:
            value = torch.load(data, map_location="cpu", weights_only=True)
        except Exception as e:  # its type depends on the release of PyTorch
            raise Error(errno.EBADMSG, f"{name}: torch.load(weights_only=True) refuses it: {_reason(e)}", name) from e
        again = io.BytesIO()
        torch.save(value, again)
        again.seek(0)
        return again

    # --- tensors ------------------------------------------------------------------------

    def _threads(self) -> int:
        ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
        if self.threads or not ranks.isdigit() or int(ranks) < 2:
            return self.threads or self._ck.threads
        return max(1, (os.cpu_count() or 1) // int(ranks))

    def _read_tensors(self, batch, planner) -> list[Error]:
        """Reads and commits tensors. Returns the first error of each group."""
        errors = []
        for reads in _apart([_prepare(item, whole, planner) for item, whole in batch]):
            boxes = (Box * len(reads))()
            for box, read in zip(boxes, reads):
                _fill(box, read)
            try:
                self._ck._handle().read_boxes(boxes, self._threads())
            except Error as e:
                if not any(box.err for box in boxes):
                    raise
                errors.append(e)
            for box, read in zip(boxes, reads):
                if not box.err:
                    if read.read is not read.target:
                        read.target.copy_(read.read)
                    planner.commit_tensor(read.item, read.target)
        return errors


def _apart(reads):
    """Groups without a memory that occurs twice, as that of tied parameters: the later read wins."""
    while reads:
        group = {read.place[0] if read.read.numel() else id(read): read for read in reversed(reads)}
        yield list(group.values())[::-1]
        taken = {id(read) for read in group.values()}
        reads = [read for read in reads if id(read) not in taken]


def _prepare(item, whole, planner) -> _Read:
    target = planner.resolve_tensor(item).detach()
    part = whole._replace(shape=tuple(item.lengths))
    if tuple(target.shape) != part.shape:
        raise ValueError(f"{whole.name}: the target has the shape {list(target.shape)}, the part of the checkpoint "
                         f"{list(part.shape)}")
    try:
        return _Read(item, whole, target, target, _destination.address_of(target, part))
    except TypeError:
        read = torch.empty(part.shape, dtype=_dtypes.torch_type(whole.dtype), device="cpu")
        return _Read(item, whole, target, read, _destination.address_of(read, part))


def _fill(box, read: _Read) -> None:
    item, (address, strides, _) = read.item, read.place
    box.tensor, box.to, box.ndim = read.whole.number, address, len(item.lengths)
    if item.lengths:
        start = item.storage_index.offset or (0,) * len(item.lengths)
        box.offsets = array_of([a + b for a, b in zip(start, item.storage_offsets)])
        box.sizes = array_of(item.lengths)
        if strides:
            box.strides = (ctypes.c_int64 * len(strides))(*strides)


# --- metadata -----------------------------------------------------------------------------


class _Entries(dict):
    """Metadata by key; also by the shown names of `keys`, which iterating leaves out."""

    def __init__(self, entries, keys):
        super().__init__(entries)
        self._keys = {name: key for name, key in keys.items() if key in entries}

    def __contains__(self, name) -> bool:
        return super().__contains__(name) or name in self._keys

    def __missing__(self, name):
        return super().__getitem__(self._keys[name])

    def get(self, name, default=None):
        return self[name] if name in self else default

    def __reduce__(self):
        return _Entries, (dict(self), self._keys)


class _Unpickler(pickle.Unpickler):
    """Of .metadata as the library makes it."""

    _CLASSES = frozenset({
        ("torch", "Size"), ("torch.serialization", "_get_layout"),
        *(("torch.distributed.checkpoint.metadata", name) for name in (
            "Metadata", "MetadataIndex", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata")),
        ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
        ("torch.distributed._shard.sharded_tensor.metadata", "TensorProperties"),
        ("torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING"),
    })

    def find_class(self, module, name):
        if (module, name) in self._CLASSES or module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} in dcp/1/.metadata")


def _one_rank(ck: Checkpoint):
    """Entries and paths of the checkpoint as one rank would save it; no entry if all of them are left out there."""
    try:
        data = ck.read("dcp/1/.metadata")
    except Error as e:
        if e.errno != errno.ENOENT:
            raise
        return {}, None
    found = _Unpickler(io.BytesIO(data)).load()
    return found.state_dict_metadata, found.planner_data


def _add_tensor(entries, key: str, whole) -> None:
    """Adds a tensor that dcp/ leaves out, since it cannot be read, or has no text as key. Reading it gives the reason."""
    try:
        dtype = _dtypes.torch_type(whole.dtype)
    except TypeError:
        return
    size = torch.Size(whole.shape)
    chunk = _metadata.ChunkStorageMetadata(torch.Size([0] * len(size)), size)
    entries[key] = _metadata.TensorStorageMetadata(_metadata.TensorProperties(dtype=dtype), size, [chunk])


def _names(info) -> tuple[str, str]:
    name = decoded(ctypes.string_at(info.fqn, info.fqn_len))
    return name, name if info.key == info.fqn else decoded(ctypes.string_at(info.key, info.key_len))


def _reason(e: Exception) -> str:
    """The line of a message of torch.load that names the cause."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()] or [type(e).__name__]
    return next((line for line in lines if "GLOBAL" in line), lines[0])
