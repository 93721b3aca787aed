/* SPDX-License-Identifier: MIT */
/*
 * torch_values: entries that are not tensors. Each becomes a pickle of its own, with
 * the locations of the storages that it refers to.
 */
#include "entries.h"
#include "syntax/pickle/pickler.h"
#include "torch_listed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static int no_memory(const struct ck_torch_load *l)
{
	return ck_fail(l->d, ENOMEM, "out of memory");
}

/* The storages that a value refers to; collected while its pickle is written. */
struct met {
	const struct ck_torch_file *f;
	struct ck_item *items;
	struct ck_str *keys;
	size_t n, items_cap, keys_cap;
	struct ck_table table;
	char name[16]; /* new name of the last storage */
};

static struct ck_str met_key(const void *arg, uint32_t i)
{
	const struct met *m = arg;

	return m->keys[i];
}

static int storage_add(struct met *m, struct ck_str key, struct ck_diag *d)
{
	struct ck_item *items = ck_grow(m->items, &m->items_cap, m->n, 1,
					sizeof(*items));
	struct ck_str *keys = ck_grow(m->keys, &m->keys_cap, m->n, 1,
				      sizeof(*keys));
	struct ck_torch_storage s;
	int rc = ck_torch_storage_find(m->f, key, &s, d);

	if (items)
		m->items = items;
	if (keys)
		m->keys = keys;
	if (!items || !keys)
		return ck_fail(d, ENOMEM, "out of memory");
	if (rc)
		return rc;
	keys[m->n] = key;
	items[m->n] = (struct ck_item){ .file = CK_NO_FILE, .err = ENODATA };
	if (!s.bad)
		items[m->n] = (struct ck_item){
			.fpos = s.fpos,
			.length = s.len,
			.file = m->f->number,
			.form = CK_FORM_BLOB,
			.change = m->f->big ? CK_CHANGE_SWAP : 0,
		};
	m->n++;
	return 0;
}

static int name_storage(void *arg, struct ck_str *key, struct ck_diag *d)
{
	struct met *m = arg;
	uint32_t n = (uint32_t)m->n, number;
	int64_t at = ck_table_find(&m->table, *key);
	int rc = 0;

	number = at < 0 ? n : (uint32_t)at;
	if (at < 0)
		rc = storage_add(m, *key, d);
	if (rc == 0 && at < 0 && ck_table_add(&m->table, *key, n, &number))
		rc = ck_fail(d, ENOMEM, "out of memory");
	(void)snprintf(m->name, sizeof(m->name), "%" PRIu32, number);
	*key = ck_str_from(m->name);
	return rc;
}

/* Writes a value as a pickle. All values of a pickle together are limited like one
 * pickle of its size. */
static int value_write(struct ck_torch_file *f, const struct ck_pv *v,
		       struct met *m, struct ck_buf *out, struct ck_diag *d)
{
	const struct ck_storage_names names = { m, name_storage };
	struct ck_pickler p = { .out = out };
	int rc;

	ck_pickler_begin(&p);
	rc = ck_pickler_value(&p, &f->pickle, v, &names,
			      (size_t)ck_undone_value(f->len), d);
	ck_pickler_end(&p);
	if (rc == 0 && out->err)
		rc = ck_fail(d, ENOMEM, "out of memory");
	if (rc == 0 && !ck_pickle_spend(&f->pickle, 2 * out->len))
		rc = ck_fail(d, EBADMSG,
			     "needs more memory than its size allows");
	return rc;
}

/* Copies a written pickle to the arena. Equal ones without storages share one copy.
 * NULL if memory is exhausted. */
static const struct ck_torch_value *value_keep(struct ck_torch_load *l,
					       const struct met *m,
					       struct ck_str pickle)
{
	struct ck_torch_interned *as = NULL, own = { .text = pickle };
	size_t bytes = m->n * sizeof(*m->items);
	struct ck_torch_value *value;
	struct ck_item *storages;

	if (m->n == 0 &&
	    ck_torch_intern_find(&l->known_values, &l->arena, pickle, &as))
		return NULL;
	if (as && as->is)
		return as->is;
	if (m->n)
		own.text = ck_arena_copy(&l->arena, pickle);
	value = ck_arena_alloc(&l->arena, sizeof(*value));
	storages = ck_arena_alloc(&l->arena, bytes);
	if (!value || !storages || !own.text.p)
		return NULL;
	if (bytes)
		memcpy(storages, m->items, bytes);
	*value = (struct ck_torch_value){ as ? as->text : own.text, storages,
					  (uint32_t)m->n };
	if (as)
		as->is = value;
	return value;
}

int ck_torch_value_hold(struct ck_torch_load *l, struct ck_torch_row *row,
			const struct ck_pv *v)
{
	struct ck_torch_file *f = &l->files[row->file];
	struct met m = { .f = f, .table = { .key = met_key, .arg = &m } };
	struct ck_buf own = { 0 };
	struct ck_diag d = { 0 };
	int rc = value_write(f, v, &m, &own, &d);

	if (rc == 0) {
		row->value = value_keep(l, &m,
					(struct ck_str){ own.data, own.len });
		rc = row->value ? 0 : -ENOMEM;
	} else if (!ck_is_shortage(rc)) {
		rc = ck_torch_lost_add(l, row, EBADMSG, ck_diag_what(&d));
	}
	ck_buf_fini(&own);
	ck_table_fini(&m.table);
	free(m.items);
	free(m.keys);
	return rc;
}

int ck_torch_value_set(struct ck_torch_load *l, struct ck_torch_row *row,
		       struct ck_str pickle)
{
	const struct met none = { 0 };

	row->is_value = true;
	row->value = value_keep(l, &none, pickle);
	return row->value ? 0 : no_memory(l);
}

static int path_add(const struct ck_torch_load *l,
		    const struct ck_torch_row *row)
{
	if (l->by_rank)
		ck_catalog_object_local(l->c, true);
	return ck_torch_path_add(l, row);
}

/* of: the entry whose name it gets; NULL if it gets its own. */
static int value_show(const struct ck_torch_load *l,
		      const struct ck_torch_row *row, struct ck_str key,
		      const struct ck_entry_id *of)
{
	const struct ck_torch_file *f = &l->files[row->file];
	const struct ck_torch_value *value = row->value;
	const struct ck_item item = { .fpos = f->fpos,
				      .length = f->len,
				      .file = f->number,
				      .form = CK_FORM_VALUE,
				      .err = row->also ? EIO : 0 };
	uint8_t role = of && of->is_object ? CK_ROLE_COPY : CK_ROLE_OWN;
	int rc;

	if (!value)
		return ck_torch_row_lose(l, key, row,
					 ck_str_from(row->lost->what));
	rc = of ? ck_catalog_object_own(l->c, *of, role, &item)
		: ck_catalog_object_add(l->c, key, &item);
	if (rc == 0)
		rc = ck_catalog_object_value(l->c, value->pickle,
					     value->storages, value->nstorages);
	if (rc)
		return no_memory(l);
	return of ? 0 : path_add(l, row);
}

int ck_torch_value_add(struct ck_torch_load *l, const struct ck_torch_row *row,
		       struct ck_str key)
{
	return value_show(l, row, key, NULL);
}

int ck_torch_value_own(struct ck_torch_load *l, const struct ck_torch_row *row,
		       struct ck_str key, struct ck_entry_id of)
{
	return value_show(l, row, key, &of);
}
