/* SPDX-License-Identifier: MIT */
/*
 * tckpt_items: rows of files that are not torch files. A safetensors file has local tensors,
 * whose names are their paths below the item, joined by dots. A file of JSON or raw bytes is one
 * value. The state is in struct ck_tckpt_load.
 */
#include "format/safetensors/safetensors_internal.h"
#include "source/head.h"
#include "syntax/pickle/pickler_json.h"
#include "tckpt_internal.h"

#include <errno.h>
#include <inttypes.h>

/* Upper limit of the size of a file of JSON or raw bytes: the catalog keeps its value. */
#define VALUE_MOST (UINT64_C(64) << 20)

static int no_memory(const struct ck_tckpt_load *t)
{
	return ck_fail(t->torch.d, ENOMEM, "out of memory");
}

/* Adds a line of damage in place of a file. */
static int lose(struct ck_tckpt_load *t, uint32_t i, const struct ck_diag *d)
{
	const struct ck_loss loss = { .file = t->torch.files[i].number,
				      .err = d->err ? d->err : EBADMSG,
				      .what = ck_diag_what(d) };

	return ck_catalog_loss_add(t->torch.c, &loss) ? no_memory(t) : 0;
}

/* Adds a row of file i; the caller fills it. The path must live until it is replaced by that of
 * the load. */
static struct ck_torch_row *row_add(struct ck_tckpt_load *t, uint32_t i,
				    struct ck_torch_path *path)
{
	struct ck_torch_load *l = &t->torch;
	struct ck_torch_row *rows = ck_grow(l->rows, &l->rows_cap, l->nrows, 1,
					    sizeof(*rows));

	if (!rows)
		return NULL;
	l->rows = rows;
	rows[l->nrows] = (struct ck_torch_row){ .path = path, .file = i };
	return &rows[l->nrows++];
}

/* Makes the path of an item, or of a name below it that metadata.pkl does not list, in the arena
 * of the file. NULL if memory is short. */
static struct ck_torch_path *path_make(struct ck_tckpt_load *t, uint32_t i,
				       const struct ck_str *name)
{
	struct ck_str item = t->items[t->files[i].item];
	struct ck_path_part parts[2] = {
		{ item.p, (uint32_t)item.len, CK_PATH_STR },
	};
	struct ck_torch_path *path = NULL;
	struct ck_buf key = { 0 };

	ck_buf_str(&key, item);
	if (name) {
		ck_buf_text(&key, ".");
		ck_buf_str(&key, *name);
		parts[1] = (struct ck_path_part){ name->p, (uint32_t)name->len,
						  CK_PATH_STR };
	}
	if (!key.err)
		path = ck_torch_path_make(&t->torch.files[i].arena,
					  (struct ck_str){ key.data, key.len },
					  parts, name ? 2 : 1);
	ck_buf_fini(&key);
	return path;
}

/* --- safetensors ------------------------------------------------------------------- */

/* Finds the path of a tensor, and the part that the file has of it. *part is NULL for an empty one
 * of a rank outside of the mesh, which has no part. */
static int part_find(struct ck_tckpt_load *t, uint32_t i, struct ck_str name,
		     const struct ck_tckpt_local *local,
		     struct ck_torch_path **path,
		     const struct ck_rank_part **part)
{
	struct ck_torch_path *unlisted = path_make(t, i, &name);
	struct ck_arena *arena = &t->torch.files[i].arena;
	const struct ck_tckpt_of *of = &t->files[i];
	struct ck_tckpt_path *listed;

	*part = NULL;
	*path = unlisted;
	if (!unlisted)
		return -ENOMEM;
	listed = ck_tckpt_inner_find(&t->metadata, t->items[of->item], name);
	if (listed) {
		*path = &listed->path;
		listed->have[of->rank / 8] |= (uint8_t)(1U << of->rank % 8);
		if (ck_tckpt_part(listed, of->rank, local, &t->seen,
				  &t->metadata.pickle, arena, part))
			return -ENOMEM;
		if (!*part && ck_dims_have_zero(local->size, local->ndim))
			return 0;
	}
	return *part ? 0
		     : ck_tckpt_whole(local, &t->metadata.pickle, arena, part);
}

static int tensor_add(struct ck_tckpt_load *t, uint32_t i,
		      const struct ck_safetensors_file *f, size_t k)
{
	const struct ck_safetensor *e = &f->header.tensors[k];
	const struct ck_torch_dense dense = {
		.dtype = e->dtype,
		.ndim = e->ndim,
		.size = &f->header.shapes[e->shape],
		.item = { .fpos = f->data + e->begin,
			  .length = e->end - e->begin,
			  .file = t->torch.files[i].number,
			  .form = CK_FORM_ELEMENTS },
	};
	const struct ck_tckpt_local local = { .dtype = dense.dtype,
					      .ndim = dense.ndim,
					      .size = dense.size };
	const struct ck_rank_part *part;
	struct ck_torch_path *path;
	struct ck_torch_row *row;

	if (part_find(t, i, e->name, &local, &path, &part))
		return no_memory(t);
	if (!part)
		return 0;
	row = row_add(t, i, path);
	return row ? ck_torch_dense_hold(&t->torch, row, part, &dense)
		   : no_memory(t);
}

static int safetensors_read(struct ck_tckpt_load *t, uint32_t i,
			    struct ck_diag *d)
{
	struct ck_torch_file *of = &t->torch.files[i];
	struct ck_safetensors_file f = { .number = of->number };
	int rc = ck_safetensors_file_open(t->torch.cp->files, &f, d);

	for (size_t k = 0; k < f.header.n && rc == 0; k++)
		rc = tensor_add(t, i, &f, k);
	ck_safetensors_file_fini(&f);
	return rc;
}

/* --- values --------------------------------------------------------------------------- */

/* Reads all bytes of a file. */
static int bytes_read(struct ck_files *files, uint32_t number,
		      struct ck_buf *out, struct ck_diag *d)
{
	const struct ck_file_info *info = ck_files_info(files, number);
	struct ck_file file;
	void *bytes;
	int rc;

	if (info->err)
		return ck_fail(d, info->err, "%s", info->why);
	if (info->size > VALUE_MOST)
		return ck_differs(d, EFBIG,
				  ck_shown("at most %" PRIu64, VALUE_MOST),
				  ck_shown("%" PRIu64, info->size),
				  "a value of too many bytes");
	bytes = calloc(1, info->size + 1);
	rc = bytes ? ck_files_get(files, number, &file) : -ENOMEM;
	if (rc == 0) {
		rc = ck_files_head_read(files, &file, bytes, info->size, 0);
		ck_files_put(files, &file);
	}
	if (rc == 0)
		ck_buf_add(out, bytes, info->size);
	free(bytes);
	rc = out->err ? -ENOMEM : rc;
	return rc ? ck_fail(d, -rc, "%s", strerrordesc_np(-rc)) : 0;
}

static int value_read(struct ck_tckpt_load *t, uint32_t i, struct ck_diag *d)
{
	struct ck_torch_file *f = &t->torch.files[i];
	struct ck_buf bytes = { 0 }, pickle = { 0 };
	struct ck_torch_path *path = path_make(t, i, NULL);
	struct ck_torch_row *row;
	struct ck_str text;
	int rc = path ? bytes_read(t->torch.cp->files, f->number, &bytes, d)
		      : no_memory(t);

	f->len = bytes.len;
	text = (struct ck_str){ bytes.len ? bytes.data : "", bytes.len };
	if (rc == 0)
		rc = t->files[i].encoding == CK_TCKPT_JSON
			     ? ck_pickle_of_json(text, &pickle, d)
			     : ck_pickle_of_bytes(text, &pickle, d);
	row = rc ? NULL : row_add(t, i, path);
	if (rc == 0)
		rc = row ? ck_torch_value_set(
				   &t->torch, row,
				   (struct ck_str){ pickle.data, pickle.len })
			 : no_memory(t);
	ck_buf_fini(&bytes);
	ck_buf_fini(&pickle);
	return rc;
}

/* --- all files ------------------------------------------------------------------------ */

static int read_any(struct ck_tckpt_load *t, uint32_t i, struct ck_diag *d)
{
	const struct ck_tckpt_of *of = &t->files[i];

	if (of->encoding == CK_TCKPT_SAFETENSORS)
		return safetensors_read(t, i, d);
	if (of->encoding == CK_TCKPT_JSON || of->encoding == CK_TCKPT_RAW)
		return value_read(t, i, d);
	return ck_fail(d, EBADMSG, "unknown encoding %s", ck_show(of->type));
}

int ck_tckpt_item_read(struct ck_tckpt_load *t, uint32_t i)
{
	struct ck_torch_load *l = &t->torch;
	struct ck_torch_file *f = &l->files[i];
	struct ck_diag d = { 0 };
	int rc;

	f->row = l->nrows;
	rc = read_any(t, i, &d);
	if (rc == 0)
		rc = ck_torch_paths_know(l, f->row, &d);
	if (ck_is_shortage(rc))
		return ck_fail(l->d, -rc, "%s: %s",
			       ck_show(ck_str_from(f->name)), strerror(-rc));
	f->good = rc == 0;
	l->nrows = f->good ? l->nrows : f->row;
	f->nrows = l->nrows - f->row;
	ck_arena_fini(&f->arena);
	return rc ? lose(t, i, &d) : 0;
}
