/* SPDX-License-Identifier: MIT */
/*
 * load_names: finds the files of a checkpoint without a list of its files, by their names in
 * its directory.
 */
#ifndef CK_LOAD_NAMES_H
#define CK_LOAD_NAMES_H

#include "ckptfs/remote_source.h"
#include <dirent.h>

/* Entries looked at of a directory in which nobody said that there is a checkpoint. */
enum { CK_DIR_BRIEF = 1000 };

/* A directory, with what other hosts have in theirs. */
struct ck_directory {
	int fd;
	struct ck_remote_source
		*elsewhere; /* NULL: there is nothing elsewhere */
};

/* Calls entry() for each entry of a directory, at most so many, until it returns something
 * else than 0, which is returned then; what is elsewhere has no inode. Errors of open(2) and
 * readdir(3), and of ck_remote_source.list(). */
CK_MUST_USE int ck_dir_each(struct ck_directory dir, size_t entries,
			    int (*entry)(void *arg, const struct dirent *e),
			    void *arg);

struct ck_dir_names {
	char **all; /* owned, and each of them */
	size_t n, cap;
};

/* Which are read; whatever begins with a dot is not. */
struct ck_dir_want {
	bool (*wanted)(const char *name);
	size_t most;	/* no more of them are wanted, */
	size_t entries; /* nor are more looked at */
};

/* Names in a directory, in natural order. Errors of open(2); -ENOMEM. *out is the caller's
 * also after an error. */
CK_MUST_USE int ck_dir_names_read(struct ck_directory dir,
				  const struct ck_dir_want *want,
				  struct ck_dir_names *out);
/* Leaves those of regular files that begin so, by up to CK_REMOTE_SOURCE_HEAD bytes. A link that
 * leads out counts by its name, since with linkroot= it may be one, and so does a file that
 * cannot be read, which is then known to be damaged. Shortages, and as above. */
CK_MUST_USE int ck_dir_names_begin(struct ck_directory dir,
				   bool (*is)(const uint8_t *head, size_t len),
				   struct ck_dir_names *names);
/* The same of one file of this host: 1, 0, or a shortage. */
CK_MUST_USE int ck_dir_begins(int dirfd, const char *name,
			      bool (*is)(const uint8_t *head, size_t len));
CK_MUST_USE int ck_dir_names_add(struct ck_dir_names *names, const char *name);
/* In natural order. */
void ck_dir_names_sort(struct ck_dir_names *names);
void ck_dir_names_fini(struct ck_dir_names *names);
/* Compares two struct ck_str byte by byte, for qsort(3) and bsearch(3). */
int ck_str_cmp(const void *a, const void *b);
/* Longer than the suffix, and ends with it. */
bool ck_name_ends(const char *name, const char *suffix);

#endif
