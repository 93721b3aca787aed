/* SPDX-License-Identifier: MIT */
/*
 * What the two halves of the `.metadata` reader share: metadata.c takes
 * rows from the pickle as it runs, join.c joins them into the catalog.
 */
#ifndef CK_DCP_INTERNAL_H
#define CK_DCP_INTERNAL_H

#include "ckptfs/catalog_edit.h"
#include "ckptfs/pickle.h"
#include "ckptfs/rewrite.h"
#include "dcp.h"

/* What a class means here. Values of aux for collapsed objects. */
enum ck_dcp_kind {
	CK_DCP_NOT_SEEN,
	CK_DCP_UNKNOWN,
	CK_DCP_KNOWN, /* part of the format, nothing to take from it */
	CK_DCP_METADATA,
	CK_DCP_TENSOR,
	CK_DCP_BYTES,
	CK_DCP_CHUNK,
	CK_DCP_PROPERTIES,
	CK_DCP_INDEX,
	CK_DCP_INFO,
};

enum {
	CK_DCP_GLOBALS = 4096,
	CK_DCP_STEP = 16, /* price of looking at one value */
};

#define CK_DCP_NO_OFFSET UINT32_MAX
#define CK_DCP_BAD_BOX	 UINT32_MAX

/* MetadataIndex: key of an item. */
struct ck_dcp_index_row {
	const char *fqn; /* in the input */
	uint64_t offset; /* in ints */
	uint32_t fqn_len;
	uint32_t ndim; /* CK_DCP_NO_OFFSET: an entry that is no tensor */
};

/* TensorStorageMetadata. */
struct ck_dcp_tensor_row {
	uint64_t shape; /* in ints */
	uint64_t boxes; /* in ints, one after the other */
	uint32_t ndim;
	uint32_t nchunks;
	int64_t dtype;	   /* number of its global, -1: none */
	const char *fault; /* NULL, or why its boxes cannot be used */
	int err;
};

/* An entry of state_dict_metadata. */
struct ck_dcp_entry {
	struct ck_str key;
	const struct ck_dcp_tensor_row *tensor; /* NULL: no tensor */
	const struct ck_pv *path; /* of planner_data; NULL: none */
	bool known;		  /* its class */
	size_t first;		  /* of its items */
	uint32_t count;		  /* items: boxes, or one */
	uint32_t next; /* the item that storage_data should name next */
};

/* Open addressing: number + 1, 0 empty; slots are a power of two. */
struct ck_dcp_table {
	uint32_t *slots;
	size_t n;
};

struct ck_dcp_reader {
	struct ck_catalog *c;
	struct ck_pickle *p;
	struct ck_diag *d;
	int (*file)(void *ctx, struct ck_str path, uint32_t *number);
	void *file_ctx;

	int err; /* of what must end the reading: no memory, or none left */
	uint8_t kinds[CK_DCP_GLOBALS]; /* by number of a global */
	int64_t *ints;
	struct ck_dcp_index_row *indexes;
	struct ck_item *infos;
	struct ck_dcp_tensor_row *tensors;
	size_t nints, nindexes, ninfos, ntensors;
	size_t ints_cap, indexes_cap, infos_cap, tensors_cap;

	struct ck_str last_path; /* of infos: mostly the one before */
	uint32_t last_file;

	struct ck_dcp_entry *entries; /* of state_dict_metadata, in order */
	uint32_t nentries;
	/* Of all boxes and other entries: number in infos + 1, 0: no row was found. */
	uint32_t *of_item;
	size_t nitems;
	struct ck_dcp_table by_key;    /* entries */
	struct ck_dcp_table leftovers; /* rows of storage_data out of order */
	const struct ck_pv *storage;   /* key, value, ... of storage_data */
	uint32_t nstorage;	       /* pairs */
	uint32_t malformed;	       /* storage records */
	uint64_t seed;

	struct ck_str in;	      /* the .metadata */
	const char *name;	      /* of it */
	struct ck_dcp_places *places; /* NULL: nobody asks */
};

/* What a global means; ck_dcp_kind() asks once for each. */
enum ck_dcp_kind ck_dcp_classify(struct ck_dcp_reader *r,
				 const struct ck_pv *v);

static inline enum ck_dcp_kind ck_dcp_kind(struct ck_dcp_reader *r,
					   const struct ck_pv *v)
{
	uint8_t *kind;

	if (v->tag != CK_PV_GLOBAL || v->i >= CK_DCP_GLOBALS)
		return CK_DCP_UNKNOWN;
	kind = &r->kinds[v->i];
	if (*kind == CK_DCP_NOT_SEEN)
		*kind = (uint8_t)ck_dcp_classify(r, v);
	return *kind;
}

/* The kind of an object whose class is unknown, by the fields of its state; a table of
 * `Objects of .metadata` in ckptfs(5). CK_DCP_UNKNOWN if the fields are others. */
enum ck_dcp_kind ck_dcp_form(struct ck_dcp_reader *r,
			     const struct ck_pv *state);
/* A collapsed object of that kind, wherever it is kept. */
bool ck_dcp_taken(const struct ck_pv *v, enum ck_dcp_kind kind,
		  struct ck_pv *out);
/* --- values.c: forms that Python takes for the same ----------------------------- */

bool ck_dcp_object_str(struct ck_dcp_reader *r, const struct ck_pv *v,
		       struct ck_str *out);
bool ck_dcp_object_is_str(struct ck_dcp_reader *r, const struct ck_pv *v);
bool ck_dcp_object_int(const struct ck_dcp_reader *r, const struct ck_pv *v,
		       int64_t *out);

/* A str, a str subclass, a NumPy string, or a pathlib path. False for any other value, and if r->err
 * is set, which ends the reading. */
static inline bool ck_dcp_str(struct ck_dcp_reader *r, const struct ck_pv *v,
			      struct ck_str *out)
{
	return ck_pv_str(v, out) || ck_dcp_object_str(r, v, out);
}

/* As ck_dcp_str(), without the text: a path may still have parts of other types. */
static inline bool ck_dcp_is_str(struct ck_dcp_reader *r, const struct ck_pv *v)
{
	return v->tag == CK_PV_STR || ck_dcp_object_is_str(r, v);
}

/* An int or a NumPy integer that fits int64; no bool. */
static inline bool ck_dcp_int(const struct ck_dcp_reader *r,
			      const struct ck_pv *v, int64_t *out)
{
	return ck_pv_int(v, out) || ck_dcp_object_int(r, v, out);
}

/* A dict, OrderedDict or defaultdict, as a DICT. */
bool ck_dcp_dict(const struct ck_dcp_reader *r, const struct ck_pv *v,
		 struct ck_pv *out);
/* The fields of an object: its state, or the second part of a state (None, {...}),
 * which objects with __slots__ have. */
struct ck_pv ck_dcp_fields(const struct ck_pv *state);
/* The type of a value, for messages. */
const char *ck_dcp_type(const struct ck_dcp_reader *r, const struct ck_pv *v);

int ck_dcp_no_memory(struct ck_dcp_reader *r);
/* Nothing is left to pay with: -EBADMSG. */
int ck_dcp_spent(struct ck_dcp_reader *r);

/* Pays for bytes kept, or steps done, from what the size of the .metadata
 * allows: an object may be named any number of times by two bytes each, and
 * must not be copied or walked as often for nothing. -EBADMSG. */
CK_MUST_USE static inline int ck_dcp_spend(struct ck_dcp_reader *r,
					   uint64_t bytes)
{
	return ck_pickle_spend(r->p, bytes) ? 0 : ck_dcp_spent(r);
}

/* ints from pos on; of a checkpoint without any number too. */
static inline const int64_t *ck_dcp_ints(const struct ck_dcp_reader *r,
					 uint64_t pos)
{
	return r->ints ? r->ints + pos : NULL;
}

/* offsets (then sizes) of box i. */
static inline const int64_t *ck_dcp_box(const struct ck_dcp_reader *r,
					const struct ck_dcp_tensor_row *t,
					uint32_t i)
{
	return ck_dcp_ints(r, t->boxes + (uint64_t)i * 2 * t->ndim);
}

/* Puts the entries, whose items are joined, into the catalog. */
CK_MUST_USE int ck_dcp_fill(struct ck_dcp_reader *r);
/* Joins the rows, from the pickle's root on, and fills the catalog. */
CK_MUST_USE int ck_dcp_join(struct ck_dcp_reader *r, const struct ck_pickle *p);

/* --- places; only where somebody asks ----------------------------------------- */

/* A storage record was taken, the last of infos. Returns 1, or a negative errno. */
CK_MUST_USE int ck_dcp_place_info(struct ck_dcp_reader *r,
				  const struct ck_pv *state);
/* An item has this info. */
void ck_dcp_place_item(struct ck_dcp_reader *r, uint64_t info);
/* All items are joined: the places of boxes. */
CK_MUST_USE int ck_dcp_place_chunks(struct ck_dcp_reader *r);

/* --- names.c: what the names of data files say ------------------------------------ */

#define CK_DCP_METADATA_NAME ".metadata"

/* The rank of `__<rank>.metadata`, which a save without collectives leaves. CK_NO_RANK:
 * it is no such name. */
uint64_t ck_dcp_metadata_rank(const char *name);

/* The rank that a data file is named after: `__<rank>_...`, a decimal without
 * leading zeros. CK_NO_RANK: it has none. Source: FileSystemWriter's
 * `__{rank}_{n}.distcp` (torch/distributed/checkpoint/filesystem.py). */
uint64_t ck_dcp_rank(struct ck_str path);

/* Of a data file that a commit makes: `__<r>_ckptfs-<generation>-<hex>.distcp`, or without `<r>_`
 * for CK_NO_RANK; as of ck_shard_name(). */
void ck_dcp_shard_name(char out[static CK_NAME_LEN], uint64_t rank,
		       uint64_t generation, const char *hex);
/* As ck_name_is_ours(). */
bool ck_dcp_is_ours(const char *name, uint64_t *generation);

#endif
