/* SPDX-License-Identifier: MIT */
/*
 * views: any bytes as a `.metadata`, and from its catalog the files that torch/ and dcp/
 * generate. They are refused, or their pickles can be read, name classes of PyTorch alone and
 * have the sizes that the layouts predict; `.metadata` has the tensors of the source. Each shard
 * map has a rectangle for each box, and no byte that XML excludes.
 */
#include "format/dcp/dcp_rewrite.h"
#include "must.h"
#include "report/shard_map.h"
#include "view/dcp/dcp_view.h"
#include "view/pt/pt.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 8 << 20 }; /* bytes of a generated text */

static int file_add(void *ctx, struct ck_str path, uint32_t *number)
{
	struct ck_catalog *c = ctx;
	struct ck_data_file file = { .path = path,
				     .size = UINT64_C(1) << 62,
				     .attr = { .mode = 0100444 } };

	*number = c->files.n;
	return ck_catalog_file_add(c, &file);
}

static struct ck_catalog *catalog_of(struct ck_str in, int *rc)
{
	struct ck_catalog *c = ck_catalog_make("dcp");
	const struct ck_dcp_numbers numbers = { file_add, c, NULL };
	struct ck_dcp_places places = { 0 };

	must(c != NULL);
	*rc = ck_dcp_parse_places(c, in, &numbers, &places, NULL);
	if (*rc == 0)
		*rc = ck_catalog_finish(c, NULL);
	ck_dcp_places_fini(&places);
	return c;
}

/* --- objects ------------------------------------------------------------------------ */

/* Each object is None. */
static int object_pickle(struct ck_checkpoint *cp, uint32_t object,
			 struct ck_buf *out, struct ck_diag *d)
{
	(void)cp, (void)object, (void)d;
	ck_buf_text(out, "N.");
	return out->err;
}

static int object_record(struct ck_checkpoint *cp, uint32_t object,
			 struct ck_slice **out, bool *transient)
{
	struct ck_slice_builder b = { 0 };

	(void)cp, (void)object;
	*transient = false;
	ck_slice_add_bytes(&b, CK_STR("record"));
	return ck_slice_make(&b, out);
}

/* --- generated pickles --------------------------------------------------------------- */

/* Reads a pickle, unless it is nested deeper than the reader allows. */
static void pickle_look(const struct ck_buf *b)
{
	struct ck_pickle p = { 0 };
	struct ck_diag d = { 0 };
	int rc = ck_pickle_read(&p, b->data, b->len, NULL, &d);

	must(rc == 0 || strstr(d.text, "deep") || strstr(d.text, "memory"));
	must(rc || p.end == b->len);
	for (uint32_t i = 0; rc == 0 && i < p.nglobals; i++) {
		const struct ck_pv v = { .tag = CK_PV_GLOBAL, .i = i };
		struct ck_str name = ck_pickle_global(&p, &v);

		must(ck_str_starts(name, CK_STR("torch.")) ||
		     ck_str_is(name, "collections.OrderedDict"));
	}
	ck_pickle_fini(&p);
}

static void torch_look(const struct ck_catalog *c,
		       const struct ck_view_source *from)
{
	struct ck_sections *sections;
	struct ck_pt_file *file;
	struct ck_buf b = { 0 };
	int rc = ck_pt_file_make(c, from, &file, &sections);

	must(rc == 0 || rc == -EOVERFLOW);
	if (rc)
		return;
	if (file->pickle.len < MOST) {
		for (uint32_t i = 0; i < file->pickle.nblocks; i++) {
			ck_pt_block(&file->pickle, i, &b);
			ck_buf_str(&b, ck_pt_block_object(&file->pickle, i));
		}
		must(!b.err && b.len == file->pickle.len);
		pickle_look(&b);
	}
	must(file->tree.n <= 2 * (c->listing->n + file->tree.noptimizers));
	ck_buf_fini(&b);
	ck_sections_put(sections);
}

/* Tensors and objects of the text are those of the plan. */
static void metadata_look(const struct ck_dcp_layout *l, const struct ck_buf *b)
{
	struct ck_catalog *again;
	int rc;

	pickle_look(b);
	again = catalog_of((struct ck_str){ b->data, b->len }, &rc);
	must(rc == 0);
	must(again->tensors.n + again->objects.n == l->plan->n);
	ck_catalog_put(again);
}

static void layout_look(struct ck_dcp_plan *p, const char *name)
{
	struct ck_dcp_layout *l;
	struct ck_slice *slice;
	struct ck_buf b = { 0 };
	struct ck_spec spec;
	int rc;

	must(ck_spec_parse(ck_str_from(name), &spec));
	rc = ck_dcp_layout_make(p, p->base.c, 0, &spec, NULL, &l);
	must(rc == 0 || rc == -EFBIG || rc == -EOVERFLOW);
	if (rc)
		return;
	rc = ck_dcp_metadata_print(l, MOST, &b);
	must(rc == 0 || rc == -EFBIG);
	if (rc == 0)
		metadata_look(l, &b);
	ck_buf_fini(&b);
	for (uint32_t r = 0; r < spec.ranks; r++) {
		rc = ck_dcp_file_slice(l, r, &slice);
		must(rc == 0);
		must(slice->size == l->files[r].size);
		ck_slice_free(slice);
	}
	ck_dcp_layout_put(l);
}

static void dcp_look(const struct ck_catalog *c,
		     const struct ck_view_source *from)
{
	struct ck_dcp_plan *p;
	int rc = ck_dcp_plan_make(c, &from->objects, NULL, &p);

	must(rc == 0 || rc == -EOVERFLOW);
	if (rc)
		return;
	layout_look(p, "3");
	layout_look(p, "dp=2,tp=2");
	ck_view_plan_put(p);
}

static void map_look(const struct ck_tensor *t, const struct ck_buf *map)
{
	uint32_t rects = 0;

	must(!map->err &&
	     ck_utf8_valid((struct ck_str){ map->data, map->len }));
	for (size_t i = 0; i < map->len; i++)
		must((uint8_t)map->data[i] >= 0x20 || map->data[i] == '\n');
	for (const char *at = map->data; (at = strstr(at, "<rect data-rank"));
	     at++)
		rects++;
	must(rects == (t->nchunks > CK_SHARD_MAP_BOXES ? 0 : t->nchunks));
}

static void maps_look(const struct ck_catalog *c)
{
	struct ck_buf map = { 0 };

	for (uint32_t i = 0; i < c->tensors.n; i++) {
		map.len = 0;
		ck_shard_map_print(c, i, &map);
		map_look(ck_catalog_tensor(c, i), &map);
	}
	ck_buf_fini(&map);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ck_view_options options;
	const struct ck_view_source from = {
		.options = &options,
		.objects = { .record = object_record, .pickle = object_pickle }
	};
	struct ck_catalog *c;
	int rc;

	if (size == 0)
		return 0;
	/* The first byte belongs to the target metadata, whose corpus this is. */
	c = catalog_of((struct ck_str){ (const char *)data + 1, size - 1 },
		       &rc);
	if (rc == 0) {
		torch_look(c, &from);
		dcp_look(c, &from);
		maps_look(c);
	}
	ck_catalog_put(c);
	return 0;
}
