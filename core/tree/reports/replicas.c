/* SPDX-License-Identifier: MIT */
/*
 * replicas: see replicas.h.
 */
#include "base/bits.h"
#include "replicas_internal.h"
#include "sample.h"

#include <errno.h>
#include <inttypes.h>

struct ck_differing {
	struct ck_checkpoint *cp;
	/* Atomic: of which files it was found that others differ. */
	struct ck_bits tensors, chunks, objects;
};

struct ck_differing *ck_replicas_make(struct ck_checkpoint *cp)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	bool any = c->own_tensors || c->own_objects;
	struct ck_differing *known = calloc(1, sizeof(*known));

	if (!known)
		return NULL;
	known->cp = cp;
	if (ck_bits_make(&known->tensors, any ? c->tensors.n : 0) ||
	    ck_bits_make(&known->chunks, any ? c->chunks.n : 0) ||
	    ck_bits_make(&known->objects, any ? c->objects.n : 0)) {
		ck_replicas_free(known);
		return NULL;
	}
	return known;
}

void ck_replicas_free(struct ck_differing *known)
{
	if (!known)
		return;
	ck_bits_fini(&known->tensors);
	ck_bits_fini(&known->chunks);
	ck_bits_fini(&known->objects);
	free(known);
}

/* NULL: of others nothing is known. */
static struct ck_bits *bits_of(const struct ck_differing *known,
			       const struct ck_file_content *about,
			       uint32_t *bit)
{
	const struct ck_bits *bits = NULL;

	switch (about->topic) {
	case CK_FILE_KIND_TENSOR:
	case CK_FILE_KIND_PART:
		bits = &known->tensors;
		*bit = about->number;
		break;
	case CK_FILE_KIND_BOX:
		bits = &known->chunks;
		*bit = about->chunk;
		break;
	case CK_FILE_KIND_OBJECT:
		bits = &known->objects;
		*bit = about->number;
		break;
	default: break;
	}
	return bits && *bit < bits->n ? (struct ck_bits *)(uintptr_t)bits
				      : NULL;
}

bool ck_replicas_are_known(const struct ck_differing *known,
			   const struct ck_file_content *about)
{
	uint32_t bit;
	const struct ck_bits *bits = bits_of(known, about, &bit);

	return bits && ck_bits_has(bits, bit);
}

/* --- what differs ------------------------------------------------------------------- */

static bool is_same_place(const struct ck_catalog *c, uint32_t a, uint32_t b)
{
	const struct ck_item *x = ck_catalog_item(c, a);
	const struct ck_item *y = ck_catalog_item(c, b);

	return x->file == y->file && x->fpos == y->fpos && x->form == y->form &&
	       !x->err && !y->err;
}

/* Compares box i of a copy with what `shown`, which has all of its elements, has there. */
static int box_compare(struct ck_comparing *k, uint32_t shown,
		       const struct ck_tensor *copy, uint32_t i)
{
	const struct ck_tensor *t = ck_catalog_tensor(k->c, shown);
	const int64_t *box = ck_tensor_box(copy, i);
	uint64_t bytes = ck_tensor_box_bytes(copy, i);
	int rc;

	if (bytes == 0 || copy->err || t->err ||
	    (copy->boxes == t->boxes &&
	     is_same_place(k->c, t->chunk + i, copy->chunk + i)))
		return 0;
	rc = ck_side_open(&k->shown, shown, box, bytes);
	if (rc == 0)
		rc = ck_side_open(&k->other, copy->entry.number, box, bytes);
	if (rc == 0)
		rc = ck_bytes_compare(k, bytes);
	ck_side_close(&k->shown);
	ck_side_close(&k->other);
	if (rc == -EREMOTE && ck_files_any_remote(k->cp->files))
		rc = -EOPNOTSUPP;
	if (rc > 0)
		rc = ck_differing_add(
			k, ck_catalog_item(k->c, copy->chunk + i)->file);
	return rc;
}

static const struct ck_same_name *copies_of(const struct ck_catalog *c,
					    const struct ck_entry *e,
					    bool is_object, uint32_t *n)
{
	struct ck_entry_id of = { e->number, is_object };

	if (e->role != CK_ROLE_WHOLE)
		of = ck_entry_of(e);
	return ck_listing_same_of(c->listing, of, n);
}

/* --- a tensor, or a box of it ---------------------------------------------------------------- */

static int tensor_compare(struct ck_comparing *k, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(k->c, tensor);
	const struct ck_same_name *same;
	uint32_t n;
	int rc = 0;

	same = copies_of(k->c, &t->entry, false, &n);
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		const struct ck_tensor *copy = ck_copy_at(k->c, &same[i]);
		const struct ck_tensor *piece = ck_piece_at(k->c, t, &same[i]);

		if (piece)
			rc = ck_piece_compare(k, t, piece);
		for (uint32_t b = 0; copy && b < copy->nchunks && rc == 0; b++)
			rc = box_compare(k, tensor, copy, b);
	}
	return rc;
}

/* One box that a rank has: with those that are equal. */
static int chunk_compare(struct ck_comparing *k, uint32_t tensor,
			 uint32_t chunk)
{
	const struct ck_tensor *t = ck_catalog_tensor(k->c, tensor);
	const int64_t *box = ck_tensor_box(t, chunk - t->chunk);
	const struct ck_same_name *same;
	uint32_t n;
	int rc = 0;

	if (t->entry.role == CK_ROLE_OWN)
		return 0;
	same = copies_of(k->c, &t->entry, false, &n);
	for (uint32_t i = 0; i < n && rc == 0; i++) {
		const struct ck_tensor *copy = ck_copy_at(k->c, &same[i]);

		for (uint32_t b = 0; copy && b < copy->nchunks && rc == 0; b++)
			if (copy->chunk + b != chunk &&
			    memcmp(ck_tensor_box(copy, b), box,
				   2UL * t->ndim * sizeof(*box)) == 0)
				rc = box_compare(k, tensor, copy, b);
	}
	return rc;
}

/* --- objects -------------------------------------------------------------------------- */

/* 1: its JSON is another one. */
static int json_compare(struct ck_comparing *k, const struct ck_buf *shown,
			uint32_t object)
{
	struct ck_buf text = { 0 };
	struct ck_diag d = { 0 };
	int rc;

	if (ck_is_stopped(k))
		return -EINTR;
	rc = ck_object_json(k->cp, object, &text, &d);

	if (rc && rc != -EREMOTE && !d.transient && !ck_is_shortage(rc))
		rc = 0;
	else if (rc == 0)
		rc = text.len != shown->len ||
		     memcmp(text.data, shown->data, text.len) != 0;
	ck_buf_fini(&text);
	return rc;
}

/* Nearly all have one pickle. */
static bool has_same_pickle(const struct ck_catalog *c, uint32_t a, uint32_t b)
{
	const struct ck_object *x = ck_catalog_object(c, a);
	const struct ck_object *y = ck_catalog_object(c, b);

	return x->pickle.p && x->pickle.p == y->pickle.p;
}

static int others_compare(struct ck_comparing *k, uint32_t object,
			  const struct ck_buf *shown)
{
	const struct ck_object *o = ck_catalog_object(k->c, object);
	const struct ck_same_name *same;
	uint32_t n;
	int rc = 0;

	same = copies_of(k->c, &o->entry, true, &n);
	for (uint32_t i = 0; i <= n && rc == 0; i++) {
		struct ck_entry_id id = i < n ? same[i].id
					: o->entry.role == CK_ROLE_WHOLE
						? (struct ck_entry_id){ object,
									true }
						: ck_entry_of(&o->entry);

		if (!id.is_object || id.i == object ||
		    has_same_pickle(k->c, object, id.i))
			continue;
		rc = json_compare(k, shown, id.i);
		if (rc > 0)
			rc = ck_differing_add(
				k, ck_catalog_object(k->c, id.i)->item.file);
	}
	return rc;
}

static int object_compare(struct ck_comparing *k, uint32_t object)
{
	struct ck_buf shown = { 0 };
	struct ck_diag d = { 0 };
	const struct ck_object *o = ck_catalog_object(k->c, object);
	uint32_t n;
	int rc;

	(void)copies_of(k->c, &o->entry, true, &n);
	if (n == 0)
		return 0;
	rc = ck_object_json(k->cp, object, &shown, &d);
	if (rc == 0)
		rc = others_compare(k, object, &shown);
	ck_buf_fini(&shown);
	return rc;
}

/* --- in words -------------------------------------------------------------------------- */

static int file_cmp(const void *a, const void *b, void *arg)
{
	const struct ck_catalog *c = arg;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	uint64_t x = i < c->files.n ? ck_catalog_file(c, i)->rank : CK_NO_RANK;
	uint64_t y = k < c->files.n ? ck_catalog_file(c, k)->rank : CK_NO_RANK;

	if (x != y)
		return x < y ? -1 : 1;
	return (i > k) - (i < k);
}

/* The name of its directory in local/, which has no control characters. */
static void file_print(struct ck_str path, struct ck_buf *out)
{
	struct ck_buf stem = { 0 };

	ck_name_stem(path, 1, &stem);
	ck_buf_text(out, "\"file-");
	for (size_t i = 0; i < stem.len; i++) {
		if (stem.data[i] == '"' || stem.data[i] == '\\')
			ck_buf_text(out, "\\");
		ck_buf_add(out, stem.data + i, 1);
	}
	ck_buf_text(out, "\"");
	if (stem.err)
		out->err = stem.err;
	ck_buf_fini(&stem);
}

/* Each rank once. */
static void print(struct ck_comparing *k, struct ck_buf *out)
{
	uint64_t last = CK_NO_RANK;
	uint32_t last_file = CK_NO_FILE;

	qsort_r(k->files, k->n, sizeof(*k->files), file_cmp,
		(void *)(uintptr_t)k->c);
	for (size_t i = 0; i < k->n; i++) {
		const struct ck_data_file *f = ck_catalog_file(k->c,
							       k->files[i]);

		if (f->rank == CK_NO_RANK ? k->files[i] == last_file
					  : f->rank == last)
			continue;
		ck_buf_text(out, i ? "," : "[");
		if (f->rank == CK_NO_RANK)
			file_print(f->path, out);
		else
			ck_buf_printf(out, "%" PRIu64, f->rank);
		last = f->rank;
		last_file = k->files[i];
	}
	ck_buf_text(out, "]");
}

static int compare(struct ck_comparing *k, const struct ck_file_content *about)
{
	k->shown.reader.cp = k->other.reader.cp = k->cp;
	k->shown.reader.c = k->other.reader.c = k->c;
	switch (about->topic) {
	case CK_FILE_KIND_TENSOR:
	case CK_FILE_KIND_PART: return tensor_compare(k, about->number);
	case CK_FILE_KIND_BOX:
		return chunk_compare(k, about->number, about->chunk);
	case CK_FILE_KIND_OBJECT: return object_compare(k, about->number);
	default: return 0;
	}
}

static void comparing_fini(struct ck_comparing *k)
{
	free(k->shown.bytes);
	free(k->other.bytes);
	free(k->files);
}

int ck_replicas_print(struct ck_differing *known, const struct ck_catalog *c,
		      const struct ck_file_content *about,
		      const struct ck_stop *stop, struct ck_buf *out)
{
	struct ck_comparing k = { .cp = known->cp, .c = c, .stop = stop };
	uint32_t bit;
	struct ck_bits *bits = bits_of(known, about, &bit);
	int rc = bits ? compare(&k, about) : 0;

	if (rc == 0 && bits && k.n)
		ck_bits_set_atomic(bits, bit);
	else if (rc == 0 && bits && ck_bits_has(bits, bit))
		ck_bits_clear_atomic(bits, bit);
	if (rc == 0 && k.n)
		print(&k, out);
	else if (rc == 0)
		rc = -ENODATA;
	comparing_fini(&k);
	return rc;
}

/* --- check ------------------------------------------------------------------------------ */

/* differ: the samples that differ, or NULL. Values that each rank has of its own, such as the state
 * of a random generator, are no damage; a full check lists all differences as findings. */
static int finding_add(struct ck_comparing *k, uint32_t tensor,
		       const struct ck_sample_pair *differ, bool full,
		       struct ck_findings *out)
{
	struct ck_buf text = { 0 };
	struct ck_fault f = { .name = ck_tensor_names(k->c, tensor).name,
			      .err = differ ? EIO : 0,
			      .is_warning = differ && !full };
	int rc;

	if (differ)
		ck_sample_print(k->c, differ, &text);
	if (differ && k->n)
		ck_buf_text(&text, "; ranks that differ from the lowest: ");
	else if (k->n)
		ck_buf_text(&text, "ranks have other bytes than are shown: ");
	if (k->n)
		print(k, &text);
	f.what = (struct ck_str){ text.data, text.len };
	rc = text.err ? -ENOMEM : ck_findings_add(out, &f);
	ck_buf_fini(&text);
	return rc;
}

/* Compares the samples of a tensor, and with `full` all its bytes. Errors of reading are findings
 * already, shortages excepted. */
static int tensor_check(struct ck_comparing *k, uint32_t tensor, bool full,
			struct ck_findings *out)
{
	const struct ck_file_content about = { .topic = CK_FILE_KIND_TENSOR,
					       .number = tensor };
	struct ck_sample_pair differ;
	int sample = ck_sample_compare(k->cp, k->c, tensor, &differ);
	int rc = sample < 0 ? sample : 0;

	k->n = 0;
	if (rc == 0 && full)
		rc = compare(k, &about);
	if (ck_is_shortage(rc))
		return rc;
	if (rc)
		k->n = 0;
	return sample > 0 || k->n
		       ? finding_add(k, tensor, sample > 0 ? &differ : NULL,
				     full, out)
		       : 0;
}

int ck_replicas_check(struct ck_checkpoint *cp, struct ck_route *route,
		      const struct ck_replicas_options *o,
		      struct ck_findings *out)
{
	struct ck_comparing k = { .cp = cp, .c = out->catalog, .route = route };
	int rc = 0;

	for (uint32_t i = 0; i < k.c->tensors.n && k.c->own_tensors && rc == 0;
	     i++) {
		if (!ck_tensor_is_whole(k.c, i))
			continue;
		rc = tensor_check(&k, i, o->full, out);
		o->progress(o->arg, 1);
	}
	comparing_fini(&k);
	ck_findings_sort(out);
	return rc;
}
