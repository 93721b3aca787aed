/* SPDX-License-Identifier: MIT */
/*
 * attr: owners, modes and times: what .metadata, the directory and the data files of a
 * node share. And the elements of a file. No state; any thread.
 */
#include "tree_internal.h"

#include <sys/stat.h>

static mode_t kept(const struct ck_tree_options *o)
{
	return 07777 & ~o->umask;
}

static void owner_set(const struct ck_tree_options *o,
		      const struct ck_catalog *c, struct ck_node_stat *out)
{
	out->uid = o->have_uid ? o->uid : c->meta.uid;
	out->gid = o->have_gid ? o->gid : c->meta.gid;
}

void ck_tree_dir_attr(const struct ck_tree_options *o,
		      const struct ck_catalog *c, struct ck_node_stat *out)
{
	owner_set(o, c, out);
	out->type = CK_TYPE_DIR;
	out->size = 0;
	out->mode = S_IFDIR |
		    (c->dir_mode & (o->write ? 07777 : 07555) & kept(o));
	out->mtime = c->meta.mtime;
}

/* Mode and time, the mode less what is not shown. */
static struct ck_attr attr_of(const struct ck_catalog *c,
			      const struct ck_file_content *about)
{
	struct ck_attr attr = c->meta;

	switch (about->topic) {
	case CK_FILE_KIND_TENSOR:
		attr.mode = ck_catalog_tensor(c, about->number)->facts->mode;
		attr.mtime = ck_catalog_tensor(c, about->number)->facts->mtime;
		break;
	case CK_FILE_KIND_BOX: /* those of its own file */
		attr = ck_catalog_attr(c, ck_about_items(c, about));
		break;
	case CK_FILE_KIND_OBJECT:
		attr.mode = ck_catalog_object(c, about->number)->mode;
		attr.mtime = ck_catalog_object(c, about->number)->mtime;
		break;
	case CK_FILE_KIND_MANY:
	case CK_FILE_KIND_PART:
	case CK_FILE_KIND_ASIDE:
		attr.mode = about->mode;
		attr.mtime = about->mtime;
		break;
	default: attr.mode &= c->dir_mode; break;
	}
	return attr;
}

void ck_tree_file_attr(const struct ck_tree_options *o,
		       const struct ck_catalog *c,
		       const struct ck_file_content *about,
		       struct ck_node_stat *out)
{
	struct ck_attr attr = attr_of(c, about);
	mode_t shown = attr.mode & 0444;

	owner_set(o, c, out);
	if (o->write && about->accepts)
		shown |= c->meta.mode & 0222;
	out->type = about->type;
	out->size = about->size;
	out->mode = about->type == CK_TYPE_LINK ? S_IFLNK | 0777
						: S_IFREG | (shown & kept(o));
	out->mtime = attr.mtime;
}

bool ck_tree_elements(const struct ck_catalog *of, const struct ck_node *n,
		      struct ck_elements *out)
{
	const struct ck_file_content *about = &n->about;
	const struct ck_tensor *t;
	bool is_box = about->topic == CK_FILE_KIND_BOX;

	if ((about->topic != CK_FILE_KIND_TENSOR && !is_box) ||
	    about->as != CK_DTYPE_UNKNOWN)
		return false;
	t = ck_catalog_tensor(of, about->number);
	*out = (struct ck_elements){ .dtype = t->facts->dtype_name,
				     .shape = t->shape,
				     .ndim = t->ndim };
	if (is_box)
		out->shape = ck_tensor_box(t, about->chunk - t->chunk) +
			     t->ndim;
	return true;
}
