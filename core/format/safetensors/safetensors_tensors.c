/* SPDX-License-Identifier: MIT */
/*
 * safetensors_tensors: joins the entries of all files to tensors of the catalog.
 * Entries of one name are boxes of one tensor; an entry with the same box is a replica.
 * The state lives for one call of ck_safetensors_tensors_add().
 */
#include "ckptfs/table.h"
#include "format/torch_checkpointing/tckpt_kind.h"
#include "safetensors_internal.h"

#include <errno.h>
#include <inttypes.h>

/* An entry of a file. */
struct part {
	struct ck_str name;
	uint32_t file, tensor;
	uint32_t next; /* next one of the same name; NONE at the last */
};

#define NONE UINT32_MAX

struct parts {
	struct ck_safetensors_load *l;
	struct part *all;
	size_t n, cap;
	uint32_t *first; /* first part of each name, in order */
	uint32_t *last;
	size_t nnames, names_cap, last_cap;
	struct ck_table names; /* numbers in first */
	/* Parts of the tensor that is being added: */
	const struct part **group;
	size_t ngroup, group_cap;
	int64_t *shape;
	size_t shape_cap;
};

static int no_memory(const struct parts *p)
{
	return ck_fail(p->l->d, ENOMEM, "out of memory");
}

/* --- names ------------------------------------------------------------------------ */

static struct ck_str name_of(const void *arg, uint32_t i)
{
	const struct parts *p = arg;

	return p->all[p->first[i]].name;
}

static int name_add(struct parts *p, uint32_t part)
{
	uint32_t *first = ck_grow(p->first, &p->names_cap, p->nnames, 1,
				  sizeof(*first));
	uint32_t *last;

	if (first)
		p->first = first;
	last = ck_grow(p->last, &p->last_cap, p->nnames, 1, sizeof(*last));
	if (last)
		p->last = last;
	if (!first || !last)
		return -ENOMEM;
	p->first[p->nnames] = p->last[p->nnames] = part;
	p->nnames++;
	return 0;
}

static int part_add(struct parts *p, struct ck_str name, uint32_t file,
		    uint32_t tensor)
{
	uint32_t number = (uint32_t)p->n, of;
	struct part *all = ck_grow(p->all, &p->cap, p->n, 1, sizeof(*all));

	if (!all)
		return no_memory(p);
	p->all = all;
	if (ck_table_add(&p->names, name, (uint32_t)p->nnames, &of))
		return no_memory(p);
	all[p->n++] = (struct part){ name, file, tensor, NONE };
	if (of == p->nnames)
		return name_add(p, number) ? no_memory(p) : 0;
	all[p->last[of]].next = number;
	p->last[of] = number;
	return 0;
}

/* Adds the entries of all files. */
static int parts_of_files(struct parts *p)
{
	int rc = 0;

	for (uint32_t i = 0; i < p->l->nfiles; i++) {
		const struct ck_safetensors_file *f = &p->l->files[i];

		for (uint32_t k = 0; f->good && k < f->header.n && rc == 0; k++)
			rc = part_add(p, f->header.tensors[k].name, i, k);
	}
	return rc;
}

/* Adds a line of damage for a name of the index that cannot be shown. */
static int lose(const struct parts *p, const struct ck_weight_row *row)
{
	const struct ck_safetensors_file *f = &p->l->files[row->file];

	return ck_index_lose(p->l->c, row, f->number, f->good,
			     CK_STR("the index names it, its file has no such "
				    "tensor"))
		       ? no_memory(p)
		       : 0;
}

/* Returns the tensor of a file by name, or -1. Also finds a name that save_model()
 * omitted and recorded as `dropped: kept`. */
static int64_t find(const struct ck_safetensors_file *f, struct ck_str name)
{
	int64_t at = ck_safetensors_find(f, name);

	for (size_t i = 0; at < 0 && i < f->header.nnotes; i++)
		if (ck_str_eq(f->header.notes[i].key, name))
			return ck_safetensors_find(f, f->header.notes[i].value);
	return at;
}

static int row_add(struct parts *p, const struct ck_weight_row *row)
{
	const struct ck_safetensors_file *f = &p->l->files[row->file];
	int64_t at = f->good ? find(f, row->name) : -1;

	return at < 0 ? lose(p, row)
		      : part_add(p, row->name, row->file, (uint32_t)at);
}

/* Adds the entries that the index names. A note has the number of all others. */
static int parts_of_index(struct parts *p)
{
	uint64_t all = 0, named = 0;
	int rc = 0;

	for (size_t i = 0; i < p->l->index.map.nrows && rc == 0; i++)
		rc = row_add(p, &p->l->index.map.rows[i]);
	for (size_t i = 0; i < p->n; i++)
		named += ck_safetensors_find(&p->l->files[p->all[i].file],
					     p->all[i].name) >= 0;
	for (size_t i = 0; i < p->l->nfiles; i++)
		if (p->l->files[i].good)
			all += p->l->files[i].header.n;
	if (rc == 0 && all > named &&
	    ck_catalog_note_add(p->l->c,
				ck_shown("tensors that the index does not "
					 "name: %" PRIu64,
					 all - named)))
		rc = no_memory(p);
	return rc;
}

/* --- a tensor ------------------------------------------------------------------------ */

static const struct ck_safetensors_file *file_of(const struct parts *p,
						 const struct part *part)
{
	return &p->l->files[part->file];
}

static const struct ck_safetensor *entry_of(const struct parts *p,
					    const struct part *part)
{
	return &file_of(p, part)->header.tensors[part->tensor];
}

static const int64_t *sizes_of(const struct parts *p, const struct part *part)
{
	return &file_of(p, part)->header.shapes[entry_of(p, part)->shape];
}

static const int64_t *offsets_of(const struct parts *p, const struct part *part)
{
	return &file_of(p, part)->offsets[entry_of(p, part)->shape];
}

static struct ck_item item_of(const struct parts *p, const struct part *part)
{
	const struct ck_safetensors_file *f = file_of(p, part);
	const struct ck_safetensor *e = entry_of(p, part);

	return (struct ck_item){ .fpos = f->data + e->begin,
				 .length = e->end - e->begin,
				 .file = f->number,
				 .form = CK_FORM_BLOB };
}

/* Sorts by offsets, then sizes, then files. */
static int box_cmp(const void *a, const void *b, void *arg)
{
	const struct parts *p = arg;
	const struct part *x = *(const struct part *const *)a;
	const struct part *y = *(const struct part *const *)b;
	uint32_t ndim = entry_of(p, x)->ndim;
	const int64_t *of[] = { offsets_of(p, x), sizes_of(p, x) };
	const int64_t *to[] = { offsets_of(p, y), sizes_of(p, y) };

	for (unsigned k = 0; k < 2; k++)
		for (uint32_t d = 0; d < ndim; d++)
			if (of[k][d] != to[k][d])
				return of[k][d] < to[k][d] ? -1 : 1;
	return x->file < y->file ? -1 : x->file > y->file;
}

static bool is_same_box(const struct parts *p, const struct part *x,
			const struct part *y)
{
	size_t bytes = entry_of(p, x)->ndim * sizeof(int64_t);

	return bytes == 0 ||
	       (memcmp(offsets_of(p, x), offsets_of(p, y), bytes) == 0 &&
		memcmp(sizes_of(p, x), sizes_of(p, y), bytes) == 0);
}

/* Lists the parts of one name. */
static int group_make(struct parts *p, uint32_t first)
{
	p->ngroup = 0;
	for (uint32_t i = first; i != NONE; i = p->all[i].next) {
		const struct part **group = ck_grow(
			p->group, &p->group_cap, p->ngroup, 1, sizeof(*group));

		if (!group)
			return no_memory(p);
		p->group = group;
		group[p->ngroup++] = &p->all[i];
	}
	return 0;
}

/* Returns why the parts cannot be one tensor, or NULL. Sets *has_info if a file has
 * sharding information. */
static const char *group_fault(const struct parts *p, bool *has_info)
{
	const struct ck_safetensor *first = entry_of(p, p->group[0]);
	const char *why = NULL;

	*has_info = false;
	for (size_t i = 0; i < p->ngroup; i++) {
		const struct ck_safetensors_file *f = file_of(p, p->group[i]);
		const struct ck_safetensor *e = entry_of(p, p->group[i]);

		*has_info |= f->has_info;
		if (f->bad_info)
			why = ck_shown("the sharding information of %s is "
				       "malformed, or not of all its tensors",
				       ck_show(ck_str_from(f->name)));
		if (!why && (e->ndim != first->ndim ||
			     !ck_str_eq(e->dtype, first->dtype)))
			why = ck_shown("its dtypes or dimensions in %s and %s "
				       "differ",
				       ck_show(ck_str_from(
					       file_of(p, p->group[0])->name)),
				       ck_show(ck_str_from(f->name)));
	}
	if (!why && p->ngroup > 1 && !*has_info)
		why = ck_shown(
			"in %s and %s, without sharding information",
			ck_show(ck_str_from(file_of(p, p->group[0])->name)),
			ck_show(ck_str_from(file_of(p, p->group[1])->name)));
	return why;
}

/* Sets the shape to the smallest one that contains all boxes. False if a size
 * overflows. */
static bool shape_guess(struct parts *p, uint32_t ndim)
{
	for (size_t i = 0; i < p->ngroup; i++)
		for (uint32_t d = 0; d < ndim; d++) {
			uint64_t end;

			if (!ck_add(&end,
				    (uint64_t)offsets_of(p, p->group[i])[d],
				    (uint64_t)sizes_of(p, p->group[i])[d]) ||
			    end > INT64_MAX)
				return false;
			p->shape[d] = (int64_t)ck_max((uint64_t)p->shape[d],
						      end);
		}
	return true;
}

static int shape_room(struct parts *p, uint32_t ndim)
{
	int64_t *shape = ck_grow(p->shape, &p->shape_cap, 0, ndim + 1UL,
				 sizeof(*shape));

	if (!shape)
		return no_memory(p);
	p->shape = shape;
	memset(shape, 0, ndim * sizeof(*shape));
	return 0;
}

/* Adds each box once; further parts with the same box become its replicas. */
static int boxes_add(struct parts *p)
{
	int rc = 0;

	if (p->ngroup == 1) /* allocate for one box only */
		rc = ck_catalog_chunks_expect(p->l->c, 1);
	for (size_t i = 0; i < p->ngroup && rc == 0; i++) {
		const struct part *part = p->group[i];
		struct ck_item item = item_of(p, part);

		rc = i && is_same_box(p, p->group[i - 1], part)
			     ? ck_catalog_replica_add(p->l->c, &item)
			     : ck_catalog_chunk_add(p->l->c,
						    offsets_of(p, part),
						    sizes_of(p, part), &item);
	}
	return rc;
}

/* Adds a tensor with a fault: without boxes, in the shape of the first part. */
static int faulty_add(struct parts *p, const char *why)
{
	const struct ck_safetensor *e = entry_of(p, p->group[0]);
	int rc = ck_catalog_tensor_add(p->l->c, p->group[0]->name, e->dtype,
				       e->ndim, sizes_of(p, p->group[0]));

	return rc ? rc : ck_catalog_tensor_fault(p->l->c, EIO, why);
}

/* Records that the last tensor shows an entry of a file. If another tensor shows it
 * already, the last one becomes its alias. */
static int shown(const struct parts *p, const struct part *part)
{
	uint32_t *as = &p->l->files[part->file].shown[part->tensor];

	if (*as)
		return ck_catalog_tensor_alias(p->l->c, *as - 1);
	*as = p->l->c->tensors.n;
	return 0;
}

static int tensor_add(struct parts *p, uint32_t first)
{
	const struct ck_safetensor *e;
	const char *why;
	bool has_info;
	int rc = group_make(p, first);

	if (rc)
		return rc;
	e = entry_of(p, p->group[0]);
	why = group_fault(p, &has_info);
	rc = shape_room(p, e->ndim);
	if (rc)
		return rc;
	if (!why && !shape_guess(p, e->ndim))
		why = "its boxes lie beyond any tensor";
	if (why) {
		rc = faulty_add(p, why);
	} else {
		qsort_r(p->group, p->ngroup, sizeof(const struct part *),
			box_cmp, p);
		rc = ck_catalog_tensor_add(p->l->c, p->group[0]->name, e->dtype,
					   e->ndim, p->shape);
		if (rc == 0 && has_info)
			ck_catalog_tensor_guessed(p->l->c);
		if (rc == 0)
			rc = boxes_add(p);
		if (rc == 0 && p->ngroup == 1)
			rc = shown(p, p->group[0]);
		if (rc == 0)
			rc = ck_catalog_copies_add(p->l->c, false);
	}
	return rc ? ck_fail(p->l->d, -rc, "%s", strerror(-rc)) : 0;
}

/* --- aliases -------------------------------------------------------------------------- */

/* Most dimensions of an alias. A short entry of __metadata__ must not cause much longer
 * rows of the catalog. */
enum { DIMS_MOST = 8 };

/* Adds a name that save_model() omitted, because another name has its bytes. */
static int alias_of(struct parts *p, uint32_t file,
		    const struct ck_safetensors_note *note)
{
	const struct ck_safetensors_file *f = &p->l->files[file];
	int64_t at = ck_safetensors_find(f, note->value);

	/* Skips a tensor of several boxes or several files. */
	if (at < 0 || !f->shown[at] || f->has_info ||
	    f->header.tensors[at].ndim > DIMS_MOST ||
	    ck_table_find(&p->names, note->key) >= 0)
		return 0;
	return part_add(p, note->key, file, (uint32_t)at);
}

/* Adds aliases of all files, after all other tensors. Not with an index, which names
 * them itself. */
static int aliases_find(struct parts *p)
{
	int rc = 0;

	for (uint32_t i = 0; i < p->l->nfiles && rc == 0; i++) {
		const struct ck_safetensors_file *f = &p->l->files[i];

		for (size_t k = 0; f->good && k < f->header.nnotes && rc == 0;
		     k++)
			rc = alias_of(p, i, &f->header.notes[k]);
	}
	return rc;
}

/* --- files of ranks without a list ------------------------------------------------ */

/* True if all files have names of torch_checkpointing. */
static bool has_names_of_ranks(const struct parts *p)
{
	struct ck_str item;
	uint64_t rank;

	for (size_t i = 0; i < p->l->nfiles; i++)
		if (p->l->files[i].has_info ||
		    !ck_tckpt_is_name(p->l->files[i].name, ".safetensors",
				      &item, &rank))
			return false;
	return p->l->nfiles > 1;
}

#define DIGITS "0123456789"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* True if two names differ in one number only. */
static bool differ_in_number(const char *a, const char *b)
{
	size_t at = 0;

	while (a[at] && a[at] == b[at])
		at++;
	while (at && is_digit(a[at - 1]))
		at--;
	if (!is_digit(a[at]) || !is_digit(b[at]))
		return false;
	a += at + strspn(a + at, DIGITS);
	b += at + strspn(b + at, DIGITS);
	return strcmp(a, b) == 0;
}

/* True if all files have one name but for a number, no file has places of its tensors, and each
 * tensor is in several files. */
static bool are_all_in_several(const struct parts *p)
{
	for (size_t i = 0; i < p->l->nfiles; i++)
		if (p->l->files[i].has_info ||
		    (i && !differ_in_number(p->l->files[0].name,
					    p->l->files[i].name)))
			return false;
	for (size_t i = 0; i < p->nnames; i++)
		if (p->all[p->first[i]].next == NONE)
			return false;
	return p->l->nfiles > 1 && p->nnames > 0;
}

/* Refuses the local tensors of several ranks: without metadata.pkl no file has their places. */
static int ranks_refuse(const struct parts *p)
{
	if (p->l->has_index ||
	    (!has_names_of_ranks(p) && !are_all_in_several(p)))
		return 0;
	for (size_t i = 0; i < p->n; i++)
		if (p->all[i].next != NONE)
			return ck_fail(
				p->l->d, EBADMSG,
				"%s and %s both have %s: " CK_TCKPT_UNLISTED,
				ck_show(ck_str_from(
					file_of(p, &p->all[i])->name)),
				ck_show(ck_str_from(
					file_of(p, &p->all[p->all[i].next])
						->name)),
				ck_show(p->all[i].name));
	return 0;
}

/* --- all tensors ------------------------------------------------------------------ */

int ck_safetensors_tensors_add(struct ck_safetensors_load *l)
{
	struct parts p = { .l = l, .names = { .key = name_of, .arg = &p } };
	int rc = l->has_index ? parts_of_index(&p) : parts_of_files(&p);
	size_t names = 0;

	if (rc == 0)
		rc = ranks_refuse(&p);
	for (; names < p.nnames && rc == 0; names++)
		rc = tensor_add(&p, p.first[names]);
	if (rc == 0 && !l->has_index)
		rc = aliases_find(&p);
	for (; names < p.nnames && rc == 0; names++)
		rc = tensor_add(&p, p.first[names]);
	free(p.all);
	free(p.first);
	free(p.last);
	ck_table_fini(&p.names);
	free(p.group);
	free(p.shape);
	return rc;
}
