/* SPDX-License-Identifier: MIT */
/*
 * xattr: what a file holds: a tensor, one box of it, or another entry. Values
 * are exact bytes; lists have no spaces. Listing reads nothing; asking for
 * `error` looks at the items' headers.
 */
#include "tree_internal.h"

#include <errno.h>

/* What is asked about. */
struct file {
	struct ck_root *root;
	const struct ck_catalog *c; /* held */
	const struct ck_node *n;
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
	return ck_catalog_tensor(f->c, f->n->about.number);
}

static const struct ck_names *names_of(const struct file *f)
{
	if (f->n->about.topic == CK_ABOUT_OBJECT)
		return ck_object_names(f->c, f->n->about.number);
	return ck_tensor_names(f->c, f->n->about.number);
}

/* Offsets of a box; its sizes are ndim further on. */
static const int64_t *box_of(const struct file *f)
{
	const struct ck_tensor *t = tensor_of(f);

	return ck_tensor_box(t, f->n->about.chunk - t->chunk);
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

static const int64_t *shape_of(const struct file *f)
{
	const struct ck_tensor *t = tensor_of(f);

	return f->n->about.topic == CK_ABOUT_BOX ? box_of(f) + t->ndim
						 : t->shape;
}

static int get_shape(const struct file *f, struct ck_buf *out)
{
	ck_dims_print(out, shape_of(f), tensor_of(f)->ndim);
	return 0;
}

bool ck_tree_elements(const struct ck_catalog *of, const struct ck_node *n,
		      struct ck_elements *out)
{
	const struct file f = { .c = of, .n = n };

	if (n->about.topic != CK_ABOUT_TENSOR && n->about.topic != CK_ABOUT_BOX)
		return false;
	*out = (struct ck_elements){ .dtype = tensor_of(&f)->dtype_name,
				     .shape = shape_of(&f),
				     .ndim = tensor_of(&f)->ndim };
	return true;
}

static bool has_offset(const struct file *f)
{
	return f->n->about.topic == CK_ABOUT_BOX;
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
	ck_buf_printf(
		out, "%u",
		f->n->about.topic == CK_ABOUT_BOX ? 1 : tensor_of(f)->nchunks);
	return 0;
}

static int get_kind(const struct file *f, struct ck_buf *out)
{
	ck_buf_text(out, f->n->about.topic == CK_ABOUT_OBJECT
				 ? "object"
				 : ck_tensor_kind_name(tensor_of(f)->kind));
	return 0;
}

static bool has_hosts(const struct file *f)
{
	return f->root->cp->elsewhere != NULL;
}

/* Adds a name that is not there yet. */
static bool add_name(const char *names[static 1], size_t *n, size_t most,
		     const char *name)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	if (*n == most)
		return false;
	names[(*n)++] = name;
	return true;
}

static int name_cmp(const void *a, const void *b)
{
	return ck_str_natural_cmp(ck_str_from(*(const char *const *)a),
				  ck_str_from(*(const char *const *)b));
}

/* The hosts on which the files of some items are read. -E2BIG. */
static int hosts_of(const struct file *f, const char **names, size_t *n,
		    size_t most)
{
	const struct ck_elsewhere *e = f->root->cp->elsewhere;
	struct ck_items items = ck_about_items(f->c, &f->n->about);
	uint32_t last = CK_NO_FILE;

	for (uint32_t i = 0; i < items.n; i++) {
		uint32_t file = ck_items_at(items, i)->file;
		const char *name = file == last ? NULL : e->host(e, file, 0);

		last = file;
		if (name && !add_name(names, n, most, name))
			return -E2BIG;
	}
	qsort(names, *n, sizeof(*names), name_cmp);
	return 0;
}

static int get_hosts(const struct file *f, struct ck_buf *out)
{
	enum { MOST = 4096 }; /* hosts */

	ck_auto_free const char **names = calloc(MOST, sizeof(*names));
	size_t n = 0;
	int rc;

	if (!has_hosts(f))
		return -ENODATA;
	rc = names ? hosts_of(f, names, &n, MOST) : -ENOMEM;
	if (rc)
		return rc;
	ck_buf_text(out, "[");
	for (size_t i = 0; i < n; i++)
		ck_buf_printf(out, "%s\"%s\"", i ? "," : "", names[i]);
	ck_buf_text(out, "]");
	return 0;
}

static bool has_error(const struct file *f)
{
	const struct ck_item *item;

	if (f->n->about.topic == CK_ABOUT_OBJECT)
		return ck_object_known_faulty(f->root->cp, f->n->about.number);
	if (f->n->about.topic != CK_ABOUT_BOX)
		return ck_damage_is_known(f->root->damage, f->n->about.number);
	item = ck_catalog_item(f->c, f->n->about.chunk);
	return tensor_of(f)->err || item->err ||
	       ck_checkpoint_away(f->root->cp, item->file);
}

static int print_error(const struct file *f, struct ck_buf *out)
{
	struct ck_checkpoint *cp = f->root->cp;
	const struct ck_layout *layout = NULL;
	bool faulty;
	int rc;

	if (f->n->about.topic == CK_ABOUT_OBJECT)
		return ck_object_print_fault(cp, f->n->about.number, false,
					     out);
	if (!tensor_of(f)->err) {
		rc = ck_damage_locate(f->root->damage, f->c, f->n->about.number,
				      ck_about_window(f->c, &f->n->about),
				      &layout, &faulty);
		if (rc)
			return rc;
	}
	ck_damage_print_file(f->root->damage, f->c, &f->n->about, layout, "",
			     out);
	ck_layout_put(cp, layout);
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
	return f->n->about.topic == CK_ABOUT_TENSOR ||
	       f->n->about.topic == CK_ABOUT_BOX;
}

static const struct attribute attributes[] = {
	{ CK_XATTR_PREFIX "fqn", get_fqn, NULL },
	{ CK_XATTR_PREFIX "raw_key", get_raw_key, has_raw_key },
	{ CK_XATTR_PREFIX "dtype", get_dtype, is_of_tensor },
	{ CK_XATTR_PREFIX "shape", get_shape, is_of_tensor },
	{ CK_XATTR_PREFIX "offset", get_offset, has_offset },
	{ CK_XATTR_PREFIX "chunks", get_chunks, is_of_tensor },
	{ CK_XATTR_PREFIX "kind", get_kind, NULL },
	{ CK_XATTR_PREFIX "hosts", get_hosts, has_hosts },
	{ CK_XATTR_PREFIX "error", get_error, has_error },
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

int ck_tree_xattr(const struct ck_node *n, const char *name, struct ck_buf *out)
{
	ck_auto_catalog *c = NULL;
	struct file f = { .root = n->dir.root, .n = n };

	if (!has_attributes(n))
		return -ENODATA;
	f.c = c = ck_dir_catalog(&n->dir);
	return get_attribute(&f, name, out);
}

void ck_tree_xattrs(const struct ck_node *n, struct ck_buf *out)
{
	ck_auto_catalog *c = NULL;
	struct file f = { .root = n->dir.root, .n = n };

	if (!has_attributes(n))
		return;
	f.c = c = ck_dir_catalog(&n->dir);
	for (size_t i = 0; i < CK_ARRAY_SIZE(attributes); i++) {
		const struct attribute *a = &attributes[i];

		if (!a->has || a->has(&f))
			ck_buf_add(out, a->name, strlen(a->name) + 1);
	}
}
