/* SPDX-License-Identifier: MIT */
/*
 * dcp: torch.distributed.checkpoint, releases 1.13 to 2.15. A directory with
 * `.metadata` (one pickle of a Metadata object) and data files in which each
 * stored box is one torch.save archive, found by (relative_path, offset,
 * length).
 */
#ifndef CK_DCP_H
#define CK_DCP_H

#include "ckptfs/model.h"

/* Numbers of files: file(ctx, path, number) is called once for each relative_path. */
struct ck_dcp_numbers {
	int (*file)(void *ctx, struct ck_str path, uint32_t *number);
	void *ctx;
	const char *name; /* of the metadata, for messages; NULL: `.metadata` */
};

/* What one rank says where each has a metadata of its own. */
struct ck_dcp_part {
	uint64_t rank;
	struct ck_catalog
		*c;	 /* as ck_dcp_parse_places() leaves it; not finished */
	uint32_t *files; /* of its numbers of files: those that all share */
};

/* Adds to an empty catalog what all of them say together, the first one first. Boxes
 * that are equal are replicas of the first. What they disagree about, sizes, dtypes,
 * and whether it is a tensor, is a fault of the entry. -ENOMEM, -EOVERFLOW: more than a
 * catalog can number. */
CK_MUST_USE int ck_dcp_merge(struct ck_catalog *c,
			     const struct ck_dcp_part *parts, size_t n);

/* --- places: where a .metadata says where a box is ------------------------- */

/* The BUILD of a _StorageInfo; the dict on top of the stack then is its
 * state. */
struct ck_dcp_place {
	uint32_t build; /* which BUILD of the pickle: the first is 1 */
	bool used;	/* private */
	bool fixed;	/* no place may be set there: its object or state
			 * belongs to something else too, or it is too deep */
};

#define CK_DCP_FIXED UINT32_C(0x80000000)

/* Numbers of opcodes, not positions: whatever is inserted that has no BUILD
 * leaves them as they are. */
struct ck_dcp_places {
	/* owned; of each chunk of the catalog: the BUILD of its row, 0: it has none;
	 * CK_DCP_FIXED may be set */
	uint32_t *chunks;
	size_t nchunks;
	bool roomy; /* parsing took less than half of what it may take */
	/* private: of all rows, while the pickle runs */
	struct ck_dcp_place *infos;
	size_t ninfos, infos_cap;
};

/* Adds the contents of a `.metadata` to an empty catalog: entries in the order of
 * state_dict_metadata, their boxes and items. places: receives the places of the boxes,
 * unless it is NULL. The bytes need not outlive the call. Returns 0, or: -EBADMSG if they are
 * malformed or dangerous, or keys occur twice; -ENOMEM. */
CK_MUST_USE int ck_dcp_parse_places(struct ck_catalog *c, struct ck_str bytes,
				    const struct ck_dcp_numbers *numbers,
				    struct ck_dcp_places *places,
				    struct ck_diag *d);
void ck_dcp_places_fini(struct ck_dcp_places *places);

#endif
