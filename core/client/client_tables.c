/* SPDX-License-Identifier: MIT */
/*
 * client_tables: tensors and objects of a handle as public structs, made at the open. Strings
 * of the catalog have no NUL, so they are copied.
 */
#include "client_internal.h"

#include <errno.h>

static bool is_shown(const struct ck_catalog *c, struct ck_entry_id id)
{
	const struct ck_entry *e = ck_catalog_entry(c, id);

	return ck_entry_is_there(e) && e->role == CK_ROLE_WHOLE;
}

/* True if reading the tensor as a whole cannot succeed, by the catalog alone. */
static int known_err(const struct ck_catalog *c, const struct ck_tensor *t)
{
	struct ck_fault f;

	if (t->err)
		return t->err;
	if (t->holes && ck_catalog_tensor_has_fault(c, t, &f))
		return f.err;
	for (uint32_t i = 0; i < t->nchunks; i++)
		if (ck_catalog_box_has_fault(c, t, i, &f))
			return f.err;
	return 0;
}

/* A copy of `s`, which is `name` itself if both have the same bytes in memory. */
static struct ck_str copy_beside(struct ckptfs *ck, struct ck_str s,
				 struct ck_str of, struct ck_str name)
{
	return s.p == of.p && s.len == of.len ? name
					      : ck_arena_copy(&ck->text, s);
}

/* Copies of the names of an entry. Returns false if out of memory. */
static bool names_copy(struct ckptfs *ck, struct ck_names names,
		       struct ck_names *out)
{
	out->name = ck_arena_copy(&ck->text, names.name);
	out->stem = copy_beside(ck, names.stem, names.name, out->name);
	out->key = copy_beside(ck, names.key, names.name, out->name);
	return out->name.p && out->stem.p && out->key.p;
}

static bool tensor_add(struct ckptfs *ck, uint32_t row)
{
	const struct ck_tensor *t = ck_catalog_tensor(ck->catalog, row);
	struct ckptfs_tensor *out = &ck->tensors[ck->ntensors];
	struct ck_str dtype = ck_arena_copy(&ck->text, t->facts->dtype_name);
	const struct ck_item *first =
		t->nchunks ? ck_catalog_item(ck->catalog, t->chunk) : NULL;
	struct ck_names names;

	if (!dtype.p ||
	    !names_copy(ck, ck_tensor_names(ck->catalog, row), &names))
		return false;
	*out = (struct ckptfs_tensor){
		.fqn = names.name.p,
		.fqn_len = names.name.len,
		.stem = names.stem.p,
		.key = names.key.p,
		.key_len = names.key.len,
		.dtype = dtype.p,
		.shape = t->shape,
		.nbytes = t->nbytes,
		.alias_of = UINT64_MAX,
		.chunks = t->nchunks,
		.ndim = t->ndim,
		.itemsize = ck_dtype_at(t->dtype)->size,
		.err = known_err(ck->catalog, t),
		.file = first ? first->file : UINT32_MAX,
		.position = first ? first->fpos : 0,
	};
	ck->rows[ck->ntensors] = row;
	ck->numbers[row] = (uint32_t)ck->ntensors++;
	return true;
}

static bool object_add(struct ckptfs *ck, uint32_t row)
{
	struct ck_names names;

	if (!names_copy(ck, ck_object_names(ck->catalog, row), &names))
		return false;
	ck->objects[ck->nobjects++] = (struct ckptfs_object){
		.fqn = names.name.p,
		.fqn_len = names.name.len,
		.stem = names.stem.p,
		.key = names.key.p,
		.key_len = names.key.len,
	};
	return true;
}

static void aliases_set(struct ckptfs *ck)
{
	for (uint64_t i = 0; i < ck->ntensors; i++) {
		uint32_t of = ck_tensor_alias_of(
			ck_catalog_tensor(ck->catalog, ck->rows[i]));

		if (of != CK_NO_TENSOR && ck->numbers[of] != UINT32_MAX)
			ck->tensors[i].alias_of = ck->numbers[of];
	}
}

int ck_client_tables(struct ckptfs *ck)
{
	const struct ck_catalog *c = ck->catalog;
	const struct ck_listing *l = c->listing;
	bool good = true;

	ck->tensors = calloc(c->tensors.n + 1, sizeof(*ck->tensors));
	ck->objects = calloc(c->objects.n + 1, sizeof(*ck->objects));
	ck->rows = calloc(c->tensors.n + 1, sizeof(*ck->rows));
	ck->numbers = calloc(c->tensors.n + 1, sizeof(*ck->numbers));
	if (!ck->tensors || !ck->objects || !ck->rows || !ck->numbers)
		return -ENOMEM;
	memset(ck->numbers, 0xff, (c->tensors.n + 1) * sizeof(*ck->numbers));
	for (size_t i = 0; good && i < l->n; i++) {
		struct ck_entry_id id = l->entries[i];

		if (is_shown(c, id))
			good = id.is_object ? object_add(ck, id.i)
					    : tensor_add(ck, id.i);
	}
	aliases_set(ck);
	return good ? 0 : -ENOMEM;
}

void ck_client_tables_free(struct ckptfs *ck)
{
	free(ck->tensors);
	free(ck->objects);
	free(ck->rows);
	free(ck->numbers);
	ck_arena_fini(&ck->text);
}

/* Finds an entry by its stem, which is a function of the FQN but for long names: equal long
 * stems have numbers. */
uint64_t ck_client_find(const struct ckptfs *ck, struct ck_str fqn)
{
	const struct ck_catalog *c = ck->catalog;
	uint64_t found = UINT64_MAX;
	struct ck_buf stem = { 0 };

	for (unsigned nth = 1; found == UINT64_MAX; nth++) {
		int64_t entry = -1;

		stem.len = 0;
		ck_name_stem(fqn, nth, &stem);
		if (!stem.err)
			entry = ck_catalog_find(
				c, (struct ck_str){ stem.data, stem.len });
		if (entry < 0)
			break;
		if (!c->listing->entries[entry].is_object &&
		    ck_str_eq(ck_entry_names(c, (size_t)entry).name, fqn))
			found = ck->numbers[c->listing->entries[entry].i];
		else if (stem.data[0] != '%' || stem.data[1] != '~')
			break;
	}
	ck_buf_fini(&stem);
	return found < ck->ntensors ? found : UINT64_MAX;
}
