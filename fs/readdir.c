/* SPDX-License-Identifier: MIT */
/*
 * readdir: a directory is a sequence of entries by position. The position is
 * the cookie, so cookies are stable and a listing may start at any of them.
 *
 * Positions: 0 is `.`, 1 is `..`, then the entries of the tree, then scratch
 * files by their numbers, then files/ in a root. Removed files leave a gap. No
 * state between two requests, no locks.
 */
#include "internal.h"
#include <errno.h>

#define TREE_AT	   2
/* no view has that many entries */
#define SCRATCH_AT ((uint64_t)1 << 48)
#define AREA_AT	   ((uint64_t)1 << 49)

/* d_ino where the number is not known, as in libfuse. */
#define UNKNOWN_INO 0xffffffff

/* A reply being filled. node and name are the current entry. */
struct listing {
	struct ck_fs *fs;
	struct ck_tree_list *list; /* owned */
	fuse_req_t req;
	bool plus; /* the reply has attributes */
	/* position of the current entry, or of the next one */
	uint64_t at;
	struct ck_node dir, node;
	struct ck_buf name;
	char *buf;
	size_t room, used;
	bool full;
};

static bool is_area(const struct listing *l)
{
	return ck_area_has(l->node.number);
}

/* Number and type only. In a reply with attributes inode 0 means so: for `.`
 * and `..`, which must not count as looked up, and for reports and objects,
 * which a listing must not make. */
static void entry_plain(const struct listing *l, struct fuse_entry_param *e)
{
	*e = (struct fuse_entry_param){ .ino = 0 };
	e->attr.st_ino = l->node.number ? l->node.number : UNKNOWN_INO;
	e->attr.st_mode = ck_node_is_dir(&l->node) ? S_IFDIR : S_IFREG;
	if (l->node.about.type == CK_TYPE_LINK)
		e->attr.st_mode = S_IFLNK;
}

/* With attributes: the node gets one more use. */
static int entry_full(struct listing *l, struct fuse_entry_param *e)
{
	struct ck_node_stat known;
	int rc;

	if (ck_node_is_scratch(&l->node))
		return ck_fs_entry(l->fs, &l->node, e);
	rc = ck_tree_list_stat(l->list, &l->node, &known);
	if (rc == 0)
		rc = ck_tree_list_use(l->list, &l->node);
	if (rc == 0)
		ck_fs_entry_fill(l->fs, &l->node, &known, e);
	return rc;
}

static bool is_plain(const struct listing *l)
{
	return l->at < TREE_AT || is_area(l) || l->node.about.made ||
	       (ck_node_is_dir(&l->node) ? !l->node.dir.view
					 : l->node.number == 0);
}

/* Returns the size of the entry. If it exceeds `room`, nothing is added. */
static size_t add_plain(const struct listing *l, size_t room)
{
	struct fuse_entry_param e;

	entry_plain(l, &e);
	return fuse_add_direntry(l->req, l->buf + l->used, room, l->name.data,
				 &e.attr, (off_t)(l->at + 1));
}

/* The same with attributes. An entry without room gets no use. */
static size_t add_full(struct listing *l, size_t room)
{
	size_t len = fuse_add_direntry_plus(l->req, NULL, 0, l->name.data, NULL,
					    0);
	struct fuse_entry_param e;

	if (len > room)
		return len;
	if (is_plain(l) || entry_full(l, &e))
		entry_plain(l, &e);
	return fuse_add_direntry_plus(l->req, l->buf + l->used, room,
				      l->name.data, &e, (off_t)(l->at + 1));
}

/* Adds the current entry and goes to the next, if there is room. */
static void entry_add(struct listing *l)
{
	size_t left = l->room - l->used;
	size_t len = l->plus ? add_full(l, left) : add_plain(l, left);

	l->full = len > left;
	if (l->full)
		return;
	l->used += len;
	l->at++;
}

static void add_named(struct listing *l, const struct ck_node *n,
		      const char *name)
{
	l->node = *n;
	l->name.len = 0;
	ck_buf_text(&l->name, name);
	if (l->name.err == 0)
		entry_add(l);
}

static int add_dots(struct listing *l)
{
	struct ck_node parent;
	int rc = 0;

	if (l->at == 0)
		add_named(l, &l->dir, ".");
	if (l->at == 1 && !l->full) {
		rc = ck_tree_parent(l->fs->tree, &l->dir, &parent);
		if (rc == 0)
			add_named(l, &parent, "..");
	}
	return rc ? rc : l->name.err;
}

static int add_tree(struct listing *l)
{
	int rc = 0;

	while (!l->full && l->at < SCRATCH_AT) {
		uint64_t at = l->at - TREE_AT;

		rc = ck_tree_list_next(l->list, &at, &l->node, &l->name);
		if (rc)
			break;
		l->at = at + TREE_AT;
		if (ck_whiteout_has(l->fs, &l->node))
			l->at++;
		else
			entry_add(l);
	}
	if (rc == -ENOENT)
		l->at = SCRATCH_AT;
	return rc == -ENOENT ? 0 : rc;
}

static int add_scratches(struct listing *l)
{
	uint64_t number;

	if (!l->fs->scratches || !ck_node_takes_files(&l->dir))
		return 0;
	while (!l->full) {
		number = l->at - SCRATCH_AT;
		l->name.len = 0;
		if (!ck_scratch_next(l->fs, &l->dir, &number, &l->name))
			break;
		if (l->name.err)
			return l->name.err;
		l->at = number + SCRATCH_AT;
		l->node = ck_node_of_scratch((uint32_t)number);
		entry_add(l);
	}
	return 0;
}

/* The numbers of files/ itself are those of the source. */
static int add_area(struct listing *l)
{
	struct ck_node area = { .about = { .type = CK_TYPE_DIR } };

	if (l->at > AREA_AT || !ck_area_is_in(l->fs, &l->dir, &area.number))
		return 0;
	l->at = AREA_AT;
	add_named(l, &area, CK_AREA_NAME);
	return l->name.err;
}

static int fill(struct listing *l)
{
	int rc = add_dots(l);

	if (rc == 0 && !l->full)
		rc = add_tree(l);
	if (rc == 0 && !l->full)
		rc = add_scratches(l);
	if (rc == 0 && !l->full)
		rc = add_area(l);
	return rc;
}

static int do_readdir(struct listing *l, fuse_ino_t ino)
{
	int rc = ck_node_find(l->fs, ino, &l->dir);

	if (rc)
		return rc;
	if (!ck_node_is_dir(&l->dir))
		return -ENOTDIR;
	l->buf = malloc(l->room ? l->room : 1);
	if (!l->buf)
		return -ENOMEM;
	rc = ck_tree_list(l->fs->tree, ino, &l->list);
	if (rc == 0)
		rc = fill(l);
	if (l->used)
		/* entries so far have uses; the next request fails */
		rc = 0;
	ck_tree_list_end(l->list);
	return rc;
}

static void reply_readdir(fuse_req_t req, fuse_ino_t ino, size_t size,
			  off_t off, bool plus)
{
	struct listing l = { .fs = fuse_req_userdata(req),
			     .req = req,
			     .plus = plus,
			     .at = (uint64_t)off,
			     .room = size };
	int rc = do_readdir(&l, ino);

	if (rc)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_buf(req, l.buf, l.used);
	free(l.buf);
	ck_buf_fini(&l.name);
}

void ck_fs_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	fuse_reply_open(req, fi);
}

void ck_fs_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino, (void)fi;
	fuse_reply_err(req, 0);
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
