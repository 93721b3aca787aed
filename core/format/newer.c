/* SPDX-License-Identifier: MIT */
/*
 * newer: warnings about files that are newer than `.metadata`. There are two:
 *
 *   data files         A save writes the metadata last. A newer data file therefore belongs
 *                      to another save, or to a copy that was not finished. Copies without
 *                      times (`cp -r`) that take longer than the tolerance look the same.
 *   __<rank>.metadata  The directory also has a save without collectives.
 *
 * Stateless; any thread may call the functions.
 */
#include "format/dcp/dcp_kind.h"
#include "format/load/load_gather.h"
#include "warn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

enum {
	TOLERANCE = 2,	       /* seconds: file systems round times */
	NAMES = 8,	       /* names in one line */
	ENTRIES_MOST = 100000, /* entries of a directory that are read */
};

static bool is_newer(const struct ck_checkpoint *cp, const struct ck_catalog *c,
		     uint32_t file)
{
	const struct ck_file_info *info = ck_files_info(cp->files, file);
	struct timespec most = c->meta.mtime;

	most.tv_sec += TOLERANCE;
	return !ck_files_is_remote(cp->files, file) && !info->err &&
	       (info->mtime.tv_sec > most.tv_sec ||
		(info->mtime.tv_sec == most.tv_sec &&
		 info->mtime.tv_nsec > most.tv_nsec));
}

uint32_t ck_newer_file(const struct ck_checkpoint *cp,
		       const struct ck_catalog *c, uint32_t from)
{
	if (!cp->format->metadata || c->meta.mtime.tv_sec == 0)
		return CK_NO_FILE;
	while (from < c->files.n && !is_newer(cp, c, from))
		from++;
	return from < c->files.n ? from : CK_NO_FILE;
}

static const char *time_shown(time_t seconds)
{
	char text[32] = "?";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return ck_shown("%s", text);
}

void ck_newer_file_fault(const struct ck_checkpoint *cp,
			 const struct ck_catalog *c, uint32_t file,
			 struct ck_fault *out)
{
	*out = (struct ck_fault){
		.file = ck_catalog_file(c, file)->path,
		.what = CK_STR("is newer than .metadata: the save or copy may "
			       "be incomplete"),
		.expected =
			ck_shown("at most %s",
				 time_shown(c->meta.mtime.tv_sec + TOLERANCE)),
		.found = time_shown(
			ck_files_info(cp->files, file)->mtime.tv_sec),
	};
}

void ck_newer_print(const struct ck_checkpoint *cp, const struct ck_catalog *c,
		    struct ck_buf *out)
{
	uint32_t n = 0, file = ck_newer_file(cp, c, 0);

	for (; file != CK_NO_FILE; file = ck_newer_file(cp, c, file + 1), n++) {
		if (n >= NAMES)
			continue;
		ck_buf_text(out, n ? ", " : "newer than metadata: ");
		ck_buf_escaped(out, ck_catalog_file(c, file)->path);
	}
	if (n > NAMES)
		ck_buf_printf(out, " and %u more", n - NAMES);
	if (n)
		ck_buf_text(out, "\n");
}

/* --- a save without collectives ------------------------------------------------- */

/* The `__<rank>.metadata` files that are newer than `.metadata`. */
struct saves {
	int dirfd;
	struct timespec after;	/* mtime of `.metadata` */
	struct timespec newest; /* mtime of `name` */
	uint32_t n;
	char *name; /* the newest of them; owned. NULL if n is 0 */
};

static bool is_after(struct timespec a, struct timespec b)
{
	return a.tv_sec > b.tv_sec ||
	       (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

static int save_check(void *arg, const struct dirent *e)
{
	struct saves *s = arg;
	struct stat st;
	char *name;

	if (!ck_format_dcp_ranks.is_read(e->d_name) ||
	    fstatat(s->dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode) || !is_after(st.st_mtim, s->after))
		return 0;
	s->n++;
	if (s->name && !is_after(st.st_mtim, s->newest))
		return 0;
	name = strdup(e->d_name);
	if (!name)
		return -ENOMEM;
	free(s->name);
	s->name = name;
	s->newest = st.st_mtim;
	return 0;
}

void ck_newer_save_print(const struct ck_checkpoint *cp,
			 const struct ck_catalog *c, struct ck_buf *out,
			 char **file)
{
	struct saves s = { .dirfd = cp->dirfd, .after = c->meta.mtime };
	int64_t seconds;

	if (cp->format != &ck_format_dcp || cp->elsewhere || cp->no_local_dir ||
	    c->meta.mtime.tv_sec == 0)
		return;
	/* After an error, the files found so far are named. */
	(void)!ck_dir_each(ck_checkpoint_dir(cp), ENTRIES_MOST, save_check, &s);
	*file = s.name;
	if (!s.name)
		return;
	seconds = s.newest.tv_sec - s.after.tv_sec +
		  (s.newest.tv_nsec > s.after.tv_nsec);
	ck_buf_printf(out,
		      "a save without collectives beside .metadata, newer by "
		      "%jd s: %s",
		      (intmax_t)seconds, s.name);
	if (s.n > 1)
		ck_buf_printf(out, " and %u more", s.n - 1);
	ck_buf_text(out, "; .metadata is read, as PyTorch does; without it, in "
			 "a copy of the directory, the other save is");
}
