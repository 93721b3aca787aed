/* SPDX-License-Identifier: MIT */
/*
 * torch_case: pickles of torch.save, made by hand. One is a text of words between spaces:
 *
 *	'a "b           a string; one of Python 2
 *	7 -1 f1.5 N T F numbers, None, True, False
 *	@torch:Size     a global
 *	=3 ?3           into the memo, and from there
 *	$k:Float:6      a storage: key, class less "Storage", elements
 *	+k:6            a float32 tensor of all of such a storage
 *	+k:6:1:2,2:2,1  of its elements from 1 on, size and strides
 *	'a*9            the string, nine times as long; as any word: nine times that
 *	{ [ ( ) pop ... else the opcode; { and [ are EMPTY_DICT and EMPTY_LIST
 */
#ifndef CK_TORCH_CASE_H
#define CK_TORCH_CASE_H

#include "item_writer.h"

struct torch_case {
	struct ck_buf b;
	bool old; /* the container before 1.6 */
};

static inline void tc_text(struct torch_case *c, const char *text)
{
	ck_buf_text(&c->b, "X");
	iw_put(&c->b, strlen(text), 4);
	ck_buf_text(&c->b, text);
}

static inline void tc_int(struct torch_case *c, long long v)
{
	bool four = v >= INT32_MIN && v <= INT32_MAX;

	iw_put(&c->b, four ? 'J' : 0x8a, 1);
	if (!four)
		iw_put(&c->b, 8, 1);
	iw_put(&c->b, (uint64_t)v, four ? 4 : 8);
}

/* Writes `1,2,3` as a tuple, up to a colon. Returns the rest of the text. */
static inline const char *tc_dims(struct torch_case *c, const char *p)
{
	ck_buf_text(&c->b, "(");
	while (*p && *p != ':') {
		char *end;

		tc_int(c, strtoll(p, &end, 10));
		p = *end == ',' ? end + 1 : end;
	}
	ck_buf_text(&c->b, "t");
	return *p == ':' ? p + 1 : p;
}

/* `key:Class:elements` */
static inline void tc_storage(struct torch_case *c, const char *key,
			      const char *class, long long numel)
{
	ck_buf_text(&c->b, "(");
	tc_text(c, "storage");
	ck_buf_printf(&c->b, "c%s\n%sStorage\n",
		      strcmp(class, "Untyped") == 0 ? "torch.storage" : "torch",
		      class);
	tc_text(c, key);
	tc_text(c, "cpu");
	tc_int(c, numel);
	ck_buf_text(&c->b, c->old ? "NtQ" : "tQ");
}

static inline void tc_tensor(struct torch_case *c, const char *word)
{
	char key[64] = "";
	long long numel = 0, offset = 0;
	int at = 0;
	const char *p;

	if (sscanf(word, "%63[^:]:%lld%n:%lld:%n", key, &numel, &at, &offset,
		   &at) < 2)
		abort();
	p = word + at;
	ck_buf_text(&c->b, "ctorch._utils\n_rebuild_tensor_v2\n(");
	tc_storage(c, key, "Float", numel);
	tc_int(c, offset);
	if (*p) {
		p = tc_dims(c, p);
		(void)tc_dims(c, p);
	} else {
		tc_int(c, numel);
		ck_buf_text(&c->b, "\x85");
		tc_int(c, 1);
		ck_buf_text(&c->b, "\x85");
	}
	ck_buf_text(&c->b, "\x89"
			   "ccollections\nOrderedDict\n)RtR");
}

static inline void tc_float(struct torch_case *c, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	bits = __builtin_bswap64(bits);
	ck_buf_text(&c->b, "G");
	iw_put(&c->b, bits, 8);
}

/* `'text*n` */
static inline void tc_long(struct torch_case *c, const char *word)
{
	const char *star = strrchr(word, '*');
	size_t len = star ? (size_t)(star - word) : strlen(word);
	unsigned long n = star ? strtoul(star + 1, NULL, 10) : 1;

	ck_buf_text(&c->b, "X");
	iw_put(&c->b, len * n, 4);
	for (unsigned long i = 0; i < n; i++)
		ck_buf_add(&c->b, word, len);
}

static inline void tc_named(struct torch_case *c, char *word)
{
	char *colon = strrchr(word, ':');

	if (!colon)
		abort();
	if (*word == '$') {
		long long numel = strtoll(colon + 1, NULL, 10);

		*colon = '\0';
		colon = strrchr(word, ':');
		*colon = '\0';
		tc_storage(c, word + 1, colon + 1, numel);
		return;
	}
	*colon = '\0';
	ck_buf_printf(&c->b, "c%s\n%s\n", word + 1, colon + 1);
}

static inline void tc_opcode(struct torch_case *c, const char *word)
{
	if (strcmp(word, "{") == 0)
		ck_buf_text(&c->b, "}");
	else if (strcmp(word, "[") == 0)
		ck_buf_text(&c->b, "]");
	else if (strcmp(word, "T") == 0)
		ck_buf_text(&c->b, "\x88");
	else if (strcmp(word, "F") == 0)
		ck_buf_text(&c->b, "\x89");
	else if (strcmp(word, "pop") == 0)
		ck_buf_text(&c->b, "0");
	else
		ck_buf_text(&c->b, word);
}

static inline void tc_once(struct torch_case *c, char *w)
{
	if (*w == '"') {
		ck_buf_text(&c->b, "U");
		iw_put(&c->b, strlen(w + 1), 1);
		ck_buf_text(&c->b, w + 1);
	} else if ((*w >= '0' && *w <= '9') || *w == '-') {
		tc_int(c, strtoll(w, NULL, 10));
	} else if (*w == 'f') {
		tc_float(c, strtod(w + 1, NULL));
	} else if (*w == '=' || *w == '?') {
		ck_buf_text(&c->b, *w == '=' ? "r" : "j");
		iw_put(&c->b, strtoul(w + 1, NULL, 10), 4);
	} else if (*w == '$' || *w == '@') {
		tc_named(c, w);
	} else if (*w == '+') {
		tc_tensor(c, w + 1);
	} else {
		tc_opcode(c, w);
	}
}

static inline void tc_word(struct torch_case *c, const char *word, size_t len)
{
	char copy[256], *star;
	unsigned long n = 1;

	if (len >= sizeof(copy))
		abort();
	memcpy(copy, word, len);
	copy[len] = '\0';
	if (*copy == '\'') {
		tc_long(c, copy + 1);
		return;
	}
	star = strrchr(copy, '*');
	if (star) {
		n = strtoul(star + 1, NULL, 10);
		*star = '\0';
	}
	for (; n > 0; n--) {
		char again[256];

		memcpy(again, copy, sizeof(again));
		tc_once(c, again);
	}
}

/* Appends a pickle of protocol 2. */
static inline void tc_pickle(struct torch_case *c, const char *text)
{
	ck_buf_add(&c->b, "\x80\x02", 2);
	while (*text) {
		size_t len = strcspn(text, " ");

		if (len)
			tc_word(c, text, len);
		text += len + (text[len] == ' ');
	}
	ck_buf_text(&c->b, ".");
}

#endif
