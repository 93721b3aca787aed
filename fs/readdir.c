/* SPDX-License-Identifier: MIT */
/*
 * readdir: a directory is a row of entries by position; the position is the
 * cookie, so cookies are stable and any of them can be asked for. 0 is `.`,
 * 1 is `..`, then the directory's own, tensors in the checkpoint's order, then
 * scratch files by their numbers. What was removed leaves a gap in the row.
 */
#include "internal.h"
#include <errno.h>

/* One answer being filled. The entry at hand is in node and name. */
struct listing {
	struct ck_fs *fs;
	const struct ck_catalog *c; /* held */
	fuse_req_t req;
	bool plus;   /* with attributes */
	uint64_t at; /* position of the entry at hand, or of the next one */
	struct ck_node node;
	struct ck_buf name;
	char *buf;
	size_t room, used;
};

static bool entry_set(struct listing *l, enum ck_node_kind kind, uint64_t index,
		      const char *name)
{
	l->node = (struct ck_node){ .kind = kind, .index = (uint32_t)index };
	ck_buf_text(&l->name, name);
	return true;
}

static bool root_entry(struct listing *l, uint64_t i)
{
	if (i < ck_ntensor_views)
		return entry_set(l, CK_NODE_VIEW, i,
				 ck_tensor_views[i]->view.top);
	if (i == ck_ntensor_views)
		return entry_set(l, CK_NODE_LOCAL, 0, CK_LOCAL_DIR);
	if (i == ck_ntensor_views + 1)
		return entry_set(l, CK_NODE_OBJECTS, 0, CK_OBJECTS_DIR);
	if (i == ck_ntensor_views + 2)
		return entry_set(l, CK_NODE_CONTROL, 0, CK_CONTROL_DIR);
	return false;
}

static bool control_entry(struct listing *l, uint64_t i)
{
	if (i >= ck_fs_nreports)
		return false;
	return entry_set(l, CK_NODE_REPORT, i, ck_fs_reports[i].name);
}

/* From number `first` on. */
static bool scratch_entry(struct listing *l, const struct ck_node *dir,
			  uint64_t first)
{
	uint64_t number = first;

	if (!l->fs->scratches ||
	    !ck_scratch_next(l->fs, dir, &number, &l->name))
		return false;
	l->at += number - first;
	l->node = (struct ck_node){ .kind = CK_NODE_SCRATCH,
				    .tensor = (uint32_t)number };
	return true;
}

static bool view_entry(struct listing *l, const struct ck_node *dir, uint64_t i)
{
	if (i >= l->c->tensors.n)
		return scratch_entry(l, dir, i - l->c->tensors.n);
	l->node = (struct ck_node){ .kind = CK_NODE_TENSOR,
				    .index = dir->index,
				    .tensor = (uint32_t)i };
	ck_tensor_view_name(ck_tensor_views[dir->index], l->c, (uint32_t)i,
			    &l->name);
	return true;
}

static bool local_entry(struct listing *l, uint64_t i)
{
	if (i >= ck_local_count(l->fs->local))
		return false;
	l->node = (struct ck_node){ .kind = CK_NODE_OWNER,
				    .index = (uint32_t)i };
	ck_local_name(l->fs->local, l->c, (uint32_t)i, &l->name);
	return true;
}

static bool owner_entry(struct listing *l, const struct ck_node *dir,
			uint64_t i)
{
	const struct ck_local *local = l->fs->local;
	uint32_t boxes = ck_local_boxes(local, dir->index);
	uint32_t box;

	if (i >= boxes)
		return scratch_entry(l, dir, i - boxes);
	box = ck_local_box(local, dir->index, (uint32_t)i);
	l->node = (struct ck_node){ .kind = CK_NODE_BOX,
				    .index = box,
				    .tensor = ck_catalog_tensor_of(l->c, box) };
	ck_local_box_name(local, l->c, box, &l->name);
	return true;
}

static bool objects_entry(struct listing *l, uint64_t i)
{
	if (i / CK_OBJECT_FILES >= l->fs->counts.objects)
		return false;
	l->node = (struct ck_node){ .kind = CK_NODE_OBJECT,
				    .index = (uint32_t)(i % CK_OBJECT_FILES),
				    .tensor = (uint32_t)(i / CK_OBJECT_FILES) };
	ck_object_file_name(l->c, l->node.tensor, l->node.index, &l->name);
	return true;
}

/* `..`: everything else is in the root. */
static bool parent_entry(struct listing *l, const struct ck_node *dir)
{
	return entry_set(
		l, dir->kind == CK_NODE_OWNER ? CK_NODE_LOCAL : CK_NODE_ROOT, 0,
		"..");
}

/* Takes the entry at l->at at hand; false past the last. */
static bool dir_entry(struct listing *l, const struct ck_node *dir)
{
	uint64_t i = l->at;

	l->name.len = 0;
	if (i == 0)
		return entry_set(l, dir->kind, dir->index, ".");
	if (i == 1)
		return parent_entry(l, dir);
	switch (dir->kind) {
	case CK_NODE_ROOT: return root_entry(l, i - 2);
	case CK_NODE_CONTROL: return control_entry(l, i - 2);
	case CK_NODE_VIEW: return view_entry(l, dir, i - 2);
	case CK_NODE_LOCAL: return local_entry(l, i - 2);
	case CK_NODE_OWNER: return owner_entry(l, dir, i - 2);
	case CK_NODE_OBJECTS: return objects_entry(l, i - 2);
	case CK_NODE_OBJECT:
	case CK_NODE_REPORT:
	case CK_NODE_TENSOR:
	case CK_NODE_SCRATCH:
	case CK_NODE_BOX: break;
	}
	return false;
}

/* Number and type only. In an answer with attributes inode 0 says so: for `.`
 * and `..`, which must not count as looked up, and for reports and objects,
 * since a listing is no reason to make them. */
static void entry_plain(const struct listing *l, struct fuse_entry_param *e)
{
	struct ck_node present = l->node;

	present.version = ck_node_version_in(l->c, &present);
	*e = (struct fuse_entry_param){ .ino = 0 };
	e->attr.st_ino = ck_node_number(l->fs, &present);
	e->attr.st_mode = ck_node_is_dir(&l->node) ? S_IFDIR : S_IFREG;
}

/* Its size is known only when it is made. */
static bool is_made(const struct ck_node *n)
{
	return n->kind == CK_NODE_REPORT || n->kind == CK_NODE_OBJECT;
}

/* Adds what is at hand, with cookie `next`; false when there is no room. */
static bool entry_add(struct listing *l, uint64_t next)
{
	size_t left = l->room - l->used;
	struct fuse_entry_param e;
	size_t len;

	if (next <= 2 || is_made(&l->node) || !l->plus)
		entry_plain(l, &e);
	else if (ck_fs_entry(l->fs, &l->node, &e))
		return false;
	if (l->plus)
		len = fuse_add_direntry_plus(l->req, l->buf + l->used, left,
					     l->name.data, &e, (off_t)next);
	else
		len = fuse_add_direntry(l->req, l->buf + l->used, left,
					l->name.data, &e.attr, (off_t)next);
	if (len > left)
		return false;
	l->used += len;
	return true;
}

static int do_readdir(struct listing *l, fuse_ino_t ino, uint64_t first)
{
	struct ck_node dir;

	if (!ck_node_find(l->fs, ino, &dir) || !ck_node_is_dir(&dir))
		return -ENOTDIR;
	l->buf = malloc(l->room ? l->room : 1);
	if (!l->buf)
		return -ENOMEM;
	for (l->at = first; dir_entry(l, &dir); l->at++) {
		if (l->name.err)
			return l->name.err;
		if (!ck_node_hidden(l->fs, &l->node) &&
		    !entry_add(l, l->at + 1))
			break;
	}
	return 0;
}

static void reply_readdir(fuse_req_t req, fuse_ino_t ino, size_t size,
			  off_t off, bool plus)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	struct listing l = {
		.fs = fs, .c = c, .req = req, .plus = plus, .room = size
	};
	int rc = do_readdir(&l, ino, (uint64_t)off);

	if (rc)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_buf(req, l.buf, l.used);
	free(l.buf);
	ck_buf_fini(&l.name);
}

void ck_fs_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		   struct fuse_file_info *fi)
{
	(void)fi;
	reply_readdir(req, ino, size, off, false);
}

void ck_fs_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	(void)fi;
	reply_readdir(req, ino, size, off, true);
}
