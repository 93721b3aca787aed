/* SPDX-License-Identifier: MIT */
/* mpi_load_internal: loads a given file as MPI transport, for tests. */
#ifndef CK_MPI_LOAD_INTERNAL_H
#define CK_MPI_LOAD_INTERNAL_H

#include "mpi_load.h"

/* Like ck_transport_mpi(), but loads the plugin from `path`; NULL is the plugin
 * installed with the program. Returns 0, or a negative errno with a message in
 * d. */
CK_MUST_USE int ck_plugin_open(const char *path, struct ck_transport **out,
			       struct ck_diag *d);

#endif
