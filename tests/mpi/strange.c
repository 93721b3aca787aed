/* SPDX-License-Identifier: MIT */
/* strange: a plugin of another version. */
#include "dist/transport/mpi_load.h"

__attribute__((visibility(
	"default"))) extern const struct ck_transport_plugin ckptfs_xport;
const struct ck_transport_plugin ckptfs_xport = {
	.version = STRANGE_VERSION,
	.program = STRANGE_PROGRAM,
};
