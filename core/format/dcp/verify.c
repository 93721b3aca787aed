/* SPDX-License-Identifier: MIT */
/*
 * verify: whether a new `.metadata` is the requested one, in two independent
 * ways.
 *
 * ck_dcp_verify_is() checks bytes. Exactly the requested insertion is between
 * the last MARK and the BUILD of each change, counted from the beginning.
 * Without the insertions, with earlier insertions restored and frames at their
 * old length, the bytes have the hash of the known ones. An insertion leaves
 * the stack and the memo unchanged. So an unpickler gets the same objects as
 * from the old bytes, except for the changed dicts.
 *
 * ck_dcp_verify_parsed() parses the new bytes into a second catalog and
 * compares every entry, box and location with the old catalog and the changes.
 * It only repeats the first check, to find a mistake of this program, and takes
 * as long as a mount. So it is skipped for a large file, unless parsing was
 * near the limits of pickle.h, which an insertion may exceed.
 *
 * The state lives for one call, in the thread of the commit.
 */
#include "dcp_rewrite.h"

#include <errno.h>

struct verifying {
	const struct ck_dcp_request *w;
	struct ck_str bytes; /* new */
	struct ck_diag *d;
	/* Of ck_dcp_verify_parsed(): */
	struct ck_catalog *c;
	uint32_t *slots; /* paths by hash: number + 1, or 0 if empty */
	size_t nslots;
	uint64_t seed;
	/* Of ck_dcp_verify_is(): */
	struct ck_pickle_build *builds; /* n, in the order of the file */
	struct ck_pickle_frames frames;
	struct ck_dcp_growth *growth; /* n */
	struct ck_buf text;
	struct ck_hasher *hasher; /* of the old bytes, restored */
	uint64_t hashed;	  /* number of bytes hashed */
};

static int differs(const struct verifying *v, const char *what,
		   struct ck_str name)
{
	return ck_fail(v->d, EIO,
		       "the new .metadata is not as requested: %s of %s "
		       "differs",
		       what, ck_show(name));
}

static int no_memory(const struct verifying *v)
{
	return ck_fail(v->d, ENOMEM, "out of memory");
}

/* --- numbers of files: of the catalog, then of the changes ------------------------ */

static struct ck_str path_at(const struct verifying *v, uint32_t i)
{
	const struct ck_catalog *c = v->w->catalog;

	if (i < c->files.n)
		return ck_catalog_file(c, i)->path;
	return v->w->changes[i - c->files.n].path;
}

static uint32_t *path_slot(const struct verifying *v, struct ck_str path)
{
	size_t mask = v->nslots - 1;
	size_t i = ck_hash64_seeded(path, v->seed) & mask;

	while (v->slots[i] && !ck_str_eq(path_at(v, v->slots[i] - 1), path))
		i = (i + 1) & mask;
	return &v->slots[i];
}

static int paths_make(struct verifying *v)
{
	size_t n = (size_t)v->w->catalog->files.n + v->w->n;

	for (v->nslots = 16; v->nslots < 2 * n;)
		v->nslots *= 2;
	v->seed = ck_hash_seed();
	v->slots = calloc(v->nslots, sizeof(*v->slots));
	if (!v->slots)
		return no_memory(v);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t *slot = path_slot(v, path_at(v, i));

		if (!*slot)
			*slot = i + 1;
	}
	return 0;
}

/* ck_dcp_numbers.file: sets 0 for a path that is in neither. */
static int path_number(void *ctx, struct ck_str path, uint32_t *number)
{
	*number = *path_slot(ctx, path);
	return 0;
}

/* --- comparison of catalogs ------------------------------------------------------- */

static bool is_transform(const struct verifying *v, const struct ck_item *new,
			 const struct ck_item *old)
{
	const struct ck_catalog *c = v->w->catalog;

	if (!old->transform || !new->transform)
		return old->transform == new->transform;
	return ck_str_eq(c->transforms[old->transform],
			 v->c->transforms[new->transform]);
}

static bool is_place(const struct verifying *v, const struct ck_item *new,
		     const struct ck_item *old)
{
	uint32_t number = CK_NO_FILE;

	if (old->file != CK_NO_FILE)
		number = *path_slot(v, path_at(v, old->file));
	return new->file == number &&new->fpos == old->fpos &&new->length ==
	       old->length &&is_transform(v, new, old);
}

static bool is_changed_place(const struct verifying *v,
			     const struct ck_item *new,
			     const struct ck_change_of_place *c)
{
	return new->file == *path_slot(v, c->path) &&
	       new->fpos == c->fpos &&new->length ==
		       c->length &&new->transform == 0;
}

static int chunks_compare(const struct verifying *v, const struct ck_tensor *t,
			  uint32_t *change)
{
	const struct ck_dcp_request *w = v->w;

	for (uint32_t i = t->chunk; i < t->chunk + t->nchunks; i++) {
		const struct ck_item *new = ck_catalog_item(v->c, i);
		bool good;

		if (*change < w->n && w->changes[*change].chunk == i)
			good = is_changed_place(v, new,
						&w->changes[(*change)++]);
		else
			good = is_place(v, new, ck_catalog_item(w->catalog, i));
		if (!good)
			return differs(v, ck_shown("box %u", i - t->chunk),
				       t->entry.key);
	}
	return 0;
}

static bool is_same(const int64_t *a, const int64_t *b, size_t n)
{
	return n == 0 || memcmp(a, b, n * sizeof(*a)) == 0;
}

/* True if the new tensor has no fault, or the fault of the old one. The old one may
 * have a fault that reading its items added. */
static bool is_fault(const struct ck_tensor *new, const struct ck_tensor *old)
{
	return new->err == 0 ||
	       (new->err == old->err &&ck_str_eq(ck_tensor_fault(new),
						 ck_tensor_fault(old)));
}

static int tensor_compare(const struct verifying *v, uint32_t i,
			  uint32_t *change)
{
	const struct ck_catalog *c = v->w->catalog;
	const struct ck_tensor *old = ck_catalog_tensor(c, i),
			       *new = ck_catalog_tensor(v->c, i);
	struct ck_str name = old->entry.key;

	if (!ck_str_eq(new->facts->dtype_name, old->facts->dtype_name) ||
	    new->dtype != old->dtype || !is_fault(new, old))
		return differs(v, "the type", name);
	if (new->ndim != old->ndim ||
	    !is_same(new->shape, old->shape, old->ndim))
		return differs(v, "the shape", name);
	if (new->chunk != old->chunk || new->nchunks != old->nchunks ||
	    !is_same(new->boxes, old->boxes,
		     (size_t)2 * old->ndim * old->nchunks))
		return differs(v, "a box", name);
	return chunks_compare(v, old, change);
}

/* An error found in the file of the old item may have replaced the error that the
 * metadata gives. So an old error without a new one is no difference. */
static int object_compare(const struct verifying *v, uint32_t i)
{
	const struct ck_object *old = ck_catalog_object(v->w->catalog, i);
	const struct ck_object *new = ck_catalog_object(v->c, i);

	if (is_place(v, &new->item, &old->item) &&
	    (new->item.err == 0 || old->item.err))
		return 0;
	return differs(v, "the item", old->entry.key);
}

static bool is_path(const struct ck_entry *a, const struct ck_entry *b)
{
	if (a->nparts != b->nparts)
		return false;
	for (uint32_t i = 0; i < a->nparts; i++) {
		struct ck_path_part x = ck_entry_part(a, i);
		struct ck_path_part y = ck_entry_part(b, i);

		if (x.type != y.type ||
		    !ck_str_eq(ck_part_text(&x), ck_part_text(&y)))
			return false;
	}
	return true;
}

static int entry_compare(const struct verifying *v, uint32_t i,
			 uint32_t *change)
{
	const struct ck_catalog *c = v->w->catalog;
	struct ck_entry_id new = v->c->listing->entries[i];
	/* Entries that the user did not select are behind the others. */
	struct ck_entry_id old = c->listing->nhidden ? new
						     : c->listing->entries[i];
	const struct ck_entry *a = ck_catalog_entry(c, old);
	const struct ck_entry *b = ck_catalog_entry(v->c, new);

	if (new.i != old.i || new.is_object != old.is_object ||
	    !ck_str_eq(b->key, a->key))
		return differs(v, "the name", a->key);
	if (!is_path(a, b))
		return differs(v, "the path", a->key);
	return old.is_object ? object_compare(v, old.i)
			     : tensor_compare(v, old.i, change);
}

/* True if the new catalog has the known number of rows. The old catalog may have more,
 * of other files. */
static bool are_as_many(const struct ck_catalog *now,
			const struct ck_catalog *old,
			const struct ck_dcp_known *k)
{
	return now->listing->n == k->nentries &&
	       now->tensors.n == k->ntensors && now->chunks.n == k->nchunks &&
	       old->listing->n + old->listing->nhidden >= k->nentries &&
	       now->objects.n <= old->objects.n &&
	       old->tensors.n >= k->ntensors && old->chunks.n >= k->nchunks;
}

static int catalogs_compare(const struct verifying *v)
{
	const struct ck_dcp_known *k = v->w->known;
	uint32_t change = 0;
	int rc = 0;

	if (!are_as_many(v->c, v->w->catalog, k))
		return differs(v, "the number", CK_STR("entries or boxes"));
	for (uint32_t i = 0; rc == 0 && i < k->nentries; i++)
		rc = entry_compare(v, i, &change);
	if (rc == 0 && change != v->w->n)
		rc = differs(v, "the order", CK_STR("changes"));
	return rc;
}

int ck_dcp_verify_parsed(const struct ck_dcp_request *w, struct ck_str bytes,
			 struct ck_diag *d)
{
	struct verifying v = { .w = w, .bytes = bytes, .d = d };
	const struct ck_dcp_numbers numbers = { path_number, &v, NULL };
	int rc;

	v.c = ck_catalog_make("dcp");
	rc = v.c ? paths_make(&v) : no_memory(&v);
	if (rc == 0)
		rc = ck_dcp_parse_places(v.c, bytes, &numbers, NULL, d);
	if (rc == -EBADMSG) {
		ck_diag_prefix(d, "the new one");
		rc = -EIO;
	} else if (rc == 0) {
		rc = catalogs_compare(&v);
	}
	ck_catalog_put(v.c);
	free(v.slots);
	return rc;
}

/* --- comparison of bytes ---------------------------------------------------------- */

static int other_bytes(const struct verifying *v, uint64_t at)
{
	return ck_fail(v->d, EIO,
		       "the new .metadata is not as requested: byte %llu "
		       "differs",
		       (unsigned long long)at);
}

static uint32_t build_of(const struct ck_dcp_request *w,
			 const struct ck_dcp_edit *e)
{
	if (e->change >= w->n)
		return 0;
	return w->known->places.chunks[w->changes[e->change].chunk];
}

/* Finds the BUILD of each edit in the new bytes. The numbers are ascending, so that
 * each edit is found once. */
static int builds_find(struct verifying *v)
{
	const struct ck_dcp_request *w = v->w;
	int rc;

	v->builds = calloc(w->n + 1UL, sizeof(*v->builds));
	v->growth = calloc(w->n + 1UL, sizeof(*v->growth));
	if (!v->builds || !v->growth)
		return no_memory(v);
	for (uint32_t i = 0; i < w->n; i++)
		v->builds[i].number = build_of(w, &w->edits[i]);
	rc = ck_pickle_walk(v->bytes, v->builds, w->n, &v->frames, v->d);
	if (rc == -EBADMSG) {
		ck_diag_prefix(v->d, "the new .metadata");
		return -EIO;
	}
	return rc;
}

/* Checks that exactly the requested insertion is between the last MARK and the
 * BUILD. */
static int edit_check(struct verifying *v, uint32_t i)
{
	const struct ck_dcp_edit *e = &v->w->edits[i];
	const struct ck_pickle_build *b = &v->builds[i];
	struct ck_dcp_insertion want = ck_dcp_insertion_new(v->w, e);
	uint64_t before = i ? v->growth[i - 1].more : 0;

	ck_dcp_insertion_make(&want, &v->text);
	if (v->text.err)
		return no_memory(v);
	if (b->at - b->mark != v->text.len ||
	    memcmp(v->bytes.p + b->mark, v->text.data, v->text.len) != 0)
		return other_bytes(v, b->mark);
	v->growth[i] = (struct ck_dcp_growth){ b->at,
					       before + v->text.len - e->cut };
	return 0;
}

static void hash_add(struct verifying *v, const void *bytes, size_t len)
{
	ck_hasher_add(v->hasher, (struct ck_str){ bytes, len });
	v->hashed += len;
}

/* Hashes new bytes up to offset `to`, which are unchanged. */
static void hash_until(struct verifying *v, uint64_t *pos, uint64_t to)
{
	hash_add(v, v->bytes.p + *pos, to - *pos);
	*pos = to;
}

/* Hashes the header of a frame with its old length: without the growth of the edits in
 * it. */
static void frame_hash(struct verifying *v, const struct ck_pickle_frame *f,
		       uint64_t *pos)
{
	uint64_t begin = f->at + CK_DCP_FRAME_HEADER, len = f->len;

	len -= ck_dcp_growth_in(v->growth, v->w->n, begin, begin + f->len);
	hash_until(v, pos, f->at + 1);
	hash_add(v, &len, sizeof(len));
	*pos = begin;
}

/* Hashes the insertion of an earlier commit in place of the new one. */
static int edit_hash(struct verifying *v, uint32_t i, uint64_t *pos)
{
	const struct ck_dcp_edit *e = &v->w->edits[i];
	const struct ck_change_of_place *c = &v->w->changes[e->change];

	hash_until(v, pos, v->builds[i].mark);
	*pos = v->builds[i].at;
	if (e->cut) {
		struct ck_dcp_insertion was = ck_dcp_insertion_of(
			v->w->catalog, c->chunk, e->cut_transform);

		ck_dcp_insertion_make(&was, &v->text);
		if (v->text.err)
			return no_memory(v);
		hash_add(v, v->text.data, v->text.len);
	}
	return 0;
}

static int stream_hash(struct verifying *v)
{
	const struct ck_pickle_frames *f = &v->frames;
	uint64_t pos = 0;
	size_t frame = 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < v->w->n; i++) {
		while (frame < f->n && f->rows[frame].at < v->builds[i].at)
			frame_hash(v, &f->rows[frame++], &pos);
		rc = edit_hash(v, i, &pos);
	}
	hash_until(v, &pos, v->bytes.len);
	return rc;
}

static int is(struct verifying *v)
{
	struct ck_dcp_known *k = v->w->known;
	int rc = builds_find(v);

	for (uint32_t i = 0; rc == 0 && i < v->w->n; i++)
		rc = edit_check(v, i);
	if (rc)
		return rc;
	v->hasher = ck_hasher_make(k->seed);
	if (!v->hasher)
		return no_memory(v);
	rc = stream_hash(v);
	if (rc)
		return rc;
	if (v->hashed != k->len || ck_hasher_sum(v->hasher) != k->sum)
		return ck_fail(v->d, EIO,
			       "the new .metadata is not as requested: its "
			       "other bytes are not those that were read");
	k->next_len = v->bytes.len;
	k->next_sum = ck_hash64_seeded(v->bytes, k->seed);
	return 0;
}

int ck_dcp_verify_is(const struct ck_dcp_request *w, struct ck_str bytes,
		     struct ck_diag *d)
{
	struct verifying v = { .w = w, .bytes = bytes, .d = d };
	int rc = is(&v);

	free(v.builds);
	free(v.growth);
	free(v.frames.rows);
	ck_buf_fini(&v.text);
	ck_hasher_free(v.hasher);
	return rc;
}
