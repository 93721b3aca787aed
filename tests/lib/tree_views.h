/* SPDX-License-Identifier: MIT */
/*
 * tree_views: two views for tests of the tree, of the first tensors of a checkpoint.
 *
 *	flat/<stem>		the bytes of a tensor
 *	deep/<stem>/all		the same; deep/<stem>/link leads to it in flat/
 *	deep/any<i>/		has any<i>/ again, which listings omit, and the
 *				first tensor as `all`
 */
#ifndef CK_TREE_VIEWS_H
#define CK_TREE_VIEWS_H

#include "ckptfs/tree.h"
#include "tree/number.h"

#include <errno.h>
#include <stdlib.h>

/* Numbers have few bits. */
#define SMALL (CK_DIR_BITS < 23)

enum {
	TENSORS = SMALL ? 3 : 40,
	ANYS = 2000000, /* names any<i> */
};

static uint32_t shown_tensors(const struct ck_catalog *c)
{
	return (uint32_t)ck_min(c->tensors.n, TENSORS);
}

/* The tensor of a stem; -ENOENT. */
static int tensor_find(const struct ck_catalog *c, struct ck_str stem,
		       uint32_t *out)
{
	for (*out = 0; *out < shown_tensors(c); ++*out)
		if (ck_str_eq(ck_tensor_names(c, *out).stem, stem))
			return 0;
	return -ENOENT;
}

static struct ck_file_content about_tensor(const struct ck_catalog *c,
					   uint32_t tensor)
{
	return (struct ck_file_content){
		.topic = CK_FILE_KIND_TENSOR,
		.accepts = CK_ACCEPTS_RAW,
		.number = tensor,
		.size = ck_tensor_views[1]->size(c, tensor),
		.version = ck_catalog_tensor(c, tensor)->facts->version,
	};
}

static int flat_lookup(const struct ck_catalog *c, const struct ck_dir *d,
		       struct ck_str name, struct ck_child *out)
{
	(void)d;
	return tensor_find(c, name, &out->entry);
}

static int flat_next(const struct ck_catalog *c, const struct ck_dir *d,
		     uint64_t *at, struct ck_child *out)
{
	(void)d;
	if (*at >= shown_tensors(c))
		return -ENOENT;
	out->entry = (uint32_t)*at;
	return 0;
}

static void flat_name(const struct ck_catalog *c, const struct ck_dir *d,
		      uint32_t entry, struct ck_buf *out)
{
	(void)d;
	ck_buf_str(out, ck_tensor_names(c, entry).stem);
}

static int flat_stat(const struct ck_catalog *c, const struct ck_dir *d,
		     uint32_t entry, struct ck_file_content *out)
{
	(void)d;
	if (entry >= shown_tensors(c))
		return -ENOENT;
	*out = about_tensor(c, entry);
	return 0;
}

static int flat_slice(const struct ck_catalog *c, const struct ck_dir *d,
		      uint32_t entry, struct ck_slice **out)
{
	(void)d;
	return ck_tensor_views[1]->slice(c, entry, out);
}

static const struct ck_view flat = {
	.top = "flat",
	.lookup = flat_lookup,
	.next = flat_next,
	.name = flat_name,
	.stat = flat_stat,
	.slice = flat_slice,
};

/* a[0] of its directories: 0, the view's own; 1 + tensor; ANY. */
enum { ANY = 1000000, ALL = 0, LINK = 1 };

static const struct ck_view deep;
static int states; /* made, and not freed */

static int deep_make(const struct ck_view_source *from, const void **state)
{
	(void)from;
	*state = &states;
	states++;
	return 0;
}

static void deep_free(const void *state)
{
	states -= state == &states;
}

static void deep_dir(struct ck_child *out, uint32_t entry, uint32_t which)
{
	out->type = CK_TYPE_DIR;
	out->entry = entry;
	out->dir = (struct ck_dir){ .view = &deep,
				    .state = &states,
				    .a = { which } };
}

static int deep_file_lookup(struct ck_str name, struct ck_child *out)
{
	out->entry = ck_str_is(name, "all") ? ALL : LINK;
	return out->entry == ALL || ck_str_is(name, "link") ? 0 : -ENOENT;
}

static int deep_lookup(const struct ck_catalog *c, const struct ck_dir *d,
		       struct ck_str name, struct ck_child *out)
{
	uint32_t tensor;

	if (d->state != &states)
		return -EIO;
	if (d->a[0] && d->a[0] != ANY)
		return deep_file_lookup(name, out);
	if (ck_str_starts(name, CK_STR("any"))) {
		deep_dir(out, TENSORS + (uint32_t)atoi(name.p + 3), ANY);
		return 0;
	}
	if (d->a[0] == ANY)
		return deep_file_lookup(name, out);
	if (tensor_find(c, name, &tensor))
		return -ENOENT;
	deep_dir(out, tensor, 1 + tensor);
	return 0;
}

static int deep_next(const struct ck_catalog *c, const struct ck_dir *d,
		     uint64_t *at, struct ck_child *out)
{
	if (d->a[0] == 0) {
		if (*at >= shown_tensors(c))
			return -ENOENT;
		deep_dir(out, (uint32_t)*at, 1 + (uint32_t)*at);
		return 0;
	}
	/* There are gaps between positions. */
	if (d->a[0] == ANY || *at > 5)
		return -ENOENT;
	out->entry = *at == 0 ? ALL : LINK;
	*at = *at == 0 ? 0 : 5;
	return 0;
}

static void deep_name(const struct ck_catalog *c, const struct ck_dir *d,
		      uint32_t entry, struct ck_buf *out)
{
	bool is_any = d->a[0] == ANY || d->a[0] == 0;

	if (is_any && entry >= TENSORS)
		ck_buf_printf(out, "any%u", entry - TENSORS);
	else if (d->a[0])
		ck_buf_text(out, entry == ALL ? "all" : "link");
	else
		ck_buf_str(out, ck_tensor_names(c, entry).stem);
}

static uint32_t tensor_of(const struct ck_dir *d)
{
	return d->a[0] == ANY ? 0 : d->a[0] - 1;
}

static int deep_stat(const struct ck_catalog *c, const struct ck_dir *d,
		     uint32_t entry, struct ck_file_content *out)
{
	if (d->a[0] == 0 || entry > LINK)
		return -ENOENT;
	if (entry == ALL)
		*out = about_tensor(c, tensor_of(d));
	else
		*out = (struct ck_file_content){ .type = CK_TYPE_LINK,
						 .size = 4 };
	return 0;
}

static int deep_slice(const struct ck_catalog *c, const struct ck_dir *d,
		      uint32_t entry, struct ck_slice **out)
{
	return entry == ALL ? ck_tensor_views[1]->slice(c, tensor_of(d), out)
			    : -EIO;
}

static int deep_link(const struct ck_catalog *c, const struct ck_dir *d,
		     uint32_t entry, struct ck_buf *target)
{
	(void)entry;
	ck_buf_text(target, "../../flat/");
	ck_buf_str(target, ck_tensor_names(c, tensor_of(d)).stem);
	return 0;
}

static const struct ck_view deep = {
	.top = "deep",
	.make = deep_make,
	.free = deep_free,
	.lookup = deep_lookup,
	.next = deep_next,
	.name = deep_name,
	.stat = deep_stat,
	.slice = deep_slice,
	.link = deep_link,
};

#endif
