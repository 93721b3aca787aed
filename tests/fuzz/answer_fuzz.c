/* SPDX-License-Identifier: MIT */
/*
 * answer: any bytes as the answer of a file server. Input: a byte that selects the request, then
 * head, body and payload of the answer. A refused answer changes nothing. An accepted answer has
 * valid fields, and its payload is written only to the destinations of the moves.
 */
#include "dist/dist_internal.h"
#include "must.h"
#include "wire_case.h"

#include <errno.h>
#include <sys/stat.h>

enum { ROOM = 200, NAMES = 3, MOVES = 2, ID = 7, EPOCH = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- requests -------------------------------------------------------------------------- */

static uint8_t to[ROOM];
static const struct ck_loop loops[] = { { 3, 40, 100 }, { 4, 9, 10 } };
static struct ck_copy_desc batch[MOVES] = {
	{ .nloops = 2, .loops = loops, .fpos = 5, .run = 4, .to = to },
	{ .file = 1, .run = 20, .to = to + 150 },
};

static void ask_make(struct ck_query *a, unsigned type)
{
	static const struct ck_str names[NAMES] = { { "a", 1 },
						    { "b", 1 },
						    { "c", 1 } };
	static const struct ck_wire_run run = { 0, 0, 100 };
	struct ck_reads r;
	size_t n;
	int rc = 0;

	switch (type) {
	case CK_WIRE_LIST: rc = ck_query_list(a, CK_STR(""), 0); break;
	case CK_WIRE_STAT:
		rc = ck_query_stat(a, (struct ck_ids){ 0, 0 }, names, NAMES,
				   &n);
		break;
	case CK_WIRE_READ:
		ck_reads_begin(&r, batch, MOVES);
		must(ck_reads_left(&r));
		rc = ck_query_read(&r, a);
		break;
	case CK_WIRE_DIGEST: rc = ck_query_digest(a, &run, 1); break;
	default: rc = ck_query_ping(a); break;
	}
	must(rc == 0);
	a->head.id = ID;
	a->head.epoch = EPOCH;
}

/* --- checks of accepted answers ------------------------------------------------------------ */

static int take_list(const struct ck_query *a, const struct ck_message *m)
{
	struct ck_page page;
	struct ck_page_row row;
	uint32_t n, seen = 0;
	int rc = ck_reply_list(a, m, &page);

	if (rc)
		return rc;
	for (n = page.n; ck_page_next(&page, &row); seen++) {
		must(row.name.len && !memchr(row.name.p, '/', row.name.len));
		must(!memchr(row.name.p, '\0', row.name.len));
		must(!ck_str_is(row.name, ".") && !ck_str_is(row.name, ".."));
		must(row.kind >= CK_WIRE_FILE && row.kind <= CK_WIRE_OTHER);
		must(row.name.p >= m->body.p &&
		     row.name.p + row.name.len <= m->body.p + m->body.len);
	}
	must(seen == n && (n || !page.more));
	return 0;
}

static int take_look(const struct ck_query *a, const struct ck_message *m)
{
	struct ck_name_stat *looked = calloc(NAMES, sizeof(*looked));
	int rc = looked ? ck_reply_stat(a, m, looked) : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < NAMES; i++) {
		const struct ck_file_info *info = &looked[i].info;

		must(looked[i].seen || (looked[i].trouble && !info->err));
		must(looked[i].trouble >= 0 && looked[i].trouble < 4096);
		must(info->err >= 0 && info->err < 4096);
		must((info->err != 0) == (info->why != NULL));
		must(!looked[i].seen || info->err || S_ISREG(info->mode));
		must(info->size <= INT64_MAX && !info->path.p);
		must(info->mtime.tv_nsec >= 0 &&
		     info->mtime.tv_nsec < 1000000000);
		must((info->closed & ~(mode_t)0444) == 0);
	}
	free(looked);
	return rc;
}

struct expected {
	const struct ck_copy_desc *m;
	const uint8_t *p; /* the next payload byte */
	uint8_t *to;
};

static void copy_run(void *arg, uint64_t fpos, uint64_t dst)
{
	struct expected *e = arg;

	(void)fpos;
	memcpy(e->to + dst, e->p, e->m->run);
	e->p += e->m->run;
}

/* Compares the destination with a copy made run by run. */
static void check_moved(const struct ck_message *m, uint64_t read)
{
	uint8_t want[ROOM];
	struct expected e = { .p = (const uint8_t *)m->payload.p };
	struct ck_cur errs = ck_wire_body(m);
	uint64_t sent;
	uint32_t err;

	must(ck_cur_u64(&errs, &sent) && sent == read);
	memset(want, '.', sizeof(want));
	for (size_t i = 0; i < MOVES; i++) {
		e.m = &batch[i];
		e.to = want + (batch[i].to - to);
		must(ck_cur_u32(&errs, &err));
		must(err < 4096 && (batch[i].rc == 0) == (err == 0));
		must(batch[i].rc != -EINTR && batch[i].rc != -EREMOTE &&
		     batch[i].rc != -EINPROGRESS);
		if (err)
			e.p += i ? 20 : 48;
		else
			each_run(&batch[i], copy_run, &e);
	}
	must(memcmp(want, to, ROOM) == 0);
}

static int take_read(const struct ck_query *a, const struct ck_message *m)
{
	uint64_t read;
	int rc;

	memset(to, '.', sizeof(to));
	rc = ck_reply_read(a, m, &read);
	if (rc == 0)
		check_moved(m, read);
	for (size_t i = 0; rc && i < ROOM; i++)
		must(to[i] == '.');
	for (size_t i = 0; rc && i < MOVES; i++)
		must(batch[i].rc == rc);
	return rc;
}

static int take(const struct ck_query *a, const struct ck_message *m)
{
	uint8_t sum[16];

	switch (a->head.type) {
	case CK_WIRE_LIST: return take_list(a, m);
	case CK_WIRE_STAT: return take_look(a, m);
	case CK_WIRE_READ: return take_read(a, m);
	case CK_WIRE_DIGEST: return ck_reply_digest(a, m, sum);
	default: return take_ping(a, m);
	}
}

/* Parses copies of the exact sizes, so that ASan detects a read beyond them. */
static void take_copy(const struct ck_query *a, struct ck_message m)
{
	char *body = malloc(m.body.len + 1),
	     *payload = malloc(m.payload.len + 1);
	int rc;

	must(body && payload);
	if (m.body.len)
		memcpy(body + 1, m.body.p, m.body.len);
	if (m.payload.len)
		memcpy(payload + 1, m.payload.p, m.payload.len);
	m.body.p = body + 1;
	m.payload.p = payload + 1;
	rc = take(a, &m);
	must(rc <= 0 && rc > -4096);
	if (ck_query_check(a, &m.head))
		must(rc == -EPROTO);
	if (rc == 0)
		must(m.head.answer && m.head.id == ID &&
		     m.head.epoch == EPOCH && m.head.type == a->head.type);
	free(body);
	free(payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_message m;
	struct ck_query a;

	if (size == 0 || wire_split(data + 1, size - 1, &m))
		return 0;
	ask_make(&a, data[0]);
	take_copy(&a, m);
	ck_query_fini(&a);
	return 0;
}
