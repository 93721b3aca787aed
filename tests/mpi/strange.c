/* SPDX-License-Identifier: MIT */
/* strange: a plugin of another version. */
#include "ckptfs/plugin.h"

__attribute__((visibility(
	"default"))) extern const struct ck_xport_plugin ckptfs_xport;
const struct ck_xport_plugin ckptfs_xport = {
	.version = STRANGE_VERSION,
	.program = STRANGE_PROGRAM,
};
