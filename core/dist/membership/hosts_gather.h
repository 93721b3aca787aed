/* SPDX-License-Identifier: MIT */
/*
 * hosts_gather: what all hosts say of all files of a checkpoint, when it is opened: they
 * are asked at once, and then for digests of the files that several have.
 */
#ifndef CK_HOSTS_GATHER_H
#define CK_HOSTS_GATHER_H

#include "hosts_internal.h"

/* What all hosts said of all files that nobody was asked for before. */
struct ck_gathered {
	struct ck_ids shown;
	bool is_shown; /* else it is set: as the first that can be used */
	struct ck_str *names; /* that can be asked for, n */
	uint32_t *numbers;    /* of them, in the ck_files */
	size_t n;
	/* By rank, n each; NULL: it has said nothing. */
	struct ck_looked **said;
	struct ck_file_copy **copies; /* by host, n each */
	uint64_t *loads;	      /* by host: bytes of files that are its */
	uint64_t *rank_loads;	      /* the same of its ranks */
	uint32_t *chosen;	      /* hosts of the copies of one file */
	size_t too_short, first_short; /* files of which there is such a copy */
};

/* g: zeros but for `shown` and `is_shown`, see ck_remote_source. ck_gathered_fini() it, also after an error:
 * -ENOMEM; what a host that is there answered with. */
CK_MUST_USE int ck_gather(struct ck_hosts *h, const struct ck_files *files,
			  struct ck_gathered *g, struct ck_diag *d);
void ck_gathered_fini(struct ck_gathered *g, const struct ck_hosts *h);

/* Fills g->copies: who has what, and what its bytes come to. Errors as above. */
CK_MUST_USE int ck_gather_copies(struct ck_hosts *h, struct ck_gathered *g,
				 const struct ck_files *files);

/* There is a file here that was seen, whether it can be opened or not. */
bool ck_gathered_is_here(const struct ck_files *files, uint32_t number);
/* The size of the longest copy of the i-th file. */
uint64_t ck_gathered_longest(const struct ck_hosts *h,
			     const struct ck_gathered *g, size_t i);
bool ck_gathered_is_usable(const struct ck_looked *l);

#endif
