/* SPDX-License-Identifier: MIT */
/*
 * Which slices can be written. Each file in the tree of a copy of each fixture is opened for
 * writing: its stage must match the file, or the refusal must agree with the catalog. Then
 * slices that no view produces are opened.
 *
 *	accept_test SAMPLE FIXTURE...
 */
#include "ckptfs/tree.h"
#include "commit/commit_internal.h"
#include "copy_case.h"
#include "stage_case.h"
#include "tree_walk.h"

#include <errno.h>

static const struct ck_writer_options any = { .keep_unknown = true };
static struct ck_checkpoint *cp;
static struct ck_writer *w;
static struct ck_transaction *x;

static void case_open(const char *fixture)
{
	static struct ck_diag d;

	shell("rm -rf %s && cp -r %s %s", dir, fixture, dir);
	cp = open_copy();
	if (!cp || ck_writer_open(cp, &any, &w, &d)) {
		printf("# %s: %s\n", fixture, d.text);
		abort();
	}
	x = begun(w, false);
}

static void case_close(void)
{
	ck_transaction_end(x);
	ck_writer_close(w);
	ck_checkpoint_close(cp);
}

static int try(const struct ck_slice *slice, enum ck_accepts accepts,
	       struct ck_stage **out, struct ck_diag *d)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	*out = NULL;
	*d = (struct ck_diag){ 0 };
	return ck_stage_open(x, c, slice, accepts, out, d);
}

/* --- the views ------------------------------------------------------------------- */

static unsigned opened[3], refused[3]; /* by enum ck_accepts */

/* The stage's header is compared with one built from the shape of the tensor or box. */
static void check_header(const struct ck_stage *s, enum ck_accepts accepts,
			 const struct ck_tensor *t, const int64_t *shape)
{
	struct ck_buf want = { 0 };

	if (accepts == CK_ACCEPTS_NPY)
		ck_npy_header(t->dtype, t->ndim, shape, &want);
	eq_mem(s->of.header.data, s->of.header.len, want.data, want.len);
	eq_mem(s->head.data, s->head.len, want.data, want.len);
	ck_buf_fini(&want);
}

static void check_stage(struct ck_stage *s, const struct ck_node *n,
			const struct ck_node_stat *st)
{
	const struct ck_tensor *t = ck_catalog_tensor(s->catalog,
						      n->about.number);
	const int64_t *shape = t->shape;
	struct ck_diag d;
	uint32_t box;

	eq_u64(s->of.tensor, n->about.number);
	if (n->about.topic != CK_FILE_KIND_BOX) {
		eq_u64(s->of.box, CK_ALL_BOXES);
	} else {
		box = n->about.chunk - t->chunk;
		shape = ck_tensor_box(t, box) + t->ndim;
		ok(s->of.box == box || ck_tensor_box_is_empty(t, box));
	}
	eq_u64(ck_stage_total(s), st->size);
	check_header(s, n->about.accepts, t, shape);
	eq_i64(ck_stage_state(s), CK_STAGE_EMPTY);
	if (st->size == 0)
		return;
	eq_err(ck_stage_truncate(s, st->size, &d), 0);
	eq_err(ck_stage_truncate(s, st->size + 1, &d), -EINVAL);
}

/* The error of a write according to the catalog, or 0 if the file is writable. */
static int catalog_refuses(const struct ck_catalog *c,
			   const struct ck_file_content *a)
{
	const struct ck_tensor *t;
	bool is_box = a->topic == CK_FILE_KIND_BOX;

	if (a->accepts == CK_ACCEPTS_NOTHING)
		return -EOPNOTSUPP;
	t = ck_catalog_tensor(c, a->number);
	if (t->err)
		return -t->err;
	if (!ck_item_form_has(t->dtype))
		return -EOPNOTSUPP;
	if (t->holes && !is_box)
		return -EIO;
	for (uint32_t i = 0; i < t->nchunks; i++)
		if ((!is_box || t->chunk + i == a->chunk) &&
		    !ck_tensor_box_is_empty(t, i) &&
		    ck_catalog_item(c, t->chunk + i)->file == CK_NO_FILE)
			return -EIO;
	return 0;
}

static void check_file(void *arg, const char *path,
		       const struct ck_node_stat *st)
{
	struct ck_tree *tree = arg;
	const struct ck_catalog *c;
	struct ck_slice *slice;
	struct ck_stage *s;
	struct ck_node n;
	struct ck_diag d;
	int rc, want;

	if (st->type != CK_TYPE_FILE || ck_tree_find(tree, st->number, &n) ||
	    ck_tree_pin(tree, &n, &c))
		return;
	rc = ck_tree_slice(c, &n, &slice);
	want = catalog_refuses(c, &n.about);
	if (rc == 0) {
		rc = try(slice, n.about.accepts, &s, &d);
		ck_slice_free(slice);
		if (rc == 0)
			check_stage(s, &n, st);
		else
			ok(d.text[0] && d.err == -rc);
		ck_stage_close(s);
	}
	if (rc != want)
		printf("# %s\n", path);
	eq_err(rc, want);
	opened[n.about.accepts] += rc == 0;
	refused[n.about.accepts] += rc != 0;
	ck_catalog_put(c);
}

static void test_views(const char *fixture)
{
	static const struct ck_tree_options options = { .write = true };
	struct ck_tree *tree;
	struct ck_root *root;

	case_open(fixture);
	if (ck_root_make(cp, ck_views, ck_nviews, &options, &root) ||
	    ck_tree_make(root, &tree))
		abort();
	eq_u64(tree_walk(tree, CK_TREE_ROOT, "", check_file, tree), 0);
	ck_tree_free(tree);
	ck_root_free(root);
	case_close();
}

/* --- slices that no view produces --------------------------------------------------- */

enum { HEADER = 128, ELEMENTS = 16 * 16 * 4 };

static const char header[HEADER];
/* `box` is the tensor's first box: 4 of its 16 rows. The others match no box of it. */
static const uint64_t box[] = { 0, 0, 4, 16 };
static const uint64_t wider[] = { 0, 0, 5, 16 };
static const uint64_t moved[] = { 1, 0, 4, 16 };
static const uint64_t behind[] = { 16, 0, 4, 16 };

/* The number of an elements part is relative to the number of the tensor. */
#define BYTES                                                                  \
	{                                                                      \
		.kind = CK_PART_BYTES, .at.bytes = header                      \
	}
#define OF(b)                                                                  \
	{                                                                      \
		.kind = CK_PART_BOX, .at.box = (b)                             \
	}

static const struct strange {
	const char *what;
	enum ck_accepts accepts;
	uint32_t nparts;
	struct ck_part parts[3];
	uint64_t begins[4];
	int err;  /* of the slice */
	int want; /* 0: a canary that can be written */
} stranges[] = {
	{ "all, with a header",
	  CK_ACCEPTS_NPY,
	  2,
	  { BYTES, OF(NULL) },
	  { 0, HEADER, HEADER + ELEMENTS },
	  0,
	  0 },
	{ "all", CK_ACCEPTS_RAW, 1, { OF(NULL) }, { 0, ELEMENTS }, 0, 0 },
	{ "a box", CK_ACCEPTS_RAW, 1, { OF(box) }, { 0, ELEMENTS / 4 }, 0, 0 },
	{ "not for writing",
	  CK_ACCEPTS_NOTHING,
	  1,
	  { OF(NULL) },
	  { 0, ELEMENTS },
	  0,
	  -EOPNOTSUPP },
	{ "nothing", CK_ACCEPTS_RAW, 0, { OF(NULL) }, { 0 }, 0, -EOPNOTSUPP },
	{ "no header",
	  CK_ACCEPTS_NPY,
	  1,
	  { OF(NULL) },
	  { 0, ELEMENTS },
	  0,
	  -EOPNOTSUPP },
	{ "a header",
	  CK_ACCEPTS_RAW,
	  2,
	  { BYTES, OF(NULL) },
	  { 0, HEADER, HEADER + ELEMENTS },
	  0,
	  -EOPNOTSUPP },
	{ "nothing but a header",
	  CK_ACCEPTS_NPY,
	  1,
	  { BYTES },
	  { 0, HEADER },
	  0,
	  -EOPNOTSUPP },
	{ "bytes",
	  CK_ACCEPTS_RAW,
	  1,
	  { BYTES },
	  { 0, HEADER },
	  0,
	  -EOPNOTSUPP },
	{ "two headers",
	  CK_ACCEPTS_NPY,
	  2,
	  { BYTES, BYTES },
	  { 0, HEADER, 2 * HEADER },
	  0,
	  -EOPNOTSUPP },
	{ "a header that is made",
	  CK_ACCEPTS_NPY,
	  2,
	  { { .kind = CK_PART_MADE }, OF(NULL) },
	  { 0, HEADER, HEADER + ELEMENTS },
	  0,
	  -EOPNOTSUPP },
	{ "a header without bytes",
	  CK_ACCEPTS_NPY,
	  2,
	  { BYTES, OF(NULL) },
	  { 0, 0, ELEMENTS },
	  0,
	  -EOPNOTSUPP },
	{ "elements that are made",
	  CK_ACCEPTS_RAW,
	  1,
	  { { .kind = CK_PART_MADE } },
	  { 0, ELEMENTS },
	  0,
	  -EOPNOTSUPP },
	{ "zeros",
	  CK_ACCEPTS_RAW,
	  1,
	  { { .kind = CK_PART_ZEROS } },
	  { 0, ELEMENTS },
	  0,
	  -EOPNOTSUPP },
	{ "bytes of a file",
	  CK_ACCEPTS_RAW,
	  1,
	  { { .kind = CK_PART_RANGE } },
	  { 0, ELEMENTS },
	  0,
	  -EOPNOTSUPP },
	{ "two tensors",
	  CK_ACCEPTS_RAW,
	  2,
	  { OF(NULL), OF(NULL) },
	  { 0, ELEMENTS, 2 * ELEMENTS },
	  0,
	  -EOPNOTSUPP },
	{ "two boxes",
	  CK_ACCEPTS_NPY,
	  3,
	  { BYTES, OF(box), OF(box) },
	  { 0, HEADER, HEADER + ELEMENTS / 4, HEADER + ELEMENTS / 2 },
	  0,
	  -EOPNOTSUPP },
	{ "elements, then a header",
	  CK_ACCEPTS_NPY,
	  2,
	  { OF(NULL), BYTES },
	  { 0, ELEMENTS, HEADER + ELEMENTS },
	  0,
	  -EOPNOTSUPP },
	{ "more than a box",
	  CK_ACCEPTS_RAW,
	  1,
	  { OF(wider) },
	  { 0, ELEMENTS / 16 * 5 },
	  0,
	  -EOPNOTSUPP },
	{ "parts of two boxes",
	  CK_ACCEPTS_RAW,
	  1,
	  { OF(moved) },
	  { 0, ELEMENTS / 4 },
	  0,
	  -EOPNOTSUPP },
	{ "no box",
	  CK_ACCEPTS_RAW,
	  1,
	  { OF(behind) },
	  { 0, ELEMENTS / 4 },
	  0,
	  -EOPNOTSUPP },
	{ "too few bytes",
	  CK_ACCEPTS_RAW,
	  1,
	  { OF(NULL) },
	  { 0, ELEMENTS - 1 },
	  0,
	  -EOPNOTSUPP },
	{ "too many bytes",
	  CK_ACCEPTS_RAW,
	  1,
	  { OF(box) },
	  { 0, ELEMENTS },
	  0,
	  -EOPNOTSUPP },
	{ "no such tensor",
	  CK_ACCEPTS_RAW,
	  1,
	  { { .kind = CK_PART_BOX, .number = UINT32_MAX / 2 } },
	  { 0, ELEMENTS },
	  0,
	  -EOPNOTSUPP },
	{ "an error",
	  CK_ACCEPTS_RAW,
	  0,
	  { OF(NULL) },
	  { 0 },
	  EBADMSG,
	  -EBADMSG },
};

static struct ck_part computed(const struct ck_slice *s, uint32_t i)
{
	const struct ck_part *parts = (const struct ck_part *)(s + 1);

	return parts[i];
}

static int try_strange(const struct strange *e, uint32_t tensor, bool compute)
{
	struct {
		struct ck_slice slice;
		struct ck_part parts[3];
	} made = { .slice = { .nparts = e->nparts,
			      .size = e->begins[e->nparts],
			      .err = e->err,
			      .begins = e->begins,
			      .part = computed } };
	struct ck_stage *s;
	struct ck_diag d;
	int rc;

	memcpy(made.parts, e->parts, sizeof(made.parts));
	for (uint32_t i = 0; i < e->nparts; i++)
		if (made.parts[i].kind == CK_PART_BOX)
			made.parts[i].number += tensor;
	made.slice.parts = compute ? NULL : made.parts;
	rc = try(&made.slice, e->accepts, &s, &d);
	ok(!s == (rc != 0) && (rc == 0 || d.text[0]));
	if (e->err)
		eq_text(d.text, "cannot be written: Bad message");
	ck_stage_close(s);
	return rc;
}

static void test_strange(const char *sample)
{
	uint32_t wk;

	case_open(sample);
	/* float32, 16 x 16, by rows from four ranks */
	wk = tensor_named(cp->catalog, "model.layers.0.attention.wk.weight");
	for (size_t i = 0; i < 2 * CK_ARRAY_SIZE(stranges); i++) {
		const struct strange *e = &stranges[i / 2];
		int rc = try_strange(e, wk, i % 2);

		if (rc != e->want)
			printf("# %s\n", e->what);
		eq_err(rc, e->want);
	}
	case_close();
}

/* A stage stays valid after its slice is freed. */
static void test_gone(const char *sample)
{
	struct ck_stage *s = NULL;
	struct ck_buf head = { 0 };
	const struct ck_tensor *t;
	static char bytes[ELEMENTS];
	struct ck_diag d;
	uint32_t wk;

	case_open(sample);
	wk = tensor_named(cp->catalog, "model.layers.0.attention.wk.weight");
	t = ck_catalog_tensor(cp->catalog, wk);
	ck_npy_header(t->dtype, t->ndim, t->shape, &head);
	eq_err(stage_case_open(x, cp, wk, ALL_BOXES, CK_ACCEPTS_NPY, &s, &d),
	       0);
	for (int round = 0; round < 2; round++) {
		eq_err(ck_stage_write(s, head.len, bytes, ELEMENTS, 1, &d), 0);
		eq_i64(ck_stage_state(s), CK_STAGE_COMPLETE);
		/* The second round is a commit after a commit. */
		eq_err(ck_stage_commit(s, &d), 0);
	}
	ck_stage_close(s);
	ck_buf_fini(&head);
	case_close();
}

int main(int argc, char **argv)
{
	if (argc < 3 || !mkdtemp(dir) || ck_sigbus_install())
		return 2;
	test_strange(argv[1]);
	test_gone(argv[1]);
	for (int i = 1; i < argc; i++)
		test_views(argv[i]);
	for (int i = 0; i < 3; i++) {
		printf("# accepts %d: %u opened, %u refused\n", i, opened[i],
		       refused[i]);
		ok(refused[i] > 0 && (opened[i] > 0) == (i > 0));
	}
	shell("rm -rf %s", dir);
	return tap_done();
}
