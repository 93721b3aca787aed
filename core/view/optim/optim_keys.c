/* SPDX-License-Identifier: MIT */
/*
 * optim_keys: the parameters that have state, and a file for each entry of it. The names
 * of files, such as exp_avg.npy, are few: each is stored once. Constant once made; any
 * thread.
 */
#include "ckptfs/model.h"
#include "optim.h"

#include <errno.h>

/* A row of state on its way into the files of its key. */
struct row {
	uint32_t key, code, name;
};

struct making {
	struct ck_optim_keys *k;
	const struct ck_optim_found *f;
	const struct ck_optim_names *names;
	struct ck_table *tables; /* of keys, for each tree */
	struct row *rows;
	uint32_t nrows;
	struct ck_buf name, file; /* scratch */
};

static struct ck_str key_text(const void *arg, uint32_t number)
{
	const struct ck_optim_keys *k = arg;

	return k->all[number].text;
}

/* --- rows --------------------------------------------------------------------------- */

static int key_add(struct making *m, uint32_t tree, struct ck_str text,
		   bool is_int, uint32_t *out)
{
	struct ck_optim_keys *k = m->k;
	struct ck_optim_key *all = ck_grow(k->all, &k->cap, k->n, 1,
					   sizeof(*all));

	if (!all)
		return -ENOMEM;
	k->all = all;
	all[k->n] = (struct ck_optim_key){ .text = text,
					   .tree = tree,
					   .is_int = is_int };
	all[k->n].is_number = ck_view_number(text, &all[k->n].number);
	if (ck_table_add(&m->tables[tree], text, k->n, out))
		return -ENOMEM;
	k->n += *out == k->n;
	return 0;
}

/* Appends the parts of a path from `part` on, with dots before all but the first. */
static void parts_add(const struct ck_entry *e, uint32_t part,
		      struct ck_buf *out)
{
	for (; part < e->nparts; part++) {
		struct ck_path_part p = ck_entry_part(e, part);

		ck_buf_text(out, out->len ? "." : "");
		ck_buf_str(out, ck_part_text(&p));
	}
}

/* Sets the text of the key, and m->name to the name behind it. */
static struct ck_str row_split(struct making *m, const struct ck_entry *e,
			       const struct ck_optim_at *at)
{
	struct ck_path_part part = { 0 };
	struct ck_str fqn, rest;

	m->name.len = 0;
	if (at->is_flat) {
		ck_optim_split_state(m->names, at->rest, &fqn, &rest);
		ck_buf_str(&m->name, rest);
	} else {
		part = ck_entry_part(e, at->part);
		fqn = ck_part_text(&part);
	}
	parts_add(e, at->part + 1, &m->name);
	return fqn;
}

static int row_add(struct making *m, const struct ck_optim_row *of)
{
	struct ck_entry_id id = m->f->c->listing->entries[of->entry];
	const struct ck_entry *e = ck_optim_entry(m->f->c, of->entry);
	struct row *row = &m->rows[m->nrows];
	struct ck_optim_at at;
	struct ck_str fqn;
	uint8_t type;
	int rc;

	(void)ck_optim_find(e, &at);
	fqn = row_split(m, e, &at);
	type = at.is_flat ? CK_PATH_STR : ck_entry_part(e, at.part).type;
	m->file.len = 0;
	ck_name_stem((struct ck_str){ m->name.data, m->name.len }, 1, &m->file);
	ck_buf_text(&m->file, id.is_object ? ".json" : ".npy");
	if (m->name.err || m->file.err)
		return -ENOMEM;
	if (at.is_flat && (fqn.len == 0 || m->name.len == 0))
		return 0;
	row->code = ck_optim_code(id);
	rc = key_add(m, of->tree, fqn,
		     type == CK_PATH_INT || type == CK_PATH_INDEX, &row->key);
	if (rc == 0)
		rc = ck_texts_add(&m->k->names,
				  (struct ck_str){ m->file.data, m->file.len },
				  true, &row->name);
	m->nrows += rc == 0;
	return rc;
}

static int rows_add(struct making *m)
{
	int rc = 0;

	m->tables = calloc(m->f->ntrees + 1UL, sizeof(*m->tables));
	m->rows = malloc((m->f->nstates + 1UL) * sizeof(*m->rows));
	if (!m->tables || !m->rows)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->f->ntrees; i++)
		m->tables[i] = (struct ck_table){ .key = key_text,
						  .arg = m->k };
	for (uint32_t i = 0; i < m->f->nstates && rc == 0; i++)
		rc = row_add(m, &m->f->states[i]);
	return rc;
}

/* --- files -------------------------------------------------------------------------- */

/* Puts the rows into the files, those of one key behind each other. */
static int files_make(struct making *m)
{
	struct ck_optim_keys *k = m->k;
	uint32_t at = 0;

	k->files = malloc((m->nrows + 1UL) * sizeof(*k->files));
	k->by_code = malloc((m->nrows + 1UL) * sizeof(*k->by_code));
	k->by_name = malloc((m->nrows + 1UL) * sizeof(*k->by_name));
	if (!k->files || !k->by_code || !k->by_name)
		return -ENOMEM;
	for (uint32_t i = 0; i < m->nrows; i++)
		k->all[m->rows[i].key].nfiles++;
	for (uint32_t i = 0; i < k->n; i++) {
		k->all[i].file = at;
		at += k->all[i].nfiles;
		k->all[i].nfiles = 0;
	}
	for (uint32_t i = 0; i < m->nrows; i++) {
		struct ck_optim_key *key = &k->all[m->rows[i].key];

		at = key->file + key->nfiles++;
		k->files[at] = (struct ck_optim_file){ m->rows[i].code,
						       m->rows[i].name };
	}
	for (uint32_t i = 0; i < m->nrows; i++)
		k->by_code[i] = k->by_name[i] = i;
	k->nfiles = m->nrows;
	return 0;
}

static int code_cmp(const void *a, const void *b, void *arg)
{
	const struct ck_optim_file *files = arg;
	uint32_t x = files[*(const uint32_t *)a].code;
	uint32_t y = files[*(const uint32_t *)b].code;

	return (x > y) - (x < y);
}

/* By name; equal ones by position. */
static int file_cmp(const void *a, const void *b, void *arg)
{
	const struct ck_optim_file *files = arg;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	uint32_t x = files[i].name, y = files[j].name;

	if (x != y)
		return x < y ? -1 : 1;
	return (i > j) - (i < j);
}

/* Gives the second file of a name the name <stem>~2<suffix>, and so on. */
static int file_rename(struct ck_optim_keys *k, uint32_t file, uint32_t nth)
{
	struct ck_str name = k->names.all[k->files[file].name];
	const char *suffix = memrchr(name.p, '.', name.len);
	struct ck_buf text = { 0 };
	int rc;

	ck_buf_add(&text, name.p, (size_t)(suffix - name.p));
	ck_buf_printf(&text, "~%u%.*s", nth, (int)(name.p + name.len - suffix),
		      suffix);
	rc = text.err;
	if (rc == 0)
		rc = ck_texts_add(&k->names,
				  (struct ck_str){ text.data, text.len }, true,
				  &k->files[file].name);
	ck_buf_fini(&text);
	return rc;
}

/* Sorts the files of a key. Repeats while files have equal names, which a path such as
 * { 0: .., "0": .. } makes: each pass leaves the first of a name as it is. */
static int key_sort(struct ck_optim_keys *k, const struct ck_optim_key *key)
{
	uint32_t *by_name = k->by_name + key->file;
	uint32_t renamed = 1, nth = 2;
	int rc = 0;

	qsort_r(k->by_code + key->file, key->nfiles, sizeof(*k->by_code),
		code_cmp, k->files);
	while (renamed && rc == 0) {
		qsort_r(by_name, key->nfiles, sizeof(*by_name), file_cmp,
			k->files);
		renamed = 0;
		for (uint32_t i = 1; i < key->nfiles && rc == 0; i++) {
			if (k->files[by_name[i]].name !=
			    k->files[by_name[i - 1]].name)
				continue;
			rc = file_rename(k, by_name[i], nth++);
			by_name[i] = by_name[i - 1];
			renamed++;
		}
		for (uint32_t i = 0; renamed && i < key->nfiles; i++)
			by_name[i] = key->file + i;
	}
	return rc;
}

int ck_optim_keys_make(const struct ck_optim_found *f,
		       const struct ck_optim_names *names,
		       struct ck_optim_keys *out)
{
	struct making m = { .k = out, .f = f, .names = names };
	int rc;

	*out = (struct ck_optim_keys){ 0 };
	rc = rows_add(&m);
	if (rc == 0)
		rc = files_make(&m);
	for (uint32_t i = 0; i < out->n && rc == 0; i++)
		rc = key_sort(out, &out->all[i]);
	for (uint32_t i = 0; m.tables && i < f->ntrees; i++)
		ck_table_fini(&m.tables[i]);
	free(m.tables);
	free(m.rows);
	ck_buf_fini(&m.name);
	ck_buf_fini(&m.file);
	return rc;
}

void ck_optim_keys_fini(struct ck_optim_keys *k)
{
	ck_texts_fini(&k->names);
	free(k->all);
	free(k->files);
	free(k->by_code);
	free(k->by_name);
}

/* --- lookups ------------------------------------------------------------------------ */

uint32_t ck_optim_file_named(const struct ck_optim_keys *k, uint32_t file,
			     uint32_t n, struct ck_str name)
{
	int64_t number = ck_table_find(&k->names.table, name);
	const uint32_t *at = k->by_name + file;
	size_t i;

	if (number < 0)
		return CK_OPTIM_NONE;
	i = CK_COUNT_BEFORE(n, j, k->files[at[j]].name < number);
	return i < n && k->files[at[i]].name == number ? at[i] : CK_OPTIM_NONE;
}

uint32_t ck_optim_file_of(const struct ck_optim_keys *k, uint32_t file,
			  uint32_t n, uint32_t code)
{
	const uint32_t *at = k->by_code + file;
	size_t i = CK_COUNT_BEFORE(n, j, k->files[at[j]].code < code);

	return i < n && k->files[at[i]].code == code ? at[i] : CK_OPTIM_NONE;
}
