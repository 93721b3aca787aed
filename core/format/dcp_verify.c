/* SPDX-License-Identifier: MIT */
/*
 * Is a `.metadata` that was written the one that was wanted? Two answers, and
 * both must be yes.
 *
 * What it says: it is parsed into a catalog of its own, and every entry, box
 * and place of that is compared with the old catalog and the changes.
 *
 * What it is: but for insertions before the BUILDs that changed and for the
 * lengths of frames, its bytes are the old ones; so all that the catalog does
 * not know, fields of releases to come, is as it was too.
 */
#include "dcp_rewrite.h"

#include <errno.h>

enum { FRAME_HEADER = 9 };

/* An edit as it is in the new bytes. */
struct seen {
	uint64_t build;
	uint32_t change;
	uint32_t set;
};

struct verifying {
	const struct ck_dcp_wish *w;
	struct ck_str bytes; /* new */
	struct ck_catalog *c;
	struct ck_dcp_places *places;	   /* to be found */
	const struct ck_dcp_places *found; /* in the first step */
	uint32_t *slots; /* paths by hash: number + 1, 0 empty */
	size_t nslots;
	uint64_t seed;
	struct seen *seen;	      /* n, in the order of the file */
	struct ck_dcp_growth *growth; /* n */
	struct ck_buf text;
	struct ck_diag *d;
};

static int differs(const struct verifying *v, const char *what,
		   struct ck_str name)
{
	return ck_fail(v->d, EIO,
		       "the new .metadata is not what was wanted: %s of %s "
		       "differs",
		       what, ck_show(name));
}

static int no_memory(const struct verifying *v)
{
	return ck_fail(v->d, ENOMEM, "out of memory");
}

/* --- numbers of files: the catalog's, then those of the changes ---------------- */

static struct ck_str path_at(const struct verifying *v, uint32_t i)
{
	const struct ck_catalog *c = v->w->catalog;

	if (i < c->nfiles)
		return ck_catalog_str(c, c->files[i].path);
	return v->w->changes[i - c->nfiles].path;
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
	size_t n = v->w->catalog->nfiles + v->w->n;

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

/* 0: a path that nobody asked for. */
static int path_number(void *ctx, struct ck_str path, uint32_t *number)
{
	*number = *path_slot(ctx, path);
	return 0;
}

/* --- what it says ---------------------------------------------------------------- */

static bool is_transform(const struct verifying *v, const struct ck_chunk *new,
			 const struct ck_chunk *old)
{
	const struct ck_catalog *c = v->w->catalog;

	if (!old->transform || !new->transform)
		return old->transform == new->transform;
	return ck_str_eq(
		ck_catalog_str(c, c->transforms[old->transform]),
		ck_catalog_str(v->c, v->c->transforms[new->transform]));
}

static bool is_place(const struct verifying *v, const struct ck_chunk *new,
		     const struct ck_chunk *old)
{
	uint32_t number = CK_NO_FILE;

	if (old->file != CK_NO_FILE)
		number = *path_slot(v, path_at(v, old->file));
	return new->file == number &&new->fpos == old->fpos &&new->length ==
	       old->length &&is_transform(v, new, old);
}

static bool is_changed_place(const struct verifying *v,
			     const struct ck_chunk *new,
			     const struct ck_change_of_place *c)
{
	return new->file == *path_slot(v, c->path) &&
	       new->fpos == c->fpos &&new->length ==
		       c->length &&new->transform == 0;
}

static int chunks_compare(const struct verifying *v, const struct ck_tensor *t,
			  uint32_t *change)
{
	const struct ck_dcp_wish *w = v->w;

	for (uint32_t i = t->chunk; i < t->chunk + t->nchunks; i++) {
		const struct ck_chunk *new = &v->c->chunks[i];
		bool good;

		if (*change < w->n && w->changes[*change].chunk == i)
			good = is_changed_place(v, new,
						&w->changes[(*change)++]);
		else
			good = is_place(v, new, &w->catalog->chunks[i]);
		if (!good)
			return differs(
				v, ck_shown("box %u", i - t->chunk),
				ck_catalog_str(w->catalog, t->names.key));
	}
	return 0;
}

static bool is_same(const int64_t *a, const int64_t *b, size_t n)
{
	return n == 0 || memcmp(a, b, n * sizeof(*a)) == 0;
}

/* What only reading finds is not in the old one's fault. */
static bool is_fault(const struct verifying *v, const struct ck_tensor *new,
		     const struct ck_tensor *old)
{
	return new->err == 0 ||
	       (new->err == old->err &&ck_str_eq(
				    ck_catalog_str(v->c, new->fault),
				    ck_catalog_str(v->w->catalog, old->fault)));
}

static int tensor_compare(const struct verifying *v, uint32_t i,
			  uint32_t *change)
{
	const struct ck_catalog *c = v->w->catalog;
	const struct ck_tensor *old = &c->tensors[i], *new = &v->c->tensors[i];
	struct ck_str name = ck_catalog_str(c, old->names.key);

	if (!ck_str_eq(ck_catalog_str(v->c, new->dtype_name),
		       ck_catalog_str(c, old->dtype_name)) ||
	    new->dtype != old->dtype || !is_fault(v, new, old))
		return differs(v, "the type", name);
	if (new->ndim != old->ndim ||
	    !is_same(ck_catalog_shape(v->c, new), ck_catalog_shape(c, old),
		     old->ndim))
		return differs(v, "the shape", name);
	if (new->chunk != old->chunk || new->nchunks != old->nchunks ||
	    !is_same(v->c->boxes + new->boxes, c->boxes + old->boxes,
		     (size_t)2 * old->ndim * old->nchunks))
		return differs(v, "a box", name);
	return chunks_compare(v, old, change);
}

static int object_compare(const struct verifying *v, uint32_t i)
{
	const struct ck_object *old = &v->w->catalog->objects[i];
	const struct ck_object *new = &v->c->objects[i];

	if (is_place(v, &new->item, &old->item) &&
	    (new->item.err == 0 || new->item.err == old->item.err))
		return 0;
	return differs(v, "the item",
		       ck_catalog_str(v->w->catalog, old->names.key));
}

static bool is_path(const struct verifying *v, uint32_t entry)
{
	const struct ck_catalog *a = v->c, *b = v->w->catalog;
	uint32_t n = b->paths[entry + 1] - b->paths[entry];

	if (a->paths[entry + 1] - a->paths[entry] != n)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct ck_path_part x = a->parts[a->paths[entry] + i];
		struct ck_path_part y = b->parts[b->paths[entry] + i];
		struct ck_text p = { x.pos, x.len }, q = { y.pos, y.len };

		if (x.is_index != y.is_index ||
		    !ck_str_eq(ck_catalog_str(a, p), ck_catalog_str(b, q)))
			return false;
	}
	return true;
}

static int entry_compare(const struct verifying *v, uint32_t i,
			 uint32_t *change)
{
	const struct ck_catalog *c = v->w->catalog;
	struct ck_entry_id old = c->entries[i], new = v->c->entries[i];
	struct ck_str name = ck_catalog_str(c, ck_catalog_names(c, old)->key);

	if (new.i != old.i || new.is_object != old.is_object ||
	    !ck_str_eq(ck_catalog_str(v->c, ck_catalog_names(v->c, new)->key),
		       name))
		return differs(v, "the name", name);
	if (!is_path(v, i))
		return differs(v, "the path", name);
	return old.is_object ? object_compare(v, old.i)
			     : tensor_compare(v, old.i, change);
}

static int catalogs_compare(const struct verifying *v)
{
	const struct ck_catalog *c = v->w->catalog;
	uint32_t change = 0;
	int rc = 0;

	if (v->c->nentries != c->nentries || v->c->ntensors != c->ntensors ||
	    v->c->nchunks != c->nchunks)
		return differs(v, "the number", CK_STR("entries or boxes"));
	for (uint32_t i = 0; rc == 0 && i < c->nentries; i++)
		rc = entry_compare(v, i, &change);
	if (rc == 0 && change != v->w->n)
		rc = differs(v, "the order", CK_STR("changes"));
	return rc;
}

/* --- what it is ---------------------------------------------------------------------- */

static int other_bytes(const struct verifying *v, uint64_t at)
{
	return ck_fail(v->d, EIO,
		       "the new .metadata is not what was wanted: byte %llu "
		       "differs",
		       (unsigned long long)at);
}

static int seen_cmp(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return (x->build > y->build) - (x->build < y->build);
}

static int seen_make(struct verifying *v)
{
	const struct ck_dcp_wish *w = v->w;

	v->seen = malloc((w->n + 1UL) * sizeof(*v->seen));
	v->growth = malloc((w->n + 1UL) * sizeof(*v->growth));
	if (!v->seen || !v->growth)
		return no_memory(v);
	for (uint32_t i = 0; i < w->n; i++) {
		const struct ck_dcp_place *place =
			&v->found->chunks[w->changes[i].chunk];

		v->seen[i] = (struct seen){ place->build, i, place->set };
	}
	qsort(v->seen, w->n, sizeof(*v->seen), seen_cmp);
	return 0;
}

/* Two positions that should be one and the same. */
struct pair {
	uint64_t old, new;
};

/* The bytes up to `to`, of the new ones. */
static int bytes_compare(const struct verifying *v, struct pair *at,
			 uint64_t to)
{
	struct ck_str old = v->w->old, new = v->bytes;

	if (to < at->new || to > new.len || to - at->new > old.len - at->old)
		return other_bytes(v, at->new);
	if (to > at->new &&memcmp(old.p + at->old, new.p + at->new,
				  to - at->new) !=
	    0)
		return other_bytes(v, at->new);
	at->old += to - at->new;
	at->new = to;
	return 0;
}

/* How long the insertion at p is, if it is this one. */
static uint64_t insertion_len(struct verifying *v,
			      const struct ck_dcp_insertion *i, const char *p,
			      uint64_t left)
{
	ck_dcp_insertion_make(i, &v->text);
	if (v->text.err || left <= v->text.len ||
	    memcmp(p, v->text.data, v->text.len) != 0 || p[v->text.len] != 'b')
		return 0;
	return v->text.len;
}

/* That of an earlier commit, in the old bytes. */
static uint64_t old_len(struct verifying *v, uint64_t at, uint32_t chunk)
{
	uint64_t len = 0;

	for (int transform = 0; len == 0 && transform < 2; transform++) {
		struct ck_dcp_insertion i =
			ck_dcp_insertion_of(v->w->catalog, chunk, transform);

		len = insertion_len(v, &i, v->w->old.p + at,
				    v->w->old.len - at);
	}
	return len;
}

static uint64_t new_len(struct verifying *v, uint64_t at,
			const struct ck_change_of_place *c)
{
	uint64_t len = 0;

	for (int transform = 0; len == 0 && transform < 2; transform++) {
		struct ck_dcp_insertion i = { c->path, c->fpos, c->length,
					      transform };

		len = insertion_len(v, &i, v->bytes.p + at, v->bytes.len - at);
	}
	return len;
}

static int edit_compare(struct verifying *v, struct pair *at, uint32_t i)
{
	const struct seen *s = &v->seen[i];
	const struct ck_change_of_place *c = &v->w->changes[s->change];
	int rc = bytes_compare(v, at, s->build - s->set);
	uint64_t old;

	if (rc)
		return rc;
	if (s->set == 0 || new_len(v, at->new, c) != s->set)
		return v->text.err ? no_memory(v) : other_bytes(v, at->new);
	old = old_len(v, at->old, c->chunk);
	if (v->text.err)
		return no_memory(v);
	at->old += old;
	at->new += s->set;
	v->growth[i] = (struct ck_dcp_growth){
		s->build, (i ? v->growth[i - 1].more : 0) + s->set - old
	};
	return 0;
}

/* Lengths are compared when all growth is known. */
static int frame_compare(const struct verifying *v, struct pair *at,
			 const struct ck_dcp_frame *f)
{
	int rc = bytes_compare(v, at, f->at + 1);

	if (rc)
		return rc;
	if (v->w->old.len - at->old < sizeof(f->len))
		return other_bytes(v, at->new);
	at->old += sizeof(f->len);
	at->new += sizeof(f->len);
	return 0;
}

/* Where it was, it was as much shorter as what is in it grew. */
static bool is_frame_len(const struct verifying *v,
			 const struct ck_dcp_frame *f)
{
	uint64_t begin = f->at + FRAME_HEADER, len;
	uint64_t grown = ck_dcp_growth_in(v->growth, v->w->n, begin,
					  begin + f->len);
	uint64_t before = ck_dcp_growth_in(v->growth, v->w->n, 0, f->at);

	memcpy(&len, v->w->old.p + f->at - before + 1, sizeof(len));
	return f->len == len + grown;
}

static int stream_compare(struct verifying *v)
{
	const struct ck_dcp_places *s = v->found;
	struct pair at = { 0, 0 };
	size_t frame = 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < v->w->n; i++) {
		while (rc == 0 && frame < s->nframes &&
		       s->frames[frame].at < v->seen[i].build)
			rc = frame_compare(v, &at, &s->frames[frame++]);
		if (rc == 0)
			rc = edit_compare(v, &at, i);
	}
	while (rc == 0 && frame < s->nframes)
		rc = frame_compare(v, &at, &s->frames[frame++]);
	if (rc == 0)
		rc = bytes_compare(v, &at, v->bytes.len);
	if (rc == 0 && at.old != v->w->old.len)
		rc = other_bytes(v, at.new);
	for (size_t i = 0; rc == 0 && i < s->nframes; i++)
		if (!is_frame_len(v, &s->frames[i]))
			rc = other_bytes(v, s->frames[i].at);
	return rc;
}

/* --- both ------------------------------------------------------------------------------ */

static int says(struct verifying *v)
{
	const struct ck_dcp_numbers numbers = { path_number, v };
	int rc = paths_make(v);

	if (rc)
		return rc;
	rc = ck_dcp_parse_places(v->c, v->bytes, &numbers, v->places, v->d);
	if (rc == -EBADMSG) {
		ck_diag_prefix(v->d, "the new one");
		return -EIO;
	}
	return rc ? rc : catalogs_compare(v);
}

int ck_dcp_verify_says(const struct ck_dcp_wish *w, struct ck_str bytes,
		       struct ck_dcp_places *places, struct ck_diag *d)
{
	struct verifying v = {
		.w = w, .bytes = bytes, .places = places, .d = d
	};
	int rc;

	*places = (struct ck_dcp_places){ 0 };
	v.c = ck_catalog_make("dcp");
	rc = v.c ? says(&v) : no_memory(&v);
	ck_catalog_free(v.c);
	free(v.slots);
	return rc;
}

int ck_dcp_verify_is(const struct ck_dcp_wish *w, struct ck_str bytes,
		     const struct ck_dcp_places *places, struct ck_diag *d)
{
	struct verifying v = {
		.w = w, .bytes = bytes, .found = places, .d = d
	};
	int rc = seen_make(&v);

	if (rc == 0)
		rc = stream_compare(&v);
	free(v.seen);
	free(v.growth);
	ck_buf_fini(&v.text);
	return rc;
}
