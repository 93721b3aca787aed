/* SPDX-License-Identifier: MIT */
/*
 * beside: files of the directory that look like parts of a checkpoint and of which
 * nothing is shown. Names alone are looked at.
 */
#include "detect.h"
#include "load/load_gather.h"

#include <errno.h>

enum {
	ENTRIES_MOST = 100000, /* looked at */
	FOUND_MOST = 10000,    /* remembered */
	NAMES = 8,	       /* shown */
};

struct beside {
	struct ck_str
		*known; /* files of the checkpoint in the directory, sorted */
	size_t nknown;
	struct ck_dir_names found;
	uint64_t more; /* that are not remembered */
	const struct ck_checkpoint *cp;
};

static bool is_part(const char *name)
{
	for (size_t i = 0; i < ck_kinds.n; i++)
		if (ck_kinds.rows[i].format->is_part &&
		    ck_kinds.rows[i].format->is_part(name))
			return true;
	return false;
}

/* --- what the checkpoint has ----------------------------------------------------- */

/* Paths that begin with "./" are rare, and are then shown. */
static int known_make(struct beside *b, const struct ck_checkpoint *cp)
{
	uint32_t n = ck_files_count(cp->files);

	b->known = calloc(n + 1UL, sizeof(*b->known));
	if (!b->known)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		struct ck_str path = ck_files_info(cp->files, i)->path;

		if (path.len && !memchr(path.p, '/', path.len))
			b->known[b->nknown++] = path;
	}
	if (b->nknown)
		qsort(b->known, b->nknown, sizeof(*b->known), ck_str_cmp);
	return 0;
}

static bool is_known(const struct beside *b, const struct ck_checkpoint *cp,
		     const char *name)
{
	const struct ck_str key = ck_str_from(name);

	return strcmp(name, ck_metadata_name(cp)) == 0 ||
	       (cp->format->is_read && cp->format->is_read(name)) ||
	       bsearch(&key, b->known, b->nknown, sizeof(key), ck_str_cmp);
}

/* --- what there is ------------------------------------------------------------------ */

static void note(struct beside *b, const char *name)
{
	if (b->found.n >= FOUND_MOST || ck_dir_names_add(&b->found, name))
		b->more++;
}

static int entry_look(void *arg, const struct dirent *e)
{
	struct beside *b = arg;

	if (e->d_type != DT_DIR && is_part(e->d_name) &&
	    !is_known(b, b->cp, e->d_name))
		note(b, e->d_name);
	return 0;
}

static void print(struct beside *b, struct ck_buf *out)
{
	size_t shown = ck_min(b->found.n, (size_t)NAMES);
	uint64_t more = b->found.n - shown + b->more;

	if (b->found.n == 0)
		return;
	ck_dir_names_sort(&b->found);
	ck_buf_text(out, "not shown: ");
	for (size_t i = 0; i < shown; i++) {
		ck_buf_text(out, i ? ", " : "");
		ck_buf_escaped(out, ck_str_from(b->found.all[i]));
	}
	if (more)
		ck_buf_printf(out, " and %ju more", (uintmax_t)more);
	ck_buf_text(out, "\n");
}

void ck_checkpoint_print_beside(struct ck_checkpoint *cp, struct ck_buf *out)
{
	struct beside b = { .cp = cp };
	struct ck_directory dir = ck_checkpoint_dir(cp);

	/* What hosts have beside a metadata that names all files nobody has asked. */
	if (cp->format->metadata)
		dir.elsewhere = NULL;
	if (cp->file || (cp->nowhere && !dir.elsewhere))
		return;
	if (known_make(&b, cp) == 0) {
		/* As far as it can be listed. */
		(void)!ck_dir_each(dir, ENTRIES_MOST, entry_look, &b);
		print(&b, out);
	}
	ck_dir_names_fini(&b.found);
	free(b.known);
}
