# SPDX-License-Identifier: MIT
"""Writes the layout of FSDP1's flat parameters, for ckptfs.

A checkpoint of FullyShardedDataParallel in LOCAL_STATE_DICT form has flat parameters. Each
is the concatenation of all parameters of a module; their names and shapes are not stored.
This module writes them to a file beside the files of the ranks, where ckptfs finds it:

    import ckptfs_sidecar
    if torch.distributed.get_rank() == 0:
        ckptfs_sidecar.write(model, "checkpoint/ckptfs-flat.json", optimizers=[optimizer])

`model` is the one that FSDP made. It may also be written later, without a job, from the
plain model, which needs no memory when it is made on the device "meta":

    with torch.device("meta"):
        model = Net()
    ckptfs_sidecar.write(model, "checkpoint/ckptfs-flat.json", units=["", "layers.0", "layers.1"],
                         world_size=8, use_orig_params=True, low_precision_dtype=torch.bfloat16)

The arguments of describe(), and of write(), which writes its result to a file:

    units                the names of the modules that FSDP wrapped, "" for the model itself.
                         None: `model` is FSDP's, and all but `optimizers` is read from it
    world_size           ranks that share a flat parameter
    use_orig_params      the argument of FSDP; False if it was not passed
    low_precision_dtype  MixedPrecision.param_dtype; or a dict from names of modules to it,
                         if they differ, as FSDP's do of BatchNorm
    optimizers           optimizers, whose state is kept under numbers; or of each the list of
                         names behind these numbers. One that has the parameters of a plain
                         model stands for the optimizer of the same groups in the job

What cannot be described raises ValueError, and nothing is written. Nothing here is
collective: one rank calls it, at any time at which no module is gathered. It needs PyTorch,
of any version that has FSDP1 (tried with 2.13), and this file is all there is of it.
"""
import json
import os

import torch

__all__ = ["describe", "write"]

_FLAT = "_flat_param"
_WRAPPERS = "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod", "_fpw_module"
_ALIGN = 16                                     # bytes, where use_orig_params aligns parameters


def _clean(name):
    """A name as ckptfs shows it: without the components that wrappers insert."""
    parts = name.split(".")
    return ".".join([part for part in parts[:-1] if part not in _WRAPPERS] + parts[-1:])


def _clean_module(name):
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def _join(*parts):
    return ".".join(part for part in parts if part)


def _dtype_name(dtype):
    return str(dtype).split(".")[-1]


def _refuse_strided(fqn, shape, stride):
    raise ValueError(f"{fqn}: its elements are not in the order of its shape {list(shape)}, but at strides "
                     f"{list(stride)} (channels_last?); make it contiguous() before FSDP has it")


def _check_contiguous(fqn, shape, stride):
    if 0 in shape:
        return
    dense = 1
    for size, step in reversed(list(zip(shape, stride))):
        if size != 1 and step != dense:
            _refuse_strided(fqn, shape, stride)
        dense *= size


# ---- a model of FSDP's ------------------------------------------------------------------------


def _handle(module):
    handle = getattr(module, "_handle", None)   # one since 2.1; before that a list of one at most
    if handle is None and getattr(module, "_handles", None):
        handle = module._handles[0]
    return handle


def _offsets(flat):
    """Where each parameter of a flat one begins."""
    numels = getattr(flat, "_numels_with_padding", flat._numels)
    padding = getattr(flat, "_is_padding_mask", [False] * len(numels))
    offsets, at = [], 0
    for numel, is_padding in zip(numels, padding):
        if not is_padding:
            offsets.append(at)
        at += numel
    return offsets


def _live_unit(prefix, flat):
    params, extensions = [], getattr(flat, "_param_extensions", ())
    for i, (fqn, shape, offset) in enumerate(zip(flat._fqns, flat._shapes, _offsets(flat))):
        name = _join(prefix, _clean(fqn))
        if i < len(extensions) and extensions[i] is not None:
            raise ValueError(f"{name}: a part of a tensor that other parallelism has cut; where it is in the whole "
                             f"cannot be described")
        if hasattr(flat, "_strides"):
            _check_contiguous(name, shape, flat._strides[i])
        params.append({"fqn": name, "shape": list(shape), "offset": offset})
    shared = [{"fqn": _join(prefix, _clean(_join(info.module_name, info.param_name))),
               "of": _join(prefix, _clean(_join(info.prim_module_name, info.prim_param_name)))}
              for info in flat._shared_param_infos]
    return {"flat_param": _join(prefix, _FLAT), "numel": flat._unpadded_unsharded_size.numel(),
            "dtype": _dtype_name(flat.dtype), "params": params, "shared": shared}


def _same(what, given, found):
    if given is not None and given != found:
        raise ValueError(f"{what} is {found} in the model, not {given}")
    return found


def _live(model, world_size, use_orig_params, low_precision_dtype):
    """The units of a model that FSDP made, and the name of each parameter that an optimizer may have."""
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    units, names, low, worlds, original = [], {}, set(), set(), set()
    for path, module in model.named_modules():
        handle = _handle(module) if isinstance(module, FSDP) else None
        if handle is None:
            continue
        flat = handle.flat_param
        unit = _live_unit(_clean_module(path), flat)
        units.append(unit)
        worlds.add(handle.world_size)
        original.add(bool(handle._use_orig_params))
        low.add(handle._fwd_bwd_param_dtype)
        names[id(flat)] = unit["flat_param"]
        for param, entry in zip(getattr(flat, "_params", None) or (), unit["params"]):
            names[id(param)] = entry["fqn"]
    if not units:
        raise ValueError("no module of the model is FullyShardedDataParallel with parameters; of a plain model "
                         "`units` says which are")
    if len(worlds) > 1 or len(original) > 1:
        raise ValueError(f"its modules differ in the number of ranks, {sorted(worlds)}, or in use_orig_params")
    if isinstance(low_precision_dtype, torch.dtype) and low_precision_dtype not in low:
        raise ValueError(f"low_precision_dtype is {low} in the model, not {low_precision_dtype}")
    for path, param in model.named_parameters():
        names.setdefault(id(param), _clean(path))
    return (units, names, _same("world_size", world_size, worlds.pop()),
            _same("use_orig_params", use_orig_params, original.pop()))


# ---- a plain model, whose layout is computed --------------------------------------------------------


class _Layout:
    """The parameters of one unit, as FlatParamHandle puts them behind each other."""

    def __init__(self, name, align, world_size):
        self.name, self.align, self.world_size = name, align, world_size
        self.at, self.dtype, self.params, self.shared, self.first = 0, None, [], [], {}

    def pad(self, to):
        self.at += -self.at % to

    def add(self, fqn, param):
        if id(param) in self.first:
            self.shared.append({"fqn": fqn, "of": self.first[id(param)]})
            return
        if self.dtype not in (None, param.dtype):
            raise ValueError(f"{fqn} is {_dtype_name(param.dtype)}, others of {self.name or 'the model'} are "
                             f"{_dtype_name(self.dtype)}: FSDP has them in one tensor")
        _check_contiguous(fqn, param.shape, param.stride())
        self.dtype = param.dtype
        if self.align is not None:
            self.pad(_ALIGN // torch.empty(0, dtype=self.align or param.dtype).element_size())
        self.first[id(param)] = fqn
        self.params.append({"fqn": fqn, "shape": list(param.shape), "offset": self.at})
        self.at += param.numel()

    def described(self):
        if self.align is not None:
            self.pad(self.world_size)
        return {"flat_param": _join(self.name, _FLAT), "numel": self.at, "dtype": _dtype_name(self.dtype),
                "params": self.params, "shared": self.shared}


def _modules_of(model, units):
    """Name -> module, in the model's order."""
    modules = {}
    for path, module in model.named_modules(remove_duplicate=False):
        modules.setdefault(_clean_module(path), module)
    for name in units:
        if name not in modules:
            raise ValueError(f"the model has no module {name!r}")
    wanted = set(units)
    return {name: module for name, module in modules.items() if name in wanted}


def _plain_unit(module, wrapped, layout):
    """Adds the parameters of a unit, but for those of units within it."""
    within = {id(part) for part in module.modules()}
    skipped = {id(part) for inner in wrapped if inner is not module and id(inner) in within
               for part in inner.modules()}
    for path, part in module.named_modules(remove_duplicate=False):
        if id(part) in skipped:
            continue
        for name, param in part._parameters.items():
            if param is not None:
                layout.add(_join(layout.name, _clean(_join(path, name))), param)


def _plain_order(model, flats, names, owner):
    """Names in the order in which the parameters of FSDP's model come: a flat one before all of its module."""
    order = []
    for part in model.modules():
        if id(part) in flats:
            order.append(flats[id(part)])
        order += [names[id(param)] for param in part._parameters.values()
                  if param is not None and id(param) not in owner]
    return order


def _plain(model, units, world_size, use_orig_params, low_precision_dtype):
    """The units of a plain model, the names of its parameters, and of those in units the flat one, in order."""
    if world_size is None or world_size < 1:
        raise ValueError("of a plain model world_size has to be given")
    modules, found, names, owner, flats = _modules_of(model, units), [], {}, {}, {}
    for name, module in modules.items():
        low = low_precision_dtype.get(name) if isinstance(low_precision_dtype, dict) else low_precision_dtype
        layout = _Layout(name, (low or False) if use_orig_params else None, world_size)
        _plain_unit(module, modules.values(), layout)
        if not layout.params:
            continue
        found.append(layout.described())
        flats[id(module)] = found[-1]["flat_param"]
        for param, fqn in layout.first.items():
            if param in owner:
                raise ValueError(f"{fqn} is also {names[param]}, which is in another unit: FSDP1 cannot shard that")
            owner[param], names[param] = flats[id(module)], fqn
    if not found:
        raise ValueError("these modules have no parameters")
    for path, param in model.named_parameters():
        names.setdefault(id(param), _clean(path))
    if use_orig_params:
        return found, names, {}, []
    return found, names, owner, _plain_order(model, flats, names, owner)


# ---- optimizers ---------------------------------------------------------------------------------


def _named(param, names):
    if id(param) not in names:
        raise ValueError(f"an optimizer has a tensor of shape {list(param.shape)} that is no parameter of the model")
    return names[id(param)]


def _optimizer_names(optimizer, names, owner, order):
    """Of the numbers under which an optimizer keeps its state: the names. owner: of parameters that are in a flat one
    that the optimizer of the job has instead of them; then the names of a group are in this order."""
    if not hasattr(optimizer, "param_groups"):
        return [_clean(name) for name in optimizer]
    listed = {}
    for group in optimizer.param_groups:
        found = {owner.get(id(param)) or _named(param, names): None for param in group["params"]}
        for name in sorted(found, key=order.index) if order else found:
            if name in listed:
                raise ValueError(f"two groups of an optimizer have parameters of {name}, which is one tensor of FSDP's")
            listed[name] = None
    return list(listed)


# ---- what there is to call -----------------------------------------------------------------------


def describe(model, *, units=None, world_size=None, use_orig_params=None, low_precision_dtype=None, optimizers=()):
    """Returns the contents of the sidecar as a dict. Raises ValueError if the model cannot be
    described."""
    owner, order = {}, []
    if units is None:
        found, names, world_size, use_orig_params = _live(model, world_size, use_orig_params, low_precision_dtype)
    else:
        use_orig_params = bool(use_orig_params)
        found, names, owner, order = _plain(model, units, world_size, use_orig_params, low_precision_dtype)
    return {"format": "ckptfs-flat", "version": 1, "torch": torch.__version__.split("+")[0], "world_size": world_size,
            "use_orig_params": use_orig_params, "units": found,
            "optimizers": [_optimizer_names(optimizer, names, owner, order) for optimizer in optimizers]}


def write(model, path, *, units=None, world_size=None, use_orig_params=None, low_precision_dtype=None, optimizers=()):
    """Writes describe() to a file, which is replaced atomically."""
    found = describe(model, units=units, world_size=world_size, use_orig_params=use_orig_params,
                     low_precision_dtype=low_precision_dtype, optimizers=optimizers)
    path = os.fspath(path)
    folder, name = os.path.split(path)
    scratch = os.path.join(folder, f".{name}.{os.urandom(8).hex()}")
    try:
        with open(scratch, "x", encoding="ascii") as file:
            json.dump(found, file)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.rename(scratch, path)
    except BaseException:
        if os.path.exists(scratch):
            os.unlink(scratch)
        raise
    fd = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
