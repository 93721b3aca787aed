/* SPDX-License-Identifier: MIT */
/*
 * said: the sidecar of a checkpoint: the file that option sidecar= names, or ckptfs-flat.json
 * in its directory, which all hosts have to have alike.
 */
#ifndef CK_FORMAT_SAID_H
#define CK_FORMAT_SAID_H

#include "../load/load_gather.h"
#include "sidecar.h"

struct ck_flat_said {
	struct ck_sidecar is; /* empty: there is none, or it was refused */
	uint64_t len;	      /* of its text */
	/* private */
	struct ck_metadata_text text;
};

/* The name of the sidecar in a checkpoint. */
#define CK_FLAT_SIDECAR "ckptfs-flat.json"

/* Reads it. One that is malformed is a line of damage; one that cannot be read a doubt, but an
 * error if an option names it: of open(2), or -EBADMSG. -ENOMEM, and other errors that pass. */
CK_MUST_USE int ck_flat_said_read(const struct ck_checkpoint *cp,
				  struct ck_catalog *c,
				  const struct ck_format_options *options,
				  struct ck_flat_said *out, struct ck_diag *d);
/* Notes that there is one, and that it is not read; when, ends the sentence. -ENOMEM. */
CK_MUST_USE int ck_flat_said_unread(const struct ck_checkpoint *cp,
				    struct ck_catalog *c,
				    const struct ck_format_options *options,
				    const char *when, struct ck_diag *d);
void ck_flat_said_fini(struct ck_flat_said *said);
/* Whether the file that an option names can be read; 0 without one. Errors as above. */
CK_MUST_USE int ck_flat_said_check(const struct ck_format_options *options,
				   struct ck_diag *d);

#endif
