/* SPDX-License-Identifier: MIT */
/*
 * local_files: the view local/: its directories, and the slice of each file, an
 * npy header and one box. The state is the index of local.h; any thread.
 */
#include "local.h"
#include "model/rank_list.h"
#include "syntax/npy.h"
#include "view_internal.h"

#include <errno.h>

/* --- contents of a file ----------------------------------------------------- */

/* Bytes of a box; false if they cannot be counted or shown. */
static bool box_bytes(const struct ck_tensor *t, const int64_t *size,
		      uint64_t *bytes)
{
	*bytes = ck_dtype_at(t->dtype)->size;
	if (t->err || *bytes == 0)
		return false;
	for (uint32_t d = 0; d < t->ndim; d++)
		if (size[d] < 0 || !ck_mul(bytes, *bytes, (uint64_t)size[d]))
			return false;
	return *bytes <= INT64_MAX;
}

uint64_t ck_local_size(const struct ck_catalog *c, uint32_t box)
{
	const struct ck_tensor *t =
		ck_catalog_tensor(c, ck_catalog_tensor_of(c, box));
	const int64_t *size = ck_tensor_box(t, box - t->chunk) + t->ndim;
	uint64_t bytes;

	if (!box_bytes(t, size, &bytes))
		return 0;
	return ck_npy_header_len(t->dtype, t->ndim, size) + bytes;
}

int ck_local_slice(const struct ck_catalog *c, uint32_t box,
		   struct ck_slice **out)
{
	uint32_t tensor = ck_catalog_tensor_of(c, box);
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	const int64_t *off = ck_tensor_box(t, box - t->chunk);
	struct ck_view_part part = { .tensor = tensor, .ndim = t->ndim };
	struct ck_buf header = { 0 };
	int rc;

	if (!box_bytes(t, off + t->ndim, &part.nbytes))
		return ck_view_slice_make(&part, out);
	ck_npy_header(t->dtype, t->ndim, off + t->ndim, &header);
	part.literal = (struct ck_str){ header.data, header.len };
	part.has_tensor = true;
	part.box = off;
	rc = header.err ? header.err : ck_view_slice_make(&part, out);
	ck_buf_fini(&header);
	return rc;
}

/* --- the directories -------------------------------------------------------------- */

/* ck_dir.a[0] is 0 for local/ itself, and 1 + owner for the directory of an
 * owner. */

static void owner_set(const struct ck_local *l, uint32_t owner,
		      struct ck_child *out)
{
	*out = (struct ck_child){
		.type = CK_TYPE_DIR,
		.entry = owner,
		.dir = { .view = &ck_view_local,
			 .state = l,
			 .a = { 1 + owner },
			 .suffix = ".npy" },
	};
}

/* True if an entry belongs to this directory and its tensor or object was not
 * removed. */
static bool is_of_owner(const struct ck_catalog *c, const struct ck_dir *dir,
			uint32_t entry)
{
	const struct ck_local *l = dir->state;
	uint32_t object;

	if (!dir->a[0] || entry >= l->nentries ||
	    l->of_entry[entry] != dir->a[0] - 1)
		return false;
	return ck_local_is_object(l, entry, &object)
		       ? ck_object_is_there(c, object)
		       : ck_tensor_is_there(c, ck_catalog_tensor_of(c, entry));
}

/* False if an option hides the owner, or all that it has. */
static bool owner_is_shown(const struct ck_local *l, const struct ck_catalog *c,
			   uint32_t owner)
{
	const struct ck_local_owner *o = &l->owners[owner];

	if (o->is_rank && !ck_rank_list_has(l->options->ranks, o->rank))
		return false;
	return !c->listing->selection || o->begin < o->end;
}

static bool has_mesh(const struct ck_catalog *c)
{
	for (uint32_t i = 0; i < c->tensors.n; i++)
		if (ck_catalog_tensor(c, i)->kind == CK_KIND_DTENSOR)
			return true;
	return false;
}

static int local_make(const struct ck_view_source *from, const void **state)
{
	struct ck_local *l;
	int rc = ck_local_make(from->catalog, &l);

	if (rc == 0) {
		l->options = from->options;
		l->has_mesh = has_mesh(from->catalog);
		*state = l;
	}
	return rc;
}

static void local_free(const void *state)
{
	ck_local_free((struct ck_local *)(uintptr_t)state);
}

/* Returns the error for a name that no file has. PyTorch makes no flat parameters of a job
 * with a device mesh, and refuses to save them with this sentence. */
static int flat_refused(const struct ck_local *cl, struct ck_str name)
{
	struct ck_local *l = (struct ck_local *)(uintptr_t)cl;
	struct ck_buf line = { 0 };

	if (!l->has_mesh || !ck_str_ends(name, CK_STR(".npy")))
		return -ENOENT;
	name.len -= 4;
	if (!ck_name_is_flat(name))
		return -ENOENT;
	if (!__atomic_exchange_n(&l->noted, true, __ATOMIC_RELAXED)) {
		ck_buf_text(&line, "local: ");
		ck_buf_escaped(&line, name);
		ck_buf_text(&line, ": DeviceMesh is not compatible with "
				   "LOCAL_STATE_DICT.");
		if (!line.err)
			ck_view_note(l->options, line.data);
		ck_buf_fini(&line);
	}
	return -EOPNOTSUPP;
}

static int local_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
			struct ck_str name, struct ck_child *out)
{
	const struct ck_local *l = dir->state;
	uint32_t owner;
	int rc;

	if (dir->a[0]) {
		rc = ck_local_box_find(l, c, dir->a[0] - 1, name, &out->entry);
		return rc == -ENOENT ? flat_refused(l, name) : rc;
	}
	rc = ck_local_find(l, c, name, &owner);
	if (rc == 0 && !owner_is_shown(l, c, owner))
		rc = -ENOENT;
	if (rc == 0)
		owner_set(l, owner, out);
	return rc;
}

static int owners_next(const struct ck_local *l, const struct ck_catalog *c,
		       uint64_t *at, struct ck_child *out)
{
	while (*at < l->nowners && !owner_is_shown(l, c, (uint32_t)*at))
		++*at;
	if (*at >= l->nowners)
		return -ENOENT;
	owner_set(l, (uint32_t)*at, out);
	return 0;
}

static int boxes_next(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint64_t *at, struct ck_child *out)
{
	const struct ck_local *l = dir->state;
	uint32_t owner = dir->a[0] - 1, n = ck_local_boxes(l, owner);

	while (*at < n &&
	       !is_of_owner(c, dir, ck_local_box(l, owner, (uint32_t)*at)))
		++*at;
	if (*at >= n)
		return -ENOENT;
	out->entry = ck_local_box(l, owner, (uint32_t)*at);
	return 0;
}

static int local_next(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint64_t *at, struct ck_child *out)
{
	return dir->a[0] ? boxes_next(c, dir, at, out)
			 : owners_next(dir->state, c, at, out);
}

static void local_name(const struct ck_catalog *c, const struct ck_dir *dir,
		       uint32_t entry, struct ck_buf *out)
{
	if (dir->a[0])
		ck_local_box_name(dir->state, c, entry, out);
	else
		ck_local_name(dir->state, c, entry, out);
}

static int local_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		      uint32_t entry, struct ck_file_content *out)
{
	uint32_t tensor, object;

	if (!is_of_owner(c, dir, entry))
		return -ENOENT;
	if (ck_local_is_object(dir->state, entry, &object)) {
		*out = (struct ck_file_content){ .topic = CK_FILE_KIND_OBJECT,
						 .made = true,
						 .number = object };
		return 0;
	}
	tensor = ck_catalog_tensor_of(c, entry);
	*out = (struct ck_file_content){
		.topic = CK_FILE_KIND_BOX,
		.accepts = CK_ACCEPTS_NPY,
		.number = tensor,
		.chunk = entry,
		.size = ck_local_size(c, entry),
		.version = ck_catalog_tensor(c, tensor)->facts->version,
	};
	return 0;
}

static int local_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		       uint32_t entry, struct ck_slice **out)
{
	uint32_t tensor, object;

	/* The tree creates the JSON text of objects. */
	if (!is_of_owner(c, dir, entry) ||
	    ck_local_is_object(dir->state, entry, &object))
		return -ENOENT;
	tensor = ck_catalog_tensor_of(c, entry);
	return ck_view_slice_checked(ck_catalog_tensor(c, tensor),
				     ck_local_slice(c, entry, out), out);
}

static uint64_t local_count(const struct ck_catalog *c, const void *state)
{
	const struct ck_local *l = state;

	(void)c;
	return (uint64_t)l->nowners + l->nshown;
}

const struct ck_view ck_view_local = {
	.top = "local",
	.make = local_make,
	.free = local_free,
	.lookup = local_lookup,
	.next = local_next,
	.name = local_name,
	.stat = local_stat,
	.slice = local_slice,
	.count = local_count,
};
