/* SPDX-License-Identifier: MIT */
/*
 * owner: any bytes as messages of a remote client to the file server of a small directory. Each
 * answer is accepted by a remote client, and its cost has a bound. The bytes of a READ agree with a
 * model of single bytes, so that only bytes of these files are sent.
 */
#include "small_dir.h"
#include "wire_case.h"

#include <errno.h>

enum {
	MESSAGES = 4,
	COST_MAX = 80 << 20, /* of any request */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- READ -------------------------------------------------------------------------- */

struct expected {
	const struct ck_copy_desc *m;
	const uint8_t *p; /* the next payload byte */
	int rc;
	bool any; /* unknown bytes: "./f0" of an earlier STAT is f0 */
};

static void see_run(void *arg, uint64_t fpos, uint64_t dst)
{
	struct expected *e = arg;
	uint64_t size;

	(void)dst;
	if (e->rc)
		return;
	if (e->m->file >= NFILES) {
		e->rc = -ENODATA;
		return;
	}
	size = sizes[e->m->file];
	if (fpos > size || e->m->run > size - fpos)
		e->rc = -EIO;
}

static void compare_run(void *arg, uint64_t fpos, uint64_t dst)
{
	struct expected *e = arg;

	(void)dst;
	for (uint64_t i = 0; i < e->m->run; i++) {
		uint8_t want = e->rc ? 0 : byte_of(e->m->file, fpos + i);

		must(*e->p++ == want || e->any);
	}
}

static void check_move(struct ck_cur *c, struct ck_cur *errs, const uint8_t **p)
{
	struct ck_loop loops[CK_MAX_DIMS] = { { 0 } };
	struct ck_copy_desc m = { .loops = loops };
	struct expected e = { .m = &m, .p = *p };
	uint32_t err;

	must(ck_cur_u32(c, &m.file) && ck_cur_u32(c, &m.nloops) &&
	     ck_cur_u64(c, &m.fpos) && ck_cur_u64(c, &m.run));
	for (uint32_t k = 0; k < m.nloops; k++)
		must(ck_cur_u64(c, &loops[k].count) &&
		     ck_cur_u64(c, &loops[k].src));
	must(ck_cur_u32(errs, &err));
	each_run(&m, see_run, &e);
	e.any = m.file >= NAMES && err == 0;
	must(e.any || m.file >= NAMES || err == (uint32_t)-e.rc);
	each_run(&m, compare_run, &e);
	*p = e.p;
}

static void check_read(const struct ck_message *m, const struct ck_answer *a)
{
	struct ck_cur c = ck_wire_body(m);
	struct ck_cur errs = ck_cur_make(a->body.data, a->body.len);
	const uint8_t *p = a->payload;
	uint64_t read;
	uint32_t n;

	must(ck_wire_count(&c, &n) && ck_cur_u64(&errs, &read));
	must(read <= a->head.payload);
	for (uint32_t i = 0; i < n; i++)
		check_move(&c, &errs, &p);
	must(ck_cur_left(&errs) == 0);
	must(p == a->payload + a->head.payload);
}

/* --- answers ------------------------------------------------------------------------- */

/* Parses the answer as a remote client does. */
static void check_taken(const struct ck_message *m, const struct ck_answer *a)
{
	const struct ck_message answer = {
		.head = a->head, .body = { a->body.data, a->body.len }
	};
	struct ck_query ask = { .head = m->head };
	struct ck_cur c = ck_wire_body(m);
	struct ck_name_stat *looked;
	struct ck_page page;
	uint8_t sum[16];
	int rc = 0;

	switch (m->head.type) {
	case CK_WIRE_LIST: rc = ck_reply_list(&ask, &answer, &page); break;
	case CK_WIRE_PING: rc = take_ping(&ask, &answer); break;
	case CK_WIRE_DIGEST: rc = ck_reply_digest(&ask, &answer, sum); break;
	case CK_WIRE_STAT:
		must(ck_cur_skip(&c, 8) && ck_cur_u32(&c, &ask.n));
		looked = calloc(ask.n, sizeof(*looked));
		must(looked != NULL);
		rc = ck_reply_stat(&ask, &answer, looked);
		free(looked);
		break;
	default: check_read(m, a); break;
	}
	must(rc == -(int)a->head.err && rc != -EPROTO && rc != -ENOMEM);
}

static void check_answer(const struct ck_message *m, const struct ck_answer *a)
{
	struct ck_wire_head back;
	uint8_t bytes[CK_WIRE_HEAD];

	must(a->head.answer && a->head.type == m->head.type);
	must(a->head.id == m->head.id && a->head.epoch == m->head.epoch);
	must(a->head.body == a->body.len);
	ck_wire_head_put(&a->head, bytes);
	must(ck_wire_head_get(bytes, &back) == 0);
	must(back.body == a->head.body && back.payload == a->head.payload);
	check_taken(m, a);
}

static bool serve(const struct ck_message *m)
{
	uint64_t cost = 0;
	struct ck_answer a;
	int rc = ck_file_server_cost(m, &cost);

	must(rc == 0 || (rc == -EPROTO && cost == 0));
	must(cost <= COST_MAX);
	if (rc == 0 && is_long(m, cost))
		return true;
	must(ck_file_server_answer(dir.owner, m, &a) == rc);
	if (rc == 0)
		check_answer(m, &a);
	else
		must(!a.body.data && !a.payload);
	ck_answer_fini(&a);
	return rc == 0;
}

/* Serves a copy of the exact size, so that ASan detects a read beyond it. */
static bool serve_copy(struct ck_message m)
{
	char *copy = malloc(m.body.len + 1);
	bool good;

	must(copy != NULL);
	if (m.body.len)
		memcpy(copy + 1, m.body.p, m.body.len);
	m.body.p = copy + 1;
	good = serve(&m);
	free(copy);
	return good;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_cur c = ck_cur_make(data, size);
	struct ck_message m = { 0 };
	struct ck_str head;

	owner_renew();
	for (int i = 0; i < MESSAGES; i++) {
		if (!ck_cur_bytes(&c, CK_WIRE_HEAD, &head) ||
		    ck_wire_head_get((const uint8_t *)head.p, &m.head))
			break;
		if (!ck_cur_bytes(&c, ck_min(m.head.body, ck_cur_left(&c)),
				  &m.body) ||
		    !serve_copy(m))
			break;
	}
	return 0;
}
