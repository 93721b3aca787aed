/* SPDX-License-Identifier: MIT */
/*
 * pickle_packed: a tensor that SETITEMS adds to a dict is packed, and one that DICT puts
 * there is not. Both dicts must be equal, as JSON and as a pickle that is written again.
 * Tensors that later opcodes can reach, or of another form, are not packed.
 */
#include "ckptfs/value.h"
#include "syntax/pickle/pickler.h"
#include "tap.h"

#include <stdio.h>

#define ID                                                                     \
	"X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"                      \
	"7X\3\0\0\0cpuK\4"
#define STORAGE "(" ID "tQ"
#define ORDERED "ccollections\nOrderedDict\n"
#define HOOKS	ORDERED ")R"
#define V2	"ctorch._utils\n_rebuild_tensor_v2\n"
#define DIMS	"K\4\x85K\1\x85"
#define TENSOR	V2 "(" STORAGE "K\0" DIMS "\x89" HOOKS "tR"
#define A	"X\1\0\0\0a"
#define B	"X\1\0\0\0b"
#define NINE	"(K\1K\1K\1K\1K\1K\1K\1K\1K\1t"

struct form {
	const char *what;
	struct ck_str items;
	bool packed;   /* the first item of the dict */
	bool has_json; /* otherwise it is malformed as JSON in both dicts */
};

#define FORM(what, items, packed, has_json)                                    \
	{                                                                      \
		what, { items, sizeof(items) - 1 }, packed, has_json           \
	}

static const struct form forms[] = {
	FORM("a tensor", A TENSOR, true, true),
	FORM("two", A TENSOR B TENSOR, true, true),
	FORM("no dimension", A V2 "(" STORAGE "K\0))\x88" HOOKS "tR", true,
	     true),
	FORM("two dimensions",
	     A V2 "(" STORAGE "J\0\0\0\x80K\2K\3\x86K\1K\2\x86\x88" HOOKS "tR",
	     true, true),
	FORM("negative sizes",
	     A V2 "(" STORAGE "K\0J\xff\xff\xff\xff\x85K\1\x85\x89" HOOKS "tR",
	     true, false),
	FORM("eight dimensions",
	     A V2 "(" STORAGE "K\0(K\1K\1K\1K\1K\1K\1K\1K\1t" NINE "\x89" HOOKS
		  "tR",
	     false, true),
	FORM("nine dimensions",
	     A V2 "(" STORAGE "K\0" NINE NINE "\x89" HOOKS "tR", false, true),
	FORM("other hooks",
	     A V2 "(" STORAGE "K\0" DIMS "\x89"
		  "cm\nF\n)RtR",
	     true, true),
	FORM("in a list", A "](" TENSOR TENSOR "e", false, true),
	FORM("a storage before 1.6",
	     A V2 "((" ID "NtQK\0" DIMS "\x89" HOOKS "tR", true, false),
	FORM("a view of a storage before 1.6",
	     A V2 "((" ID "K\1tQK\0" DIMS "\x89" HOOKS "tR", false, false),
	/* another reference to a part of it */
	FORM("the tensor again", A TENSOR "q\1" B "h\1", false, true),
	FORM("the arguments again",
	     A V2 "(" STORAGE "K\0" DIMS "\x89" HOOKS "tq\1R" B "h\1", false,
	     true),
	FORM("the storage again",
	     A V2 "((" ID "tQq\1K\0" DIMS "\x89" HOOKS "tR" B "h\1", false,
	     true),
	FORM("the persistent id again",
	     A V2 "((" ID "tq\1QK\0" DIMS "\x89" HOOKS "tR" B "h\1", false,
	     true),
	FORM("the size again",
	     A V2 "(" STORAGE "K\0K\4\x85q\1K\1\x85\x89" HOOKS "tR" B "h\1",
	     false, true),
	FORM("the hooks again",
	     A V2 "(" STORAGE "K\0" DIMS "\x89" HOOKS "q\1tR" B "h\1", false,
	     true),
	/* other forms */
	FORM("a hook", A V2 "(" STORAGE "K\0" DIMS "\x89" HOOKS "K\1K\2stR",
	     false, true),
	FORM("hooks in a dict", A V2 "(" STORAGE "K\0" DIMS "\x89}tR", false,
	     true),
	FORM("hooks with an argument",
	     A V2 "(" STORAGE "K\0" DIMS "\x89" ORDERED "]\x85RtR", false,
	     true),
	FORM("a state", A TENSOR "}" B "K\1sb", false, true),
	FORM("a size of torch.Size",
	     A V2 "(" STORAGE "K\0ctorch\nSize\nK\4\x85\x85RK\1\x85\x89" HOOKS
		  "tR",
	     false, true),
	FORM("bits", A V2 "(" STORAGE "K\0" DIMS "\x89" HOOKS "}tR", false,
	     true),
	FORM("five arguments", A V2 "(" STORAGE "K\0" DIMS "\x89tR", false,
	     true),
	FORM("no storage", A V2 "(NK\0" DIMS "\x89" HOOKS "tR", false, false),
	FORM("a wide number of elements",
	     A V2 "((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"
		  "7X\3\0\0\0cpu\x8a\x09\1\0\0\0\0\0\0\0\1tQK\0" DIMS
		  "\x89" HOOKS "tR",
	     false, false),
};

/* Reads a dict of items; packs: its tensors are added by SETITEMS. */
static void dict_read(struct ck_pickle *p, struct ck_str items, bool packs,
		      struct ck_buf *b)
{
	ck_buf_text(b, packs ? "\x80\2}(" : "\x80\2(");
	ck_buf_str(b, items);
	ck_buf_text(b, packs ? "u." : "d.");
	eq_err(ck_pickle_read(p, b->data, b->len, NULL, NULL), 0);
}

static void show(struct ck_pickle *p, bool has_json, struct ck_buf *out)
{
	struct ck_pickler w = { .out = out };
	struct ck_diag d = { 0 };
	int rc = ck_pickle_json(p, 4096, out, &d);

	eq_err(rc, has_json ? 0 : -EBADMSG);
	ck_buf_text(out, d.text);
	d.text[0] = '\0';
	ck_pickler_begin(&w);
	if (ck_pickler_value(&w, p, &p->root, NULL, 1 << 20, &d))
		ck_buf_text(out, d.text);
	ck_pickler_end(&w);
}

static void form_check(const struct form *f)
{
	struct ck_buf bytes[2] = { 0 }, shown[2] = { 0 };
	struct ck_pickle p;

	printf("# %s\n", f->what);
	for (int i = 0; i < 2; i++) {
		dict_read(&p, f->items, i == 1, &bytes[i]);
		ok((p.root.list->items[1].tag == CK_PV_PACKED) ==
		   (i == 1 && f->packed));
		show(&p, f->has_json, &shown[i]);
		ck_pickle_fini(&p);
	}
	eq_mem(shown[1].data, shown[1].len, shown[0].data, shown[0].len);
	for (int i = 0; i < 2; i++) {
		ck_buf_fini(&bytes[i]);
		ck_buf_fini(&shown[i]);
	}
}

static void test_forms(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(forms); i++)
		form_check(&forms[i]);
}

/* Reads a tensor in a dict in n lists. */
static int nested_read(unsigned n, const char *head, const char *tail)
{
	const struct ck_str tensor = CK_STR(A TENSOR);
	struct ck_buf b = { 0 };
	struct ck_pickle p;
	int rc;

	for (unsigned i = 0; i < n; i++)
		ck_buf_text(&b, "]");
	ck_buf_text(&b, head);
	ck_buf_str(&b, tensor);
	ck_buf_text(&b, tail);
	for (unsigned i = 0; i < n; i++)
		ck_buf_text(&b, "a");
	ck_buf_text(&b, ".");
	rc = ck_pickle_read(&p, b.data, b.len, NULL, NULL);
	if (rc == 0)
		ck_pickle_fini(&p);
	ck_buf_fini(&b);
	return rc;
}

/* A packed tensor counts as deep as it is. */
static void test_depth(void)
{
	for (unsigned n = 248; n < 254; n++) {
		int rc = nested_read(n, "(", "d");

		eq_err(rc, n < 252 ? 0 : -EBADMSG);
		eq_err(nested_read(n, "}(", "u"), rc);
	}
}

/* A tensor takes less than half of its nodes: with its slots in the dict, and the names of
 * its globals. */
static void test_memory(void)
{
	const unsigned n = 20000;
	const struct ck_str tensor = CK_STR(A TENSOR);
	struct ck_buf b = { 0 };
	struct ck_pickle p;

	ck_buf_text(&b, "}");
	for (unsigned i = 0; i < n; i++) {
		ck_buf_str(&b, tensor);
		ck_buf_text(&b, "s");
	}
	ck_buf_text(&b, ".");
	eq_err(ck_pickle_read(&p, b.data, b.len, NULL, NULL), 0);
	eq_u64(p.root.list->count, 2 * n);
	ok(ck_pickle_memory(&p) < 300UL * n);
	ck_pickle_fini(&p);
	ck_buf_fini(&b);
}

int main(void)
{
	test_forms();
	test_depth();
	test_memory();
	return tap_done();
}
