/* SPDX-License-Identifier: MIT */
/*
 * What the pickler writes is what pickle.dumps(value, 2) of CPython gives, from
 * where the bytes below are, and the reader takes it.
 */
#include "ckptfs/pickle.h"
#include "syntax/pickle/pickler.h"
#include "tap.h"

#define IS(pickle, bytes) is(pickle, CK_STR(bytes))

struct pickle {
	struct ck_buf b;
	struct ck_pickler p;
};

/* memoize: as Python does. */
static struct ck_pickler *begin(struct pickle *k, bool memoize)
{
	*k = (struct pickle){ .p = { .memoize = memoize } };
	k->p.out = &k->b;
	ck_pickler_begin(&k->p);
	return &k->p;
}

/* Ends and frees it. */
static void is(struct pickle *k, struct ck_str want)
{
	struct ck_pickle read = { 0 };

	ck_pickler_end(&k->p);
	eq_mem(k->b.data, k->b.len, want.p, want.len);
	eq_err(ck_pickle_read(&read, k->b.data, k->b.len, NULL, NULL), 0);
	eq_u64(read.end, want.len);
	ck_pickle_fini(&read);
	ck_buf_fini(&k->b);
}

static void test_ints(void)
{
	static const uint64_t ints[] = {
		0,
		255,
		256,
		65535,
		65536,
		INT32_MAX,
		UINT64_C(1) << 31,
		(UINT64_C(1) << 39) - 1,
		UINT64_C(1) << 39,
		UINT64_C(1) << 55,
		INT64_MAX,
	};
	struct pickle k;

	ck_pickler_ints(begin(&k, true), CK_ARRAY_SIZE(ints), ints);
	IS(&k, "\200\002(K\000K\377M\000\001M\377\377J\000\000\001\000"
	       "J\377\377\377\177\212\005\000\000\000\200\000"
	       "\212\005\377\377\377\377\177\212\006\000\000\000\000\200\000"
	       "\212\010\000\000\000\000\000\000\200\000"
	       "\212\010\377\377\377\377\377\377\377\177tq\000.");
}

/* Not as Python does, but of a width that hardly changes. */
static void test_wide_ints(void)
{
	struct pickle k;

	ck_pickler_int_wide(begin(&k, true), 0);
	IS(&k, "\200\002J\000\000\000\000.");
	ck_pickler_int_wide(begin(&k, true), INT32_MAX);
	IS(&k, "\200\002J\377\377\377\177.");
	ck_pickler_int_wide(begin(&k, true), UINT64_C(1) << 31);
	IS(&k, "\200\002\212\010\000\000\000\200\000\000\000\000.");
	ck_pickler_int_wide(begin(&k, true), INT64_MAX);
	IS(&k, "\200\002\212\010\377\377\377\377\377\377\377\177.");
}

static void test_short_tuples(void)
{
	static const uint64_t ints[] = { 7, 8, 9 };
	struct pickle k;

	ck_pickler_ints(begin(&k, true), 0, NULL);
	IS(&k, "\200\002).");
	ck_pickler_ints(begin(&k, true), 1, ints);
	IS(&k, "\200\002K\007\205q\000.");
	ck_pickler_ints(begin(&k, true), 2, ints);
	IS(&k, "\200\002K\007K\010\206q\000.");
	ck_pickler_ints(begin(&k, true), 3, ints);
	IS(&k, "\200\002K\007K\010K\011\207q\000.");
}

static void test_values(void)
{
	struct pickle k;

	ck_pickler_none(begin(&k, true));
	IS(&k, "\200\002N.");
	ck_pickler_bool(begin(&k, true), true);
	IS(&k, "\200\002\210.");
	ck_pickler_bool(begin(&k, true), false);
	IS(&k, "\200\002\211.");
	ck_pickler_text(begin(&k, true), CK_STR("h\303\251"));
	IS(&k, "\200\002X\003\000\000\000h\303\251q\000.");
	ck_pickler_text(begin(&k, false), CK_STR("h\303\251"));
	IS(&k, "\200\002X\003\000\000\000h\303\251.");
}

static void test_stack(void)
{
	struct pickle k;

	ck_pickler_global(begin(&k, true), "collections", "OrderedDict");
	ck_pickler_ints(&k.p, 0, NULL);
	ck_pickler_reduce(&k.p);
	IS(&k, "\200\002ccollections\012OrderedDict\012q\000)Rq\001.");
	ck_pickler_mark(begin(&k, true));
	ck_pickler_text(&k.p, CK_STR("storage"));
	ck_pickler_bool(&k.p, true);
	ck_pickler_none(&k.p);
	ck_pickler_int(&k.p, 5);
	ck_pickler_tuple(&k.p);
	ck_pickler_persid(&k.p);
	IS(&k, "\200\002(X\007\000\000\000storageq\000\210NK\005tq\001Q.");
	/* into a dict that Python would make with '}' */
	ck_pickler_global(begin(&k, false), "collections", "OrderedDict");
	ck_pickler_ints(&k.p, 0, NULL);
	ck_pickler_reduce(&k.p);
	ck_pickler_mark(&k.p);
	ck_pickler_text(&k.p, CK_STR("a"));
	ck_pickler_int(&k.p, 1);
	ck_pickler_set_items(&k.p);
	IS(&k, "\200\002ccollections\012OrderedDict\012)R"
	       "(X\001\000\000\000aK\001u.");
}

/* An object of a class that is in the memo, which is filled before its first use. */
static void test_memo(void)
{
	static const uint64_t sizes[] = { 7, 300 };
	struct pickle k;

	ck_pickler_global(begin(&k, false), "a", "B");
	ck_pickler_put(&k.p, 2);
	ck_pickler_pop(&k.p);
	ck_pickler_get(&k.p, 2);
	ck_pickler_object(&k.p);
	ck_pickler_dict(&k.p);
	ck_pickler_mark(&k.p);
	ck_pickler_text(&k.p, CK_STR("x"));
	ck_pickler_put(&k.p, 256);
	ck_pickler_list(&k.p);
	ck_pickler_mark(&k.p);
	ck_pickler_get(&k.p, 256);
	ck_pickler_size(&k.p, 2, 2, sizes);
	ck_pickler_append_items(&k.p);
	ck_pickler_set_items(&k.p);
	ck_pickler_build(&k.p);
	IS(&k,
	   "\200\002ca\012B\012q\0020h\002)\201}(X\001\000\000\000xr\000\001\000\000"
	   "](j\000\001\000\000h\002K\007M,\001\206\205Reub.");
}

/* The index of a PUT grows from one byte to four. */
static void test_many_objects(void)
{
	struct ck_buf want = { 0 };
	struct pickle k;

	ck_pickler_mark(begin(&k, true));
	ck_buf_str(&want, CK_STR("\200\002("));
	for (unsigned i = 0; i < 258; i++) {
		uint8_t op = i < 256 ? 'q' : 'r';

		ck_pickler_text(&k.p, CK_STR("x"));
		ck_buf_str(&want, CK_STR("X\001\000\000\000x"));
		ck_buf_add(&want, &op, 1);
		ck_buf_add(&want, &i, i < 256 ? 1 : 4);
	}
	ck_pickler_tuple(&k.p);
	ck_buf_str(&want, CK_STR("tr\002\001\000\000."));
	is(&k, (struct ck_str){ want.data, want.len });
	ck_buf_fini(&want);
}

int main(void)
{
	test_ints();
	test_wide_ints();
	test_short_tuples();
	test_values();
	test_stack();
	test_memo();
	test_many_objects();
	return tap_done();
}
