/* SPDX-License-Identifier: MIT */
/*
 * file_id: identity of a file, whichever path leads to it. A part of base. Any thread.
 */
#ifndef CKPTFS_FILE_ID_H
#define CKPTFS_FILE_ID_H

#include <sys/stat.h>

struct ck_file_id {
	dev_t dev;
	ino_t ino;
};

static inline struct ck_file_id ck_file_id_of(const struct stat *st)
{
	return (struct ck_file_id){ st->st_dev, st->st_ino };
}

/* Order of two `struct ck_file_id`, for qsort(3) and bsearch(3), also of structs that begin
 * with one: by device, then by inode. */
static inline int ck_file_id_cmp(const void *a, const void *b)
{
	const struct ck_file_id *x = a, *y = b;

	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return (x->ino > y->ino) - (x->ino < y->ino);
}

#endif
