/* SPDX-License-Identifier: MIT */
/*
 * json_reader: reads one JSON text (RFC 8259) value by value. Strict: valid
 * UTF-8, no unpaired surrogates, no duplicate keys in an object, at most 127
 * levels. No recursion. Memory: 16 bytes for each key of the open objects, and
 * copies of strings with escapes. One thread at a time.
 */
#ifndef CKPTFS_JSON_READER_H
#define CKPTFS_JSON_READER_H

#include "ckptfs/base.h"

enum { CK_JSON_READER_LEVELS = 127 };

enum ck_json_type {
	CK_JSON_NULL,
	CK_JSON_TRUE,
	CK_JSON_FALSE,
	CK_JSON_NUMBER,
	CK_JSON_STRING,
	CK_JSON_OBJECT, /* its values follow, then CK_JSON_END */
	CK_JSON_ARRAY,	/* the same */
	CK_JSON_END,	/* end of the innermost open object or array */
	CK_JSON_DONE,	/* end of the text */
};

struct ck_json_value {
	enum ck_json_type type;
	size_t at;	   /* offset in the text */
	struct ck_str key; /* in an object; else p is NULL */
	struct ck_str
		text; /* of a string, without escapes; a number as spelled */
};

struct ck_json_level {
	bool is_object;
	bool some; /* it has a value */
	size_t keys; /* index of its first key; earlier ones are of outer objects */
};

struct ck_json_reader {
	/* Set after ck_json_reader_init() if the text is read as Python reads it: NaN,
	 * Infinity, -Infinity, numbers of any size, and unpaired surrogates, which become
	 * three bytes that are not UTF-8. */
	bool is_python;
	/* private */
	const char *begin, *p, *end;
	struct ck_diag *d;
	bool done; /* the value of the text is complete */
	uint32_t nlevels;
	struct ck_json_level levels[CK_JSON_READER_LEVELS];
	struct ck_str *keys;
	size_t nkeys, keys_cap;
	struct ck_arena texts;
};

/* The text must outlive the reader; keys and texts are valid until fini. */
void ck_json_reader_init(struct ck_json_reader *r, struct ck_str text,
			 struct ck_diag *d);
void ck_json_reader_fini(struct ck_json_reader *r);
/* Ends the reader and transfers the copied strings to *texts. */
void ck_json_reader_leave(struct ck_json_reader *r, struct ck_arena *texts);
/* Reads the next value; must not be called after an error. Returns 0, -ENOMEM,
 * or -EBADMSG if the text is malformed; the diagnosis has the position. */
CK_MUST_USE int ck_json_next(struct ck_json_reader *r,
			     struct ck_json_value *out);
/* Skips the contents of the object or array that v begins; does nothing for
 * another value. v must be the value that ck_json_next() has just returned. Returns 0, or
 * errors of ck_json_next(). */
CK_MUST_USE int ck_json_skip(struct ck_json_reader *r,
			     const struct ck_json_value *v);
/* Converts a number of digits only, below 2^63. False for another value. */
CK_MUST_USE bool ck_json_u63(const struct ck_json_value *v, uint64_t *out);
/* Records an error at the position of v, and returns -EBADMSG. */
int ck_json_refuse(struct ck_json_reader *r, const struct ck_json_value *v,
		   const char *what);

#endif
