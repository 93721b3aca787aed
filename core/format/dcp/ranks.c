/* SPDX-License-Identifier: MIT */
/*
 * ranks: the format of a directory that was saved without collectives. Each rank wrote
 * `__<rank>.metadata`, and there is no `.metadata`; the checkpoint is all of them
 * merged. If the metadata of a rank cannot be read, that is a loss of the catalog; its
 * boxes are then missing. A missing rank is a note.
 *
 * Source: FileSystemWriter.finish() (torch/distributed/checkpoint/filesystem.py), from
 * 2.9 on. PyTorch itself reads only the one of the rank that loads.
 *
 * Its state, cp->own, is a struct ck_dcp_common, constant after load().
 */
#include "ckptfs/memory.h"
#include "dcp_common.h"
#include "dcp_files.h"
#include "dcp_internal.h"
#include "dcp_kind.h"

#include <errno.h>
#include <stdio.h>

enum {
	RANKS_MOST = 1 << 20,
	MISSING_SHOWN = 8,
};

/* --- the kind -------------------------------------------------------------------- */

/* Ranks that wrote a metadata file, sorted; `unfinished` is the temporary name of one,
 * or "". */
struct found {
	uint64_t *ranks;
	size_t n, cap, most;
	char unfinished[NAME_MAX + 1];
};

static bool is_unfinished(const char *name)
{
	static const char suffix[] = ".tmp";
	size_t len = strlen(name), end = sizeof(suffix) - 1;
	char whole[NAME_MAX + 1];

	if (len <= end || len > NAME_MAX || strcmp(name + len - end, suffix))
		return false;
	memcpy(whole, name, len - end);
	whole[len - end] = '\0';
	return strcmp(whole, CK_DCP_METADATA_NAME) == 0 ||
	       ck_dcp_metadata_rank(whole) != CK_NO_RANK;
}

static int found_add(struct found *f, const char *name)
{
	uint64_t rank = ck_dcp_metadata_rank(name);
	uint64_t *ranks;

	if (is_unfinished(name))
		snprintf(f->unfinished, sizeof(f->unfinished), "%s", name);
	if (rank == CK_NO_RANK)
		return 0;
	ranks = ck_grow(f->ranks, &f->cap, f->n, 1, sizeof(*ranks));
	if (!ranks)
		return -ENOMEM;
	f->ranks = ranks;
	ranks[f->n++] = rank;
	return 0;
}

static int rank_cmp(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int entry_found(void *arg, const struct dirent *e)
{
	struct found *f = arg;
	int rc = found_add(f, e->d_name);

	return rc ? rc : f->n >= f->most;
}

/* Lists the directory. Stops at `most` ranks or after `entries` entries. */
static int found_read(struct ck_directory dir, size_t most, size_t entries,
		      struct found *f)
{
	int rc;

	f->most = most;
	rc = ck_dir_each(dir, entries, entry_found, f);
	if (f->n)
		qsort(f->ranks, f->n, sizeof(*f->ranks), rank_cmp);
	return rc < 0 ? rc : 0;
}

static int look(const struct ck_src *src, struct found *f, struct ck_diag *d)
{
	int rc;

	*f = (struct found){ 0 };
	if (src->file)
		return 0;
	rc = found_read(ck_src_dir(src), 1,
			src->by_search ? CK_DIR_BRIEF : SIZE_MAX, f);
	free(f->ranks);
	f->ranks = NULL;
	return rc ? ck_fail(d, -rc, "%s", strerror(-rc)) : 0;
}

int ck_dcp_has_ranks(const struct ck_src *src, struct ck_diag *d)
{
	struct found f;
	int rc = look(src, &f, d);

	return rc ? rc : f.n > 0;
}

/* PyTorch uses these temporary names until the save ends. */
int ck_dcp_is_unfinished(const struct ck_src *src, struct ck_diag *d)
{
	struct found f;
	int rc = look(src, &f, d);

	if (rc || !*f.unfinished)
		return rc;
	return ck_fail(d, EBADMSG,
		       "no .metadata, but %s: saving this checkpoint did "
		       "not end",
		       f.unfinished);
}

/* --- one rank ---------------------------------------------------------------------- */

struct load {
	struct ck_checkpoint *cp;
	struct ck_catalog *c;
	const struct ck_format_options *options;
	struct ck_diag *d;
	struct ck_dcp_part *parts; /* those that could be read */
	size_t n;
	uint64_t bytes; /* read so far */
	/* cp has its metadata file, which gives owner, mode and times */
	bool named;
	struct ck_diag first; /* why the first bad one could not be read */
};

/* Paths of data files, numbered as in one metadata. */
struct paths {
	struct ck_str *all;
	size_t n, cap;
	struct ck_arena text;
};

static int path_add(void *ctx, struct ck_str path, uint32_t *number)
{
	struct paths *p = ctx;
	struct ck_str *all = ck_grow(p->all, &p->cap, p->n, 1, sizeof(*all));
	struct ck_str copy = ck_arena_copy(&p->text, path);

	if (all)
		p->all = all;
	if (!all || !copy.p || p->n >= CK_NO_FILE)
		return -ENOMEM;
	*number = (uint32_t)p->n;
	all[p->n++] = copy;
	return 0;
}

/* Adds the files of a metadata to the checkpoint. Must be called after all of the
 * metadata was parsed without errors, so that files of a bad metadata are not added. */
static int files_add(struct load *l, const struct paths *p,
		     struct ck_dcp_part *part)
{
	int rc = 0;

	part->files = calloc(p->n + 1, sizeof(*part->files));
	if (!part->files)
		return -ENOMEM;
	for (size_t i = 0; i < p->n && rc == 0; i++)
		rc = ck_files_add(l->cp->files, p->all[i], &part->files[i]);
	return rc;
}

static int part_parse(struct load *l, const char *name, struct ck_str bytes,
		      struct ck_dcp_part *part, struct ck_diag *d)
{
	struct paths paths = { 0 };
	const struct ck_dcp_numbers numbers = { path_add, &paths, name };
	int rc;

	part->c = ck_catalog_make("");
	rc = part->c ? ck_dcp_parse_places(part->c, bytes, &numbers, NULL, d)
		     : ck_fail(d, ENOMEM, "out of memory");
	if (rc == 0 && files_add(l, &paths, part))
		rc = ck_fail(d, ENOMEM, "out of memory");
	free(paths.all);
	ck_arena_fini(&paths.text);
	return rc;
}

/* Reads one metadata. The first one that can be read gives the checkpoint its owner,
 * mode and times. All together may be as long as one `.metadata`. */
static int part_text(struct load *l, const char *name,
		     struct ck_metadata_text *text, struct ck_diag *d)
{
	uint64_t most = ck_format_dcp.metadata_most - l->bytes;
	int rc = l->named ? ck_metadata_read_other(l->cp, name, most, text, d)
			  : ck_metadata_read(l->cp, l->c, name, most,
					     l->options, text, d);

	if (rc == 0) {
		l->bytes += text->len;
		l->named = true;
	}
	return rc;
}

static int part_read(struct load *l, const char *name, struct ck_dcp_part *part,
		     struct ck_diag *d)
{
	struct ck_metadata_text text = { 0 };
	int rc = part_text(l, name, &text, d);

	if (rc == 0)
		rc = part_parse(l, name,
				(struct ck_str){ text.pages, text.len }, part,
				d);
	ck_metadata_text_fini(&text);
	return rc;
}

static void part_fini(struct ck_dcp_part *part)
{
	ck_catalog_put(part->c);
	free(part->files);
	*part = (struct ck_dcp_part){ 0 };
}

static int lose(struct load *l, const struct ck_diag *d)
{
	const struct ck_loss loss = { .file = CK_NO_FILE,
				      .err = d->err,
				      .what = ck_str_from(d->text) };

	if (!l->first.err)
		l->first = *d;
	return ck_catalog_loss_add(l->c, &loss)
		       ? ck_fail(l->d, ENOMEM, "out of memory")
		       : 0;
}

static int part_add(struct load *l, uint64_t rank)
{
	struct ck_dcp_part *part = &l->parts[l->n];
	struct ck_diag d = { 0 };
	char name[CK_NAME_LEN];
	int rc;

	snprintf(name, sizeof(name), "__%ju" CK_DCP_METADATA_NAME,
		 (uintmax_t)rank);
	part->rank = rank;
	rc = part_read(l, name, part, &d);
	if (rc == 0) {
		l->n++;
		return 0;
	}
	part_fini(part);
	return ck_is_shortage(rc) || (rc == -ESTALE && l->cp->elsewhere)
		       ? ck_fail(l->d, -rc, "%s", d.text)
		       : lose(l, &d);
}

/* --- all ranks -------------------------------------------------------------------- */

/* Adds a note with the ranks below the highest one that have no metadata. Missing ranks
 * above it cannot be detected. */
static int note_missing(const struct load *l, const struct found *f)
{
	uint64_t next = 0, missing = 0;
	struct ck_buf line = { 0 };
	int rc = 0;

	ck_buf_text(&line, "ranks without metadata: ");
	for (size_t i = 0; i < f->n; i++) {
		for (; next < f->ranks[i] && missing < MISSING_SHOWN; next++)
			ck_buf_printf(&line, "%s%ju", missing++ ? ", " : "",
				      (uintmax_t)next);
		missing += f->ranks[i] - next;
		next = f->ranks[i] + 1;
	}
	if (missing > MISSING_SHOWN)
		ck_buf_printf(&line, " and %ju more",
			      (uintmax_t)(missing - MISSING_SHOWN));
	if (missing)
		rc = line.err ? line.err : ck_catalog_note_add(l->c, line.data);
	ck_buf_fini(&line);
	return rc;
}

static int load_all(struct load *l, const struct found *f)
{
	int rc = 0;

	l->parts = calloc(f->n + 1, sizeof(*l->parts));
	if (!l->parts)
		return ck_fail(l->d, ENOMEM, "out of memory");
	for (size_t i = 0; i < f->n && rc == 0; i++)
		rc = part_add(l, f->ranks[i]);
	if (rc)
		return rc;
	if (f->n == 0)
		return ck_fail(l->d, ESTALE, "its files were removed just now");
	if (l->n == 0)
		return ck_fail(l->d, l->first.err, "%s%s", l->first.text,
			       f->n > 1 ? "; no other one is any better" : "");
	rc = ck_dcp_merge(l->c, l->parts, l->n);
	if (rc == 0)
		rc = note_missing(l, f);
	return rc ? ck_fail(l->d, -rc, "%s", strerror(-rc)) : 0;
}

static int common_load(const struct load *l)
{
	struct ck_dcp_common *common = calloc(1, sizeof(*common));

	l->cp->own = common;
	return common ? ck_dcp_common_load(l->cp, l->c, common, l->d)
		      : ck_fail(l->d, ENOMEM, "out of memory");
}

static int load(struct ck_checkpoint *cp, struct ck_catalog *c,
		const struct ck_format_options *options,
		const struct ck_fetched_metadata *fetched, struct ck_diag *d)
{
	struct load l = { .cp = cp, .c = c, .options = options, .d = d };
	struct found f = { 0 };
	int rc;

	(void)fetched;
	rc = found_read(ck_checkpoint_dir(cp), RANKS_MOST, SIZE_MAX, &f);
	rc = rc ? ck_fail(d, -rc, "%s", strerror(-rc)) : load_all(&l, &f);
	for (size_t i = 0; l.parts && i < l.n; i++)
		part_fini(&l.parts[i]);
	free(l.parts);
	free(f.ranks);
	if (rc == 0)
		rc = common_load(&l);
	return rc ? rc : ck_dcp_flat_load(cp, c, options, d);
}

static void forget(struct ck_checkpoint *cp)
{
	if (cp->own)
		ck_dcp_common_fini(cp->own);
	free(cp->own);
}

static bool is_metadata(const char *name)
{
	return ck_dcp_metadata_rank(name) != CK_NO_RANK;
}

const struct ck_format ck_format_dcp_ranks = {
	.name = "dcp",
	.is_read = is_metadata,
	.unwritable = " with __<rank>.metadata",
	.suffix = ".distcp",
	.has_sidecar = true,
	.is_part = ck_dcp_is_part,
	.rank = ck_dcp_rank_of,
	.head = ck_dcp_head,
	.sum = ck_dcp_sum,
	.pickle_sum = ck_dcp_pickle_sum,
	.load = load,
	.forget = forget,
	.is_sure = true,
};
