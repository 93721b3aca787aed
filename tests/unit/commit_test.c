/* SPDX-License-Identifier: MIT */
/*
 * Commits. On a copy of each fixture, tensors are written with every header, in pieces of any
 * size, and committed. New readers, and a checkpoint that is opened again, must see the new
 * bytes; all other tensors must be unchanged. Layouts from before the commit must still give
 * the old bytes.
 *
 *	commit_test FIXTURE...
 */
#include "ckptfs/commit.h"
#include "copy_case.h"
#include "stage_case.h"
#include "syntax/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t rnd = 77;

static const struct ck_writer_options any = { .keep_unknown = true };

/* --- writing ---------------------------------------------------------------- */

/* The bytes that a program writes: an optional header, and elements. */
struct text {
	struct ck_buf b;
	uint8_t *elements; /* in C order, as stored in the tensor */
	uint64_t len;
	bool in_place; /* not truncated first */
};

static void reverse(uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		uint8_t t = p[i];

		p[i] = p[n - 1 - i];
		p[n - 1 - i] = t;
	}
}

/* The index in C order of element i in Fortran order. */
static uint64_t c_order(uint64_t i, const int64_t *shape, uint32_t ndim)
{
	uint64_t at = 0, index[CK_MAX_DIMS];

	for (uint32_t d = 0; d < ndim; d++) {
		index[d] = i % (uint64_t)shape[d];
		i /= (uint64_t)shape[d];
	}
	for (uint32_t d = 0; d < ndim; d++)
		at = at * (uint64_t)shape[d] + index[d];
	return at;
}

/* padded: the header is as long as the one that the mount shows. */
static void add_header(struct text *t, const struct ck_dtype *dtype,
		       const int64_t *shape, uint32_t ndim, bool fortran,
		       char order, uint64_t padded)
{
	struct ck_buf dims = { 0 };
	char head[1024];
	int n;

	for (uint32_t d = 0; d < ndim; d++)
		ck_buf_printf(&dims, "%jd,", (intmax_t)shape[d]);
	n = snprintf(head, sizeof(head),
		     "{'shape': (%s), 'fortran_order': %s, 'descr': '%c%s'}\n",
		     dims.data ? dims.data : "", fortran ? "True" : "False",
		     order, dtype->npy + 1);
	for (; padded && 10 + (uint64_t)n < padded; n++)
		head[n] = ' ';
	ck_buf_add(&t->b, "\x93NUMPY\1\0", 8);
	ck_buf_add(&t->b, (uint8_t[]){ (uint8_t)n, (uint8_t)(n >> 8) }, 2);
	ck_buf_add(&t->b, head, (size_t)n);
	ck_buf_fini(&dims);
}

static void text_make(struct text *t, const struct ck_catalog *c,
		      uint32_t tensor, bool raw)
{
	const struct ck_tensor *x = ck_catalog_tensor(c, tensor);
	const struct ck_dtype *dtype = ck_dtype_at(x->dtype);
	const int64_t *shape = x->shape;
	bool fortran = !raw && tap_random(&rnd) % 3 == 0;
	bool big = !raw && dtype->unit > 1 && tap_random(&rnd) % 3 == 0;
	bool in_place = x->nbytes && tap_random(&rnd) % 3 == 0;
	uint8_t element[32];

	*t = (struct text){ .len = x->nbytes, .in_place = in_place };
	t->elements = malloc(x->nbytes + 1);
	for (uint64_t i = 0; i < x->nbytes; i++)
		t->elements[i] = (uint8_t)(tap_random(&rnd) >> 9);
	if (!raw)
		add_header(t, dtype, shape, x->ndim, fortran,
			   big			  ? '>'
			   : dtype->npy[1] == 'V' ? '<'
						  : dtype->npy[0],
			   in_place
				   ? ck_npy_header_len(x->dtype, x->ndim, shape)
				   : 0);
	for (uint64_t i = 0; i < x->nbytes / dtype->size; i++) {
		uint64_t at = fortran ? c_order(i, shape, x->ndim) : i;

		memcpy(element, t->elements + at * dtype->size, dtype->size);
		for (uint32_t k = 0; big && k < dtype->size; k += dtype->unit)
			reverse(element + k, dtype->unit);
		ck_buf_add(&t->b, element, dtype->size);
	}
}

static void text_fini(struct text *t)
{
	ck_buf_fini(&t->b);
	free(t->elements);
}

/* Writes pieces of random sizes, from front to back. */
static bool write_text(struct ck_stage *s, const struct text *t,
		       struct ck_diag *d)
{
	uint64_t most = tap_random(&rnd) % 2 ? 7 : 5000;

	if (!t->in_place && ck_stage_truncate(s, 0, d))
		return false;
	for (uint64_t at = 0; at < t->b.len;) {
		uint64_t n = ck_min(1 + tap_random(&rnd) % most, t->b.len - at);

		if (ck_stage_state(s) == CK_STAGE_COMPLETE)
			printf("# complete at %ju of %zu\n", (uintmax_t)at,
			       t->b.len);
		if (ck_stage_write(s, at, t->b.data + at, n, 1, d))
			return false;
		at += n;
	}
	return true;
}

/* --- one tensor ---------------------------------------------------------------- */

static bool is_writable(const struct ck_catalog *c, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);

	if (t->err || t->holes || !ck_dtype_at(t->dtype)->npy ||
	    ck_str_starts(t->facts->dtype_name, CK_STR("q")))
		return false;
	for (uint32_t i = 0; i < t->nchunks; i++)
		if (ck_catalog_item(c, t->chunk + i)->file == CK_NO_FILE &&
		    !ck_tensor_box_is_empty(t, i))
			return false;
	return true;
}

/* Writes and commits. *t gets the expected bytes. */
static bool replace(struct ck_checkpoint *cp, struct ck_transaction *x,
		    uint32_t tensor, struct text *t)
{
	bool raw = tap_random(&rnd) % 4 == 0;
	struct ck_stage *s = NULL;
	static struct ck_diag d;
	int rc = stage_case_open(x, cp, tensor, ALL_BOXES,
				 raw ? CK_ACCEPTS_RAW : CK_ACCEPTS_NPY, &s, &d);
	bool done = false;

	text_make(t, cp->catalog, tensor, raw);
	if (rc == 0 && write_text(s, t, &d)) {
		enum ck_stage_state state = ck_stage_state(s);

		done = t->b.len == 0 ? state == CK_STAGE_EMPTY
				     : state == CK_STAGE_COMPLETE &&
					       ck_stage_commit(s, &d) == 0;
	}
	if (!done)
		printf("# %s\n", d.text);
	ck_stage_close(s);
	return done;
}

/* Replaces some tensors of the copy, one after the other. */
static void replace_some(struct ck_checkpoint *cp, struct ck_transaction *x,
			 uint8_t **want)
{
	uint32_t n = (uint32_t)cp->catalog->tensors.n;
	uint32_t step = n / 12 + 1;

	for (uint32_t i = 0; i < n; i += step) {
		const struct ck_layout *old = NULL;
		uint8_t *before = NULL;
		struct text t;
		uint64_t len;

		if (!is_writable(cp->catalog, i))
			continue;
		if (want[i] && ck_layout_get(cp, cp->catalog, i, NULL, &old))
			abort();
		ok(replace(cp, x, i, &t));
		if (old) { /* a reader from before */
			before = read_with(cp, i, old, &len);
			ok(same(before, want[i], len));
			ck_layout_put(cp, old);
		}
		free(before);
		free(want[i]);
		want[i] = t.elements;
		t.elements = NULL;
		text_fini(&t);
	}
}

static void test_fixture(const char *fixture)
{
	struct ck_checkpoint *cp;
	struct ck_transaction *x;
	struct ck_writer *w = NULL;
	static struct ck_diag d;
	uint8_t **want;
	uint64_t len;

	shell("rm -rf %s && cp -r %s %s", dir, fixture, dir);
	cp = open_copy();
	if (!cp)
		return;
	if (!ok(ck_writer_open(cp, &any, &w, &d) == 0)) {
		printf("# %s: %s\n", fixture, d.text);
		ck_checkpoint_close(cp);
		return;
	}
	want = calloc(cp->catalog->tensors.n + 1UL, sizeof(*want));
	for (uint32_t i = 0; i < cp->catalog->tensors.n; i++)
		want[i] = read_tensor(cp, i, &len);
	x = begun(w, false);
	replace_some(cp, x, want);
	eq_i64(count_wrong(cp, want), 0);
	ck_transaction_end(x);
	ck_writer_close(w);
	for (int again = 0; again < 2; again++) {
		struct ck_checkpoint *fresh = open_copy();

		ok(fresh != NULL);
		eq_i64(fresh ? count_wrong(fresh, want) : 1, 0);
		ck_checkpoint_close(fresh);
		/* no existing shard was changed */
		shell("cd %s && for f in *.distcp; do "
		      "[ ! -e %s/$f ] || cmp -s $f %s/$f || exit 1; done",
		      dir, fixture, fixture);
	}
	for (uint32_t i = 0; i < cp->catalog->tensors.n; i++)
		free(want[i]);
	free(want);
	ck_checkpoint_close(cp);
}

/* --- refused writes ----------------------------------------------------------------- */

static struct ck_stage *stage(struct ck_transaction *x,
			      struct ck_checkpoint *cp, uint32_t tensor)
{
	struct ck_stage *s = NULL;
	static struct ck_diag d;

	if (stage_case_open(x, cp, tensor, ALL_BOXES, CK_ACCEPTS_NPY, &s, &d))
		printf("# %s\n", d.text);
	return s;
}

static int write_rc(struct ck_stage *s, uint64_t vpos, const struct ck_buf *b,
		    const char **said)
{
	static struct ck_diag d;
	int rc = ck_stage_write(s, vpos, b->data, b->len, 1, &d);

	*said = d.text;
	return rc;
}

/* Another program saves while a tensor is staged. */
static void test_foreign_save(struct ck_transaction *x,
			      struct ck_checkpoint *cp, uint32_t tensor)
{
	struct ck_stage *s = stage(x, cp, tensor);
	char bytes[1024] = { 0 };
	static struct ck_diag d;

	eq_err(ck_stage_write(s, 128, bytes, sizeof(bytes), 1, &d), 0);
	shell("touch %s/.metadata", dir);
	eq_err(ck_stage_commit(s, &d), -ESTALE);
	ok(strstr(d.text, ".metadata was changed by somebody else") != NULL);
	ck_stage_close(s);
}

static void test_refusals(const char *sample)
{
	const int64_t shape[] = { 16, 16 }, other[] = { 16, 17 };
	struct ck_checkpoint *cp;
	struct ck_transaction *x;
	struct ck_writer *w = NULL, *second = NULL;
	struct ck_buf head = { 0 };
	struct ck_stage *s, *s2 = NULL;
	static struct ck_diag d;
	char byte[2000] = { 0 };
	struct ck_buf one = { .data = byte, .len = 1 };
	const char *said;
	unsigned files;
	uint32_t wk;

	shell("rm -rf %s && cp -r %s %s", dir, sample, dir);
	cp = open_copy();
	files = count_files();
	/* float32, 16 x 16 */
	wk = tensor_named(cp->catalog, "model.layers.0.attention.wk.weight");
	eq_err(ck_writer_open(cp, &any, &w, &d), 0);
	eq_err(ck_writer_open(cp, &any, &second, &d), -EBUSY);
	x = begun(w, false);
	s = stage(x, cp, wk);
	eq_err(stage_case_open(x, cp, wk, ALL_BOXES, CK_ACCEPTS_RAW, &s2, &d),
	       -EBUSY);
	eq_i64(ck_stage_state(s), CK_STAGE_EMPTY);
	/* a partial write is refused at commit */
	eq_err(write_rc(s, 500, &one, &said), 0);
	eq_i64(ck_stage_state(s), CK_STAGE_PART);
	eq_err(ck_stage_commit(s, &d), -EINVAL);
	eq_err(write_rc(s, 128 + 1024, &one, &said), -EFBIG);
	eq_i64(ck_stage_state(s), CK_STAGE_SPOILED);
	eq_err(ck_stage_truncate(s, 0, &d), 0);
	eq_i64(ck_stage_state(s), CK_STAGE_BEGUN);
	eq_err(ck_stage_commit(s, &d), -EINVAL);
	/* another shape, another dtype, no header */
	ck_npy_header(ck_dtype_by_name(CK_STR("float32")), 2, other, &head);
	eq_err(write_rc(s, 0, &head, &said), -EINVAL);
	ok(strstr(said, "expected [16,16], found [16,17]") != NULL);
	eq_err(write_rc(s, 500, &one, &said), -EINVAL);
	head.len = 0;
	ck_npy_header(ck_dtype_by_name(CK_STR("float64")), 2, shape, &head);
	eq_err(ck_stage_truncate(s, 0, &d), 0);
	eq_err(write_rc(s, 0, &head, &said), -EINVAL);
	ok(strstr(said, "expected float32 (<f4), found <f8") != NULL);
	eq_err(ck_stage_truncate(s, 0, &d), 0);
	one.len = 200;
	eq_err(write_rc(s, 0, &one, &said), -EINVAL);
	/* elements before their header, which has another shape */
	eq_err(ck_stage_truncate(s, 0, &d), 0);
	one.len = 1024;
	eq_err(write_rc(s, 128, &one, &said), 0);
	head.len = 0;
	ck_npy_header(ck_dtype_by_name(CK_STR("float32")), 2, other, &head);
	eq_err(write_rc(s, 0, &head, &said), 0);
	eq_i64(ck_stage_state(s), CK_STAGE_SPOILED);
	/* ftruncate() writes zeros */
	eq_err(ck_stage_truncate(s, 0, &d), 0);
	head.len = 0;
	ck_npy_header(ck_dtype_by_name(CK_STR("float32")), 2, shape, &head);
	eq_err(write_rc(s, 0, &head, &said), 0);
	eq_i64(ck_stage_state(s), CK_STAGE_PART);
	eq_err(ck_stage_truncate(s, 128 + 1024, &d), 0);
	eq_i64(ck_stage_state(s), CK_STAGE_PART);
	ck_stage_closed_by(s, 1);
	eq_i64(ck_stage_state(s), CK_STAGE_COMPLETE);
	eq_err(ck_stage_truncate(s, 128 + 1000, &d), 0);
	eq_i64(ck_stage_state(s), CK_STAGE_PART);
	eq_err(ck_stage_truncate(s, 128 + 1025, &d), -EFBIG);
	ck_stage_close(s);
	eq_i64(count_files(), files);
	test_foreign_save(x, cp, wk);
	eq_i64(count_files(), files);
	ck_buf_fini(&head);
	ck_transaction_end(x);
	ck_writer_close(w);
	ck_checkpoint_close(cp);
}

/* Unreferenced files with names made by ckptfs are removed, and only these. */
static void test_orphans(const char *sample)
{
	static const char *const mine[] = {
		"__0_ckptfs-7-0123456789abcdef.distcp",
		"__ckptfs-7-0123456789abcdef.distcp",
		".metadata.ckptfs-0123456789abcdef",
	};
	static const char *const foreign[] = {
		"__0_ckptfs-7-0123456789abcdeg.distcp",
		"__0_1.distcp",
		".metadata.tmp",
		"__ckptfs-0123456789abcdef.distcp",
	};
	struct ck_checkpoint *cp;
	struct ck_writer *w = NULL;
	static struct ck_diag d;
	char path[256];

	shell("rm -rf %s && cp -r %s %s", dir, sample, dir);
	for (size_t i = 0; i < CK_ARRAY_SIZE(mine); i++)
		shell("touch %s/%s", dir, mine[i]);
	for (size_t i = 0; i < CK_ARRAY_SIZE(foreign); i++)
		shell("touch %s/%s", dir, foreign[i]);
	cp = open_copy();
	eq_err(ck_writer_open(cp, &any, &w, &d), 0);
	for (size_t i = 0; i < CK_ARRAY_SIZE(mine); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, mine[i]);
		ok(access(path, F_OK) != 0);
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(foreign); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, foreign[i]);
		ok(access(path, F_OK) == 0);
	}
	eq_u64(ck_writer_generation(w), 7);
	ck_writer_close(w);
	ck_checkpoint_close(cp);
}

static void test_link(const char *sample)
{
	static const struct ck_format_options follow = { CK_BENEATH_SYMLINKS,
							 .write = true };
	static struct ck_diag d;
	struct ck_checkpoint *cp;
	struct ck_writer *w = NULL;

	shell("rm -rf %s && cp -r %s %s && cd %s && mv .metadata m && "
	      "ln -s m .metadata",
	      dir, sample, dir, dir);
	if (!ok(ck_checkpoint_open(dir, &follow, &cp, &d) == 0))
		return;
	eq_err(ck_writer_open(cp, &any, &w, &d), -EOPNOTSUPP);
	ck_checkpoint_close(cp);
}

int main(int argc, char **argv)
{
	if (argc < 2 || !mkdtemp(dir) || ck_sigbus_install())
		return 2;
	test_refusals(argv[1]);
	test_orphans(argv[1]);
	test_link(argv[1]);
	for (int i = 1; i < argc; i++)
		test_fixture(argv[i]);
	shell("rm -rf %s", dir);
	return tap_done();
}
