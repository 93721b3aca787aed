/* SPDX-License-Identifier: MIT */
/*
 * sidecar: accepted and refused sidecar files and the reasons, the entry of each unit, the
 * entries of an optimizer by number, and a very large sidecar.
 */
#include "format/flat/sidecar.h"
#include "tap.h"

#include <errno.h>

#define SIDECAR(fields) "{\"format\":\"ckptfs-flat\",\"version\":1," fields "}"
#define MISSING		"found none" /* in a reason: the field is missing */
#define UNITS(units)	SIDECAR("\"units\":[" units "]")
#define UNIT(name, numel, params)                                              \
	"{\"flat_param\":\"" name "\",\"numel\":" #numel                       \
	",\"params\":[" params "]}"
#define PARAM(name, shape, offset)                                             \
	"{\"fqn\":\"" name "\",\"shape\":[" shape "],\"offset\":" #offset "}"
#define SHARED(params, shared)                                                 \
	"{\"flat_param\":\"u\",\"numel\":9,\"params\":[" params                \
	"],\"shared\":[" shared "]}"

/* --- accepted and refused texts ---------------------------------------------------- */

static const struct {
	const char *json, *why; /* NULL: the text is accepted */
} sidecars[] = {
	{ SIDECAR("\"units\":[]"), NULL },
	{ UNITS(UNIT("a", 0, "")), NULL },
	{ UNITS(UNIT("a", 6, PARAM("w", "2,3", 0))), NULL },
	{ UNITS(UNIT("a", 9, PARAM("w", "2,3", 0) "," PARAM("b", "", 8))),
	  NULL },
	/* in any order; gaps are alignment */
	{ UNITS(UNIT("a", 9, PARAM("w", "2", 7) "," PARAM("b", "3", 0))),
	  NULL },
	/* a parameter without elements overlaps no other one */
	{ UNITS(UNIT("a", 4,
		     PARAM("w", "4", 0) "," PARAM("b", "0,7",
						  2) "," PARAM("c", "0", 4))),
	  NULL },
	{ UNITS(UNIT("a", 4, PARAM("w", "9223372036854775807,4,0", 0))), NULL },
	{ UNITS(SHARED(PARAM("w", "4", 0),
		       "{\"fqn\":\"x\",\"of\":\"w\",\"y\":[1]}")),
	  NULL },
	{ SIDECAR("\"world_size\":4,\"torch\":\"2.13.0\",\"more\":[{}],"
		  "\"units\":[{\"x\":{},\"params\":[{\"y\":[],\"fqn\":\"w\","
		  "\"offset\":0,\"shape\":[1]}],\"numel\":1,\"flat_param\":"
		  "\"a\",\"dtype\":\"float32\"}]"),
	  NULL },
	{ SIDECAR("\"units\":[],\"optimizers\":[]"), NULL },
	{ SIDECAR("\"units\":[],\"optimizers\":[[],[\"a\"]]"), NULL },

	{ "", "JSON" },
	{ "[]", "no object" },
	{ UNITS("") "x", "behind" },
	{ "{}", "format; expected ckptfs-flat, " MISSING },
	{ "{\"format\":\"other\",\"version\":1,\"units\":[]}",
	  "format; expected ckptfs-flat, found other" },
	{ "{\"format\":[],\"version\":1,\"units\":[]}", "format; expected" },
	{ "{\"format\":\"ckptfs-flat\",\"version\":2,\"units\":{}}",
	  "version; expected 1, found 2" },
	{ "{\"format\":\"ckptfs-flat\",\"version\":1.0,\"units\":[]}",
	  "version; expected 1, found 1.0" },
	{ "{\"format\":\"ckptfs-flat\",\"version\":\"1\",\"units\":[]}",
	  "version; expected 1, " MISSING },
	{ "{\"format\":\"ckptfs-flat\",\"units\":[]}", MISSING },
	{ "{\"format\":\"ckptfs-flat\",\"version\":1}", "no units" },
	{ SIDECAR("\"units\":[],\"units\":[]"), "two values" },
	{ SIDECAR("\"units\":[],\"x\":{\"a\":1,\"a\":2}"), "two values" },
	{ SIDECAR("\"units\":{}"), "units that are no array" },
	{ UNITS("[]"), "a unit that is no object" },
	{ UNITS("{\"flat_param\":\"a\",\"numel\":1}"), "a unit without" },
	{ UNITS("{\"flat_param\":\"a\",\"params\":[]}"), "a unit without" },
	{ UNITS("{\"numel\":1,\"params\":[]}"), "a unit without" },
	{ UNITS(UNIT("", 1, "")), "no name" },
	{ UNITS("{\"flat_param\":1}"), "no name" },
	{ UNITS("{\"dtype\":null}"), "no name" },
	{ UNITS(UNIT("a", -1, "")), "no size" },
	{ UNITS(UNIT("a", 1.5, "")), "no size" },
	{ UNITS(UNIT("a", 9223372036854775808, "")), "no size" },
	{ UNITS("{\"params\":{}}"), "params that are no array" },
	{ UNITS("{\"shared\":{}}"), "shared that is no array" },
	{ UNITS("{\"shared\":[[]]}"), "no object" },
	{ UNITS("{\"shared\":[{\"fqn\":\"a\"}]}"), "without fqn or of" },
	{ UNITS("{\"shared\":[{\"of\":\"a\"}]}"), "without fqn or of" },
	{ UNITS(UNIT("a", 1, "[]")), "a parameter that is no object" },
	{ UNITS(UNIT("a", 1, "{\"fqn\":\"w\",\"offset\":0}")),
	  "a parameter without" },
	{ UNITS(UNIT("a", 1, "{\"fqn\":\"w\",\"shape\":[]}")),
	  "a parameter without" },
	{ UNITS(UNIT("a", 1, "{\"offset\":0,\"shape\":[]}")),
	  "a parameter without" },
	{ UNITS(UNIT("a", 1, PARAM("", "", 0))), "no name" },
	{ UNITS(UNIT("a", 1, PARAM("w", "-1", 0))), "no size" },
	{ UNITS(UNIT("a", 1, PARAM("w", "[1]", 0))), "no size" },
	{ UNITS(UNIT("a", 1, PARAM("w", "4294967296,4294967296", 0))),
	  "w: its elements cannot be counted" },
	{ UNITS(UNIT("u", 6, PARAM("w", "2,3", 1))),
	  "unit u: end of w; expected 6 or less, found 7" },
	{ UNITS(UNIT("u", 6,
		     PARAM("w", "9223372036854775807", 9223372036854775807))),
	  "unit u: end of w; expected 6 or less" },
	{ UNITS(UNIT("u", 6, PARAM("w", "0", 7))), "end of w" },
	{ UNITS(UNIT("u", 9, PARAM("w", "2,3", 0) "," PARAM("b", "2", 5))),
	  "unit u: offset of b, behind w; expected 6 or more, found 5" },
	{ UNITS(UNIT("u", 9, PARAM("b", "2", 5) "," PARAM("w", "2,3", 0))),
	  "unit u: offset of b, behind w; expected 6 or more, found 5" },
	{ UNITS(UNIT("u", 9, PARAM("b", "2", 1) "," PARAM("w", "2", 1))),
	  "offset of w, behind b" },
	{ UNITS(UNIT("u", 9, "") "," UNIT("v", 9, "") "," UNIT("u", 1, "")),
	  "unit u: there are two" },
	{ UNITS(UNIT("u", 1, PARAM("w", "1", 0)) "," UNIT("v", 1,
							  PARAM("w", "1", 0))),
	  "w: two parameters have this name" },
	{ UNITS(SHARED(PARAM("w", "4", 0), "{\"fqn\":\"w\",\"of\":\"w\"}")),
	  "w: two parameters have this name" },
	{ UNITS(SHARED(PARAM("w", "4", 0), "{\"fqn\":\"x\",\"of\":\"y\"}")),
	  "unit u: x is shared with y, which is no parameter of it" },
	{ UNITS(SHARED(PARAM("w", "4", 0),
		       "{\"fqn\":\"x\",\"of\":\"w\"},{\"fqn\":\"y\",\"of\":"
		       "\"x\"}")),
	  "unit u: y is shared with x" },
	{ UNITS(SHARED(
		  PARAM("w", "4", 0),
		  "{\"fqn\":\"x\",\"of\":\"b\"}") "," UNIT("v", 1,
							   PARAM("b", "1", 0))),
	  "unit u: x is shared with b" },
	{ SIDECAR("\"units\":[],\"world_size\":0"), "no world_size" },
	{ SIDECAR("\"units\":[],\"world_size\":\"4\""), "no size" },
	{ SIDECAR("\"units\":[],\"optimizers\":{}"), "no array" },
	{ SIDECAR("\"units\":[],\"optimizers\":[{}]"), "no array" },
	{ SIDECAR("\"units\":[],\"optimizers\":[[0]]"), "no name" },
};

static void test_texts(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(sidecars); i++) {
		struct ck_sidecar s;
		struct ck_diag d = { 0 };
		int rc = ck_sidecar_read(&s, ck_str_from(sidecars[i].json), &d);

		printf("# %s: %s\n", sidecars[i].json, d.text);
		eq_err(rc, sidecars[i].why ? -EBADMSG : 0);
		ok(!sidecars[i].why || strstr(d.text, sidecars[i].why));
		ck_sidecar_fini(&s);
	}
}

/* --- parsed values --------------------------------------------------------------------- */

static const char contract[] =
	"{\"format\":\"ckptfs-flat\",\"version\":1,\"torch\":\"2.13.0\","
	"\"world_size\":4,\"use_orig_params\":false,\"units\":["
	"{\"flat_param\":\"net.a._flat_param\",\"numel\":60,\"dtype\":"
	"\"float32\",\"params\":[{\"fqn\":\"net.a.weight\",\"shape\":[10,5],"
	"\"offset\":0},{\"fqn\":\"net.a.b\\u0069as\",\"shape\":[],\"offset\":"
	"59}],\"shared\":[{\"fqn\":\"out.weight\",\"of\":\"net.a.weight\"}]},"
	"{\"flat_param\":\"_flat_param\",\"numel\":3,\"params\":[{\"fqn\":"
	"\"w\",\"shape\":[3,1],\"offset\":0}]},"
	"{\"flat_param\":\"a._flat_param\",\"numel\":3,\"params\":[]}],"
	"\"optimizers\":[[\"net.a._flat_param\",\"_flat_param\",\"lost\"],"
	"[\"net.a.bias\",\"out.weight\"]]}";

static void test_values(struct ck_sidecar *s)
{
	const struct ck_sidecar_param *p = &s->params[0];

	eq_u64(s->world, 4);
	eq_u64(s->nunits, 3);
	ok(ck_str_is(s->units[0].flat_param, "net.a._flat_param"));
	ok(ck_str_is(s->units[0].dtype, "float32"));
	ok(!s->units[1].dtype.p);
	eq_u64(s->units[0].numel, 60);
	eq_u64(s->units[0].nparams, 2);
	eq_u64(s->units[0].nshared, 1);
	eq_u64(s->units[1].param, 2);
	eq_u64(s->units[1].nshared, 0);
	ok(ck_str_is(p->fqn, "net.a.weight"));
	eq_u64(p->ndim, 2);
	eq_i64(ck_sidecar_shape(s, p)[0], 10);
	eq_i64(ck_sidecar_shape(s, p)[1], 5);
	eq_u64(p->numel, 50);
	ok(ck_str_is(s->params[1].fqn, "net.a.bias"));
	eq_u64(s->params[1].numel, 1);
	eq_u64(s->params[1].offset, 59);
	ok(ck_str_is(s->shared[0].fqn, "out.weight"));
	eq_u64(s->shared[0].of, 0);
}

static void state_is(const struct ck_sidecar *s, uint64_t optimizer,
		     uint64_t number, uint32_t unit, uint32_t param)
{
	const struct ck_sidecar_state *st = ck_sidecar_state(s, optimizer,
							     number);

	ok(st);
	if (!st)
		return;
	eq_u64(st->unit, unit);
	eq_u64(st->param, param);
}

static void test_states(const struct ck_sidecar *s)
{
	state_is(s, 0, 0, 0, CK_SIDECAR_NONE);
	state_is(s, 0, 1, 1, CK_SIDECAR_NONE);
	state_is(s, 0, 2, CK_SIDECAR_NONE, CK_SIDECAR_NONE);
	ok(ck_str_is(ck_sidecar_state(s, 0, 2)->name, "lost"));
	ok(!ck_sidecar_state(s, 0, 3));
	state_is(s, 1, 0, 0, 1);
	state_is(s, 1, 1, 0, 0);
	ok(!ck_sidecar_state(s, 1, UINT64_MAX));
	ok(!ck_sidecar_state(s, 2, 0));
}

/* --- entries of units ------------------------------------------------------------------ */

static const struct {
	const char *shown;
	int unit; /* -1 if no unit has the name */
	const char *prefix;
} entries[] = {
	{ "net.a._flat_param", 0, "" },
	{ "model.net.a._flat_param", 0, "model." },
	{ "x.net.a._flat_param", 0, "x." },
	{ "xnet.a._flat_param", 2, "xnet." },
	{ "a._flat_param", 2, "" },
	{ "_flat_param", 1, "" },
	{ "b._flat_param", 1, "b." },
	{ "._flat_param", 1, "." },
	{ "a.b._flat_param", 1, "a.b." },
	{ "b_flat_param", -1, NULL },
	{ "_flat_param.x", -1, NULL },
	{ "net.a._flat_param.", -1, NULL },
	{ "flat_param", -1, NULL },
	{ "net.a", -1, NULL },
	{ "", -1, NULL },
};

static void test_entries(const struct ck_sidecar *s)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(entries); i++) {
		struct ck_str prefix = { NULL, 0 };
		const struct ck_sidecar_unit *u = ck_sidecar_find(
			s, ck_str_from(entries[i].shown), &prefix);

		printf("# %s\n", entries[i].shown);
		eq_i64(u ? u - s->units : -1, entries[i].unit);
		if (u && entries[i].prefix)
			ok(ck_str_is(prefix, entries[i].prefix));
	}
}

static void test_fits(const struct ck_sidecar *s)
{
	struct ck_diag d = { 0 };

	eq_err(ck_sidecar_fits(&s->units[0], CK_STR("x.net.a._flat_param"), 60,
			       &d),
	       0);
	eq_err(ck_sidecar_fits(&s->units[0], CK_STR("x.net.a._flat_param"), 64,
			       &d),
	       -EBADMSG);
	eq_text(d.text, "x.net.a._flat_param: elements of unit "
			"net.a._flat_param, which is not used; expected 60, "
			"found 64");
}

static void test_none(void)
{
	struct ck_sidecar s;
	struct ck_str prefix;

	eq_err(ck_sidecar_read(&s, CK_STR(UNITS("")), NULL), 0);
	ok(!ck_sidecar_find(&s, CK_STR("_flat_param"), &prefix));
	ok(!ck_sidecar_state(&s, 0, 0));
	ck_sidecar_fini(&s);
}

/* --- limits ---------------------------------------------------------------------------- */

/* A sidecar of n parameters, in units of a thousand. */
static void large_make(struct ck_buf *text, uint32_t n)
{
	ck_buf_text(text, "{\"format\":\"ckptfs-flat\",\"version\":1,"
			  "\"units\":[");
	for (uint32_t i = 0; i < n; i++) {
		if (i % 1000 == 0)
			ck_buf_printf(text,
				      "%s{\"flat_param\":\"layers.%u._flat_"
				      "param\",\"numel\":4000,\"params\":[",
				      i ? "]}," : "", i / 1000);
		ck_buf_printf(text,
			      "%s{\"fqn\":\"layers.%u.w%u\",\"shape\":[2,2],"
			      "\"offset\":%u}",
			      i % 1000 ? "," : "", i / 1000, i % 1000,
			      i % 1000 * 4);
	}
	ck_buf_text(text, n ? "]}]}" : "]}");
}

static void large_is(uint32_t n, const char *why)
{
	struct ck_buf text = { 0 };
	struct ck_sidecar s;
	struct ck_diag d = { 0 };
	uint64_t begin;
	int rc;

	large_make(&text, n);
	begin = ck_msec_now();
	rc = ck_sidecar_read(&s, (struct ck_str){ text.data, text.len }, &d);
	printf("# %u parameters, %zu bytes, %" PRIu64 " ms: %s\n", n, text.len,
	       ck_msec_now() - begin, d.text);
	eq_err(rc, why ? -EBADMSG : 0);
	ok(!why || strstr(d.text, why));
	if (!why)
		eq_u64(s.nparams, n);
	ck_sidecar_fini(&s);
	ck_buf_fini(&text);
}

/* Parses `one`, repeated n times with commas, between `begin` and `end`. */
static void repeated_is(const char *begin, const char *one, uint32_t n,
			const char *end, const char *why)
{
	struct ck_buf text = { 0 };
	struct ck_sidecar s;
	struct ck_diag d = { 0 };

	ck_buf_text(&text, begin);
	for (uint32_t i = 0; i < n; i++)
		ck_buf_printf(&text, "%s%s", i ? "," : "", one);
	ck_buf_text(&text, end);
	eq_err(ck_sidecar_read(&s, (struct ck_str){ text.data, text.len }, &d),
	       why ? -EBADMSG : 0);
	ok(!why || strstr(d.text, why));
	printf("# %s\n", d.text);
	ck_sidecar_fini(&s);
	ck_buf_fini(&text);
}

static void test_limits(void)
{
	static const char optimizers[] =
		"{\"format\":\"ckptfs-flat\",\"version\":1,\"units\":[],"
		"\"optimizers\":[";
	static const char shape[] =
		"{\"format\":\"ckptfs-flat\",\"version\":1,\"units\":[{"
		"\"flat_param\":\"a\",\"numel\":1,\"params\":[{\"fqn\":\"w\","
		"\"offset\":0,\"shape\":[";

	large_is(0, NULL);
	large_is(CK_SIDECAR_PARAMS / (tap_is_long() ? 1U : 10U), NULL);
	repeated_is(optimizers, "[]", CK_SIDECAR_PARAMS + 1, "]}",
		    "more than 1000000 optimizers");
	repeated_is(shape, "1", CK_MAX_DIMS, "]}]}]}", NULL);
	repeated_is(shape, "1", CK_MAX_DIMS + 1, "]}]}]}",
		    "more than 64 dimensions");
	if (TAP_SLOW && !tap_is_long())
		return;
	large_is(CK_SIDECAR_PARAMS + 1, "more than 1000000 parameters");
	repeated_is(optimizers, "[\"a\"]", CK_SIDECAR_PARAMS, "]}", NULL);
	repeated_is(optimizers, "[\"a\",\"a\"]", CK_SIDECAR_PARAMS, "]}",
		    "more than 1000000 names");
}

static void test_bytes(void)
{
	char *text = malloc(CK_SIDECAR_MOST + 1UL);
	struct ck_sidecar s;
	struct ck_diag d = { 0 };

	ok(text);
	if (!text)
		return;
	memset(text, ' ', CK_SIDECAR_MOST + 1UL);
	memcpy(text, UNITS(""), sizeof(UNITS("")) - 1);
	eq_err(ck_sidecar_read(&s, (struct ck_str){ text, CK_SIDECAR_MOST },
			       &d),
	       0);
	ck_sidecar_fini(&s);
	eq_err(ck_sidecar_read(&s, (struct ck_str){ text, CK_SIDECAR_MOST + 1 },
			       &d),
	       -EBADMSG);
	eq_text(d.text, "100000001 bytes; at most 100000000 are read");
	ck_sidecar_fini(&s);
	free(text);
}

int main(void)
{
	struct ck_sidecar s;

	test_texts();
	eq_err(ck_sidecar_read(&s, CK_STR(contract), NULL), 0);
	test_values(&s);
	test_states(&s);
	test_entries(&s);
	test_fits(&s);
	ck_sidecar_fini(&s);
	test_none();
	test_limits();
	test_bytes();
	return tap_done();
}
