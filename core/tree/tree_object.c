/* SPDX-License-Identifier: MIT */
/* tree_object: see object.h. */
#include "object.h"

#include "tree/reports/snapshot.h"

#include <errno.h>

static const char *const suffixes[] = { ".json", ".pt" };

void ck_object_file_name(const struct ck_catalog *c, uint32_t object,
			 uint32_t file, struct ck_buf *out)
{
	ck_buf_str(out, ck_object_names(c, object).stem);
	ck_buf_text(out, suffixes[file]);
}

int ck_object_file_find(const struct ck_catalog *c, struct ck_str name,
			uint32_t *object, uint32_t *file)
{
	for (uint32_t i = 0; i < CK_OBJECT_FILES; i++) {
		size_t suffix = strlen(suffixes[i]);
		struct ck_str stem = name;
		int64_t entry;

		if (name.len < suffix)
			continue;
		stem.len -= suffix;
		if (memcmp(name.p + stem.len, suffixes[i], suffix) != 0)
			continue;
		entry = ck_catalog_find(c, stem);
		if (entry < 0 || !c->listing->entries[entry].is_object)
			continue;
		*object = c->listing->entries[entry].i;
		*file = i;
		return 0;
	}
	return -ENOENT;
}

int ck_object_print(struct ck_checkpoint *cp, uint32_t object,
		    struct ck_buf *out, bool *transient)
{
	struct ck_diag d = { 0 };
	int rc = ck_object_json(cp, object, out, &d);

	*transient = rc &&
		     (d.transient || rc == -EREMOTE || ck_is_shortage(rc));
	if (rc && rc != -EREMOTE && d.text[0])
		ck_log("%s", d.text);
	return rc;
}

/* What the file holds, less the gaps. Errors as of ck_object_json(). */
static int object_text(struct ck_checkpoint *cp, uint32_t object, uint32_t file,
		       struct ck_buf *out, struct ck_object_gaps *gaps,
		       struct ck_diag *d)
{
	*gaps = (struct ck_object_gaps){ 0 };
	if (file == CK_OBJECT_JSON)
		return ck_object_json(cp, object, out, d);
	return ck_object_item(cp, object, out, gaps, d);
}

/* -EOVERFLOW */
static int text_size(const struct ck_buf *text,
		     const struct ck_object_gaps *gaps, uint64_t *size)
{
	*size = text->len;
	for (uint32_t i = 0; i < gaps->n; i++)
		if (!ck_add(size, *size, gaps->list[i].place.length) ||
		    *size > INT64_MAX)
			return -EOVERFLOW;
	return 0;
}

int ck_object_file_size(struct ck_checkpoint *cp, uint32_t object,
			uint32_t file, uint64_t *size)
{
	struct ck_object_place place;
	struct ck_object_gaps gaps;
	struct ck_buf text = { 0 };
	struct ck_diag d = { 0 };
	int rc;

	*size = 0;
	if (file == CK_OBJECT_ITEM &&
	    ck_object_place(cp, object, &place) == 1) {
		*size = place.length;
		return 0;
	}
	rc = object_text(cp, object, file, &text, &gaps, &d);
	if (rc == 0)
		rc = text_size(&text, &gaps, size);
	if (rc)
		*size = 0;
	ck_buf_fini(&text);
	free(gaps.list);
	return d.transient || ck_is_shortage(rc) ? rc : 0;
}

/* --- of remote files ---------------------------------------------------------------- */

/* More than that is not kept. */
static const size_t kept_most = 64 << 20;

/* -EREMOTE: some need more. */
static int sizes_ask(struct ck_checkpoint *cp, struct ck_fetch *f)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	int all = 0;

	ck_fetch_begin(f);
	for (uint32_t i = 0; i < c->objects.n; i++)
		for (uint32_t file = 0; file < CK_OBJECT_FILES; file++) {
			uint64_t size;
			int rc = f->bytes < kept_most
					 ? ck_object_file_size(cp, i, file,
							       &size)
					 : 0;

			all = rc == -EREMOTE || rc == -ENOMEM ? rc : all;
		}
	ck_fetch_end(f);
	return all;
}

int ck_objects_keep(struct ck_checkpoint *cp, struct ck_route *route)
{
	struct ck_header_fetch e = { 0 };
	int rc;

	if (!ck_files_any_remote(cp->files))
		return 0;
	do
		rc = sizes_ask(cp, &e.fetch);
	while (rc == -EREMOTE && (rc = ck_io_header_fetch(route, &e)) == 0);
	if (rc == 0)
		ck_files_keep(cp->files, &e.fetch);
	ck_header_fetch_fini(&e);
	return rc;
}

/* --- slices ------------------------------------------------------------------------- */

/* A text, and bytes of data files in its gaps. */
struct gaps_slice {
	struct ck_slice slice; /* first: the slice is this */
	struct ck_buf text;
	uint64_t *begins;
	struct ck_part parts[];
};

static void gaps_free(struct ck_slice *slice)
{
	struct gaps_slice *s = (struct gaps_slice *)slice;

	ck_buf_fini(&s->text);
	free(s->begins);
	free(s);
}

static void part_add(struct gaps_slice *s, struct ck_part part, uint64_t len)
{
	struct ck_slice *slice = &s->slice;

	if (len == 0)
		return;
	s->parts[slice->nparts] = part;
	s->begins[slice->nparts++] = slice->size;
	slice->size += len;
	s->begins[slice->nparts] = slice->size;
}

static void text_add(struct gaps_slice *s, size_t from, size_t to)
{
	part_add(s,
		 (struct ck_part){ .kind = CK_PART_BYTES,
				   .at.bytes = s->text.data + from },
		 to - from);
}

/* Takes the text. The sizes were added up before. */
static int gaps_make(struct ck_buf *text, const struct ck_object_gaps *gaps,
		     struct ck_slice **out)
{
	size_t most = 2UL * gaps->n + 1, at = 0;
	struct gaps_slice *s = calloc(1, sizeof(*s) + most * sizeof(*s->parts));
	uint64_t *begins = calloc(most + 1, sizeof(*begins));

	if (!s || !begins) {
		free(s);
		free(begins);
		return -ENOMEM;
	}
	s->begins = begins;
	s->text = *text;
	*text = (struct ck_buf){ 0 };
	for (uint32_t i = 0; i < gaps->n; i++) {
		const struct ck_object_gap *g = &gaps->list[i];

		text_add(s, at, g->at);
		at = g->at;
		part_add(s,
			 (struct ck_part){ .kind = CK_PART_RANGE,
					   .number = g->place.file,
					   .at.fpos = g->place.fpos },
			 g->place.length);
	}
	text_add(s, at, s->text.len);
	s->slice.begins = s->begins;
	s->slice.parts = s->parts;
	s->slice.free = gaps_free;
	*out = &s->slice;
	return 0;
}

/* Takes the text. */
static int text_slice(struct ck_buf *text, const struct ck_object_gaps *gaps,
		      struct ck_slice **out)
{
	struct ck_snapshot *s;
	uint64_t size;
	int rc = text_size(text, gaps, &size);

	if (rc || gaps->n)
		return rc ? rc : gaps_make(text, gaps, out);
	s = ck_snapshot_make(text);
	return s ? ck_snapshot_slice(s, out) : -ENOMEM;
}

/* Made now: an open file keeps it. */
static int made_slice(struct ck_checkpoint *cp, uint32_t object, uint32_t file,
		      struct ck_slice **out, struct ck_diag *d)
{
	struct ck_object_gaps gaps;
	struct ck_buf text = { 0 };
	int rc = object_text(cp, object, file, &text, &gaps, d);

	if (rc == 0)
		rc = text_slice(&text, &gaps, out);
	ck_buf_fini(&text);
	free(gaps.list);
	return rc;
}

int ck_object_file_slice(struct ck_checkpoint *cp, uint32_t object,
			 uint32_t file, struct ck_slice **out, bool *transient)
{
	struct ck_slice_builder b = { 0 };
	struct ck_object_place place;
	struct ck_diag d = { 0 };
	int rc;

	if (file == CK_OBJECT_ITEM &&
	    ck_object_place(cp, object, &place) == 1) {
		ck_slice_add_range(&b, place.file, place.fpos, place.length);
		rc = ck_object_stat(cp, object, &d);
		if (rc == 0)
			rc = ck_slice_make(&b, out);
	} else {
		rc = made_slice(cp, object, file, out, &d);
	}
	*transient = d.transient || ck_is_shortage(rc);
	if (rc && rc != -EREMOTE && d.text[0])
		ck_log("%s", d.text);
	return rc;
}

int ck_object_record(struct ck_checkpoint *cp, uint32_t object,
		     struct ck_slice **out, bool *transient)
{
	int rc = ck_object_file_slice(cp, object, CK_OBJECT_ITEM, out,
				      transient);

	*transient |= rc == -EREMOTE;
	return rc;
}
