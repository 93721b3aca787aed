/* SPDX-License-Identifier: MIT */
/*
 * number: the fields of a node number, from its low bits up:
 *
 *	version		how many generations behind the making of the directory's
 *			number the bytes of the entry were changed; 0: not since
 *	entry		1 + its number in the directory; 0: the directory itself
 *	directory	each that is looked up has its own
 *
 * A number identifies its node without a table of files. A directory itself has 1 +
 * its number in place of a version: the root, directory 0, is node 1 as FUSE requires,
 * and low bits differ, by which the kernel finds its inodes. The numbers of the last
 * directory are reserved for nodes outside the tree. The top bit is 0.
 */
#ifndef CK_NUMBER_H
#define CK_NUMBER_H

#include "ckptfs/base.h"

/* Widths; a test has smaller ones. */
#ifndef CK_DIR_BITS
#define CK_DIR_BITS	23
#define CK_ENTRY_BITS	24
#define CK_VERSION_BITS 16
#endif

#define CK_DIRS_MAX	((UINT32_C(1) << CK_DIR_BITS) - 1)
#define CK_ENTRIES_MAX	((UINT32_C(1) << CK_ENTRY_BITS) - 1)
#define CK_VERSIONS_MAX (UINT64_C(1) << CK_VERSION_BITS)

static inline uint64_t ck_number_of(uint32_t dir, uint32_t entry,
				    uint64_t version)
{
	return (((uint64_t)dir << CK_ENTRY_BITS) + entry + 1)
		       << CK_VERSION_BITS |
	       version;
}

static inline uint64_t ck_number_of_dir(uint32_t dir)
{
	return (uint64_t)dir << (CK_ENTRY_BITS + CK_VERSION_BITS) |
	       ((uint64_t)dir + 1) % CK_VERSIONS_MAX;
}

static inline uint32_t ck_number_dir(uint64_t number)
{
	return (uint32_t)(number >> (CK_ENTRY_BITS + CK_VERSION_BITS) &
			  CK_DIRS_MAX);
}

static inline bool ck_number_is_dir(uint64_t number)
{
	return number == ck_number_of_dir(ck_number_dir(number));
}

/* Gets the entry of a file's number. Returns false for the number of a directory. */
static inline bool ck_number_entry(uint64_t number, uint32_t *entry)
{
	uint32_t plus_one = (uint32_t)(number >> CK_VERSION_BITS &
				       CK_ENTRIES_MAX);

	if (plus_one == 0)
		return false;
	*entry = plus_one - 1;
	return true;
}

static inline uint64_t ck_number_version(uint64_t number)
{
	return number & (CK_VERSIONS_MAX - 1);
}

#endif
