/* SPDX-License-Identifier: MIT */
/*
 * scratch_warn: warnings about scratch files, which a user may take for
 * tensors. A misspelled name of a tensor makes a scratch file, which ends with
 * the mount.
 *
 * A line is logged when a file that holds bytes is closed. `ckptfs commit` and
 * `status` list those files, and the log lists those that the end of the mount
 * drops. Temporary names of tools, which are renamed soon, are not logged at a
 * close.
 *
 * No state but `logged` of each scratch file. Any thread.
 */
#include "scratch_internal.h"
#include <stdio.h>
#include <sys/stat.h>

enum {
	NAMES = 8,	   /* files that one line lists */
	ANSWER_MOST = 1900 /* bytes of a reply for these sentences */
};

#define NOT_PART "not part of the checkpoint: %s; no tensor has the name"

/* --- at a close ----------------------------------------------------------- */

/* Hidden names (rsync, editors), those of sed, and common temporary ones. */
static bool is_temporary(const char *name)
{
	size_t len = strlen(name);

	return name[0] == '.' || name[len - 1] == '~' ||
	       (len > 4 && strcmp(name + len - 4, ".tmp") == 0) ||
	       (len == 9 && strncmp(name, "sed", 3) == 0);
}

/* Under the lock. */
static bool holds_bytes(const struct ck_scratch *s)
{
	struct stat st;

	return s->name && fstat(s->fd, &st) == 0 && st.st_size > 0;
}

void ck_scratch_warn(struct ck_fs *fs, struct ck_scratch *s)
{
	struct ck_buf path = { 0 };
	bool logs;

	pthread_mutex_lock(&fs->scratches->lock);
	logs = !s->logged && holds_bytes(s) && !is_temporary(s->name);
	if (logs)
		s->logged = true;
	pthread_mutex_unlock(&fs->scratches->lock);
	if (logs)
		ck_scratch_print(fs, s, &path);
	if (path.err == 0 && path.len)
		ck_log(NOT_PART, path.data);
	ck_buf_fini(&path);
}

/* --- the tree ------------------------------------------------------------- */

struct named_file {
	char *name;	    /* owned */
	struct ck_node dir; /* kept in use */
	struct ck_buf path;
};

struct named_files {
	struct named_file *all; /* in natural order of their paths */
	uint32_t n;
};

/* Under the lock. */
static void take_names(const struct ck_fs *fs, struct named_files *out)
{
	const struct ck_scratches *all = fs->scratches;

	for (const struct ck_scratch *s = all->first; s; s = s->next) {
		struct named_file *o = &out->all[out->n];

		if (!holds_bytes(s))
			continue;
		*o = (struct named_file){ .name = strdup(s->name),
					  .dir = s->dir };
		if (!o->name)
			continue;
		ck_tree_hold(fs->tree, o->dir.number);
		out->n++;
	}
}

static struct ck_str path_of(const struct named_file *o)
{
	return (struct ck_str){ o->path.data, o->path.len };
}

static int path_cmp(const void *a, const void *b)
{
	return ck_str_natural_cmp(path_of(a), path_of(b));
}

/* Without memory the list is incomplete. */
static struct named_files named_files_find(struct ck_fs *fs)
{
	struct ck_scratches *all = fs->scratches;
	struct named_files found = { 0 };

	pthread_mutex_lock(&all->lock);
	found.all = calloc(all->count + 1, sizeof(*found.all));
	if (found.all)
		take_names(fs, &found);
	pthread_mutex_unlock(&all->lock);
	for (uint32_t i = 0; i < found.n; i++)
		ck_dir_print(fs, &found.all[i].dir, found.all[i].name,
			     &found.all[i].path);
	if (found.n)
		qsort(found.all, found.n, sizeof(*found.all), path_cmp);
	return found;
}

static void named_files_fini(struct ck_fs *fs, struct named_files *found)
{
	for (uint32_t i = 0; i < found->n; i++) {
		ck_tree_forget(fs->tree, found->all[i].dir.number, 1);
		free(found->all[i].name);
		ck_buf_fini(&found->all[i].path);
	}
	free(found->all);
}

/* "raw/a, full/b and 3 more" */
static void print_paths(const struct named_files *found, struct ck_buf *out)
{
	uint32_t n = found->n > NAMES ? NAMES : found->n;

	for (uint32_t i = 0; i < n; i++) {
		ck_buf_text(out, i ? ", " : "");
		ck_buf_listed(out, path_of(&found->all[i]));
	}
	if (n < found->n)
		ck_buf_printf(out, " and %u more", found->n - n);
}

void ck_scratches_status(struct ck_fs *fs, struct ck_buf *out)
{
	struct named_files found = named_files_find(fs);

	ck_buf_printf(out, "scratch files: %u\n", found.n);
	if (found.n) {
		ck_buf_text(out, "scratch: ");
		print_paths(&found, out);
		ck_buf_text(out, "\n");
	}
	named_files_fini(fs, &found);
}

void ck_scratches_dropped(struct ck_fs *fs)
{
	struct named_files found = named_files_find(fs);
	struct ck_buf names = { 0 };

	print_paths(&found, &names);
	if (found.n && names.err == 0)
		ck_log("dropped %u scratch file%s: %s", found.n,
		       found.n == 1 ? "" : "s", names.data);
	ck_buf_fini(&names);
	named_files_fini(fs, &found);
}

void ck_scratches_print(struct ck_fs *fs, struct ck_buf *out)
{
	struct named_files found = named_files_find(fs);
	struct ck_buf text = { 0 };
	uint32_t i;

	for (i = 0; i < found.n && i < NAMES; i++) {
		text.len = 0;
		if (found.all[i].path.err == 0)
			ck_buf_printf(&text, NOT_PART, found.all[i].path.data);
		if (text.err || out->len + text.len > ANSWER_MOST)
			break;
		ck_buf_printf(out, "%s%s", out->len ? "; " : "", text.data);
	}
	if (i < found.n)
		ck_buf_printf(out, "; and %u more", found.n - i);
	ck_buf_fini(&text);
	named_files_fini(fs, &found);
}
