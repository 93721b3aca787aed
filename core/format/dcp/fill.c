/* SPDX-License-Identifier: MIT */
/*
 * Fills the catalog from the joined rows of a `.metadata`: each entry with its boxes,
 * their items and its path in the nested state dict, then the unknown classes.
 */
#include "ckptfs/json.h"
#include "dcp_common.h"
#include "dcp_internal.h"

#include <errno.h>

/* Overhead in bytes of a text in an arena. */
enum { TEXT_COST = 16 };

/* The item of a row of storage_data; an item without a file if there is no row. */
static const struct ck_item *item_at(const struct ck_dcp_reader *r, size_t item)
{
	static const struct ck_item none = { .file = CK_NO_FILE };

	return r->of_item[item] ? &r->infos[r->of_item[item] - 1] : &none;
}

static int catalog_tensor(struct ck_dcp_reader *r, const struct ck_dcp_entry *e)
{
	const struct ck_dcp_tensor_row *t = e->tensor;
	struct ck_pv dtype = { .tag = CK_PV_GLOBAL, .i = t->dtype };
	struct ck_str name = CK_STR("?");
	int rc;

	if (t->dtype >= 0)
		name = ck_pickle_global(r->p, &dtype);
	rc = ck_catalog_tensor_add(r->c, e->key, name, t->ndim,
				   ck_dcp_ints(r, t->shape));
	if (rc == 0 && ck_dcp_is_flat(e->key, t->ndim))
		ck_catalog_tensor_kind(r->c, CK_KIND_FLAT_PARAM);
	if (rc == 0 && t->fault)
		rc = ck_catalog_tensor_fault(r->c, t->err, t->fault);
	if (rc == 0)
		rc = ck_catalog_chunks_expect(r->c, t->nchunks);
	for (uint32_t i = 0; rc == 0 && i < t->nchunks; i++) {
		const int64_t *box = ck_dcp_box(r, t, i);

		rc = ck_catalog_chunk_add(r->c, box, box ? box + t->ndim : NULL,
					  item_at(r, e->first + i));
	}
	return rc;
}

static bool is_path(const struct ck_pv *path)
{
	for (uint32_t i = 0; i < ck_pv_count(path); i++) {
		struct ck_pv part = ck_pv_at(path, i);

		if (part.tag != CK_PV_STR &&
		    (part.tag != CK_PV_INT || part.i < 0))
			return false;
	}
	return true;
}

/* Sets *out to the text of a part of a path. If the parts joined by dots are the key,
 * the text is a piece of the key and takes no memory. *pos is the offset in the key
 * where the next part begins. */
static int part_text(struct ck_dcp_reader *r, struct ck_str key,
		     struct ck_str part, uint32_t *pos, struct ck_str *out)
{
	uint32_t len = (uint32_t)part.len;
	struct ck_str rest = key;

	rest.p += ck_min(*pos, key.len);
	rest.len -= ck_min(*pos, key.len);
	if (!ck_str_starts(rest, part) ||
	    (rest.len > len && rest.p[len] != '.'))
		return ck_dcp_spend(r, len + TEXT_COST)
			       ? -EBADMSG
			       : ck_catalog_text_add(r->c, part, out);
	*out = (struct ck_str){ rest.p, len };
	*pos += len + 1;
	return 0;
}

static int catalog_part(struct ck_dcp_reader *r, const struct ck_pv *part,
			struct ck_str key, uint32_t *pos,
			struct ck_path_part *out)
{
	struct ck_buf number = { 0 };
	struct ck_str s, text;
	int rc;

	if (!ck_pv_str(part, &s)) {
		ck_buf_i64(&number, part->i);
		s = (struct ck_str){ number.data, number.len };
	}
	rc = number.err ? number.err : part_text(r, key, s, pos, &text);
	if (rc == 0)
		*out = (struct ck_path_part){ .p = text.p,
					      .len = (uint32_t)text.len,
					      .type = part->tag == CK_PV_INT
							      ? CK_PATH_INDEX
							      : CK_PATH_STR };
	ck_buf_fini(&number);
	return rc;
}

static int catalog_path(struct ck_dcp_reader *r, const struct ck_dcp_entry *e)
{
	struct ck_str key = ck_catalog_last_key(r->c);
	uint32_t n = e->path ? ck_pv_count(e->path) : 0;
	struct ck_path_part *path;
	uint32_t pos = 0;
	int rc = 0;

	/* Charged for each entry: many entries may share one path of the pickle. */
	if (ck_dcp_spend(r, n * sizeof(*path)))
		return -EBADMSG;
	if (n == 0 || !is_path(e->path))
		return 0;
	path = ck_catalog_path_add(r->c, n);
	if (!path)
		return -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		struct ck_pv part = ck_pv_at(e->path, i);

		rc = catalog_part(r, &part, key, &pos, &path[i]);
	}
	return rc;
}

static int catalog_entry(struct ck_dcp_reader *r, const struct ck_dcp_entry *e)
{
	struct ck_item item;

	if (e->tensor)
		return catalog_tensor(r, e);
	item = *item_at(r, e->first);
	if (!e->known)
		/* of an unknown class: listed, not readable */
		item.err = EBADMSG;
	return ck_catalog_object_add(r->c, e->key, &item);
}

static int catalog_globals(struct ck_dcp_reader *r)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < r->p->nglobals; i++) {
		struct ck_pv v = { .tag = CK_PV_GLOBAL, .i = i };

		if (ck_dcp_kind(r, &v) == CK_DCP_UNKNOWN)
			rc = ck_catalog_global_add(r->c,
						   ck_pickle_global(r->p, &v));
	}
	return rc;
}

int ck_dcp_fill(struct ck_dcp_reader *r)
{
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < r->nentries; i++) {
		rc = catalog_entry(r, &r->entries[i]);
		if (rc == 0)
			rc = catalog_path(r, &r->entries[i]);
	}
	if (rc == 0)
		rc = catalog_globals(r);
	return rc && !r->err ? ck_fail(r->d, -rc, "%s", strerror(-rc)) : rc;
}
