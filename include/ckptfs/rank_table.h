/* SPDX-License-Identifier: MIT */
/*
 * rank_table: who the ranks of a job are that somebody else has started. Each says who it is,
 * in a few bytes, all have what all say, and come to the same judgement. The process of a
 * mount is handed the list of them. One thread.
 */
#ifndef CKPTFS_RANK_TABLE_H
#define CKPTFS_RANK_TABLE_H

#include "ckptfs/hosts.h"

enum {
	CK_RANK_TABLE_SAID =
		8192, /* bytes of what a rank says, in all versions */
};

/* What a rank says of itself. */
struct ck_rank_table_rank {
	const char *host;    /* its name */
	const char *machine; /* another one has another, whatever its name is */
	const char *path;    /* of the checkpoint there, absolute */
	const char *version; /* of ckptfs */
	bool wants;	     /* it is to have a mount */
	bool mounts;	     /* it has: the first of its host that is to */
};

/* As bytes. -ENAMETOOLONG. */
CK_MUST_USE int ck_rank_table_say(const struct ck_rank_table_rank *rank,
				  uint8_t out[static CK_RANK_TABLE_SAID]);
/* Those of this process: source is what it was given for the checkpoint, which need not
 * exist. -EINVAL: this host's name is none; errors of gethostname(2), getcwd(3). */
CK_MUST_USE int ck_rank_table_say_own(const char *source, bool wants,
				      uint8_t out[static CK_RANK_TABLE_SAID],
				      struct ck_diag *d);

/* Zero-initialise. */
struct ck_rank_table {
	struct ck_rank_table_rank
		*ranks; /* n; texts borrowed from what was said */
	uint32_t n;
};

/* said: of n ranks, one behind the other, as long as *out. -EINVAL, and the reason, the
 * same at all ranks: one is of another version; ranks of one host that have not one
 * checkpoint; two hosts of one name; nobody is to have a mount. -EPROTO; -ENOMEM. */
CK_MUST_USE int ck_rank_table_read(const uint8_t *said, uint32_t n,
				   struct ck_rank_table *out,
				   struct ck_diag *d);
void ck_rank_table_fini(struct ck_rank_table *r);

/* --- for the process of a mount ---------------------------------------------------- */

/* Appends the list for the one of that rank: the rank itself comes first, then the others
 * of its host, then other hosts. */
void ck_rank_table_list(const struct ck_rank_table *r, uint32_t rank,
			struct ck_buf *out);
/* What that has, owned, *n of them; names and paths are borrowed from text. -EPROTO: it
 * is no such list; -ENOMEM. */
CK_MUST_USE int ck_rank_table_take(struct ck_str text,
				   struct ck_host_rank **out, uint32_t *n);

#endif
