/* SPDX-License-Identifier: MIT */
/*
 * sidecar_source: finds and reads the sidecar of a checkpoint: the file of
 * option sidecar=, or ckptfs-flat.json in its directory, which must be equal on
 * all hosts. No state beyond the struct; used by the thread that loads the
 * checkpoint.
 */
#ifndef CK_SIDECAR_SOURCE_H
#define CK_SIDECAR_SOURCE_H

#include "format/load/load_gather.h"
#include "sidecar.h"

struct ck_sidecar_source {
	/* empty without a sidecar, or if it was rejected */
	struct ck_sidecar is;
	uint64_t len; /* bytes of its text */
	/* private */
	struct ck_metadata_text text;
};

/* The name of the sidecar in a checkpoint. */
#define CK_FLAT_SIDECAR "ckptfs-flat.json"

/* Reads the sidecar. A malformed one becomes a line of damage; one in the
 * directory that cannot be read becomes a doubt. Caller calls
 * ck_sidecar_source_fini(). Returns 0, or: an errno of open(2) or -EBADMSG if
 * the file of option sidecar= cannot be read; -ENOMEM; other transient
 * errors. */
CK_MUST_USE int ck_sidecar_source_read(const struct ck_checkpoint *cp,
				       struct ck_catalog *c,
				       const struct ck_format_options *options,
				       struct ck_sidecar_source *out,
				       struct ck_diag *d);
/* Adds a note that the sidecar exists and is not read. when: the end of that sentence. Returns 0,
 * or: -ENOMEM. */
CK_MUST_USE int ck_sidecar_source_note_unread(
	const struct ck_checkpoint *cp, struct ck_catalog *c,
	const struct ck_format_options *options, const char *when,
	struct ck_diag *d);
void ck_sidecar_source_fini(struct ck_sidecar_source *source);
/* Returns 0 if the file of option sidecar= can be read or there is no such option, or errors
 * like ck_sidecar_source_read(). */
CK_MUST_USE int ck_sidecar_source_check(const struct ck_format_options *options,
					struct ck_diag *d);

#endif
