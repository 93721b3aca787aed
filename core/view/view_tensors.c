/* SPDX-License-Identifier: MIT */
/*
 * view_tensors: the common functions of the views with one file for each tensor
 * (full/, raw/). A file name is the stem of the tensor and the suffix of the
 * view; an entry is the number of a tensor. No state beside the catalog; any
 * thread.
 */
#include "view_internal.h"

#include <errno.h>

int ck_tensor_view_lookup(const struct ck_tensor_view *v,
			  const struct ck_catalog *c, struct ck_str name,
			  uint32_t *tensor)
{
	size_t suffix = strlen(v->suffix);
	struct ck_str stem = name;
	int64_t entry;

	if (name.len < suffix)
		return -ENOENT;
	stem.len -= suffix;
	if (suffix && memcmp(name.p + stem.len, v->suffix, suffix) != 0)
		return -ENOENT;
	entry = ck_catalog_find(c, stem);
	if (entry < 0 || c->listing->entries[entry].is_object)
		return -ENOENT;
	*tensor = c->listing->entries[entry].i;
	return v->is_shown(c, *tensor) ? 0 : -ENOENT;
}

void ck_tensor_view_name(const struct ck_tensor_view *v,
			 const struct ck_catalog *c, uint32_t tensor,
			 struct ck_buf *out)
{
	ck_buf_str(out, ck_tensor_names(c, tensor).stem);
	ck_buf_text(out, v->suffix);
}

/* --- the directory ------------------------------------------------------------- */

static const struct ck_tensor_view *view_of(const struct ck_dir *dir)
{
	return (const struct ck_tensor_view *)dir->view;
}

int ck_tensors_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
		      struct ck_str name, struct ck_child *out)
{
	return ck_tensor_view_lookup(view_of(dir), c, name, &out->entry);
}

int ck_tensors_next_of(const struct ck_catalog *c,
		       bool (*is_shown)(const struct ck_catalog *, uint64_t),
		       uint64_t *at, struct ck_child *out)
{
	while (*at < c->tensors.n && !is_shown(c, *at))
		++*at;
	if (*at >= c->tensors.n)
		return -ENOENT;
	out->entry = (uint32_t)*at;
	return 0;
}

int ck_tensors_next(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint64_t *at, struct ck_child *out)
{
	return ck_tensors_next_of(c, view_of(dir)->is_shown, at, out);
}

void ck_tensors_name(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_buf *out)
{
	ck_tensor_view_name(view_of(dir), c, entry, out);
}

int ck_tensors_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_file_content *out)
{
	if (!view_of(dir)->is_shown(c, entry))
		return -ENOENT;
	*out = (struct ck_file_content){
		.topic = CK_FILE_KIND_TENSOR,
		.accepts = view_of(dir)->accepts,
		.number = entry,
		.size = view_of(dir)->size(c, entry),
		.version = ck_catalog_tensor(c, entry)->facts->version,
	};
	return 0;
}

int ck_tensors_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_slice **out)
{
	const struct ck_tensor *t;

	if (!view_of(dir)->is_shown(c, entry))
		return -ENOENT;
	t = ck_catalog_tensor(c, entry);
	return ck_view_slice_checked(t, view_of(dir)->slice(c, entry, out),
				     out);
}

uint64_t ck_tensors_count(const struct ck_catalog *c, const void *state)
{
	(void)state;
	return ck_shown_tensors(c);
}
