/* SPDX-License-Identifier: MIT */
/*
 * object: the files of entries that are no tensors. objects/<stem>.json is the
 * value as JSON, objects/<stem>.pt the item that torch.load opens. What lies in
 * a data file as it is shown is read from there; what does not is made when it is
 * asked for, and an open file keeps what it was opened with.
 */
#include "internal.h"
#include <errno.h>

static const char *const suffixes[] = { ".json", ".pt" };

enum { JSON, ITEM };

void ck_object_name(const struct ck_fs *fs, const struct ck_node *n,
		    struct ck_buf *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	const struct ck_object *o = ck_catalog_object(c, n->tensor);

	ck_buf_str(out, ck_object_names(c, o->entry.number)->stem);
	ck_buf_text(out, suffixes[n->index]);
}

int ck_object_lookup(const struct ck_fs *fs, struct ck_str name,
		     struct ck_node *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	for (uint32_t i = 0; i < CK_OBJECT_FILES; i++) {
		size_t suffix = strlen(suffixes[i]);
		struct ck_str stem = { name.p, name.len - suffix };
		int64_t entry;

		if (name.len < suffix ||
		    memcmp(name.p + stem.len, suffixes[i], suffix) != 0)
			continue;
		entry = ck_listing_find(c->listing, stem);
		if (entry < 0 || !c->listing->entries[entry].is_object)
			continue;
		*out = (struct ck_node){ .kind = CK_NODE_OBJECT,
					 .index = i,
					 .tensor =
						 c->listing->entries[entry].i };
		return 0;
	}
	return -ENOENT;
}

/* What the file holds. Errors as of ck_object_json(). */
static int object_text(struct ck_fs *fs, const struct ck_node *n,
		       struct ck_buf *out, struct ck_diag *d)
{
	if (n->index == JSON)
		return ck_object_json(fs->cp, n->tensor, out, d);
	return ck_object_item(fs->cp, n->tensor, out, d);
}

int ck_object_size(struct ck_fs *fs, const struct ck_node *n, uint64_t *size)
{
	struct ck_object_place place;
	struct ck_buf text = { 0 };
	struct ck_diag d = { 0 };
	int rc;

	*size = 0;
	if (n->index == ITEM &&
	    ck_object_place(fs->cp, n->tensor, &place) == 1) {
		*size = place.length;
		return 0;
	}
	rc = object_text(fs, n, &text, &d);
	if (rc == 0)
		*size = text.len;
	ck_buf_fini(&text);
	return d.passing || ck_is_shortage(rc) ? rc : 0;
}

/* Made now: an open file keeps it. */
static int made_open(struct ck_fs *fs, const struct ck_node *n,
		     struct ck_slice **out, struct ck_diag *d)
{
	struct ck_snapshot *s = NULL;
	struct ck_buf text = { 0 };
	int rc = object_text(fs, n, &text, d);

	if (rc == 0)
		s = ck_snapshot_make(&text);
	ck_buf_fini(&text);
	if (s)
		return ck_snapshot_slice(s, out);
	return rc ? rc : -ENOMEM;
}

int ck_object_open(struct ck_fs *fs, const struct ck_node *n,
		   struct ck_slice **out, bool *passing)
{
	struct ck_slice_builder b = { 0 };
	struct ck_object_place place;
	struct ck_diag d = { 0 };
	int rc;

	if (n->index == ITEM &&
	    ck_object_place(fs->cp, n->tensor, &place) == 1) {
		ck_slice_add_range(&b, place.file, place.fpos, place.length);
		rc = ck_object_look(fs->cp, n->tensor, &d);
		if (rc == 0)
			rc = ck_slice_make(&b, out);
	} else {
		rc = made_open(fs, n, out, &d);
	}
	*passing = d.passing || ck_is_shortage(rc);
	if (rc && d.text[0])
		ck_log("%s", d.text);
	return rc;
}
