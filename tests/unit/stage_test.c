/* SPDX-License-Identifier: MIT */
/*
 * stage: random writes and truncations by several threads, some of which fail in the middle,
 * on tensors with boxes of every kind. A plain model has the bytes of the file, and for each
 * byte whether it was written. A stage that the model finds complete is committed and read.
 *
 *	stage_test FIXTURE...
 */
#include "commit/commit_internal.h"
#include "copy_case.h"
#include "stage_case.h"
#include "syntax/npy.h"

#include <errno.h>

enum { LIMIT = 4096, OPERATIONS = 24, PIECES = 1 << 20 };

static uint64_t rnd;
static const struct ck_writer_options any = { .keep_unknown = true };

static uint64_t lot(uint64_t n)
{
	return tap_random(&rnd) % n;
}

/* --- writes that fail --------------------------------------------------------- */

static int fail_place, fail_room; /* errno of one failure, or 0 */

int __real_ck_host_scatter(const struct ck_request *r,
			   const struct ck_place *places, const void *bytes);
int __wrap_ck_host_scatter(const struct ck_request *r,
			   const struct ck_place *places, const void *bytes);
int __real_ck_cuts_make(struct ck_cuts *cuts, const struct ck_writer *w,
			struct ck_diag *d);
int __wrap_ck_cuts_make(struct ck_cuts *cuts, const struct ck_writer *w,
			struct ck_diag *d);

/* On failure, the first half of the bytes is written, and wrong. */
int __wrap_ck_host_scatter(const struct ck_request *r,
			   const struct ck_place *places, const void *bytes)
{
	static uint8_t bad[LIMIT];
	struct ck_request half = *r;
	int rc = -fail_place;

	if (!fail_place)
		return __real_ck_host_scatter(r, places, bytes);
	memset(bad, 0xee, sizeof(bad));
	half.end -= (half.end - half.begin) / 2;
	if (__real_ck_host_scatter(&half, places, bad))
		abort();
	fail_place = 0;
	return rc;
}

int __wrap_ck_cuts_make(struct ck_cuts *cuts, const struct ck_writer *w,
			struct ck_diag *d)
{
	int err = fail_room;

	fail_room = 0;
	return err ? ck_fail(d, err, "no room")
		   : __real_ck_cuts_make(cuts, w, d);
}

/* --- the model ---------------------------------------------------------------- */

enum byte { ABSENT, GIVEN, FAILED };

static struct model {
	bool truncated, jumped, sized, refused, touched, closed;
	uint32_t by;
	uint64_t size;	/* of the file; after a truncation, its current end */
	uint64_t total; /* of the complete file */
	uint64_t data;	/* offset of the elements */
	uint8_t file[LIMIT], what[LIMIT];
	struct ck_buf head;
} m;

static bool canary; /* the model ignores failed writes */

static void model_begin(bool truncated)
{
	m.truncated = truncated;
	m.jumped = m.sized = m.refused = m.closed = false;
	m.touched = truncated;
	m.by = 0;
	m.size = 0;
	memset(m.file, 0, sizeof(m.file));
	memset(m.what, ABSENT, sizeof(m.what));
	if (!truncated && m.data) {
		memcpy(m.file, m.head.data, m.data);
		memset(m.what, GIVEN, m.data);
	}
}

static bool has(enum byte what, uint64_t begin)
{
	return memchr(m.what + begin, (int)what, LIMIT - begin);
}

static enum ck_stage_state model_state(void)
{
	bool gap = memchr(m.what, ABSENT, m.total), skips;

	if (m.refused)
		return CK_STAGE_SPOILED;
	if (!m.touched)
		return CK_STAGE_EMPTY;
	if (m.truncated && !has(GIVEN, 0) && !has(FAILED, 0))
		return m.total == 0 ? CK_STAGE_EMPTY : CK_STAGE_BEGUN;
	if (has(FAILED, 0))
		return CK_STAGE_PART;
	skips = m.truncated && !m.jumped && m.closed && has(GIVEN, 0);
	if ((m.truncated && m.size != m.total) || (gap && !skips))
		return CK_STAGE_PART;
	return m.data == 0 || memcmp(m.file, m.head.data, m.data) == 0
		       ? CK_STAGE_COMPLETE
		       : CK_STAGE_SPOILED;
}

static void model_write(uint64_t at, const uint8_t *bytes, uint64_t len,
			uint32_t thread)
{
	if (!thread || (m.by && m.by != thread) || at < m.size || m.sized)
		m.jumped = true;
	m.by = thread;
	m.closed = false;
	memcpy(m.file + at, bytes, len);
	memset(m.what + at, GIVEN, len);
	m.size = ck_max(m.size, at + len);
}

/* --- operations ----------------------------------------------------------------- */

static struct ck_stage *stage;
static unsigned wrong, commits, failures;

static void expect(bool good, const char *what)
{
	if (!good && !canary)
		printf("# %s\n", what);
	wrong += !good;
}

/* Writes random elements, or the header of the tensor. */
static void op_write(uint64_t at, uint64_t len, uint32_t thread)
{
	static struct ck_diag d;
	static uint8_t bytes[LIMIT];
	bool fails = lot(12) == 0;
	int rc;

	if (len == 0)
		return;
	for (uint64_t i = 0; i < len; i++)
		bytes[i] = at + i < m.data ? (uint8_t)m.head.data[at + i]
					   : (uint8_t)(lot(255) + 1);
	if (fails)
		*(lot(2) ? &fail_place : &fail_room) = lot(2) ? ENOSPC : EIO;
	rc = ck_stage_write(stage, at, bytes, len, thread, &d);
	fail_place = fail_room = 0;
	expect(rc == 0 || (!m.refused && fails) || (m.refused && rc == -EINVAL),
	       "a write");
	if (m.refused)
		return;
	m.touched = true;
	if (rc == 0) {
		model_write(at, bytes, len, thread);
	} else if (!canary) {
		failures++;
		memset(m.what + at, FAILED, len);
	}
}

static void op_size(uint64_t size)
{
	static struct ck_diag d;
	int rc = ck_stage_truncate(stage, size, &d);

	if (size == 0) {
		expect(rc == 0, "a truncation to 0");
		model_begin(true);
		return;
	}
	if (m.refused)
		return expect(rc == -EINVAL, "a size after a refusal");
	if (!m.truncated) {
		expect(rc == (size == m.total ? 0 : -EINVAL), "another size");
		m.refused = size != m.total;
		return;
	}
	/* A size within the header, or before the header is known. */
	if (rc == -EINVAL && m.data && size < m.size) {
		m.refused = true;
		return;
	}
	expect(rc == 0, "a size");
	for (uint64_t i = size; i < LIMIT; i++)
		if (m.what[i] == GIVEN)
			m.what[i] = ABSENT;
	if (size < m.size)
		memset(m.file + size, 0, LIMIT - size);
	m.size = size;
	m.sized = true;
	m.closed = false;
}

static void op_close(void)
{
	uint32_t thread = lot(4) ? m.by : (uint32_t)lot(3);

	if (lot(16) == 0) {
		ck_stage_synced(stage);
		for (uint64_t i = 0; m.truncated && i < m.size; i++)
			m.jumped |= m.what[i] != GIVEN;
	}
	ck_stage_closed_by(stage, thread);
	m.closed = thread && thread == m.by;
}

static void operate(void)
{
	uint32_t thread = lot(8) ? 1 : (uint32_t)lot(3);
	uint64_t at = lot(m.total + 1), next = ck_min(m.size, m.total);
	unsigned what = (unsigned)lot(10);

	if (what < 2) /* anywhere */
		op_write(at, lot(m.total - at + 1), thread);
	else if (what < 5) /* the next bytes */
		op_write(next, lot(m.total - next + 1), thread);
	else if (what == 5) { /* skip some bytes */
		next += lot(m.total - next + 1);
		op_write(next, lot(m.total - next + 1), thread);
	} else if (what < 8) /* to the end */
		op_write(next, m.total - next, thread);
	else if (what == 8)
		op_size(lot(2) || m.total == 0 ? m.total : 1 + lot(m.total));
	else if (lot(4) == 0)
		op_size(0);
	else /* the missing bytes */
		for (at = 0; at < m.total; at++)
			if (m.what[at] != GIVEN)
				op_write(at, 1, thread);
}

/* --- tensors --------------------------------------------------------------------- */

static void look(struct ck_checkpoint *cp, uint32_t tensor, bool last)
{
	enum ck_stage_state want = model_state(), got = ck_stage_state(stage);
	static struct ck_diag d;
	uint8_t *now;
	uint64_t len;
	int rc;

	/* The state of a header with holes is not specified. */
	if (want == CK_STAGE_SPOILED && !m.refused && got == CK_STAGE_PART)
		want = got;
	expect(got == want, ck_shown("state %d, not %d", (int)got, (int)want));
	m.refused = m.refused || got == CK_STAGE_SPOILED;
	if (!last)
		return;
	rc = ck_stage_commit(stage, &d);
	expect(rc == (got == CK_STAGE_COMPLETE ? 0 : -EINVAL), "a commit");
	expect(rc == 0 || d.text[0], "why");
	if (rc || canary)
		return;
	commits++;
	now = read_tensor(cp, tensor, &len);
	expect(now && same(now, m.file + m.data, len), "the committed bytes");
	free(now);
}

static void test_round(struct ck_checkpoint *cp, struct ck_transaction *x,
		       uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(cp->catalog, tensor);
	bool raw = lot(2);

	m.head = (struct ck_buf){ 0 };
	if (!raw)
		ck_npy_header(t->dtype, t->ndim, t->shape, &m.head);
	m.data = m.head.len;
	m.total = m.data + t->nbytes;
	model_begin(false);
	if (stage_case_open(x, cp, tensor, ALL_BOXES,
			    raw ? CK_ACCEPTS_RAW : CK_ACCEPTS_NPY, &stage,
			    NULL))
		abort();
	if (lot(4))
		op_size(0);
	for (uint64_t i = lot(OPERATIONS); i > 0; i--) {
		operate();
		if (lot(4) == 0)
			op_close();
		look(cp, tensor, false);
	}
	if (lot(8))
		op_close();
	look(cp, tensor, true);
	ck_stage_close(stage);
	ck_buf_fini(&m.head);
}

static bool is_fit(const struct ck_catalog *c, uint32_t tensor)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);

	if (t->err || t->holes || t->nbytes > LIMIT / 2 ||
	    !ck_item_form_has(t->dtype))
		return false;
	for (uint32_t i = 0; i < t->nchunks; i++)
		if (ck_catalog_item(c, t->chunk + i)->file == CK_NO_FILE &&
		    !ck_tensor_box_is_empty(t, i))
			return false;
	return true;
}

static void test_fixture(const char *fixture, uint64_t rounds)
{
	struct ck_checkpoint *cp;
	struct ck_transaction *x;
	struct ck_writer *w = NULL;
	static struct ck_diag d;

	shell("rm -rf %s && cp -r %s %s", dir, fixture, dir);
	cp = open_copy();
	if (!ok(cp && ck_writer_open(cp, &any, &w, &d) == 0))
		return;
	x = begun(w, false);
	for (uint32_t i = 0; i < cp->catalog->tensors.n; i++)
		for (uint64_t n = 0; n < rounds && is_fit(cp->catalog, i); n++)
			test_round(cp, x, i);
	ck_transaction_end(x);
	ck_writer_close(w);
	ck_checkpoint_close(cp);
}

/* --- single rules ------------------------------------------------------------------ */

/* A write that exceeds the limit of separate ranges is refused. */
static void test_pieces(void)
{
	struct ck_written_ranges g = { 0 };
	int rc = 0;
	uint64_t i = 0;

	for (; rc == 0 && i <= PIECES; i++)
		rc = ck_written_write(&g, 2 * i, "x", 1, 1);
	eq_u64(i, PIECES + 1);
	eq_err(rc, -ENOSPC);
	eq_err(ck_written_write(&g, 1, "x", 1, 1), 0); /* joins two ranges */
	eq_err(ck_written_write(&g, 2 * i, "x", 1, 1), 0);
	ck_written_fini(&g);
}

/* A program skips bytes 4 to 8, and then continues in several ways. */
static void test_skipped(void)
{
	static const struct {
		const char *last; /* written at 8 */
		uint64_t len;
		bool synced;
		uint32_t closed_by;
		bool skips;
	} rows[] = {
		{ "xyz", 3, false, 1, true },  { "\0\0\0", 3, false, 1, true },
		{ "\0", 1, false, 1, false }, /* as numpy.memmap sets a size */
		{ "x", 1, false, 1, true },    { "xyz", 3, true, 1, false },
		{ "xyz", 3, false, 0, false }, /* killed */
		{ "xyz", 3, false, 2, false },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		struct ck_written_ranges g = { 0 };

		eq_err(ck_written_write(&g, 0, "abcd", 4, 1), 0);
		eq_err(ck_written_write(&g, 8, rows[i].last, rows[i].len, 1),
		       0);
		if (rows[i].synced)
			ck_written_sync(&g);
		ck_written_close(&g, rows[i].closed_by);
		eq_u64(ck_written_skips(&g), rows[i].skips);
		ck_written_fini(&g);
	}
}

int main(int argc, char **argv)
{
	uint64_t rounds = tap_cases("CKPTFS_ROUNDS", 6, 200);

	rnd = tap_seed(20261122);
	if (argc < 2 || !mkdtemp(dir) || ck_sigbus_install())
		return 2;
	test_pieces();
	test_skipped();
	for (int i = 1; i < argc; i++)
		test_fixture(argv[i], rounds);
	eq_u64(wrong, 0);
	ok(commits > 10 && failures > 100);
	printf("# %u commits, %u failures\n", commits, failures);
	canary = true;
	test_fixture(argv[1], rounds);
	ok(wrong > 0); /* canary: a failed write is ignored */
	shell("rm -rf %s", dir);
	return tap_done();
}
