/* SPDX-License-Identifier: MIT */
/*
 * picked_source: a checkpoint whose tensors a command reads, and the tensors that its patterns
 * match. The main thread.
 */
#ifndef CKPTFS_PICKED_SOURCE_H
#define CKPTFS_PICKED_SOURCE_H

#include "cp_progress.h"
#include "inspect_pick.h"
#include "source/hosts_options.h"
#include "values/tensor_pass.h"
#include <sys/stat.h>

/* Zero-initialise. */
struct ck_picked_source {
	/* Set by the caller: a run directory is opened too; its catalog is empty. */
	bool takes_run;
	struct ck_pass_source from;
	struct ck_picked picked; /* in natural order of the names */
	/* CK_EXIT_DAMAGE if names of the checkpoint cannot be read; else CK_EXIT_FINE */
	int losses;
	/* Private: */
	struct ck_cluster *cluster;
	struct ck_route route;
};

/* Opens SRC, and finds the tensors that one of n patterns matches; all if n is 0. Refuses a run
 * directory without takes_run. Returns the exit status, after a message if it is not 0. Caller calls
 * ck_picked_source_close() in any case. */
CK_MUST_USE int ck_picked_source_open(struct ck_picked_source *s,
				      const char *src,
				      struct ck_format_options *options,
				      struct ck_hosts_options *hosts,
				      char *const *patterns, size_t n);
void ck_picked_source_close(struct ck_picked_source *s);

/* True if the source reads the file with this stat, by any name: its output would destroy it. */
CK_MUST_USE bool ck_picked_source_reads(const struct ck_picked_source *s,
					const struct stat *what);

/* Why a tensor cannot be read: appends one line, "NAME: EIO: ...", without its end. */
void ck_picked_source_fault(const struct ck_picked_source *s, uint32_t tensor,
			    int err, struct ck_buf *out);

/* A progress line on stderr if that is a terminal. total: bytes, or items if p->counts_items. */
void ck_pass_progress_begin(struct ck_progress *p, uint64_t total);
/* The callback of a pass; arg: a struct ck_progress. Any thread. */
void ck_pass_progress_add(void *arg, uint64_t bytes);
void ck_pass_progress_end(struct ck_progress *p);

#endif
