/* SPDX-License-Identifier: MIT */
/* What tests of plugins need beside plugin.h. */
#ifndef CK_PLUGIN_INTERNAL_H
#define CK_PLUGIN_INTERNAL_H

#include "ckptfs/plugin.h"

/* As ck_xport_mpi(), with that file; NULL: the one that belongs to the program. */
CK_MUST_USE int ck_plugin_open(const char *path, struct ck_xport **out,
			       struct ck_diag *d);

#endif
