/* SPDX-License-Identifier: MIT */
/*
 * rank_table: the table of ranks of a job that an external launcher (mpirun,
 * srun) has started. Each rank contributes a record of fixed size, and an
 * allgather distributes all records. Each rank validates the table and reaches
 * the same result. The mount receives the table as a list of its peers. One
 * thread.
 */
#ifndef CKPTFS_RANK_TABLE_H
#define CKPTFS_RANK_TABLE_H

#include "ckptfs/hosts.h"

enum {
	CK_RANK_TABLE_RECORD = 8192, /* bytes of a record, in all versions */
};

/* The record of a rank. */
struct ck_rank_table_rank {
	const char *host;    /* its name */
	const char *machine; /* the boot ID: identifies the machine */
	const char *path;    /* of the checkpoint there, absolute */
	const char *version; /* of ckptfs */
	bool wants;	     /* a mount is requested */
	/* Set by ck_rank_table_read(): it has the mount, being the first rank
	 * of its host that requests one. */
	bool mounts;
};

/* Encodes a record. Returns 0, or: -ENAMETOOLONG if it does not fit. */
CK_MUST_USE int ck_rank_table_encode(const struct ck_rank_table_rank *rank,
				     uint8_t out[static CK_RANK_TABLE_RECORD]);
/* Encodes the record of this process. source: the checkpoint's path as the user
 * has written it; it need not exist. Returns 0, or: -EINVAL if the host's name
 * is not valid; -ENAMETOOLONG; errors of gethostname(2) and getcwd(3). The
 * message is in d. */
CK_MUST_USE int ck_rank_table_encode_own(
	const char *source, bool wants,
	uint8_t out[static CK_RANK_TABLE_RECORD], struct ck_diag *d);

/* Zero-initialise. */
struct ck_rank_table {
	/* n; texts borrowed from the records */
	struct ck_rank_table_rank *ranks;
	uint32_t n;
};

/* Decodes and validates n records, n at least 1. *out borrows from records. The
 * caller must call ck_rank_table_fini(), also after an error. Returns 0, or:
 * -EINVAL if versions differ, ranks of one host have different checkpoints, two
 * hosts have one name, or no rank requests a mount; -EPROTO if a record is
 * invalid; -ENOMEM. The message in d is the same at all ranks. */
CK_MUST_USE int ck_rank_table_read(const uint8_t *records, uint32_t n,
				   struct ck_rank_table *out,
				   struct ck_diag *d);
void ck_rank_table_fini(struct ck_rank_table *r);

/* --- the list for a mount ------------------------------------------------- */

/* Appends the list for the mount of a rank: that rank comes first, then the
 * other ranks of its host, then those of other hosts, host by host. */
void ck_rank_table_list(const struct ck_rank_table *r, uint32_t rank,
			struct ck_buf *out);
/* Decodes a list. Caller frees *out, *n ranks; names and paths borrow from
 * text. Returns 0, or: -EPROTO if the list is invalid; -ENOMEM. */
CK_MUST_USE int ck_rank_table_decode_list(struct ck_str text,
					  struct ck_host_rank **out,
					  uint32_t *n);

#endif
