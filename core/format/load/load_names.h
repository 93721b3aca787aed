/* SPDX-License-Identifier: MIT */
/*
 * load_names: finds the files of a checkpoint that has no list of them, by names and
 * first bytes in its directory. Stateless; used by the thread that opens a checkpoint.
 */
#ifndef CK_LOAD_NAMES_H
#define CK_LOAD_NAMES_H

#include "source/remote_source.h"
#include <dirent.h>

/* Entries read of a directory that the user has not named as a checkpoint. */
enum { CK_DIR_BRIEF = 1000 };

/* A directory, together with those of other hosts. */
struct ck_directory {
	int fd;
	struct ck_remote_source *elsewhere; /* NULL if all is local */
};

/* Calls entry() for each entry of a directory, at most `entries` times, until it
 * returns a value other than 0. Entries of other hosts have no inode number. Returns 0,
 * that value, or: errors of open(2) and readdir(3); errors of
 * ck_remote_source.list(). */
CK_MUST_USE int ck_dir_each(struct ck_directory dir, size_t entries,
			    int (*entry)(void *arg, const struct dirent *e),
			    void *arg);

struct ck_dir_names {
	char **all; /* owned, as is each name */
	size_t n, cap;
};

/* The names that are read. Names that begin with a dot are skipped. */
struct ck_dir_want {
	bool (*wanted)(const char *name);
	size_t most;	/* most names */
	size_t entries; /* most entries read */
};

/* Reads names of a directory, in natural order. Caller must call ck_dir_names_fini(),
 * also after an error. Returns 0, or: -ENOMEM; errors of ck_dir_each(). */
CK_MUST_USE int ck_dir_names_read(struct ck_directory dir,
				  const struct ck_dir_want *want,
				  struct ck_dir_names *out);
/* Removes all names but those of regular files whose first bytes `is` accepts, given up
 * to CK_REMOTE_SOURCE_HEAD bytes. A link out of the directory stays, since linkroot=
 * may allow it. A file that cannot be read stays, so that it becomes damage. Returns 0,
 * or: -ENOMEM; other transient errors; errors of ck_remote_source.begins(). */
CK_MUST_USE int ck_dir_names_begin(struct ck_directory dir,
				   bool (*is)(const uint8_t *head, size_t len),
				   struct ck_dir_names *names);
/* The same for one local file. Returns 1 if it stays, 0 if not, or a transient
 * error. */
CK_MUST_USE int ck_dir_begins(int dirfd, const char *name,
			      bool (*is)(const uint8_t *head, size_t len));
/* Appends a copy of a name. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_dir_names_add(struct ck_dir_names *names, const char *name);
/* Sorts in natural order. */
void ck_dir_names_sort(struct ck_dir_names *names);
void ck_dir_names_fini(struct ck_dir_names *names);
/* Compares two struct ck_str byte by byte, for qsort(3) and bsearch(3). */
int ck_str_cmp(const void *a, const void *b);
/* True if the name ends with the suffix and is longer. */
bool ck_name_ends(const char *name, const char *suffix);

#endif
