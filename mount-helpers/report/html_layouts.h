/* SPDX-License-Identifier: MIT */
/*
 * html_layouts: the shape of a tensor and the ranks that have its boxes, as JSON. README.md has the
 * form. Any thread.
 */
#ifndef CKPTFS_HTML_LAYOUTS_H
#define CKPTFS_HTML_LAYOUTS_H

#include "ckptfs/model.h"

enum { CK_HTML_BOXES = 256 }; /* most boxes of a tensor that the page has */

/* Appends the layout of a tensor. */
void ck_html_layout_print(const struct ck_catalog *c, uint32_t tensor,
			  struct ck_buf *out);

#endif
