/* SPDX-License-Identifier: MIT */
/*
 * dcp: reads `.metadata` of torch.distributed.checkpoint, releases 1.13 to 2.15, into a
 * catalog. A checkpoint is a directory with `.metadata`, one pickle of a Metadata
 * object, and data files. Each stored box is one torch.save archive in a data file,
 * found by (relative_path, offset, length).
 *
 * The functions keep no state between calls. Several threads may call them, each with a
 * catalog of its own.
 */
#ifndef CK_DCP_H
#define CK_DCP_H

#include "ckptfs/model.h"

/* Gives numbers to data files. file() is called once or more for each relative_path and
 * sets *number. It returns 0 or a negative errno, which ends the parsing. */
struct ck_dcp_numbers {
	int (*file)(void *ctx, struct ck_str path, uint32_t *number);
	void *ctx;
	/* name of the metadata in messages; NULL: `.metadata` */
	const char *name;
};

/* The metadata of one rank, where each rank wrote its own. */
struct ck_dcp_part {
	uint64_t rank;
	/* filled by ck_dcp_parse_places(), not finished */
	struct ck_catalog *c;
	/* maps file numbers of `c` to file numbers of the merged catalog */
	uint32_t *files;
};

/* Merges `parts`, in their order, into an empty catalog. A box that equals an earlier
 * box of the same tensor becomes its replica. If parts disagree about the shape or
 * dtype of an entry, or whether it is a tensor, the entry gets a fault. Returns 0, or:
 * -ENOMEM; -EOVERFLOW if the entries of all parts exceed what 32 bits can number. */
CK_MUST_USE int ck_dcp_merge(struct ck_catalog *c,
			     const struct ck_dcp_part *parts, size_t n);

/* --- locations of boxes in a .metadata -------------------------------------------- */

/* The opcode BUILD of one _StorageInfo. The dict on top of the stack at that opcode is
 * the state of the _StorageInfo. */
struct ck_dcp_place {
	uint32_t build; /* number of the BUILD in the pickle, from 1 */
	bool used;	/* private */
	/* The location cannot be changed there: the object or its state is shared, its
	 * state is not a dict, or it is nested too deep. */
	bool fixed;
};

#define CK_DCP_FIXED UINT32_C(0x80000000)

/* The BUILD of each box. BUILDs are numbered, because an insertion without a BUILD
 * changes positions but no number. */
struct ck_dcp_places {
	/* Owned. For each chunk of the catalog, the number of its BUILD, or 0 if it has
	 * no row. CK_DCP_FIXED is set if the location cannot be changed. */
	uint32_t *chunks;
	size_t nchunks;
	bool roomy; /* parsing used less than half of its memory limit */
	/* Private: of all rows, while the pickle is parsed. */
	struct ck_dcp_place *infos;
	size_t ninfos, infos_cap;
};

/* Adds the contents of a `.metadata` to an empty catalog: entries in the order of
 * state_dict_metadata, their boxes and items. If `places` is not NULL, it receives the
 * BUILDs of the boxes; caller must call ck_dcp_places_fini(). The bytes need not
 * outlive the call. Returns 0, or: -EBADMSG if the bytes are malformed or dangerous, or
 * keys occur twice; -ENOMEM; an error of numbers->file(). */
CK_MUST_USE int ck_dcp_parse_places(struct ck_catalog *c, struct ck_str bytes,
				    const struct ck_dcp_numbers *numbers,
				    struct ck_dcp_places *places,
				    struct ck_diag *d);
void ck_dcp_places_fini(struct ck_dcp_places *places);

#endif
