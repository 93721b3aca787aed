/* SPDX-License-Identifier: MIT */
/*
 * mpi_tmpdir: private directories for the files of MPI, one in $TMPDIR and one
 * in /dev/shm of each host. They are removed when the job's processes on the
 * host have ended, for whatever reason. Directories that are left after a power
 * failure are removed when the next job starts there.
 */
#ifndef CKPTFS_MPI_TMPDIR_H
#define CKPTFS_MPI_TMPDIR_H

#include "ckptfs/base.h"

struct ck_mpi_tmpdir {
	char *places[2]; /* NULL if there is no directory */
	int locks[2];	 /* held open while the directories are in use */
};

/* Makes the directories, and sets the environment so that programs started
 * later use them. If a directory cannot be made, MPI uses its default. One
 * thread. */
void ck_mpi_tmpdir_make(struct ck_mpi_tmpdir *s);
/* Removes the directories. No program may use them any more. */
void ck_mpi_tmpdir_end(struct ck_mpi_tmpdir *s);
/* Makes MPI of this process use the directories. Must be called by a rank
 * before MPI starts. */
void ck_mpi_tmpdir_enter(void);

/* The main function of `ckptfs serve` with CK_LAUNCH_SHELTER and the words of a
 * launch daemon. Returns the daemon's exit status as soon as it runs; another
 * process removes the directories when all its children have ended. */
int ck_mpi_tmpdir_run(char **words);

#endif
