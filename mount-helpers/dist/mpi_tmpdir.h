/* SPDX-License-Identifier: MIT */
/*
 * mpi_tmpdir: what MPI leaves in files while a job runs is in two directories on each host
 * that nobody else can enter, one in $TMPDIR and one in /dev/shm, and goes with them when
 * the job's processes there have ended, however they did. Those of a host whose power
 * failed go when the next job is started there.
 */
#ifndef CKPTFS_MPI_TMPDIR_H
#define CKPTFS_MPI_TMPDIR_H

#include "ckptfs/base.h"

struct ck_mpi_tmpdir {
	char *places[2]; /* NULL: there is none */
	int locks[2];	 /* they are in use for as long as these are open */
};

/* From then on programs that this process starts have their files there. What cannot be
 * made there is none of, and MPI has its own way. One thread. */
void ck_mpi_tmpdir_make(struct ck_mpi_tmpdir *s);
/* None of them runs any more. */
void ck_mpi_tmpdir_end(struct ck_mpi_tmpdir *s);
/* In a rank, before MPI begins. */
void ck_mpi_tmpdir_enter(void);

/* The process that `ckptfs serve` is with CK_LAUNCH_SHELTER and the words of a launch
 * daemon. Returns its exit status as soon as it serves; another process waits for the end
 * of all that it has started. */
int ck_mpi_tmpdir_run(char **words);

#endif
