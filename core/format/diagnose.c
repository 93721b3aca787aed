/* SPDX-License-Identifier: MIT */
/*
 * diagnose: messages for a directory, or file, in which no format finds a checkpoint. A
 * message names files of the directory, checkpoints in directories below it, and files of
 * programs that are known but not read. The search is bounded, follows no link, and enters no
 * other file system. Its state is local to one call; any thread may call the functions.
 */
#include "detect.h"
#include "format/load/load_names.h"
#include "format/ranks/ranks_kind.h"
#include "format/torch/torch_kind.h"
#include "warn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
	ENTRIES_MOST = 20000, /* entries of all directories together */
	OPENS_MOST = 2000,    /* directories that are opened */
	LEVELS = 3,	      /* levels of directories below the first one */
	NAMES = 8,	      /* names in a list of the message */
	FOUND_MOST = 350,     /* longest message, in bytes, to add a name to */
	TEXT_MOST = 700,      /* the same, to add a directory to */
};

/* --- the search ------------------------------------------------------------------ */

struct place {
	char *name; /* relative to the directory; owned */
	unsigned level;
	bool is_checkpoint;
	const char *program; /* that is known, but not read; or NULL */
};

struct search {
	const struct ck_kinds *kinds;
	int dirfd;
	struct place *places; /* directories below, by levels */
	size_t n, cap;
	unsigned entries;
	/* in the directory; of directories with a slash */
	struct ck_dir_names found;
	char saving[NAME_MAX + 1]; /* the first data file of DCP */
	char part[NAME_MAX + 1]; /* the first file with a name of torch.save */
};

static void keep_first(char kept[NAME_MAX + 1], const char *name)
{
	if (!*kept || strcmp(name, kept) < 0)
		snprintf(kept, NAME_MAX + 1, "%s", name);
}

/* If memory is short, the name is left out. */
static void note_name(struct search *s, const char *name, bool is_directory)
{
	const char *shown = is_directory ? ck_shown("%s/", name) : name;

	(void)!ck_dir_names_add(&s->found, shown);
	if (!is_directory && ck_name_ends(name, ".distcp"))
		keep_first(s->saving, name);
	if (!is_directory && ck_format_torch.is_part(name))
		keep_first(s->part, name);
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
	if (level == 0)
		note_name(s, e->d_name, e->d_type == DT_DIR);
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

/* Sets the fields of the place that name the kind of checkpoint in the directory. */
static void classify(const struct search *s, int fd, struct place *place)
{
	const struct ck_src src = { .dirfd = fd, .by_search = true };
	const struct ck_kind *kind;

	place->is_checkpoint = ck_kind_find(s->kinds, &src, &kind, NULL) == 0;
	if (!place->is_checkpoint)
		place->program = ck_producer_name(&src);
}

/* Classifies a directory below the first one. Records the entries of a directory that is no
 * known program's. Returns the place with the result. */
static struct place look_in(struct search *s, struct place place)
{
	DIR *dir = list_open(s, place.name);
	const struct dirent *e;

	if (!dir)
		return place;
	if (place.level > 0)
		classify(s, dirfd(dir), &place);
	while (!place.is_checkpoint && !place.program && place.level < LEVELS &&
	       s->entries < ENTRIES_MOST && (e = readdir(dir))) {
		s->entries++;
		note_entry(s, place.name, place.level, e);
	}
	closedir(dir);
	return place;
}

/* Searches level by level, so that near directories come first. */
static void search(struct search *s)
{
	char top[] = "";

	(void)look_in(s, (struct place){ .name = top });
	for (size_t i = 0; i < s->n; i++) {
		struct place place = look_in(s, s->places[i]);

		/* look_in() may have moved the array. */
		s->places[i] = place;
	}
	ck_dir_names_sort(&s->found);
}

static void search_fini(struct search *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->places[i].name);
	free(s->places);
	ck_dir_names_fini(&s->found);
}

/* --- a file ------------------------------------------------------------------------ */

/* True if the file is a tar container, which torch.save wrote until 2017. */
static bool is_tar(int fd)
{
	enum { MAGIC_AT = 257 };

	char magic[5];

	return ck_pread_full(fd, magic, sizeof(magic), MAGIC_AT) == 0 &&
	       memcmp(magic, "ustar", sizeof(magic)) == 0;
}

/* Describes a file that no format reads, by its size and first bytes. */
static const char *file_words(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && st.st_size == 0)
		return "an empty file";
	if (is_tar(fd))
		return "a tar container, which is not read: load with torch "
		       "and save again";
	return "no checkpoint: it does not begin as files of safetensors or "
	       "of torch.save do";
}

/* --- the message ------------------------------------------------------------------- */

static int place_cmp(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return ck_str_natural_cmp(ck_str_from(x->name), ck_str_from(y->name));
}

/* Appends "; try DIR/a, DIR/b" for checkpoints, or "; not read: DIR/a (Orbax)" for those of
 * programs that are not read. Names are never cut. */
static void print_places(const struct search *s, struct ck_str dir, bool read,
			 struct ck_buf *text)
{
	const char *words = read ? "; try " : "; not read: ";
	size_t shown = 0, all = 0;

	for (size_t i = 0; i < s->n; i++) {
		const struct place *p = &s->places[i];

		if (!(read ? p->is_checkpoint : p->program != NULL) ||
		    all++ >= NAMES || text->len + dir.len > TEXT_MOST)
			continue;
		ck_buf_text(text, shown++ ? ", " : words);
		ck_buf_escaped(text, dir);
		ck_buf_text(text, "/");
		ck_buf_escaped(text, ck_str_from(p->name));
		if (!read)
			ck_buf_printf(text, " (%s)", p->program);
	}
	if (shown < all)
		ck_buf_printf(text, "%s%s and %zu more", shown ? "" : words,
			      shown ? "" : "one", all - shown);
}

static void print_found(const struct search *s, struct ck_buf *text)
{
	size_t i = 0;

	ck_buf_text(text, s->found.n ? ", found nothing of a checkpoint: "
				     : ", found nothing");
	for (;
	     i < s->found.n && i < NAMES && (i == 0 || text->len < FOUND_MOST);
	     i++) {
		ck_buf_text(text, i ? ", " : "");
		ck_buf_text(text, ck_show(ck_str_from(s->found.all[i])));
	}
	if (i < s->found.n)
		ck_buf_printf(text, " and %s%zu more",
			      s->entries < ENTRIES_MOST ? "" : "at least ",
			      s->found.n - i);
}

/* Appends the type of the first file that has a name of torch.save. */
static void print_part(const struct search *s, struct ck_buf *text)
{
	ck_auto_fd int fd = ck_open_beneath(s->dirfd, ck_str_from(s->part),
					    O_RDONLY | O_NONBLOCK | O_NOCTTY,
					    CK_BENEATH_NO_SYMLINKS);

	if (fd < 0)
		return;
	ck_buf_text(text, "; ");
	ck_buf_text(text, ck_show(ck_str_from(s->part)));
	ck_buf_printf(text, ": %s", file_words(fd));
}

/* Appends the description of the directory itself. */
static void print_here(const struct search *s, struct ck_buf *text)
{
	if (s->saving[0]) {
		ck_buf_text(text, "no .metadata, but ");
		ck_buf_escaped(text, ck_str_from(s->saving));
		ck_buf_text(text, ": saving this checkpoint did not end, or "
				  "its .metadata is on another machine");
	} else {
		ck_buf_text(text, "no checkpoint known here; expected "
				  ".metadata of "
				  "torch.distributed.checkpoint, "
				  "safetensors, or files of torch.save");
		print_found(s, text);
	}
	if (s->part[0])
		print_part(s, text);
}

int ck_diagnose_directory(const struct ck_kinds *kinds, int dirfd,
			  const char *path, struct ck_diag *d)
{
	struct search s = { .kinds = kinds, .dirfd = dirfd };
	struct ck_str dir = ck_str_from(path);
	struct ck_buf text = { 0 };
	int rc;

	while (dir.len > 0 && dir.p[dir.len - 1] == '/')
		dir.len--;
	search(&s);
	if (s.n)
		qsort(s.places, s.n, sizeof(*s.places), place_cmp);
	print_here(&s, &text);
	print_places(&s, dir, true, &text);
	print_places(&s, dir, false, &text);
	rc = text.err ? ck_fail(d, ENOMEM, "out of memory")
		      : ck_fail(d, EBADMSG, "%s", text.data);
	ck_buf_fini(&text);
	search_fini(&s);
	return rc;
}

/* A few files of torch.save hide subdirectories: a trainer may keep only its own state in such
 * a file, and the models below it. */
int ck_subdirectories_note(const struct ck_checkpoint *cp, struct ck_catalog *c)
{
	struct search s = { .kinds = &ck_kinds, .dirfd = cp->dirfd };
	struct ck_buf line = { 0 };
	char top[] = "";
	int rc = 0;

	if (cp->file || cp->elsewhere ||
	    (cp->format != &ck_format_torch && cp->format != &ck_format_ranks))
		return 0;
	(void)look_in(&s, (struct place){ .name = top });
	if (s.n)
		qsort(s.places, s.n, sizeof(*s.places), place_cmp);
	for (size_t i = 0; i < s.n; i++) {
		s.places[i].level = LEVELS; /* not below */
		s.places[i] = look_in(&s, s.places[i]);
	}
	print_places(&s, ck_str_from(cp->path), true, &line);
	if (line.len)
		rc = ck_catalog_doubt_add(
			c, ck_shown("checkpoints in subdirectories are not "
				    "shown%s",
				    line.data));
	ck_buf_fini(&line);
	search_fini(&s);
	return rc;
}

bool ck_is_mount(int dirfd)
{
	struct statfs st;

	return fstatfs(dirfd, &st) == 0 && st.f_type == FUSE_SUPER_MAGIC &&
	       faccessat(dirfd, ".ckptfs/status", F_OK, 0) == 0;
}

/* --- a file that is given --------------------------------------------------------- */

static bool directory_is_one(const struct ck_src *src)
{
	const struct ck_src above = { .dirfd = src->dirfd, .by_search = true };
	const struct ck_kind *kind;

	return ck_kind_find(&ck_kinds, &above, &kind, NULL) == 0;
}

/* Appends the directory part of a path, as the user wrote it, or ".". */
static void print_directory(const char *path, struct ck_buf *text)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;

	if (slash == path)
		len = 1;
	ck_buf_escaped(text,
		       slash ? (struct ck_str){ path, len } : CK_STR("."));
}

bool ck_part_of_dcp(const char *file)
{
	return strcmp(file, ".metadata") == 0 || ck_name_ends(file, ".distcp");
}

int ck_diagnose_file(const struct ck_src *src, const char *path,
		     struct ck_diag *d)
{
	ck_auto_fd int fd = ck_open_beneath(src->dirfd, ck_str_from(src->file),
					    O_RDONLY | O_NONBLOCK | O_NOCTTY,
					    CK_BENEATH_NO_SYMLINKS);
	bool is_part = ck_part_of_dcp(src->file);
	struct ck_buf text = { 0 };
	int rc;

	if (fd < 0)
		return ck_fail(d, -fd, "%s", strerror(-fd));
	ck_buf_text(&text, is_part ? "a part of a checkpoint; give its "
				     "directory: "
				   : file_words(fd));
	if (!is_part && directory_is_one(src))
		ck_buf_text(&text, "; its directory is a checkpoint: try ");
	if (is_part || directory_is_one(src))
		print_directory(path, &text);
	rc = text.err ? ck_fail(d, ENOMEM, "out of memory")
		      : ck_fail(d, EBADMSG, "%s", text.data);
	ck_buf_fini(&text);
	return rc;
}
