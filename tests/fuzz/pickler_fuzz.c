/* SPDX-License-Identifier: MIT */
/*
 * pickler: any bytes as a pickle whose value is written as protocol 2. It is refused, or the
 * output has no FRAME opcode and is read as a value with the same JSON. From the second time on,
 * writing the value again gives the same bytes. The restricted output names classes of PyTorch and
 * a few of Python alone.
 */
#include "ckptfs/value.h"
#include "must.h"
#include "syntax/pickle/pickler.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Sets, bytes and keyword arguments take more levels in protocol 2. */
static bool is_deeper(const struct ck_diag *d)
{
	return strstr(d->text, "deep") != NULL;
}

static bool write_again(const struct ck_pickle *from, size_t size,
			struct ck_buf *out)
{
	struct ck_pickler p = { .out = out };
	struct ck_diag d = { 0 };
	int rc;

	ck_pickler_begin(&p);
	rc = ck_pickler_value(&p, from, &from->root, NULL,
			      (1 << 20) + 64 * size, &d);
	ck_pickler_end(&p);
	must(rc == 0 || (rc == -EBADMSG && *d.text));
	must(out->len < (2 << 20) + 200 * size);
	return rc == 0;
}

/* The opcodes of the output include no FRAME. */
static void has_no_frames(const struct ck_buf *b)
{
	struct ck_pickle_frames frames = { 0 };
	struct ck_str all = { b->data, b->len };

	must(b->len > 2 && (uint8_t)b->data[0] == 0x80 && b->data[1] == 2);
	must(ck_pickle_walk(all, NULL, 0, &frames, NULL) == 0);
	must(frames.n == 0);
	free(frames.rows);
}

static void json_is_same(const struct ck_pickle *a, size_t a_len,
			 const struct ck_pickle *b, size_t b_len)
{
	struct ck_buf want = { 0 }, got = { 0 };
	struct ck_diag d = { 0 };

	if (ck_pickle_json(a, a_len, &want, NULL) == 0) {
		must(ck_pickle_json(b, b_len, &got, &d) == 0);
		must(got.len == want.len &&
		     memcmp(got.data, want.data, got.len) == 0);
	}
	ck_buf_fini(&want);
	ck_buf_fini(&got);
}

/* Reads the written pickle, compares its JSON, and writes it once more. */
static bool look_again(const struct ck_pickle *from, size_t size,
		       const struct ck_buf *written, struct ck_buf *next)
{
	struct ck_pickle p = { 0 };
	struct ck_diag d = { 0 };
	int rc = ck_pickle_read(&p, written->data, written->len, NULL, &d);

	if (rc) {
		must(is_deeper(&d));
		return false;
	}
	must(p.end == written->len);
	json_is_same(from, size, &p, written->len);
	must(write_again(&p, written->len, next));
	ck_pickle_fini(&p);
	return true;
}

static void settles(const struct ck_pickle *from, size_t size,
		    const struct ck_buf *once)
{
	struct ck_buf twice = { 0 }, thrice = { 0 };

	if (look_again(from, size, once, &twice) &&
	    look_again(from, size, &twice, &thrice))
		must(thrice.len == twice.len &&
		     memcmp(thrice.data, twice.data, twice.len) == 0);
	ck_buf_fini(&twice);
	ck_buf_fini(&thrice);
}

/* True for classes and functions that no rule of the restricted pickler refuses. */
static bool is_accepted(struct ck_str name)
{
	static const char *const others[] = {
		"collections.OrderedDict", "collections.Counter",
		"_codecs.encode",	   "builtins.set",
		"builtins.bytearray",	   "builtins.complex",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(others); i++)
		if (ck_str_is(name, others[i]))
			return true;
	return ck_str_starts(name, CK_STR("torch.")) &&
	       !ck_str_starts(name, CK_STR("torch.load")) &&
	       !ck_str_starts(name, CK_STR("torch.hub"));
}

static void restricted_look(const struct ck_pickle *from, size_t size,
			    bool tensors)
{
	struct ck_buf out = { 0 };
	struct ck_pickler p = { .out = &out,
				.restricted = true,
				.tensors = tensors };
	struct ck_pickle again = { 0 };

	ck_pickler_begin(&p);
	if (ck_pickler_value(&p, from, &from->root, NULL, (1 << 20) + 64 * size,
			     NULL) == 0) {
		ck_pickler_end(&p);
		if (ck_pickle_read(&again, out.data, out.len, NULL, NULL) == 0)
			for (uint32_t i = 0; i < again.nglobals; i++) {
				const struct ck_pv v = { .tag = CK_PV_GLOBAL,
							 .i = i };

				must(is_accepted(ck_pickle_global(&again, &v)));
			}
		ck_pickle_fini(&again);
	}
	ck_buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_pickle p = { 0 };
	struct ck_buf out = { 0 };

	if (ck_pickle_read(&p, data, size, NULL, NULL) == 0 &&
	    write_again(&p, size, &out)) {
		has_no_frames(&out);
		settles(&p, size, &out);
		restricted_look(&p, size, false);
		restricted_look(&p, size, true);
	}
	ck_pickle_fini(&p);
	ck_buf_fini(&out);
	return 0;
}
