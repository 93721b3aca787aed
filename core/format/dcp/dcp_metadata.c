/* SPDX-License-Identifier: MIT */
/*
 * The parser of `.metadata`. A large checkpoint has a million objects of each class
 * ChunkStorageMetadata, MetadataIndex and _StorageInfo. The parser takes each from the
 * pickle at its BUILD and stores it as a row of a flat array. A tensor takes its boxes
 * in the same way. At the end of the pickle, dcp_join.c joins the rows.
 */
#include "ckptfs/memory.h"
#include "dcp_internal.h"

#include <errno.h>

bool ck_dcp_taken(const struct ck_pv *v, enum ck_dcp_kind kind,
		  struct ck_pv *out)
{
	*out = *v;
	if (v->tag == CK_PV_NEW)
		*out = v->call->collapsed;
	return out->tag == CK_PV_EXT && out->aux == kind;
}

/* --- rows --------------------------------------------------------------------- */

int ck_dcp_no_memory(struct ck_dcp_reader *r)
{
	r->err = ck_fail(r->d, ENOMEM, "out of memory");
	return r->err;
}

int ck_dcp_spent(struct ck_dcp_reader *r)
{
	r->err = ck_fail(r->d, EBADMSG,
			 "needs more memory than its size allows");
	return r->err;
}

/* Makes room for `more` elements. False if memory is exhausted. */
#define ROOM(r, array, more)                                                   \
	((r)->array##_cap - (r)->n##array >= (more) || ({                      \
		 void *room_ = ck_grow((r)->array, &(r)->array##_cap,          \
				       (r)->n##array, more,                    \
				       sizeof(*(r)->array));                   \
		 if (room_)                                                    \
			 (r)->array = room_;                                   \
		 room_ != NULL;                                                \
	 }))

static struct ck_pv ext(enum ck_dcp_kind kind, uint64_t i, uint32_t len)
{
	return (struct ck_pv){ .tag = CK_PV_EXT,
			       .aux = (uint8_t)kind,
			       .len = len,
			       .i = (int64_t)i };
}

/* add_ints() for a sequence that may have other values than ints. */
static bool add_sequence(struct ck_dcp_reader *r, const struct ck_pv *v,
			 uint32_t *n)
{
	struct ck_pv parts;

	/* A torch.Size of NumPy integers is pickled as a call. */
	if (v->tag == CK_PV_CALL && ck_pv_call(r->p, v, "torch.Size") &&
	    ck_pv_count(&v->call->args) == 1) {
		parts = ck_pv_at(&v->call->args, 0);
		v = &parts;
	}
	*n = ck_pv_count(v);
	if (!ck_pv_is_sequence(v) || ck_dcp_spend(r, *n * sizeof(*r->ints)) < 0)
		return false;
	if (!ROOM(r, ints, *n))
		return ck_dcp_no_memory(r) == 0;
	for (uint32_t i = 0; i < *n; i++) {
		struct ck_pv item = ck_pv_at(v, i);

		if (!ck_dcp_int(r, &item, &r->ints[r->nints + i]))
			return false;
	}
	r->nints += *n;
	return true;
}

/* Appends the ints of a sequence, and sets *n to their number. False if v is not a
 * sequence of ints, or r->err is set. */
static inline bool add_ints(struct ck_dcp_reader *r, const struct ck_pv *v,
			    uint32_t *n)
{
	if (v->tag != CK_PV_INTS)
		return add_sequence(r, v, n);
	*n = v->len;
	if (ck_dcp_spend(r, *n * sizeof(*r->ints)) < 0)
		return false;
	if (!ROOM(r, ints, *n))
		return ck_dcp_no_memory(r) == 0;
	for (uint32_t i = 0; i < *n; i++)
		r->ints[r->nints + i] = v->ints[i];
	r->nints += *n;
	return true;
}

/* Stores the offsets, then the sizes of a box in ints. A malformed box is stored as
 * CK_DCP_BAD_BOX, so that its tensor gets a fault. */
static int take_chunk(struct ck_dcp_reader *r, const struct ck_pv *state,
		      struct ck_pv *out)
{
	uint64_t begin = r->nints;
	struct ck_pv offsets, sizes;
	uint32_t n, m;

	*out = ext(CK_DCP_CHUNK, begin, CK_DCP_BAD_BOX);
	if (ck_pv_get(state, "offsets", &offsets) &&
	    ck_pv_get(state, "sizes", &sizes) && add_ints(r, &offsets, &n) &&
	    add_ints(r, &sizes, &m) && n == m)
		*out = ext(CK_DCP_CHUNK, begin, n);
	return 1;
}

static int take_properties(struct ck_dcp_reader *r, const struct ck_pv *state,
			   struct ck_pv *out)
{
	struct ck_pv dtype = { .tag = CK_PV_NONE };

	(void)r;
	if (ck_pv_is_sequence(state) && ck_pv_count(state))
		dtype = ck_pv_at(state, 0);
	else
		(void)ck_pv_get(state, "dtype", &dtype);
	*out = ext(CK_DCP_PROPERTIES, 0, 0);
	out->i = dtype.tag == CK_PV_GLOBAL ? dtype.i : -1;
	return 1;
}

/* Copies the boxes of a tensor that are not adjacent in ints, so that they become
 * adjacent. */
static int copy_boxes(struct ck_dcp_reader *r, struct ck_dcp_tensor_row *t,
		      const struct ck_pv *chunks)
{
	uint64_t begin = r->nints;
	uint32_t per_box = 2 * t->ndim;
	struct ck_pv chunk;

	for (uint32_t i = 0; i < t->nchunks; i++) {
		struct ck_pv v = ck_pv_at(chunks, i);

		if (ck_dcp_spend(r, per_box * sizeof(*r->ints)) < 0)
			return -EBADMSG;
		if (!ROOM(r, ints, per_box))
			return ck_dcp_no_memory(r);
		(void)ck_dcp_taken(&v, CK_DCP_CHUNK, &chunk);
		memcpy(r->ints + r->nints, r->ints + chunk.i,
		       per_box * sizeof(*r->ints));
		r->nints += per_box;
	}
	t->boxes = begin;
	return 0;
}

static int take_boxes(struct ck_dcp_reader *r, struct ck_dcp_tensor_row *t,
		      const struct ck_pv *chunks)
{
	bool in_line = true;
	struct ck_pv chunk;

	t->nchunks = ck_pv_count(chunks);
	if (ck_dcp_spend(r, (uint64_t)t->nchunks * CK_DCP_STEP) < 0)
		return -EBADMSG;
	for (uint32_t i = 0; i < t->nchunks; i++) {
		struct ck_pv v = ck_pv_at(chunks, i);

		if (!ck_dcp_taken(&v, CK_DCP_CHUNK, &chunk) ||
		    chunk.len != t->ndim) {
			t->fault = "a box has other dimensions than the tensor";
			t->err = EIO;
			t->nchunks = 0;
			return 0;
		}
		if (i == 0)
			t->boxes = (uint64_t)chunk.i;
		in_line &= (uint64_t)chunk.i ==
			   t->boxes + (uint64_t)i * 2 * t->ndim;
	}
	return in_line ? 0 : copy_boxes(r, t, chunks);
}

static int take_tensor(struct ck_dcp_reader *r, const struct ck_pv *state,
		       struct ck_pv *out)
{
	struct ck_dcp_tensor_row t = { .dtype = -1, .shape = r->nints };
	struct ck_pv properties, size, chunks;
	int rc;

	if (ck_pv_get(state, "properties", &properties) &&
	    ck_dcp_taken(&properties, CK_DCP_PROPERTIES, &properties))
		t.dtype = properties.i;
	if (!ck_pv_get(state, "size", &size) || !add_ints(r, &size, &t.ndim)) {
		t.ndim = 0;
		t.fault = "its size is no list of numbers";
		t.err = EBADMSG;
	} else if (!ck_pv_get(state, "chunks", &chunks) ||
		   !ck_pv_is_sequence(&chunks)) {
		t.fault = "it has no list of boxes";
		t.err = EBADMSG;
	} else {
		rc = take_boxes(r, &t, &chunks);
		if (rc)
			return rc;
	}
	if (!ROOM(r, tensors, 1))
		return ck_dcp_no_memory(r);
	*out = ext(CK_DCP_TENSOR, r->ntensors, 0);
	r->tensors[r->ntensors++] = t;
	return 1;
}

static int take_index(struct ck_dcp_reader *r, const struct ck_pv *state,
		      struct ck_pv *out)
{
	struct ck_dcp_index_row row = { .offset = r->nints,
					.ndim = CK_DCP_NO_OFFSET };
	struct ck_pv fqn, offset;
	struct ck_str name;

	if (!ck_pv_get(state, "fqn", &fqn) || !ck_dcp_str(r, &fqn, &name))
		return r->err ? r->err
			      : ck_fail(r->d, EBADMSG,
					"a MetadataIndex without fqn");
	if (ck_pv_get(state, "offset", &offset) && offset.tag != CK_PV_NONE &&
	    !add_ints(r, &offset, &row.ndim))
		return r->err ? r->err
			      : ck_fail(r->d, EBADMSG,
					"item of %s: malformed offset",
					ck_show(name));
	/* The cost includes the name, which is hashed and compared for each row. */
	if (ck_dcp_spend(r, sizeof(row) + name.len) < 0)
		return -EBADMSG;
	if (!ROOM(r, indexes, 1))
		return ck_dcp_no_memory(r);
	row.fqn = name.p;
	row.fqn_len = (uint32_t)name.len;
	*out = ext(CK_DCP_INDEX, r->nindexes, 0);
	r->indexes[r->nindexes++] = row;
	return 1;
}

static int add_file(struct ck_dcp_reader *r, struct ck_str path,
		    uint32_t *number)
{
	int rc = 0;

	if (!r->last_path.p || !ck_str_eq(path, r->last_path)) {
		rc = r->file(r->file_ctx, path, &r->last_file);
		r->last_path = path;
	}
	*number = r->last_file;
	return rc;
}

/* Adds transforms: ['a', 'b'] as "a,b". */
static int add_transforms(struct ck_dcp_reader *r, const struct ck_pv *list,
			  uint8_t *number)
{
	struct ck_buf joined = { 0 };
	int rc = ck_dcp_spend(r, ck_pv_count(list) * (uint64_t)CK_DCP_STEP);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < ck_pv_count(list); i++) {
		struct ck_pv v = ck_pv_at(list, i);
		struct ck_str name = CK_STR("?");

		(void)ck_pv_str(&v, &name);
		if (i)
			ck_buf_text(&joined, ",");
		ck_buf_str(&joined, name);
	}
	rc = joined.err
		     ? joined.err
		     : ck_catalog_transform_add(
			       r->c, (struct ck_str){ joined.data, joined.len },
			       number);
	ck_buf_fini(&joined);
	return rc;
}

/* Sets *out to the transforms, or CK_PV_NONE if the field is missing. False if the
 * field is not a list. */
static bool transforms_get(const struct ck_pv *state, struct ck_pv *out)
{
	*out = (struct ck_pv){ .tag = CK_PV_NONE };
	return !ck_pv_get(state, "transform_descriptors", out) ||
	       out->tag == CK_PV_NONE || ck_pv_is_sequence(out);
}

static int take_info(struct ck_dcp_reader *r, const struct ck_pv *state,
		     struct ck_pv *out)
{
	struct ck_item info = { .file = CK_NO_FILE };
	struct ck_pv path, offset, length, transforms;
	int64_t fpos, len;
	struct ck_str name;
	int rc;

	if (!ck_pv_get(state, "relative_path", &path) ||
	    !ck_dcp_str(r, &path, &name) ||
	    !ck_pv_get(state, "offset", &offset) ||
	    !ck_dcp_int(r, &offset, &fpos) ||
	    !ck_pv_get(state, "length", &length) ||
	    !ck_dcp_int(r, &length, &len) ||
	    !transforms_get(state, &transforms))
		return r->err; /* it stays an object; dcp_join.c reports it */
	rc = ck_dcp_spend(r, sizeof(info) + name.len);
	if (rc == 0)
		rc = add_file(r, name, &info.file);
	if (rc == 0 && transforms.tag != CK_PV_NONE)
		rc = add_transforms(r, &transforms, &info.transform);
	if (rc)
		return r->err ? rc : ck_fail(r->d, -rc, "%s", strerror(-rc));
	/* A negative offset becomes a huge one: both are outside the file. */
	info.fpos = (uint64_t)fpos;
	info.length = (uint64_t)len;
	if (!ROOM(r, infos, 1))
		return ck_dcp_no_memory(r);
	*out = ext(CK_DCP_INFO, r->ninfos, 0);
	r->infos[r->ninfos++] = info;
	return 1;
}

static int take(struct ck_dcp_reader *r, const struct ck_pcall *call,
		const struct ck_pv *state, struct ck_pv *out)
{
	enum ck_dcp_kind kind = ck_dcp_kind(r, &call->callable);

	switch (kind == CK_DCP_UNKNOWN ? ck_dcp_form(r, state) : kind) {
	case CK_DCP_CHUNK: return take_chunk(r, state, out);
	case CK_DCP_PROPERTIES: return take_properties(r, state, out);
	case CK_DCP_TENSOR: return take_tensor(r, state, out);
	case CK_DCP_INDEX: return take_index(r, state, out);
	case CK_DCP_INFO: return take_info(r, state, out);
	case CK_DCP_NOT_SEEN:
	case CK_DCP_UNKNOWN:
	case CK_DCP_KNOWN:
	case CK_DCP_METADATA:
	case CK_DCP_BYTES: break;
	}
	return 0;
}

/* An object that has the fields of a known class but other types is left unchanged. */
static int take_by_form(struct ck_dcp_reader *r, const struct ck_pcall *call,
			const struct ck_pv *state, struct ck_pv *out)
{
	int rc = take(r, call, state, out);

	return rc == -EBADMSG && !r->err &&
			       ck_dcp_kind(r, &call->callable) == CK_DCP_UNKNOWN
		       ? 0
		       : rc;
}

static int build(void *ctx, struct ck_pickle *p, const struct ck_pcall *call,
		 const struct ck_pv *state, struct ck_pv *out,
		 struct ck_diag *d)
{
	struct ck_dcp_reader *r = ctx;
	const struct ck_pv *fields = state;
	struct ck_pv part;
	uint64_t n;
	int rc;

	if (state->tag == CK_PV_TUPLE) {
		part = ck_dcp_fields(state);
		fields = &part;
	}
	n = fields->tag == CK_PV_DICT ? fields->list->count : 0;
	r->p = p;
	r->d = d;
	rc = ck_dcp_spend(r, n * CK_DCP_STEP);
	if (rc == 0)
		rc = take_by_form(r, call, fields, out);
	if (rc == 1 && r->places && out->aux == CK_DCP_INFO)
		rc = ck_dcp_place_info(r, state);
	return r->err ? r->err : rc;
}

/* Length in bytes from which a `.metadata` is large. */
static const size_t large = 4 << 20;

/* Allocates arrays of the size that a large .metadata is expected to need, in huge
 * pages, so that they rarely move. Without memory they begin empty. */
#define EXPECT(r, array, count)                                                \
	({                                                                     \
		size_t bytes_ = (count) * sizeof(*(r)->array);                 \
		(r)->array = malloc(bytes_);                                   \
		(r)->array##_cap = (r)->array ? (count) : 0;                   \
		ck_pages_wish((r)->array, bytes_);                             \
	})

static void rows_expect(struct ck_dcp_reader *r)
{
	if (r->in.len < large)
		return;
	EXPECT(r, ints, r->in.len / 16);
	EXPECT(r, indexes, r->in.len / 128);
	EXPECT(r, infos, r->in.len / 128);
}

static void reader_free(struct ck_dcp_reader *r)
{
	free(r->ints);
	free(r->indexes);
	free(r->infos);
	free(r->tensors);
	free(r->entries);
	free(r->of_item);
	free(r->by_key.slots);
	free(r->leftovers.slots);
	free(r);
}

static int parse(struct ck_dcp_reader *r)
{
	struct ck_pickle p;
	struct ck_pickle_hooks hooks = {
		.ctx = r,
		.no_persids = true,
		.build = build,
	};
	int rc;

	r->p = &p;
	r->seed = ck_hash_seed();
	rows_expect(r);
	rc = ck_pickle_read(&p, r->in.p, r->in.len, &hooks, r->d);
	if (rc == 0) {
		rc = p.end == r->in.len
			     ? ck_dcp_join(r, &p)
			     : ck_fail(r->d, EBADMSG, "bytes after its end");
		if (r->places)
			r->places->roomy = ck_pickle_is_roomy(&p, r->in.len);
		ck_pickle_fini(&p);
	}
	if (rc)
		ck_diag_prefix(r->d, "%s", r->name);
	return rc;
}

int ck_dcp_parse_places(struct ck_catalog *c, struct ck_str bytes,
			const struct ck_dcp_numbers *numbers,
			struct ck_dcp_places *places, struct ck_diag *d)
{
	struct ck_dcp_reader *r = calloc(1, sizeof(*r));
	int rc;

	if (places)
		*places = (struct ck_dcp_places){ 0 };
	if (!r)
		return ck_fail(d, ENOMEM, "out of memory");
	r->c = c;
	r->d = d;
	r->in = bytes;
	r->file = numbers->file;
	r->file_ctx = numbers->ctx;
	r->name = numbers->name ? numbers->name : CK_DCP_METADATA_NAME;
	r->places = places;
	rc = parse(r);
	reader_free(r);
	if (rc && places)
		ck_dcp_places_fini(places);
	return rc;
}
