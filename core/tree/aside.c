/* SPDX-License-Identifier: MIT */
/*
 * aside: the small files beside the tensors of a checkpoint, or in a template, as a view
 * shows them. Their bytes are not kept: whoever has one open has a descriptor of its own.
 */
#include "base/system/rights.h"
#include "format/load/side_files.h"
#include "model/place_rules.h"
#include "report/manifest.h"
#include "tree_internal.h"

#include <errno.h>
#include <unistd.h>

struct aside {
	struct ck_aside ops;	  /* first */
	struct ck_checkpoint *cp; /* whose they are; or NULL, and `fixed` */
	const struct ck_side_files *fixed;
};

static int others_get(struct ck_aside *a, const struct ck_side_files **out)
{
	const struct aside *of = (const struct aside *)a;

	*out = of->fixed;
	return *out ? 0 : ck_checkpoint_side_files(of->cp, out);
}

static int aside_count(struct ck_aside *a, uint32_t *n)
{
	const struct ck_side_files *others;
	int rc = others_get(a, &others);

	if (rc == 0)
		*n = others->n;
	return rc;
}

/* One that was counted. */
static const struct ck_side_file *other_at(struct ck_aside *a, uint32_t i)
{
	const struct ck_side_files *others = NULL;

	(void)!others_get(a, &others);
	return &others->all[i];
}

static const char *aside_name(struct ck_aside *a, uint32_t i)
{
	return other_at(a, i)->name;
}

static void aside_stat(struct ck_aside *a, const struct ck_catalog *c,
		       uint32_t i, struct ck_file_content *out)
{
	const struct ck_side_file *other = other_at(a, i);
	const struct ck_file_access *now = &other->access;
	const struct aside *of = (const struct aside *)a;
	const struct ck_ids shown = { c->meta.uid, c->meta.gid };

	out->size = other->size;
	out->mtime = other->mtime;
	out->mode = 0444 & c->dir_mode & ~now->closed &
		    ck_rights_as(now->mode,
				 (struct ck_ids){ now->uid, now->gid }, shown);
	if (of->fixed)
		out->mode &= ~ck_dir_closed(of->fixed->reach.dirfd, shown);
}

/* --- an open one --------------------------------------------------------------------- */

enum { PART = 64 << 10 }; /* bytes */

struct open {
	struct ck_slice slice; /* first */
	const struct ck_side_file *other;
	int fd;
};

static uint64_t open_begin(const struct ck_slice *s, uint32_t i)
{
	return ck_min((uint64_t)i * PART, s->size);
}

static struct ck_part open_part(const struct ck_slice *s, uint32_t i)
{
	(void)s;
	return (struct ck_part){ .kind = CK_PART_MADE, .number = i };
}

static int open_make(const struct ck_slice *s, uint32_t i, struct ck_buf *out)
{
	const struct open *o = (const struct open *)s;
	size_t len = ck_slice_part_len(s, i);
	ck_auto_free void *bytes = malloc(len + 1);
	int rc = bytes ? ck_pread_full(o->fd, bytes, len, open_begin(s, i))
		       : -ENOMEM;

	if (rc == 0)
		rc = ck_side_file_check(o->other, o->fd);
	else if (rc == -ENODATA)
		rc = -ESTALE;
	if (rc == 0)
		ck_buf_add(out, bytes, len);
	return rc ? rc : out->err;
}

static void open_free(struct ck_slice *s)
{
	struct open *o = (struct open *)s;

	close(o->fd);
	free(o);
}

static int here_slice(const struct ck_side_files *others, uint32_t i,
		      struct ck_slice **out)
{
	struct open *o = malloc(sizeof(*o));
	uint64_t size = others->all[i].size;
	int fd = o ? ck_side_file_open(others, i) : -ENOMEM;

	if (fd < 0) {
		free(o);
		return fd;
	}
	*o = (struct open){
		.slice = { .size = size,
			   .nparts = (uint32_t)((size + PART - 1) / PART),
			   .begin = open_begin,
			   .part = open_part,
			   .make = open_make,
			   .free = open_free },
		.other = &others->all[i],
		.fd = fd,
	};
	*out = &o->slice;
	return 0;
}

/* What another host has lies in memory, as long as the checkpoint is open. */
static int far_slice(const struct ck_side_file *other, struct ck_slice **out)
{
	struct far {
		struct ck_slice slice; /* first */
		struct ck_part part;
		uint64_t begins[2];
	} *f = malloc(sizeof(*f));

	if (!f)
		return -ENOMEM;
	*f = (struct far){
		.slice = { .size = other->size, .nparts = other->size > 0 },
		.part = { .kind = CK_PART_BYTES, .at.bytes = other->pages },
		.begins = { 0, other->size },
	};
	f->slice.parts = &f->part;
	f->slice.begins = f->begins;
	*out = &f->slice;
	return 0;
}

static int aside_slice(struct ck_aside *a, uint32_t i, struct ck_slice **out)
{
	const struct ck_side_files *others;
	int rc = others_get(a, &others);

	if (rc)
		return rc;
	return others->all[i].pages ? far_slice(&others->all[i], out)
				    : here_slice(others, i, out);
}

/* --- whose they are -------------------------------------------------------------------- */

static struct ck_aside *make(const struct aside *from)
{
	struct aside *a = malloc(sizeof(*a));

	if (!a)
		return NULL;
	*a = *from;
	a->ops = (struct ck_aside){ aside_count, aside_name, aside_stat,
				    aside_slice };
	return &a->ops;
}

struct ck_aside *ck_aside_make(struct ck_checkpoint *cp)
{
	const struct aside from = { .cp = cp };

	return make(&from);
}

void ck_aside_free(struct ck_aside *a)
{
	free(a);
}

int ck_view_files_use(struct ck_view_options *o, struct ck_template *t,
		      struct ck_diag *d)
{
	const struct aside from = { .fixed = &t->others };
	int rc;

	*t = (struct ck_template){ 0 };
	rc = o->placements ? ck_place_rules_read(o->placements, &o->rules, d)
			   : 0;
	if (rc == 0 && o->manifest)
		rc = ck_manifest_read(o->manifest, &o->expected, d);
	if (rc || !o->hf_template)
		return rc;
	rc = ck_template_open(o->hf_template, t, d);
	if (rc)
		return rc;
	o->aside = make(&from);
	if (!o->aside)
		return ck_fail(d, ENOMEM, "out of memory");
	o->weight_map = t->has_map ? &t->map : NULL;
	return 0;
}

void ck_view_files_leave(struct ck_view_options *o, struct ck_template *t)
{
	ck_place_rules_free(o->rules);
	o->rules = NULL;
	ck_manifest_free(o->expected);
	o->expected = NULL;
	ck_aside_free(o->aside);
	o->aside = NULL;
	o->weight_map = NULL;
	ck_template_close(t);
}
