/* SPDX-License-Identifier: MIT */
/*
 * rewrite: changes locations in a copy of `.metadata`. The pickle is not generated
 * again: that would need every class and field of every release and planner. Its bytes
 * are copied, with an insertion before the BUILD of each _StorageInfo that changes:
 *
 * MARK 'relative_path' <str> 'offset' <int> 'length' <int> SETITEMS
 *
 * It sets these keys in the dict that is on top of the stack at the BUILD. It has no
 * memo opcode, so all later opcodes keep their meaning. A frame that contains an
 * insertion becomes longer by its length. An insertion of an earlier commit is
 * replaced, so that the file does not grow with every commit.
 *
 * BUILDs are known by number from the first parse, and no insertion has a BUILD.
 * Stepping over the opcodes finds them again, in a tenth of the time of parsing. A hash
 * shows that the bytes are still those that were parsed, or were made from them.
 *
 * The state lives for one call of ck_dcp_rewrite(), in the thread of the commit.
 */
#include "dcp_rewrite.h"
#include "syntax/pickle/pickler.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { OUT_BUFFER = 1 << 20, OUT_PIECE = 8 << 20 };

/* --- insertions ---------------------------------------------------------------- */

/* These bytes must stay the same in every release: cut_find() recognises earlier
 * insertions by them. */
void ck_dcp_insertion_make(const struct ck_dcp_insertion *i, struct ck_buf *out)
{
	struct ck_pickler p = { .out = out };

	out->len = 0;
	ck_pickler_mark(&p);
	ck_pickler_text(&p, CK_STR("relative_path"));
	ck_pickler_text(&p, i->path);
	ck_pickler_text(&p, CK_STR("offset"));
	ck_pickler_int_wide(&p, i->fpos);
	ck_pickler_text(&p, CK_STR("length"));
	ck_pickler_int_wide(&p, i->length);
	if (i->transform) {
		ck_pickler_text(&p, CK_STR("transform_descriptors"));
		ck_pickler_none(&p);
	}
	ck_pickler_set_items(&p);
}

struct ck_dcp_insertion ck_dcp_insertion_of(const struct ck_catalog *c,
					    uint32_t chunk, bool transform)
{
	const struct ck_item *place = ck_catalog_item(c, chunk);
	struct ck_dcp_insertion i = { CK_STR(""), place->fpos, place->length,
				      transform };

	if (place->file < c->files.n)
		i.path = ck_catalog_file(c, place->file)->path;
	return i;
}

struct ck_dcp_insertion ck_dcp_insertion_new(const struct ck_dcp_request *w,
					     const struct ck_dcp_edit *e)
{
	const struct ck_change_of_place *c = &w->changes[e->change];
	bool transform = ck_catalog_item(w->catalog, c->chunk)->transform != 0;

	return (struct ck_dcp_insertion){ c->path, c->fpos, c->length,
					  transform || e->cut_transform };
}

/* --- the known .metadata ---------------------------------------------------------- */

static uint64_t places_sum(const struct ck_dcp_known *k)
{
	const void *numbers = k->places.chunks;

	return ck_hash64_seeded(
		(struct ck_str){ numbers, k->places.nchunks *
						  sizeof(*k->places.chunks) },
		k->seed);
}

void ck_dcp_known_make(struct ck_dcp_known *k, const struct ck_catalog *c,
		       struct ck_dcp_places *places, struct ck_str bytes)
{
	*k = (struct ck_dcp_known){ .nentries = (uint32_t)c->listing->n,
				    .ntensors = c->tensors.n,
				    .nchunks = c->chunks.n,
				    .places = *places,
				    .seed = ck_hash_seed(),
				    .len = bytes.len };
	*places = (struct ck_dcp_places){ 0 };
	k->places_sum = places_sum(k);
	k->sum = ck_hash64_seeded(bytes, k->seed);
}

void ck_dcp_known_next(struct ck_dcp_known *k)
{
	k->len = k->next_len;
	k->sum = k->next_sum;
}

void ck_dcp_known_fini(struct ck_dcp_known *k)
{
	ck_dcp_places_fini(&k->places);
}

void ck_dcp_request_fini(struct ck_dcp_request *w)
{
	free(w->edits);
	w->edits = NULL;
}

/* Verifies the known numbers and the old bytes: a wrong number would change another
 * box. */
static int known_check(const struct ck_dcp_request *w, struct ck_str old,
		       struct ck_diag *d)
{
	const struct ck_dcp_known *k = w->known;

	if (k->places.nchunks != k->nchunks ||
	    k->nchunks > w->catalog->chunks.n || places_sum(k) != k->places_sum)
		return ck_fail(d, EIO,
			       "what is remembered of .metadata was damaged in "
			       "memory");
	if (old.len != k->len || ck_hash64_seeded(old, k->seed) != k->sum)
		return ck_fail(d, ESTALE,
			       ".metadata: is not the file that was read");
	return 0;
}

/* --- edits ----------------------------------------------------------------------- */

struct rewriting {
	struct ck_dcp_request *w;
	struct ck_str old;
	struct ck_pickle_build *builds; /* n, in the order of the file */
	struct ck_pickle_frames frames;
	struct ck_dcp_growth *growth; /* n */
	struct ck_buf insertion;      /* scratch */
	struct ck_diag *d;
};

static const char *name_of(const struct ck_catalog *c, uint32_t chunk)
{
	for (uint32_t i = 0; i < c->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c, i);

		if (chunk >= t->chunk && chunk - t->chunk < t->nchunks)
			return ck_shown("%s, box %u", ck_show(t->entry.key),
					chunk - t->chunk);
	}
	return "no tensor";
}

static int cannot_change(const struct ck_catalog *c, uint32_t chunk,
			 const char *why, struct ck_diag *d)
{
	return ck_fail(d, EOPNOTSUPP, ".metadata: %s cannot be changed: %s",
		       name_of(c, chunk), why);
}

int ck_dcp_place_check(const struct ck_catalog *c, const struct ck_dcp_known *k,
		       uint32_t chunk, struct ck_diag *d)
{
	uint32_t place;

	if (chunk >= k->nchunks)
		return cannot_change(c, chunk, "it is in no .metadata", d);
	place = k->places.chunks[chunk];
	if (place == 0)
		return cannot_change(c, chunk, "storage_data has no item of it",
				     d);
	if (place & CK_DCP_FIXED)
		return cannot_change(c, chunk,
				     "something else has its place, as one "
				     "object, or it is nested too deep",
				     d);
	return 0;
}

static int change_check(const struct rewriting *r, uint32_t i)
{
	const struct ck_change_of_place *c = &r->w->changes[i];
	int rc = ck_dcp_place_check(r->w->catalog, r->w->known, c->chunk, r->d);

	if (rc)
		return rc;
	if (c->path.len == 0 || c->path.len > INT32_MAX / 2 ||
	    !ck_utf8_valid(c->path) || c->fpos > INT64_MAX ||
	    c->length > INT64_MAX)
		return cannot_change(r->w->catalog, c->chunk,
				     "its new place cannot be written", r->d);
	return 0;
}

static int edits_cmp(const void *a, const void *b)
{
	const struct ck_dcp_edit *x = a, *y = b;

	return (x->build > y->build) - (x->build < y->build);
}

/* Makes the edits, sorted by BUILD. Their BUILDs differ, because change_check() refuses
 * shared ones. */
static int edits_make(struct rewriting *r)
{
	struct ck_dcp_request *w = r->w;

	w->edits = calloc(w->n + 1UL, sizeof(*w->edits));
	r->builds = calloc(w->n + 1UL, sizeof(*r->builds));
	r->growth = calloc(w->n + 1UL, sizeof(*r->growth));
	if (!w->edits || !r->builds || !r->growth)
		return ck_fail(r->d, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < w->n; i++) {
		uint32_t chunk = w->changes[i].chunk;
		int rc = change_check(r, i);

		if (rc)
			return rc;
		w->edits[i] = (struct ck_dcp_edit){
			.change = i, .build = w->known->places.chunks[chunk]
		};
	}
	qsort(w->edits, w->n, sizeof(*w->edits), edits_cmp);
	for (uint32_t i = 0; i < w->n; i++)
		r->builds[i].number = w->edits[i].build;
	return 0;
}

static int insertion_make(struct rewriting *r, struct ck_dcp_insertion i)
{
	ck_dcp_insertion_make(&i, &r->insertion);
	return r->insertion.err ? ck_fail(r->d, ENOMEM, "out of memory") : 0;
}

/* Finds an insertion of an earlier commit: the bytes from the last MARK to the BUILD
 * are those of the present location in the catalog. */
static int cut_find(struct rewriting *r, struct ck_dcp_edit *e,
		    const struct ck_pickle_build *b)
{
	uint32_t chunk = r->w->changes[e->change].chunk;
	int rc = 0;

	for (int i = 0; rc == 0 && e->cut == 0 && i < 2; i++) {
		rc = insertion_make(
			r, ck_dcp_insertion_of(r->w->catalog, chunk, i == 1));
		if (rc || r->insertion.len != b->at - b->mark ||
		    memcmp(r->insertion.data, r->old.p + b->mark,
			   r->insertion.len) != 0)
			continue;
		e->cut = (uint32_t)r->insertion.len;
		e->cut_transform = i == 1;
	}
	return rc;
}

static int growth_make(struct rewriting *r)
{
	uint64_t more = 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < r->w->n; i++) {
		struct ck_dcp_edit *e = &r->w->edits[i];

		rc = cut_find(r, e, &r->builds[i]);
		if (rc == 0)
			rc = insertion_make(r, ck_dcp_insertion_new(r->w, e));
		more += r->insertion.len - e->cut;
		r->growth[i] = (struct ck_dcp_growth){ r->builds[i].at, more };
	}
	return rc;
}

/* Returns the number of edits before a position. */
static size_t growth_before(const struct ck_dcp_growth *g, size_t n,
			    uint64_t at)
{
	size_t low = 0;

	while (low < n) {
		size_t middle = low + (n - low) / 2;

		if (g[middle].at < at)
			low = middle + 1;
		else
			n = middle;
	}
	return low;
}

uint64_t ck_dcp_growth_in(const struct ck_dcp_growth *g, size_t n,
			  uint64_t begin, uint64_t end)
{
	size_t first = growth_before(g, n, begin);
	size_t last = growth_before(g, n, end);

	if (last <= first)
		return 0;
	return g[last - 1].more - (first ? g[first - 1].more : 0);
}

/* --- output ------------------------------------------------------------------------ */

/* Buffers bytes into large writes. */
struct output {
	int fd;
	char *buffer;
	size_t len;
	uint64_t written;
	uint64_t begun; /* bytes whose writeback has been started */
};

/* Starts writeback of a full piece while the next one is made. An error is returned
 * here, because fsync(2) may not report it again. */
static int output_begin(struct output *o)
{
	uint64_t len = o->written - o->begun;
	int rc;

	if (len < OUT_PIECE)
		return 0;
	rc = sync_file_range(o->fd, (off_t)o->begun, (off_t)len,
			     SYNC_FILE_RANGE_WRITE);
	o->begun = o->written;
	return rc == 0 || errno == ENOSYS ? 0 : -errno;
}

static int output_write(struct output *o, const char *bytes, size_t len)
{
	int rc = 0;

	while (rc == 0 && len) {
		size_t part = ck_min(len, OUT_PIECE);

		rc = ck_write_full(o->fd, bytes, part);
		o->written += part;
		if (rc == 0)
			rc = output_begin(o);
		bytes += part;
		len -= part;
	}
	return rc;
}

static int output_flush(struct output *o)
{
	int rc = output_write(o, o->buffer, o->len);

	o->len = 0;
	return rc;
}

static int output_add(struct output *o, const void *bytes, size_t len)
{
	int rc = 0;

	if (len > OUT_BUFFER - o->len)
		rc = output_flush(o);
	if (rc == 0 && len > OUT_BUFFER)
		return output_write(o, bytes, len);
	if (rc == 0 && len) {
		memcpy(o->buffer + o->len, bytes, len);
		o->len += len;
	}
	return rc;
}

/* Copies the old bytes before a frame, and its header with the new length, if it grew.
 * *pos is the offset up to which old bytes were copied. */
static int frame_write(const struct rewriting *r,
		       const struct ck_pickle_frame *f, struct output *o,
		       uint64_t *pos)
{
	uint64_t begin = f->at + CK_DCP_FRAME_HEADER, len = f->len;
	int rc;

	len += ck_dcp_growth_in(r->growth, r->w->n, begin, begin + f->len);
	if (len == f->len)
		return 0;
	rc = output_add(o, r->old.p + *pos, f->at + 1 - *pos);
	if (rc == 0)
		rc = output_add(o, &len, sizeof(len));
	*pos = begin;
	return rc;
}

static int edit_write(struct rewriting *r, uint32_t i, struct output *o,
		      uint64_t *pos)
{
	const struct ck_dcp_edit *e = &r->w->edits[i];
	uint64_t at = r->builds[i].at;
	int rc = insertion_make(r, ck_dcp_insertion_new(r->w, e));

	if (rc == 0)
		rc = output_add(o, r->old.p + *pos, at - e->cut - *pos);
	if (rc == 0)
		rc = output_add(o, r->insertion.data, r->insertion.len);
	*pos = at;
	return rc;
}

/* Writes all bytes: headers of frames and edits in the order of the file. */
static int stream_write(struct rewriting *r, struct output *o)
{
	const struct ck_pickle_frames *f = &r->frames;
	uint64_t pos = 0;
	size_t frame = 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < r->w->n; i++) {
		while (rc == 0 && frame < f->n &&
		       f->rows[frame].at < r->builds[i].at)
			rc = frame_write(r, &f->rows[frame++], o, &pos);
		if (rc == 0)
			rc = edit_write(r, i, o, &pos);
	}
	if (rc == 0)
		rc = output_add(o, r->old.p + pos, r->old.len - pos);
	return rc ? rc : output_flush(o);
}

static int stream(struct rewriting *r, int out)
{
	struct output o = { .fd = out, .buffer = malloc(OUT_BUFFER) };
	int rc = 0;

	if (!o.buffer)
		return ck_fail(r->d, ENOMEM, "out of memory");
	if (lseek(out, 0, SEEK_SET) < 0)
		rc = -errno;
	if (rc == 0)
		rc = stream_write(r, &o);
	free(o.buffer);
	return rc ? ck_fail(r->d, -rc, "writing .metadata: %s", strerror(-rc))
		  : 0;
}

/* --- the request ------------------------------------------------------------------ */

static int changes_check(const struct ck_dcp_request *w, struct ck_diag *d)
{
	for (uint32_t i = 0; i < w->n; i++)
		if (w->changes[i].chunk >= w->catalog->chunks.n ||
		    (i && w->changes[i].chunk <= w->changes[i - 1].chunk))
			return ck_fail(d, EINVAL,
				       "changes out of order, or of no box");
	return 0;
}

static int rewrite(struct rewriting *r, int out)
{
	int rc = known_check(r->w, r->old, r->d);

	if (rc == 0)
		rc = edits_make(r);
	if (rc == 0)
		rc = ck_pickle_walk(r->old, r->builds, r->w->n, &r->frames,
				    r->d);
	if (rc == 0)
		rc = growth_make(r);
	return rc ? rc : stream(r, out);
}

int ck_dcp_rewrite(struct ck_dcp_request *w, struct ck_str old, int out,
		   struct ck_diag *d)
{
	struct rewriting r = { .w = w, .old = old, .d = d };
	int rc = changes_check(w, d);

	ck_dcp_request_fini(w);
	if (rc == 0)
		rc = rewrite(&r, out);
	free(r.builds);
	free(r.growth);
	free(r.frames.rows);
	ck_buf_fini(&r.insertion);
	return rc;
}
