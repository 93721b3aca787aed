/* SPDX-License-Identifier: MIT */
/*
 * dcp_internal: the reader of `.metadata`, in files that share struct ck_dcp_reader:
 *
 *   dcp_metadata.c  parses the pickle; takes rows from its objects at each BUILD
 *   classes.c       the kind of an object, by its class or by its fields
 *   dcp_values.c    strings, ints and dicts that are objects of other classes
 *   dcp_places.c    the BUILD of each location; only for writing
 *   dcp_join.c      joins the rows by (fqn, offset)
 *   fill.c          fills the catalog from the joined rows
 *
 * A reader belongs to one thread and lives for one call of ck_dcp_parse_places().
 */
#ifndef CK_DCP_INTERNAL_H
#define CK_DCP_INTERNAL_H

#include "ckptfs/pickle.h"
#include "dcp.h"
#include "format/rewrite.h"
#include "model/catalog/catalog_edit.h"

/* The meaning of a class; also values of `aux` of collapsed objects. */
enum ck_dcp_kind {
	CK_DCP_NOT_SEEN,
	CK_DCP_UNKNOWN,
	CK_DCP_KNOWN, /* part of the format, but not needed */
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
	CK_DCP_STEP = 16, /* cost of reading one value, in bytes */
};

#define CK_DCP_NO_OFFSET UINT32_MAX
#define CK_DCP_BAD_BOX	 UINT32_MAX

/* A MetadataIndex: the key of an item. */
struct ck_dcp_index_row {
	const char *fqn; /* in the input */
	uint64_t offset; /* in ints */
	uint32_t fqn_len;
	uint32_t ndim; /* CK_DCP_NO_OFFSET for an entry other than a tensor */
};

/* A TensorStorageMetadata. */
struct ck_dcp_tensor_row {
	uint64_t shape; /* in ints */
	uint64_t boxes; /* in ints: offsets and sizes of each box, in order */
	uint32_t ndim;
	uint32_t nchunks;
	int64_t dtype;	   /* number of its global; -1 if it has no dtype */
	const char *fault; /* why its boxes cannot be used; or NULL */
	int err;
};

/* An entry of state_dict_metadata. */
struct ck_dcp_entry {
	struct ck_str key;
	const struct ck_dcp_tensor_row *tensor; /* NULL if it is not a tensor */
	const struct ck_pv *path; /* its path in planner_data; or NULL */
	bool known;		  /* its class is BytesStorageMetadata */
	size_t first;		  /* its first item, index in of_item */
	uint32_t count;		  /* number of items: of boxes, or 1 */
	uint32_t next; /* the item that is expected next in storage_data */
};

/* A hash table with open addressing. A slot has a number + 1, or 0 if it is empty. The
 * number of slots is a power of two. */
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

	/* an error that must end the parsing: -ENOMEM, or -EBADMSG if the memory limit
	 * is spent */
	int err;
	uint8_t kinds[CK_DCP_GLOBALS]; /* by number of a global */
	int64_t *ints;
	struct ck_dcp_index_row *indexes;
	struct ck_item *infos;
	struct ck_dcp_tensor_row *tensors;
	size_t nints, nindexes, ninfos, ntensors;
	size_t ints_cap, indexes_cap, infos_cap, tensors_cap;

	/* the path of the last info, and its file: successive rows mostly have the same
	 * path */
	struct ck_str last_path;
	uint32_t last_file;

	struct ck_dcp_entry *entries; /* of state_dict_metadata, in order */
	uint32_t nentries;
	/* For each item, the number of its row in infos + 1; 0 if it has no row. */
	uint32_t *of_item;
	size_t nitems;
	struct ck_dcp_table by_key; /* entries */
	/* rows of storage_data that are out of order */
	struct ck_dcp_table leftovers;
	const struct ck_pv *storage; /* key, value, ... of storage_data */
	uint32_t nstorage;	     /* pairs */
	uint32_t malformed;	     /* storage records */
	uint64_t seed;

	struct ck_str in;	      /* the .metadata */
	const char *name;	      /* its name, for messages */
	struct ck_dcp_places *places; /* NULL if not requested */
};

/* Returns the kind of a global. ck_dcp_kind() calls it once for each global and caches
 * the kind. */
enum ck_dcp_kind ck_dcp_classify(struct ck_dcp_reader *r,
				 const struct ck_pv *v);

/* Returns the kind of a class; CK_DCP_UNKNOWN for another value, or if there are more
 * than CK_DCP_GLOBALS globals. */
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

/* Returns the kind of an object of an unknown class, by the fields of its state; see
 * `Objects of .metadata` in ckptfs(5). CK_DCP_UNKNOWN if the fields match no kind. */
enum ck_dcp_kind ck_dcp_form(struct ck_dcp_reader *r,
			     const struct ck_pv *state);
/* True if v is a collapsed object of that kind, or an object that has one; sets *out to
 * the collapsed object. */
bool ck_dcp_taken(const struct ck_pv *v, enum ck_dcp_kind kind,
		  struct ck_pv *out);
/* --- dcp_values.c: objects that Python treats as str, int or dict ----------------- */

/* The slow paths of ck_dcp_str(), ck_dcp_is_str() and ck_dcp_int(), for objects. */
bool ck_dcp_object_str(struct ck_dcp_reader *r, const struct ck_pv *v,
		       struct ck_str *out);
bool ck_dcp_object_is_str(struct ck_dcp_reader *r, const struct ck_pv *v);
bool ck_dcp_object_int(const struct ck_dcp_reader *r, const struct ck_pv *v,
		       int64_t *out);

/* Sets *out to the text of a str, a str subclass, a NumPy string, or a pathlib path.
 * False for any other value, or if r->err is set, which ends the parsing. */
static inline bool ck_dcp_str(struct ck_dcp_reader *r, const struct ck_pv *v,
			      struct ck_str *out)
{
	return ck_pv_str(v, out) || ck_dcp_object_str(r, v, out);
}

/* True if ck_dcp_str() may accept v. A path may still have parts of other types. */
static inline bool ck_dcp_is_str(struct ck_dcp_reader *r, const struct ck_pv *v)
{
	return v->tag == CK_PV_STR || ck_dcp_object_is_str(r, v);
}

/* Sets *out to an int or a NumPy integer that fits int64. False for any other value,
 * also for a bool. */
static inline bool ck_dcp_int(const struct ck_dcp_reader *r,
			      const struct ck_pv *v, int64_t *out)
{
	return ck_pv_int(v, out) || ck_dcp_object_int(r, v, out);
}

/* Sets *out to a dict, OrderedDict or defaultdict, as a DICT. False for any other
 * value. */
bool ck_dcp_dict(const struct ck_dcp_reader *r, const struct ck_pv *v,
		 struct ck_pv *out);
/* Returns the fields of an object: its state, or the second part of a state (None,
 * {...}), which objects with __slots__ have. */
struct ck_pv ck_dcp_fields(const struct ck_pv *state);
/* Returns the name of the type of a value, for messages. */
const char *ck_dcp_type(const struct ck_dcp_reader *r, const struct ck_pv *v);

/* Sets r->err and returns -ENOMEM. */
int ck_dcp_no_memory(struct ck_dcp_reader *r);
/* Sets r->err and returns -EBADMSG: the memory limit is spent. */
int ck_dcp_spent(struct ck_dcp_reader *r);

/* Charges bytes of memory, or CK_DCP_STEP for each step, to a limit that grows with the
 * size of the `.metadata`. Two bytes of a pickle can refer to an object again, so
 * copying or walking it must be charged each time. Returns 0, or -EBADMSG if the limit
 * is spent. */
CK_MUST_USE static inline int ck_dcp_spend(struct ck_dcp_reader *r,
					   uint64_t bytes)
{
	return ck_pickle_spend(r->p, bytes) ? 0 : ck_dcp_spent(r);
}

/* Returns the ints from `pos` on; NULL if there are no ints. */
static inline const int64_t *ck_dcp_ints(const struct ck_dcp_reader *r,
					 uint64_t pos)
{
	return r->ints ? r->ints + pos : NULL;
}

/* Returns the ndim offsets of box i, followed by its ndim sizes. */
static inline const int64_t *ck_dcp_box(const struct ck_dcp_reader *r,
					const struct ck_dcp_tensor_row *t,
					uint32_t i)
{
	return ck_dcp_ints(r, t->boxes + (uint64_t)i * 2 * t->ndim);
}

/* Adds the entries, whose items are joined, to the catalog. Returns 0 or a negative
 * errno. */
CK_MUST_USE int ck_dcp_fill(struct ck_dcp_reader *r);
/* Joins the rows, starting at the root of the pickle, and fills the catalog. Returns 0,
 * or: -EBADMSG; -ENOMEM. */
CK_MUST_USE int ck_dcp_join(struct ck_dcp_reader *r, const struct ck_pickle *p);

/* --- dcp_places.c: called if r->places is not NULL -------------------------------- */

/* Records the BUILD of the last row of infos. Returns 1, or: -EBADMSG if the memory
 * limit is spent; -ENOMEM. */
CK_MUST_USE int ck_dcp_place_info(struct ck_dcp_reader *r,
				  const struct ck_pv *state);
/* Marks row number `info` as used by one more item. */
void ck_dcp_place_item(struct ck_dcp_reader *r, uint64_t info);
/* Fills r->places->chunks after all items are joined. Returns 0, or: -EBADMSG if the
 * memory limit is spent; -ENOMEM. */
CK_MUST_USE int ck_dcp_place_chunks(struct ck_dcp_reader *r);

/* --- dcp_names.c: names of files -------------------------------------------------- */

#define CK_DCP_METADATA_NAME ".metadata"

/* Returns the rank of `__<rank>.metadata`, which a save without collectives writes;
 * CK_NO_RANK for any other name. */
uint64_t ck_dcp_metadata_rank(const char *name);

/* Returns the rank in the name of a data file, `__<rank>_...`: a decimal of at most 18
 * digits without leading zeros. CK_NO_RANK for any other path, also for a path with a
 * directory. Source: FileSystemWriter's `__{rank}_{n}.distcp`
 * (torch/distributed/checkpoint/filesystem.py). */
uint64_t ck_dcp_rank(struct ck_str path);

/* ck_format.shard_name: makes `__<rank>_ckptfs-<generation>-<hex>.distcp`, without
 * `<rank>_` if rank is CK_NO_RANK. */
void ck_dcp_shard_name(char out[static CK_NAME_LEN], uint64_t rank,
		       uint64_t generation, const char *hex);
/* ck_format.is_ours, see ck_name_is_ours(). */
bool ck_dcp_is_ours(const char *name, uint64_t *generation);

#endif
