/* SPDX-License-Identifier: MIT */
/*
 * diff_names: why two checkpoints have no name in common. The main thread.
 */
#ifndef CKPTFS_DIFF_NAMES_H
#define CKPTFS_DIFF_NAMES_H

#include "picked_source.h"

/* For two sources without a common name: if all names of one are names of the other below one
 * prefix, prints a line on stderr with the options that give them equal names. paths: as the user
 * gave them. Needs picked lists in natural order. */
void ck_diff_names_hint(const struct ck_picked_source sources[2],
			const char *const paths[2]);

#endif
