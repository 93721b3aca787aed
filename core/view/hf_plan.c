/* SPDX-License-Identifier: MIT */
/*
 * hf_plan: distributes the tensors of hf/ over files: one file, or several of a maximum
 * size, or those of a template; and makes the index of several. A plan is made once,
 * then constant, except for the facts of its files in a catalog, under p->lock.
 */
#include "ckptfs/json.h"
#include "ckptfs/table.h"
#include "hf.h"
#include "syntax/weight_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define ONE   "model.safetensors"
#define INDEX "model.safetensors.index.json"

/* State of making a plan. */
struct dealing {
	const struct ck_catalog *c;
	struct ck_hf_plan *p;
	/* file of each of chosen.tensors; NO_FILE if it is left out */
	uint32_t *file;
	size_t cap;
};

#define NO_FILE UINT32_MAX

const char ck_hf_only_template[] = "only the template has it";

static uint64_t bytes_of(const struct ck_catalog *c, uint32_t tensor)
{
	return ck_catalog_tensor(c, tensor)->nbytes;
}

/* Appends a file. NULL if memory is exhausted. */
static struct ck_hf_file *file_add(struct dealing *l, const char *name)
{
	struct ck_hf_plan *p = l->p;
	struct ck_hf_file *files = ck_grow(p->files, &l->cap, p->nfiles, 1,
					   sizeof(*files));
	char *text = strdup(name);

	if (files)
		p->files = files;
	if (!files || !text) {
		free(text);
		return NULL;
	}
	files[p->nfiles] = (struct ck_hf_file){ .name = text };
	return &files[p->nfiles++];
}

/* --- by size ------------------------------------------------------------------------- */

/* Begins a new file if one that is not empty would become longer than `most` bytes;
 * never if most is 0. Returns the number of files. */
static uint32_t deal_by_size(const struct dealing *l, uint64_t most)
{
	const struct ck_hf_chosen *chosen = &l->p->chosen;
	uint64_t has = 0;
	uint32_t file = 0;
	bool empty = true;

	for (uint32_t i = 0; i < chosen->n; i++) {
		uint64_t more = bytes_of(l->c, chosen->tensors[i]), sum;

		if (most && !empty &&
		    (!ck_add(&sum, has, more) || sum > most)) {
			file++;
			has = 0;
		}
		has += more;
		empty = false;
		l->file[i] = file;
	}
	return chosen->n ? file + 1 : 0;
}

static int deal_sized(struct dealing *l, uint64_t most)
{
	uint32_t n = deal_by_size(l, most);
	char name[64];

	for (uint32_t i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name),
			       "model-%05" PRIu32 "-of-%05" PRIu32
			       ".safetensors",
			       i + 1, n);
		if (!file_add(l, n == 1 ? ONE : name))
			return -ENOMEM;
	}
	return 0;
}

/* --- by a template ---------------------------------------------------------------------- */

static struct ck_str row_name(const void *arg, uint32_t i)
{
	const struct ck_weight_map *map = arg;

	return map->rows[i].name;
}

/* Finds the row of each chosen tensor. Names without a counterpart are left out. */
static int rows_match(struct dealing *l, const struct ck_weight_map *map,
		      struct ck_table *rows, bool *met)
{
	struct ck_hf_chosen *chosen = &l->p->chosen;
	uint32_t row;
	int rc = 0;

	for (uint32_t i = 0; i < map->nrows && rc == 0; i++)
		rc = ck_table_add(rows, map->rows[i].name, i, &row);
	for (uint32_t i = 0; i < chosen->n && rc == 0; i++) {
		int64_t found = ck_table_find(
			rows, ck_hf_name(chosen, l->c, chosen->tensors[i]));

		l->file[i] = found < 0 ? NO_FILE : map->rows[found].file;
		if (found >= 0)
			met[found] = true;
		else
			rc = ck_left_outs_add(
				&chosen->left_out,
				ck_tensor_names(l->c, chosen->tensors[i]).name,
				"the template does not name it");
	}
	for (size_t i = 0; i < map->nrows && rc == 0; i++)
		if (!met[i])
			rc = ck_left_outs_add(&chosen->left_out,
					      map->rows[i].name,
					      ck_hf_only_template);
	return rc;
}

static int deal_as_template(struct dealing *l, const struct ck_weight_map *map)
{
	struct ck_table rows = { .key = row_name, .arg = map };
	ck_auto_free bool *met = calloc(map->nrows + 1, sizeof(*met));
	int rc = met ? rows_match(l, map, &rows, met) : -ENOMEM;

	ck_table_fini(&rows);
	for (size_t i = 0; i < map->nfiles && rc == 0; i++)
		if (!file_add(l, map->files[i]))
			rc = -ENOMEM;
	return rc;
}

/* --- files ------------------------------------------------------------------------------- */

/* Returns the tensors, sorted by file, then by descending width. begins[nfiles + 1]
 * receives the index of the first tensor of each file. NULL if memory is exhausted. */
static uint32_t *tensors_sort(const struct dealing *l, uint32_t *begins)
{
	const struct ck_hf_chosen *chosen = &l->p->chosen;
	uint32_t *all = malloc((chosen->n + 1UL) * sizeof(*all));
	ck_auto_free uint32_t *at = calloc(l->p->nfiles + 1UL, sizeof(*at));

	if (!all || !at) {
		free(all);
		return NULL;
	}
	for (uint32_t i = 0; i < chosen->n; i++)
		if (l->file[i] != NO_FILE)
			begins[l->file[i] + 1]++;
	for (uint32_t f = 0; f < l->p->nfiles; f++)
		begins[f + 1] += begins[f];
	memcpy(at, begins, (l->p->nfiles + 1UL) * sizeof(*at));
	for (uint64_t width = 8; width; width /= 2)
		for (uint32_t i = 0; i < chosen->n; i++)
			if (l->file[i] != NO_FILE &&
			    ck_hf_width(l->c, chosen->tensors[i]) == width)
				all[at[l->file[i]]++] = chosen->tensors[i];
	return all;
}

static int sections_make(const struct dealing *l, struct ck_hf_file *f,
			 const uint32_t *tensors, uint32_t n)
{
	uint32_t *own = malloc((n + 1UL) * sizeof(*own));
	int rc;

	if (!own)
		return -ENOMEM;
	memcpy(own, tensors, n * sizeof(*own));
	rc = ck_hf_file_make(l->c, &l->p->chosen, own, n, &f->sections);
	if (rc)
		return rc;
	f->tensors = own; /* valid as long as the sections, which own them */
	f->n = n;
	for (uint32_t i = 0; i < n; i++)
		f->bytes += bytes_of(l->c, own[i]);
	return 0;
}

/* Makes the sections of files. Files of a template without tensors are removed. */
static int files_make(const struct dealing *l)
{
	struct ck_hf_plan *p = l->p;
	ck_auto_free uint32_t *begins = calloc(p->nfiles + 1UL,
					       sizeof(*begins));
	ck_auto_free uint32_t *all = begins ? tensors_sort(l, begins) : NULL;
	uint32_t n = 0;
	int rc = all ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < p->nfiles && rc == 0; i++) {
		uint32_t count = begins[i + 1] - begins[i];

		if (count == 0) {
			free(ck_steal(&p->files[i].name));
			continue;
		}
		rc = sections_make(l, &p->files[i], all + begins[i], count);
	}
	if (rc)
		return rc;
	for (uint32_t i = 0; i < p->nfiles; i++)
		if (p->files[i].name)
			p->files[n++] = p->files[i];
	p->nfiles = n;
	return 0;
}

/* --- the index --------------------------------------------------------------------------- */

struct named {
	struct ck_str name;
	const char *file;
};

static int named_cmp(const void *a, const void *b)
{
	struct ck_str x = ((const struct named *)a)->name;
	struct ck_str y = ((const struct named *)b)->name;
	int order = memcmp(x.p, y.p, ck_min(x.len, y.len));

	return order ? order : (x.len > y.len) - (x.len < y.len);
}

static struct named *named_sort(const struct dealing *l, uint32_t *n)
{
	const struct ck_hf_plan *p = l->p;
	struct named *all = malloc((p->chosen.n + 1UL) * sizeof(*all));

	*n = 0;
	for (uint32_t f = 0; all && f < p->nfiles; f++)
		for (uint32_t i = 0; i < p->files[f].n; i++)
			all[(*n)++] = (struct named){
				ck_hf_name(&p->chosen, l->c,
					   p->files[f].tensors[i]),
				p->files[f].name,
			};
	if (all)
		qsort(all, *n, sizeof(*all), named_cmp);
	return all;
}

static void index_print(const struct dealing *l, const struct named *all,
			uint32_t n, struct ck_buf *out)
{
	uint64_t bytes = 0, values = 0;

	for (uint32_t f = 0; f < l->p->nfiles; f++) {
		bytes += l->p->files[f].bytes;
		for (uint32_t i = 0; i < l->p->files[f].n; i++)
			values += ck_hf_values(l->c, l->p->files[f].tensors[i]);
	}
	ck_buf_printf(out,
		      "{\n  \"metadata\": {\n"
		      "    \"total_parameters\": %" PRIu64 ",\n"
		      "    \"total_size\": %" PRIu64
		      "\n  },\n  \"weight_map\": {",
		      values, bytes);
	for (uint32_t i = 0; i < n; i++) {
		ck_buf_text(out, i ? ",\n    " : "\n    ");
		ck_buf_json_str(out, all[i].name);
		ck_buf_text(out, ": ");
		ck_buf_json_str(out, ck_str_from(all[i].file));
	}
	ck_buf_text(out, "\n  }\n}\n");
}

/* Appends the index, unless there is only one file, with the name that readers
 * expect. */
static int index_make(struct dealing *l)
{
	uint32_t n = 0;
	ck_auto_free struct named *all = NULL;
	struct ck_buf text = { 0 };
	struct ck_hf_file *f;

	if (l->p->nfiles == 0 ||
	    (l->p->nfiles == 1 && strcmp(l->p->files[0].name, ONE) == 0))
		return 0;
	all = named_sort(l, &n);
	if (!all)
		return -ENOMEM;
	index_print(l, all, n, &text);
	f = text.err ? NULL : file_add(l, INDEX);
	if (!f) {
		ck_buf_fini(&text);
		return -ENOMEM;
	}
	f->text = text.data;
	f->bytes = text.len;
	return 0;
}

/* --- the plan ------------------------------------------------------------------------------ */

static int plan_fill(struct ck_hf_plan *p, const struct ck_view_options *o)
{
	ck_auto_free uint32_t *file = NULL;
	struct dealing l = { .c = p->base.c, .p = p };
	int rc = ck_hf_choose(l.c, o, &p->chosen);

	if (rc)
		return rc;
	l.file = file = malloc((p->chosen.n + 1UL) * sizeof(*file));
	if (!file)
		return -ENOMEM;
	rc = o->weight_map ? deal_as_template(&l, o->weight_map)
			   : deal_sized(&l, o->hf_shard_size);
	if (rc == 0)
		rc = files_make(&l);
	if (rc == 0)
		rc = index_make(&l);
	free(ck_steal(&p->chosen.tensors)); /* now in the files */
	return rc;
}

static void plan_free(void *plan)
{
	struct ck_hf_plan *p = plan;

	for (uint32_t i = 0; i < p->nfiles; i++) {
		ck_sections_put(p->files[i].sections);
		free(p->files[i].text);
		free(p->files[i].name);
	}
	free(p->files);
	ck_hf_chosen_fini(&p->chosen);
	ck_catalog_put(p->seen);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int ck_hf_plan_make(const struct ck_catalog *c, const struct ck_view_options *o,
		    const struct ck_view_plan *current, struct ck_hf_plan **out)
{
	struct ck_hf_plan *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return -ENOMEM;
	ck_view_plan_begin(&p->base, current, c, plan_free);
	pthread_mutex_init(&p->lock, NULL);
	rc = plan_fill(p, o);
	if (rc)
		ck_view_plan_put(p);
	else
		*out = p;
	return rc;
}

/* --- facts of files in a catalog -------------------------------------------------- */

/* Computes the facts of all files. The index has those of all tensors, but its own
 * version. */
static void facts_look(struct ck_hf_plan *p, const struct ck_catalog *c)
{
	struct ck_hf_file *index = NULL;

	for (uint32_t i = 0; i < p->nfiles; i++) {
		struct ck_hf_file *f = &p->files[i];

		f->facts = (struct ck_view_facts){ .mode = 0444,
						   .version = p->base.born };
		if (f->text)
			index = f;
		for (uint32_t k = 0; k < f->n; k++)
			ck_view_facts_of(
				&f->facts, c,
				(struct ck_entry_id){ .i = f->tensors[k] });
	}
	for (uint32_t i = 0; index && i < p->nfiles; i++)
		ck_view_facts_add(&index->facts, p->files[i].facts.mode,
				  p->files[i].facts.mtime, 0);
}

void ck_hf_plan_about(struct ck_hf_plan *p, const struct ck_catalog *c,
		      uint32_t file, struct ck_file_content *out)
{
	struct ck_hf_file *f = &p->files[file];

	pthread_mutex_lock(&p->lock);
	if (p->seen != c) {
		ck_catalog_put(p->seen);
		p->seen = ck_catalog_hold(c);
		facts_look(p, c);
	}
	*out = (struct ck_file_content){
		.topic = f->text ? CK_FILE_KIND_ASIDE : CK_FILE_KIND_MANY,
		.mode = f->facts.mode,
		.mtime = f->facts.mtime,
		.version = f->facts.version,
		.size = f->text ? f->bytes : ck_sections_size(f->sections),
	};
	pthread_mutex_unlock(&p->lock);
}
