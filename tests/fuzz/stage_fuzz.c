/* SPDX-License-Identifier: MIT */
/*
 * stage: any writes and truncations of one file of a tensor into a stage of a small checkpoint of
 * PyTorch, a copy of a fixture on tmpfs. A model has the bytes of the file. A stage is complete
 * only if these bytes are a whole file of the tensor's shape and dtype. Each byte must be written,
 * or be a skipped zero. If no operation was refused, such a stage is always complete. Some complete
 * stages are committed. Afterwards the tensor must have exactly these values, and all others
 * must be unchanged.
 *
 * Input: a byte for the tensor, one for the box (0: all), one of flags (1: raw, 2: opened with
 * O_TRUNC), then operations, see run(). Operations with large numbers come from other threads.
 * Inputs with a certain checksum are committed; each seed has one, by bytes added at its end.
 */
#include "ckptfs/commit.h"
#include "must.h"
#include "read_case.h"
#include "stage_case.h"
#include "syntax/npy.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { LIMIT = 2048, COMMITS_MAX = 200, TENSORS = 8, RAW = 1, ANEW = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- the checkpoint ------------------------------------------------------------ */

static struct {
	char dir[64];
	struct ck_checkpoint *cp;
	struct ck_writer *w;
	struct ck_transaction *x;
	unsigned commits;
	uint8_t now[TENSORS][LIMIT]; /* values of each tensor, in C order */
} disk;

static void shell(const char *what, const char *from)
{
	char command[512];

	snprintf(command, sizeof(command), "%s %s %s", what, from, disk.dir);
	must(system(command) == 0);
}

static void disk_close(void)
{
	ck_transaction_end(disk.x);
	ck_writer_close(disk.w);
	ck_checkpoint_close(disk.cp);
	disk.w = NULL;
	disk.cp = NULL;
	shell("rm -rf", "");
}

static void read_tensor(uint32_t tensor, uint8_t *to)
{
	must(ck_tensor_views[1]->size(disk.cp->catalog, tensor) <= LIMIT);
	must(read_case(disk.cp, tensor, NULL, to) == 0);
}

static void disk_open(void)
{
	static const struct ck_format_options plain = { CK_BENEATH_NO_SYMLINKS,
							.write = true };
	static const struct ck_writer_options options = { false };

	if (disk.cp)
		disk_close();
	else
		atexit(disk_close);
	snprintf(disk.dir, sizeof(disk.dir), "%s/ckptfs-stage-fuzz-%d",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", getpid());
	shell("cp -r", CK_FIXTURE);
	must(ck_checkpoint_open(disk.dir, &plain, &disk.cp, NULL) == 0);
	must(ck_writer_open(disk.cp, &options, &disk.w, NULL) == 0);
	disk.x = begun(disk.w, false);
	must(disk.cp->catalog->tensors.n <= TENSORS);
	for (uint32_t i = 0; i < disk.cp->catalog->tensors.n; i++)
		read_tensor(i, disk.now[i]);
	disk.commits = 0;
}

/* --- the model ----------------------------------------------------------------- */

static struct model {
	const struct ck_tensor *t;
	const struct ck_dtype *dtype;
	const int64_t *shape; /* of the tensor or box */
	const int64_t *start; /* of the box, NULL: all */
	uint64_t nbytes;
	bool raw, truncated, refused, touched;
	bool late;    /* elements before their header, which may be refused */
	bool changed; /* a changed header, which may be refused */
	uint8_t file[LIMIT], given[LIMIT];
	uint32_t by;	/* the thread that wrote */
	bool jumped;	/* skipped bytes are missing */
	bool sized;	/* the size was set */
	uint64_t size;	/* if truncated: of the file */
	uint64_t front; /* if truncated: written bytes at the beginning */
	uint64_t own;	/* length of the header that the mount shows */
	struct ck_npy npy;
	bool valid; /* npy is the header in the file, and matches the tensor */
	bool plain; /* the header has the fields of numpy's own */
} m;

static const char *descr_of(bool big)
{
	static char descr[8];

	snprintf(descr, sizeof(descr), "%s", m.dtype->npy);
	if (big && *descr == '<')
		*descr = '>';
	return descr;
}

static void model_look(void)
{
	struct ck_str bytes = { (const char *)m.file,
				m.truncated ? m.front : m.own };

	m.valid = m.plain = false;
	if (m.raw) {
		m.npy = (struct ck_npy){ .data = 0 };
		m.valid = m.plain = true;
		return;
	}
	if (ck_npy_parse(bytes, &m.npy, NULL) || m.npy.ndim != m.t->ndim)
		return;
	for (uint32_t d = 0; d < m.npy.ndim; d++)
		if (m.npy.shape[d] != (uint64_t)m.shape[d])
			return;
	m.valid = true;
	m.plain = ck_str_is(m.npy.descr, descr_of(false)) ||
		  ck_str_is(m.npy.descr, descr_of(true));
}

static void model_begin(bool truncated)
{
	struct ck_buf b = { 0 };

	m.truncated = truncated;
	m.refused = m.touched = m.late = m.changed = false;
	m.jumped = m.sized = false;
	m.by = 0;
	memset(m.file, 0, sizeof(m.file));
	memset(m.given, 0, sizeof(m.given));
	m.size = m.front = m.own = 0;
	if (!m.raw) {
		ck_npy_header(m.t->dtype, m.t->ndim, m.shape, &b);
		must(b.err == 0 && b.len < LIMIT / 2);
		m.own = b.len;
		if (!truncated)
			memcpy(m.file, b.data, b.len);
		ck_buf_fini(&b);
	}
	model_look();
}

static bool is_swapped(void)
{
	return !m.raw && m.npy.descr.p[0] == '>' && m.dtype->unit > 1;
}

static bool is_fortran(void)
{
	return !m.raw && m.npy.fortran_order && m.npy.ndim > 1;
}

static bool all_given(uint64_t begin, uint64_t end)
{
	for (uint64_t i = begin; i < end; i++)
		if (!m.given[i])
			return false;
	return true;
}

static bool some_given(void)
{
	return memchr(m.given, 1, LIMIT);
}

/* True if no byte of the file is missing. */
static bool model_whole(void)
{
	if (!m.valid || !m.touched)
		return false;
	if (!m.truncated)
		return m.npy.data == m.own &&
		       all_given(m.own, m.own + m.nbytes);
	return m.size == m.npy.data + m.nbytes &&
	       (all_given(0, m.size) || (!m.jumped && some_given()));
}

/* True if the stage may be refused although it is whole. */
static bool model_doubtful(void)
{
	return !m.plain || m.changed ||
	       (m.late && (!m.truncated || is_fortran() || is_swapped() ||
			   m.npy.data != m.own)) ||
	       (!m.truncated && (is_fortran() || is_swapped()));
}

/* --- operations ------------------------------------------------------------------ */

static struct ck_stage *stage;

static void check_errno(int rc)
{
	must(rc == 0 || rc == -EINVAL || rc == -EFBIG);
	if (rc)
		m.refused = true;
}

/* The expected result of a write; 1 if several are permitted. */
static int write_outcome(uint64_t vpos, uint64_t end)
{
	if (m.refused)
		return -EINVAL;
	if (!m.valid || !m.plain || model_doubtful() || vpos < m.npy.data)
		return 1;
	return end > m.npy.data + m.nbytes ? -EFBIG : 0;
}

static void model_order(uint64_t vpos, const uint8_t *bytes, size_t len,
			uint32_t thread)
{
	if (!thread || (m.by && m.by != thread) || vpos < m.size || m.sized ||
	    (len == 1 && *bytes == 0 && vpos > m.size))
		m.jumped = true;
	m.by = thread;
}

static void op_write(uint64_t vpos, const uint8_t *bytes, size_t len,
		     uint32_t thread)
{
	struct ck_diag d = { 0 };
	uint64_t end = vpos + len;
	int rc, want;

	if (end > LIMIT || len == 0)
		return;
	want = write_outcome(vpos, end);
	rc = ck_stage_write(stage, vpos, bytes, len, thread, &d);
	must(want == 1 || rc == want);
	must(rc == 0 || (d.err == -rc && d.text[0]));
	check_errno(rc);
	if (rc)
		return;
	m.touched = true;
	model_order(vpos, bytes, len, thread);
	if (!m.raw && vpos < (m.valid ? m.npy.data : m.own) && m.valid &&
	    memcmp(m.file + vpos, bytes, ck_min(len, m.npy.data - vpos)) != 0)
		m.changed = true;
	if (!m.raw && !m.valid && vpos > m.front)
		m.late = true;
	memcpy(m.file + vpos, bytes, len);
	memset(m.given + vpos, 1, len);
	m.size = ck_max(m.size, end);
	if (vpos <= m.front)
		m.front = ck_max(m.front, end);
	while (m.front < m.size && m.given[m.front])
		m.front++;
	model_look();
}

static void op_truncate(uint64_t size)
{
	struct ck_diag d = { 0 };
	int rc, want = 1;

	if (size > LIMIT)
		return;
	if (size == 0)
		want = 0;
	else if (m.refused)
		want = -EINVAL;
	else if (!m.truncated)
		want = size == m.own + m.nbytes ? 0 : -EINVAL;
	else if (m.raw)
		want = size > m.nbytes ? -EFBIG : 0;
	rc = ck_stage_truncate(stage, size, &d);
	must(want == 1 || rc == want);
	check_errno(rc);
	if (rc)
		return;
	if (size == 0)
		model_begin(true);
	if (size == 0 || !m.truncated)
		return;
	m.touched = m.sized = true;
	if (size < m.size) {
		memset(m.file + size, 0, LIMIT - size);
		memset(m.given + size, 0, LIMIT - size);
		m.front = ck_min(m.front, size);
	}
	m.size = size;
	model_look();
}

/* Makes a header as numpy or another program might write it. */
static size_t header_make(uint8_t how, uint8_t *to)
{
	char text[256], dims[64] = "";
	unsigned version = how % 3U + 1;
	bool fortran = how / 3 & 1, big = how / 6 & 1, tight = how / 12 & 1;
	size_t pre = version == 1 ? 10 : 12, len;

	for (uint32_t d = 0; d < m.t->ndim; d++)
		snprintf(dims + strlen(dims), sizeof(dims) - strlen(dims),
			 "%jd,", (intmax_t)m.shape[d]);
	snprintf(text, sizeof(text),
		 "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }",
		 descr_of(big), fortran ? "True" : "False", dims);
	len = strlen(text);
	while (!tight && (pre + len + 1) % 64)
		text[len++] = ' ';
	text[len++] = '\n';
	memcpy(to, "\x93NUMPY\0\0\0\0\0\0", 12);
	to[6] = (uint8_t)version;
	to[8] = (uint8_t)len;
	to[9] = (uint8_t)(len >> 8);
	memcpy(to + pre, text, len);
	return pre + len;
}

/* --- outcome --------------------------------------------------------------------- */

static enum ck_stage_state op_look(void)
{
	bool whole = model_whole(), doubtful = model_doubtful();
	enum ck_stage_state state;

	ck_stage_closed_by(stage, m.by);
	state = ck_stage_state(stage);
	if (m.refused)
		must(state == CK_STAGE_SPOILED);
	else if (m.truncated && !some_given())
		must(state == (m.raw && m.nbytes == 0 ? CK_STAGE_EMPTY
						      : CK_STAGE_BEGUN));
	else if (!m.touched)
		must(state == CK_STAGE_EMPTY);
	else
		must((whole && state == CK_STAGE_COMPLETE) ||
		     ((!whole || doubtful) &&
		      (state == CK_STAGE_PART || state == CK_STAGE_SPOILED)));
	if (state == CK_STAGE_SPOILED)
		m.refused = true;
	return state;
}

/* The offset of the element with that index in the file. */
static uint64_t place_in_file(const uint64_t *index)
{
	uint64_t at = 0;

	for (uint32_t k = 0; k < m.t->ndim; k++) {
		uint32_t d = is_fortran() ? m.t->ndim - 1 - k : k;

		at = at * (uint64_t)m.shape[d] + index[d];
	}
	return m.npy.data + at * m.dtype->size;
}

static uint64_t place_in_tensor(const uint64_t *index)
{
	const int64_t *whole = m.t->shape;
	uint64_t at = 0;

	for (uint32_t d = 0; d < m.t->ndim; d++)
		at = at * (uint64_t)whole[d] + index[d] +
		     (m.start ? (uint64_t)m.start[d] : 0);
	return at * m.dtype->size;
}

/* Computes the values of the tensor after a commit. */
static void model_commit(uint8_t *values)
{
	uint64_t index[CK_MAX_DIMS] = { 0 };
	uint8_t size = m.dtype->size, unit = m.dtype->unit;

	for (uint64_t n = 0; n < m.nbytes / size; n++) {
		const uint8_t *from = m.file + place_in_file(index);
		uint8_t *to = values + place_in_tensor(index);

		for (uint8_t i = 0; i < size; i++)
			to[i] = from[is_swapped() ? i / unit * unit + unit - 1 -
							    i % unit
						  : i];
		for (uint32_t d = m.t->ndim; d > 0 && d--;) {
			if (++index[d] < (uint64_t)m.shape[d])
				break;
			index[d] = 0;
		}
	}
}

static void commit(uint32_t tensor)
{
	static uint8_t got[LIMIT];
	enum ck_stage_state state = op_look();
	struct ck_diag d = { 0 };
	int rc;

	if (state == CK_STAGE_COMPLETE)
		model_commit(disk.now[tensor]);
	rc = ck_stage_commit(stage, &d);
	must(rc == (state == CK_STAGE_COMPLETE ? 0 : -EINVAL));
	disk.commits += rc == 0;
	for (uint32_t i = 0; i < disk.cp->catalog->tensors.n; i++) {
		read_tensor(i, got);
		must(memcmp(got, disk.now[i],
			    ck_catalog_tensor(disk.cp->catalog, i)->nbytes) ==
		     0);
	}
	if (rc == 0)
		must(ck_stage_state(stage) == CK_STAGE_EMPTY);
}

/* --- input ----------------------------------------------------------------------- */

static bool numbers(struct ck_cur *c, uint16_t *a, uint16_t *b)
{
	return ck_cur_u16(c, a) && ck_cur_u16(c, b);
}

/* Runs one operation. The high bits of its byte select a variant. */
static void run(uint8_t op, struct ck_cur *c)
{
	uint64_t data = m.valid ? m.npy.data : m.own;
	uint32_t thread = op < 128 ? 1 : op < 192 ? 2 : 0;
	uint16_t at = 0, n = 0;
	uint8_t bytes[LIMIT];
	struct ck_str literal;
	size_t len;

	if (op % 8 == 0 && numbers(c, &at, &n)) { /* bytes of the input */
		if (ck_cur_bytes(c, ck_min(n, ck_cur_left(c)), &literal))
			op_write(at, (const uint8_t *)literal.p, literal.len,
				 thread);
	} else if (op % 8 <= 2 && numbers(c, &at, &n)) { /* a pattern, */
		for (size_t i = 0; i < n % LIMIT; i++)
			bytes[i] = (uint8_t)(at * 7U + i * 31U + op);
		/* from the beginning of the file, or of the elements */
		op_write(at + (op % 8 == 2 ? data : 0), bytes, n % LIMIT,
			 thread);
	} else if (op % 8 == 3 && ck_cur_u16(c, &n) && !m.raw) {
		len = header_make(op / 8, bytes); /* whole or a part */
		op_write(0, bytes, n ? ck_min(n, len) : len, thread);
	} else if (op % 8 == 4 && ck_cur_u16(c, &n)) {
		op_truncate(n);
	} else if (op % 8 == 5) {
		op_truncate(op / 8 ? data + m.nbytes : 0);
	} else if (op % 8 == 6) { /* all elements */
		for (size_t i = 0; i < m.nbytes; i++)
			bytes[i] = (uint8_t)(i * 13U + op);
		op_write(data, bytes, m.nbytes, thread);
	} else if (op % 8 == 7) {
		op_look();
	}
}

static void model_make(uint32_t tensor, uint32_t box, uint8_t flags)
{
	const struct ck_catalog *c = disk.cp->catalog;
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	const int64_t *at = box == ALL_BOXES ? NULL : ck_tensor_box(t, box);

	m = (struct model){ .t = t,
			    .dtype = ck_dtype_at(t->dtype),
			    .shape = at ? at + t->ndim : t->shape,
			    .start = at,
			    .nbytes = at ? ck_tensor_box_bytes(t, box)
					 : t->nbytes,
			    .raw = flags & RAW };
	model_begin(false);
}

/* True for some inputs: a commit takes as long as ten others. */
static CK_WRAPS bool is_chosen(const uint8_t *data, size_t size)
{
	uint32_t sum = 2166136261;

	for (size_t i = 0; i < size; i++)
		sum = (sum ^ data[i]) * 16777619;
	return (sum >> 16) % 24 == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_cur c = ck_cur_make(data, size);
	uint8_t tensor, box, flags, op;
	uint32_t number;

	if (!disk.cp || disk.commits >= COMMITS_MAX)
		disk_open();
	if (!ck_cur_u8(&c, &tensor) || !ck_cur_u8(&c, &box) ||
	    !ck_cur_u8(&c, &flags))
		return 0;
	tensor = (uint8_t)(tensor % disk.cp->catalog->tensors.n);
	number = box %
		 (ck_catalog_tensor(disk.cp->catalog, tensor)->nchunks + 1);
	number = number ? number - 1 : ALL_BOXES;
	model_make(tensor, number, flags);
	must(stage_case_open(disk.x, disk.cp, tensor, number,
			     m.raw ? CK_ACCEPTS_RAW : CK_ACCEPTS_NPY, &stage,
			     NULL) == 0);
	if (flags & ANEW)
		op_truncate(0);
	for (int n = 0; n < 64 && ck_cur_u8(&c, &op); n++)
		run(op, &c);
	if (is_chosen(data, size))
		commit(tensor);
	else
		op_look();
	ck_stage_close(stage);
	return 0;
}
