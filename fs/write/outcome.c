/* SPDX-License-Identifier: MIT */
/*
 * outcome: sentences about the tensors of a commit, for the reply of `ckptfs commit`
 * and for the log: "committed 2 tensors (a, b); 1 file is being written and no part
 * of it". No state, no locks.
 */
#include "../internal.h"
#include "ckptfs/report.h"

enum { NAMES = 6 };

static void print_count(struct ck_buf *text, uint32_t n, const char *one,
			const char *many)
{
	ck_buf_printf(text, "%u %s", n, n == 1 ? one : many);
}

/* "2 tensors (a, b)" in natural order, of many the first ones. */
static void print_tensors(const struct ck_fs *fs, struct ck_outcome *out,
			  struct ck_buf *text)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	uint32_t n = out->n > NAMES ? NAMES - 1 : out->n;

	ck_report_sort(c, out->tensors, out->n);
	print_count(text, out->n, "tensor", "tensors");
	for (uint32_t i = 0; i < n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c,
							      out->tensors[i]);

		ck_buf_text(text, i ? ", " : " (");
		ck_buf_escaped(text, ck_tensor_names(c, t->entry.number).name);
	}
	if (n < out->n)
		ck_buf_printf(text, " and %u more", out->n - n);
	ck_buf_text(text, n ? ")" : "");
}

static void print_open(const struct ck_outcome *out, struct ck_buf *text)
{
	if (out->open == 0)
		return;
	ck_buf_text(text, "; ");
	print_count(text, out->open, "file is being written and no part of it",
		    "files are being written and no part of it");
}

static void print_failure(const struct ck_fs *fs, struct ck_outcome *out,
			  const struct ck_diag *d, struct ck_buf *text)
{
	ck_buf_text(text, d->text);
	if (out->n == 0)
		return;
	ck_buf_text(text, out->published ? "; " : "; nothing is committed; ");
	print_tensors(fs, out, text);
	if (out->published)
		ck_buf_printf(text, " %s there, but may be gone after a crash",
			      out->n == 1 ? "is" : "are");
	else if (out->lost)
		ck_buf_text(text, " must be written again");
	else
		ck_buf_text(text,
			    out->n == 1 ? " stays staged" : " stay staged");
}

void ck_drop_print(const struct ck_fs *fs, struct ck_outcome *out,
		   const char *what, struct ck_buf *text)
{
	if (out->n) {
		ck_buf_printf(text, "%s ", what);
		print_tensors(fs, out, text);
	} else {
		ck_buf_text(text, "nothing is staged");
	}
	print_open(out, text);
}

void ck_outcome_print(const struct ck_fs *fs, struct ck_outcome *out, int rc,
		      const struct ck_diag *d, struct ck_buf *text)
{
	if (rc)
		print_failure(fs, out, d, text);
	else
		ck_drop_print(fs, out, "committed", text);
}
