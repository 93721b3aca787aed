/* SPDX-License-Identifier: MIT */
/*
 * specs: names of layouts, by a table, and at random against a plainer reading of the
 * grammar; directories that are there when they are looked up, 4,096 at most.
 */
#include "tap.h"
#include "view/specs.h"

#include <errno.h>
#include <pthread.h>

static const char *const good[] = {
	"1",
	"8",
	"1000000",
	"fsdp=4",
	"fsdp=4,tp=2",
	"_=1",
	"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1",
	"x2345678901234567890123456789012=1",
	"A_9=1000,b=1000",
};
static const char *const bad[] = {
	"",
	"0",
	"08",
	"1000001",
	"-1",
	"+1",
	" 1",
	"1 ",
	"8,",
	",8",
	"8,8",
	"8=2",
	"fsdp",
	"fsdp=",
	"=4",
	"fsdp=0",
	"fsdp=04",
	"fsdp=4,",
	"fsdp=4,,tp=2",
	"fsdp=4,fsdp=2",
	"9a=1",
	"a-b=1",
	"a=1 ",
	"a=1,8",
	"8,a=1",
	"a=1001,b=1000",
	"a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1",
	"a=99999999999999999999",
	"x23456789012345678901234567890123=1",
	"a==1",
	"a=1=1",
	"rank-0",
	".",
};

static bool is_spec(const char *text)
{
	struct ck_spec spec;

	return ck_spec_parse(ck_str_from(text), &spec);
}

static void test_table(void)
{
	struct ck_spec spec;

	for (size_t i = 0; i < CK_ARRAY_SIZE(good); i++)
		ok(is_spec(good[i]));
	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++)
		if (is_spec(bad[i]))
			tap_result(false, __FILE__, __LINE__, bad[i]);
	ok(ck_spec_parse(CK_STR("dp=3,tp=2"), &spec));
	eq_u64(spec.ndim, 2);
	eq_u64(spec.ranks, 6);
	ok(ck_str_is(spec.dims[1].name, "tp") && spec.dims[1].size == 2);
	ok(ck_spec_parse(CK_STR("12"), &spec));
	ok(spec.ndim == 1 && spec.ranks == 12 && spec.dims[0].size == 12 &&
	   spec.dims[0].name.len == 0);
	ok(!ck_spec_parse((struct ck_str){ "8\0", 2 }, &spec));
}

/* --- a plainer reading ------------------------------------------------------- */

/* 0: it is no size. */
static uint64_t plain_size(const char *text)
{
	uint64_t n = 0;

	for (const char *p = text; *p; p++) {
		if (*p < '0' || *p > '9' || n > 1000000)
			return 0;
		n = 10 * n + (uint64_t)(*p - '0');
	}
	return *text == '0' || n > 1000000 ? 0 : n;
}

static bool plain_is_spec(const char *text)
{
	char copy[128], *save = NULL, *names[16];
	uint64_t ranks = 1, n = 0;
	size_t len = strlen(text);

	if (plain_size(text))
		return true;
	if (len == 0 || text[0] == ',' || text[len - 1] == ',' ||
	    strstr(text, ",,"))
		return false;
	snprintf(copy, sizeof(copy), "%s", text);
	for (char *part = strtok_r(copy, ",", &save); part;
	     part = strtok_r(NULL, ",", &save)) {
		char *sign = strchr(part, '=');

		if (!sign || sign == part || sign - part > 32 || n == 8)
			return false;
		*sign = '\0';
		for (char *p = part; *p; p++)
			if (!strchr("abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ_",
				    *p) &&
			    (p == part || *p < '0' || *p > '9'))
				return false;
		for (uint64_t i = 0; i < n; i++)
			if (strcmp(names[i], part) == 0)
				return false;
		names[n++] = part;
		if (plain_size(sign + 1) == 0)
			return false;
		ranks *= plain_size(sign + 1);
		if (ranks > 1000000)
			return false;
	}
	return true;
}

static void test_random(void)
{
	static const char *const pieces[] = { "a", "b", "=",  ",",  "1",
					      "2", "0", "tp", "a=", ",b=",
					      "9", "_", "-",  "=1", "1000" };
	uint64_t random = tap_seed(77) | 1, specs = 0;
	unsigned wrong = 0;

	for (unsigned i = 0; i < 200000; i++) {
		char text[64] = "";
		uint64_t n = 1 + tap_random(&random) % 8;

		for (uint64_t k = 0; k < n; k++)
			strncat(text,
				pieces[tap_random(&random) %
				       CK_ARRAY_SIZE(pieces)],
				sizeof(text) - strlen(text) - 1);
		wrong += is_spec(text) != plain_is_spec(text);
		specs += is_spec(text);
	}
	printf("# %" PRIu64 " specs\n", specs);
	ok(specs > 1000);
	eq_u64(wrong, 0);
}

/* --- directories ------------------------------------------------------------- */

static void test_directories(void)
{
	struct ck_specs *s;
	struct ck_spec spec;
	struct ck_str name;
	uint32_t number;
	char text[32];
	unsigned wrong = 0;

	eq_err(ck_specs_make(&s), 0);
	ok(!ck_specs_at(s, 0, &name, &spec));
	eq_err(ck_specs_find(s, CK_STR("eight"), &number), -ENOENT);
	for (uint32_t i = 0; i < CK_SPECS_MOST; i++) {
		snprintf(text, sizeof(text), i % 2 ? "%u" : "fsdp=%u", i + 1);
		wrong += ck_specs_find(s, ck_str_from(text), &number) != 0 ||
			 number != i;
	}
	eq_u64(wrong, 0);
	eq_err(ck_specs_find(s, CK_STR("999999"), &number), -ENOSPC);
	eq_err(ck_specs_find(s, CK_STR("0"), &number), -ENOENT);
	eq_err(ck_specs_find(s, CK_STR("fsdp=3"), &number), 0);
	eq_u64(number, 2);
	ok(ck_specs_at(s, 2, &name, &spec) && ck_str_is(name, "fsdp=3") &&
	   spec.ranks == 3);
	ok(!ck_specs_at(s, CK_SPECS_MOST, &name, &spec));
	ck_specs_free(s);
}

static void *finder(void *arg)
{
	struct ck_specs *s = arg;
	unsigned *wrong = calloc(1, sizeof(*wrong));
	char text[32];

	for (unsigned i = 0; wrong && i < 3000; i++) {
		struct ck_spec spec;
		struct ck_str name;
		uint32_t number;

		snprintf(text, sizeof(text), "%u", 1 + i % 1500);
		*wrong += ck_specs_find(s, ck_str_from(text), &number) != 0 ||
			  !ck_specs_at(s, number, &name, &spec) ||
			  !ck_str_is(name, text);
	}
	return wrong;
}

static void test_threads(void)
{
	struct ck_specs *s;
	struct ck_spec spec;
	struct ck_str name;
	pthread_t threads[4];

	eq_err(ck_specs_make(&s), 0);
	for (unsigned i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, finder, s))
			abort();
	for (unsigned i = 0; i < 4; i++) {
		void *wrong = NULL;

		pthread_join(threads[i], &wrong);
		ok(wrong && *(unsigned *)wrong == 0);
		free(wrong);
	}
	ok(ck_specs_at(s, 1499, &name, &spec) &&
	   !ck_specs_at(s, 1500, &name, &spec));
	ck_specs_free(s);
}

int main(void)
{
	test_table();
	test_random();
	test_directories();
	test_threads();
	return tap_done();
}
