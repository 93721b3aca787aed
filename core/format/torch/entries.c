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

static struct ck_str bytes_key(const void *arg, uint32_t i)
{
	const struct ck_torch_load *l = arg;

	return l->bytes[i].what;
}

/* Appends the location, dtype, shape and strides of a tensor. Tensors that are equal in
 * these are aliases. */
static void identity(const struct ck_torch_spec *spec,
		     const struct ck_torch_box *box, struct ck_buf *out)
{
	size_t dims = spec->ndim * sizeof(uint64_t);

	ck_buf_u32(out, box->item.file);
	ck_buf_u64(out, box->item.fpos);
	ck_buf_u64(out, box->item.length);
	ck_buf_u8(out, box->item.change);
	ck_buf_str(out, spec->dtype);
	ck_buf_u32(out, spec->ndim);
	ck_buf_add(out, (const char *)spec->shape, dims);
	if (box->strides)
		ck_buf_add(out, (const char *)box->strides, dims);
}

/* Makes the last tensor an alias of an earlier one with the same bytes, if there is
 * one. */
static int alias(struct ck_torch_load *l, const struct ck_torch_spec *spec,
		 const struct ck_torch_box *box)
{
	struct ck_torch_bytes *bytes = ck_grow(l->bytes, &l->bytes_cap,
					       l->nbytes, 1, sizeof(*bytes));
	struct ck_buf text = { 0 };
	struct ck_str what;
	uint32_t n = (uint32_t)l->nbytes, number = n;
	int rc = 0;

	if (bytes)
		l->bytes = bytes;
	identity(spec, box, &text);
	what = ck_arena_copy(&l->arena, (struct ck_str){ text.data, text.len });
	l->same.key = bytes_key;
	l->same.arg = l;
	if (!bytes || text.err || !what.p ||
	    ck_table_add(&l->same, what, n, &number))
		rc = no_memory(l);
	ck_buf_fini(&text);
	if (rc)
		return rc;
	if (number < n) {
		/* Fails if the earlier one has several boxes: others may differ. */
		rc = ck_catalog_tensor_alias(l->c, bytes[number].tensor);
		return rc == -ENOMEM ? no_memory(l) : 0;
	}
	bytes[l->nbytes++] = (struct ck_torch_bytes){ what,
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
	return rc || row->boxes->item.length == 0
		       ? rc
		       : alias(l, row->spec, row->boxes);
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
