/* SPDX-License-Identifier: MIT */
/* rank_table: the table of the ranks of a job, the records that are refused, and the list
 * that the mount process receives. */
#include "dist/launch/rank_table.h"
#include "tap.h"

#include <limits.h>
#include <unistd.h>

enum { MOST = 8 };

static uint8_t records[MOST * CK_RANK_TABLE_RECORD];

static const struct ck_rank_table_rank
	a = { "a", "1", "/ck", CK_VERSION, 0, 0 },
	a_mount = { "a", "1", "/ck", CK_VERSION, true, 0 },
	b = { "b", "2", "/other/ck", CK_VERSION, 0, 0 },
	b_mount = { "b", "2", "/other/ck", CK_VERSION, true, 0 };

static void say(const struct ck_rank_table_rank *list, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (ck_rank_table_encode(&list[i],
					 records + i * CK_RANK_TABLE_RECORD))
			abort();
}

/* --- ranks with a mount ---------------------------------------------------------------- */

/* `which` has an x for each rank that must have a mount, and a dot for each other one. */
static void mounts(const struct ck_rank_table_rank *list, const char *which)
{
	uint32_t n = (uint32_t)strlen(which);
	struct ck_rank_table r = { 0 };
	struct ck_diag d = { 0 };
	char found[MOST + 1] = "";

	say(list, n);
	eq_i64(ck_rank_table_read(records, n, &r, &d), 0);
	for (uint32_t i = 0; i < n; i++)
		found[i] = r.ranks[i].mounts ? 'x' : '.';
	eq_text(found, which);
	ck_rank_table_fini(&r);
}

static void test_mounts(void)
{
	mounts((struct ck_rank_table_rank[]){ a_mount }, "x");
	mounts((struct ck_rank_table_rank[]){ a_mount, b }, "x.");
	mounts((struct ck_rank_table_rank[]){ a, b_mount }, ".x");
	mounts((struct ck_rank_table_rank[]){ a_mount, b_mount, a_mount,
					      b_mount },
	       "xx..");
	mounts((struct ck_rank_table_rank[]){ a, b_mount, a_mount, b_mount,
					      a_mount },
	       ".xx..");
}

/* --- refused records ------------------------------------------------------------------- */

static void refused_bytes(uint32_t n, int rc, const char *why)
{
	struct ck_rank_table r = { 0 };
	struct ck_diag d = { 0 };

	eq_i64(ck_rank_table_read(records, n, &r, &d), rc);
	if (!tap_result(strstr(d.text, why), __FILE__, __LINE__, why))
		printf("# %s\n", d.text);
	ck_rank_table_fini(&r);
}

static void refused(const struct ck_rank_table_rank *list, uint32_t n,
		    const char *why)
{
	say(list, n);
	refused_bytes(n, -EINVAL, why);
}

static void test_refused(void)
{
	struct ck_rank_table_rank other = b_mount;

	refused((struct ck_rank_table_rank[]){ a, b, a }, 3,
		"no rank has --mount");
	other.version = "9.8.7";
	refused((struct ck_rank_table_rank[]){ a, b, other }, 3,
		"rank 0 is ckptfs " CK_VERSION ", rank 2 is ckptfs 9.8.7");
	refused((struct ck_rank_table_rank[]){ other, a }, 2,
		"rank 0 is ckptfs 9.8.7, rank 1 is ckptfs " CK_VERSION);
	other = b_mount;
	other.path = "/ck";
	refused((struct ck_rank_table_rank[]){ a, b, other }, 3,
		"the ranks of b have to serve one directory: /ck is not "
		"/other/ck");
	other = b_mount;
	other.machine = "3";
	refused((struct ck_rank_table_rank[]){ a, b, other }, 3,
		"two hosts have the name b");
}

/* A record of another version may have more fields; other malformed records are refused. */
static void test_no_rank(void)
{
	struct ck_rank_table_rank rank = a_mount;

	say(&a_mount, 1);
	memset(records, 0, 3);
	refused_bytes(1, -EPROTO, "rank 0 is no ckptfs");
	say(&a_mount, 1);
	memset(records + strlen("ckptfs") + 1, 'x', CK_RANK_TABLE_RECORD - 10);
	memset(records + CK_RANK_TABLE_RECORD - 10, 'y', 10);
	refused_bytes(1, -EPROTO, "rank 0 is no ckptfs");
	rank.host = "a b";
	say(&rank, 1);
	refused_bytes(1, -EPROTO, "rank 0 is no ckptfs");
	rank.host = "";
	say(&rank, 1);
	refused_bytes(1, -EPROTO, "rank 0 is no ckptfs");
	rank = a_mount;
	rank.path = "ck";
	say(&rank, 1);
	refused_bytes(1, -EPROTO, "rank 0 is no ckptfs");
	rank = a_mount;
	rank.version = "0";
	rank.host = "\1";
	say((struct ck_rank_table_rank[]){ a_mount, rank }, 2);
	memset(records + CK_RANK_TABLE_RECORD + 9, 0xff,
	       CK_RANK_TABLE_RECORD - 9);
	refused_bytes(2, -EINVAL, "rank 1 is ckptfs 0;");
}

static void test_long(void)
{
	static char path[CK_RANK_TABLE_RECORD];
	struct ck_rank_table_rank rank = a_mount;

	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	rank.path = path;
	eq_i64(ck_rank_table_encode(&rank, records), -ENAMETOOLONG);
	path[PATH_MAX] = '\0';
	eq_i64(ck_rank_table_encode(&rank, records), 0);
}

static void test_own(void)
{
	struct ck_diag d = { 0 };
	struct ck_rank_table r = { 0 };
	static char host[HOST_NAME_MAX + 1], cwd[PATH_MAX];

	if (gethostname(host, sizeof(host) - 1) || !getcwd(cwd, sizeof(cwd)))
		abort();
	eq_i64(ck_rank_table_encode_own("no/such", true, records, &d), 0);
	eq_i64(ck_rank_table_read(records, 1, &r, &d), 0);
	eq_text(r.ranks[0].host, host);
	eq_u64(strlen(r.ranks[0].path), strlen(cwd) + strlen("/no/such"));
	ok(strncmp(r.ranks[0].path, cwd, strlen(cwd)) == 0);
	ok(strlen(r.ranks[0].machine) > 30);
	ck_rank_table_fini(&r);
}

/* --- the list of a mount --------------------------------------------------------------- */

static void is_rank(const struct ck_host_rank *one, uint32_t rank,
		    const struct ck_rank_table_rank *of)
{
	eq_u64(one->rank, rank);
	eq_text(one->name, of->host);
	eq_text(one->path, of->path);
	ok(!one->missing);
}

static void test_list(void)
{
	const struct ck_rank_table_rank all[] = { a, b, a, b_mount, a };
	struct ck_host_rank *list = NULL;
	struct ck_rank_table r = { 0 };
	struct ck_buf text = { 0 };
	uint32_t n;

	say(all, 5);
	eq_i64(ck_rank_table_read(records, 5, &r, NULL), 0);
	ck_rank_table_list(&r, 3, &text);
	ck_rank_table_fini(&r);
	eq_i64(text.err, 0);
	eq_i64(ck_rank_table_decode_list((struct ck_str){ text.data, text.len },
					 &list, &n),
	       0);
	eq_u64(n, 5);
	is_rank(&list[0], 3, &b);
	is_rank(&list[1], 1, &b);
	is_rank(&list[2], 0, &a);
	is_rank(&list[3], 2, &a);
	is_rank(&list[4], 4, &a);
	free(list);
	/* A truncated list is refused, and a changed byte causes no invalid access. */
	for (size_t len = 0; len < text.len; len++)
		ok(ck_rank_table_decode_list((struct ck_str){ text.data, len },
					     &list, &n) == -EPROTO);
	for (size_t i = 0; i < text.len; i++) {
		text.data[i] ^= 0x55;
		if (ck_rank_table_decode_list(
			    (struct ck_str){ text.data, text.len }, &list,
			    &n) == 0)
			free(list);
		text.data[i] ^= 0x55;
	}
	ck_buf_fini(&text);
}

int main(void)
{
	test_mounts();
	test_refused();
	test_no_rank();
	test_long();
	test_own();
	test_list();
	return tap_done();
}
