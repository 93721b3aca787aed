/* SPDX-License-Identifier: MIT */
/*
 * html_values: statistics of the values of tensors in the data of the page. The main thread; tensors are
 * read by several.
 */
#ifndef CKPTFS_HTML_VALUES_H
#define CKPTFS_HTML_VALUES_H

#include "html_data.h"
#include "picked_source.h"
#include "values/tensor_figures.h"

/* Figures of the rows of one or more checkpoints. Zero-initialise. */
struct ck_html_values {
	struct ck_figured **lists; /* owned, one for each checkpoint */
	size_t n, cap;
};

/* Bytes that ck_html_values_add() reads, for progress. */
uint64_t ck_html_values_bytes(const struct ck_html_data *d,
			      const struct ck_pass_source *from,
			      uint32_t first);
/* Reads the tensors of the rows from `first` on, which are of one source, each memory once, and gives
 * the rows their figures. A row that cannot be read is damaged. The figures are valid until
 * ck_html_values_fini(). Returns 0, or: shortages of this process. */
CK_MUST_USE int ck_html_values_add(struct ck_html_values *v,
				   struct ck_html_data *d,
				   const struct ck_pass_source *from,
				   uint32_t first,
				   struct ck_progress *progress);
void ck_html_values_fini(struct ck_html_values *v);

#endif
