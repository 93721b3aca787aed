/* SPDX-License-Identifier: MIT */
/*
 * scratch_names: where scratch files are in the tree. The name of one is free
 * for another as soon as it is removed or moved; the file stays as long as it is
 * open.
 */
#include "scratch_internal.h"
#include <errno.h>

#define NAME_LONGEST 255

static struct ck_scratch *by_name(const struct ck_scratches *all,
				  fuse_ino_t dir, const char *name)
{
	struct ck_scratch *s = all->first;

	while (s && (!s->name || s->dir != dir || strcmp(s->name, name) != 0))
		s = s->next;
	return s;
}

const char *ck_dir_suffix(const struct ck_node *dir)
{
	return dir->kind == CK_NODE_VIEW ? ck_tensor_views[dir->index]->view.suffix
					 : ".npy";
}

void ck_dir_print(const struct ck_fs *fs, const struct ck_node *dir,
		  const char *name, struct ck_buf *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	struct ck_buf owner = { 0 };

	if (dir->kind == CK_NODE_VIEW) {
		ck_buf_text(out, ck_tensor_views[dir->index]->view.top);
	} else {
		ck_local_name(fs->local, c, dir->index, &owner);
		ck_buf_text(out, CK_LOCAL_DIR "/");
		ck_buf_escaped(out, (struct ck_str){ owner.data, owner.len });
		ck_buf_fini(&owner);
	}
	ck_buf_text(out, "/");
	ck_buf_escaped(out, ck_str_from(name));
}

static void refuse_new(const struct ck_fs *fs, const struct ck_node *dir,
		       const char *name)
{
	struct ck_buf path = { 0 }, nearest = { 0 };

	ck_dir_print(fs, dir, name, &path);
	ck_nearest_print(fs, dir, name, &nearest);
	ck_log("%s: no tensor of this checkpoint; none can be added%s",
	       path.data ? path.data : "a new file",
	       nearest.data ? nearest.data : "");
	ck_buf_fini(&path);
	ck_buf_fini(&nearest);
}

/* A name that ends as a tensor's would be taken for a new one, but for the
 * hidden ones of tools. */
int ck_scratch_name_check(struct ck_fs *fs, const struct ck_node *dir,
			  const char *name)
{
	const char *suffix = ck_dir_suffix(dir);
	size_t len = strlen(name), end = strlen(suffix);

	if (len > NAME_LONGEST)
		return -ENAMETOOLONG;
	if (end == 0 || name[0] == '.' || len < end ||
	    strcmp(name + len - end, suffix) != 0)
		return 0;
	refuse_new(fs, dir, name);
	return -EPERM;
}

int ck_scratch_find(const struct ck_fs *fs, const struct ck_node *dir,
		    const char *name, uint32_t *number)
{
	struct ck_scratches *all = fs->scratches;
	const struct ck_scratch *s;

	pthread_mutex_lock(&all->lock);
	s = by_name(all, ck_node_number(fs, dir), name);
	if (s)
		*number = s->number;
	pthread_mutex_unlock(&all->lock);
	return s ? 0 : -ENOENT;
}

bool ck_scratch_next(const struct ck_fs *fs, const struct ck_node *dir,
		     uint64_t *number, struct ck_buf *name)
{
	struct ck_scratches *all = fs->scratches;
	fuse_ino_t in = ck_node_number(fs, dir);
	const struct ck_scratch *found = NULL;

	pthread_mutex_lock(&all->lock);
	for (const struct ck_scratch *s = all->first; s && s->number >= *number;
	     s = s->next)
		if (s->name && s->dir == in)
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
		free(s->name);
		s->name = NULL;
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
		free(s->name);
		s->name = copy;
		s->told = false;
		s->dir = ck_node_number(fs, dir);
		ck_scratch_now(&s->attr.st_ctim);
	}
	pthread_mutex_unlock(&all->lock);
	if (!s)
		free(copy);
	return s ? 0 : -ENOENT;
}
