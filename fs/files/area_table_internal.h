/* SPDX-License-Identifier: MIT */
/*
 * area_table_internal: shared by the files of the inode table of files/.
 */
#ifndef CKPTFS_AREA_TABLE_INTERNAL_H
#define CKPTFS_AREA_TABLE_INTERNAL_H

#include "area_table.h"

/* Pins the descriptor of a node and returns it, or -1. Must hold ck_area_table.lock. */
int ck_area_table_pin(struct ck_area_table *t, struct ck_area_node *n);
/* Takes nodes that are not used any more out of the tables, upwards from n, and adds them
 * to a list by next_number. Must hold ck_area_table.lock. */
void ck_area_table_take(struct ck_area_table *t, struct ck_area_node *n,
			struct ck_area_node **list);
/* Frees such a list. Without the lock: closes descriptors. */
void ck_area_table_free(struct ck_area_node *list);

#endif
