/* SPDX-License-Identifier: MIT */
/*
 * kind: the interface of a format. A format is a folder with one const struct ck_format. It
 * has one row of detect.c (struct ck_kind) for each way in which its checkpoints are
 * recognised. These structs are constant; states are in struct ck_checkpoint. README.md has
 * the layers of core/format, and the steps to add a format.
 */
#ifndef CK_KIND_H
#define CK_KIND_H

#include "ckptfs/format.h"
#include "rewrite.h"
#include <stdatomic.h>

/* Metadata that was fetched from another host. */
struct ck_fetched_metadata {
	struct ck_file_info info; /* its path is not set */
	void *pages; /* info.size bytes; NULL if the file is in the directory */
};

/* Bytes of a data file for which the file has a CRC-32. */
struct ck_sum {
	/* Constant: */
	uint64_t fpos, len;
	uint32_t file, crc;
	/* Atomic: the CRC-32 of the bytes, valid if `known` is not 0; and
	 * ck_files_touched() when it was computed, + 1: */
	_Atomic uint32_t found;
	_Atomic uint64_t known;
};

/* --- a format ------------------------------------------------------------------ */

struct ck_src;

/* Functions are called from one thread unless their comment names others. */
struct ck_format {
	const char *name;
	/* Text behind the name in the message that such a checkpoint cannot be
	 * written; NULL if there is no such text, or write is set. */
	const char *unwritable;
	/* Suffix of the names of data files. NULL if other files have it, too. */
	const char *suffix;
	bool has_sidecar; /* load() reads the sidecar of flat parameters */
	/* True if a file of this name may belong to such a checkpoint. NULL if names
	 * do not show it. */
	bool (*is_part)(const char *name);
	/* Status names all other files of the directory as not shown. */
	bool names_others;
	/* True if a rank writes files of this name. NULL if that is not known. */
	bool (*is_shard)(const char *name);
	/* True if load() reads all files of this name, in addition to cp->files. NULL
	 * if it reads at most the metadata file. */
	bool (*is_read)(const char *name);
	/* The name of the file that lists the data files; a commit renames a new one
	 * over it. NULL if no file has such a fixed name. */
	const char *metadata;
	/* Upper limit of the size of that file, in bytes: a sparse file must not be
	 * read for hours. */
	uint64_t metadata_most;
	/* The next three are set where write is set, see ck_shard_name() and
	 * ck_name_is_ours(). */
	void (*shard_name)(char out[static CK_NAME_LEN], uint64_t rank,
			   uint64_t generation, const char *hex);
	bool (*is_ours)(const char *name, uint64_t *generation);
	/* True if a commit may keep this unknown class without keep_unknown. */
	bool (*is_carried)(struct ck_str global);
	/* The rank that saved a data file of cp->files; CK_NO_RANK if it is not
	 * known. */
	uint64_t (*rank)(const struct ck_checkpoint *cp, uint32_t file);
	/* Bytes of a data file that are in use, but belong to no item, such as a
	 * header. NULL if there are no such bytes. */
	uint64_t (*head)(const struct ck_checkpoint *cp, uint32_t file);
	/* The sum that covers the bytes of an item that is not an archive; NULL if no
	 * sum does. The pointer is NULL if there are no such items. Any thread. */
	struct ck_sum *(*sum)(const struct ck_checkpoint *cp,
			      const struct ck_item *item);
	/* The sum of the pickle that lists the contents of a file; NULL if it has no
	 * sum. Set where sum is set. */
	struct ck_sum *(*pickle_sum)(const struct ck_checkpoint *cp,
				     uint32_t file);
	/* Sets *out to the bytes of sum number i of a data file; false if the file
	 * has i sums or fewer. NULL if all sums are of items. Any thread. */
	bool (*record)(const struct ck_checkpoint *cp, uint32_t file, size_t i,
		       struct ck_item *out);
	/* Adds all data files to cp->files, and fills the catalog except for its rows of
	 * files, which the caller adds before it calls ck_catalog_finish(). Sets the
	 * metadata file by ck_metadata_open(), ck_metadata_take() or
	 * ck_metadata_directory(). Returns 0, or errors of ck_checkpoint_open(). */
	int (*load)(struct ck_checkpoint *cp, struct ck_catalog *c,
		    const struct ck_format_options *options,
		    const struct ck_fetched_metadata *fetched,
		    struct ck_diag *d);
	/* ck_metadata_write(); NULL if such a checkpoint cannot be written. */
	int (*write)(struct ck_checkpoint *cp,
		     const struct ck_change_of_place *changes, uint32_t n,
		     int fd, struct ck_diag *d);
	/* ck_metadata_movable(); set where write is set. */
	int (*movable)(const struct ck_checkpoint *cp, uint32_t chunk,
		       struct ck_diag *d);
	/* The metadata that write() wrote last has replaced the metadata file. Set
	 * where write is set. */
	void (*switched)(struct ck_checkpoint *cp);
	/* Returns 0 if saving a checkpoint of this format has ended, or -EBADMSG; then d
	 * names the missing part. NULL: it has ended if the checkpoint opens without
	 * losses. */
	int (*complete)(const struct ck_src *src, struct ck_diag *d);
	bool of_one_host; /* such a checkpoint is not read from several hosts */
	/* No other directory looks the same: a directory with such a subdirectory is
	 * a run directory. */
	bool is_sure;
	/* Frees cp->own, which load() may have set. */
	void (*forget)(struct ck_checkpoint *cp);
};

/* --- how a checkpoint is recognised ------------------------------------------------ */

/* Levels of run directories below a source. */
enum { CK_RUN_LEVELS = 2 };

struct ck_kinds;

/* A directory or file that may be a checkpoint. */
struct ck_src {
	int dirfd; /* the directory */
	/* Parts of the directory on other hosts; or NULL. */
	struct ck_remote_source *elsewhere;
	const char *file; /* a regular file of dirfd; NULL for the directory */
	const char *kind; /* name of the only format to try; NULL for all */
	bool by_search;	  /* found by a search: only a few entries are listed */
	unsigned level;	  /* levels of subdirectories that may be steps */
	const struct ck_kinds *kinds; /* set by ck_kind_find() */
};

/* One way in which a checkpoint is recognised. */
struct ck_kind {
	/* NULL for a row that refuses directories of other programs: its holds()
	 * returns 0 or an error. */
	const struct ck_format *format;
	const char *why; /* the reason, as `status` shows it */
	/* Returns 1 if the source is such a checkpoint, 0 if not, or a negative errno
	 * if it cannot be read. */
	int (*holds)(const struct ck_src *src, struct ck_diag *d);
	/* Called if no row holds. Returns 0, or -EBADMSG if saving such a checkpoint
	 * has begun and not ended; d has the message. May be NULL. */
	int (*unfinished)(const struct ck_src *src, struct ck_diag *d);
	/* The part that the source lacks if the row does not match, for the message
	 * of kind=. May be NULL. */
	const char *missing;
	bool of_file; /* the row is about files, not directories */
};

struct ck_kinds {
	const struct ck_kind *rows;
	size_t n;
};

#endif
