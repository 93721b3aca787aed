/* SPDX-License-Identifier: MIT */
/*
 * ranks_load: loads a directory of files that the ranks of a job wrote by torch.save, each rank
 * its own. The names follow no convention. Files whose names differ in one number are a family
 * (ranks_name.c). The rank of a file is the one in its DTensors and ShardedTensors; without
 * one, the number in its name.
 *
 * Steps: find the families, read all files, add their rows (ranks_show.c). The state is local to
 * the load, and used by one thread.
 */
#include "format/load/load_gather.h"
#include "ranks_kind.h"
#include "ranks_show.h"

#include <errno.h>

static int no_memory(const struct ck_torch_load *l)
{
	return ck_fail(l->d, ENOMEM, "out of memory");
}

/* --- names ------------------------------------------------------------------------ */

/* True for files of random states, which a Trainer writes beside the files of a model. */
static bool is_beside(const char *name)
{
	return strncmp(name, "rng_state", 9) == 0 ||
	       strncmp(name, "random_states", 13) == 0;
}

static int families_find(const struct ck_dir_names *names,
			 struct ck_rank_name *parsed, uint32_t *n)
{
	struct ck_str *texts = calloc(names->n + 1, sizeof(*texts));
	int rc;

	if (!texts)
		return -ENOMEM;
	for (size_t i = 0; i < names->n; i++)
		texts[i] = ck_str_from(names->all[i]);
	rc = ck_rank_names(texts, names->n, parsed, n);
	free(texts);
	return rc;
}

int ck_ranks_has_family(const struct ck_src *src, struct ck_diag *d)
{
	struct ck_dir_names names = { 0 };
	struct ck_rank_name *parsed = NULL;
	uint32_t n;
	bool found = false;
	int rc;

	if (src->file)
		return 0;
	rc = ck_torch_names_find(ck_src_dir(src), ck_torch_is_name,
				 src->by_search, &names);
	parsed = calloc(names.n + 1, sizeof(*parsed));
	if (rc == 0)
		rc = parsed ? families_find(&names, parsed, &n) : -ENOMEM;
	for (size_t i = 0; i < names.n && rc == 0; i++)
		found |= parsed[i].family != CK_RANK_NO_FAMILY &&
			 !is_beside(names.all[i]);
	free(parsed);
	ck_dir_names_fini(&names);
	return rc < 0 ? ck_fail(d, -rc, "%s", strerror(-rc)) : found;
}

static struct ck_str above_of(const void *arg, uint32_t i)
{
	const struct ck_torch_load *l = arg;

	return l->files[i].above;
}

/* Chooses the first path component of a file that is the first one of its family, or has no
 * family: a text of its name that is not taken. */
static int part_name(const struct ck_rank_files *r, uint32_t i,
		     struct ck_table *taken)
{
	struct ck_torch_file *f = &r->l->files[i];
	struct ck_str name = ck_str_from(f->name), part = { "", 0 };
	uint32_t number;

	if (r->names[i].family != CK_RANK_NO_FAMILY)
		part = ck_rank_name_part(name, &r->names[i]);
	if (part.len == 0 || ck_table_find(taken, part) >= 0)
		part = ck_rank_name_stem(name);
	f->above = part;
	return ck_table_add(taken, part, i, &number);
}

/* Sets the first component of the paths of each file. It is empty if all files are one
 * family. */
static int parts_name(const struct ck_rank_files *r)
{
	struct ck_torch_load *l = r->l;
	struct ck_table taken = { .key = above_of, .arg = l };
	bool one = r->nfamilies == 1;
	int rc = 0;

	for (size_t i = 0; i < l->nfiles; i++)
		one &= r->names[i].family != CK_RANK_NO_FAMILY;
	for (uint32_t i = 0; i < l->nfiles && !one && rc == 0; i++) {
		if (r->first[i] < i)
			l->files[i].above = l->files[r->first[i]].above;
		else
			rc = part_name(r, i, &taken);
	}
	ck_table_fini(&taken);
	return rc ? no_memory(l) : 0;
}

/* --- the load --------------------------------------------------------------------- */

static int families_join(struct ck_rank_files *r)
{
	uint32_t n;

	if (families_find(&r->l->paths, r->names, &n))
		return no_memory(r->l);
	return ck_rank_families_set(r, n);
}

static int files_join(struct ck_torch_load *l)
{
	struct ck_rank_files r = { 0 };
	int rc = ck_rank_files_init(&r, l);

	if (rc == 0)
		rc = families_join(&r);
	if (rc == 0)
		rc = parts_name(&r);
	if (rc == 0)
		rc = ck_torch_files_read(l);
	if (rc == 0)
		rc = ck_rank_files_show(&r);
	ck_rank_files_fini(&r);
	return rc;
}

static int load(struct ck_checkpoint *cp, struct ck_catalog *c,
		const struct ck_format_options *options,
		const struct ck_fetched_metadata *fetched, struct ck_diag *d)
{
	struct ck_torch_load l = { .cp = cp, .c = c, .d = d, .by_rank = true };
	int rc = ck_torch_files_find(&l);

	(void)fetched;
	if (rc == 0)
		rc = ck_metadata_open_first(cp, c, &l.paths, options, d);
	if (rc == 0)
		rc = ck_checkpoint_gather(cp, c, options, NULL, d);
	if (rc == 0)
		rc = ck_sidecar_source_read(cp, c, options, &l.source, d);
	if (rc == 0)
		rc = files_join(&l);
	if (rc == 0)
		rc = ck_torch_state_keep(&l);
	ck_torch_load_fini(&l);
	return rc;
}

const struct ck_format ck_format_ranks = {
	.name = "ranks",
	.has_sidecar = true,
	.is_part = ck_torch_is_part,
	.rank = ck_torch_rank,
	.head = ck_torch_head,
	.sum = ck_torch_sum,
	.pickle_sum = ck_torch_pickle_sum,
	.record = ck_torch_record,
	.load = load,
	.forget = ck_torch_forget,
};
