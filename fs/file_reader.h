/* SPDX-License-Identifier: MIT */
/*
 * file_reader: reads one version of a file of the tree.
 */
#ifndef CKPTFS_FILE_READER_H
#define CKPTFS_FILE_READER_H

#include "ckptfs/io.h"
#include "ckptfs/tree.h"
#include <stdatomic.h>

struct ck_fs;

struct ck_file_reader {
	/* First: ck_tree_file.located() finds the reader by it. */
	struct ck_tree_file file;
	/* Constant once it is open: */
	struct ck_fs *fs;
	mode_t shown; /* mode of the node when it was opened */
	/* Atomic: */
	_Atomic uint64_t
		checked; /* version of the last permission check; or 0 */
	/* Under the lock of fs->ahead: */
	struct ck_ahead_stream stream;
};

/* Prepares a zeroed reader. The node stays in use until ck_file_reader_fini(). */
void ck_file_reader_init(struct ck_file_reader *r, struct ck_fs *fs,
			 const struct ck_node *n);
/* Closes the reader, in any state. */
void ck_file_reader_fini(struct ck_file_reader *r);
/* Takes the catalog that has the version of the node. Returns 0, or: -ESTALE if the
 * node is an older version than the present one; errors of ck_tree_pin(). */
CK_MUST_USE int ck_file_reader_pin(struct ck_file_reader *r);
/* Opens a pinned reader. Errors of ck_tree_file_open(); an error that makes only reads
 * fail is in file.err. */
CK_MUST_USE int ck_file_reader_open(struct ck_file_reader *r);
/* Reads bytes [vpos, vpos + len) into `to`: all, or an error of ck_read. */
CK_MUST_USE int ck_file_reader_read(struct ck_file_reader *r, uint64_t vpos,
				    size_t len, void *to);

#endif
