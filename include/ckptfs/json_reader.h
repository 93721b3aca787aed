/* SPDX-License-Identifier: MIT */
/*
 * json_reader: one JSON text (RFC 8259), value by value. Strict: valid UTF-8, no
 * unpaired surrogates, no key twice in an object, at most 127 levels. No recursion;
 * memory is 16 bytes for each key of the objects that are open, and what strings with
 * escapes take. One thread at a time.
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
	CK_JSON_END,	/* of the object or array begun last */
	CK_JSON_DONE,	/* of the text */
};

struct ck_json_value {
	enum ck_json_type type;
	size_t at;	   /* byte of the text */
	struct ck_str key; /* in an object; else p is NULL */
	struct ck_str
		text; /* of a string, without escapes; a number as spelled */
};

struct ck_json_level {
	bool is_object;
	bool some;   /* it has a value */
	size_t keys; /* those before are of objects around it */
};

struct ck_json_reader {
	/* private */
	const char *begin, *p, *end;
	struct ck_diag *d;
	bool done; /* the one value of the text */
	uint32_t nlevels;
	struct ck_json_level levels[CK_JSON_READER_LEVELS];
	struct ck_str *keys;
	size_t nkeys, keys_cap;
	struct ck_arena texts;
};

/* The text outlives it; keys and texts are good until fini. */
void ck_json_reader_init(struct ck_json_reader *r, struct ck_str text,
			 struct ck_diag *d);
void ck_json_reader_fini(struct ck_json_reader *r);
/* Ends it, but for the strings that it has copied, which *texts has from now on. */
void ck_json_reader_leave(struct ck_json_reader *r, struct ck_arena *texts);
/* The next value. -EBADMSG: malformed, and the diagnosis says where; -ENOMEM. Not
 * after an error. */
CK_MUST_USE int ck_json_next(struct ck_json_reader *r,
			     struct ck_json_value *out);
/* What is in the object or array that v begins; of other values nothing. */
CK_MUST_USE int ck_json_skip(struct ck_json_reader *r,
			     const struct ck_json_value *v);
/* A number that is digits only, below 2^63. */
CK_MUST_USE bool ck_json_u63(const struct ck_json_value *v, uint64_t *out);
/* Refuses the text at v. -EBADMSG. */
int ck_json_refuse(struct ck_json_reader *r, const struct ck_json_value *v,
		   const char *what);

#endif
