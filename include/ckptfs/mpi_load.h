/* SPDX-License-Identifier: MIT */
/*
 * mpi_load: the MPI transport, which is a file of its own, ckptfs-mpi.so: the program is
 * not linked with MPI, and whoever has none does not miss it. Made with one version of
 * the program, it is for that one.
 */
#ifndef CKPTFS_MPI_LOAD_H
#define CKPTFS_MPI_LOAD_H

#include "ckptfs/transport.h"

/*
 * The transport between the processes that one mpirun started: its rank and size are
 * those of MPI_COMM_WORLD. Returns when all of them have called it. From then on all
 * functions of the transport but wake() are for the thread that called this, which need
 * not be the first of the process.
 *
 * Once in a process: MPI cannot be begun again. Whoever forks has to exec; the child
 * must not use the transport.
 *
 * MPI does not say that a rank has died or was stopped, and nobody here finds it out: a
 * rank is lost only if it closed its transport, sent what is no message, or was dropped.
 * What is sent to a dead one is sent for ever: its users have to give up on their own. A
 * rank that is dropped is lost at once, unless bytes of its are just coming to where they
 * were expected: then when they are there, for no one can stop them. That may be never,
 * if it is dead. Of a parcel to it that MPI has begun to send, and that the rank does not
 * take, the bytes are MPI's until close().
 *
 * close() says goodbye to the others, and waits until they have answered, at most two
 * seconds if one does not. If all close it at about the same time, it ends MPI, and
 * mpirun ends at once; else it does not, since that would wait for all, the dead too.
 * One that dies just then may be waited for (MPI over UCX does): who closes has to have a
 * deadline of his own.
 * The process has to end with _exit(2) soon after, and it must not use again, until
 * then, the memory of parcels that close() gave back with -EIO, nor what was expected.
 * mpirun takes an end without that of MPI for a failure of the job, and for two seconds
 * does nothing; it is told not to fail by
 *
 *	--mca orte_enable_recovery 1 --mca orte_abort_on_non_zero_status 0
 *
 * Over TCP mpirun 4.1.4 may itself die, and the job with it, when a rank has: others that
 * cannot connect to it any more have mpirun say so, and it fails on that. Not solved.
 *
 * -ENOENT: there is no such file; -ELIBACC: it, or the MPI it needs, cannot be loaded;
 * -ELIBBAD: it is another version's; -EALREADY; -EIO: MPI does not begin; -ENOMEM.
 */
CK_MUST_USE int ck_transport_mpi(struct ck_transport **out, struct ck_diag *d);

/* --- for the plugin ------------------------------------------------------------------ */

enum {
	CK_TRANSPORT_PLUGIN_VERSION = 2
}; /* of this struct, and of struct ck_transport */

/* What it exports, by this name, and nothing else. */
#define CK_TRANSPORT_PLUGIN_NAME "ckptfs_xport"

struct ck_transport_plugin {
	uint32_t version;
	char program[28]; /* CK_VERSION of the program that it is for */
	int (*open)(struct ck_transport **out, struct ck_diag *d);
};

#endif
