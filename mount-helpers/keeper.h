/* SPDX-License-Identifier: MIT */
/* keeper: the process that has a job; see starter.h. */
#ifndef CKPTFS_KEEPER_H
#define CKPTFS_KEEPER_H

#include "ckptfs/launch.h"
#include "ckptfs/note.h"

/* What is asked for, with the socket to whom it is for. Does not return. */
_Noreturn void ck_keeper_run(const struct ck_launch_options *launch,
			     const struct ck_note *asked);

#endif
