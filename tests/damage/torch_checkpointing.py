# SPDX-License-Identifier: MIT
"""Kinds of damage of checkpoints of torch_checkpointing. Two ranks save four items: DTensors `a` and `c` (dimension 0), a
plain tensor `b`, and a value `o` in JSON. Files with DTensors are in tests/damage/sources, by
tests/fixtures/torch_files.py."""
import json
import pickle

import source as s
from sources import EVIL, Files, cut, flipped, gone, kinds, nothing, place, put, several, stored, zipped
from want import FINE, Want, base, lost, refused

METADATA, RANKS = "metadata.pkl", (0, 1)


def group(shape, placements=({"type": "Shard", "dim": 0},), ranks=RANKS, form="DTensorShardingMetadata", mesh=None, **lies):
    """A tensor as metadata.pkl describes it."""
    mesh = {"device_type": "cpu", "mesh_shape": (2,), "mesh_data": (0, 1), "mesh_dim_names": None} | (mesh or {})
    data = {"global_shape": shape, "dtype": "torch.float32", "stride": (1,) * len(shape), "placements": list(placements),
            "mesh_spec": mesh} | lies
    return {"ranks": ranks, "sharding_metadata": {"type": form, "data": data}}


def boxes(ranks, at, sizes, inside=None):
    """The same by listed boxes, for the tensor `a`."""
    data = {"global_shape": [4, 3], "dtype": "torch.float32", "global_offsets": at, "local_sizes": sizes,
            "local_offsets": inside or [[0, 0]] * len(at)}
    return {"ranks": ranks, "sharding_metadata": {"type": "default_tensor_v1", "data": data}}


def item(groups, paths=None, layouts=None):
    return {"nested_path_to_metadata": {"[]": groups} | (paths or {}), "rank_to_layout_info": layouts or {0: None, 1: None}}


def layouts(name, encoding="JsonSerialization"):
    return {rank: {"file_path": name.format(rank), "serialization_format": {"type": encoding}} for rank in RANKS}


def metadata(version="2.0", world=2, **items):
    known = {"a": item([group((4, 3))]), "b": item([group((2, 3), [{"type": "Replicate"}])]), "c": item([group((3,))]),
             "o": item([], layouts=layouts("rank_{}/o.json"))}
    return pickle.dumps({"metadata": known | items, "world_size": world, "version": version})


def version_1():
    """The same in version 1.0."""
    content = pickle.loads(metadata())["metadata"]
    return pickle.dumps({
        "version": "1.0", "world_size": 2,
        "metadata": {json.dumps([name]): of["nested_path_to_metadata"]["[]"] for name, of in content.items() if name != "o"},
        "rank_to_layout_info_mappings": {rank: {name: of["rank_to_layout_info"][rank] for name, of in content.items()}
                                         for rank in RANKS}})


@base("torch_checkpointing")
class Items(Files):
    def made(self):
        files = {f"{name}_{rank}.pt": stored("torch_checkpointing", f"{name}_{rank}.pt") for name in "ac" for rank in RANKS}
        files |= {f"b_{rank}.pt": plain("b", (2, 3)) for rank in RANKS}
        files |= {f"rank_{rank}/o.json": json.dumps({"step": 7}, indent=4).encode() for rank in RANKS}
        return files | {METADATA: metadata()}


def plain(name, shape, **lies):
    """A torch file whose value is a tensor that is no DTensor."""
    count = s.product(shape)
    data = (s.values(name) * 4)[:count * lies.get("itemsize", 4)]
    return zipped(pkl=s.dumps(s.Tensor(shape, key=name, **lies)), data={name: data})


def changed(**items):
    return put(METADATA, lambda c: metadata(**items))


def described(**lies):
    """The tensor `a`, described otherwise."""
    return changed(a=item([group(**{"shape": (4, 3)} | lies)]))


HALF = {"a": [(24, 48, "ENODATA")]}
HALF_EIO, NONE = Want({"a": [(24, 48, "EIO")]}), lost(a=(None, None, "EIO"))
LOST, BAD = Want(HALF, files=("ENODATA",)), Want(HALF, files=("EBADMSG",))
kinds("torch_checkpointing", "a file", [
    ("as it is", nothing, FINE),
    ("as it is, in version 1.0", put(METADATA, lambda c: version_1()), FINE),
    ("is missing", gone("a_1.pt"), LOST),
    ("is empty", cut("a_1.pt", 0), BAD),
    ("is text", put("a_1.pt", b"text"), BAD),
    ("is cut in the middle", cut("a_1.pt", 1500), BAD),
    ("is cut by one byte", cut("a_1.pt", -1), BAD),
    ("is dangerous", put("a_1.pt", lambda c: zipped(pkl=EVIL)), BAD),
    ("a bit of its tensor", flipped("c_1.pt", lambda data: data.index(s.values("c")[8:])),
     Want(full=("c",), unsure=("c",))),
    ("of another encoding", changed(a=item([group((4, 3))], layouts={0: None, 1: layouts("a_{}.pt", "Other")[1]})), BAD),
    ("of an encoding that it does not have", changed(a=item([group((4, 3))], layouts={
        0: None, 1: layouts("a_{}.pt", "SafetensorsSerialization")[1]})), BAD),
    ("of another place", changed(a=item([group((4, 3))], layouts={0: None, 1: layouts("../a_{}.pt", "TorchSerialization")[1]})),
     LOST),
    ("without a tensor that is promised", changed(b=item([group((2, 3), [{"type": "Replicate"}])], {'["x"]': [group((2,))]})),
     Want(lines={"b.x": "ENODATA"})),
    ("without a plain tensor that is promised", changed(b=item([group((2, 3), [{"type": "Replicate"}])], {
        '["x"]': [group((2,), [{"type": "Replicate"}])]})), FINE),
    *((name, change, LOST) for name, change in place("a_1.pt"))])
kinds("torch_checkpointing", "a local tensor", [
    ("of another shape", put("a_1.pt", lambda c: plain("a", (3, 3))), HALF_EIO),
    ("of another number of dimensions", put("a_1.pt", lambda c: plain("a", (6,))), HALF_EIO),
    ("of another dtype", put("a_1.pt", lambda c: plain("a", (2, 3), itemsize=8)), HALF_EIO),
    ("of another rank by its own mesh", put("a_1.pt", lambda c: c.files["a_0.pt"]), HALF_EIO),
    ("of a mesh in another order", described(mesh={"mesh_data": (1, 0)}), lost(a="EIO")),
    ("that is replicated by its metadata", described(placements=[{"type": "Replicate"}]), lost(a="EIO"))])
kinds("torch_checkpointing", "a description", [
    ("of an unknown type", described(form="Other"), NONE),
    ("with Partial", described(placements=[{"type": "Partial"}]), NONE),
    ("with an unknown placement", described(placements=[{"dim": 0}]), NONE),
    ("with a placement that is no dict", described(placements=[7]), NONE),
    ("with too many placements", described(placements=[{"type": "Shard", "dim": 0}] * 2), NONE),
    ("with a dimension that is not there", described(placements=[{"type": "Shard", "dim": 2}]), NONE),
    ("with a split factor of 0", described(placements=[{"type": "StridedShard", "dim": 0, "split_factor": 0}]), NONE),
    ("with a mesh without a rank", described(mesh={"mesh_data": (0, 2)}), NONE),
    ("with a mesh of another size", described(mesh={"mesh_shape": (3,)}), NONE),
    ("with a mesh of size 0", described(mesh={"mesh_shape": (0,), "mesh_data": ()}), NONE),
    ("with a mesh that overflows", described(mesh={"mesh_shape": (1 << 62, 1 << 62)}), NONE),
    ("without a mesh", described(mesh_spec=None), NONE),
    ("with a negative size", described(global_shape=(-4, 3)), NONE),
    ("with a shape that overflows", described(global_shape=(1 << 62, 1 << 62)), NONE),
    ("of 100 dimensions", described(global_shape=(1,) * 100), NONE),
    ("without a dtype", described(dtype="float32"), NONE),
    ("whose groups have other shapes", changed(a=item([group((4, 3), ranks=(0,)), group((6, 3), ranks=(1,))])), NONE),
    ("whose groups have other dtypes", changed(a=item([group((4, 3), ranks=(0,)),
                                                      group((4, 3), ranks=(1,), dtype="torch.int32")])), NONE),
    ("without ranks", changed(a=item([{"sharding_metadata": {}}])), NONE),
    ("without data", changed(a=item([{"ranks": RANKS, "sharding_metadata": {"type": "default_tensor_v1"}}])), NONE)])
A_0, A_1 = plain("a", (2, 3)), zipped(pkl=s.dumps(s.Tensor((2, 3), key="a")), data={"a": s.values("a")[24:]})
LISTED = {"a_0.pt": A_0, "a_1.pt": A_1}


def listed(first, second):
    """`a` by listed boxes of both ranks."""
    return several(lambda c: c.files.update(LISTED), changed(a=item([boxes((0,), *first), boxes((1,), *second)])))


ROWS_0, ROWS_1 = ([[0, 0]], [[2, 3]]), ([[2, 0]], [[2, 3]])
kinds("torch_checkpointing", "listed boxes", [
    ("as they are", listed(ROWS_0, ROWS_1), FINE),
    ("in two parts", listed(ROWS_0, ([[2, 0], [3, 0]], [[1, 3], [1, 3]], [[0, 0], [1, 0]])), FINE),
    ("with a hole", listed(ROWS_0, ([[3, 0]], [[1, 3]], [[1, 0]])), Want({"a": [(24, 36, "ENODATA")]})),
    ("of no box", listed(ROWS_0, ([], [])), Want(HALF)),
    ("beyond the tensor", listed(ROWS_0, ([[3, 0]], [[2, 3]])), NONE),
    ("beyond the local tensor", listed(ROWS_0, ([[2, 0]], [[2, 3]], [[1, 0]])), NONE),
    ("of negative offsets", listed(ROWS_0, ([[-1, 0]], [[2, 3]])), NONE),
    ("of other numbers of rows", listed(ROWS_0, ([[2, 0]], [])), NONE),
    ("of other dimensions", listed(ROWS_0, ([[2]], [[2]], [[0]])), NONE)])
kinds("torch_checkpointing", "a value", [
    ("is missing", gone("rank_0/o.json"), Want(files=("ENODATA",))),
    ("is missing on all ranks", several(gone("rank_0/o.json"), gone("rank_1/o.json")),
     Want(gone=("o",), files=("ENODATA", "ENODATA"))),
    ("is empty", cut("rank_0/o.json", 0), Want(files=("EBADMSG",))),
    ("is cut", cut("rank_0/o.json", -1), Want(files=("EBADMSG",))),
    ("is no UTF-8", put("rank_0/o.json", b'"\xff"'), Want(files=("EBADMSG",))),
    ("is nested 200 deep", put("rank_0/o.json", b"[" * 200 + b"]" * 200), Want(files=("EBADMSG",))),
    ("is no JSON on all ranks", several(put("rank_0/o.json", b"{no"), put("rank_1/o.json", b"{no")),
     Want(gone=("o",), files=("EBADMSG", "EBADMSG")))])


def root(**changes):
    return put(METADATA, lambda c: pickle.dumps(pickle.loads(metadata()) | changes))


def paths(text):
    return changed(a=item([group((4, 3))], {text: []}))


kinds("torch_checkpointing", METADATA, [
    (name, change, refused(METADATA)) for name, change in (
        ("is cut", cut(METADATA, -1)), ("is empty", cut(METADATA, 0)), ("is text", put(METADATA, b"text")),
        ("is dangerous", put(METADATA, EVIL)),
        ("is dangerous in a value", put(METADATA, lambda c: metadata()[:-1] + EVIL[:-1] + b"0.")),
        ("of version 3.0", root(version="3.0")), ("of no version", root(version=None)),
        ("of no ranks", root(world_size=0)), ("of too many ranks", root(world_size=1 << 40)),
        ("of a million ranks", root(world_size=1_000_000)),
        ("of fewer ranks", root(world_size=1)), ("of other ranks", root(world_size="2")),
        ("with items that are a list", root(metadata=[])), ("with an item that is a number", root(metadata={"a": 7})),
        ("with a path that is no list", paths('"x"')), ("with a path that is cut", paths("[")),
        ("with a path in a path", paths('[["x"]]')), ("with a path twice", paths('[ ]')),
        ("with a layout that is a number", changed(a=item([group((4, 3))], layouts={0: 7, 1: None}))),
        ("with a name that is empty", changed(a=item([group((4, 3))], layouts={0: layouts("")[0], 1: None}))),
        ("with a file twice", changed(a=item([group((4, 3))], layouts={
            0: None, 1: layouts("a_0.pt", "TorchSerialization")[1]}))),
        ("with a class", root(more=complex(1, 2))))])
