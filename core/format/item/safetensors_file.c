/* SPDX-License-Identifier: MIT */
/*
 * safetensors_file: reads the header of a safetensors file, or of a piece of one that
 * begins inside a data file of DCP, and its sharding information.
 */
#include "safetensors_file.h"

#include <errno.h>
#include <inttypes.h>

void ck_safetensors_file_fini(struct ck_safetensors_file *f)
{
	ck_safetensors_fini(&f->header);
	free(f->by_name);
	free(f->shown);
	free(f->offsets);
	free(f->json);
	free(f->name);
}

/* --- names ----------------------------------------------------------------------- */

static int name_cmp(const void *a, const void *b, void *arg)
{
	const struct ck_safetensor *tensors = arg;
	struct ck_str x = tensors[*(const uint32_t *)a].name;
	struct ck_str y = tensors[*(const uint32_t *)b].name;
	size_t len = x.len < y.len ? x.len : y.len;
	int order = len ? memcmp(x.p, y.p, len) : 0;

	return order ? order : (x.len > y.len) - (x.len < y.len);
}

static int names_sort(struct ck_safetensors_file *f)
{
	size_t n = f->header.n;

	f->by_name = calloc(n + 1, sizeof(*f->by_name));
	f->shown = calloc(n + 1, sizeof(*f->shown));
	if (!f->by_name || !f->shown)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		f->by_name[i] = i;
	if (n)
		qsort_r(f->by_name, n, sizeof(*f->by_name), name_cmp,
			f->header.tensors);
	return 0;
}

int64_t ck_safetensors_find(const struct ck_safetensors_file *f,
			    struct ck_str name)
{
	size_t from = 0, to = f->header.n;

	while (from < to) {
		size_t mid = from + (to - from) / 2;
		struct ck_str at = f->header.tensors[f->by_name[mid]].name;
		size_t len = at.len < name.len ? at.len : name.len;
		int order = len ? memcmp(at.p, name.p, len) : 0;

		if (order == 0 && at.len == name.len)
			return f->by_name[mid];
		if (order < 0 || (order == 0 && at.len < name.len))
			from = mid + 1;
		else
			to = mid;
	}
	return -1;
}

/* --- DCP_SHARDING_INFO --------------------------------------------------------------- */

/* Reads {"saved_offsets": [0, 4]} of a tensor, and counts it in *found. */
static int offsets_take(struct ck_safetensors_file *f, struct ck_json_reader *r,
			int64_t tensor, struct ck_json_value *v,
			uint32_t *found)
{
	const struct ck_safetensor *t = tensor < 0 ? NULL
						   : &f->header.tensors[tensor];
	uint32_t ndim = 0;
	uint64_t offset;
	int rc = 0;

	if (!t || !ck_str_is(v->key, "saved_offsets"))
		return ck_json_skip(r, v);
	if (v->type != CK_JSON_ARRAY)
		return -EBADMSG;
	for (;;) {
		rc = ck_json_next(r, v);
		if (rc || v->type == CK_JSON_END)
			break;
		if (ndim == t->ndim || !ck_json_u63(v, &offset))
			return -EBADMSG;
		f->offsets[t->shape + ndim++] = (int64_t)offset;
	}
	if (rc == 0 && ndim != t->ndim)
		return -EBADMSG;
	++*found;
	return rc;
}

/* Reads the information of one tensor. */
static int info_take(struct ck_safetensors_file *f, struct ck_json_reader *r,
		     const struct ck_json_value *of, uint32_t *found)
{
	int64_t tensor = ck_safetensors_find(f, of->key);
	struct ck_json_value v;
	int rc;

	if (of->type != CK_JSON_OBJECT)
		return -EBADMSG;
	for (;;) {
		rc = ck_json_next(r, &v);
		if (rc || v.type == CK_JSON_END)
			return rc;
		rc = offsets_take(f, r, tensor, &v, found);
		if (rc)
			return rc;
	}
}

static int info_read(struct ck_safetensors_file *f, struct ck_json_reader *r)
{
	struct ck_json_value v;
	uint32_t found = 0;
	int rc = ck_json_next(r, &v);

	if (rc == 0 && v.type != CK_JSON_OBJECT)
		return -EBADMSG;
	while (rc == 0) {
		rc = ck_json_next(r, &v);
		if (rc || v.type == CK_JSON_END)
			break;
		rc = info_take(f, r, &v, &found);
	}
	if (rc == 0)
		rc = ck_json_next(r, &v);
	return rc || found == f->header.n ? rc : -EBADMSG;
}

/* Malformed information is a fault of each tensor of the file, not of this call. */
static int info_add(struct ck_safetensors_file *f)
{
	struct ck_str text = ck_safetensors_note(&f->header,
						 "DCP_SHARDING_INFO");
	struct ck_json_reader r;
	int rc = 0;

	f->offsets = calloc(f->header.nshapes + 1, sizeof(*f->offsets));
	if (!f->offsets)
		return -ENOMEM;
	if (!text.p)
		return 0;
	f->has_info = true;
	ck_json_reader_init(&r, text, NULL);
	rc = info_read(f, &r);
	ck_json_reader_fini(&r);
	f->bad_info = rc == -EBADMSG;
	return rc == -ENOMEM ? rc : 0;
}

/* --- the header ------------------------------------------------------------------------ */

/* HuggingFaceStorageWriter writes a value other than a tensor as an archive before the
 * tensors (PyTorch 2.13, torch/distributed/checkpoint/filesystem.py,
 * _write_files_from_queue). */
static bool is_archive(uint64_t n)
{
	return memcmp(&n, "PK\3\4", 4) == 0;
}

static int length_take(struct ck_files *files, const struct ck_file *file,
		       uint64_t fpos, uint64_t *out, struct ck_diag *d)
{
	uint64_t size = file->size > fpos ? file->size - fpos : 0;
	uint64_t n;
	int rc;

	if (size < CK_SAFETENSORS_BEGIN)
		return ck_differs(d, EBADMSG, "at least 8 bytes",
				  ck_shown("%" PRIu64, size),
				  "no safetensors file");
	rc = ck_files_read(files, file, &n, sizeof(n), fpos, fpos + sizeof(n));
	if (rc)
		return ck_fail(d, -rc, "%s", strerrordesc_np(-rc));
	*out = n;
	if (is_archive(n))
		return ck_fail(d, EBADMSG,
			       "begins with an archive of torch.save, not with "
			       "the size of a header; PyTorch writes one in "
			       "front of the tensors for a value that is not a "
			       "tensor");
	if (n == 0 || n > CK_SAFETENSORS_MOST ||
	    n > size - CK_SAFETENSORS_BEGIN)
		return ck_fail(d, EBADMSG,
			       "a header of %" PRIu64
			       " bytes in a file of %" PRIu64,
			       n, size);
	return 0;
}

int ck_safetensors_header_read(struct ck_files *files,
			       const struct ck_file *file, uint64_t fpos,
			       struct ck_safetensors_file *f, struct ck_diag *d)
{
	uint64_t len = 0;
	int rc = length_take(files, file, fpos, &len, d);

	if (rc)
		return rc;
	f->data = fpos + CK_SAFETENSORS_BEGIN + len;
	f->json = malloc(len);
	if (!f->json)
		return ck_fail(d, ENOMEM, "out of memory");
	rc = ck_files_read(files, file, f->json, len,
			   fpos + CK_SAFETENSORS_BEGIN, f->data);
	if (rc)
		return ck_fail(d, -rc, "%s", strerrordesc_np(-rc));
	rc = ck_safetensors_read(&f->header, (struct ck_str){ f->json, len },
				 file->size - f->data, d);
	if (rc)
		return rc;
	rc = names_sort(f);
	if (rc == 0)
		rc = info_add(f);
	f->good = rc == 0;
	return rc ? ck_fail(d, ENOMEM, "out of memory") : 0;
}
