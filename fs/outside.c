/* SPDX-License-Identifier: MIT */
/*
 * outside: scratch files that somebody may take for part of the checkpoint.
 * A name with a typo is a scratch file like any other, and gone with the mount:
 * so the log says, when one that holds bytes is closed, that it is no tensor's,
 * and which name is the nearest. `ckptfs commit` says it of all that there are,
 * `status` names them, and the log says what was dropped at the end.
 *
 * Tools have names that they rename in a moment. Of those the log says nothing
 * at a close; they count in all the rest.
 */
#include "scratch_internal.h"
#include <stdio.h>
#include <sys/stat.h>

enum {
	NAMES = 8,	   /* of those that are named in one line */
	ANSWER_MOST = 1900 /* bytes of an answer that sentences may fill */
};

/* --- the nearest name ------------------------------------------------------- */

static struct ck_str without_suffix(struct ck_str name, struct ck_str suffix)
{
	if (name.len > suffix.len &&
	    ck_str_eq((struct ck_str){ name.p + name.len - suffix.len,
				       suffix.len },
		      suffix))
		name.len -= suffix.len;
	return name;
}

/* Of two that are equally near, the first in natural order. */
static bool is_nearer(struct ck_str a, struct ck_str b, struct ck_str name,
		      size_t least)
{
	size_t n = ck_str_distance(a, name, least);

	return n < least || (n == least && b.p && ck_str_natural_cmp(a, b) < 0);
}

/* Appends the name of a file in the directory that somebody may have meant: what
 * has to be changed is at most a third. Nothing if there is none. */
static void print_nearest(const struct ck_fs *fs, const struct ck_node *dir,
			  struct ck_str name, struct ck_buf *out)
{
	struct ck_str file, suffix = ck_str_from(dir->dir.suffix);
	struct ck_buf buf = { 0 }, best = { 0 };
	struct ck_tree_list *list;
	struct ck_node n;
	size_t least;

	if (ck_tree_list(fs->tree, dir->number, &list))
		return;
	name = without_suffix(name, CK_STR(".npy"));
	name = without_suffix(name, CK_STR(".npz"));
	least = name.len / 3 + 1;
	for (uint64_t at = 0; ck_tree_list_next(list, &at, &n, &buf) == 0;
	     at++) {
		file = without_suffix((struct ck_str){ buf.data, buf.len },
				      suffix);
		if (!is_nearer(file, (struct ck_str){ best.data, best.len },
			       name, least))
			continue;
		least = ck_str_distance(file, name, least);
		best.len = 0;
		ck_buf_str(&best, file);
	}
	if (best.len && best.err == 0 && buf.err == 0) {
		ck_buf_escaped(out, (struct ck_str){ best.data, best.len });
		ck_buf_str(out, suffix);
	}
	ck_tree_list_end(list);
	ck_buf_fini(&buf);
	ck_buf_fini(&best);
}

void ck_nearest_print(const struct ck_fs *fs, const struct ck_node *dir,
		      const char *name, struct ck_buf *out)
{
	struct ck_buf nearest = { 0 };

	print_nearest(fs, dir, ck_str_from(name), &nearest);
	if (nearest.len) {
		ck_buf_text(out, ", the nearest is ");
		ck_buf_add(out, nearest.data, nearest.len);
	}
	ck_buf_fini(&nearest);
}

static void print_sentence(const struct ck_fs *fs, const struct ck_node *dir,
			   const char *name, struct ck_buf *out)
{
	ck_buf_text(out, "not part of the checkpoint: ");
	ck_dir_print(fs, dir, name, out);
	ck_buf_text(out, "; no tensor has the name");
	ck_nearest_print(fs, dir, name, out);
}

/* --- one, when it is closed -------------------------------------------------- */

/* Hidden names (rsync, editors), those of sed, and what people call so. */
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

void ck_scratch_closed(struct ck_fs *fs, struct ck_scratch *s)
{
	ck_auto_free char *name = NULL;
	struct ck_buf text = { 0 };
	struct ck_node dir;
	bool told;

	pthread_mutex_lock(&fs->scratches->lock);
	dir = s->dir;
	told = !s->told && holds_bytes(s) && !is_temporary(s->name);
	if (told) {
		s->told = true;
		name = strdup(s->name);
		ck_tree_hold(fs->tree, dir.number);
	}
	pthread_mutex_unlock(&fs->scratches->lock);
	if (name)
		print_sentence(fs, &dir, name, &text);
	if (text.err == 0 && text.len)
		ck_log("%s", text.data);
	if (told)
		ck_tree_forget(fs->tree, dir.number, 1);
	ck_buf_fini(&text);
}

/* --- all of them ---------------------------------------------------------------- */

struct outsider {
	char *name;	    /* owned */
	struct ck_node dir; /* in use */
	struct ck_buf path;
};

struct outsiders {
	struct outsider *all; /* in natural order of their paths */
	uint32_t n;
};

/* Under the lock. */
static void take_names(const struct ck_fs *fs, struct outsiders *out)
{
	const struct ck_scratches *all = fs->scratches;

	for (const struct ck_scratch *s = all->first; s; s = s->next) {
		struct outsider *o = &out->all[out->n];

		if (!holds_bytes(s))
			continue;
		*o = (struct outsider){ .name = strdup(s->name),
					.dir = s->dir };
		if (!o->name)
			continue;
		ck_tree_hold(fs->tree, o->dir.number);
		out->n++;
	}
}

static struct ck_str path_of(const struct outsider *o)
{
	return (struct ck_str){ o->path.data, o->path.len };
}

static int path_cmp(const void *a, const void *b)
{
	return ck_str_natural_cmp(path_of(a), path_of(b));
}

/* Without memory there seem to be less. */
static struct outsiders outsiders_find(struct ck_fs *fs)
{
	struct ck_scratches *all = fs->scratches;
	struct outsiders found = { 0 };

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

static void outsiders_fini(struct ck_fs *fs, struct outsiders *found)
{
	for (uint32_t i = 0; i < found->n; i++) {
		ck_tree_forget(fs->tree, found->all[i].dir.number, 1);
		free(found->all[i].name);
		ck_buf_fini(&found->all[i].path);
	}
	free(found->all);
}

/* "raw/a, full/b and 3 more" */
static void print_paths(const struct outsiders *found, struct ck_buf *out)
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
	struct outsiders found = outsiders_find(fs);

	ck_buf_printf(out, "scratch files: %u\n", found.n);
	if (found.n) {
		ck_buf_text(out, "scratch: ");
		print_paths(&found, out);
		ck_buf_text(out, "\n");
	}
	outsiders_fini(fs, &found);
}

void ck_scratches_dropped(struct ck_fs *fs)
{
	struct outsiders found = outsiders_find(fs);
	struct ck_buf names = { 0 };

	print_paths(&found, &names);
	if (found.n && names.err == 0)
		ck_log("dropped %u scratch file%s: %s", found.n,
		       found.n == 1 ? "" : "s", names.data);
	ck_buf_fini(&names);
	outsiders_fini(fs, &found);
}

void ck_scratches_print(struct ck_fs *fs, struct ck_buf *out)
{
	struct outsiders found = outsiders_find(fs);
	struct ck_buf text = { 0 };
	uint32_t i;

	for (i = 0; i < found.n && i < NAMES; i++) {
		text.len = 0;
		print_sentence(fs, &found.all[i].dir, found.all[i].name, &text);
		if (text.err || out->len + text.len > ANSWER_MOST)
			break;
		ck_buf_printf(out, "%s%s", out->len ? "; " : "", text.data);
	}
	if (i < found.n)
		ck_buf_printf(out, "; and %u more", found.n - i);
	ck_buf_fini(&text);
	outsiders_fini(fs, &found);
}
