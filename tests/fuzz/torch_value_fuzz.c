/* SPDX-License-Identifier: MIT */
/*
 * torch_value: any bytes as a file of torch.save. If they do not begin like one, they are the value
 * in a file of either container, with storages 0 to 3 of 0 to 192 bytes. The file is refused with
 * a reason, or:
 *
 * - each tensor has an error, or elements inside the file;
 * - no two entries have the same name;
 * - an alias has the bytes of its tensor;
 * - each value is refused, or its JSON is the same as in the original pickle.
 */
#include "ckptfs/format.h"
#include "ckptfs/value.h"
#include "format/torch/torch_internal.h"
#include "must.h"
#include "torch_dir.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 64 }; /* entries for quadratic or slow checks */

static void item_look(const struct ck_catalog *c, const struct ck_item *item)
{
	const struct ck_data_file *file;

	if (item->err || item->file == CK_NO_FILE || item->length == 0)
		return;
	file = ck_catalog_file(c, item->file);
	must(item->fpos <= file->size &&
	     item->length <= file->size - item->fpos);
}

/* The item is inside its file, and the last element inside the item. */
static void chunk_look(const struct ck_catalog *c, const struct ck_tensor *t)
{
	const struct ck_item *item = ck_catalog_item(c, t->chunk);
	const uint64_t *strides = ck_catalog_strides(c, t->chunk);
	uint64_t size = ck_dtype_at(t->dtype)->size, last = size, dense = size;

	item_look(c, item);
	if (item->err || ck_dims_have_zero(t->shape, t->ndim))
		return;
	for (uint32_t d = t->ndim; d > 0 && d--;) {
		must(strides || dense <= item->length);
		last += ((uint64_t)t->shape[d] - 1) *
			(strides ? strides[d] : dense);
		dense = strides ? 0 : dense * (uint64_t)t->shape[d];
	}
	must(last <= item->length);
}

static void tensor_look(const struct ck_catalog *c, uint32_t i)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, i), *of;

	must(!t->err || ck_tensor_fault(t).len > 0);
	if (!t->err && t->kind == CK_KIND_TENSOR && t->nchunks == 1 &&
	    ck_dtype_at(t->dtype)->size)
		chunk_look(c, t);
	if (ck_tensor_alias_of(t) == CK_NO_TENSOR)
		return;
	must(ck_tensor_alias_of(t) < i);
	of = ck_catalog_tensor(c, ck_tensor_alias_of(t));
	must(of->dtype == t->dtype && of->ndim == t->ndim &&
	     of->nbytes == t->nbytes);
	must(ck_catalog_item(c, of->chunk)->fpos ==
	     ck_catalog_item(c, t->chunk)->fpos);
}

static void names_look(const struct ck_catalog *c)
{
	const struct ck_listing *l = c->listing;

	for (size_t i = 0; i < l->n && i < MOST; i++)
		for (size_t k = 0; k < i; k++)
			must(!ck_str_eq(ck_entry_names(c, i).key,
					ck_entry_names(c, k).key));
}

/* --- values ------------------------------------------------------------------ */

/* The pickle in the file, and the values of its entries. */
struct model {
	struct ck_pickle p;
	struct ck_arena arena;

	struct {
		struct ck_str key;
		const struct ck_pv *value;
	} leaves[MOST];

	uint32_t n;
};

static int leaf_take(void *arg, const struct ck_torch_leaf *leaf)
{
	struct model *m = arg;

	if (m->n == MOST)
		return -E2BIG;
	for (uint32_t i = 0; i < m->n; i++)
		if (ck_str_eq(m->leaves[i].key, leaf->key))
			return -EEXIST; /* one of the two gets another name */
	m->leaves[m->n].key = ck_arena_copy(&m->arena, leaf->key);
	m->leaves[m->n++].value = leaf->value;
	return 0;
}

/* Reads the pickle. After an error the model has no leaves, and no value is compared. */
static void model_make(struct model *m, struct ck_str pickle, bool legacy)
{
	const struct ck_pickle_hooks hooks = { .old_persids = legacy };
	struct ck_diag d = { 0 };
	int rc = ck_pickle_read(&m->p, pickle.p, pickle.len, &hooks, &d);

	m->n = 0;
	if (rc == 0)
		rc = ck_torch_flatten(&m->p, CK_STR(""), CK_STR("model"),
				      leaf_take, m, &d);
	if (rc)
		m->n = 0;
}

static void model_fini(struct model *m)
{
	ck_pickle_fini(&m->p);
	ck_arena_fini(&m->arena);
}

/* True if a limit was exceeded: a shorter pickle gets less memory, and protocol 2 needs more
 * levels. */
static bool is_bound(const struct ck_diag *d)
{
	return strstr(d->text, "deep") || strstr(d->text, "its size allows");
}

/* Compares the JSON in `got`, or the error in `d`, with that of the original value. */
static void value_compare(const struct ck_pickle *p, const struct ck_pv *value,
			  size_t len, int rc, struct ck_str got,
			  const struct ck_diag *d)
{
	struct ck_pickle own = *p;
	struct ck_buf want = { 0 };

	own.root = *value;
	if (ck_pickle_json(&own, len, &want, NULL))
		must(rc == 0 || *d->text);
	else if (rc)
		must(is_bound(d));
	else
		must(got.len == want.len &&
		     memcmp(got.p, want.data, got.len) == 0);
	ck_buf_fini(&want);
}

static void value_look(struct ck_checkpoint *cp, uint32_t i,
		       const struct model *m)
{
	const struct ck_object *o = ck_catalog_object(cp->catalog, i);
	struct ck_str key = ck_object_names(cp->catalog, i).key;
	struct ck_buf text = { 0 };
	struct ck_diag d = { 0 };
	int rc = ck_object_json(cp, i, &text, &d);

	must(rc == 0 || d.err == -rc);
	for (uint32_t k = 0; k < m->n && !o->item.err; k++)
		if (ck_str_eq(m->leaves[k].key, key))
			value_compare(
				&m->p, m->leaves[k].value, o->pickle.len, rc,
				(struct ck_str){ text.data, text.len }, &d);
	ck_buf_fini(&text);
}

/* --- checkpoints ------------------------------------------------------------- */

static void look(struct ck_checkpoint *cp, const struct model *m)
{
	const struct ck_catalog *c = cp->catalog;
	struct ck_buf text = { 0 };

	names_look(c);
	for (uint32_t i = 0; i < c->tensors.n; i++)
		tensor_look(c, i);
	for (uint32_t i = 0; i < c->objects.n; i++) {
		const struct ck_object *o = ck_catalog_object(c, i);

		for (uint32_t k = 0; k < o->nitems; k++)
			item_look(c, &o->items[k]);
		if (i < MOST)
			value_look(cp, i, m);
	}
	ck_catalog_dump(c, &text);
	must(!text.err);
	ck_buf_fini(&text);
}

static bool begins(const uint8_t *data, size_t size, const char *with,
		   size_t len)
{
	return size >= len && memcmp(data, with, len) == 0;
}

static void open_one(struct ck_buf file, const struct model *m)
{
	struct ck_checkpoint *cp;
	struct ck_diag d;
	int rc;

	tc_put("model.pt", file);
	rc = tc_open_it("model.pt", &cp, &d);
	must(rc <= 0 && (rc == 0) == (cp != NULL));
	must(rc == 0 || (*d.text && (rc == -EBADMSG || rc == -EINVAL)));
	if (rc == 0)
		look(cp, m);
	ck_checkpoint_close(cp);
}

static void open_each(struct ck_str value)
{
	static const char storages[] = "0:0 1:1 2:6 3:48";
	static struct model m;

	model_make(&m, value, false);
	open_one(tc_zip_of(value, storages), &m);
	model_fini(&m);
	model_make(&m, value, true);
	open_one(tc_legacy_of(value, storages, NULL), &m);
	model_fini(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_str value = { (const char *)data, size };

	if (tc_dirfd == 0) {
		tc_begin();
		atexit(tc_remove);
		ck_log_detach();
	}
	if (begins(data, size, "PK", 2) ||
	    begins(data, size, "\x80\x02\x8a", 3)) {
		static const struct model none;
		struct ck_buf copy = { 0 };

		ck_buf_add(&copy, value.p, value.len);
		open_one(copy, &none);
		return 0;
	}
	open_each(value);
	return 0;
}
