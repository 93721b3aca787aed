/* SPDX-License-Identifier: MIT */
/*
 * A `.metadata` is not written anew: that would need every class and field
 * that any release or planner ever put there. It is copied, and before the
 * BUILD of each _StorageInfo that changes goes
 *
 *	MARK 'relative_path' <str> 'offset' <int> 'length' <int> SETITEMS
 *
 * which sets these keys in the dict that lies on the stack then. There is no
 * memo opcode in it, so all that follows means what it meant. Two things
 * more: a frame that holds an insertion is longer by it, and an insertion
 * that is there already is replaced, so that the file does not grow with
 * every commit.
 */
#include "dcp_rewrite.h"

#include <errno.h>
#include <unistd.h>

enum { OUT_BUFFER = 1 << 20, FRAME_HEADER = 9 };

/* --- insertions ---------------------------------------------------------------- */

static void put_text(struct ck_buf *b, struct ck_str s)
{
	uint32_t len = (uint32_t)s.len;

	ck_buf_text(b, "X");
	ck_buf_add(b, &len, sizeof(len)); /* little-endian hosts only */
	ck_buf_str(b, s);
}

static void put_int(struct ck_buf *b, uint64_t value)
{
	uint8_t width = 8;

	if (value <= INT32_MAX) {
		width = 4;
		ck_buf_text(b, "J");
	} else {
		ck_buf_text(b, "\x8a\x08");
	}
	ck_buf_add(b, &value, width);
}

void ck_dcp_insertion_make(const struct ck_dcp_insertion *i, struct ck_buf *out)
{
	out->len = 0;
	ck_buf_text(out, "(");
	put_text(out, CK_STR("relative_path"));
	put_text(out, i->path);
	put_text(out, CK_STR("offset"));
	put_int(out, i->fpos);
	put_text(out, CK_STR("length"));
	put_int(out, i->length);
	if (i->transform) {
		put_text(out, CK_STR("transform_descriptors"));
		ck_buf_text(out, "N");
	}
	ck_buf_text(out, "u");
}

struct ck_dcp_insertion ck_dcp_insertion_of(const struct ck_catalog *c,
					    uint32_t chunk, bool transform)
{
	const struct ck_chunk *place = &c->chunks[chunk];
	struct ck_dcp_insertion i = { CK_STR(""), place->fpos, place->length,
				      transform };

	if (place->file < c->nfiles)
		i.path = ck_catalog_str(c, c->files[place->file].path);
	return i;
}

/* --- edits ----------------------------------------------------------------------- */

/* One change in the old bytes: those of [at - cut, at) become an insertion. */
struct edit {
	uint64_t at;
	uint32_t change;
	uint32_t cut;
	bool transform;
};

struct rewriting {
	const struct ck_dcp_wish *w;
	struct ck_dcp_places places;
	struct edit *edits;	      /* n, in the order of the file */
	struct ck_dcp_growth *growth; /* n */
	struct ck_buf insertion;      /* the last one made */
	struct ck_diag *d;
};

static const char *name_of(const struct ck_catalog *c, uint32_t chunk)
{
	for (size_t i = 0; i < c->ntensors; i++) {
		const struct ck_tensor *t = &c->tensors[i];

		if (chunk >= t->chunk && chunk - t->chunk < t->nchunks)
			return ck_shown(
				"%s, box %u",
				ck_show(ck_catalog_str(c, t->names.key)),
				chunk - t->chunk);
	}
	return "no tensor";
}

static int change_check(const struct rewriting *r, uint32_t i)
{
	const struct ck_change_of_place *c = &r->w->changes[i];
	const struct ck_dcp_place *place = &r->places.chunks[c->chunk];
	const char *why = NULL;

	if (!place->build)
		why = "storage_data has no item of it";
	else if (place->shared)
		why = "something else has its place, as one object";
	else if (c->path.len == 0 || c->path.len > INT32_MAX / 2 ||
		 !ck_utf8_valid(c->path) || c->fpos > INT64_MAX ||
		 c->length > INT64_MAX)
		why = "its new place cannot be written";
	return why ? ck_fail(r->d, EOPNOTSUPP,
			     ".metadata: %s cannot be changed: %s",
			     name_of(r->w->catalog, c->chunk), why)
		   : 0;
}

/* An insertion that says what the catalog says was put there by this file. */
static void cut_find(struct rewriting *r, struct edit *e, uint32_t chunk)
{
	const struct ck_catalog *c = r->w->catalog;
	const char *end = r->w->old.p + e->at;
	uint32_t set = r->places.chunks[chunk].set;

	e->transform = c->chunks[chunk].transform != 0;
	for (int transform = 0; set && transform < 2; transform++) {
		struct ck_dcp_insertion old = ck_dcp_insertion_of(c, chunk,
								  transform);

		ck_dcp_insertion_make(&old, &r->insertion);
		if (r->insertion.err || r->insertion.len != set ||
		    memcmp(r->insertion.data, end - set, set) != 0)
			continue;
		/* What hides an older transform must stay. */
		e->transform |= transform == 1;
		e->cut = set;
	}
}

static int edits_cmp(const void *a, const void *b)
{
	const struct edit *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static int insertion_make(struct rewriting *r, const struct edit *e)
{
	const struct ck_change_of_place *c = &r->w->changes[e->change];
	struct ck_dcp_insertion i = { c->path, c->fpos, c->length,
				      e->transform };

	ck_dcp_insertion_make(&i, &r->insertion);
	return r->insertion.err ? ck_fail(r->d, ENOMEM, "out of memory") : 0;
}

static int edits_make(struct rewriting *r)
{
	const struct ck_dcp_wish *w = r->w;
	uint64_t more = 0;

	r->edits = malloc((w->n + 1UL) * sizeof(*r->edits));
	r->growth = malloc((w->n + 1UL) * sizeof(*r->growth));
	if (!r->edits || !r->growth)
		return ck_fail(r->d, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < w->n; i++) {
		uint32_t chunk = w->changes[i].chunk;
		int rc = change_check(r, i);

		if (rc)
			return rc;
		r->edits[i] = (struct edit){
			.at = r->places.chunks[chunk].build, .change = i
		};
		cut_find(r, &r->edits[i], chunk);
	}
	qsort(r->edits, w->n, sizeof(*r->edits), edits_cmp);
	for (uint32_t i = 0; i < w->n; i++) {
		int rc = insertion_make(r, &r->edits[i]);

		if (rc)
			return rc;
		more += r->insertion.len - r->edits[i].cut;
		r->growth[i] = (struct ck_dcp_growth){ r->edits[i].at, more };
	}
	return 0;
}

/* How many of them lie before. */
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

/* Bytes on their way to a file, in large writes. */
struct output {
	int fd;
	char *buffer;
	size_t len;
};

static int output_flush(struct output *o)
{
	int rc = ck_write_full(o->fd, o->buffer, o->len);

	o->len = 0;
	return rc;
}

static int output_add(struct output *o, const void *bytes, size_t len)
{
	int rc = 0;

	if (len > OUT_BUFFER - o->len)
		rc = output_flush(o);
	if (rc == 0 && len > OUT_BUFFER)
		return ck_write_full(o->fd, bytes, len);
	if (rc == 0 && len) {
		memcpy(o->buffer + o->len, bytes, len);
		o->len += len;
	}
	return rc;
}

/* The header of a frame that grew, with what is before it; *pos is how far
 * the old bytes are copied. */
static int frame_write(const struct rewriting *r, const struct ck_dcp_frame *f,
		       struct output *o, uint64_t *pos)
{
	uint64_t begin = f->at + FRAME_HEADER, len = f->len;
	int rc;

	len += ck_dcp_growth_in(r->growth, r->w->n, begin, begin + f->len);
	if (len == f->len)
		return 0;
	rc = output_add(o, r->w->old.p + *pos, f->at + 1 - *pos);
	if (rc == 0)
		rc = output_add(o, &len, sizeof(len));
	*pos = begin;
	return rc;
}

static int edit_write(struct rewriting *r, const struct edit *e,
		      struct output *o, uint64_t *pos)
{
	int rc = insertion_make(r, e);

	if (rc == 0)
		rc = output_add(o, r->w->old.p + *pos, e->at - e->cut - *pos);
	if (rc == 0)
		rc = output_add(o, r->insertion.data, r->insertion.len);
	*pos = e->at;
	return rc;
}

/* Headers of frames and edits in the order of the file. */
static int stream_write(struct rewriting *r, struct output *o)
{
	const struct ck_dcp_places *s = &r->places;
	uint64_t pos = 0;
	size_t frame = 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < r->w->n; i++) {
		const struct edit *e = &r->edits[i];

		while (rc == 0 && frame < s->nframes &&
		       s->frames[frame].at < e->at)
			rc = frame_write(r, &s->frames[frame++], o, &pos);
		if (rc == 0)
			rc = edit_write(r, e, o, &pos);
	}
	if (rc == 0)
		rc = output_add(o, r->w->old.p + pos, r->w->old.len - pos);
	return rc ? rc : output_flush(o);
}

static int stream(struct rewriting *r, int out)
{
	struct output o = { out, malloc(OUT_BUFFER), 0 };
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

/* --- all of it ---------------------------------------------------------------------- */

/* The old bytes are those that the catalog was made of; the caller's changes
 * are what was asked for. */
static int parse(struct rewriting *r)
{
	const struct ck_dcp_numbers no_files = { NULL, NULL };
	struct ck_catalog *scratch = ck_catalog_make("dcp");
	int rc;

	if (!scratch)
		return ck_fail(r->d, ENOMEM, "out of memory");
	rc = ck_dcp_parse_places(scratch, r->w->old, &no_files, &r->places,
				 r->d);
	ck_catalog_free(scratch);
	if (rc == 0 && r->places.nchunks != r->w->catalog->nchunks)
		rc = ck_fail(r->d, ESTALE,
			     ".metadata: is not the file that was read");
	return rc;
}

static int changes_check(const struct ck_dcp_wish *w, struct ck_diag *d)
{
	for (uint32_t i = 0; i < w->n; i++)
		if (w->changes[i].chunk >= w->catalog->nchunks ||
		    (i && w->changes[i].chunk <= w->changes[i - 1].chunk))
			return ck_fail(d, EINVAL,
				       "changes out of order, or of no box");
	return 0;
}

int ck_dcp_rewrite(const struct ck_dcp_wish *w, int out, struct ck_diag *d)
{
	struct rewriting r = { .w = w, .d = d };
	int rc = changes_check(w, d);

	if (rc == 0)
		rc = parse(&r);
	if (rc == 0)
		rc = edits_make(&r);
	if (rc == 0)
		rc = stream(&r, out);
	ck_dcp_places_fini(&r.places);
	free(r.edits);
	free(r.growth);
	ck_buf_fini(&r.insertion);
	return rc;
}
