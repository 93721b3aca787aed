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

struct attribute {
	const char *name;
	/* Appends the value. -ENODATA: this file has none. */
	int (*get)(struct ck_fs *fs, const struct ck_node *n,
		   struct ck_buf *out);
	/* Whether the file is known to have it; NULL: each one has. */
	bool (*has)(const struct ck_fs *fs, const struct ck_node *n);
};

static const struct ck_names *names_of(const struct ck_fs *fs,
				       const struct ck_node *n)
{
	if (n->kind == CK_NODE_OBJECT)
		return &ck_object_of(fs, n)->names;
	return &ck_catalog_tensor(fs->catalog, n->tensor)->names;
}

static const struct ck_tensor *tensor_of(const struct ck_fs *fs,
					 const struct ck_node *n)
{
	return ck_catalog_tensor(fs->catalog, n->tensor);
}

/* Offsets of a box; its sizes are ndim further on. */
static const int64_t *box_of(const struct ck_fs *fs, const struct ck_node *n)
{
	const struct ck_tensor *t = tensor_of(fs, n);

	return ck_catalog_box(fs->catalog, t, n->index - t->chunk);
}

static int get_fqn(struct ck_fs *fs, const struct ck_node *n,
		   struct ck_buf *out)
{
	ck_buf_str(out, ck_catalog_str(fs->catalog, names_of(fs, n)->name));
	return 0;
}

static bool has_raw_key(const struct ck_fs *fs, const struct ck_node *n)
{
	const struct ck_names *names = names_of(fs, n);

	return !ck_str_eq(ck_catalog_str(fs->catalog, names->key),
			  ck_catalog_str(fs->catalog, names->name));
}

static int get_raw_key(struct ck_fs *fs, const struct ck_node *n,
		       struct ck_buf *out)
{
	if (!has_raw_key(fs, n))
		return -ENODATA;
	ck_buf_str(out, ck_catalog_str(fs->catalog, names_of(fs, n)->key));
	return 0;
}

static int get_dtype(struct ck_fs *fs, const struct ck_node *n,
		     struct ck_buf *out)
{
	const struct ck_tensor *t = tensor_of(fs, n);

	ck_buf_str(out, ck_catalog_str(fs->catalog, t->dtype_name));
	return 0;
}

static int get_shape(struct ck_fs *fs, const struct ck_node *n,
		     struct ck_buf *out)
{
	const struct ck_tensor *t = tensor_of(fs, n);
	const int64_t *shape = n->kind == CK_NODE_BOX
				       ? box_of(fs, n) + t->ndim
				       : ck_catalog_shape(fs->catalog, t);

	ck_dims_print(out, shape, t->ndim);
	return 0;
}

static bool has_offset(const struct ck_fs *fs, const struct ck_node *n)
{
	(void)fs;
	return n->kind == CK_NODE_BOX;
}

static int get_offset(struct ck_fs *fs, const struct ck_node *n,
		      struct ck_buf *out)
{
	if (!has_offset(fs, n))
		return -ENODATA;
	ck_dims_print(out, box_of(fs, n), tensor_of(fs, n)->ndim);
	return 0;
}

static int get_chunks(struct ck_fs *fs, const struct ck_node *n,
		      struct ck_buf *out)
{
	ck_buf_printf(out, "%u",
		      n->kind == CK_NODE_BOX ? 1 : tensor_of(fs, n)->nchunks);
	return 0;
}

static int get_kind(struct ck_fs *fs, const struct ck_node *n,
		    struct ck_buf *out)
{
	(void)fs;
	ck_buf_text(out, n->kind == CK_NODE_OBJECT ? "object" : "tensor");
	return 0;
}

static bool has_error(const struct ck_fs *fs, const struct ck_node *n)
{
	bool faulty;

	if (n->kind == CK_NODE_OBJECT)
		return ck_object_known_faulty(fs->cp, n->tensor);
	if (n->kind != CK_NODE_BOX)
		return ck_tensor_known_faulty(fs, n->tensor);
	ck_checkpoint_lock(fs->cp);
	faulty = tensor_of(fs, n)->err ||
		 ck_catalog_item(fs->catalog, n->index)->err;
	ck_checkpoint_unlock(fs->cp);
	return faulty;
}

static int get_error(struct ck_fs *fs, const struct ck_node *n,
		     struct ck_buf *out)
{
	const struct ck_layout *layout = NULL;
	bool faulty;
	int rc;

	if (n->kind == CK_NODE_OBJECT) {
		rc = ck_object_print_fault(fs->cp, n->tensor, false, out);
		return rc ? rc : out->len ? 0 : -ENODATA;
	}
	if (!tensor_of(fs, n)->err) {
		rc = ck_tensor_locate(fs, n->tensor, ck_node_window(fs, n),
				      &layout, &faulty);
		if (rc)
			return rc;
	}
	ck_node_print_faults(fs, n, layout, "", out);
	ck_layout_put(fs->cp, layout);
	if (out->len && out->data[out->len - 1] == '\n')
		out->data[--out->len] = '\0';
	return out->len ? 0 : -ENODATA;
}

static bool is_of_tensor(const struct ck_fs *fs, const struct ck_node *n)
{
	(void)fs;
	return ck_node_is_tensor(n);
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
	return ck_node_is_tensor(n) || n->kind == CK_NODE_OBJECT;
}

static int do_getxattr(struct ck_fs *fs, fuse_ino_t ino, const char *name,
		       struct ck_buf *out)
{
	struct ck_node n;

	if (fs->options->noxattr)
		return -ENOSYS; /* after ENOSYS the kernel does not ask again */
	if (ck_str_starts(ck_str_from(name), CK_STR("system.posix_acl_")))
		return -EOPNOTSUPP;
	if (!ck_node_find(fs, ino, &n) || !has_attributes(&n))
		return -ENODATA;
	for (size_t i = 0; i < CK_ARRAY_SIZE(attributes); i++) {
		const struct attribute *a = &attributes[i];

		if (strcmp(name, a->name) == 0)
			return a->has == is_of_tensor && !a->has(fs, &n)
				       ? -ENODATA
				       : a->get(fs, &n, out);
	}
	return -ENODATA;
}

static int do_listxattr(struct ck_fs *fs, fuse_ino_t ino, struct ck_buf *out)
{
	struct ck_node n;

	if (fs->options->noxattr)
		return -ENOSYS;
	if (!ck_node_find(fs, ino, &n) || !has_attributes(&n))
		return 0;
	for (size_t i = 0; i < CK_ARRAY_SIZE(attributes); i++) {
		const struct attribute *a = &attributes[i];

		if (!a->has || a->has(fs, &n))
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
	if (!ck_node_find(fs, ino, &n) ||
	    !(ck_node_is_tensor(&n) || n.kind == CK_NODE_SCRATCH))
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
