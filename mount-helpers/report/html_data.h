/* SPDX-License-Identifier: MIT */
/*
 * html_data: the data of the page of `ckptfs report`: a row for each tensor, of one checkpoint or
 * of several steps of a run. All texts are copied, so that a checkpoint can be closed once it is
 * added. README.md has the form as JSON. The main thread.
 */
#ifndef CKPTFS_HTML_DATA_H
#define CKPTFS_HTML_DATA_H

#include "ckptfs/format.h"
#include "ckptfs/table.h"
#include "values/value_tally.h"

enum {
	CK_HTML_NO_ROW = UINT32_MAX,
	CK_HTML_FAULTS =
		100, /* most lines about faults that are not of a tensor */
};

/* A tensor. */
struct ck_html_row {
	struct ck_str name; /* shown name */
	struct ck_str stem;
	struct ck_str damage; /* a line; empty: not damaged */
	uint64_t bytes;
	uint32_t dtype;	 /* number in dtypes */
	uint32_t layout; /* number in layouts */
	uint32_t alias;	 /* the row whose memory it shares; or CK_HTML_NO_ROW */
	uint32_t tensor; /* row in the catalog from which it was added */
	/* Owned by the caller, who sets it; NULL: the page has no values of it. */
	const struct ck_figures *figures;
};

/* A parameter and a tensor that an optimizer keeps for it. */
struct ck_html_state {
	uint32_t parameter, tensor; /* rows */
	uint32_t name; /* number in `states`, such as that of "exp_avg" */
};

/* Zero-initialise. It must not move once it has a row. */
struct ck_html_data {
	struct ck_html_row *rows;
	uint32_t n;
	bool has_values; /* set by the caller: rows may have figures */
	/* Private: */
	struct ck_html_state *optimizer;
	size_t noptimizer, rows_cap, optimizer_cap;
	struct ck_texts dtypes, states;
	struct ck_texts layouts; /* as JSON */
	struct ck_table names;	 /* of rows */
	/* Lines about faults of other entries and of files, as JSON. */
	struct ck_buf faults;
	size_t nfaults;
	struct ck_arena texts;
};

void ck_html_data_fini(struct ck_html_data *d);

/* Adds a row for each tensor of a checkpoint whose name has no row yet, with its damage and the
 * tensors that optimizers keep for it. Reads the headers of the items, and the objects that list
 * parameters, but no tensor. Steps of a run are added from the newest to the oldest. Returns 0, or:
 * -ENOMEM; another error that prevents reading, which d describes. */
CK_MUST_USE int ck_html_data_add(struct ck_html_data *data,
				 struct ck_checkpoint *cp,
				 const struct ck_catalog *c, struct ck_diag *d);
/* Sorts the rows in natural order of the names. Row numbers are then those of the page. Called once,
 * when all rows are added. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_html_data_sort(struct ck_html_data *d);
/* The row of a shown name; CK_HTML_NO_ROW if there is no such row. */
uint32_t ck_html_data_find(const struct ck_html_data *d, struct ck_str name);

/* Marks a row as damaged, with a line. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_html_data_damage(struct ck_html_data *d, uint32_t row,
				    struct ck_str line);

/* Facts about the source. Texts are the caller's. */
struct ck_html_source {
	const char *path, *kind, *why;
	size_t ranks;	  /* that saved it; 0: not known */
	uint64_t objects; /* entries that are no tensors */
};

/* Facts about a checkpoint; -ENOMEM. Texts are those of the checkpoint. */
CK_MUST_USE int ck_html_source_of(const struct ck_checkpoint *cp,
				  const struct ck_catalog *c,
				  struct ck_html_source *out);

/* Appends the object of JSON, safe inside an element <script>. more(): NULL, or appends further
 * members, with a comma before each. out->err is set if memory runs out. */
void ck_html_data_print(const struct ck_html_data *d,
			const struct ck_html_source *s,
			void (*more)(void *arg, struct ck_buf *out), void *arg,
			struct ck_buf *out);

#endif
