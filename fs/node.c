/* SPDX-License-Identifier: MIT */
/*
 * node: finds nodes and their attributes, and makes the tree of the mount. The
 * tree and the list of scratch files lock themselves; there is no other state.
 */
#include "format/run/run.h"
#include "internal.h"
#include "report/manifest.h"
#include <errno.h>

/* --- the tree ------------------------------------------------------------- */

/* Option strict: the checkpoint must have the tensors of the manifest, and no others. */
static int strict_check(const struct ck_fs *fs, struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	int rc;

	if (ck_checkpoint_run(fs->cp))
		return ck_fail(d, EINVAL,
			       "option strict: not for a run directory; mount "
			       "one step");
	rc = ck_strict_require(c, fs->view.expected, d);
	if (rc)
		ck_diag_prefix(d, "option strict: %s",
			       ck_show(ck_str_from(fs->cp->path)));
	return rc;
}

int ck_nodes_make(struct ck_fs *fs,
		  void (*status)(void *arg, struct ck_root *of,
				 struct ck_buf *out),
		  struct ck_diag *d)
{
	const struct ck_mount_options *o = fs->options;
	int rc;

	fs->view = o->view;
	rc = ck_view_files_use(&fs->view, &fs->template, d);
	if (rc == 0 && fs->view.strict)
		rc = strict_check(fs, d);
	if (rc)
		return rc;
	fs->shown = (struct ck_tree_options){
		.umask = o->umask,
		.view = &fs->view,
		.write = fs->writer,
		.have_uid = o->have_uid,
		.have_gid = o->have_gid,
		.uid = o->uid,
		.gid = o->gid,
		.status = status,
		.arg = fs,
		.gpu_paths = o->gpu_paths,
		.gpu_status = o->gpu_status,
		.gpu_arg = o->gpu_arg,
	};
	rc = ck_root_make(fs->cp, o->views ? o->views : ck_views,
			  o->views ? o->nviews : ck_nviews, &fs->shown,
			  &fs->root);
	if (rc == 0)
		rc = ck_tree_make(fs->root, &fs->tree);
	return rc ? ck_fail(d, -rc, "%s", strerror(-rc)) : 0;
}

void ck_nodes_free(struct ck_fs *fs)
{
	ck_tree_free(fs->tree);
	ck_root_free(fs->root);
	ck_view_files_leave(&fs->view, &fs->template);
}

/* --- finding -------------------------------------------------------------- */

int ck_node_find(const struct ck_fs *fs, fuse_ino_t ino, struct ck_node *out)
{
	if (ino < CK_TREE_FOREIGN)
		return ck_tree_find(fs->tree, ino, out);
	*out = ck_node_of_scratch((uint32_t)(ino - CK_TREE_FOREIGN));
	return fs->scratches && out->number == ino ? 0 : -ESTALE;
}

/* --- attributes ----------------------------------------------------------- */

void ck_node_forget_attributes(const struct ck_fs *fs, uint64_t number)
{
	(void)fuse_lowlevel_notify_inval_inode(fs->session, number, -1, 0);
}

static void forget_attributes(void *arg, uint64_t number)
{
	ck_node_forget_attributes(arg, number);
}

void ck_nodes_forget_attributes(const struct ck_fs *fs)
{
	if (ck_tree_each(fs->tree, forget_attributes, (void *)(uintptr_t)fs))
		ck_log("out of memory: directories may show old times");
}

/* With direct I/O each read is a request, so tools are asked to use large ones. */
static blksize_t node_blksize(const struct ck_fs *fs, const struct ck_node *n)
{
	if (ck_node_accepts(n) && fs->options->direct)
		return CK_REQUEST_MAX;
	return 4096;
}

void ck_node_stat_fill(const struct ck_fs *fs, const struct ck_node *n,
		       const struct ck_node_stat *known, struct stat *out)
{
	uint64_t size = known->size;

	*out = (struct stat){
		.st_ino = n->number,
		.st_mode = known->mode,
		.st_nlink = 1,
		.st_uid = known->uid,
		.st_gid = known->gid,
		.st_size = (off_t)size,
		.st_blocks = ck_blocks_of(size),
		.st_blksize = node_blksize(fs, n),
		.st_mtim = known->mtime,
		.st_atim = known->mtime,
		.st_ctim = known->mtime,
	};
}

int ck_node_stat(const struct ck_fs *fs, const struct ck_node *n,
		 struct stat *out)
{
	struct ck_node_stat known;
	int rc;

	if (ck_node_is_scratch(n))
		return ck_scratch_stat(fs, ck_node_scratch(n), out);
	rc = ck_tree_stat(n, &known);
	if (rc == 0)
		ck_node_stat_fill(fs, n, &known, out);
	return rc;
}

/* --- names of tensors ----------------------------------------------------- */

const char *ck_node_shown_name(const struct ck_fs *fs, const struct ck_node *n)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(ck_node_checkpoint(fs, n));
	struct ck_buf name = { 0 };
	const char *shown;

	if (n->about.topic == CK_FILE_KIND_OBJECT)
		return ck_show(ck_object_names(c, n->about.number).name);
	if (n->about.topic == CK_FILE_KIND_TENSOR ||
	    n->about.topic == CK_FILE_KIND_BOX ||
	    n->about.topic == CK_FILE_KIND_PART)
		return ck_show(ck_tensor_names(c, n->about.number).name);
	n->dir.view->name(c, &n->dir, n->entry, &name);
	shown = ck_show((struct ck_str){ name.data, name.len });
	ck_buf_fini(&name);
	return shown;
}

const char *ck_tensor_name(const struct ck_fs *fs, uint32_t tensor)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	return ck_show(ck_tensor_names(c, tensor).name);
}

uint64_t ck_tensor_version(const struct ck_fs *fs, uint32_t tensor)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	return ck_catalog_tensor(c, tensor)->facts->version;
}
