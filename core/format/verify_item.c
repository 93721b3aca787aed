/* SPDX-License-Identifier: MIT */
/*
 * verify_item: verifies one item for `check`: the directory and the pickle of its
 * archive, its tensor against its box, and the CRC-32 of its records. A long item is
 * read forward, with read-ahead.
 *
 * The state of a verification is a struct looking of one thread. It is repeated if reads of
 * the item fail over to a replica meanwhile (ck_stored.again). If the file was replaced,
 * one fault ESTALE is reported instead of later ones. Any thread may call the functions.
 */
#include "verify_item.h"
#include "ckptfs/value.h"
#include "format/current/blob.h"
#include "format/item/item.h"
#include "format/item/stored.h"
#include "kind.h"
#include "object_value.h"
#include "rewrite.h"
#include "warn.h"

#include <errno.h>
#include <inttypes.h>

enum { VERIFY_BUFFER = 1 << 20 };

struct looking {
	struct ck_checkpoint *cp;
	const struct ck_item_check *check;
	struct ck_stored item;
	struct ck_zip_source src;
	bool in_memory;	      /* offsets in src are not offsets of the file */
	bool is_other;	      /* the file was replaced meanwhile */
	struct ck_blob *blob; /* a new header for ck_blobs_keep(); or NULL */
};

/* Reports a fault at byte `ipos` of the item, unless its file was replaced. */
static void report(void *ctx, uint64_t ipos, const struct ck_diag *d)
{
	struct looking *l = ctx;

	if (!l->is_other)
		l->is_other = ck_stored_is_other(&l->item);
	if (!l->is_other)
		l->check->fault(l->check->ctx,
				l->item.fpos + (l->in_memory ? 0 : ipos), d);
}

/* --- the bytes ------------------------------------------------------------- */

/* Sets l->src. If stream transforms must be undone, the source is in *bytes, which the caller
 * frees. */
static int open_source(struct looking *l, void **bytes, struct ck_diag *d)
{
	const struct ck_catalog *c = l->check->catalog;
	const struct ck_item_check *check = l->check;
	uint8_t transform = check->item->transform;
	uint64_t limit;
	size_t len;
	int rc;

	if (!transform) {
		l->src = ck_source_stored(&l->item);
		return 0;
	}
	if (check->tensor && !check->tensor->err)
		limit = ck_undone_box(
			ck_tensor_box_bytes(check->tensor, check->box));
	else
		limit = ck_undone_value(l->item.length);
	rc = ck_stored_undo(&l->item, c->transforms[transform], limit, bytes,
			    &len, d);
	if (rc)
		return rc;
	l->in_memory = true;
	l->src = ck_source_memory(*bytes, len);
	return 0;
}

/* --- the content ------------------------------------------------------------ */

static int look_at_box(const struct looking *l, const struct ck_zip *zip,
		       struct ck_diag *d)
{
	const struct ck_tensor *t = l->check->tensor;
	struct ck_item_want want = {
		.dtype = t->dtype,
		.ndim = t->ndim,
		.size = ck_tensor_box(t, l->check->box) + t->ndim,
		.remarks = l->cp->remarks,
	};
	ck_auto_free uint64_t *strides = calloc(t->ndim + 1UL,
						sizeof(*strides));
	struct ck_buf words = { 0 };
	uint64_t ipos;
	uint16_t change;
	int rc;

	if (!strides)
		return ck_fail(d, ENOMEM, "out of memory");
	if (ck_dtype_is_quantized(t->dtype))
		want.quantizer = &words;
	rc = ck_item_locate_in(zip, &want, &ipos, strides, &change, d);
	if (words.len)
		ck_remarks_quantizer(
			l->cp->remarks,
			ck_catalog_tensor_of(l->check->catalog, t->chunk),
			(struct ck_str){ words.data, words.len });
	ck_buf_fini(&words);
	return rc;
}

/* Verifies that the pickle can be read, and the value of an object shown as JSON. Used for
 * objects, and for tensors with an err, which have nothing to compare with. */
static int look_at_value(const struct looking *l, const struct ck_zip *zip,
			 struct ck_diag *d)
{
	ck_auto_free void *bytes = NULL;
	struct ck_pickle p = { 0 };
	struct ck_buf json = { 0 };
	size_t len;
	int rc = ck_item_pickle(zip, CK_PICKLE_MAX, &p, &bytes, &len, d);

	if (rc == 0 && l->check->tensor)
		ck_remarks_classes(l->cp->remarks, &p);
	else if (rc == 0)
		ck_object_remark(l->cp, l->check->box, &p);
	if (rc == 0 && !l->check->tensor && !l->check->item->err)
		rc = ck_pickle_json(&p, len, &json, d);
	ck_buf_fini(&json);
	ck_pickle_fini(&p);
	return rc;
}

static int look_at_content(const struct looking *l, const struct ck_zip *zip,
			   struct ck_diag *d)
{
	const struct ck_tensor *t = l->check->tensor;

	return t && !t->err ? look_at_box(l, zip, d) : look_at_value(l, zip, d);
}

static int look_at_bytes(struct looking *l, const struct ck_zip *zip,
			 struct ck_diag *d)
{
	struct ck_crc_check check = {
		.src = &l->src,
		.zip = zip,
		.buffer = { l->check->buffer, l->check->buffer_len },
		.fault = report,
		.ctx = l,
	};

	return check.buffer.bytes ? ck_crc_check(&check, d) : 0;
}

/* Verifies an item that is not an archive. rc, *d: why it is not one. */
static int look_at_blob(struct looking *l, int rc, struct ck_diag *d)
{
	const struct ck_blob_want box = { l->check->tensor, l->check->box };
	uint64_t fpos;

	return ck_blob_locate(l->cp, &l->item, &box, rc, &fpos, &l->blob, d);
}

static int look_at_archive(struct looking *l, struct ck_diag *d)
{
	ck_auto_free void *bytes = NULL;
	struct ck_zip zip;
	int rc = open_source(l, &bytes, d);

	if (rc == 0)
		rc = ck_zip_read(&l->src, &zip, d);
	if (rc && l->check->tensor && !l->check->item->transform &&
	    !ck_is_shortage(rc) && rc != -EREMOTE)
		return look_at_blob(l, rc, d);
	if (rc)
		return rc;
	rc = look_at_content(l, &zip, d);
	if (rc && rc != -ENOMEM && rc != -EREMOTE)
		report(l, 0, d);
	if (rc != -ENOMEM && rc != -EREMOTE)
		rc = look_at_bytes(l, &zip, d);
	ck_zip_fini(&zip);
	return rc;
}

/* --- bytes without an archive of their own ------------------------------------ */

/* Computes the CRC-32 of the bytes of a sum, unless it was computed since the last change of
 * the file. Two threads that need the same sum at once may both read the bytes. */
static int sum_take(struct looking *l, struct ck_sum *sum, uint32_t *crc)
{
	const struct ck_crc_buffer b = { l->check->buffer,
					 l->check->buffer_len };
	int rc;

	if (atomic_load(&sum->known) == l->item.file.touched + 1) {
		*crc = atomic_load(&sum->found);
		return 0;
	}
	l->src = ck_source_stored(&l->item);
	rc = ck_crc_take(&l->src, 0, sum->len, &b, crc);
	if (rc)
		return rc;
	atomic_store(&sum->found, *crc);
	atomic_store(&sum->known, l->item.file.touched + 1);
	return 0;
}

static int sum_compare(struct looking *l, struct ck_sum *sum, const char *what,
		       struct ck_diag *d)
{
	uint32_t crc;
	int rc;

	if (!sum)
		return 0;
	l->item.fpos = sum->fpos;
	l->item.length = sum->len;
	rc = sum_take(l, sum, &crc);
	if (rc)
		return ck_fail_transient(d, -rc, "%s", strerrordesc_np(-rc));
	if (crc == sum->crc)
		return 0;
	(void)ck_differs(d, EIO, ck_shown("%08" PRIx32, sum->crc),
			 ck_shown("%08" PRIx32, crc), "%s", what);
	report(l, 0, d);
	return 0;
}

/* Compares the sum of the item's storage, if `own`, and that of the pickle of its file. */
static int look_at_sums(struct looking *l, bool own, struct ck_diag *d)
{
	const struct ck_format *format = l->cp->format;
	const struct ck_item *item = l->check->item;
	int rc = 0;

	if (!l->check->buffer || !format->sum)
		return 0;
	if (own)
		rc = sum_compare(l, format->sum(l->cp, item),
				 "its storage has another CRC-32", d);
	if (rc == 0)
		rc = sum_compare(l, format->pickle_sum(l->cp, item->file),
				 "data.pkl of its file has another CRC-32", d);
	return rc;
}

/* Verifies that the pickle of a value can be shown as JSON. */
static int look_at_pickle(struct ck_str pickle, struct ck_diag *d)
{
	struct ck_buf json = { 0 };
	int rc = ck_value_json(pickle, &json, d);

	ck_buf_fini(&json);
	return rc;
}

int ck_item_verify(struct ck_checkpoint *cp, const struct ck_item_check *check)
{
	const struct ck_item *chunk = check->item;
	struct looking l;
	struct ck_diag d = { 0 };
	int rc, found;

	do {
		l = (struct looking){ .cp = cp, .check = check };
		rc = ck_stored_get(cp->files, chunk, &l.item, &d);
		if (rc)
			break;
		l.item.ahead = check->buffer ? ck_max(chunk->fpos, 1) : 0;
		if (chunk->form == CK_FORM_ARCHIVE)
			rc = look_at_archive(&l, &d);
		else if (chunk->form == CK_FORM_VALUE)
			rc = look_at_pickle(check->pickle, &d);
		else
			rc = look_at_sums(&l, true, &d);
		if (rc == 0 && chunk->form == CK_FORM_VALUE)
			rc = look_at_sums(&l, false, &d);
		if (l.is_other)
			rc = ck_fail(&d, ESTALE, "its file: %s",
				     strerrordesc_np(ESTALE));
		found = rc;
		rc = ck_stored_put(&l.item, rc, &d);
		ck_blobs_keep(cp, l.blob, rc == found && !l.item.again);
	} while (l.item.again);
	if (ck_is_shortage(rc) || rc == -EREMOTE)
		return rc;
	if (rc)
		check->fault(check->ctx, chunk->fpos, &d);
	return 0;
}

/* --- boxes whose bytes are copied by a commit ------------------------------------ */

static void keep_first(void *ctx, uint64_t fpos, const struct ck_diag *d)
{
	struct ck_diag *first = ctx;

	(void)fpos;
	if (!first->err)
		*first = *d;
}

static int verify_box(struct ck_checkpoint *cp, struct ck_item_check *check,
		      struct ck_diag *d)
{
	struct ck_diag first = { 0 };
	int rc;

	check->ctx = &first;
	rc = ck_item_verify(cp, check);
	if (rc)
		return ck_fail(d, -rc, "%s", strerror(-rc));
	if (first.err == 0)
		return 0;
	return ck_fail(
		d, first.err, "bytes that were not written are damaged: %s: %s",
		ck_show(ck_files_info(cp->files, check->item->file)->path),
		first.text);
}

int ck_boxes_verify(struct ck_checkpoint *cp, uint32_t tensor, uint32_t first,
		    uint32_t n, struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	struct ck_item_check check = { .catalog = c,
				       .tensor = t,
				       .buffer = malloc(VERIFY_BUFFER),
				       .buffer_len = VERIFY_BUFFER,
				       .fault = keep_first };
	int rc = check.buffer ? 0 : ck_fail(d, ENOMEM, "out of memory");

	for (uint32_t i = first; rc == 0 && i < first + n; i++) {
		check.item = ck_catalog_item(c, t->chunk + i);
		check.box = i;
		if (!ck_tensor_box_is_empty(t, i) && !check.item->err)
			rc = verify_box(cp, &check, d);
	}
	free(check.buffer);
	return rc;
}

/* --- the fault of one object -------------------------------------------------- */

struct printing {
	const struct ck_checkpoint *cp;
	const struct ck_catalog *c;
	const struct ck_object *o;
	bool name;
	struct ck_buf *out;
};

static void print_fault(void *ctx, uint64_t fpos, const struct ck_diag *d)
{
	const struct printing *p = ctx;
	struct ck_fault f;

	ck_catalog_object_fault_init(p->c, p->o, &f);
	f.host = ck_checkpoint_host(p->cp, p->o->item.file);
	ck_fault_set(&f, fpos, d);
	ck_fault_print(&f, p->name, p->out);
}

static bool object_is_away(const struct printing *p, struct ck_fault *out)
{
	const char *why = ck_checkpoint_down(p->cp, p->o->item.file);

	if (!why)
		return false;
	ck_catalog_object_fault_init(p->c, p->o, out);
	out->err = EIO;
	out->what = ck_str_from(why);
	return true;
}

int ck_object_print_fault(struct ck_checkpoint *cp, uint32_t object, bool name,
			  struct ck_buf *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct printing p = { cp, c, ck_catalog_object(c, object), name, out };
	struct ck_item_check check = { .catalog = c,
				       .item = &p.o->item,
				       .box = object,
				       .pickle = p.o->pickle,
				       .fault = print_fault,
				       .ctx = &p };
	struct ck_fault f;

	if (!ck_catalog_object_has_fault(p.c, p.o, &f) &&
	    !object_is_away(&p, &f))
		return ck_item_verify(cp, &check);
	f.host = ck_checkpoint_host(cp, p.o->item.file);
	ck_fault_print(&f, name, out);
	return 0;
}
