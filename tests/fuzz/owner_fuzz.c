/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as what comes from a requester: messages one behind the other, for the owner
 * of a small directory. An answer is one that a requester takes, and costs no more than
 * a bound; the bytes of a READ are those that a model of single bytes says, so nothing
 * but bytes of these files ever leaves.
 */
#include "owner_internal.h"
#include "wire_case.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	MESSAGES = 4,
	NFILES = 3,
	FILE_BYTES = 5000,
	NAMES = 9,
	COST_MAX = 80 << 20,  /* of any request */
	COST_DONE = 16 << 10, /* of a READ that is done here */
	PARTS_DONE = 16,      /* moves, runs or names of a request that is */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
	if (!good)
		abort();
}

/* --- the directory --------------------------------------------------------------- */

static const char *const names[NAMES] = { "f0",	     "f1",   "f2",
					  "missing", "fifo", "link",
					  "sub",     "../f", "sub/g" };
static const size_t sizes[NFILES] = { FILE_BYTES, 1000, 0 };

static struct {
	char path[64];
	int fd;
	struct ck_data_owner *owner;
} dir;

static uint8_t byte_of(uint32_t file, uint64_t fpos)
{
	return (uint8_t)((fpos * 31 + fpos / 251 + file * 7 + 1) & 0xff);
}

static void put_file(uint32_t i)
{
	static uint8_t bytes[FILE_BYTES];
	int fd = openat(dir.fd, names[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	for (size_t k = 0; k < sizes[i]; k++)
		bytes[k] = byte_of(i, k);
	must(fd >= 0 && ck_write_full(fd, bytes, sizes[i]) == 0);
	close(fd);
}

static void dir_close(void)
{
	char command[128];

	ck_data_owner_free(dir.owner);
	close(dir.fd);
	snprintf(command, sizeof(command), "rm -rf %s", dir.path);
	must(system(command) == 0);
}

static void dir_make(void)
{
	snprintf(dir.path, sizeof(dir.path), "%s/ckptfs-owner-fuzz-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	must(mkdtemp(dir.path) && ck_sigbus_install() == 0);
	dir.fd = open(dir.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	must(dir.fd >= 0);
	for (uint32_t i = 0; i < NFILES; i++)
		put_file(i);
	must(mkfifoat(dir.fd, "fifo", 0600) == 0);
	must(symlinkat("f0", dir.fd, "link") == 0);
	must(mkdirat(dir.fd, "sub", 0700) == 0);
	atexit(dir_close);
}

/* One that knows these names and no others. */
static void owner_renew(void)
{
	uint32_t number;

	if (!dir.path[0])
		dir_make();
	if (dir.owner && ck_files_count(dir.owner->files) == NAMES)
		return;
	ck_data_owner_free(dir.owner);
	dir.owner = ck_data_owner_make(dir.fd, CK_BENEATH_NO_SYMLINKS, 16);
	must(dir.owner);
	for (uint32_t i = 0; i < NAMES; i++)
		must(ck_files_add(dir.owner->files, ck_str_from(names[i]),
				  &number) == 0 &&
		     number == i);
}

/* --- READ -------------------------------------------------------------------------- */

struct expected {
	const struct ck_move *m;
	const uint8_t *p; /* what comes next */
	int rc;
	bool any; /* nobody says which bytes: "./f0", looked at before, is f0 */
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
	struct ck_move m = { .loops = loops };
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
	uint32_t n;

	must(ck_wire_count(&c, &n));
	for (uint32_t i = 0; i < n; i++)
		check_move(&c, &errs, &p);
	must(ck_cur_left(&errs) == 0);
	must(p == a->payload + a->head.payload);
}

/* --- answers ------------------------------------------------------------------------- */

/* What the requester makes of it. */
static void check_taken(const struct ck_message *m, const struct ck_answer *a)
{
	const struct ck_message answer = {
		.head = a->head, .body = { a->body.data, a->body.len }
	};
	struct ck_ask ask = { .head = m->head };
	struct ck_cur c = ck_wire_body(m);
	struct ck_looked *looked;
	struct ck_page page;
	struct ck_str text;
	uint8_t sum[16];
	int rc = 0;

	switch (m->head.type) {
	case CK_WIRE_HELLO: rc = ck_take_hello(&ask, &answer, &text); break;
	case CK_WIRE_LIST: rc = ck_take_list(&ask, &answer, &page); break;
	case CK_WIRE_PING: rc = ck_take_ping(&ask, &answer); break;
	case CK_WIRE_DIGEST: rc = ck_take_digest(&ask, &answer, sum); break;
	case CK_WIRE_LOOK:
		must(ck_cur_skip(&c, 8) && ck_cur_u32(&c, &ask.n));
		looked = calloc(ask.n, sizeof(*looked));
		must(looked != NULL);
		rc = ck_take_look(&ask, &answer, looked);
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

/* What is only long parses here and is not done: each name, move and run costs some
 * system calls. */
static bool is_long(const struct ck_message *m, uint64_t cost)
{
	struct ck_cur c = ck_wire_body(m);
	uint32_t n = 0;

	if (m->head.type == CK_WIRE_LOOK && !ck_cur_skip(&c, 8))
		return false;
	if (m->head.type != CK_WIRE_LOOK && m->head.type != CK_WIRE_READ &&
	    m->head.type != CK_WIRE_DIGEST)
		return false;
	return !ck_cur_u32(&c, &n) || n > PARTS_DONE ||
	       (m->head.type == CK_WIRE_READ && cost > COST_DONE);
}

static bool serve(const struct ck_message *m)
{
	uint64_t cost = 0;
	struct ck_answer a;
	int rc = ck_data_owner_cost(m, &cost);

	must(rc == 0 || (rc == -EPROTO && cost == 0));
	must(cost <= COST_MAX);
	if (rc == 0 && is_long(m, cost))
		return true;
	must(ck_data_owner_answer(dir.owner, m, &a) == rc);
	if (rc == 0)
		check_answer(m, &a);
	else
		must(!a.body.data && !a.payload);
	ck_answer_fini(&a);
	return rc == 0;
}

/* A copy of the exact size, so that ASan sees one byte too many. */
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
