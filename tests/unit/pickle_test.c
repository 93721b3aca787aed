/* SPDX-License-Identifier: MIT */
/* Pickles of every protocol read as data; malformed and dangerous ones
 * refused; memory and depth bounded whatever the input. */
#include "ckptfs/pickle.h"
#include "pickle_cases.h"
#include "tap.h"

static void show(const struct ck_pickle *p, const struct ck_pv *v,
		 struct ck_buf *b);

static void show_list(const struct ck_pickle *p, const struct ck_plist *list,
		      const char *brackets, struct ck_buf *b)
{
	ck_buf_add(b, brackets, 1);
	for (uint32_t i = 0; i < list->count; i++) {
		const char *sep = *brackets == '{' && i % 2 ? ":" : ",";

		if (i)
			ck_buf_text(b, sep);
		show(p, &list->items[i], b);
	}
	ck_buf_add(b, brackets + 1, 1);
}

static void show_ints(const struct ck_pv *v, struct ck_buf *b)
{
	ck_buf_text(b, v->aux ? "Size(" : "(");
	for (uint32_t i = 0; i < v->len; i++)
		ck_buf_printf(b, i ? ",%" PRId64 : "%" PRId64, v->ints[i]);
	ck_buf_text(b, ")");
}

static void show_hex(const char *before, const struct ck_pv *v,
		     const char *after, struct ck_buf *b)
{
	ck_buf_text(b, before);
	for (uint32_t i = 0; i < v->len; i++)
		ck_buf_printf(b, "%02x", (unsigned)(uint8_t)v->bytes[i]);
	ck_buf_text(b, after);
}

static void show_call(const struct ck_pickle *p, const struct ck_pv *v,
		      struct ck_buf *b)
{
	const struct ck_pcall *call = v->call;

	ck_buf_text(b, v->tag == CK_PV_CALL ? "C(" : "N(");
	ck_buf_str(b, ck_pickle_global(p, &call->callable));
	ck_buf_text(b, ",");
	show(p, &call->args, b);
	ck_buf_text(b, ")");
	if (call->list.count)
		show_list(p, &call->list, "[]", b);
	if (call->items.count)
		show_list(p, &call->items, "{}", b);
	if (call->has_state) {
		ck_buf_text(b, "|");
		show(p, &call->state, b);
	}
}

static void show_packed(const struct ck_pickle *p, const struct ck_pv *v,
			struct ck_buf *b)
{
	struct ck_pv_room room;
	const struct ck_pv whole = ck_pv_unpack(v, &room);

	show_call(p, &whole, b);
}

static void show(const struct ck_pickle *p, const struct ck_pv *v,
		 struct ck_buf *b)
{
	switch ((enum ck_pv_tag)v->tag) {
	case CK_PV_NONE: ck_buf_text(b, "None"); break;
	case CK_PV_BOOL: ck_buf_text(b, v->i ? "True" : "False"); break;
	case CK_PV_INT: ck_buf_printf(b, "%" PRId64, v->i); break;
	case CK_PV_BIGINT: show_hex("big:", v, "", b); break;
	case CK_PV_FLOAT: ck_buf_printf(b, "f:%.17g", v->f); break;
	case CK_PV_STR: show_hex("'", v, "'", b); break;
	case CK_PV_BYTES:
	case CK_PV_BYTEARRAY: show_hex("b'", v, "'", b); break;
	case CK_PV_INTS: show_ints(v, b); break;
	case CK_PV_TUPLE: show_list(p, v->list, "()", b); break;
	case CK_PV_LIST: show_list(p, v->list, "[]", b); break;
	case CK_PV_SET:
		ck_buf_text(b, "set");
		show_list(p, v->list, "[]", b);
		break;
	case CK_PV_FROZENSET:
		ck_buf_text(b, "frozenset");
		show_list(p, v->list, "[]", b);
		break;
	case CK_PV_DICT: show_list(p, v->list, "{}", b); break;
	case CK_PV_GLOBAL:
		ck_buf_text(b, "G(");
		ck_buf_str(b, ck_pickle_global(p, v));
		ck_buf_text(b, ")");
		break;
	case CK_PV_CALL:
	case CK_PV_NEW: show_call(p, v, b); break;
	case CK_PV_PERSID:
		ck_buf_text(b, "P");
		show_list(p, v->list, "()", b);
		break;
	case CK_PV_EXT: ck_buf_printf(b, "X%u", v->aux); break;
	case CK_PV_PACKED: show_packed(p, v, b); break;
	}
}

static void test_good(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(good_pickles); i++) {
		struct ck_pickle p;
		struct ck_diag d = { 0 };
		struct ck_buf b = { 0 };
		int rc = ck_pickle_read(&p, good_pickles[i].bytes,
					good_pickles[i].len, NULL, &d);

		eq_err(rc, 0);
		printf("# %s %s\n", good_pickles[i].name, d.text);
		if (rc)
			continue;
		eq_u64(p.end, good_pickles[i].len);
		show(&p, &p.root, &b);
		eq_text(b.data, good_pickles[i].shown);
		ck_buf_fini(&b);
		ck_pickle_fini(&p);
	}
}

static void test_bad(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(bad_pickles); i++) {
		struct ck_pickle p;
		struct ck_diag d = { 0 };

		eq_err(ck_pickle_read(&p, bad_pickles[i].bytes,
				      bad_pickles[i].len, NULL, &d),
		       -EBADMSG);
		printf("# %s: %s\n", bad_pickles[i].name, d.text);
		ok(d.err == EBADMSG && d.text[0]);
		if (strncmp(bad_pickles[i].name, "dangerous", 9) == 0)
			ok(strstr(d.text, "dangerous global") != NULL);
	}
}

static void test_every_truncation_is_refused(void)
{
	size_t accepted = 0;

	for (size_t i = 0; i < CK_ARRAY_SIZE(good_pickles); i++)
		for (size_t len = 0; len < good_pickles[i].len; len++) {
			char *copy = malloc(len + 1);
			struct ck_pickle p;

			memcpy(copy, good_pickles[i].bytes, len);
			accepted += ck_pickle_read(&p, copy, len, NULL, NULL) !=
				    -EBADMSG;
			free(copy);
		}
	eq_u64(accepted, 0);
}

/* A pickle of n times `piece` between head and tail. */
static int read_repeated(const char *head, const char *piece, size_t n,
			 const char *tail, size_t *used)
{
	struct ck_buf b = { 0 };
	struct ck_pickle p;
	int rc;

	ck_buf_text(&b, head);
	for (size_t i = 0; i < n; i++)
		ck_buf_text(&b, piece);
	ck_buf_text(&b, tail);
	rc = ck_pickle_read(&p, b.data, b.len, NULL, NULL);
	*used = rc ? 0 : p.arena.total;
	if (rc == 0)
		ck_pickle_fini(&p);
	ck_buf_fini(&b);
	return rc;
}

static void test_bombs(void)
{
	size_t used;

	/* each tuple holds the one before twice: 2^100000 leaves */
	eq_err(read_repeated("N", "2\x86", 100000, ".", &used), -EBADMSG);
	eq_err(read_repeated("N", "2\x86", 200, ".", &used), 0);
	eq_err(read_repeated("(", "N2", 2000000, "l.", &used), 0);
	eq_err(read_repeated("(", "}q\x05", 4000000, "l.", &used), 0);
	ok(used < (64 << 20) + 40 * 3 * 4000000UL);
	eq_err(read_repeated("(", ")2\x81", 4000000, "l.", &used), -EBADMSG);
	eq_err(read_repeated("", "(", 1000000, "N.", &used), -EBADMSG);
	eq_err(read_repeated("", "]", 300, "N.", &used), -EBADMSG);
	/* a list in itself is legal */
	eq_err(read_repeated("]q\x01",
			     "h\x01"
			     "a",
			     1, ".", &used),
	       0);
}

/* Short pickles have a bitmap of slots in the heap, long ones one of pages. */
static void test_slots(void)
{
	size_t used;

	eq_err(read_repeated("Np65535\n0g65535\n.", "", 0, "", &used), 0);
	eq_err(read_repeated("Np65599\n0g65599\n.", "", 0, "", &used), 0);
	eq_err(read_repeated("Np65600\n0g65600\n.", "", 0, "", &used),
	       -EBADMSG);
	eq_err(read_repeated("Np0\np2000000\n0", "N0", 1000000,
			     "g0\n0g2000000\n.", &used),
	       0);
	eq_err(read_repeated("Np1999\n0", "N0", 1000000, "g2000\n.", &used),
	       -EBADMSG);
}

static int take(void *ctx, struct ck_pickle *p, const struct ck_pcall *call,
		const struct ck_pv *state, struct ck_pv *out, struct ck_diag *d)
{
	struct ck_pv a;

	(void)d;
	if (!ck_pv_is_global(p, &call->callable, "m.C") ||
	    !ck_pv_get(state, "a", &a))
		return 0;
	*(int *)ctx += 1;
	*out = (struct ck_pv){ .tag = CK_PV_EXT, .aux = 7 };
	return 1;
}

/* Objects that a hook takes leave nothing behind but a list. */
static void test_hooks_keep_memory_flat(void)
{
	static const char head[] = "\x80\x02"
				   "cm\nC\nq\x01"
				   "0(";
	static const char object[] = "h\x01)\x81}(X\x01\0\0\0aK\x01K\x02\x86ub";
	int taken = 0;
	struct ck_pickle_hooks hooks = { .ctx = &taken, .build = take };
	struct ck_buf b = { 0 };
	struct ck_pickle p;

	ck_buf_add(&b, head, sizeof(head) - 1);
	for (int i = 0; i < 100000; i++)
		ck_buf_add(&b, object, sizeof(object) - 1);
	ck_buf_add(&b, "l.", 2);
	eq_err(ck_pickle_read(&p, b.data, b.len, &hooks, NULL), 0);
	eq_i64(taken, 100000);
	ok(p.arena.total < 100000);
	ck_pickle_fini(&p);
	ck_buf_fini(&b);
}

/* The first object's list lay on the heap and was freed once more for the
 * object that got its node. */
static void test_taken_objects_with_many_items(void)
{
	static const char begin[] = "\x80\x02("
				    "cm\nC\n)\x81(";
	static const char again[] = "cm\nC\n)\x81(";
	static const char end[] = "e}(X\x01\0\0\0aNub";
	int taken = 0;
	struct ck_pickle_hooks hooks = { .ctx = &taken, .build = take };
	struct ck_buf b = { 0 };
	struct ck_pickle p;

	for (int i = 0; i < 4; i++) {
		if (i == 0)
			ck_buf_add(&b, begin, sizeof(begin) - 1);
		else
			ck_buf_add(&b, again, sizeof(again) - 1);
		for (int k = 0; k < 5000; k++)
			ck_buf_text(&b, "N");
		ck_buf_add(&b, end, sizeof(end) - 1);
	}
	ck_buf_text(&b, "l.");
	eq_err(ck_pickle_read(&p, b.data, b.len, &hooks, NULL), 0);
	eq_i64(taken, 4);
	ck_pickle_fini(&p);
	ck_buf_fini(&b);
}

static int read_text(const char *bytes, size_t len, struct ck_pickle *p)
{
	return ck_pickle_read(p, bytes, len, NULL, NULL);
}

#define READ(bytes, p) read_text(bytes, sizeof(bytes) - 1, p)

/* What Python's reader takes in another way than a careless one. */
static void test_read_as_python_reads(void)
{
	struct ck_pickle p;
	struct ck_pv v;
	int64_t i = 0;

	/* of equal keys the last one counts */
	eq_err(READ("}(X\1\0\0\0aK\1X\1\0\0\0aK\2u.", &p), 0);
	ok(ck_pv_get(&p.root, "a", &v) && ck_pv_int(&v, &i));
	eq_i64(i, 2);
	ck_pickle_fini(&p);
	/* a second state would be added to the first */
	eq_err(READ("cm\nC\n)\x81}b}b.", &p), -EBADMSG);
	/* one getattr is called, the other kept */
	eq_err(READ("(cbuiltins\ngetattr\n2(cm\nC\nX\1\0\0\0atRl.", &p),
	       -EBADMSG);
	/* signed and unsigned numbers of any width */
	eq_err(READ("(L-9223372036854775808L\nL9223372036854775807L\n"
		    "L-9223372036854775809L\nL-18446744073709551616L\nt.",
		    &p),
	       0);
	v = ck_pv_at(&p.root, 0);
	ok(ck_pv_int(&v, &i));
	eq_i64(i, INT64_MIN);
	v = ck_pv_at(&p.root, 1);
	ok(ck_pv_int(&v, &i));
	eq_i64(i, INT64_MAX);
	v = ck_pv_at(&p.root, 2);
	ok(v.tag == CK_PV_BIGINT);
	eq_mem(v.bytes, v.len, "\xff\xff\xff\xff\xff\xff\xff\x7f\xff", 9);
	v = ck_pv_at(&p.root, 3);
	eq_mem(v.bytes, v.len, "\0\0\0\0\0\0\0\0\xff", 9);
	ck_pickle_fini(&p);
}

/* --- stepping over opcodes --------------------------------------------------- */

static int walk(const char *bytes, size_t len, struct ck_pickle_build *builds,
		size_t n)
{
	struct ck_pickle_frames frames;
	int rc = ck_pickle_walk((struct ck_str){ bytes, len }, builds, n,
				&frames, NULL);

	free(frames.rows);
	return rc;
}

/* It ends where reading does, and finds as many BUILDs. */
static void test_walk_as_read(void)
{
	unsigned found = 0;

	for (size_t i = 0; i < CK_ARRAY_SIZE(good_pickles); i++) {
		const char *bytes = good_pickles[i].bytes;
		struct ck_pickle_build last = { 0 };
		struct ck_pickle p;
		size_t missed = 0;

		eq_err(ck_pickle_read(&p, bytes, good_pickles[i].len, NULL,
				      NULL),
		       0);
		eq_err(walk(bytes, p.end, NULL, 0), 0);
		for (size_t len = 0; len < p.end; len++)
			missed += walk(bytes, len, NULL, 0) != -EBADMSG;
		eq_u64(missed, 0);
		last.number = (uint32_t)p.builds + 1;
		eq_err(walk(bytes, p.end, &last, 1), -EBADMSG);
		last.number--;
		if (last.number) {
			found++;
			eq_err(walk(bytes, p.end, &last, 1), 0);
			eq_u64((uint8_t)bytes[last.at], 'b');
		}
		ck_pickle_fini(&p);
	}
	ok(found > 0);
}

static void test_walk_positions(void)
{
	/* a frame of 5 bytes; MARK and BUILD as arguments count for nothing */
	static const char text[] = "\x95\5\0\0\0\0\0\0\0"
				   "NbK(b(Kbb(C\2b(J((bbb.";
	struct ck_pickle_build builds[4] = { { .number = 1 },
					     { .number = 2 },
					     { .number = 3 },
					     { .number = 4 } };
	struct ck_pickle_frames frames;

	eq_err(ck_pickle_walk((struct ck_str){ text, sizeof(text) - 1 }, builds,
			      4, &frames, NULL),
	       0);
	eq_u64(frames.n, 1);
	eq_u64(frames.rows[0].at, 0);
	eq_u64(frames.rows[0].len, 5);
	free(frames.rows);
	eq_u64(builds[0].at, 10);
	eq_u64(builds[0].mark, 10);
	eq_u64(builds[1].at, 13);
	eq_u64(builds[1].mark, 13);
	eq_u64(builds[2].at, 17);
	eq_u64(builds[2].mark, 14);
	eq_u64(builds[3].at, 28);
	eq_u64(builds[3].mark, 18);
	eq_err(walk(text, sizeof(text), NULL, 0), -EBADMSG); /* one more */
	eq_err(walk("N\x97.", 3, NULL, 0), -EBADMSG);	     /* unknown */
	eq_err(walk("\x95\3\0\0\0\0\0\0\0N.", 11, NULL, 0), -EBADMSG);
	builds[1].number = 1; /* not in order */
	eq_err(walk(text, sizeof(text) - 1, builds, 4), -EBADMSG);
}

int main(void)
{
	test_good();
	test_bad();
	test_every_truncation_is_refused();
	test_bombs();
	test_slots();
	test_hooks_keep_memory_flat();
	test_taken_objects_with_many_items();
	test_read_as_python_reads();
	test_walk_as_read();
	test_walk_positions();
	return tap_done();
}
