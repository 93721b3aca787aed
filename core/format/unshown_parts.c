/* SPDX-License-Identifier: MIT */
/*
 * unshown_parts: the line of `status` about files and subdirectories in the
 * directory of a checkpoint that look like parts of a checkpoint, but are not
 * shown. Files are judged by their names and not opened; subdirectories are
 * detected like any source. It is stateless, and any thread may call it.
 */
#include "detect.h"
#include "format/load/load_gather.h"
#include "format/run/run.h"
#include "warn.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum {
	ENTRIES_MOST = 100000, /* entries of the directory that are read */
	FOUND_MOST = 10000,    /* names that are stored */
	OPENS_MOST = 256,      /* subdirectories that are opened */
	NAMES = 8,	       /* names in the line */
};

struct beside {
	/* Names of data files of the checkpoint in the directory, and of the
	 * directories of others, sorted. */
	struct ck_str *known;
	size_t nknown;
	struct ck_dir_names found;
	uint64_t more;	/* names that are not stored */
	unsigned opens; /* subdirectories opened so far */
	const struct ck_checkpoint *cp;
};

static bool is_part(const char *name)
{
	for (size_t i = 0; i < ck_kinds.n; i++)
		if (ck_kinds.rows[i].format &&
		    ck_kinds.rows[i].format->is_part &&
		    ck_kinds.rows[i].format->is_part(name))
			return true;
	return false;
}

/* --- files of the checkpoint ------------------------------------------------------- */

/* Of a path with a slash, the first component is stored. A file that the metadata names as
 * "./FILE" is therefore listed as not shown, which is rare. */
static int known_make(struct beside *b, const struct ck_checkpoint *cp)
{
	uint32_t n = ck_files_count(cp->files);

	b->known = calloc(n + 1UL, sizeof(*b->known));
	if (!b->known)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		struct ck_str path = ck_files_info(cp->files, i)->path;
		const char *slash = path.len ? memchr(path.p, '/', path.len)
					     : NULL;

		if (slash)
			path.len = (size_t)(slash - path.p);
		if (path.len)
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

/* --- files of the directory ---------------------------------------------------------- */

static void note(struct beside *b, const char *name)
{
	if (b->found.n >= FOUND_MOST || ck_dir_names_add(&b->found, name))
		b->more++;
}

/* True if the subdirectory is a checkpoint by itself, or one of a program that is not
 * read. */
static bool is_checkpoint(struct beside *b, const char *name)
{
	ck_auto_fd int fd = -1;
	struct ck_src src = { .by_search = true };
	const struct ck_kind *kind;

	if (name[0] == '.' || b->cp->elsewhere || b->opens++ >= OPENS_MOST)
		return false;
	fd = ck_open_beneath(b->cp->dirfd, ck_str_from(name),
			     O_RDONLY | O_DIRECTORY | O_NONBLOCK,
			     CK_BENEATH_NO_SYMLINKS);
	src.dirfd = fd;
	return fd >= 0 && (ck_kind_find(&ck_kinds, &src, &kind, NULL) == 0 ||
			   ck_producer_name(&src));
}

static int directory_look(void *arg, const struct dirent *e)
{
	struct beside *b = arg;

	if ((e->d_type == DT_DIR || e->d_type == DT_UNKNOWN) &&
	    !is_known(b, b->cp, e->d_name) && is_checkpoint(b, e->d_name))
		note(b, ck_shown("%s/", e->d_name));
	return 0;
}

static int entry_check(void *arg, const struct dirent *e)
{
	struct beside *b = arg;

	bool others = b->cp->format->names_others && e->d_name[0] != '.';

	if (e->d_type != DT_DIR && (others || is_part(e->d_name)) &&
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

void ck_checkpoint_print_unshown(struct ck_checkpoint *cp, struct ck_buf *out)
{
	struct beside b = { .cp = cp };
	struct ck_directory dir = ck_checkpoint_dir(cp);

	/* If the metadata names all files, the directories of other hosts are not
	 * listed. */
	if (cp->format->metadata)
		dir.elsewhere = NULL;
	if (cp->file || (cp->no_local_dir && !dir.elsewhere))
		return;
	if (known_make(&b, cp) == 0) {
		/* After an error, the entries read so far are printed. */
		(void)!ck_dir_each(dir, ENTRIES_MOST, entry_check, &b);
		if (!ck_checkpoint_run(cp))
			(void)!ck_dir_each(dir, ENTRIES_MOST, directory_look,
					   &b);
		print(&b, out);
	}
	ck_dir_names_fini(&b.found);
	free(b.known);
}
