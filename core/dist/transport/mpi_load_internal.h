/* SPDX-License-Identifier: MIT */
/* What tests of plugins need beside mpi_load.h. */
#ifndef CK_PLUGIN_INTERNAL_H
#define CK_PLUGIN_INTERNAL_H

#include "ckptfs/mpi_load.h"

/* As ck_transport_mpi(), with that file; NULL: the one that belongs to the program. */
CK_MUST_USE int ck_plugin_open(const char *path, struct ck_transport **out,
			       struct ck_diag *d);

#endif
