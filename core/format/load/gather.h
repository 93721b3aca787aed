/* SPDX-License-Identifier: MIT */
/*
 * gather: what a format reads when it loads a checkpoint, wherever that lies: here, or some of
 * it on other hosts, whose directories are then one with that of this host. The names are
 * those of ck_dir_each(); data files are read by ck_files_get() and ck_files_read().
 */
#ifndef CK_FORMAT_GATHER_H
#define CK_FORMAT_GATHER_H

#include "../format_internal.h"

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
/* No file of n can be used: d names the first one and the first line of damage of the
 * catalog. Returns -EBADMSG. */
CK_MUST_USE int ck_say_none_is_good(const struct ck_catalog *c,
				    const char *first, size_t n,
				    struct ck_diag *d);

struct ck_metadata_text {
	void *pages; /* of ck_pages_alloc() */
	size_t len;
};

/* All of the file that is the metadata from now on, over all hosts; the caller's. Errors of
 * ck_metadata_open(), those of ck_elsewhere.metadata(), and -EBADMSG: more than `most` bytes,
 * -ESTALE: it changed meanwhile; which file that is, is said. */
CK_MUST_USE int ck_metadata_read(struct ck_checkpoint *cp, struct ck_catalog *c,
				 const char *name, uint64_t most,
				 const struct ck_format_options *options,
				 struct ck_metadata_text *out,
				 struct ck_diag *d);
/* The same of a file beside it. */
CK_MUST_USE int ck_metadata_read_other(const struct ck_checkpoint *cp,
				       const char *name, uint64_t most,
				       struct ck_metadata_text *out,
				       struct ck_diag *d);
/* The same of one that is open; and if st is known of it. */
CK_MUST_USE int ck_metadata_text_of(int fd, const char *name, uint64_t most,
				    struct ck_metadata_text *out,
				    struct ck_diag *d);
CK_MUST_USE int ck_metadata_text_read(int fd, const struct stat *st,
				      const char *name, uint64_t most,
				      struct ck_metadata_text *out,
				      struct ck_diag *d);
void ck_metadata_text_fini(struct ck_metadata_text *text);

/* The first of these that can be opened is the metadata: what is wrong with others is theirs.
 * Gives the error of the first. -ESTALE: there are none. Over hosts ck_checkpoint_gather()
 * does that. */
CK_MUST_USE int ck_metadata_open_first(struct ck_checkpoint *cp,
				       struct ck_catalog *c,
				       const struct ck_dir_names *names,
				       const struct ck_format_options *options,
				       struct ck_diag *d);

/* All files whose bytes load() reads were added to cp->files: where other hosts have some of
 * them, they can be read from now on as if they were here. If no file is the metadata by then,
 * it is the first one that can be used, by rank, or, if that is NULL, by number. */
CK_MUST_USE int ck_checkpoint_gather(
	struct ck_checkpoint *cp, struct ck_catalog *c,
	const struct ck_format_options *options,
	uint64_t (*rank)(const struct ck_checkpoint *cp, uint32_t file),
	struct ck_diag *d);
/* The same of one file more, beside a checkpoint that has its metadata. */
CK_MUST_USE int ck_checkpoint_gather_beside(struct ck_checkpoint *cp,
					    struct ck_catalog *c, uint32_t file,
					    struct ck_diag *d);
/* The catalog is filled: so are all others, and the checkpoint is open. */
CK_MUST_USE int ck_checkpoint_gather_all(struct ck_checkpoint *cp,
					 struct ck_catalog *c,
					 struct ck_diag *d);

/* Opens a file of a directory that a user names, wherever links lead. A descriptor, or errors
 * of open(2). */
CK_MUST_USE int ck_template_file(int dirfd, const char *name);
/* Brings what ck_checkpoint_others() has, of all hosts. Before the one above. -ENOMEM. */
CK_MUST_USE int ck_others_bring(struct ck_checkpoint *cp, struct ck_catalog *c);

#endif
