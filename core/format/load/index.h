/* SPDX-License-Identifier: MIT */
/* index: an index of safetensors or torch files. It gives the names that the directory
 * shows, and the file of each. A value, constant after ck_index_read(); used by the
 * thread of the load. */
#ifndef CK_INDEX_H
#define CK_INDEX_H

#include "load_gather.h"
#include "syntax/weight_map.h"

/* Upper limit in bytes; an index of a million names has 100 MB. */
#define CK_INDEX_MOST (UINT64_C(1) << 30)

struct ck_index {
	struct ck_weight_map map;
	struct ck_metadata_text text; /* private */
};

/* Reads an index and makes it the metadata file of cp. *out must be { 0 }. Caller must
 * call ck_index_fini(), also after an error. Returns 0, or: -EBADMSG if it is
 * malformed; -ENOMEM; errors of ck_metadata_read(). */
CK_MUST_USE int ck_index_read(struct ck_checkpoint *cp, struct ck_catalog *c,
			      const char *name,
			      const struct ck_format_options *options,
			      struct ck_index *out, struct ck_diag *d);
void ck_index_fini(struct ck_index *x);
/* Records the loss of a name of the index. file, good: number of the file that the index
 * gives, and whether it was read. absent: the reason if the file was read; static. Returns
 * errors of ck_catalog_loss_add(). */
CK_MUST_USE int ck_index_lose(struct ck_catalog *c,
			      const struct ck_weight_row *row, uint32_t file,
			      bool good, struct ck_str absent);
/* Adds a doubt: `single`, which has the whole model, is shown, and the indexes beside it
 * are not used, as in transformers. Adds nothing without indexes. Returns 0, or:
 * -ENOMEM. */
CK_MUST_USE int ck_index_ignore(struct ck_catalog *c,
				const struct ck_dir_names *found,
				const char *single);
/* Chooses an index: the usual one, or the only one. *out stays NULL if `found` is
 * empty. Returns 0, or: -EBADMSG if there are several, without the usual one. */
CK_MUST_USE int ck_index_pick(const struct ck_dir_names *found,
			      const char *usual, const char **out,
			      struct ck_diag *d);

#endif
