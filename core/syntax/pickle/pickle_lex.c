/* SPDX-License-Identifier: MIT */
/*
 * pickle_lex: pass one over a pickle. Finds the end of each opcode and of the
 * pickle, and the memo slots that a GET refers to. A .metadata of a million
 * chunks fills sixteen million slots and fetches a thousand of them; pass two
 * keeps only those. The state is a struct ck_lex of the caller; one thread at a
 * time.
 */
#include "ckptfs/memory.h"
#include "pickle_internal.h"

#include <errno.h>

/* Kinds of argument; 1 to 8: that many bytes. */
enum {
	ARG_BAD = 0, /* unknown, or never written by torch */
	ARG_NONE = 16,
	ARG_LINE, /* text up to a newline */
	ARG_2_LINES,
	ARG_GET_LINE,
	ARG_LEN1,  /* u8 length, bytes */
	ARG_LEN4,  /* u32 length, bytes */
	ARG_SLEN4, /* i32 length >= 0, bytes */
	ARG_LEN8,  /* u64 length, bytes */
	ARG_GET1,
	ARG_GET4,
	ARG_FRAME,
	ARG_STOP,
};

static const uint8_t args[256] = {
	[OP_MARK] = ARG_NONE,
	[OP_STOP] = ARG_STOP,
	[OP_POP] = ARG_NONE,
	[OP_POP_MARK] = ARG_NONE,
	[OP_DUP] = ARG_NONE,
	[OP_FLOAT] = ARG_LINE,
	[OP_INT] = ARG_LINE,
	[OP_BININT] = 4,
	[OP_BININT1] = 1,
	[OP_LONG] = ARG_LINE,
	[OP_BININT2] = 2,
	[OP_NONE] = ARG_NONE,
	[OP_BINPERSID] = ARG_NONE,
	[OP_REDUCE] = ARG_NONE,
	[OP_STRING] = ARG_LINE,
	[OP_BINSTRING] = ARG_SLEN4,
	[OP_SHORT_BINSTRING] = ARG_LEN1,
	[OP_UNICODE] = ARG_LINE,
	[OP_BINUNICODE] = ARG_LEN4,
	[OP_APPEND] = ARG_NONE,
	[OP_BUILD] = ARG_NONE,
	[OP_GLOBAL] = ARG_2_LINES,
	[OP_DICT] = ARG_NONE,
	[OP_EMPTY_DICT] = ARG_NONE,
	[OP_APPENDS] = ARG_NONE,
	[OP_GET] = ARG_GET_LINE,
	[OP_BINGET] = ARG_GET1,
	[OP_INST] = ARG_2_LINES,
	[OP_LONG_BINGET] = ARG_GET4,
	[OP_LIST] = ARG_NONE,
	[OP_EMPTY_LIST] = ARG_NONE,
	[OP_OBJ] = ARG_NONE,
	[OP_PUT] = ARG_LINE,
	[OP_BINPUT] = 1,
	[OP_LONG_BINPUT] = 4,
	[OP_SETITEM] = ARG_NONE,
	[OP_TUPLE] = ARG_NONE,
	[OP_EMPTY_TUPLE] = ARG_NONE,
	[OP_SETITEMS] = ARG_NONE,
	[OP_BINFLOAT] = 8,
	[OP_PROTO] = 1,
	[OP_NEWOBJ] = ARG_NONE,
	[OP_TUPLE1] = ARG_NONE,
	[OP_TUPLE2] = ARG_NONE,
	[OP_TUPLE3] = ARG_NONE,
	[OP_NEWTRUE] = ARG_NONE,
	[OP_NEWFALSE] = ARG_NONE,
	[OP_LONG1] = ARG_LEN1,
	[OP_LONG4] = ARG_SLEN4,
	[OP_SHORT_BINUNICODE] = ARG_LEN1,
	[OP_BINUNICODE8] = ARG_LEN8,
	[OP_BINBYTES8] = ARG_LEN8,
	[OP_EMPTY_SET] = ARG_NONE,
	[OP_ADDITEMS] = ARG_NONE,
	[OP_FROZENSET] = ARG_NONE,
	[OP_NEWOBJ_EX] = ARG_NONE,
	[OP_STACK_GLOBAL] = ARG_NONE,
	[OP_MEMOIZE] = ARG_NONE,
	[OP_FRAME] = ARG_FRAME,
	[OP_BYTEARRAY8] = ARG_LEN8,
	[OP_BINBYTES] = ARG_LEN4,
	[OP_SHORT_BINBYTES] = ARG_LEN1,
};

static int bad(struct ck_diag *d, uint64_t pos, const char *what)
{
	return ck_fail(d, EBADMSG, "pickle: byte %llu: %s",
		       (unsigned long long)pos, what);
}

bool ck_lex_index(struct ck_str digits, uint64_t *out)
{
	uint64_t value = 0;

	if (digits.len == 0 || digits.len > 18)
		return false;
	for (size_t i = 0; i < digits.len; i++) {
		if (digits.p[i] < '0' || digits.p[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(digits.p[i] - '0');
	}
	*out = value;
	return true;
}

/* A pickler numbers slots one by one, so no slot lies beyond the length of
 * its output; small sparse numbers are allowed. */
static bool fetch(struct ck_lex *lex, uint64_t slot)
{
	if (!lex->nwords) /* slots are not collected */
		return true;
	if (slot / 64 >= lex->nwords)
		return false;
	lex->fetched[slot / 64] |= (uint64_t)1 << slot % 64;
	lex->used = ck_max(lex->used, slot / 64 + 1);
	return true;
}

static bool skip_counted(struct ck_cur *c, unsigned kind)
{
	uint64_t len = 0;
	uint32_t len4;
	uint8_t len1;

	if (kind == ARG_LEN8)
		return ck_cur_u64(c, &len) && ck_cur_skip(c, len);
	if (kind == ARG_LEN1)
		return ck_cur_u8(c, &len1) && ck_cur_skip(c, len1);
	if (!ck_cur_u32(c, &len4))
		return false;
	return (kind == ARG_LEN4 || len4 <= INT32_MAX) && ck_cur_skip(c, len4);
}

static bool skip_get(struct ck_lex *lex, struct ck_cur *c, unsigned kind)
{
	uint32_t slot4;
	uint64_t slot;
	struct ck_str line;

	if (kind == ARG_GET4)
		return ck_cur_u32(c, &slot4) && fetch(lex, slot4);
	return ck_cur_line(c, &line) && ck_lex_index(line, &slot) &&
	       fetch(lex, slot);
}

/* Skips the argument of an opcode that the hot loop does not handle. */
static bool skip_arg(struct ck_lex *lex, struct ck_cur *c, unsigned kind)
{
	struct ck_str line;
	uint64_t frame;

	switch (kind) {
	case ARG_LINE: return ck_cur_line(c, &line);
	case ARG_2_LINES: return ck_cur_line(c, &line) && ck_cur_line(c, &line);
	case ARG_LEN1:
	case ARG_LEN4:
	case ARG_SLEN4:
	case ARG_LEN8: return skip_counted(c, kind);
	case ARG_GET_LINE:
	case ARG_GET4: return skip_get(lex, c, kind);
	case ARG_FRAME: return ck_cur_u64(c, &frame) && frame <= ck_cur_left(c);
	default: return kind >= 1 && kind <= 8 && ck_cur_skip(c, kind);
	}
}

/* Skips an argument of a kind that is frequent in a .metadata. False for
 * another kind, or if the argument reaches past the end. */
static inline bool skip_common(struct ck_cur *c, unsigned kind)
{
	size_t left = (size_t)(c->end - c->p);
	uint64_t len = kind;

	if (kind == ARG_LEN1 && left) {
		len = 1UL + *c->p;
	} else if (kind == ARG_LEN4 && left >= sizeof(uint32_t)) {
		uint32_t len4;

		memcpy(&len4, c->p,
		       sizeof(len4)); /* little-endian hosts only */
		len = sizeof(len4) + (uint64_t)len4;
	} else if (kind == 0 || kind > 8) {
		return false;
	}
	if (len > left)
		return false;
	c->p += len;
	return true;
}

/* Skips opcodes with arguments that are frequent in a .metadata. Stops at
 * another opcode, or near the end. */
static const uint8_t *scan_common(struct ck_lex *lex, const uint8_t *p,
				  const uint8_t *end)
{
	/* The longest of fixed length have 8 bytes. */
	const uint8_t *last = end - p > 8 ? end - 8 : p;
	uint32_t slot4;

	while (p < last) {
		unsigned kind = args[*p];

		if (kind == ARG_NONE) {
			p++;
		} else if (kind >= 1 && kind <= 8) {
			p += 1 + kind;
		} else if (kind == ARG_GET1) {
			(void)fetch(lex, p[1]); /* below 256: always fits */
			p += 2;
		} else if (kind == ARG_GET4) {
			memcpy(&slot4, p + 1,
			       sizeof(slot4)); /* little-endian hosts only */
			if (!fetch(lex, slot4))
				break;
			p += 1 + sizeof(slot4);
		} else if (kind == ARG_LEN1 && end - p >= 2 + p[1]) {
			p += 2 + p[1];
		} else {
			break;
		}
	}
	return p;
}

static int scan(struct ck_lex *lex, const uint8_t *in, size_t len,
		struct ck_diag *d)
{
	static const char cut[] =
		"an argument is bad or reaches past the end: it is cut short or damaged";
	static const char text_id[] =
		"a tensor in pickle protocol 0, which torch.load does not "
		"read either: save again with protocol 2";
	struct ck_cur c = ck_cur_make(in, len);

	for (;;) {
		uint64_t at;
		unsigned kind;

		c.p = scan_common(lex, c.p, c.end);
		if (c.p == c.end)
			break;
		at = (uint64_t)(c.p - in);
		kind = args[*c.p++];
		if (kind == ARG_NONE)
			continue;
		if (kind == ARG_GET1 && c.p < c.end) {
			(void)fetch(lex, *c.p++); /* below 256: always fits */
			continue;
		}
		if (skip_common(&c, kind))
			continue;
		if (kind == ARG_STOP) {
			lex->end = (uint64_t)(c.p - in);
			return 0;
		}
		if (!skip_arg(lex, &c, kind)) {
			lex->end = at;
			return bad(d, at,
				   kind			 ? cut
				   : in[at] == OP_PERSID ? text_id
							 : "unknown opcode");
		}
	}
	lex->end = len;
	return bad(d, len,
		   len ? "ends without STOP: it is cut short"
		       : "it is empty: no STOP");
}

int ck_pickle_length(const void *bytes, size_t len, uint64_t *out)
{
	const uint8_t *in = bytes;
	struct ck_lex lex = { 0 };
	int rc = scan(&lex, in, len, NULL);

	if (rc == 0)
		*out = lex.end;
	else if (rc == -EBADMSG && (lex.end == len || args[in[lex.end]]))
		rc = -ENODATA;
	ck_lex_fini(&lex);
	return rc;
}

/* Shrinks the bitmap to its last word in use and counts its bits. */
static int number_slots(struct ck_lex *lex, struct ck_diag *d)
{
	uint64_t count = 0;

	lex->nwords = lex->used;
	if (!lex->nwords)
		return 0;
	lex->before = malloc(lex->nwords * sizeof(*lex->before));
	if (!lex->before)
		return ck_fail(d, ENOMEM, "pickle: out of memory");
	for (size_t i = 0; i < lex->nwords; i++) {
		lex->before[i] = (uint32_t)count;
		count += ck_lex_bits(lex->fetched[i]);
	}
	if (count > UINT32_MAX)
		return bad(d, 0, "more than 4 billion memo slots");
	lex->nfetched = (uint32_t)count;
	return 0;
}

/* For a short pickle, whole pages would cost more than the pass. */
enum { BITMAP_OF_PAGES = 1 << 16 }; /* bytes */

static void *bitmap_make(size_t bytes)
{
	return bytes < BITMAP_OF_PAGES ? calloc(1, bytes)
				       : ck_pages_alloc(bytes);
}

static void bitmap_free(void *bitmap, size_t bytes)
{
	if (bytes < BITMAP_OF_PAGES)
		free(bitmap);
	else
		ck_pages_free(bitmap, bytes);
}

int ck_lex_run(struct ck_lex *lex, const uint8_t *in, size_t len,
	       struct ck_diag *d)
{
	int rc;

	*lex = (struct ck_lex){ 0 };
	lex->nwords = ck_max(len, 1 << 16) / 64 + 1;
	lex->bitmap_bytes = lex->nwords * sizeof(*lex->fetched);
	lex->fetched = bitmap_make(lex->bitmap_bytes);
	if (!lex->fetched)
		return ck_fail(d, ENOMEM, "pickle: out of memory");
	rc = scan(lex, in, len, d);
	return rc ? rc : number_slots(lex, d);
}

/* --- one more pass: where BUILDs and frames are ----------------------------- */

/* Additional kinds of ck_pickle_walk(), which ignores the memo. */
enum { ARG_MARK = ARG_STOP + 1, ARG_BUILD };

struct walk {
	struct ck_cur c;
	uint8_t kinds[256]; /* of opcodes */
	const uint8_t *in;
	struct ck_pickle_build *next, *end; /* requested, not yet found */
	uint32_t builds;		    /* BUILDs so far */
	uint64_t mark;			    /* the last one */
	bool marked;			    /* there was one */
	struct ck_pickle_frames *frames;
	struct ck_diag *d;
};

static void walk_build(struct walk *w, uint64_t at)
{
	if (w->next == w->end || ++w->builds != w->next->number)
		return;
	w->next->at = at;
	w->next->mark = w->marked ? w->mark : at;
	w->next++;
}

static int walk_frame(struct walk *w, uint64_t at)
{
	struct ck_pickle_frames *f = w->frames;
	struct ck_cur c = w->c;
	uint64_t len;
	void *room;

	if (!ck_cur_u64(&c, &len))
		return 0; /* skip_arg() fails then */
	room = ck_grow(f->rows, &f->cap, f->n, 1, sizeof(*f->rows));
	if (!room)
		return ck_fail(w->d, ENOMEM, "pickle: out of memory");
	f->rows = room;
	f->rows[f->n++] = (struct ck_pickle_frame){ at, len };
	return 0;
}

static void walk_mark(struct walk *w, uint64_t at)
{
	w->mark = at;
	w->marked = true;
}

static int walk_arg(struct walk *w, uint64_t at, unsigned kind)
{
	int rc = 0;

	switch (kind) {
	case ARG_MARK: walk_mark(w, at); return 0;
	case ARG_BUILD: walk_build(w, at); return 0;
	case ARG_FRAME: rc = walk_frame(w, at); break;
	default: break;
	}
	if (rc == 0 && !skip_arg(NULL, &w->c, kind))
		rc = bad(w->d, at, "an argument is bad");
	return rc;
}

static int walk_end(struct walk *w)
{
	uint64_t at = (uint64_t)(w->c.p - w->in);

	if (w->c.p != w->c.end)
		return bad(w->d, at, "bytes after its end");
	return w->next == w->end ? 0 : bad(w->d, at, "a BUILD is missing");
}

static int walk(struct walk *w)
{
	while (w->c.p < w->c.end) {
		uint64_t at = (uint64_t)(w->c.p - w->in);
		unsigned kind = w->kinds[*w->c.p++];
		int rc;

		if (kind == ARG_NONE || skip_common(&w->c, kind))
			continue;
		if (kind == ARG_STOP)
			return walk_end(w);
		rc = walk_arg(w, at, kind);
		if (rc)
			return rc;
	}
	return bad(w->d, (uint64_t)(w->c.p - w->in), "ends without STOP");
}

static void walk_kinds(struct walk *w)
{
	memcpy(w->kinds, args, sizeof(args));
	w->kinds[OP_MARK] = ARG_MARK;
	w->kinds[OP_BUILD] = ARG_BUILD;
	w->kinds[OP_GET] = ARG_LINE;
	w->kinds[OP_BINGET] = 1;
	w->kinds[OP_LONG_BINGET] = 4;
}

int ck_pickle_walk(struct ck_str bytes, struct ck_pickle_build *builds,
		   size_t n, struct ck_pickle_frames *frames, struct ck_diag *d)
{
	struct walk w = {
		.c = ck_cur_make(bytes.p, bytes.len),
		.in = (const uint8_t *)bytes.p,
		.next = builds,
		.end = n ? builds + n : builds,
		.frames = frames,
		.d = d,
	};

	*frames = (struct ck_pickle_frames){ 0 };
	walk_kinds(&w);
	return walk(&w);
}

void ck_lex_fini(struct ck_lex *lex)
{
	bitmap_free(lex->fetched, lex->bitmap_bytes);
	free(lex->before);
	*lex = (struct ck_lex){ 0 };
}
