/* SPDX-License-Identifier: MIT */
/*
 * mpi_load: loads the MPI transport from the plugin ckptfs-mpi.so, so that
 * ckptfs is not linked to MPI. Plugin and program versions must match. The
 * transport exists at most once in a process; the plugin stays loaded until the
 * process exits.
 */
#ifndef CKPTFS_MPI_LOAD_H
#define CKPTFS_MPI_LOAD_H

#include "transport.h"

/*
 * Opens the transport between the processes that one mpirun has started. Rank
 * and size are those of MPI_COMM_WORLD. Blocks until all ranks have called it.
 * Afterwards only the calling thread may use the transport, except for wake();
 * it need not be the main thread.
 *
 * A process may call it once, because MPI cannot be initialised again. A child
 * of fork(2) must not use the transport and must exec.
 *
 * Lost ranks: MPI does not report that a rank has died or was stopped, and the
 * transport does not detect it. A rank is lost only if it has closed its
 * transport, has sent an invalid message, or was dropped. Parcels to a dead
 * rank stay in flight forever, so users need timeouts of their own. A dropped
 * rank is lost at once, unless bytes of it are being received into memory of
 * expect(). It is then lost when they have arrived, which may never happen if
 * the rank is dead. The bytes of a parcel that MPI has begun to send belong to
 * MPI until the rank receives it or close().
 *
 * close() notifies the other ranks and waits up to two seconds for their
 * replies. If all ranks close at about the same time, it calls MPI_Finalize(),
 * and mpirun exits at once. Otherwise it does not, since MPI_Finalize() would
 * wait for all ranks, even dead ones. If a rank dies at that moment, MPI over
 * UCX may wait for it without a limit: the caller of close() needs a deadline
 * of its own.
 *
 * After close() the process must soon end with _exit(2). Until then it must not
 * reuse memory of expect(), nor of parcels that close() has returned with -EIO.
 * mpirun takes an exit without MPI_Finalize() for a failure of the job and does
 * nothing for two seconds. These options keep it from failing:
 *
 *	--mca orte_enable_recovery 1 --mca orte_abort_on_non_zero_status 0
 *
 * Known problem: over TCP, mpirun 4.1.4 itself may die with the job after a
 * rank has died. Ranks that can no longer connect to it report that through
 * mpirun, which fails on the report.
 *
 * Returns 0, or: -ENOENT if there is no plugin; -ELIBACC if the plugin or MPI
 * cannot be loaded; -ELIBBAD if the plugin has another version; -EALREADY; -EIO
 * if MPI does not start; -ENOMEM. The message is in d.
 */
CK_MUST_USE int ck_transport_mpi(struct ck_transport **out, struct ck_diag *d);

/* --- for the plugin ------------------------------------------------------- */

/* The version of this struct and of struct ck_transport. */
enum { CK_TRANSPORT_PLUGIN_VERSION = 2 };

/* The name of the plugin's only exported symbol, a struct
 * ck_transport_plugin. */
#define CK_TRANSPORT_PLUGIN_NAME "ckptfs_xport"

struct ck_transport_plugin {
	uint32_t version;
	char program[28]; /* CK_VERSION of the program that it is for */
	/* Implements ck_transport_mpi(). */
	int (*open)(struct ck_transport **out, struct ck_diag *d);
};

#endif
