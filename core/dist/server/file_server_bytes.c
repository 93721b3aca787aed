/* SPDX-License-Identifier: MIT */
/*
 * file_server_bytes: READ, the packed bytes of copy descriptors, and DIGEST, a
 * hash of ranges of files. No state of its own; any thread, several at a time.
 */
#include "file_server_internal.h"

#include <errno.h>

/* --- READ ------------------------------------------------------------------------------ */

/* Totals of a READ. */
struct sums {
	uint32_t n;
	size_t loops;
	uint64_t bytes;
};

/* Parses the loops of a descriptor. A loop of one turn is dropped: its stride
 * is unchecked and must not be added to a position. */
static bool loops_get(struct ck_cur *c, uint32_t n, struct ck_copy_desc *m,
		      struct ck_loop *loops)
{
	m->nloops = 0;
	m->loops = loops;
	for (uint32_t k = 0; k < n; k++) {
		struct ck_loop loop = { 0 };

		if (!ck_cur_u64(c, &loop.count) || loop.count == 0 ||
		    !ck_cur_u64(c, &loop.src))
			return false;
		if (loop.count > 1)
			loops[m->nloops++] = loop;
	}
	return true;
}

/* Parses a descriptor. `loops` has room for CK_MAX_DIMS, and receives the loops
 * packed. *bytes: how many bytes the descriptor copies. */
static bool move_get(struct ck_cur *c, struct ck_copy_desc *m,
		     struct ck_loop *loops, uint64_t *bytes)
{
	uint64_t end;
	uint32_t n;

	*m = (struct ck_copy_desc){ 0 };
	if (!ck_cur_u32(c, &m->file) || !ck_cur_u32(c, &n) || n > CK_MAX_DIMS ||
	    !ck_cur_u64(c, &m->fpos) || !ck_cur_u64(c, &m->run) ||
	    m->run == 0 || !loops_get(c, n, m, loops) ||
	    !ck_copy_desc_measure(m, bytes, &end) || *bytes > CK_WIRE_READ_MAX)
		return false;
	ck_loops_pack(loops, m->nloops, m->run);
	return true;
}

static bool sum_up(struct ck_cur c, struct sums *s)
{
	struct ck_loop loops[CK_MAX_DIMS];
	struct ck_copy_desc m;
	uint64_t bytes;

	if (!ck_wire_count(&c, &s->n))
		return false;
	for (uint32_t i = 0; i < s->n; i++) {
		if (!move_get(&c, &m, loops, &bytes))
			return false;
		s->loops += m.nloops;
		s->bytes += bytes;
		if (s->bytes > CK_WIRE_READ_MAX)
			return false;
	}
	return ck_cur_left(&c) == 0;
}

bool ck_file_server_read_cost(struct ck_cur body, uint64_t *bytes)
{
	struct sums s = { 0 };

	if (!sum_up(body, &s))
		return false;
	*bytes += s.bytes + s.n * sizeof(struct ck_copy_desc) +
		  (s.loops + CK_MAX_DIMS) * sizeof(struct ck_loop) +
		  ck_file_server_room(sizeof(uint64_t) +
				      (uint64_t)s.n * sizeof(uint32_t));
	return true;
}

/* Parses all descriptors of a request, and sets their destinations in `to`, one
 * behind the other. */
static void moves_get(struct ck_cur c, struct ck_copy_desc *list,
		      struct ck_loop *loops, uint8_t *to)
{
	uint64_t bytes;
	uint32_t n;

	if (!ck_wire_count(&c, &n))
		return;
	for (uint32_t i = 0; i < n; i++) {
		if (!move_get(&c, &list[i], loops, &bytes))
			return;
		list[i].to = to;
		loops += list[i].nloops;
		to += bytes;
	}
}

static bool has_changed(struct ck_files *files, uint32_t file)
{
	bool transient;

	return file < ck_files_count(files) &&
	       ck_files_check(files, file, &transient) == -ESTALE && !transient;
}

/* Marks descriptors as ESTALE whose file has changed while it was read: a
 * writer changes the mtime first. One check serves adjacent descriptors of a
 * file. */
static void look_again(struct ck_files *files,
		       const struct ck_copy_batch *batch)
{
	struct ck_copy_desc *list = batch->list;

	for (size_t from = 0, end; from < batch->n; from = end) {
		end = from + 1;
		while (end < batch->n && list[end].file == list[from].file)
			end++;
		if (!has_changed(files, list[from].file))
			continue;
		for (size_t i = from; i < end; i++)
			list[i].rc = -ESTALE;
	}
}

/* Writes the errors of all descriptors. Failed ones are filled with zeros: the
 * memory may hold data of other requests. */
static void moves_put(const struct ck_copy_batch *batch, struct ck_answer *out)
{
	uint64_t bytes, end;

	ck_buf_u64(&out->body, batch->read);
	for (size_t i = 0; i < batch->n; i++) {
		const struct ck_copy_desc *m = &batch->list[i];

		ck_buf_u32(&out->body, (uint32_t)-m->rc);
		if (m->rc && ck_copy_desc_measure(m, &bytes, &end))
			memset(m->to, 0, bytes);
	}
}

/* A READ in progress, and its memory. */
struct reading {
	struct ck_loop *loops;
	struct ck_copy_desc *list;
	struct ck_copy_batch batch;
};

static void reading_end(struct reading *r)
{
	free(r->loops);
	free(r->list);
}

/* Parses the request, and allocates the payload, which is not filled yet.
 * Returns 0, -EPROTO or -ENOMEM. */
static int reading_begin(struct reading *r, struct ck_cur body,
			 struct ck_answer *out)
{
	struct sums s = { 0 };

	if (!sum_up(body, &s))
		return -EPROTO;
	r->list = calloc(s.n, sizeof(*r->list));
	r->loops = calloc(s.loops + CK_MAX_DIMS, sizeof(*r->loops));
	out->payload = malloc(s.bytes);
	if (!r->list || !r->loops || !out->payload)
		return -ENOMEM;
	out->head.payload = s.bytes;
	moves_get(body, r->list, r->loops, out->payload);
	r->batch = (struct ck_copy_batch){ .list = r->list, .n = s.n };
	return 0;
}

int ck_file_server_read(struct ck_file_server *o, struct ck_cur body,
			struct ck_answer *out)
{
	struct reading r = { 0 };
	int rc = reading_begin(&r, body, out);

	if (rc == 0) {
		(void)o->host.backend.start(&o->host.backend, &r.batch);
		look_again(o->files, &r.batch);
		moves_put(&r.batch, out);
	}
	reading_end(&r);
	return rc;
}

int ck_file_server_read_now(struct ck_file_server *o, struct ck_cur body,
			    struct ck_answer *out)
{
	struct reading r = { 0 };
	int rc = reading_begin(&r, body, out);

	if (rc == 0 && !ck_local_backend_try(&o->host, &r.batch))
		rc = -EAGAIN;
	if (rc == 0) {
		look_again(o->files, &r.batch);
		moves_put(&r.batch, out);
	}
	reading_end(&r);
	return rc;
}

/* --- DIGEST ------------------------------------------------------------------------------ */

enum { BLOCK = 128 << 10 }; /* bytes per read */

static bool run_get(struct ck_cur *c, struct ck_wire_run *run)
{
	return ck_cur_u32(c, &run->file) && ck_wire_zero(c) &&
	       ck_cur_u64(c, &run->fpos) && ck_cur_u64(c, &run->len);
}

bool ck_file_server_digest_cost(struct ck_cur body, uint64_t *bytes)
{
	struct ck_wire_run run;
	uint64_t sum = 0;
	uint32_t n;

	*bytes += BLOCK + 4096 + ck_file_server_room(CK_DIGEST_BYTES);
	if (!ck_wire_count(&body, &n))
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (!run_get(&body, &run) || !ck_add(&sum, sum, run.len) ||
		    sum > CK_WIRE_DIGEST_MAX)
			return false;
	return ck_cur_left(&body) == 0;
}

static int digest_bytes(struct ck_files *files, const struct ck_file *file,
			const struct ck_wire_run *run, struct ck_hasher *h,
			char *block)
{
	if (run->fpos > file->size || run->len > file->size - run->fpos)
		return -EIO;
	for (uint64_t at = 0; at < run->len; at += BLOCK) {
		size_t len = (size_t)ck_min(BLOCK, run->len - at);
		int rc = ck_files_read(files, file, block, len, run->fpos + at,
				       UINT64_MAX);

		if (rc)
			return rc == -ENODATA ? -EIO : rc;
		ck_hasher_add(h, (struct ck_str){ block, len });
	}
	return 0;
}

/* Adds a range of a file to a digest. The file is checked before and after, so
 * that bytes of two versions are not mixed. */
static int digest_run(struct ck_files *files, const struct ck_wire_run *run,
		      struct ck_hasher *h, char *block)
{
	struct ck_file file;
	bool transient;
	int rc;

	if (run->file >= ck_files_count(files))
		return -ENODATA;
	rc = ck_files_get(files, run->file, &file);
	transient = rc && file.transient;
	if (rc == 0) {
		rc = digest_bytes(files, &file, run, h, block);
		transient = rc;
		if (rc == 0)
			rc = ck_files_check(files, run->file, &transient);
		ck_files_put(files, &file);
	}
	return rc == -ESTALE && transient ? -EIO : rc;
}

int ck_file_server_digest(struct ck_file_server *o, struct ck_cur body,
			  struct ck_answer *out)
{
	ck_auto_free char *block = malloc(BLOCK);
	struct ck_hasher *h = ck_hasher_make(0);
	uint8_t sum[CK_DIGEST_BYTES];
	struct ck_wire_run run;
	uint32_t n;
	int rc = block && h ? 0 : -ENOMEM;

	if (!rc && !ck_wire_count(&body, &n))
		rc = -EPROTO;
	for (uint32_t i = 0; !rc && i < n; i++)
		rc = run_get(&body, &run) ? digest_run(o->files, &run, h, block)
					  : -EPROTO;
	if (!rc) {
		ck_hasher_sum128(h, sum);
		ck_buf_add(&out->body, sum, sizeof(sum));
	}
	ck_hasher_free(h);
	return rc;
}
