/* SPDX-License-Identifier: MIT */
/*
 * dcp: torch.distributed.checkpoint, releases 1.13 to 2.15. A directory with
 * `.metadata` (one pickle of a Metadata object) and data files in which each
 * stored box is one torch.save archive, found by (relative_path, offset,
 * length).
 */
#ifndef CK_FORMAT_DCP_H
#define CK_FORMAT_DCP_H

#include "ckptfs/model.h"

/* Adds what a `.metadata` says to an empty catalog: entries in the order of
 * state_dict_metadata, their boxes and items. file(ctx, path, number) is
 * called once for each relative_path and gives its number. bytes need not
 * outlive the call. -EBADMSG: malformed, dangerous, or duplicate keys. */
CK_MUST_USE int ck_dcp_parse(struct ck_catalog *c, const void *bytes,
			     size_t len,
			     int (*file)(void *ctx, struct ck_str path,
					 uint32_t *number),
			     void *ctx, struct ck_diag *d);

/* Numbers of files, as above. */
struct ck_dcp_numbers {
	int (*file)(void *ctx, struct ck_str path, uint32_t *number);
	void *ctx;
};

/* --- places: where a .metadata says where a box is ------------------------- */

/* Of the row of one box. */
struct ck_dcp_place {
	uint64_t build; /* position of the BUILD of its _StorageInfo, whose
			 * state is on top of the stack then; 0: no row */
	uint32_t set;	/* bytes before it that are one MARK ... SETITEMS whose
		       * first key is relative_path, of 3 or 4 pairs; or 0 */
	bool used;	/* private */
	bool shared;	/* its object or state belongs to something else too */
};

struct ck_dcp_frame {
	uint64_t at; /* position of its opcode */
	uint64_t len;
};

struct ck_dcp_places {
	struct ck_dcp_place *chunks; /* owned; as catalog->chunks */
	size_t nchunks;
	struct ck_dcp_frame *frames; /* owned; in order */
	size_t nframes;
	/* private: of all rows, while the pickle runs */
	size_t frames_cap;
	struct ck_dcp_place *infos;
	size_t ninfos, infos_cap;
	uint32_t *of_item; /* number in infos + 1, 0: none */
};

/* As ck_dcp_parse(), and finds the places. Without file() the catalog is not
 * filled. */
CK_MUST_USE int ck_dcp_parse_places(struct ck_catalog *c, struct ck_str bytes,
				    const struct ck_dcp_numbers *numbers,
				    struct ck_dcp_places *places,
				    struct ck_diag *d);
void ck_dcp_places_fini(struct ck_dcp_places *places);

#endif
