/* SPDX-License-Identifier: MIT */
/*
 * html_texts: texts, each once, with a number that never changes. One thread.
 */
#ifndef CKPTFS_HTML_TEXTS_H
#define CKPTFS_HTML_TEXTS_H

#include "ckptfs/table.h"

/* Zero-initialise. It must not move once it has a text. */
struct ck_html_texts {
	struct ck_str *all;
	uint32_t n;
	/* Private: */
	struct ck_table table;
	struct ck_arena copies;
	size_t cap;
};

/* Finds or adds a text, which is copied. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_html_text_add(struct ck_html_texts *t, struct ck_str text,
				 uint32_t *number);
void ck_html_texts_fini(struct ck_html_texts *t);

#endif
