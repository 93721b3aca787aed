/* SPDX-License-Identifier: MIT */
/*
 * load_gather: functions with which formats load a checkpoint, whose files may be on
 * several hosts. The directories of all hosts appear as one: ck_dir_each() lists it,
 * ck_files_get() and ck_files_read() read its data files. Used by the thread that opens
 * the checkpoint.
 */
#ifndef CK_LOAD_GATHER_H
#define CK_LOAD_GATHER_H

#include "format/current/current_metadata.h"
#include "format/kind.h"
#include "load_names.h"

/* The directory of a source or a checkpoint, over all hosts. */
static inline struct ck_directory ck_src_dir(const struct ck_src *src)
{
	return (struct ck_directory){ src->dirfd, src->elsewhere };
}

static inline struct ck_directory ck_checkpoint_dir(
	const struct ck_checkpoint *cp)
{
	return (struct ck_directory){ cp->dirfd, cp->elsewhere };
}

/* Returns 1 if the source is a directory that has a file with such a name; 0 if it has no
 * such file, or is a file; else a negative errno of listing it. */
CK_MUST_USE int ck_src_has_name(const struct ck_src *src,
				bool (*wanted)(const char *name),
				struct ck_diag *d);
/* Fails because no file of n can be used: d names the first one and the first line
 * of damage about a file that is there. Returns -EBADMSG. */
CK_MUST_USE int ck_fail_none_usable(const struct ck_catalog *c,
				    const char *first, size_t n,
				    struct ck_diag *d);

/* Makes the first of these files that can be opened the metadata file. Returns 0, or the
 * error of the first one; -ESTALE if there are no names. Over several hosts it does nothing:
 * ck_checkpoint_gather() chooses the file. */
CK_MUST_USE int ck_metadata_open_first(struct ck_checkpoint *cp,
				       struct ck_catalog *c,
				       const struct ck_dir_names *names,
				       const struct ck_format_options *options,
				       struct ck_diag *d);

/* Called by load() after it has added to cp->files all files whose bytes it reads.
 * Files on other hosts can be read from then on as if they were local. If there is no
 * metadata file yet, it becomes the first file that can be used, by rank, or by number
 * if rank is NULL. Does nothing for a checkpoint on one host. Returns 0, or: -ENOMEM;
 * -ESTALE if there are no files; the error of the first file if no file can be used;
 * errors of ck_remote_source.files(). */
CK_MUST_USE int ck_checkpoint_gather(
	struct ck_checkpoint *cp, struct ck_catalog *c,
	const struct ck_format_options *options,
	uint64_t (*rank)(const struct ck_checkpoint *cp, uint32_t file),
	struct ck_diag *d);
/* The same for one more file of a checkpoint that has a metadata file. Returns 0, or:
 * -ENOMEM; errors of ck_remote_source.files(). */
CK_MUST_USE int ck_checkpoint_gather_one(struct ck_checkpoint *cp,
					 struct ck_catalog *c, uint32_t file,
					 struct ck_diag *d);
/* Called when the catalog is filled: all other files can be read from then on. Must be
 * called over several hosts only. Adds a note if a host was down and may have more
 * files. Returns 0, or: -ENOMEM; errors of ck_remote_source.files() and .opened(). */
CK_MUST_USE int ck_checkpoint_gather_all(struct ck_checkpoint *cp,
					 struct ck_catalog *c,
					 struct ck_diag *d);

/* Opens a file in a directory that the user names; follows links to any target. Returns
 * a descriptor, which the caller owns, or errors of open(2). */
CK_MUST_USE int ck_template_file(int dirfd, const char *name);
/* Fetches the files of ck_checkpoint_side_files() from all hosts. Must be
 * called before ck_checkpoint_gather_all(). A file that hosts do not have
 * equally becomes a note. Returns 0, or: -ENOMEM; other transient errors. */
CK_MUST_USE int ck_side_files_fetch(struct ck_checkpoint *cp,
				    struct ck_catalog *c);

#endif
