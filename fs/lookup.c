/* SPDX-License-Identifier: MIT */
/*
 * lookup: names to nodes, attributes, and the size of it all. Answers carry
 * long timeouts, also "no such name": names change by requests of the same
 * kernel only. On a mount for writing a name of a tensor or box leads to a new
 * inode after a commit, so it is good for a second at most; the attributes of an
 * inode, which is one version, are good for long. Looked up anew each time are live
 * reports, since that is the moment their snapshot is made, and scratch files:
 * the name of one may be a tensor's after a rename.
 */
#include "internal.h"
#include <errno.h>
#include <sys/statvfs.h>

#define BLOCK 4096

static int root_lookup(const char *name, struct ck_node *out)
{
	if (strcmp(name, CK_CONTROL_DIR) == 0) {
		out->kind = CK_NODE_CONTROL;
		return 0;
	}
	if (strcmp(name, CK_OBJECTS_DIR) == 0) {
		out->kind = CK_NODE_OBJECTS;
		return 0;
	}
	if (strcmp(name, CK_LOCAL_DIR) == 0) {
		out->kind = CK_NODE_LOCAL;
		return 0;
	}
	for (uint32_t i = 0; i < ck_ntensor_views; i++)
		if (strcmp(name, ck_tensor_views[i]->view.top) == 0) {
			out->kind = CK_NODE_VIEW;
			out->index = i;
			return 0;
		}
	return -ENOENT;
}

static int control_lookup(const char *name, struct ck_node *out)
{
	for (uint32_t i = 0; i < ck_fs_nreports; i++)
		if (strcmp(name, ck_fs_reports[i].name) == 0) {
			out->kind = CK_NODE_REPORT;
			out->index = i;
			return 0;
		}
	return -ENOENT;
}

static int owner_lookup(const struct ck_fs *fs, const char *name,
			struct ck_node *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	out->kind = CK_NODE_OWNER;
	return ck_local_find(fs->local, c, ck_str_from(name), &out->index);
}

static int box_lookup(const struct ck_fs *fs, uint32_t owner, const char *name,
		      struct ck_node *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	int rc = ck_local_box_find(fs->local, c, owner, ck_str_from(name),
				   &out->index);

	if (rc)
		return rc;
	out->kind = CK_NODE_BOX;
	out->tensor = ck_catalog_tensor_of(c, out->index);
	return 0;
}

static int tensor_lookup(const struct ck_fs *fs, const struct ck_node *dir,
			 const char *name, struct ck_node *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	out->kind = CK_NODE_TENSOR;
	out->index = dir->index;
	return ck_tensor_view_lookup(ck_tensor_views[dir->index], c,
				     ck_str_from(name), &out->tensor);
}

static int object_lookup(const struct ck_fs *fs, const char *name,
			 struct ck_node *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	out->kind = CK_NODE_OBJECT;
	return ck_object_file_find(c, ck_str_from(name), &out->tensor,
				   &out->index);
}

static int node_lookup(const struct ck_fs *fs, const struct ck_node *dir,
		       const char *name, struct ck_node *out)
{
	*out = (struct ck_node){ .kind = CK_NODE_ROOT };
	switch (dir->kind) {
	case CK_NODE_ROOT: return root_lookup(name, out);
	case CK_NODE_CONTROL: return control_lookup(name, out);
	case CK_NODE_LOCAL: return owner_lookup(fs, name, out);
	case CK_NODE_OWNER: return box_lookup(fs, dir->index, name, out);
	case CK_NODE_OBJECTS: return object_lookup(fs, name, out);
	case CK_NODE_OBJECT:
	case CK_NODE_VIEW: break;
	case CK_NODE_REPORT:
	case CK_NODE_TENSOR:
	case CK_NODE_SCRATCH:
	case CK_NODE_BOX: return -ENOTDIR;
	}
	return tensor_lookup(fs, dir, name, out);
}

int ck_fs_name(const struct ck_fs *fs, const struct ck_node *dir,
	       const char *name, struct ck_node *out)
{
	int rc = node_lookup(fs, dir, name, out);

	if (rc != -ENOENT || !ck_node_has_tensors(dir) || !fs->scratches)
		return rc;
	*out = (struct ck_node){ .kind = CK_NODE_SCRATCH };
	return ck_scratch_find(fs, dir, name, &out->tensor);
}

static int report_size(struct ck_fs *fs, uint32_t report, bool renew,
		       uint64_t *size)
{
	struct ck_snapshot *text;
	int rc = ck_snapshots_get(fs->reports, report, renew, &text);

	if (rc)
		return rc;
	*size = text->text.len;
	ck_snapshot_put(text);
	return 0;
}

/* How long a name is good. tensors: it is one of a tensor or box, or could be. */
static double name_timeout(const struct ck_fs *fs, bool tensors)
{
	return fs->writer && tensors ? fs->name_timeout : CK_TIMEOUT;
}

/* Who may read a file turns out only when all its data files were seen; what
 * an entry is, perhaps when its file is back. */
static double attr_timeout(const struct ck_fs *fs, const struct ck_node *n,
			   uint64_t size)
{
	if (!ck_node_is_dir(n) && !ck_checkpoint_is_seen(fs->cp))
		return 0;
	if (n->kind == CK_NODE_OBJECT && size == 0)
		return 0;
	return n->kind == CK_NODE_SCRATCH ? 0 : CK_TIMEOUT;
}

int ck_fs_entry(struct ck_fs *fs, const struct ck_node *n,
		struct fuse_entry_param *out)
{
	bool live = (n->kind == CK_NODE_REPORT &&
		     ck_fs_reports[n->index].live) ||
		    n->kind == CK_NODE_SCRATCH;
	struct ck_node present = *n;
	uint64_t size = 0;
	int rc = 0;

	if (n->kind == CK_NODE_REPORT)
		rc = report_size(fs, n->index, true, &size);
	if (n->kind == CK_NODE_OBJECT)
		rc = ck_object_file_size(fs->cp, n->tensor, n->index, &size);
	if (rc)
		return rc;
	present.version = ck_node_version(fs, n);
	*out = (struct fuse_entry_param){
		.ino = ck_node_number(fs, &present),
		.attr_timeout = live ? 0 : attr_timeout(fs, n, size),
		.entry_timeout = live ? 0
				      : name_timeout(fs, ck_node_is_tensor(n)),
	};
	if (n->kind == CK_NODE_SCRATCH)
		return ck_scratch_stat(fs, n->tensor, &out->attr);
	ck_node_stat(fs, &present, size, &out->attr);
	return 0;
}

/* Inode 0 means: no such name, and remember it. */
static void no_entry(const struct ck_fs *fs, const struct ck_node *dir,
		     struct fuse_entry_param *out)
{
	bool tensors = dir->kind == CK_NODE_VIEW || dir->kind == CK_NODE_OWNER;

	*out = (struct fuse_entry_param){
		.entry_timeout = name_timeout(fs, tensors),
	};
}

static int do_lookup(struct ck_fs *fs, fuse_ino_t parent, const char *name,
		     struct fuse_entry_param *out)
{
	struct ck_node dir, n;
	int rc;

	if (!ck_node_find(fs, parent, &dir))
		return -ENOENT;
	rc = ck_fs_name(fs, &dir, name, &n);
	if (rc == -ENOENT || (rc == 0 && ck_node_hidden(fs, &n))) {
		no_entry(fs, &dir, out);
		return 0;
	}
	if (rc)
		return rc;
	return ck_fs_entry(fs, &n, out);
}

void ck_fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct fuse_entry_param e;
	int rc;

	if (fs->writer)
		ck_turn_renew(fs->turns, fuse_req_ctx(req)->pid);
	rc = do_lookup(fs, parent, name, &e);
	if (rc)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_entry(req, &e);
}

static int do_getattr(struct ck_fs *fs, fuse_ino_t ino, struct stat *st,
		      double *timeout)
{
	struct ck_node n;
	uint64_t size = 0;
	int rc = 0;

	if (!ck_node_find(fs, ino, &n))
		return -ENOENT;
	*timeout = 0;
	if (n.kind == CK_NODE_SCRATCH)
		return ck_scratch_stat(fs, n.tensor, st);
	/* Not renewed: the size must stay that of the lookup. */
	if (n.kind == CK_NODE_REPORT)
		rc = report_size(fs, n.index, false, &size);
	if (n.kind == CK_NODE_OBJECT)
		rc = ck_object_file_size(fs->cp, n.tensor, n.index, &size);
	if (rc)
		return rc;
	(void)!ck_access_look(fs, &n); /* as it is known, then */
	if (n.kind != CK_NODE_REPORT || !ck_fs_reports[n.index].live)
		*timeout = attr_timeout(fs, &n, size);
	ck_node_stat(fs, &n, size, st);
	return 0;
}

void ck_fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;
	double timeout;
	int rc = do_getattr(fuse_req_userdata(req), ino, &st, &timeout);

	(void)fi;
	if (rc)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_attr(req, &st, timeout);
}

/* --- how large it is ------------------------------------------------------ */

static uint64_t times(uint64_t a, uint64_t b)
{
	uint64_t product;

	return ck_mul(&product, a, b) ? product : UINT64_MAX;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return ck_add(&sum, a, b) ? sum : UINT64_MAX;
}

/* Of the source's file system, for those who may write; else zeros. */
static struct statvfs source_statvfs(const struct ck_fs *fs)
{
	struct statvfs st;

	if (!fs->writer || fstatvfs(fs->cp->dirfd, &st))
		return (struct statvfs){ 0 };
	return st;
}

uint64_t ck_fs_free_bytes(const struct ck_fs *fs)
{
	struct statvfs source = source_statvfs(fs);

	return times(source.f_bavail, source.f_frsize);
}

static uint64_t files_shown(const struct ck_fs *fs)
{
	const struct ck_counts *n = &fs->counts;

	return 4 + ck_fs_nreports +
	       ck_ntensor_views * (1 + (uint64_t)n->tensors) +
	       ck_local_count(fs->local) + n->chunks +
	       CK_OBJECT_FILES * (uint64_t)n->objects;
}

/* Used is what the tensors take, free what the source has: both are part of
 * the size. Where the source counts no inodes, there is nothing to add to. */
void ck_fs_statfs(fuse_req_t req, fuse_ino_t ino)
{
	const struct ck_fs *fs = fuse_req_userdata(req);
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	uint64_t nbytes = c->nbytes;
	struct statvfs source = source_statvfs(fs);
	uint64_t bfree = times(source.f_bfree, source.f_frsize) / BLOCK;
	struct statvfs st = {
		.f_bsize = BLOCK,
		.f_frsize = BLOCK,
		.f_blocks =
			plus(ck_max(1, nbytes / BLOCK + (nbytes % BLOCK != 0)),
			     bfree),
		.f_bfree = bfree,
		.f_bavail = times(source.f_bavail, source.f_frsize) / BLOCK,
		.f_ffree = source.f_ffree,
		.f_favail = source.f_favail,
		.f_namemax = 255,
	};

	(void)ino;
	if (!fs->writer || source.f_files)
		st.f_files = plus(files_shown(fs), source.f_ffree);
	fuse_reply_statfs(req, &st);
}
