/* SPDX-License-Identifier: MIT */
/*
 * Classes in a `.metadata`: which objects are the format's own, by the name of the class
 * or by the form of the object. OLMo-core stores storage records, and Megatron-core the
 * Metadata object, as classes of their own; their fields are those of PyTorch's.
 *
 * Facts: classes and their fields by release in torch/distributed/checkpoint/
 * metadata.py, filesystem.py and planner.py; releases up to 2.2 keep TensorProperties
 * in torch/distributed/_shard/sharded_tensor/metadata.py, 1.13 everything in
 * torch/distributed/_shard/checkpoint. olmo_core/distributed/checkpoint/filesystem.py
 * (3.0.0), megatron/core/dist_checkpointing/strategies/torch.py (0.16.1).
 */
#include "dcp_files.h"
#include "dcp_internal.h"

static const struct {
	const char *name; /* last component */
	enum ck_dcp_kind kind;
} classes[] = {
	{ "Metadata", CK_DCP_METADATA },
	{ "TensorStorageMetadata", CK_DCP_TENSOR },
	{ "BytesStorageMetadata", CK_DCP_BYTES },
	{ "ChunkStorageMetadata", CK_DCP_CHUNK },
	{ "TensorProperties", CK_DCP_PROPERTIES },
	{ "MetadataIndex", CK_DCP_INDEX },
	{ "_StorageInfo", CK_DCP_INFO },
	{ "StorageMeta", CK_DCP_KNOWN },
	{ "SavePlan", CK_DCP_KNOWN },
	{ "LoadPlan", CK_DCP_KNOWN },
	{ "WriteItem", CK_DCP_KNOWN },
	{ "ReadItem", CK_DCP_KNOWN },
	{ "TensorWriteData", CK_DCP_KNOWN },
	{ "BytesIOWriteData", CK_DCP_KNOWN },
	{ "WriteItemType", CK_DCP_KNOWN },
	{ "LoadItemType", CK_DCP_KNOWN },
	{ "_MEM_FORMAT_ENCODING", CK_DCP_KNOWN },
	{ "MEM_FORMAT_ENCODING", CK_DCP_KNOWN },
	{ "MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT", CK_DCP_KNOWN },
};

static const char *const known_globals[] = {
	"torch.Size",
	"torch.device",
	"torch.serialization._get_layout",
	"collections.OrderedDict",
	"collections.defaultdict",
	"copyreg._reconstructor",
	"builtins.object",
	"builtins.getattr",
	"builtins.set",
	"builtins.dict",
	"builtins.list",
	"builtins.str",
	"_codecs.encode",
	"pathlib.Path",
	"pathlib.PosixPath",
	"pathlib.PurePosixPath",
	"pathlib.WindowsPath",
	"pathlib.PureWindowsPath",
	"pathlib._local.PosixPath",
	"pathlib._local.PurePosixPath",
};

/* True if `full` is a class of a module of the format; sets *class to the part behind
 * the module. */
static bool is_format_module(struct ck_str full, struct ck_str *class)
{
	static const char *const modules[] = {
		"torch.distributed.checkpoint.metadata.",
		"torch.distributed.checkpoint.filesystem.",
		"torch.distributed.checkpoint.planner.",
		"torch.distributed._shard.checkpoint.metadata.",
		"torch.distributed._shard.checkpoint.filesystem.",
		"torch.distributed._shard.sharded_tensor.metadata.",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(modules); i++) {
		struct ck_str module = ck_str_from(modules[i]);

		if (!ck_str_starts(full, module))
			continue;
		*class = (struct ck_str){ full.p + module.len,
					  full.len - module.len };
		return true;
	}
	return false;
}

static bool is_torch_dtype(struct ck_str full)
{
	struct ck_str torch = CK_STR("torch.");

	return ck_str_starts(full, torch) &&
	       ck_dtype_by_name((struct ck_str){ full.p + torch.len,
						 full.len - torch.len }) !=
		       CK_DTYPE_UNKNOWN;
}

/* True for a member of an enum of the format. */
static bool is_enum(struct ck_str class)
{
	return ck_str_starts(class, CK_STR("MEM_FORMAT_ENCODING.")) ||
	       ck_str_starts(class, CK_STR("_MEM_FORMAT_ENCODING.")) ||
	       ck_str_starts(class, CK_STR("WriteItemType.")) ||
	       ck_str_starts(class, CK_STR("LoadItemType."));
}

enum ck_dcp_kind ck_dcp_classify(struct ck_dcp_reader *r, const struct ck_pv *v)
{
	struct ck_str full = ck_pickle_global(r->p, v);
	struct ck_str class;

	if (is_format_module(full, &class)) {
		for (size_t i = 0; i < CK_ARRAY_SIZE(classes); i++)
			if (ck_str_is(class, classes[i].name))
				return classes[i].kind;
		if (is_enum(class))
			return CK_DCP_KNOWN;
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(known_globals); i++)
		if (ck_str_is(full, known_globals[i]))
			return CK_DCP_KNOWN;
	return is_torch_dtype(full) ? CK_DCP_KNOWN : CK_DCP_UNKNOWN;
}

bool ck_dcp_is_carried(struct ck_str global)
{
	static const char *const known[] = {
		"olmo_core.distributed.checkpoint.filesystem._StorageInfo",
		"megatron.core.dist_checkpointing.strategies.torch.MCoreMetadata",
		"megatron.core.dist_checkpointing.strategies.torch.MCoreSavePlan",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(known); i++)
		if (ck_str_is(global, known[i]))
			return true;
	return false;
}

/* --- form ------------------------------------------------------------------------ */

static bool has(const struct ck_pv *state, const char *field)
{
	struct ck_pv v;

	return ck_pv_get(state, field, &v);
}

static bool is_record(struct ck_dcp_reader *r, const struct ck_pv *state)
{
	struct ck_pv path, offset, length;
	int64_t number;

	return ck_pv_get(state, "relative_path", &path) &&
	       ck_dcp_is_str(r, &path) && ck_pv_get(state, "offset", &offset) &&
	       ck_dcp_int(r, &offset, &number) &&
	       ck_pv_get(state, "length", &length) &&
	       ck_dcp_int(r, &length, &number);
}

static bool is_index(struct ck_dcp_reader *r, const struct ck_pv *state)
{
	struct ck_pv fqn, index;
	int64_t number;

	return ck_pv_get(state, "fqn", &fqn) && ck_dcp_is_str(r, &fqn) &&
	       ck_pv_get(state, "index", &index) &&
	       (index.tag == CK_PV_NONE || ck_dcp_int(r, &index, &number));
}

/* True for the state that TensorProperties.__getstate__() returns: dtype, layout,
 * requires_grad, memory_format, pin_memory. */
static bool is_properties(struct ck_dcp_reader *r, const struct ck_pv *state)
{
	struct ck_pv dtype, grad, pinned;

	if (state->tag == CK_PV_DICT)
		return has(state, "dtype") && has(state, "layout") &&
		       has(state, "requires_grad") &&
		       has(state, "memory_format") && has(state, "pin_memory");
	if (state->tag != CK_PV_TUPLE || ck_pv_count(state) < 5)
		return false;
	dtype = ck_pv_at(state, 0);
	grad = ck_pv_at(state, 2);
	pinned = ck_pv_at(state, 4);
	return dtype.tag == CK_PV_GLOBAL && grad.tag == CK_PV_BOOL &&
	       pinned.tag == CK_PV_BOOL &&
	       is_torch_dtype(ck_pickle_global(r->p, &dtype));
}

enum ck_dcp_kind ck_dcp_form(struct ck_dcp_reader *r, const struct ck_pv *state)
{
	if (has(state, "state_dict_metadata") && has(state, "storage_data"))
		return CK_DCP_METADATA;
	if (is_properties(r, state))
		return CK_DCP_PROPERTIES;
	if (is_record(r, state))
		return CK_DCP_INFO;
	if (is_index(r, state))
		return CK_DCP_INDEX;
	if (has(state, "offsets") && has(state, "sizes"))
		return CK_DCP_CHUNK;
	if (has(state, "properties") && has(state, "size") &&
	    has(state, "chunks"))
		return CK_DCP_TENSOR;
	return CK_DCP_UNKNOWN;
}
