/* SPDX-License-Identifier: MIT */
/*
 * sharded: the view sharded/: <spec>/rank-<r>/<stem>.npy consists of an npy header and the
 * local tensor that a rank of a job would hold. A spec is a number of ranks or a mesh.
 * Nothing but the names of specs is kept; boxes are computed when they are needed.
 *
 * ck_dir.a of sharded/ itself is { 0, 0 }, of <spec>/ { 1 + number of the spec, 0 }, of
 * rank-<r>/ { 1 + number of the spec, 1 + r }. Entries are numbers of specs, ranks, and
 * numbers of tensors. Any thread.
 */
#include "model/local_box.h"
#include "model/place_rules.h"
#include "model/rank_list.h"
#include "specs.h"
#include "syntax/npy.h"
#include "view_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Above this number of ranks a listing gives their directories no numbers, of which a
 * mount has a limited number. */
enum { NUMBERED_MOST = 4096 };

/* The state of the view. */
struct sharded {
	/* Constant; the table locks itself: */
	struct ck_specs *specs;
	const struct ck_view_options *options;
};

static const struct sharded *sharded_of(const struct ck_dir *dir)
{
	return dir->state;
}

static int sharded_make(const struct ck_view_source *from, const void **state)
{
	struct sharded *s = calloc(1, sizeof(*s));
	int rc = s ? ck_specs_make(&s->specs) : -ENOMEM;

	if (rc) {
		free(s);
		return rc;
	}
	s->options = from->options;
	*state = s;
	return 0;
}

static void sharded_free(const void *state)
{
	struct sharded *s = (struct sharded *)(uintptr_t)state;

	ck_specs_free(s->specs);
	free(s);
}

static bool is_shown(const struct ck_catalog *c, uint64_t tensor)
{
	return ck_tensor_is_whole(c, tensor) &&
	       !ck_view_is_flat(c, (uint32_t)tensor);
}

static bool sharded_is_empty(const struct ck_catalog *c, const void *state)
{
	(void)state;
	for (uint32_t i = 0; i < c->tensors.n; i++)
		if (is_shown(c, i))
			return false;
	return true;
}

/* The spec of a directory below sharded/. */
static bool spec_of(const struct ck_dir *dir, struct ck_spec *out)
{
	struct ck_str name;

	return ck_specs_at(sharded_of(dir)->specs, dir->a[0] - 1, &name, out);
}

/* --- directories ------------------------------------------------------------------- */

static void dir_set(const struct ck_dir *dir, uint32_t entry,
		    struct ck_child *out)
{
	*out = (struct ck_child){
		.type = CK_TYPE_DIR,
		.entry = entry,
		.dir = { .view = &ck_view_sharded, .state = dir->state },
	};
	out->dir.a[0] = dir->a[0] ? dir->a[0] : 1 + entry;
	out->dir.a[1] = dir->a[0] ? 1 + entry : 0;
}

static int sharded_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
			  struct ck_str name, struct ck_child *out)
{
	uint32_t number = 0;
	struct ck_spec spec;
	uint64_t rank;
	int rc = 0;

	if (dir->a[1]) {
		rc = ck_tensor_view_lookup(&ck_view_full, c, name, &out->entry);
		return rc == 0 && !is_shown(c, out->entry) ? -ENOENT : rc;
	}
	if (!dir->a[0])
		ck_specs_add_own(sharded_of(dir)->specs, c);
	if (!dir->a[0])
		rc = ck_specs_find(sharded_of(dir)->specs, name, &number);
	else if (ck_view_rank_in(name, &rank) && spec_of(dir, &spec) &&
		 rank < spec.ranks &&
		 ck_rank_list_has(sharded_of(dir)->options->ranks, rank))
		number = (uint32_t)rank;
	else
		rc = -ENOENT;
	if (rc == 0)
		dir_set(dir, number, out);
	return rc;
}

static int dirs_next(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint64_t *at, struct ck_child *out)
{
	struct ck_specs *specs = sharded_of(dir)->specs;
	struct ck_spec spec;
	struct ck_str name;

	if (!dir->a[0]) {
		ck_specs_add_own(sharded_of(dir)->specs, c);
		if (*at > UINT32_MAX ||
		    !ck_specs_at(specs, (uint32_t)*at, &name, &spec))
			return -ENOENT;
	} else if (!spec_of(dir, &spec)) {
		return -ENOENT;
	} else {
		while (*at < spec.ranks &&
		       !ck_rank_list_has(sharded_of(dir)->options->ranks, *at))
			++*at;
		if (*at >= spec.ranks)
			return -ENOENT;
	}
	dir_set(dir, (uint32_t)*at, out);
	if (dir->a[0] && spec.ranks > NUMBERED_MOST)
		out->dir.view = NULL;
	return 0;
}

static int sharded_next(const struct ck_catalog *c, const struct ck_dir *dir,
			uint64_t *at, struct ck_child *out)
{
	if (!dir->a[1])
		return dirs_next(c, dir, at, out);
	return ck_tensors_next_of(c, is_shown, at, out);
}

static void sharded_name(const struct ck_catalog *c, const struct ck_dir *dir,
			 uint32_t entry, struct ck_buf *out)
{
	struct ck_spec spec;
	struct ck_str name;

	if (dir->a[1])
		ck_tensor_view_name(&ck_view_full, c, entry, out);
	else if (dir->a[0])
		ck_buf_printf(out, "rank-%" PRIu32, entry);
	else if (ck_specs_at(sharded_of(dir)->specs, entry, &name, &spec))
		ck_buf_str(out, name);
}

/* Counts what is listed, flat parameters too, which are few. */
static uint64_t sharded_count(const struct ck_catalog *c, const void *state)
{
	const struct sharded *s = state;
	struct ck_spec spec;
	struct ck_str name;
	uint64_t n = 0;

	if (sharded_is_empty(c, state))
		return 0;
	ck_specs_add_own(s->specs, c);
	for (uint32_t i = 0; ck_specs_at(s->specs, i, &name, &spec); i++)
		n += 1 + spec.ranks * (1 + ck_tensors_count(c, NULL));
	return n;
}

/* --- files -------------------------------------------------------------------------- */

/* False if the elements of a tensor cannot be counted or shown. */
static bool has_part(const struct ck_tensor *t)
{
	return ck_view_has_bytes(t) && t->ndim <= CK_MAX_DIMS;
}

/* The box is undefined for a tensor without has_part(). */
static int sharded_part(const struct ck_catalog *c, const struct ck_dir *dir,
			uint32_t entry, struct ck_mesh_part *out)
{
	const struct ck_tensor *t;
	struct ck_spec spec;
	int rc;

	if (!dir->a[1] || !is_shown(c, entry) || !spec_of(dir, &spec))
		return -ENOENT;
	t = ck_catalog_tensor(c, entry);
	ck_spec_dims(&spec, t->ndim, out->dims);
	out->sharding = (struct ck_sharding){ spec.ndim, out->dims };
	rc = ck_place_rules_apply(sharded_of(dir)->options->rules,
				  ck_tensor_names(c, entry).name, t->ndim,
				  out->dims, spec.ndim);
	if (rc == 0 && has_part(t))
		ck_local_box_of(out->dims, spec.ndim, dir->a[1] - 1, t->shape,
				t->ndim, out->box);
	return rc;
}

/* Bytes of the elements of a part, which the tensor has at least. */
static uint64_t part_bytes(const struct ck_tensor *t, const int64_t *size)
{
	uint64_t bytes = ck_dtype_at(t->dtype)->size;

	if (ck_dims_have_zero(size, t->ndim))
		return 0;
	for (uint32_t d = 0; d < t->ndim; d++)
		bytes *= (uint64_t)size[d];
	return bytes;
}

static uint64_t part_size(const struct ck_tensor *t, const int64_t *size)
{
	if (!has_part(t))
		return 0;
	return ck_npy_header_len(t->dtype, t->ndim, size) + part_bytes(t, size);
}

/* Sets mode and time of a part: those of the files from which it is read. Returns 0, or
 * -ENOMEM. */
static int attr_set(const struct ck_catalog *c, const struct ck_tensor *t,
		    const int64_t *box, struct ck_file_content *out)
{
	struct ck_attr attr = ck_catalog_attr(c, ck_items_of_tensor(c, t));
	ck_auto_free uint32_t *chunks = NULL;
	bool covered;
	uint32_t n = 0;
	int rc = 0;

	if (has_part(t) && !t->err) {
		rc = ck_tensor_window(t, (const uint64_t *)box, &chunks, &n,
				      &covered);
		attr = ck_catalog_attr(c, (struct ck_items){ .n = 0 });
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct ck_attr one = ck_catalog_attr(
			c, (struct ck_items){ .of = c,
					      .chunk = t->chunk + chunks[i],
					      .n = 1 });

		attr.mode &= one.mode;
		if (i == 0 || ck_time_is_later(one.mtime, attr.mtime))
			attr.mtime = one.mtime;
	}
	out->mode = attr.mode;
	out->mtime = attr.mtime;
	return rc;
}

static int sharded_stat(const struct ck_catalog *c, const struct ck_dir *dir,
			uint32_t entry, struct ck_file_content *out)
{
	const struct ck_tensor *t;
	struct ck_mesh_part part;
	int rc = sharded_part(c, dir, entry, &part);

	if (rc)
		return rc;
	t = ck_catalog_tensor(c, entry);
	*out = (struct ck_file_content){
		.topic = CK_FILE_KIND_PART,
		.number = entry,
		.size = part_size(t, part.box + t->ndim),
		.version = t->facts->version,
	};
	return attr_set(c, t, part.box, out);
}

static int slice_make(const struct ck_tensor *t, uint32_t tensor,
		      const int64_t *box, struct ck_slice **out)
{
	struct ck_view_part part = { .tensor = tensor,
				     .box = box,
				     .ndim = t->ndim };
	struct ck_buf header = { 0 };
	int rc;

	if (has_part(t)) {
		part.nbytes = part_bytes(t, box + t->ndim);
		part.has_tensor = part.nbytes > 0;
		ck_npy_header(t->dtype, t->ndim, box + t->ndim, &header);
	}
	part.literal = (struct ck_str){ header.data, header.len };
	rc = header.err ? header.err : ck_view_slice_make(&part, out);
	ck_buf_fini(&header);
	return rc;
}

static int sharded_slice(const struct ck_catalog *c, const struct ck_dir *dir,
			 uint32_t entry, struct ck_slice **out)
{
	const struct ck_tensor *t;
	struct ck_mesh_part part;
	int rc = sharded_part(c, dir, entry, &part);

	if (rc)
		return rc;
	t = ck_catalog_tensor(c, entry);
	return ck_view_slice_checked(t, slice_make(t, entry, part.box, out),
				     out);
}

static void sharded_log(const struct ck_catalog *c, const void *state,
			struct ck_buf *out)
{
	const struct sharded *s = state;

	ck_view_place_note(s->options, c, out);
}

static void sharded_status(const struct ck_catalog *c, const void *state,
			   struct ck_buf *out)
{
	size_t begin = out->len;

	sharded_log(c, state, out);
	if (out->len > begin)
		ck_buf_text(out, "\n");
}

const struct ck_view ck_view_sharded = {
	.top = "sharded",
	.make = sharded_make,
	.free = sharded_free,
	.lookup = sharded_lookup,
	.next = sharded_next,
	.name = sharded_name,
	.stat = sharded_stat,
	.slice = sharded_slice,
	.part = sharded_part,
	.is_empty = sharded_is_empty,
	.status = sharded_status,
	.log = sharded_log,
	.count = sharded_count,
	.is_form = true,
	.is_on_request = true,
};
