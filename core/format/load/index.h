/* SPDX-License-Identifier: MIT */
/* index: which names a directory shows, and the file of each, where an index says it. */
#ifndef CK_INDEX_H
#define CK_INDEX_H

#include "ckptfs/weight_map.h"
#include "load_gather.h"

/* Bytes; of a million names it has 100 MB. */
#define CK_INDEX_MOST (UINT64_C(1) << 30)

struct ck_index {
	struct ck_weight_map map;
	struct ck_metadata_text text; /* private */
};

/* Reads an index, which is the metadata of cp from then on. *out begins as { 0 }, and is the
 * caller's also after an error: -EBADMSG; as of ck_metadata_read(). */
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
/* Which of those found counts: the usual one, or the only one; *out stays NULL if there is
 * none. -EBADMSG: several, none of them the usual one. */
CK_MUST_USE int ck_index_pick(const struct ck_dir_names *found,
			      const char *usual, const char **out,
			      struct ck_diag *d);

#endif
