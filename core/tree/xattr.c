/* SPDX-License-Identifier: MIT */
/*
 * xattr: the attributes user.ckptfs.* of a tensor, a box or another entry. Values are
 * exact bytes; lists have no spaces. Listing names reads no data. `error` reads the
 * headers of the items, `replicas_differ` all replicas of the ranks. No state; any thread.
 */
#include "ckptfs/json.h"
#include "tree_internal.h"

#include <errno.h>
#include <inttypes.h>

/* The file whose attribute is requested. */
struct file {
	struct ck_root *root;
	const struct ck_catalog *c; /* held */
	const struct ck_node *n;
	const struct ck_stop *stop; /* or NULL */
	struct ck_many many;	    /* of CK_FILE_KIND_MANY */
	struct ck_mesh_part part;   /* of CK_FILE_KIND_PART */
};

struct attribute {
	const char *name;
	/* Appends the value. Returns 0, or -ENODATA if the file has no such attribute. */
	int (*get)(const struct file *f, struct ck_buf *out);
	/* True if the file is known to have it; NULL: all files have it. */
	bool (*has)(const struct file *f);
};

static const struct ck_tensor *tensor_of(const struct file *f)
{
	return ck_catalog_tensor(f->c, f->n->about.number);
}

static struct ck_names names_of(const struct file *f)
{
	if (f->n->about.topic == CK_FILE_KIND_OBJECT)
		return ck_object_names(f->c, f->n->about.number);
	return ck_tensor_names(f->c, f->n->about.number);
}

/* Offsets of a box or part; its sizes are ndim further on. */
static const int64_t *box_of(const struct file *f)
{
	const struct ck_tensor *t = tensor_of(f);

	return f->n->about.topic == CK_FILE_KIND_PART
		       ? f->part.box
		       : ck_tensor_box(t, f->n->about.chunk - t->chunk);
}

static int get_fqn(const struct file *f, struct ck_buf *out)
{
	ck_buf_str(out, names_of(f).name);
	return 0;
}

static bool has_raw_key(const struct file *f)
{
	struct ck_names names = names_of(f);

	return !ck_str_eq(names.key, names.name);
}

static int get_raw_key(const struct file *f, struct ck_buf *out)
{
	if (!has_raw_key(f))
		return -ENODATA;
	ck_buf_str(out, names_of(f).key);
	return 0;
}

static int get_dtype(const struct file *f, struct ck_buf *out)
{
	if (f->n->about.as != CK_DTYPE_UNKNOWN)
		ck_buf_text(out, ck_dtype_at(f->n->about.as)->name);
	else
		ck_buf_str(out, tensor_of(f)->facts->dtype_name);
	return 0;
}

static bool has_source_dtype(const struct file *f)
{
	return f->n->about.as != CK_DTYPE_UNKNOWN;
}

static int get_source_dtype(const struct file *f, struct ck_buf *out)
{
	if (!has_source_dtype(f))
		return -ENODATA;
	ck_buf_str(out, tensor_of(f)->facts->dtype_name);
	return 0;
}

/* True for a part of a tensor. A tensor of more dimensions than can be shown has no part. */
static bool has_offset(const struct file *f)
{
	return f->n->about.topic == CK_FILE_KIND_BOX ||
	       (f->n->about.topic == CK_FILE_KIND_PART && f->n->about.size > 0);
}

static const int64_t *shape_of(const struct file *f)
{
	const struct ck_tensor *t = tensor_of(f);

	return has_offset(f) ? box_of(f) + t->ndim : t->shape;
}

static int get_shape(const struct file *f, struct ck_buf *out)
{
	ck_dims_print(out, shape_of(f), tensor_of(f)->ndim);
	return 0;
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
	const struct ck_tensor *t = tensor_of(f);
	ck_auto_free uint32_t *chunks = NULL;
	uint32_t n = f->n->about.topic == CK_FILE_KIND_BOX ? 1 : t->nchunks;
	bool covered;
	int rc = 0;

	if (f->n->about.topic == CK_FILE_KIND_PART && !t->err)
		rc = ck_tensor_window(t, (const uint64_t *)f->part.box, &chunks,
				      &n, &covered);
	ck_buf_printf(out, "%u", n);
	return rc;
}

static bool has_guess(const struct file *f)
{
	return (f->n->about.topic == CK_FILE_KIND_TENSOR ||
		f->n->about.topic == CK_FILE_KIND_PART) &&
	       tensor_of(f)->guessed;
}

static int get_guess(const struct file *f, struct ck_buf *out)
{
	if (!has_guess(f))
		return -ENODATA;
	ck_buf_text(out, "1");
	return 0;
}

static bool has_alias(const struct file *f)
{
	return (f->n->about.topic == CK_FILE_KIND_TENSOR ||
		f->n->about.topic == CK_FILE_KIND_PART) &&
	       ck_tensor_alias_of(tensor_of(f)) != CK_NO_TENSOR;
}

static int get_alias(const struct file *f, struct ck_buf *out)
{
	if (!has_alias(f))
		return -ENODATA;
	ck_buf_str(
		out,
		ck_tensor_names(f->c, ck_tensor_alias_of(tensor_of(f))).name);
	return 0;
}

static int get_kind(const struct file *f, struct ck_buf *out)
{
	if (f->n->about.topic == CK_FILE_KIND_OBJECT)
		ck_buf_text(out, "object");
	else if (f->n->about.topic == CK_FILE_KIND_PART)
		ck_buf_text(out, ck_tensor_kind_name(CK_KIND_TENSOR));
	else
		ck_buf_text(out, ck_tensor_kind_name(tensor_of(f)->kind));
	return 0;
}

static bool is_of_tensor(const struct file *f)
{
	return f->n->about.topic == CK_FILE_KIND_TENSOR ||
	       f->n->about.topic == CK_FILE_KIND_BOX ||
	       f->n->about.topic == CK_FILE_KIND_PART;
}

/* NULL: the checkpoint has no mesh for it. */
static const struct ck_sharding *sharding_of(const struct file *f)
{
	if (f->n->about.topic == CK_FILE_KIND_PART)
		return &f->part.sharding;
	return is_of_tensor(f) ? tensor_of(f)->facts->sharding : NULL;
}

static bool has_sharding(const struct file *f)
{
	return sharding_of(f) != NULL;
}

static int get_placements(const struct file *f, struct ck_buf *out)
{
	const struct ck_sharding *s = sharding_of(f);

	if (!s)
		return -ENODATA;
	for (uint32_t i = 0; i < s->ndim; i++) {
		ck_buf_text(out, i ? ",\"" : "[\"");
		ck_placement_print(out, &s->dims[i].placement);
		ck_buf_text(out, "\"");
	}
	ck_buf_text(out, "]");
	return 0;
}

/* An object if each dimension has a name of its own, else a list. */
static int get_mesh(const struct file *f, struct ck_buf *out)
{
	const struct ck_sharding *s = sharding_of(f);
	bool named = s && ck_sharding_has_names(s);

	if (!s)
		return -ENODATA;
	ck_buf_text(out, named ? "{" : "[");
	for (uint32_t i = 0; i < s->ndim; i++) {
		ck_buf_text(out, i ? "," : "");
		if (named) {
			ck_buf_json_str(out, s->dims[i].name);
			ck_buf_text(out, ":");
		}
		ck_buf_printf(out, "%" PRIu64, s->dims[i].size);
	}
	ck_buf_text(out, named ? "}" : "]");
	return 0;
}

static bool has_hosts(const struct file *f)
{
	return f->root->cp->elsewhere != NULL;
}

enum { HOSTS = 4096 }; /* of which bytes may come */

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
static int hosts_of(const struct file *f, struct ck_items items,
		    const char **names, size_t *n)
{
	const struct ck_remote_source *e = f->root->cp->elsewhere;
	uint32_t last = CK_NO_FILE;

	for (uint32_t i = 0; i < items.n; i++) {
		uint32_t file = ck_items_at(items, i)->file;
		const char *name = file == last ? NULL : e->host(e, file, 0);

		last = file;
		if (name && !add_name(names, n, HOSTS, name))
			return -E2BIG;
	}
	return 0;
}

static int print_hosts(const struct file *f,
		       int (*find)(const struct file *f, const char **names,
				   size_t *n),
		       struct ck_buf *out)
{
	ck_auto_free const char **names = calloc(HOSTS, sizeof(*names));
	size_t n = 0;
	int rc;

	if (!has_hosts(f))
		return -ENODATA;
	rc = names ? find(f, names, &n) : -ENOMEM;
	if (rc)
		return rc;
	qsort(names, n, sizeof(*names), name_cmp);
	ck_buf_text(out, "[");
	for (size_t i = 0; i < n; i++)
		ck_buf_printf(out, "%s\"%s\"", i ? "," : "", names[i]);
	ck_buf_text(out, "]");
	return 0;
}

static int hosts_of_one(const struct file *f, const char **names, size_t *n)
{
	return hosts_of(f, ck_about_items(f->c, &f->n->about), names, n);
}

static int get_hosts(const struct file *f, struct ck_buf *out)
{
	return print_hosts(f, hosts_of_one, out);
}

/* The elements whose faults concern the file; NULL: all. */
static const uint64_t *window_of(const struct file *f)
{
	return has_offset(f) ? (const uint64_t *)box_of(f) : NULL;
}

static bool has_error(const struct file *f)
{
	const struct ck_item *item;

	if (f->n->about.topic == CK_FILE_KIND_OBJECT)
		return ck_object_known_faulty(f->root->cp, f->n->about.number);
	if (f->n->about.topic == CK_FILE_KIND_PART)
		return ck_damage_part_is_known(f->root->damage, f->c,
					       f->n->about.number,
					       window_of(f));
	if (f->n->about.topic != CK_FILE_KIND_BOX)
		return ck_damage_is_known(f->root->damage, f->n->about.number);
	item = ck_catalog_item(f->c, f->n->about.chunk);
	return tensor_of(f)->err || item->err ||
	       ck_checkpoint_down(f->root->cp, item->file);
}

static int print_error(const struct file *f, struct ck_buf *out)
{
	struct ck_checkpoint *cp = f->root->cp;
	const struct ck_layout *layout = NULL;
	bool faulty;
	int rc;

	if (f->n->about.topic == CK_FILE_KIND_OBJECT)
		return ck_object_print_fault(cp, f->n->about.number, false,
					     out);
	if (!tensor_of(f)->err) {
		rc = ck_damage_locate(f->root->damage, f->c, f->n->about.number,
				      window_of(f), &layout, &faulty);
		if (rc &&
		    !ck_damage_differs(f->root->damage, f->n->about.number))
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

static bool has_differences(const struct file *f)
{
	return ck_replicas_are_known(f->root->replicas, &f->n->about) ||
	       (f->n->about.topic == CK_FILE_KIND_TENSOR &&
		ck_damage_differs(f->root->damage, f->n->about.number));
}

static int get_differences(const struct file *f, struct ck_buf *out)
{
	return ck_replicas_print(f->root->replicas, f->c, &f->n->about, f->stop,
				 out);
}

static const struct attribute attributes[] = {
	{ CK_XATTR_PREFIX "fqn", get_fqn, NULL },
	{ CK_XATTR_PREFIX "raw_key", get_raw_key, has_raw_key },
	{ CK_XATTR_PREFIX "dtype", get_dtype, is_of_tensor },
	{ CK_XATTR_PREFIX "source_dtype", get_source_dtype, has_source_dtype },
	{ CK_XATTR_PREFIX "shape", get_shape, is_of_tensor },
	{ CK_XATTR_PREFIX "offset", get_offset, has_offset },
	{ CK_XATTR_PREFIX "chunks", get_chunks, is_of_tensor },
	{ CK_XATTR_PREFIX "kind", get_kind, NULL },
	{ CK_XATTR_PREFIX "placements", get_placements, has_sharding },
	{ CK_XATTR_PREFIX "mesh", get_mesh, has_sharding },
	{ CK_XATTR_PREFIX "shape_guessed", get_guess, has_guess },
	{ CK_XATTR_PREFIX "alias_of", get_alias, has_alias },
	{ CK_XATTR_PREFIX "hosts", get_hosts, has_hosts },
	{ CK_XATTR_PREFIX "replicas_differ", get_differences, has_differences },
	{ CK_XATTR_PREFIX "error", get_error, has_error },
};

/* --- of many tensors -------------------------------------------------------------- */

static int get_many_kind(const struct file *f, struct ck_buf *out)
{
	ck_buf_text(out, f->many.kind);
	return 0;
}

static int get_tensors(const struct file *f, struct ck_buf *out)
{
	ck_buf_printf(out, "%u", f->many.n);
	return 0;
}

enum { LIST_MOST = 60000 }; /* bytes of names; a value may have 65,536 */

/* A list above LIST_MOST bytes ends after a whole name, with "...". */
static int get_left_out(const struct file *f, struct ck_buf *out)
{
	ck_buf_text(out, "[");
	for (uint32_t i = 0; i < f->many.nleft_out; i++) {
		size_t before = out->len;

		ck_buf_text(out, i ? "," : "");
		ck_buf_json_str(out, f->many.left_out[i].name);
		if (out->len <= LIST_MOST)
			continue;
		out->len = before;
		ck_buf_text(out, i ? ",\"...\"" : "\"...\"");
		break;
	}
	ck_buf_text(out, "]");
	return 0;
}

static bool many_has_error(const struct file *f)
{
	bool faulty = false;

	for (uint32_t i = 0; i < f->many.n && !faulty; i++)
		faulty = ck_damage_is_known(f->root->damage,
					    f->many.tensors[i]);
	return faulty;
}

/* Appends the name of a tensor and the first line of its damage; nothing for a good
 * tensor. */
static int print_first(const struct file *f, uint32_t tensor,
		       struct ck_buf *out)
{
	const struct ck_file_content about = { .topic = CK_FILE_KIND_TENSOR,
					       .number = tensor };
	const struct ck_layout *layout = NULL;
	struct ck_buf lines = { 0 };
	bool faulty;
	int rc = 0;

	if (!ck_catalog_tensor(f->c, tensor)->err)
		rc = ck_damage_locate(f->root->damage, f->c, tensor, NULL,
				      &layout, &faulty);
	if (rc && !ck_damage_differs(f->root->damage, tensor))
		return rc;
	ck_damage_print_file(f->root->damage, f->c, &about, layout, "", &lines);
	ck_layout_put(f->root->cp, layout);
	if (lines.len) {
		ck_buf_escaped(out, ck_tensor_names(f->c, tensor).name);
		ck_buf_text(out, ": ");
		ck_buf_add(out, lines.data, strcspn(lines.data, "\n"));
	}
	ck_buf_fini(&lines);
	return 0;
}

/* Checks tensors until one has a fault. With several hosts only recorded faults count,
 * since a check would transfer all headers. */
static int get_many_error(const struct file *f, struct ck_buf *out)
{
	int rc = 0;

	for (uint32_t i = 0; i < f->many.n && rc == 0 && out->len == 0; i++)
		if (f->stop && f->stop->asked(f->stop->arg))
			rc = -EINTR;
		else if (!has_hosts(f) ||
			 ck_damage_is_known(f->root->damage,
					    f->many.tensors[i]))
			rc = print_first(f, f->many.tensors[i], out);
	return rc || out->len ? rc : -ENODATA;
}

static int hosts_of_many(const struct file *f, const char **names, size_t *n)
{
	int rc = 0;

	for (uint32_t i = 0; i < f->many.n && rc == 0; i++)
		rc = hosts_of(f,
			      ck_items_of_tensor(
				      f->c, ck_catalog_tensor(
						    f->c, f->many.tensors[i])),
			      names, n);
	return rc;
}

static int get_many_hosts(const struct file *f, struct ck_buf *out)
{
	return print_hosts(f, hosts_of_many, out);
}

static const struct attribute many_attributes[] = {
	{ CK_XATTR_PREFIX "kind", get_many_kind, NULL },
	{ CK_XATTR_PREFIX "tensors", get_tensors, NULL },
	{ CK_XATTR_PREFIX "left_out", get_left_out, NULL },
	{ CK_XATTR_PREFIX "hosts", get_many_hosts, has_hosts },
	{ CK_XATTR_PREFIX "error", get_many_error, many_has_error },
};

/* --- all ---------------------------------------------------------------------------- */

/* The attributes that a node may have, *n of them. */
static const struct attribute *attributes_of(const struct ck_node *n,
					     size_t *count)
{
	switch (n->about.topic) {
	case CK_FILE_KIND_CHECKPOINT:
	case CK_FILE_KIND_ASIDE: *count = 0; return NULL;
	case CK_FILE_KIND_MANY:
		*count = CK_ARRAY_SIZE(many_attributes);
		return many_attributes;
	default: *count = CK_ARRAY_SIZE(attributes); return attributes;
	}
}

static int get_attribute(const struct file *f, const char *name,
			 struct ck_buf *out)
{
	size_t n;
	const struct attribute *all = attributes_of(f->n, &n);

	for (size_t i = 0; i < n; i++) {
		const struct attribute *a = &all[i];

		if (strcmp(name, a->name) == 0)
			return a->has == is_of_tensor && !a->has(f)
				       ? -ENODATA
				       : a->get(f, out);
	}
	return -ENODATA;
}

/* To be ended in any case, as far as it came. -ENOENT: the file is gone; -ENOMEM. */
static int file_begin(struct file *f, const struct ck_node *n,
		      const struct ck_stop *stop)
{
	*f = (struct file){ .root = n->dir.root, .n = n, .stop = stop };
	f->c = ck_dir_catalog(&n->dir);
	switch (n->about.topic) {
	case CK_FILE_KIND_MANY:
		return n->dir.view->many(f->c, &n->dir, n->entry, &f->many);
	case CK_FILE_KIND_PART:
		return n->dir.view->part(f->c, &n->dir, n->entry, &f->part);
	default: return 0;
	}
}

static void file_end(struct file *f)
{
	if (f->many.put)
		f->many.put(f->many.arg);
	ck_catalog_put(f->c);
}

int ck_tree_xattr(const struct ck_node *n, const char *name,
		  const struct ck_stop *stop, struct ck_buf *out)
{
	size_t count;
	struct file f;
	int rc;

	if (!attributes_of(n, &count))
		return -ENODATA;
	rc = file_begin(&f, n, stop);
	if (rc == 0)
		rc = get_attribute(&f, name, out);
	file_end(&f);
	return rc;
}

void ck_tree_xattrs(const struct ck_node *n, struct ck_buf *out)
{
	size_t count;
	const struct attribute *all = attributes_of(n, &count);
	struct file f;

	if (!all)
		return;
	if (file_begin(&f, n, NULL))
		count = 0;
	for (size_t i = 0; i < count; i++)
		if (!all[i].has || all[i].has(&f))
			ck_buf_add(out, all[i].name, strlen(all[i].name) + 1);
	file_end(&f);
}
