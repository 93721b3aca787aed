/* SPDX-License-Identifier: MIT */
/* Which ranks have a mount: what each event does. */
#include "dist/server/mount_liveness.h"
#include "tap.h"

enum { RANKS = 5, SELF = 2, SILENCE = 100, MOST = 50 };

static void test_gone(void)
{
	const bool has[RANKS] = { true, false, true, true, false };
	struct ck_mount_liveness m = { 0 };

	eq_i64(ck_mount_liveness_init(&m, RANKS, SELF, has, 0), 0);
	eq_u64(m.left, 3);
	ok(ck_mount_liveness_watch(&m));
	ok(ck_mount_liveness_gone(&m, 0));
	ok(!ck_mount_liveness_gone(&m, 0)); /* only once */
	ok(!ck_mount_liveness_gone(&m, 1)); /* had no mount */
	ok(ck_mount_liveness_gone(&m, 3));
	eq_u64(m.left, 1);
	ok(!ck_mount_liveness_watch(&m)); /* its own */
	ok(ck_mount_liveness_gone(&m, SELF));
	eq_u64(m.left, 0);
	ck_mount_liveness_fini(&m);
}

static bool look(struct ck_mount_liveness *m, uint64_t now)
{
	return ck_mount_liveness_expire(m, now, SILENCE, MOST);
}

static void test_silence(void)
{
	const bool has[RANKS] = { true, true, true, false, false };
	struct ck_mount_liveness m = { 0 };

	eq_i64(ck_mount_liveness_init(&m, RANKS, SELF, has, 1000), 0);
	ok(!look(&m, 1050));
	ck_mount_liveness_note(&m, 0, 1060);
	ok(!look(&m, 1099));
	ok(look(&m, 1100)); /* 1 */
	eq_u64(m.left, 2);
	ok(!look(&m, 1150));
	/* Nobody has looked for too long. */
	ok(!look(&m, 1201));
	ok(!look(&m, 1250));
	ok(!look(&m, 1300));
	ok(look(&m, 1301)); /* 0 */
	eq_u64(m.left, 1);
	ok(!look(&m, 1350) && !look(&m, 1400) && !look(&m, 1450));
	eq_u64(m.left, 1); /* its own silence is none */
	ck_mount_liveness_fini(&m);
}

int main(void)
{
	test_gone();
	test_silence();
	return tap_done();
}
