/* SPDX-License-Identifier: MIT */
/*
 * dcp_plan: the entries of the directories of dcp/, equal for all layouts: tensors that an
 * archive of torch.save can have, and objects with the bytes that their records have.
 * Objects of another kind than DCP are those whose classes torch.load accepts by default,
 * for their records are made here; with tensors or without.
 *
 * An object whose item is an archive is a range of a data file. Of other objects the
 * record is made to learn the lengths of its parts, and made again when they are read.
 */
#include "dcp_view.h"
#include "syntax/item_form.h"
#include "syntax/pickle/pickler.h"

#include <errno.h>

static const char *why_not(const struct ck_catalog *c, struct ck_entry_id id)
{
	const struct ck_tensor *t;

	if (!ck_view_is_text(ck_catalog_entry(c, id)->key))
		return "its name is not Unicode";
	if (id.is_object)
		return ck_catalog_entry(c, id)->role == CK_ROLE_WHOLE
			       ? NULL
			       : "its ranks differ";
	if (ck_view_left_out(c, id.i))
		return ck_view_left_out(c, id.i);
	t = ck_catalog_tensor(c, id.i);
	if (t->ndim > CK_MAX_DIMS)
		return "it has too many dimensions";
	return ck_item_form_has(t->dtype) ? NULL : "its dtype is unknown";
}

bool ck_dcp_plan_has_some(const struct ck_catalog *c)
{
	for (size_t i = 0; i < c->listing->n; i++)
		if (!why_not(c, c->listing->entries[i]))
			return true;
	return false;
}

/* --- objects ------------------------------------------------------------------------- */

static int piece_add(struct ck_dcp_plan *p, struct ck_dcp_piece piece)
{
	struct ck_dcp_piece *all = ck_grow(p->pieces, &p->piece_cap, p->npieces,
					   1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	p->pieces = all;
	all[p->npieces++] = piece;
	p->has_loss |= piece.part == CK_DCP_LOST;
	return ck_add(&p->objects, p->objects, piece.len) ? 0 : -EOVERFLOW;
}

static int parts_add(struct ck_dcp_plan *p, uint32_t object,
		     const struct ck_slice *slice)
{
	int rc = 0;

	for (uint32_t i = 0; i < slice->nparts && rc == 0; i++) {
		struct ck_part part = ck_slice_part(slice, i);
		struct ck_dcp_piece piece = {
			.object = object,
			.part = i,
			.len = ck_slice_part_len(slice, i),
		};

		if (part.kind == CK_PART_RANGE) {
			piece.part = CK_DCP_IN_FILE;
			piece.file = part.number;
			piece.fpos = part.at.fpos;
		}
		rc = piece_add(p, piece);
	}
	return rc;
}

/* Adds the pieces of a record that is not one range of a file. *why is set if it cannot be
 * made. */
static int record_add(struct ck_dcp_plan *p, uint32_t object, const char **why)
{
	struct ck_slice *slice;
	bool transient = false;
	int rc = p->access.record(p->access.cp, object, &slice, &transient);

	if (rc && !transient) {
		*why = "its value cannot be read";
		return 0;
	}
	if (rc)
		return rc;
	rc = parts_add(p, object, slice);
	ck_slice_free(slice);
	return rc;
}

/* Sets *why if torch.load(weights_only=True) refuses an object. */
static int classes_look(const struct ck_dcp_plan *p, uint32_t object,
			const char **why)
{
	struct ck_buf bytes = { 0 };
	struct ck_pickler to = { .out = &bytes,
				 .restricted = true,
				 .tensors = true };
	int rc = ck_view_object(&p->access, object, &to, why);

	ck_buf_fini(&bytes);
	return rc;
}

static int object_add(struct ck_dcp_plan *p, uint32_t object, const char **why)
{
	const struct ck_item *item =
		&ck_catalog_object(p->base.c, object)->item;
	struct ck_dcp_piece piece = { .object = object,
				      .part = CK_DCP_IN_FILE,
				      .file = item->file,
				      .fpos = item->fpos,
				      .len = item->length };

	if (strcmp(p->base.c->kind, "dcp") != 0) {
		int rc = classes_look(p, object, why);

		return rc || *why ? rc : record_add(p, object, why);
	}
	if (item->form != CK_FORM_ARCHIVE || item->transform)
		return record_add(p, object, why);
	/* An item of an unknown class can be read. */
	if (item->err && item->err != EBADMSG) {
		piece.part = CK_DCP_LOST;
		piece.err = item->err;
	}
	return piece_add(p, piece);
}

/* --- entries ------------------------------------------------------------------------- */

/* Adds an entry. of_tensor: 1 + index of the entry of each tensor, or 0. */
static int entry_add(struct ck_dcp_plan *p, struct ck_entry_id id,
		     uint32_t *of_tensor)
{
	struct ck_dcp_shown *e = &p->entries[p->n];
	const char *why = why_not(p->base.c, id);
	uint32_t alias;
	int rc = 0;

	*e = (struct ck_dcp_shown){ id.i, CK_DCP_OWN, id.is_object, false };
	if (!why && id.is_object) {
		e->other = p->npieces;
		rc = object_add(p, id.i, &why);
	}
	if (rc || why)
		return rc ? rc
			  : ck_left_outs_add(
				    &p->left_out,
				    ck_catalog_names(p->base.c, id).name, why);
	alias = id.is_object ? CK_NO_TENSOR
			     : ck_tensor_alias_of(
				       ck_catalog_tensor(p->base.c, id.i));
	if (alias != CK_NO_TENSOR && of_tensor[alias]) {
		e->other = of_tensor[alias] - 1;
		p->entries[e->other].is_shared = true;
	}
	if (!id.is_object)
		of_tensor[id.i] = p->n + 1;
	p->nobjects += id.is_object;
	p->has_paths |= ck_catalog_entry(p->base.c, id)->nparts > 0;
	p->n++;
	return 0;
}

static int plan_fill(struct ck_dcp_plan *p)
{
	const struct ck_listing *l = p->base.c->listing;
	ck_auto_free uint32_t *of_tensor = calloc(p->base.c->tensors.n + 1UL,
						  sizeof(*of_tensor));
	bool is_remote = false;
	int rc = 0;

	p->entries = calloc(l->n + 1UL, sizeof(*p->entries));
	if (!of_tensor || !p->entries)
		return -ENOMEM;
	for (size_t i = 0; i < l->n && rc == 0; i++) {
		rc = entry_add(p, l->entries[i], of_tensor);
		is_remote |= rc == -EREMOTE;
		rc = rc == -EREMOTE ? 0 : rc;
	}
	return rc == 0 && is_remote ? -EREMOTE : rc;
}

static void plan_free(void *plan)
{
	struct ck_dcp_plan *p = plan;

	free(p->entries);
	free(p->pieces);
	free(p->left_out.all);
	free(p);
}

int ck_dcp_plan_make(const struct ck_catalog *c,
		     const struct ck_object_access *access,
		     const struct ck_view_plan *current,
		     struct ck_dcp_plan **out)
{
	struct ck_dcp_plan *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return -ENOMEM;
	ck_view_plan_begin(&p->base, current, c, plan_free);
	p->access = *access;
	rc = plan_fill(p);
	if (rc)
		ck_view_plan_put(p);
	else
		*out = p;
	return rc;
}

struct ck_str ck_dcp_key(const struct ck_dcp_plan *p, uint32_t entry)
{
	const struct ck_dcp_shown *e = &p->entries[entry];

	return ck_catalog_entry(p->base.c,
				(struct ck_entry_id){ e->i, e->is_object })
		->key;
}

uint64_t ck_dcp_object_len(const struct ck_dcp_plan *p, uint32_t entry)
{
	const struct ck_dcp_shown *e = &p->entries[entry];
	uint64_t len = 0;

	for (uint32_t i = e->other;
	     i < p->npieces && p->pieces[i].object == e->i; i++)
		len += p->pieces[i].len;
	return len;
}
