/* SPDX-License-Identifier: MIT */
/*
 * dcp_flat: flat parameters of FSDP1 that DCP saved as tensors of one dimension, and
 * the original parameters that a sidecar describes. Optimizer state under numbers is
 * shown as it was saved: DCP keeps the value of one rank for each number. Runs once,
 * when a checkpoint is loaded.
 */
#include "dcp_common.h"
#include "format/ranks/ranks_flat.h"

#include <errno.h>

bool ck_dcp_is_flat(struct ck_str key, uint32_t ndim)
{
	return ndim == 1 && ck_name_is_flat(key);
}

/* --- shards -------------------------------------------------------------------------------- */

/* Adds box i of a flat tensor, whose item is an archive, and its replicas as shards. */
static void shards_add(struct ck_torch_flat *flat, const struct ck_catalog *c,
		       const struct ck_tensor *t, uint32_t i)
{
	const int64_t *box = ck_tensor_box(t, i);
	struct ck_flat_shard s = { .begin = (uint64_t)box[0],
				   .count = (uint64_t)box[1],
				   .item = *ck_catalog_item(c, t->chunk + i),
				   .chunk = t->chunk + i };
	uint32_t n, first = ck_catalog_replicas(c, t->chunk + i, 1, &n);

	flat->shards[flat->nshards++] = s;
	for (uint32_t k = first; k < first + n; k++) {
		s.item = ck_catalog_replica(c, k)->item;
		flat->shards[flat->nshards++] = s;
	}
}

/* True if shards of this tensor can be made. Other faults are found later, when the
 * catalog is finished. */
static bool can_be_cut(const struct ck_tensor *t)
{
	if (t->entry.role != CK_ROLE_WHOLE || t->err ||
	    t->dtype == CK_DTYPE_UNKNOWN || t->shape[0] < 0)
		return false;
	for (uint32_t i = 0; i < t->nchunks; i++) {
		const int64_t *box = ck_tensor_box(t, i);

		/* A box without elements may be behind the end, if there are many
		 * ranks. */
		if (box[0] < 0 || box[1] < 0 ||
		    (box[1] &&
		     (box[0] > t->shape[0] || box[1] > t->shape[0] - box[0])))
			return false;
	}
	return true;
}

/* Returns the number of parts of an entry if they are the pieces of the key between its
 * dots, else 0. */
static uint32_t parts_of(const struct ck_entry *e)
{
	const char *at = e->key.p;

	for (uint32_t i = 0; i < e->nparts; i++) {
		if (e->path[i].p != at)
			return 0;
		at += e->path[i].len + 1UL;
	}
	return e->nparts && at == e->key.p + e->key.len + 1 ? e->nparts : 0;
}

static struct ck_torch_path *path_of(struct ck_torch_load *l,
				     const struct ck_entry *e)
{
	struct ck_torch_path *path = ck_arena_alloc(&l->arena, sizeof(*path));

	if (path)
		*path = (struct ck_torch_path){ .key = e->key,
						.parts = e->path,
						.nparts = parts_of(e) };
	return path;
}

static int flat_add(struct ck_torch_load *l, const struct ck_tensor *t)
{
	struct ck_torch_path *path = path_of(l, &t->entry);
	struct ck_torch_flat *flat;
	uint32_t n;

	(void)ck_catalog_replicas(l->c, t->chunk, t->nchunks, &n);
	flat = path ? ck_rank_flat_begin(l, (size_t)t->nchunks + n) : NULL;
	if (!flat)
		return ck_fail(l->d, ENOMEM, "out of memory");
	flat->key = t->entry.key;
	flat->path = path;
	flat->dtype = t->facts->dtype_name;
	flat->numel = (uint64_t)t->shape[0];
	for (uint32_t i = 0; i < t->nchunks; i++)
		shards_add(flat, l->c, t, i);
	return 0;
}

/* --- parameters ---------------------------------------------------------------------------- */

static int params_add(struct ck_torch_load *l)
{
	uint32_t n = l->c->tensors.n;
	int rc = 0;

	for (uint32_t i = 0; i < n && rc == 0; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(l->c, i);

		if (ck_dcp_is_flat(t->entry.key, t->ndim) && can_be_cut(t))
			rc = flat_add(l, t);
	}
	if (rc == 0 && l->nflats)
		rc = ck_torch_names_reserve(l);
	return rc || l->nflats == 0 ? rc : ck_rank_params_add(l);
}

int ck_dcp_flat_load(struct ck_checkpoint *cp, struct ck_catalog *c,
		     const struct ck_format_options *options, struct ck_diag *d)
{
	struct ck_torch_load l = { .cp = cp, .c = c, .d = d };
	int rc;

	/* A write to a flat parameter would also have to change its parameters. */
	if (options->write)
		return ck_sidecar_source_note_unread(cp, c, options,
						     "with -o write", d);
	l.given = ck_rank_rows(&l);
	rc = ck_sidecar_source_read(cp, c, options, &l.source, d);
	if (rc == 0)
		rc = params_add(&l);
	ck_torch_load_fini(&l);
	return rc;
}
