/* SPDX-License-Identifier: MIT */
/* npy headers: as numpy writes them, and read in all spellings. */
#include "ckptfs/model.h"
#include "syntax/npy.h"
#include "tap.h"

#define DIMS(...) ((const int64_t[]){ __VA_ARGS__ })
#define MAX	  INT64_MAX

/* Text and length of what numpy 2.4.6 wrote. */
static void test_as_numpy_writes(void)
{
	static const struct {
		const char *dtype;
		uint32_t ndim;
		int64_t shape[8];
		const char *text;
		size_t len;
	} rows[] = {
		{ "float32",
		  0,
		  { 0 },
		  "<f4', 'fortran_order': False, "
		  "'shape': (), }",
		  128 },
		{ "float32",
		  1,
		  { 0 },
		  "<f4', 'fortran_order': False, "
		  "'shape': (0,), }",
		  128 },
		{ "bool",
		  1,
		  { 5 },
		  "|b1', 'fortran_order': False, "
		  "'shape': (5,), }",
		  128 },
		{ "bfloat16",
		  2,
		  { 3, 4 },
		  "|V2', 'fortran_order': False, "
		  "'shape': (3, 4), }",
		  128 },
		{ "float32",
		  2,
		  { MAX, 0 },
		  "<f4', 'fortran_order': False, "
		  "'shape': (9223372036854775807, 0), }",
		  128 },
		{ "complex128",
		  5,
		  { 12345678901, 12345678901, 12345678901, 12345678901,
		    12345678901 },
		  "<c16', 'fortran_order': False, 'shape': (12345678901, "
		  "12345678901, 12345678901, 12345678901, 12345678901), }",
		  192 },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		uint8_t dtype = ck_dtype_by_name(ck_str_from(rows[i].dtype));
		char want[256] = "\x93NUMPY\x01";
		struct ck_buf b = { 0 };

		memset(want + 10, ' ', sizeof(want) - 10);
		want[8] = (char)(rows[i].len - 10);
		memcpy(want + 10, "{'descr': '", 11);
		memcpy(want + 21, rows[i].text, strlen(rows[i].text));
		want[rows[i].len - 1] = '\n';
		ck_npy_header(dtype, rows[i].ndim, rows[i].shape, &b);
		eq_mem(b.data, b.len, want, rows[i].len);
		ck_buf_fini(&b);
	}
}

/* A multiple of 64, as the preamble says; numpy pads by a whole 64 where
 * nothing is missing. */
static bool length_is_right(const struct ck_buf *b, int64_t first,
			    unsigned *whole)
{
	const char *brace = memrchr(b->data, '}', b->len);
	/* the dict, 21 less the digits of the first dimension, newline */
	size_t text = (size_t)(brace - b->data) + 1 + 21 + 1;
	size_t rest = (uint8_t)b->data[8] + 256u * (uint8_t)b->data[9];

	text -= (size_t)snprintf(NULL, 0, "%" PRId64, first);
	*whole += text % 64 == 0;
	return b->len == (text / 64 + 1) * 64 && b->len == rest + 10 &&
	       b->data[b->len - 1] == '\n';
}

static void test_length_is_right(void)
{
	struct ck_buf b = { 0 };
	unsigned whole = 0, failed = 0;

	for (int64_t i = 1; i <= CK_MAX_DIMS * 10; i++) {
		uint32_t ndim = (uint32_t)(i + 9) / 10;
		int64_t shape[CK_MAX_DIMS];

		for (uint32_t d = 0; d < ndim; d++)
			shape[d] = d + 1 < ndim ? 1 : i;
		b.len = 0;
		ck_npy_header(1, ndim, shape, &b);
		failed += b.len != ck_npy_header_len(1, ndim, shape) ||
			  !length_is_right(&b, shape[0], &whole);
	}
	eq_u64(failed, 0);
	ok(whole > 0);
	ck_buf_fini(&b);
}

static int parse(const char *text, uint8_t major, struct ck_npy *out)
{
	static struct ck_buf b;
	size_t len = strlen(text);
	uint8_t head[12] = {
		0x93, 'N',   'U', 'M',		'P',
		'Y',  major, 0,	  (uint8_t)len, (uint8_t)(len >> 8),
		0,    0
	};

	ck_buf_fini(&b);
	ck_buf_add(&b, head, major == 1 ? 10 : 12);
	ck_buf_text(&b, text);
	return ck_npy_parse((struct ck_str){ b.data, b.len }, out, NULL);
}

static void test_reads_any_spelling(void)
{
	static const char *const good[] = {
		"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }",
		"{'shape':(3,4),'fortran_order':False,'descr':'<f4'}\n",
		("{ 'shape' : ( 3 , 4 , ) ,\t\"descr\" : \"<f4\" ,\n"
		 "\"fortran_order\" : False , } \n \n"),
		"  {'descr':'<f4','fortran_order':False,'shape':(3L, 4L)}",
	};
	struct ck_npy n;

	for (size_t i = 0; i < CK_ARRAY_SIZE(good); i++)
		for (uint8_t major = 1; major <= 3; major++) {
			eq_err(parse(good[i], major, &n), 0);
			eq_mem(n.descr.p, n.descr.len, "<f4", 3);
			ok(!n.fortran_order && n.ndim == 2);
			ok(n.shape[0] == 3 && n.shape[1] == 4);
			eq_u64(n.data,
			       (major == 1 ? 10 : 12) + strlen(good[i]));
		}
	eq_err(parse("{'descr':'|b1','fortran_order':True,'shape':()}", 1, &n),
	       0);
	ok(n.fortran_order && n.ndim == 0);
	eq_err(parse("{'descr':'|b1','fortran_order':True,'shape':(0,)}", 1,
		     &n),
	       0);
	ok(n.ndim == 1 && n.shape[0] == 0);
}

#define DICT(shape) "{'descr':'<f4','fortran_order':False,'shape':" shape "}"

static void test_refuses(void)
{
	static const char *const bad[] = {
		"",
		"{}",
		DICT("5"),
		DICT("(5)"),
		DICT("[5]"),
		DICT("(,)"),
		DICT("(3 4)"),
		DICT("(3,,4)"),
		DICT("(-3,)"),
		DICT("(3.0,)"),
		DICT("(03,)"),
		DICT("(9223372036854775808,)"),
		DICT("(99999999999999999999999,)"),
		DICT("(3,"),
		DICT("(3,4)") "x",
		DICT("(3,4)") "\x01",
		"{'descr':'<f4','fortran_order':False}",
		"{'descr':'<f4','fortran_order':false,'shape':()}",
		"{'descr':'<f4','fortran_order':0,'shape':()}",
		"{'descr':'','fortran_order':False,'shape':()}",
		"{'descr':'<f4,'fortran_order':False,'shape':()}",
		"{'descr':'\\x3cf4','fortran_order':False,'shape':()}",
		"{'descr':[('a','<f4')],'fortran_order':False,'shape':()}",
		"{'descr':'<f4','fortran_order':False,'shape':(),'more':1}",
		("{'descr':'<f4','descr':'<f4','fortran_order':False,"
		 "'shape':()}"),
		"{'descr':'<f4' 'fortran_order':False,'shape':()}",
		"{,'descr':'<f4','fortran_order':False,'shape':()}",
		"('descr','<f4','fortran_order',False,'shape',())",
	};
	struct ck_npy n;

	for (size_t i = 0; i < CK_ARRAY_SIZE(bad); i++)
		if (parse(bad[i], 1, &n) != -EINVAL)
			tap_result(false, __FILE__, __LINE__, bad[i]);
	ok(true);
	eq_err(parse(DICT("()"), 0, &n), -EINVAL);
	eq_err(parse(DICT("()"), 4, &n), -EINVAL);
}

static void test_too_many_dimensions(void)
{
	struct ck_buf b = { 0 };
	struct ck_npy n;

	ck_buf_text(&b, "{'descr':'<f4','fortran_order':False,'shape':(");
	for (int i = 0; i < CK_MAX_DIMS; i++)
		ck_buf_text(&b, "1,");
	ck_buf_text(&b, ")}");
	eq_err(parse(b.data, 1, &n), 0);
	eq_u64(n.ndim, CK_MAX_DIMS);
	b.len -= 2;
	ck_buf_text(&b, "1)}");
	eq_err(parse(b.data, 1, &n), -EINVAL);
	ck_buf_fini(&b);
}

static void test_round_trips(void)
{
	uint64_t seed = tap_seed(77);
	struct ck_buf b = { 0 };
	unsigned failed = 0;

	for (int i = 0; i < 20000; i++) {
		uint32_t ndim = (uint32_t)(tap_random(&seed) % 9);
		int64_t shape[9];
		struct ck_npy n;

		for (uint32_t d = 0; d < ndim; d++)
			shape[d] = (int64_t)(tap_random(&seed) >>
					     (1 + tap_random(&seed) % 63));
		b.len = 0;
		ck_npy_header(3, ndim, shape, &b);
		failed += ck_npy_parse((struct ck_str){ b.data, b.len }, &n,
				       NULL) != 0 ||
			  n.ndim != ndim || n.data != b.len ||
			  n.fortran_order || !ck_str_is(n.descr, "<f2");
		for (uint32_t d = 0; d < ndim && d < n.ndim; d++)
			failed += n.shape[d] != (uint64_t)shape[d];
	}
	eq_u64(failed, 0);
	ck_buf_fini(&b);
}

static void test_cut_short(void)
{
	struct ck_buf b = { 0 };
	unsigned accepted = 0;

	ck_npy_header(1, 2, DIMS(3, 4), &b);
	for (size_t len = 0; len < b.len; len++) {
		char *copy = malloc(len + 1);
		struct ck_npy n;

		memcpy(copy, b.data, len);
		accepted += ck_npy_parse((struct ck_str){ copy, len }, &n,
					 NULL) == 0;
		free(copy);
	}
	eq_u64(accepted, 0);
	ck_buf_fini(&b);
}

int main(void)
{
	test_as_numpy_writes();
	test_length_is_right();
	test_reads_any_spelling();
	test_refuses();
	test_too_many_dimensions();
	test_round_trips();
	test_cut_short();
	return tap_done();
}
