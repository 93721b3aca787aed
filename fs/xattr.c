/* SPDX-License-Identifier: MIT */
/*
 * xattr: what a file holds: a tensor, one box of it, or another entry. Values
 * are exact bytes; lists have no spaces. Listing reads nothing; asking for
 * `error` looks at the items' headers.
 *
 * They follow from what the file is and cannot be changed. Tools that copy a
 * file back with its attributes set them all the same: that is accepted, and has
 * no effect.
 */
#include "internal.h"
#include "pool.h"
#include <errno.h>

#define PREFIX "user.ckptfs."

/* What is asked about. */
struct file {
	struct ck_fs *fs;
	const struct ck_catalog *c; /* held */
	struct ck_node n;
};

struct attribute {
	const char *name;
	/* Appends the value. -ENODATA: this file has none. */
	int (*get)(const struct file *f, struct ck_buf *out);
	/* Whether the file is known to have it; NULL: each one has. */
	bool (*has)(const struct file *f);
};

static const struct ck_tensor *tensor_of(const struct file *f)
{
	return ck_catalog_tensor(f->c, f->n.about.number);
}

static const struct ck_names *names_of(const struct file *f)
{
	if (f->n.about.topic == CK_ABOUT_OBJECT)
		return ck_object_names(f->c, f->n.about.number);
	return ck_tensor_names(f->c, f->n.about.number);
}

/* Offsets of a box; its sizes are ndim further on. */
static const int64_t *box_of(const struct file *f)
{
	const struct ck_tensor *t = tensor_of(f);

	return ck_tensor_box(t, f->n.about.chunk - t->chunk);
}

static int get_fqn(const struct file *f, struct ck_buf *out)
{
	ck_buf_str(out, names_of(f)->name);
	return 0;
}

static bool has_raw_key(const struct file *f)
{
	const struct ck_names *names = names_of(f);

	return !ck_str_eq(names->key, names->name);
}

static int get_raw_key(const struct file *f, struct ck_buf *out)
{
	if (!has_raw_key(f))
		return -ENODATA;
	ck_buf_str(out, names_of(f)->key);
	return 0;
}

static int get_dtype(const struct file *f, struct ck_buf *out)
{
	ck_buf_str(out, tensor_of(f)->dtype_name);
	return 0;
}

static int get_shape(const struct file *f, struct ck_buf *out)
{
	const struct ck_tensor *t = tensor_of(f);
	const int64_t *shape = f->n.about.topic == CK_ABOUT_BOX
				       ? box_of(f) + t->ndim
				       : t->shape;

	ck_dims_print(out, shape, t->ndim);
	return 0;
}

static bool has_offset(const struct file *f)
{
	return f->n.about.topic == CK_ABOUT_BOX;
}

static int get_offset(const struct file *f, struct ck_buf *out)
{
	if (!has_offset(f))
		return -ENODATA;
	ck_dims_print(out, box_of(f), tensor_of(f)->ndim);
	return 0;
}

static int get_chunks(const struct file *f, struct ck_buf *out)
{
	ck_buf_printf(out, "%u",
		      f->n.about.topic == CK_ABOUT_BOX ? 1
						       : tensor_of(f)->nchunks);
	return 0;
}

static int get_kind(const struct file *f, struct ck_buf *out)
{
	ck_buf_text(out, f->n.about.topic == CK_ABOUT_OBJECT
				 ? "object"
				 : ck_tensor_kind_name(tensor_of(f)->kind));
	return 0;
}

static bool has_error(const struct file *f)
{
	if (f->n.about.topic == CK_ABOUT_OBJECT)
		return ck_object_known_faulty(f->fs->cp, f->n.about.number);
	if (f->n.about.topic != CK_ABOUT_BOX)
		return ck_damage_is_known(ck_tree_damage(f->fs->tree),
					  f->n.about.number);
	return tensor_of(f)->err ||
	       ck_catalog_item(f->c, f->n.about.chunk)->err;
}

static int print_error(const struct file *f, struct ck_buf *out)
{
	struct ck_fs *fs = f->fs;
	const struct ck_layout *layout = NULL;
	bool faulty;
	int rc;

	if (f->n.about.topic == CK_ABOUT_OBJECT)
		return ck_object_print_fault(fs->cp, f->n.about.number, false,
					     out);
	if (!tensor_of(f)->err) {
		rc = ck_damage_locate(
			ck_tree_damage(fs->tree), f->c, f->n.about.number,
			ck_about_window(f->c, &f->n.about), &layout, &faulty);
		if (rc)
			return rc;
	}
	ck_damage_print_file(ck_tree_damage(fs->tree), f->c, &f->n.about,
			     layout, "", out);
	ck_layout_put(fs->cp, layout);
	if (out->len && out->data[out->len - 1] == '\n')
		out->data[--out->len] = '\0';
	return 0;
}

static int get_error(const struct file *f, struct ck_buf *out)
{
	int rc = print_error(f, out);

	return rc || out->len ? rc : -ENODATA;
}

static bool is_of_tensor(const struct file *f)
{
	return f->n.about.topic == CK_ABOUT_TENSOR ||
	       f->n.about.topic == CK_ABOUT_BOX;
}

static const char error_name[] = PREFIX "error";

static const struct attribute attributes[] = {
	{ PREFIX "fqn", get_fqn, NULL },
	{ PREFIX "raw_key", get_raw_key, has_raw_key },
	{ PREFIX "dtype", get_dtype, is_of_tensor },
	{ PREFIX "shape", get_shape, is_of_tensor },
	{ PREFIX "offset", get_offset, has_offset },
	{ PREFIX "chunks", get_chunks, is_of_tensor },
	{ PREFIX "kind", get_kind, NULL },
	{ error_name, get_error, has_error },
};

static bool has_attributes(const struct ck_node *n)
{
	return n->about.topic != CK_ABOUT_CHECKPOINT;
}

static int get_attribute(const struct file *f, const char *name,
			 struct ck_buf *out)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(attributes); i++) {
		const struct attribute *a = &attributes[i];

		if (strcmp(name, a->name) == 0)
			return a->has == is_of_tensor && !a->has(f)
				       ? -ENODATA
				       : a->get(f, out);
	}
	return -ENODATA;
}

static int do_getxattr(struct ck_fs *fs, fuse_ino_t ino, const char *name,
		       struct ck_buf *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	struct file f = { .fs = fs, .c = c };

	if (fs->options->noxattr)
		return -ENOSYS; /* after ENOSYS the kernel does not ask again */
	if (ck_str_starts(ck_str_from(name), CK_STR("system.posix_acl_")))
		return -EOPNOTSUPP;
	if (ck_node_find(fs, ino, &f.n) || !has_attributes(&f.n))
		return -ENODATA;
	return get_attribute(&f, name, out);
}

static int do_listxattr(struct ck_fs *fs, fuse_ino_t ino, struct ck_buf *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	struct file f = { .fs = fs, .c = c };

	if (fs->options->noxattr)
		return -ENOSYS;
	if (ck_node_find(fs, ino, &f.n) || !has_attributes(&f.n))
		return 0;
	for (size_t i = 0; i < CK_ARRAY_SIZE(attributes); i++) {
		const struct attribute *a = &attributes[i];

		if (!a->has || a->has(&f))
			ck_buf_add(out, a->name, strlen(a->name) + 1);
	}
	return 0;
}

/* size 0 asks how long the value is. */
static void reply_value(fuse_req_t req, int rc, const struct ck_buf *value,
			size_t size)
{
	if (rc == 0)
		rc = value->err;
	if (rc == 0 && size > 0 && size < value->len)
		rc = -ERANGE;
	if (rc)
		fuse_reply_err(req, -rc);
	else if (size == 0)
		fuse_reply_xattr(req, value->len);
	else
		fuse_reply_buf(req, value->data, value->len);
}

/* One that asks for the attribute `error`. */
struct question {
	struct ck_job job; /* first: the job is the question */
	fuse_req_t req;
	fuse_ino_t ino;
	size_t size;
};

static void answer(fuse_req_t req, fuse_ino_t ino, const char *name,
		   size_t size)
{
	struct ck_buf value = { 0 };
	int rc = do_getxattr(fuse_req_userdata(req), ino, name, &value);

	reply_value(req, rc, &value, size);
	ck_buf_fini(&value);
}

static void answer_later(struct ck_job *job, bool ended)
{
	struct question *q = (struct question *)job;

	if (ended)
		fuse_reply_err(q->req, ECONNABORTED);
	else
		answer(q->req, q->ino, error_name, q->size);
	free(q);
}

/* What is wrong with an item is asked of the source. */
void ck_fs_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		    size_t size)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct question *q = NULL;

	if (strcmp(name, error_name) == 0)
		q = malloc(sizeof(*q));
	if (!q) {
		answer(req, ino, name, size);
		return;
	}
	*q = (struct question){ { .run = answer_later }, req, ino, size };
	ck_pool_run(fs->pool, &q->job);
}

void ck_fs_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct ck_buf names = { 0 };
	int rc = do_listxattr(fuse_req_userdata(req), ino, &names);

	reply_value(req, rc, &names, size);
	ck_buf_fini(&names);
}

/* --- on a mount for writing ------------------------------------------------- */

static int do_change(const struct ck_fs *fs, fuse_ino_t ino, const char *name)
{
	struct ck_node n;

	if (fs->options->noxattr)
		return -ENOSYS;
	if (ck_node_find(fs, ino, &n) ||
	    !(ck_node_accepts(&n) || ck_node_is_scratch(&n)))
		return -EOPNOTSUPP;
	return ck_str_starts(ck_str_from(name), CK_STR(PREFIX)) ? 0
								: -EOPNOTSUPP;
}

void ck_fs_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		    const char *value, size_t size, int flags)
{
	(void)value, (void)size, (void)flags;
	fuse_reply_err(req, -do_change(fuse_req_userdata(req), ino, name));
}

void ck_fs_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	fuse_reply_err(req, -do_change(fuse_req_userdata(req), ino, name));
}
