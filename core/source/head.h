/* SPDX-License-Identifier: MIT */
/*
 * head: the bytes of a file that a format reads while it loads a checkpoint. They are compared when
 * the ctime of the file has changed. In touch.c and head.c. A part of source.
 */
#ifndef CK_HEAD_H
#define CK_HEAD_H

#include "ckptfs/source.h"

/* Records the bytes of a file that are read from ck_files_head_begin() to ck_files_head_end()
 * as its head if `keep`; otherwise the file has no head. After a change of the ctime the head
 * is compared before the file is used. Must be called by the one thread that adds files.
 * Return 0, or -ENOMEM. */
CK_MUST_USE int ck_files_head_begin(struct ck_files *f, struct ck_file *file);
CK_MUST_USE int ck_files_head_end(struct ck_files *f, struct ck_file *file,
				  bool keep);
/* Reads bytes [fpos, fpos + len) of a file, which become its head. Returns 0, or: -ENOMEM; errors of
 * ck_files_read(). */
CK_MUST_USE int ck_files_head_read(struct ck_files *f, struct ck_file *file,
				   void *buf, size_t len, uint64_t fpos);

#endif
