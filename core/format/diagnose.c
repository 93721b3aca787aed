/* SPDX-License-Identifier: MIT */
/*
 * diagnose: the message for a directory or file that no format reads. It names a save
 * that did not end, and checkpoints in directories below, because a user may have given
 * a directory above. The search is bounded, follows no links and enters no other file
 * system.
 */
#include "detect.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	ENTRIES_MOST = 20000, /* looked at, in all directories together */
	OPENS_MOST = 2000,    /* directories that are opened */
	LEVELS = 2,	      /* below the directory */
	NAMES = 8,	      /* shown */
	TEXT_MOST = 700,      /* bytes of a message after which none follows */
};

/* --- what there is -------------------------------------------------------------- */

struct place {
	char *name; /* relative to the directory; owned */
	unsigned level;
	bool is_checkpoint;
};

struct search {
	const struct ck_kinds *kinds;
	int dirfd;
	struct place *places; /* directories below, by levels */
	size_t n, cap;
	unsigned entries;
	bool is_empty;
	char saving[NAME_MAX + 1]; /* the first data file of DCP */
};

static bool ends_with(const char *name, const char *suffix)
{
	size_t len = strlen(name), end = strlen(suffix);

	return len >= end && strcmp(name + len - end, suffix) == 0;
}

static void note_file(struct search *s, const char *name)
{
	if (!*s->saving && ends_with(name, ".distcp"))
		snprintf(s->saving, sizeof(s->saving), "%s", name);
}

/* If memory is short, the directory is left out. */
static void note_directory(struct search *s, const char *above, unsigned level,
			   const char *name)
{
	struct place place = { .level = level };
	struct place *places;

	if (s->n >= OPENS_MOST)
		return;
	places = ck_grow(s->places, &s->cap, s->n, 1, sizeof(*places));
	if (!places)
		return;
	s->places = places;
	if (asprintf(&place.name, "%s%s%s", above, *above ? "/" : "", name) >=
	    0)
		s->places[s->n++] = place;
}

static void note_entry(struct search *s, const char *above, unsigned level,
		       const struct dirent *e)
{
	if (e->d_name[0] == '.')
		return;
	if (level == 0) {
		s->is_empty = false;
		note_file(s, e->d_name);
	}
	if (e->d_type == DT_DIR || e->d_type == DT_UNKNOWN)
		note_directory(s, above, level + 1, e->d_name);
}

static DIR *list_open(const struct search *s, const char *name)
{
	int fd = *name ? ck_open_beneath(s->dirfd, ck_str_from(name),
					 O_RDONLY | O_DIRECTORY | O_NONBLOCK,
					 CK_BENEATH_NO_SYMLINKS)
		       : ck_open_again(s->dirfd);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

static bool is_a_checkpoint(const struct search *s, int fd)
{
	const struct ck_src src = { .dirfd = fd, .brief = true };
	const struct ck_kind *kind;

	return ck_kind_find(s->kinds, &src, &kind, NULL) == 0;
}

/* True if the directory is a checkpoint; if not, its entries are recorded. */
static bool look_in(struct search *s, const char *name, unsigned level)
{
	DIR *dir = list_open(s, name);
	const struct dirent *e;
	bool is_checkpoint;

	if (!dir)
		return false;
	is_checkpoint = level > 0 && is_a_checkpoint(s, dirfd(dir));
	while (!is_checkpoint && level < LEVELS && s->entries < ENTRIES_MOST &&
	       (e = readdir(dir))) {
		s->entries++;
		note_entry(s, name, level, e);
	}
	closedir(dir);
	return is_checkpoint;
}

/* Level by level, so that near directories come first. */
static void search(struct search *s)
{
	look_in(s, "", 0);
	for (size_t i = 0; i < s->n; i++)
		s->places[i].is_checkpoint = look_in(s, s->places[i].name,
						     s->places[i].level);
}

static void search_fini(struct search *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->places[i].name);
	free(s->places);
}

/* --- the message ------------------------------------------------------------ */

static int place_cmp(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return ck_str_natural_cmp(ck_str_from(x->name), ck_str_from(y->name));
}

/* "; try DIR/a, DIR/b", whole names only. */
static void print_places(struct search *s, const char *path,
			 struct ck_buf *text)
{
	struct ck_str dir = ck_str_from(path);
	size_t shown = 0, all = 0;

	while (dir.len > 0 && dir.p[dir.len - 1] == '/')
		dir.len--;
	if (s->n)
		qsort(s->places, s->n, sizeof(*s->places), place_cmp);
	for (size_t i = 0; i < s->n; i++) {
		if (!s->places[i].is_checkpoint || all++ >= NAMES ||
		    text->len + dir.len > TEXT_MOST)
			continue;
		ck_buf_text(text, shown++ ? ", " : "; try ");
		ck_buf_escaped(text, dir);
		ck_buf_text(text, "/");
		ck_buf_escaped(text, ck_str_from(s->places[i].name));
	}
	if (shown < all)
		ck_buf_printf(text, "%s and %zu more", shown ? "" : "; try one",
			      all - shown);
}

int ck_say_what_is_here(const struct ck_kinds *kinds, int dirfd,
			const char *path, struct ck_diag *d)
{
	struct search s = { .kinds = kinds, .dirfd = dirfd, .is_empty = true };
	struct ck_buf text = { 0 };
	int rc;

	search(&s);
	if (s.saving[0]) {
		ck_buf_printf(&text, "no .metadata, but ");
		ck_buf_escaped(&text, ck_str_from(s.saving));
		ck_buf_text(&text, ": saving this checkpoint did not end, or "
				   "its .metadata is on another machine");
	} else {
		ck_buf_text(&text, "no checkpoint known here; expected "
				   ".metadata of "
				   "torch.distributed.checkpoint, "
				   "safetensors, or files of torch.save");
		ck_buf_text(&text, s.is_empty
					   ? ", found nothing"
					   : ", found nothing of a checkpoint");
	}
	print_places(&s, path, &text);
	rc = text.err ? ck_fail(d, ENOMEM, "out of memory")
		      : ck_fail(d, EBADMSG, "%s", text.data);
	ck_buf_fini(&text);
	search_fini(&s);
	return rc;
}

/* --- a file ------------------------------------------------------------------------ */

/* The container of torch.save until 2017. */
static bool is_tar(int fd)
{
	enum { MAGIC_AT = 257 };

	char magic[5];

	return ck_pread_full(fd, magic, sizeof(magic), MAGIC_AT) == 0 &&
	       memcmp(magic, "ustar", sizeof(magic)) == 0;
}

/* Names an unknown file by its name or its first bytes. */
static const char *file_words(int fd, const char *name)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_size == 0)
		return "an empty file";
	if (strcmp(name, ".metadata") == 0 || ends_with(name, ".distcp"))
		return "a part of a checkpoint; give its directory";
	if (is_tar(fd))
		return "a tar container, which is not read: load with torch "
		       "and save again";
	return "no checkpoint: it does not begin as files of safetensors or "
	       "of torch.save do";
}

int ck_say_what_file(const struct ck_src *src, struct ck_diag *d)
{
	ck_auto_fd int fd = ck_open_beneath(src->dirfd, ck_str_from(src->file),
					    O_RDONLY | O_NONBLOCK | O_NOCTTY,
					    CK_BENEATH_NO_SYMLINKS);

	if (fd < 0)
		return ck_fail(d, -fd, "%s", strerror(-fd));
	return ck_fail(d, EBADMSG, "%s", file_words(fd, src->file));
}
