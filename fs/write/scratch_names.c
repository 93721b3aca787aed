/* SPDX-License-Identifier: MIT */
/*
 * scratch_names: names of scratch files. A name is free for another file after
 * a removal or rename; the file itself exists as long as it is open.
 * ck_scratches.lock protects names.
 */
#include "scratch_internal.h"
#include <errno.h>

#define NAME_LONGEST 255

static struct ck_scratch *by_name(const struct ck_scratches *all,
				  const struct ck_node *dir, const char *name)
{
	struct ck_scratch *s = all->first;

	while (s && (!s->name || s->dir.place != dir->place ||
		     strcmp(s->name, name) != 0))
		s = s->next;
	return s;
}

void ck_dir_print(const struct ck_fs *fs, const struct ck_node *dir,
		  const char *name, struct ck_buf *out)
{
	struct ck_buf path = { 0 };

	if (ck_tree_path(fs->tree, dir, &path) == 0)
		ck_buf_escaped(out, (struct ck_str){ path.data, path.len });
	ck_buf_text(out, "/");
	ck_buf_escaped(out, ck_str_from(name));
	ck_buf_fini(&path);
}

void ck_scratch_print(struct ck_fs *fs, struct ck_scratch *s,
		      struct ck_buf *out)
{
	ck_auto_free char *name = NULL;
	struct ck_node dir;

	pthread_mutex_lock(&fs->scratches->lock);
	dir = s->dir;
	name = s->name ? strdup(s->name) : NULL;
	if (name)
		ck_tree_hold(fs->tree, dir.number);
	pthread_mutex_unlock(&fs->scratches->lock);
	if (!name)
		return;
	ck_dir_print(fs, &dir, name, out);
	ck_tree_forget(fs->tree, dir.number, 1);
}

static int refuse_new(const struct ck_fs *fs, const struct ck_node *dir,
		      const char *name, bool hidden)
{
	struct ck_buf path = { 0 };

	ck_dir_print(fs, dir, name, &path);
	ck_log("%s: %s; none can be added",
	       path.data ? path.data : "a new file",
	       hidden ? "a tensor that options only= and exclude= hide"
		      : "no tensor of this checkpoint");
	ck_buf_fini(&path);
	return -EPERM;
}

/* True if a file of this name would be that of an entry that is not selected. */
static bool is_hidden(const struct ck_fs *fs, const char *name, size_t stem)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	return ck_catalog_find_hidden(c, (struct ck_str){ name, stem }) >= 0;
}

/* A name with the suffix of tensors would look like a new tensor. Hidden names
 * of tools may have it. */
int ck_scratch_name_check(struct ck_fs *fs, const struct ck_node *dir,
			  const char *name)
{
	const char *suffix = dir->dir.suffix;
	size_t len = strlen(name), end = strlen(suffix);

	if (len > NAME_LONGEST)
		return -ENAMETOOLONG;
	if (len < end || strcmp(name + len - end, suffix) != 0)
		return 0;
	if (is_hidden(fs, name, len - end))
		return refuse_new(fs, dir, name, true);
	return end == 0 || name[0] == '.' ? 0
					  : refuse_new(fs, dir, name, false);
}

int ck_scratch_find(const struct ck_fs *fs, const struct ck_node *dir,
		    const char *name, uint32_t *number)
{
	struct ck_scratches *all = fs->scratches;
	const struct ck_scratch *s;

	pthread_mutex_lock(&all->lock);
	s = by_name(all, dir, name);
	if (s)
		*number = s->number;
	pthread_mutex_unlock(&all->lock);
	return s ? 0 : -ENOENT;
}

bool ck_scratch_next(const struct ck_fs *fs, const struct ck_node *dir,
		     uint64_t *number, struct ck_buf *name)
{
	struct ck_scratches *all = fs->scratches;
	const struct ck_scratch *found = NULL;

	pthread_mutex_lock(&all->lock);
	for (const struct ck_scratch *s = all->first; s && s->number >= *number;
	     s = s->next)
		if (s->name && s->dir.place == dir->place)
			found = s;
	if (found) {
		*number = found->number;
		ck_buf_text(name, found->name);
	}
	pthread_mutex_unlock(&all->lock);
	return found;
}

void ck_scratch_remove(struct ck_fs *fs, uint32_t number)
{
	struct ck_scratches *all = fs->scratches;
	struct ck_scratch *s;

	pthread_mutex_lock(&all->lock);
	s = ck_scratch_by_number(all, number);
	if (s) {
		ck_scratch_unname(fs, s);
		ck_scratch_settle(all, s);
	}
	pthread_mutex_unlock(&all->lock);
}

int ck_scratch_move(struct ck_fs *fs, uint32_t number,
		    const struct ck_node *dir, const char *name)
{
	struct ck_scratches *all = fs->scratches;
	char *copy = strdup(name);
	struct ck_scratch *s;

	if (!copy)
		return -ENOMEM;
	pthread_mutex_lock(&all->lock);
	s = ck_scratch_by_number(all, number);
	if (s) {
		ck_tree_hold(fs->tree, dir->number);
		ck_scratch_unname(fs, s);
		s->name = copy;
		s->logged = false;
		s->dir = *dir;
		ck_scratch_now(&s->attr.st_ctim);
	}
	pthread_mutex_unlock(&all->lock);
	if (!s)
		free(copy);
	return s ? 0 : -ENOENT;
}
