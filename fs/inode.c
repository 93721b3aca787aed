/* SPDX-License-Identifier: MIT */
/*
 * inode: every node has a number that says what it is, so nothing is kept for
 * a node and nothing has to be forgotten:
 *
 *	1		the root (FUSE says so)
 *	2		.ckptfs
 *	3 ...		the reports in it
 *	14, 15		objects, local
 *	16 ...		the views' directories
 *	64 + tensor * number of views + view
 *			the file of a tensor in a view
 *	then		the owners in local
 *	then		the boxes, as in the catalog
 *	then		two files for each entry that is no tensor
 *
 * That many numbers are a span. The files of a tensor and of its boxes are as
 * many spans further on as the tensor has versions behind it: a commit gives
 * them new numbers, and none is used again within a mount. An old one says
 * what it was for as long as somebody has it open.
 * Modes and times follow the contract's section 3.
 */
#include "internal.h"

#define CONTROL_NUMBER 2
#define REPORT_NUMBER  3
#define OBJECTS_NUMBER 14
#define LOCAL_NUMBER   15
#define VIEW_NUMBER    16
#define TENSOR_NUMBER  64
#define SCRATCH_NUMBER ((uint64_t)1 << 62)

static uint64_t owner_number(const struct ck_fs *fs)
{
	return TENSOR_NUMBER + (uint64_t)fs->counts.tensors * ck_ntensor_views;
}

static uint64_t box_number(const struct ck_fs *fs)
{
	return owner_number(fs) + ck_local_count(fs->local);
}

static uint64_t object_number(const struct ck_fs *fs)
{
	return box_number(fs) + fs->counts.chunks;
}

static uint64_t span(const struct ck_fs *fs)
{
	return object_number(fs) +
	       CK_OBJECT_FILES * (uint64_t)fs->counts.objects;
}

/* The fixed part of the tree. */
static bool find_fixed(uint64_t n, struct ck_node *out)
{
	if (n == FUSE_ROOT_ID)
		out->kind = CK_NODE_ROOT;
	else if (n == CONTROL_NUMBER)
		out->kind = CK_NODE_CONTROL;
	else if (n >= REPORT_NUMBER && n - REPORT_NUMBER < ck_fs_nreports)
		*out = (struct ck_node){
			.kind = CK_NODE_REPORT,
			.index = (uint32_t)(n - REPORT_NUMBER),
		};
	else if (n == OBJECTS_NUMBER)
		out->kind = CK_NODE_OBJECTS;
	else if (n == LOCAL_NUMBER)
		out->kind = CK_NODE_LOCAL;
	else if (n >= VIEW_NUMBER && n - VIEW_NUMBER < ck_ntensor_views)
		*out = (struct ck_node){
			.kind = CK_NODE_VIEW,
			.index = (uint32_t)(n - VIEW_NUMBER),
		};
	else
		return false;
	return true;
}

static uint32_t tensor_of_box(const struct ck_fs *fs, uint32_t box)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	return ck_catalog_tensor_of(c, box);
}

/* A number of the first span. */
static bool find_first(const struct ck_fs *fs, uint64_t n, struct ck_node *out)
{
	if (n < TENSOR_NUMBER)
		return find_fixed(n, out);
	if (n < owner_number(fs)) {
		n -= TENSOR_NUMBER;
		*out = (struct ck_node){
			.kind = CK_NODE_TENSOR,
			.index = (uint32_t)(n % ck_ntensor_views),
			.tensor = (uint32_t)(n / ck_ntensor_views),
		};
		return true;
	}
	if (n < box_number(fs)) {
		out->kind = CK_NODE_OWNER;
		out->index = (uint32_t)(n - owner_number(fs));
		return true;
	}
	if (n < object_number(fs)) {
		out->kind = CK_NODE_BOX;
		out->index = (uint32_t)(n - box_number(fs));
		out->tensor = tensor_of_box(fs, out->index);
		return true;
	}
	n -= object_number(fs);
	*out = (struct ck_node){
		.kind = CK_NODE_OBJECT,
		.index = (uint32_t)(n % CK_OBJECT_FILES),
		.tensor = (uint32_t)(n / CK_OBJECT_FILES),
	};
	return true;
}

bool ck_node_find(const struct ck_fs *fs, fuse_ino_t ino, struct ck_node *out)
{
	*out = (struct ck_node){ .kind = CK_NODE_ROOT };
	if (ino >= SCRATCH_NUMBER) {
		out->kind = CK_NODE_SCRATCH;
		out->tensor = (uint32_t)(ino - SCRATCH_NUMBER);
		return fs->scratches && ino - SCRATCH_NUMBER <= UINT32_MAX;
	}
	if (!find_first(fs, ino % span(fs), out))
		return false;
	out->version = ino / span(fs);
	return out->version == 0 || (ck_node_is_tensor(out) &&
				     out->version <= ck_node_version(fs, out));
}

static fuse_ino_t first_number(const struct ck_fs *fs, const struct ck_node *n)
{
	switch (n->kind) {
	case CK_NODE_ROOT: return FUSE_ROOT_ID;
	case CK_NODE_CONTROL: return CONTROL_NUMBER;
	case CK_NODE_REPORT: return REPORT_NUMBER + n->index;
	case CK_NODE_LOCAL: return LOCAL_NUMBER;
	case CK_NODE_OBJECTS: return OBJECTS_NUMBER;
	case CK_NODE_OBJECT:
		return object_number(fs) +
		       (uint64_t)n->tensor * CK_OBJECT_FILES + n->index;
	case CK_NODE_VIEW: return VIEW_NUMBER + n->index;
	case CK_NODE_OWNER: return owner_number(fs) + n->index;
	case CK_NODE_BOX: return box_number(fs) + n->index;
	case CK_NODE_SCRATCH: return SCRATCH_NUMBER + n->tensor;
	case CK_NODE_TENSOR: break;
	}
	return TENSOR_NUMBER + (uint64_t)n->tensor * ck_ntensor_views +
	       n->index;
}

fuse_ino_t ck_node_number(const struct ck_fs *fs, const struct ck_node *n)
{
	return n->version * span(fs) + first_number(fs, n);
}

uint64_t ck_node_place(const struct ck_fs *fs, const struct ck_node *n)
{
	return first_number(fs, n);
}

uint64_t ck_node_places(const struct ck_fs *fs)
{
	return span(fs);
}

void ck_node_forget_attributes(const struct ck_fs *fs, const struct ck_node *n)
{
	(void)fuse_lowlevel_notify_inval_inode(fs->session,
					       ck_node_number(fs, n), -1, 0);
}

uint64_t ck_node_version_in(const struct ck_catalog *c, const struct ck_node *n)
{
	return ck_node_is_tensor(n) ? ck_catalog_tensor(c, n->tensor)->version
				    : 0;
}

uint64_t ck_node_version(const struct ck_fs *fs, const struct ck_node *n)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	return ck_node_version_in(c, n);
}

bool ck_node_is_dir(const struct ck_node *n)
{
	return n->kind != CK_NODE_REPORT && n->kind != CK_NODE_OBJECT &&
	       n->kind != CK_NODE_SCRATCH && !ck_node_is_tensor(n);
}

bool ck_node_is_tensor(const struct ck_node *n)
{
	return n->kind == CK_NODE_TENSOR || n->kind == CK_NODE_BOX;
}

bool ck_node_has_tensors(const struct ck_node *n)
{
	return n->kind == CK_NODE_VIEW || n->kind == CK_NODE_OWNER;
}

/* Two bits for each file. */
enum name_bit { NAME_HIDDEN, NAME_MADE, NAME_BITS };

int ck_hidden_make(struct ck_fs *fs)
{
	return ck_bits_make(&fs->hidden, NAME_BITS * span(fs));
}

static bool name_bit(const struct ck_fs *fs, const struct ck_node *n,
		     enum name_bit bit)
{
	return fs->hidden.n && ck_node_is_tensor(n) &&
	       ck_bits_has(&fs->hidden, NAME_BITS * first_number(fs, n) + bit);
}

static void set_name_bit(struct ck_fs *fs, const struct ck_node *n,
			 enum name_bit bit, bool value)
{
	uint64_t at = NAME_BITS * first_number(fs, n) + bit;

	if (value)
		ck_bits_set_atomic(&fs->hidden, at);
	else
		ck_bits_clear_atomic(&fs->hidden, at);
}

bool ck_node_hidden(const struct ck_fs *fs, const struct ck_node *n)
{
	return name_bit(fs, n, NAME_HIDDEN);
}

void ck_node_hide(struct ck_fs *fs, const struct ck_node *n, bool hidden)
{
	set_name_bit(fs, n, NAME_MADE, false);
	set_name_bit(fs, n, NAME_HIDDEN, hidden);
}

bool ck_node_made(const struct ck_fs *fs, const struct ck_node *n)
{
	return name_bit(fs, n, NAME_MADE);
}

void ck_node_make(struct ck_fs *fs, const struct ck_node *n)
{
	ck_node_hide(fs, n, false);
	set_name_bit(fs, n, NAME_MADE, true);
}

void ck_node_begun(struct ck_fs *fs, const struct ck_node *n)
{
	set_name_bit(fs, n, NAME_MADE, false);
}

static mode_t node_mode(const struct ck_fs *fs, const struct ck_catalog *c,
			const struct ck_node *n)
{
	mode_t keep = 07777 & ~fs->options->umask;
	mode_t w = fs->writer ? c->meta.mode & 0222 & keep : 0;

	if (ck_node_is_dir(n))
		return S_IFDIR |
		       (c->dir_mode & (fs->writer ? 07777 : 07555) & keep);
	if (n->kind == CK_NODE_REPORT)
		return S_IFREG | (c->meta.mode & c->dir_mode & 0444 & keep);
	if (n->kind == CK_NODE_OBJECT)
		return S_IFREG |
		       (ck_catalog_object(c, n->tensor)->mode & 0444 & keep);
	if (n->kind == CK_NODE_BOX) /* that of its own file */
		return S_IFREG | w |
		       (ck_catalog_attr(c, ck_node_items(c, n)).mode & 0444 &
			keep);
	return S_IFREG | w |
	       (ck_catalog_tensor(c, n->tensor)->mode & 0444 & keep);
}

/* A read that asks the daemon each time pays for each request, so tools are
 * told to ask for much. */
static blksize_t node_blksize(const struct ck_fs *fs, const struct ck_node *n)
{
	if (ck_node_is_tensor(n) && fs->options->direct)
		return CK_REQUEST_MAX;
	return 4096;
}

void ck_node_stat(const struct ck_fs *fs, const struct ck_node *n,
		  uint64_t size, struct stat *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	const struct ck_mount_options *o = fs->options;

	*out = (struct stat){
		.st_ino = ck_node_number(fs, n),
		.st_mode = node_mode(fs, c, n),
		.st_nlink = 1,
		.st_uid = o->have_uid ? o->uid : c->meta.uid,
		.st_gid = o->have_gid ? o->gid : c->meta.gid,
		.st_blksize = node_blksize(fs, n),
		.st_mtim = c->meta.mtime,
	};
	if (n->kind == CK_NODE_TENSOR) {
		size = ck_tensor_views[n->index]->size(c, n->tensor);
		out->st_mtim = ck_catalog_tensor(c, n->tensor)->mtime;
	}
	if (n->kind == CK_NODE_BOX) {
		size = ck_local_size(c, n->index);
		out->st_mtim = ck_catalog_attr(c, ck_node_items(c, n)).mtime;
	}
	if (n->kind == CK_NODE_OBJECT)
		out->st_mtim = ck_catalog_object(c, n->tensor)->mtime;
	if (ck_node_is_dir(n))
		size = 0;
	out->st_size = (off_t)size;
	out->st_blocks = (blkcnt_t)(size / 512 + (size % 512 != 0));
	out->st_atim = out->st_mtim;
	out->st_ctim = out->st_mtim;
}

struct ck_items ck_node_items(const struct ck_catalog *c,
			      const struct ck_node *n)
{
	if (n->kind == CK_NODE_BOX)
		return (struct ck_items){ .of = c, .chunk = n->index, .n = 1 };
	if (n->kind == CK_NODE_OBJECT)
		return ck_items_of_object(c, ck_catalog_object(c, n->tensor));
	if (n->kind == CK_NODE_TENSOR)
		return ck_items_of_tensor(c, ck_catalog_tensor(c, n->tensor));
	return (struct ck_items){ .n = 0 };
}

/* The present one knows the files of all that were before. */
mode_t ck_node_mode(const struct ck_fs *fs, const struct ck_catalog *of,
		    const struct ck_node *n)
{
	ck_auto_catalog *now = ck_checkpoint_catalog(fs->cp);
	mode_t mode = node_mode(fs, now, n);

	if (ck_node_version_in(of, n) == ck_node_version_in(now, n))
		return mode;
	return (mode & ~(mode_t)0444) |
	       (ck_catalog_attr(now, ck_node_items(of, n)).mode & 0444 &
		~fs->options->umask);
}

const char *ck_node_shown_name(const struct ck_fs *fs, const struct ck_node *n)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	if (n->kind == CK_NODE_REPORT)
		return ck_fs_reports[n->index].name;
	if (n->kind == CK_NODE_OBJECT)
		return ck_show(ck_object_names(c, n->tensor)->name);
	return ck_tensor_name(fs, n->tensor);
}

const char *ck_tensor_name(const struct ck_fs *fs, uint32_t tensor)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	return ck_show(ck_tensor_names(c, tensor)->name);
}
