/* SPDX-License-Identifier: MIT */
/*
 * hosts_gather: collects the metadata of all files from all hosts when a
 * checkpoint is opened, then the digests of files that several hosts have.
 * Hosts are queried in parallel. The opening thread calls the functions and
 * blocks; one thread per process sends the requests.
 */
#ifndef CK_HOSTS_GATHER_H
#define CK_HOSTS_GATHER_H

#include "hosts_internal.h"

/* The reports of all hosts about the files that were added since the last
 * call. */
struct ck_host_reports {
	struct ck_ids shown;
	/* False: `shown` becomes the owner of the first usable file. */
	bool is_shown;
	struct ck_str *names; /* n names that can be requested */
	uint32_t *numbers;    /* by name: the number in the ck_files */
	size_t n;
	/* By rank, n each; NULL: it did not reply. */
	struct ck_name_stat **reports;
	struct ck_file_copy **copies; /* by host, n each */
	uint64_t *loads;      /* by host: bytes of files assigned to it */
	uint64_t *rank_loads; /* by rank: the same */
	uint32_t *chosen;     /* hosts of the replicas of one file */
	/* Files with a replica that is too short: their number, and the index
	 * of the first. */
	size_t too_short, first_short;
};

/* Collects metadata. *g: zeros except `shown` and `is_shown`, see
 * ck_remote_source. The caller must call ck_host_reports_fini(), also after an
 * error. Returns 0, or: -ENOMEM; errors of pthread_create(3); the error of a
 * host that is up. The message is in d. */
CK_MUST_USE int ck_gather(struct ck_hosts *h, const struct ck_files *files,
			  struct ck_host_reports *g, struct ck_diag *d);
/* Frees all but g itself. */
void ck_host_reports_fini(struct ck_host_reports *g, const struct ck_hosts *h);

/* Fills g->copies: which host has which file, and its digest. Returns 0, or the
 * same errors without a message. */
CK_MUST_USE int ck_gather_replicas(struct ck_hosts *h,
				   struct ck_host_reports *g,
				   const struct ck_files *files);

/* Returns true if this host has the file, whether it can be opened or not. */
bool ck_host_reports_is_here(const struct ck_files *files, uint32_t number);
/* Returns the size of the longest readable replica of the i-th file; 0 without
 * one. */
uint64_t ck_host_reports_longest(const struct ck_hosts *h,
				 const struct ck_host_reports *g, size_t i);
/* Returns true if the host has a data file of that name. */
bool ck_host_report_is_usable(const struct ck_name_stat *l);

#endif
