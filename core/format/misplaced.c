/* SPDX-License-Identifier: MIT */
/*
 * misplaced: adds a note about data files that the metadata names in its own directory, but
 * that lie in a directory below. A tool that copies several replicas leaves such a tree. The
 * files are not read from there, because two directories may have files of the same name.
 *
 * The search is bounded and follows no link. It runs once, in the thread that opens the
 * checkpoint.
 */
#include "format/load/load_gather.h"
#include "kind.h"
#include "warn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	ENTRIES_MOST = 20000, /* entries of one directory that are read */
	OPENS_MOST = 1000,    /* directories that are opened */
	FILES_MOST = 1000,    /* missing files that are searched for */
	LEVELS = 2,	      /* levels of directories below the checkpoint's */
	NAMES = 4,	      /* names in the note */
};

struct search {
	const struct ck_checkpoint *cp;
	char **texts;	      /* paths of missing files, n of them; owned */
	const char **missing; /* their last components; in `texts` */
	size_t n;
	unsigned opens; /* directories opened so far */
	/* The first directory that has missing files; owned. NULL: not found. */
	char *where;
	bool has_metadata;   /* `where` has a metadata file, too */
	size_t found;	     /* number of missing files in `where` */
	struct ck_buf names; /* the first NAMES of these, for the note */
};

/* --- missing files ---------------------------------------------------------------- */

static int missing_add(struct search *s, struct ck_str path)
{
	char *text = strndup(path.p, path.len);
	const char *slash;

	if (!text)
		return -ENOMEM;
	slash = strrchr(text, '/');
	s->texts[s->n] = text;
	s->missing[s->n++] = slash ? slash + 1 : text;
	return 0;
}

static int missing_find(struct search *s)
{
	uint32_t files = ck_files_count(s->cp->files);
	int rc = 0;

	s->missing = calloc(FILES_MOST, sizeof(*s->missing));
	s->texts = calloc(FILES_MOST, sizeof(*s->texts));
	if (!s->missing || !s->texts)
		return -ENOMEM;
	for (uint32_t i = 0; i < files && s->n < FILES_MOST && rc == 0; i++) {
		const struct ck_file_info *info = ck_files_info(s->cp->files,
								i);

		if (ck_file_is_missing(info))
			rc = missing_add(s, info->path);
	}
	return rc;
}

/* --- the search -------------------------------------------------------------------- */

static bool is_there(int fd, const char *name)
{
	struct stat st;

	return *name && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode);
}

/* True if the metadata names this very file. */
static bool is_named(const struct search *s, const char *where,
		     const char *name)
{
	size_t above = strlen(where);

	for (uint32_t i = 0; i < ck_files_count(s->cp->files); i++) {
		struct ck_str path = ck_files_info(s->cp->files, i)->path;

		if (path.len == above + strlen(name) &&
		    memcmp(path.p, where, above) == 0 &&
		    memcmp(path.p + above, name, path.len - above) == 0)
			return true;
	}
	return false;
}

static void files_find(struct search *s, int fd, const char *where)
{
	for (size_t i = 0; i < s->n; i++) {
		if (!is_there(fd, s->missing[i]) ||
		    is_named(s, where, s->missing[i]))
			continue;
		if (s->found++ < NAMES) {
			ck_buf_text(&s->names, s->found > 1 ? ", " : "");
			ck_buf_escaped(&s->names, ck_str_from(s->missing[i]));
		}
	}
	if (!s->found)
		return;
	s->where = strdup(where);
	s->has_metadata = is_there(fd, ck_metadata_name(s->cp));
}

static int name_add(void *arg, const struct dirent *e)
{
	bool may = e->d_type == DT_DIR || e->d_type == DT_UNKNOWN;

	return may && e->d_name[0] != '.' ? ck_dir_names_add(arg, e->d_name)
					  : 0;
}

/* Searches the directories in fd, in natural order, then those below them. Stops at the first
 * one that has missing files. above: path of fd, with a slash at its end. */
static void look(struct search *s, int fd, const char *above, unsigned level)
{
	struct ck_dir_names names = { 0 };

	/* After an error, the entries read so far are searched. */
	(void)!ck_dir_each((struct ck_directory){ fd, NULL }, ENTRIES_MOST,
			   name_add, &names);
	ck_dir_names_sort(&names);
	for (unsigned pass = 0; pass < 2; pass++)
		for (size_t i = 0;
		     i < names.n && !s->found && s->opens < OPENS_MOST; i++) {
			ck_auto_free char *path = NULL;
			ck_auto_fd int dir = ck_open_beneath(
				fd, ck_str_from(names.all[i]),
				O_RDONLY | O_DIRECTORY | O_NONBLOCK,
				CK_BENEATH_NO_SYMLINKS);

			s->opens++;
			if (dir < 0 ||
			    asprintf(&path, "%s%s/", above, names.all[i]) < 0)
				continue;
			if (pass == 0)
				files_find(s, dir, path);
			else if (level < LEVELS)
				look(s, dir, path, level + 1);
		}
	ck_dir_names_fini(&names);
}

/* --- the message ------------------------------------------------------------------ */

static int note_add(const struct search *s, struct ck_catalog *c)
{
	struct ck_buf line = { 0 };
	int rc;

	ck_buf_text(&line, "misplaced files: ");
	ck_buf_text(&line, s->names.data);
	if (s->found > NAMES)
		ck_buf_printf(&line, " and %zu more", s->found - NAMES);
	ck_buf_printf(&line, " %s in ", s->found > 1 ? "lie" : "lies");
	ck_buf_escaped(&line, ck_str_from(s->where));
	ck_buf_printf(&line, ", not where %s names them: ",
		      ck_show(ck_str_from(ck_metadata_name(s->cp))));
	ck_buf_text(&line, s->has_metadata
				   ? "give that directory, which has its own"
				   : "move them there");
	rc = line.err || s->names.err ? -ENOMEM
				      : ck_catalog_doubt_add(c, line.data);
	ck_buf_fini(&line);
	return rc;
}

int ck_misplaced_note(const struct ck_checkpoint *cp, struct ck_catalog *c)
{
	struct search s = { .cp = cp };
	int rc = 0;

	if (!cp->file && !cp->elsewhere)
		rc = missing_find(&s);
	if (rc == 0 && s.n)
		look(&s, cp->dirfd, "", 1);
	if (rc == 0 && s.where)
		rc = note_add(&s, c);
	for (size_t i = 0; i < s.n; i++)
		free(s.texts[i]);
	free(s.texts);
	free(s.missing);
	free(s.where);
	ck_buf_fini(&s.names);
	return rc;
}
