/* SPDX-License-Identifier: MIT */
/*
 * html_json: values as JSON that is safe inside an element <script> of HTML: no text has `<` or
 * `&`, U+2028, U+2029 or a control character. Any thread.
 */
#ifndef CKPTFS_HTML_JSON_H
#define CKPTFS_HTML_JSON_H

#include "ckptfs/json.h"

/* Appends "..."; each surrogate, and each other byte that is not UTF-8, becomes U+FFFD. */
void ck_html_json_str(struct ck_buf *b, struct ck_str s);
/* Appends the shortest number that reads back as `value`; null if it is not finite. */
void ck_html_json_float(struct ck_buf *b, double value);

#endif
