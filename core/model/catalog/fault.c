/* SPDX-License-Identifier: MIT */
/*
 * fault: one text for each fault, for check, the damage report, the attribute `error`,
 * inspect and the log; and the faults that a catalog has without reading an item. No
 * state; any thread.
 */
#include "fault.h"
#include "items.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>

/* Falls back to EIO for a number without a name. */
static const char *errno_name(int err)
{
	const char *name = strerrorname_np(err);

	return name ? name : "EIO";
}

void ck_fault_set(struct ck_fault *f, uint64_t pos, const struct ck_diag *d)
{
	f->err = d->err;
	f->pos = pos;
	f->what = ck_diag_what(d);
	f->expected = d->expected[0] ? d->expected : NULL;
	f->found = d->expected[0] ? d->found : NULL;
}

void ck_fault_print(const struct ck_fault *f, bool name, struct ck_buf *out)
{
	if (name && f->name.p) {
		ck_buf_escaped(out, f->name);
		ck_buf_text(out, ": ");
	}
	if (f->err)
		ck_buf_printf(out, "%s: ", errno_name(f->err));
	if (f->box) {
		ck_buf_text(out, "box ");
		ck_dims_print(out, f->box, f->ndim);
		ck_buf_text(out, " ");
		ck_dims_print(out, f->box + f->ndim, f->ndim);
		ck_buf_text(out, ": ");
	}
	ck_buf_str(out, f->what);
	if (f->file.p) {
		ck_buf_text(out, "; ");
		ck_buf_text(out, ck_show(f->file)); /* may be 4 KiB */
	}
	if (f->file.p && f->has_pos)
		ck_buf_printf(out, " at %" PRIu64, f->pos);
	if (f->file.p && f->host)
		ck_buf_printf(out, " on host %s", f->host);
	if (f->expected)
		ck_buf_printf(out, "; expected %s, found %s", f->expected,
			      f->found);
}

/* --- faults of a catalog ---------------------------------------------------------- */

static const struct ck_data_file *file_of(const struct ck_catalog *c,
					  const struct ck_item *item)
{
	return item->file < c->files.n ? ck_catalog_file(c, item->file) : NULL;
}

/* True unless the item is known to end behind its file. */
static bool is_inside(const struct ck_data_file *file,
		      const struct ck_item *item)
{
	if (file->unseen)
		return true;
	return item->fpos <= file->size &&
	       item->length <= file->size - item->fpos;
}

bool ck_catalog_item_is_there(const struct ck_catalog *c,
			      const struct ck_item *item)
{
	const struct ck_data_file *file = file_of(c, item);

	return file && !file->err && is_inside(file, item);
}

void ck_catalog_place_fault(const struct ck_catalog *c,
			    const struct ck_item *item, struct ck_fault *f)
{
	const struct ck_data_file *file = file_of(c, item);

	if (!file)
		return;
	f->file = file->path;
	f->pos = item->fpos;
	f->has_pos = true;
}

static void file_describe(const struct ck_data_file *file, struct ck_fault *f)
{
	f->what = ck_str_from(ck_shown(
		"its file %s", file->why ? file->why : "cannot be used"));
}

static void item_describe(const struct ck_catalog *c,
			  const struct ck_item *item, struct ck_fault *f)
{
	const struct ck_data_file *file = file_of(c, item);
	uint64_t end;

	f->err = item->err;
	if (!file) {
		f->what = CK_STR("no file has its bytes");
	} else if (file->err) {
		file_describe(file, f);
	} else if (!is_inside(file, item)) {
		if (!ck_add(&end, item->fpos, item->length))
			end = UINT64_MAX;
		f->what = CK_STR("its item ends beyond its file");
		f->expected = ck_shown("at least %" PRIu64 " bytes", end);
		f->found = ck_shown("%" PRIu64, file->size);
	} else if (item->err == EIO) {
		f->what = CK_STR("its item shares bytes with another one of "
				 "the tensor");
	} else if (item->err == EBADMSG) {
		f->what = CK_STR("its class is unknown");
	} else {
		f->what = CK_STR(
			"the offset or length of its item is impossible");
	}
}

void ck_catalog_box_fault_init(const struct ck_catalog *c,
			       const struct ck_tensor *t, uint32_t i,
			       struct ck_fault *out)
{
	*out = (struct ck_fault){
		.name = ck_tensor_names(c, t->entry.number).name,
		.box = ck_tensor_box(t, i),
		.ndim = t->ndim,
	};
	ck_catalog_place_fault(c, ck_catalog_item(c, t->chunk + i), out);
}

/* Describes the fault of an item of box i. False without a fault. */
static bool box_item_has_fault(const struct ck_catalog *c,
			       const struct ck_tensor *t, uint32_t i,
			       const struct ck_item *item, struct ck_fault *out)
{
	if (!item->err)
		return false;
	ck_catalog_box_fault_init(c, t, i, out);
	ck_catalog_place_fault(c, item, out);
	item_describe(c, item, out);
	if (item->form != CK_FORM_ARCHIVE && item->form != CK_FORM_WITHIN &&
	    item->err == EBADMSG) {
		out->what = CK_STR("its elements do not fit into its item");
		out->expected = ck_shown("%" PRIu64 " bytes",
					 ck_tensor_box_bytes(t, i));
		out->found = ck_shown("%" PRIu64, item->length);
	}
	return true;
}

bool ck_catalog_box_has_fault(const struct ck_catalog *c,
			      const struct ck_tensor *t, uint32_t i,
			      struct ck_fault *out)
{
	return box_item_has_fault(c, t, i, ck_catalog_item(c, t->chunk + i),
				  out);
}

bool ck_catalog_replica_has_fault(const struct ck_catalog *c,
				  const struct ck_replica *r,
				  struct ck_fault *out)
{
	const struct ck_tensor *t =
		ck_catalog_tensor(c, ck_catalog_tensor_of(c, r->chunk));

	return box_item_has_fault(c, t, r->chunk - t->chunk, &r->item, out);
}

void ck_catalog_object_fault_init(const struct ck_catalog *c,
				  const struct ck_object *o,
				  struct ck_fault *out)
{
	*out = (struct ck_fault){
		.name = ck_object_names(c, o->entry.number).name
	};
	ck_catalog_place_fault(c, &o->item, out);
}

bool ck_catalog_object_has_fault(const struct ck_catalog *c,
				 const struct ck_object *o,
				 struct ck_fault *out)
{
	struct ck_items items = ck_items_of_object(c, o);
	const struct ck_item *item = NULL;

	for (uint32_t i = 0; i < items.n && !item; i++)
		if (ck_items_at(items, i)->err)
			item = ck_items_at(items, i);
	if (!item)
		return false;
	ck_catalog_object_fault_init(c, o, out);
	ck_catalog_place_fault(c, item, out);
	item_describe(c, item, out);
	return true;
}

void ck_catalog_loss_fault(const struct ck_catalog *c,
			   const struct ck_loss *loss, struct ck_fault *out)
{
	*out = (struct ck_fault){ .err = loss->err, .what = loss->what };
	if (loss->name.len)
		out->name = loss->name;
	if (loss->file < c->files.n)
		out->file = ck_catalog_file(c, loss->file)->path;
}

bool ck_catalog_file_has_fault(const struct ck_catalog *c, uint32_t file,
			       struct ck_fault *out)
{
	const struct ck_data_file *f = ck_catalog_file(c, file);

	if (!f->err)
		return false;
	*out = (struct ck_fault){
		.file = f->path,
		.err = f->err,
		.what = ck_str_from(f->why ? f->why : "cannot be used"),
	};
	return true;
}

/* Returns the elements of a box; 0 if its size is impossible. */
static uint64_t box_volume(const struct ck_tensor *t, uint32_t i)
{
	const int64_t *size = ck_tensor_box(t, i) + t->ndim;
	uint64_t volume = 1;

	for (uint32_t dim = 0; dim < t->ndim; dim++)
		if (size[dim] < 0 ||
		    !ck_mul(&volume, volume, (uint64_t)size[dim]))
			return 0;
	return volume;
}

uint64_t ck_tensor_box_bytes(const struct ck_tensor *t, uint32_t i)
{
	uint64_t bytes;

	if (t->err ||
	    !ck_mul(&bytes, box_volume(t, i), ck_dtype_at(t->dtype)->size))
		return 0;
	return bytes;
}

/* --- elements in no box -------------------------------------------------------- */

enum { HOLE_BOXES = 1 << 16 }; /* most boxes among which a hole is located */

/* Offsets from `at` up to `end`, in one dimension. */
struct span {
	int64_t at, end;
};

static int span_cmp(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* Sets *out to the dimension that the boxes divide. False unless all of them are whole in the
 * others. */
static bool divided_dim(const struct ck_tensor *t, int *out)
{
	int dim = INT_MAX;

	for (uint32_t i = 0; i < t->nchunks; i++) {
		const int64_t *size = ck_tensor_box(t, i) + t->ndim;

		for (int d = 0; d < (int)t->ndim; d++) {
			if (size[d] == t->shape[d] || dim == d)
				continue;
			if (dim != INT_MAX)
				return false;
			dim = d;
		}
	}
	*out = dim;
	return dim != INT_MAX;
}

/* Sets *out to the first offsets of a dimension that are in no box. False if memory is short. */
static bool span_find(const struct ck_tensor *t, int dim, struct span *out)
{
	struct span *spans = calloc(t->nchunks, sizeof(*spans));
	uint32_t i = 0;

	if (!spans)
		return false;
	for (uint32_t k = 0; k < t->nchunks; k++) {
		const int64_t *box = ck_tensor_box(t, k);

		spans[k] = (struct span){
			box[dim], box[dim] + box[t->ndim + (unsigned)dim]
		};
	}
	qsort(spans, t->nchunks, sizeof(*spans), span_cmp);
	*out = (struct span){ 0, t->shape[dim] };
	for (; i < t->nchunks && spans[i].at <= out->at; i++)
		if (spans[i].end > out->at)
			out->at = spans[i].end;
	if (i < t->nchunks)
		out->end = spans[i].at;
	free(spans);
	return true;
}

/* Appends the first missing box, if the boxes divide one dimension. */
static void hole_print(const struct ck_tensor *t, struct ck_buf *out)
{
	int64_t box[2 * CK_MAX_DIMS];
	struct span span;
	int dim;

	if (t->nchunks == 0 || t->nchunks > HOLE_BOXES ||
	    !divided_dim(t, &dim) || !span_find(t, dim, &span))
		return;
	for (int d = 0; d < (int)t->ndim; d++) {
		box[d] = d == dim ? span.at : 0;
		box[t->ndim + (unsigned)d] = d == dim ? span.end - span.at
						      : t->shape[d];
	}
	ck_buf_text(out, ", first those of box ");
	ck_dims_print(out, box, t->ndim);
	ck_buf_text(out, " ");
	ck_dims_print(out, box + t->ndim, t->ndim);
}

/* Returns a text of ck_shown(). */
static struct ck_str hole_text(const struct ck_catalog *c,
			       const struct ck_tensor *t)
{
	struct ck_buf where = { 0 };
	const char *text;

	hole_print(t, &where);
	text = ck_shown("some elements are in no box%s%s",
			c->partly ? " of the hosts that were there" : "",
			where.data && !where.err ? where.data : "");
	ck_buf_fini(&where);
	return ck_str_from(text);
}

bool ck_catalog_tensor_has_fault(const struct ck_catalog *c,
				 const struct ck_tensor *t,
				 struct ck_fault *out)
{
	uint64_t have = 0;

	*out = (struct ck_fault){
		.name = ck_tensor_names(c, t->entry.number).name,
		.err = t->err,
		.what = ck_tensor_fault(t),
	};
	if (t->err || out->what.len)
		return true;
	if (!t->holes)
		return false;
	for (uint32_t i = 0; i < t->nchunks; i++)
		have += ck_tensor_box_bytes(t, i);
	out->err = c->partly ? EIO : ENODATA;
	out->what = hole_text(c, t);
	out->expected = ck_shown("%" PRIu64 " bytes", t->nbytes);
	out->found = ck_shown("%" PRIu64, have);
	return true;
}
