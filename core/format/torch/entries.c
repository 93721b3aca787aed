/* SPDX-License-Identifier: MIT */
/* entries: adds a row to the catalog as an entry: a tensor, an alias of one, a value,
 * or a line of damage. The state is in struct ck_torch_load. */
#include "entries.h"

#include <errno.h>

static int no_memory(const struct ck_torch_load *l)
{
	return ck_fail(l->d, ENOMEM, "out of memory");
}

static const struct ck_torch_file *file_of(const struct ck_torch_load *l,
					   const struct ck_torch_row *row)
{
	return &l->files[row->file];
}

int ck_torch_row_lose(const struct ck_torch_load *l, struct ck_str key,
		      const struct ck_torch_row *row, struct ck_str what)
{
	const struct ck_loss loss = { .name = key,
				      .file = file_of(l, row)->number,
				      .err = EBADMSG,
				      .what = what };

	return ck_catalog_loss_add(l->c, &loss) ? no_memory(l) : 0;
}

/* True if the path is one string, its key, without a suffix `~<n>`: mostly so if the
 * state dict is not nested. */
static bool is_key(const struct ck_torch_path *path, struct ck_str key)
{
	return path->nparts == 1 && path->parts[0].type == CK_PATH_STR &&
	       path->parts[0].p == path->key.p && path->parts[0].len == key.len;
}

int ck_torch_path_add(const struct ck_torch_load *l,
		      const struct ck_torch_row *row)
{
	struct ck_str key = ck_catalog_last_key(l->c);
	const struct ck_torch_path *from = row->path;
	struct ck_path_part *path;

	if (is_key(from, key)) {
		ck_catalog_path_is_key(l->c);
		return 0;
	}
	path = ck_catalog_path_add(l->c, from->nparts);

	for (uint32_t i = 0; path && i < from->nparts; i++) {
		path[i] = from->parts[i];
		path[i].p = key.p + (from->parts[i].p - from->key.p);
	}
	return path ? 0 : no_memory(l);
}

static const char *also_in(const struct ck_torch_load *l,
			   const struct ck_torch_row *row)
{
	return ck_shown("in %s and %s",
			ck_show(ck_str_from(file_of(l, row)->name)),
			ck_show(ck_str_from(l->files[row->also - 1].name)));
}

/* --- tensors ------------------------------------------------------------------------------ */

static int chunk_add(const struct ck_torch_load *l,
		     const struct ck_torch_spec *spec,
		     const struct ck_torch_box *box)
{
	int rc = ck_catalog_chunks_expect(l->c, 1);

	if (rc == 0)
		rc = ck_catalog_chunk_add(l->c, box->at, box->at + spec->ndim,
					  &box->item);
	if (rc == 0 && box->strides)
		rc = ck_catalog_strides_add(l->c, box->strides);
	return rc ? no_memory(l) : 0;
}

/* Equal boxes are of equal tensors: `at` is that of the description, of which there is
 * one, and equal strides are stored once. */
static struct ck_str bytes_of(const struct ck_torch_box *box)
{
	_Static_assert(sizeof(*box) == sizeof(box->at) + sizeof(box->strides) +
					       sizeof(box->item),
		       "no padding");

	return (struct ck_str){ (const char *)box, sizeof(*box) };
}

static struct ck_str bytes_key(const void *arg, uint32_t i)
{
	const struct ck_torch_load *l = arg;

	return bytes_of(l->bytes[i].box);
}

/* Makes the last tensor an alias of an earlier one with the same bytes, dtype, shape and
 * strides, if there is one. */
static int alias(struct ck_torch_load *l, const struct ck_torch_box *box)
{
	struct ck_torch_bytes *bytes = ck_grow(l->bytes, &l->bytes_cap,
					       l->nbytes, 1, sizeof(*bytes));
	uint32_t n = (uint32_t)l->nbytes, number = n;
	int rc;

	if (!bytes)
		return no_memory(l);
	l->bytes = bytes;
	l->same.key = bytes_key;
	l->same.arg = l;
	if (ck_table_add(&l->same, bytes_of(box), n, &number))
		return no_memory(l);
	if (number < n) {
		/* Fails if the earlier one has several boxes: others may differ. */
		rc = ck_catalog_tensor_alias(l->c, bytes[number].tensor);
		return rc == -ENOMEM ? no_memory(l) : 0;
	}
	bytes[l->nbytes++] = (struct ck_torch_bytes){ box,
						      l->c->tensors.n - 1 };
	return 0;
}

int ck_torch_tensor_begin(struct ck_torch_load *l,
			  const struct ck_torch_row *row, struct ck_str key)
{
	const struct ck_torch_spec *spec = row->spec;

	if (ck_catalog_tensor_add(l->c, key, spec->dtype, spec->ndim,
				  spec->shape))
		return no_memory(l);
	return ck_torch_path_add(l, row);
}

static int fault(const struct ck_torch_load *l, int err, const char *why)
{
	return ck_catalog_tensor_fault(l->c, err, why) ? no_memory(l) : 0;
}

/* A tensor on the device "meta", which has no bytes. */
static int meta_add(const struct ck_torch_load *l,
		    const struct ck_torch_row *row)
{
	struct ck_torch_box box = *row->boxes;

	box.item.file = CK_NO_FILE;
	return chunk_add(l, row->spec, &box);
}

static int tensor_add(struct ck_torch_load *l, const struct ck_torch_row *row,
		      struct ck_str key)
{
	int rc = ck_torch_tensor_begin(l, row, key);

	if (rc)
		return rc;
	/* It is ambiguous which of the two files counts. */
	if (row->also)
		return fault(l, EIO, also_in(l, row));
	if (!row->spec->is_known)
		return 0; /* the catalog shows that its dtype is unknown */
	if (row->lost)
		return row->lost->err == ENODATA
			       ? meta_add(l, row)
			       : fault(l, EBADMSG, row->lost->what);
	rc = chunk_add(l, row->spec, row->boxes);
	return rc || row->boxes->item.length == 0 ? rc : alias(l, row->boxes);
}

int ck_torch_entry_add(struct ck_torch_load *l, const struct ck_torch_row *row,
		       struct ck_str key)
{
	if (row->is_value)
		return ck_torch_value_add(l, row, key);
	if (!row->spec)
		return ck_torch_row_lose(l, key, row,
					 ck_str_from(row->lost->what));
	if (row->spec->kind != CK_KIND_TENSOR && !row->also)
		return ck_rank_rows_join(l, &row, 1, key);
	return tensor_add(l, row, key);
}
