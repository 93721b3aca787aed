/* SPDX-License-Identifier: MIT */
/*
 * format_object: reads entries that are not tensors, as JSON or as a file for torch.load.
 * The item of such an entry has one of two forms:
 *
 *   an archive of torch.save    data.pkl in it is the value. Storages of tensors inside it
 *                               are other records, which are not read for JSON.
 *   CK_FORM_VALUE               a value of a larger pickle. The catalog has its own pickle.
 *
 * An item is read again if its reads fail over to a replica meanwhile (ck_stored.again). The
 * functions keep no state of their own; any thread may call them.
 */
#include "format/current/current.h"
#include "format/current/items_read.h"
#include "format/item/item.h"
#include "format/item/stored.h"
#include "format/ranks/ranks.h"
#include "object_value.h"
#include "warn.h"

#include <errno.h>

/* Takes a use of the file of an entry's item. EBADMSG in the catalog means an unknown class;
 * such an item can be read all the same. Returns 0, or: the item's err; errors of
 * ck_stored_get(). */
static int stored_get(struct ck_checkpoint *cp, const struct ck_catalog *c,
		      uint32_t object, struct ck_stored *item,
		      struct ck_diag *d)
{
	const struct ck_item *chunk = &ck_catalog_object(c, object)->item;

	if (chunk->err && chunk->err != EBADMSG)
		return ck_fail(d, chunk->err, "%s", strerror(chunk->err));
	return ck_stored_get(cp->files, chunk, item, d);
}

static struct ck_str transforms_of(const struct ck_catalog *c, uint32_t object)
{
	uint8_t number = ck_catalog_object(c, object)->item.transform;

	return number ? c->transforms[number] : CK_STR("");
}

static int undo(struct ck_stored *item, struct ck_str transforms, void **bytes,
		size_t *len, struct ck_diag *d)
{
	return ck_stored_undo(item, transforms, ck_undone_value(item->length),
			      bytes, len, d);
}

static void name_fault(const struct ck_catalog *c, uint32_t object,
		       struct ck_diag *d)
{
	const struct ck_object *o = ck_catalog_object(c, object);

	if (o->item.file < c->files.n)
		ck_diag_prefix(d, "%s at %llu",
			       ck_show(ck_catalog_file(c, o->item.file)->path),
			       (unsigned long long)o->item.fpos);
	ck_diag_prefix(d, "%s",
		       ck_show(ck_object_names(c, o->entry.number).name));
}

int ck_object_place(const struct ck_checkpoint *cp, uint32_t object,
		    struct ck_object_place *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	const struct ck_item *chunk = &ck_catalog_object(c, object)->item;

	if (chunk->err && chunk->err != EBADMSG)
		return -chunk->err;
	*out = (struct ck_object_place){ chunk->file, chunk->fpos,
					 chunk->length };
	return chunk->transform || chunk->form == CK_FORM_VALUE ? 0 : 1;
}

/* Reads the item after its stream transforms are undone. Caller owns *bytes, NULL on error. */
static int item_read(struct ck_checkpoint *cp, const struct ck_catalog *c,
		     uint32_t object, void **bytes, size_t *len,
		     struct ck_diag *d)
{
	struct ck_str transforms = transforms_of(c, object);
	struct ck_stored item;
	int rc;

	do {
		rc = stored_get(cp, c, object, &item, d);
		if (rc)
			break;
		*len = item.length;
		rc = transforms.len ? undo(&item, transforms, bytes, len, d)
				    : ck_stored_read(&item, bytes, d);
		rc = ck_stored_put(&item, rc, d);
		/* The bytes may be those of a file that was replaced. */
		if (rc) {
			free(*bytes);
			*bytes = NULL;
		}
	} while (item.again);
	return rc;
}

/* Checks the file of an item without reading the item. */
static int look(struct ck_checkpoint *cp, const struct ck_catalog *c,
		uint32_t object, struct ck_diag *d)
{
	struct ck_stored item;
	int rc;

	do {
		rc = stored_get(cp, c, object, &item, d);
		if (rc)
			break;
		rc = ck_stored_put(&item, 0, d);
	} while (item.again);
	return rc;
}

/* The pickle in the catalog was read from the file, so the file is checked first. */
static int value_item(struct ck_checkpoint *cp, const struct ck_catalog *c,
		      uint32_t object, struct ck_buf *out,
		      struct ck_object_gaps *gaps, struct ck_diag *d)
{
	int rc = look(cp, c, object, d);

	return rc ? rc
		  : ck_value_archive(ck_catalog_object(c, object), out, gaps,
				     d);
}

static int stored_item(struct ck_checkpoint *cp, const struct ck_catalog *c,
		       uint32_t object, struct ck_buf *out, struct ck_diag *d)
{
	ck_auto_free void *bytes = NULL;
	size_t len;
	int rc = item_read(cp, c, object, &bytes, &len, d);

	if (rc)
		return rc;
	ck_buf_add(out, bytes, len);
	return out->err ? ck_fail(d, ENOMEM, "out of memory") : 0;
}

static bool is_value(const struct ck_catalog *c, uint32_t object)
{
	return ck_catalog_object(c, object)->item.form == CK_FORM_VALUE;
}

int ck_object_item(struct ck_checkpoint *cp, uint32_t object,
		   struct ck_buf *out, struct ck_object_gaps *gaps,
		   struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	int rc;

	*gaps = (struct ck_object_gaps){ 0 };
	rc = is_value(c, object) ? value_item(cp, c, object, out, gaps, d)
				 : stored_item(cp, c, object, out, d);
	ck_checkpoint_learn(cp);
	if (rc)
		name_fault(c, object, d);
	return rc;
}

int ck_object_stat(struct ck_checkpoint *cp, uint32_t object, struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	int rc = look(cp, c, object, d);

	ck_checkpoint_learn(cp);
	if (rc)
		name_fault(c, object, d);
	return rc;
}

void ck_object_remark(struct ck_checkpoint *cp, uint32_t object,
		      const struct ck_pickle *p)
{
	ck_remarks_classes(cp->remarks, p);
	if (ck_rank_holds_part(p))
		ck_remarks_dtensor(cp->remarks, object);
}

/* The object whose pickle is being read, for remark(). */
struct remarked {
	struct ck_checkpoint *cp;
	uint32_t object;
};

static void remark(void *arg, const struct ck_pickle *p)
{
	const struct remarked *r = arg;

	ck_object_remark(r->cp, r->object, p);
}

static int json_of(struct remarked *r, struct ck_stored *item,
		   struct ck_str transforms, struct ck_buf *out,
		   struct ck_diag *d)
{
	const struct ck_pickle_taker taker = { remark, r };
	ck_auto_free void *bytes = NULL;
	struct ck_zip_source src;
	size_t len = 0;
	int rc;

	if (transforms.len == 0) {
		src = ck_source_stored(item);
		return ck_item_json(&src, &taker, out, d);
	}
	rc = undo(item, transforms, &bytes, &len, d);
	if (rc)
		return rc;
	src = ck_source_memory(bytes, len);
	return ck_item_json(&src, &taker, out, d);
}

/* Removes the output of a failed attempt: shortens a buffer to `len` bytes. */
static void cut(struct ck_buf *out, size_t len)
{
	if (!out->data)
		return;
	out->len = len;
	out->data[len] = '\0';
}

static int value_json(struct ck_checkpoint *cp, const struct ck_catalog *c,
		      uint32_t object, struct ck_buf *out, struct ck_diag *d)
{
	int rc = look(cp, c, object, d);

	return rc ? rc
		  : ck_value_json(ck_catalog_object(c, object)->pickle, out, d);
}

static int json_make(struct ck_checkpoint *cp, const struct ck_catalog *c,
		     uint32_t object, struct ck_buf *out, struct ck_diag *d)
{
	struct remarked r = { cp, object };
	size_t begin = out->len;
	struct ck_stored item;
	int rc;

	if (is_value(c, object))
		return value_json(cp, c, object, out, d);
	do {
		cut(out, begin);
		rc = stored_get(cp, c, object, &item, d);
		if (rc)
			break;
		rc = json_of(&r, &item, transforms_of(c, object), out, d);
		rc = ck_stored_put(&item, rc, d);
	} while (item.again);
	return rc;
}

/* --- pickles ------------------------------------------------------------------------ */

static int pickle_copy(const struct ck_zip_source *src, struct ck_buf *out,
		       struct ck_diag *d)
{
	ck_auto_free void *bytes = NULL;
	struct ck_pickle p = { 0 };
	struct ck_zip zip;
	size_t len = 0;
	int rc = ck_zip_read(src, &zip, d);

	if (rc)
		return rc;
	rc = ck_item_pickle(&zip, CK_PICKLE_MAX, &p, &bytes, &len, d);
	if (rc == 0)
		ck_buf_add(out, bytes, len);
	ck_pickle_fini(&p);
	ck_zip_fini(&zip);
	return rc == 0 && out->err ? ck_fail(d, ENOMEM, "out of memory") : rc;
}

static int pickle_of(struct ck_stored *item, struct ck_str transforms,
		     struct ck_buf *out, struct ck_diag *d)
{
	ck_auto_free void *bytes = NULL;
	struct ck_zip_source src = ck_source_stored(item);
	size_t len = 0;
	int rc = 0;

	if (transforms.len) {
		rc = undo(item, transforms, &bytes, &len, d);
		src = ck_source_memory(bytes, len);
	}
	return rc ? rc : pickle_copy(&src, out, d);
}

static int pickle_make(struct ck_checkpoint *cp, const struct ck_catalog *c,
		       uint32_t object, struct ck_buf *out, struct ck_diag *d)
{
	size_t begin = out->len;
	struct ck_stored item;
	int rc;

	if (is_value(c, object)) {
		rc = look(cp, c, object, d);
		if (rc == 0)
			ck_buf_str(out, ck_catalog_object(c, object)->pickle);
		return rc == 0 && out->err ? ck_fail(d, ENOMEM, "out of memory")
					   : rc;
	}
	do {
		cut(out, begin);
		rc = stored_get(cp, c, object, &item, d);
		if (rc)
			break;
		rc = pickle_of(&item, transforms_of(c, object), out, d);
		rc = ck_stored_put(&item, rc, d);
	} while (item.again);
	return rc;
}

int ck_object_pickle(struct ck_checkpoint *cp, uint32_t object,
		     struct ck_buf *out, struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	int rc = pickle_make(cp, c, object, out, d);

	ck_checkpoint_learn(cp);
	if (rc)
		name_fault(c, object, d);
	return rc;
}

/* --- JSON --------------------------------------------------------------------------- */

int ck_object_json(struct ck_checkpoint *cp, uint32_t object,
		   struct ck_buf *out, struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	uint16_t err = ck_catalog_object(c, object)->item.err;
	struct ck_diag unread;
	size_t begin = out->len;
	int rc;

	d = d ? d : &unread;
	rc = err == EBADMSG
		     ? ck_fail(d, EBADMSG, "an entry of an unknown class")
		     : json_make(cp, c, object, out, d);
	if (!err && (rc == 0 || !d->transient))
		ck_items_read_object(cp, object, rc);
	ck_checkpoint_learn(cp);
	if (rc == 0)
		return 0;
	name_fault(c, object, d);
	cut(out, begin);
	return rc;
}
