/* SPDX-License-Identifier: MIT */
/*
 * names: ck_dcp_is_ours() accepts exactly the names that ck_dcp_shard_name() produces, and
 * returns their generation. Every accepted name is produced again from its parsed parts.
 */
#include "format/dcp/dcp_internal.h"
#include "tap.h"

#define HEX "0123456789abcdef"

static const uint64_t edges[] = {
	1,
	9,
	10,
	999999999999999999,
	1000000000000000000,
	UINT64_MAX - 1,
	UINT64_MAX,
};

static uint64_t some_number(uint64_t *random, unsigned digits)
{
	uint64_t limit = 1;

	for (uint64_t i = tap_random(random) % digits; i > 0; i--)
		limit *= 10;
	return tap_random(random) % limit;
}

static bool is_known(uint64_t rank, uint64_t generation, const char *hex)
{
	char name[CK_NAME_LEN];
	uint64_t got;

	ck_dcp_shard_name(name, rank, generation, hex);
	if (ck_dcp_is_ours(name, &got) && got == generation)
		return true;
	printf("# %s\n", name);
	return false;
}

static void test_made(uint64_t *random)
{
	bool known = true;

	for (size_t i = 0; i < CK_ARRAY_SIZE(edges); i++) {
		known &= is_known(CK_NO_RANK, edges[i], HEX);
		known &= is_known(0, edges[i], HEX);
		known &= is_known(999999999999999999, edges[i], HEX);
	}
	for (int i = 0; i < 20000; i++) {
		bool none = tap_random(random) % 4 == 0;
		uint64_t rank = none ? CK_NO_RANK : some_number(random, 18);
		char hex[17];

		snprintf(hex, sizeof(hex), "%016" PRIx64, tap_random(random));
		known &= is_known(rank, some_number(random, 19) + 1, hex);
	}
	ok(known);
}

static void test_ranks(void)
{
	static const struct {
		const char *path;
		uint64_t rank;
	} cases[] = {
		{ "__0_0.distcp", 0 },
		{ "__10_3.distcp", 10 },
		{ "__7_", 7 },
		{ "__999999999999999999_0.distcp", 999999999999999999 },
		{ "__1000000000000000000_0.distcp", CK_NO_RANK },
		{ "__007_0.distcp", CK_NO_RANK },
		{ "__00_0.distcp", CK_NO_RANK },
		{ "__7", CK_NO_RANK },
		{ "__7.distcp", CK_NO_RANK },
		{ "___0.distcp", CK_NO_RANK },
		{ "_0_0.distcp", CK_NO_RANK },
		{ "__-1_0.distcp", CK_NO_RANK },
		{ "sub/__1_0.distcp", CK_NO_RANK },
		{ "__1_0/x.distcp", CK_NO_RANK },
		{ "", CK_NO_RANK },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(cases); i++)
		eq_u64(ck_dcp_rank(ck_str_from(cases[i].path)), cases[i].rank);
}

/* True if the parts of an accepted name produce the same name again. */
static bool is_made(const char *name)
{
	uint64_t generation;
	char again[CK_NAME_LEN], hex[17] = "";
	const char *dash;

	if (!ck_dcp_is_ours(name, &generation) || name[0] == '.')
		return true;
	dash = strrchr(name, '-');
	snprintf(hex, sizeof(hex), "%.16s", dash ? dash + 1 : "");
	ck_dcp_shard_name(again, ck_dcp_rank(ck_str_from(name)), generation,
			  hex);
	if (strcmp(again, name) == 0)
		return true;
	printf("# %s\n# %s\n", name, again);
	return false;
}

static void test_changed(uint64_t *random)
{
	static const char letters[] = "_-.0123456789abcdefgkptsz";
	bool made = true;
	unsigned known = 0;

	for (int i = 0; i < 50000; i++) {
		uint64_t rank = some_number(random, 3), got;
		char name[CK_NAME_LEN];
		size_t len, at;

		ck_dcp_shard_name(name, rank % 3 ? rank : CK_NO_RANK,
				  some_number(random, 4) + 1, HEX);
		len = strlen(name);
		at = tap_random(random) % len;
		if (tap_random(random) % 3 == 0)
			memmove(name + at, name + at + 1, len - at);
		else if (tap_random(random) % 2)
			memmove(name + at + 1, name + at, len + 1 - at);
		if (name[at])
			name[at] = letters[tap_random(random) %
					   (sizeof(letters) - 1)];
		made &= is_made(name);
		known += ck_dcp_is_ours(name, &got);
	}
	ok(made);
	ok(known > 1000 && known < 49000); /* both cases occur */
}

static void test_foreign(void)
{
	static const char *const foreign[] = {
		"",
		"__0_0.distcp",
		"__ckptfs-0-" HEX ".distcp",
		"__ckptfs-01-" HEX ".distcp",
		"__00_ckptfs-1-" HEX ".distcp",
		"__1000000000000000000_ckptfs-1-" HEX ".distcp",
		"__ckptfs-18446744073709551616-" HEX ".distcp",
		"__ckptfs-99999999999999999999-" HEX ".distcp",
		"__ckptfs-100000000000000000000-" HEX ".distcp",
		"__ckptfs--" HEX ".distcp",
		"__ckptfs-+1-" HEX ".distcp",
		"__ckptfs-1-0123456789ABCDEF.distcp",
		"__ckptfs-1-" HEX ".distcp.tmp",
		"___ckptfs-1-" HEX ".distcp",
		".metadata.ckptfs-0123456789abcde",
		".metadata.ckptfs-" HEX "0",
	};
	uint64_t generation;

	for (size_t i = 0; i < CK_ARRAY_SIZE(foreign); i++)
		if (!ok(!ck_dcp_is_ours(foreign[i], &generation)))
			printf("# %s\n", foreign[i]);
	ok(ck_dcp_is_ours(".metadata.ckptfs-" HEX, &generation));
	eq_u64(generation, 0);
}

int main(void)
{
	uint64_t random = tap_seed(1);

	test_made(&random);
	test_changed(&random);
	test_foreign();
	test_ranks();
	return tap_done();
}
