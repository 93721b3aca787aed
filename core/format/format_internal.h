/* SPDX-License-Identifier: MIT */
/*
 * What a format provides, one const instance for each, and what its checkpoints
 * are recognised by: rows of kinds.c.
 */
#ifndef CK_FORMAT_INTERNAL_H
#define CK_FORMAT_INTERNAL_H

#include "ckptfs/format.h"
#include "ckptfs/rewrite.h"
#include "load/names.h"
#include <stdatomic.h>

/* The metadata, where it was brought from another host. */
struct ck_brought {
	struct ck_file_info said; /* of it, but for its path */
	void *pages; /* said.size bytes; NULL: it is in the directory */
};

/* Bytes of a data file whose CRC-32 the file says. */
struct ck_sum {
	/* Constant: */
	uint64_t fpos, len;
	uint32_t file, crc;
	/* Atomic: */
	_Atomic uint32_t found; /* once it is known */
	_Atomic bool is_known;
};

struct ck_src;

struct ck_format {
	const char *name;
	/* What of it cannot be written, behind its name; NULL where there is write, or
	 * nothing of it can be. */
	const char *unwritable;
	const char *suffix; /* of data files; NULL: others have it, too */
	bool has_sidecar; /* one that says what flat parameters are made of is read */
	/* Whether a file of this name may be a part of a checkpoint of it. NULL: no name
	 * tells. */
	bool (*is_part)(const char *name);
	/* Whether a rank writes files of this name. NULL: not known. */
	bool (*is_shard)(const char *name);
	/* Whether all files of this name are read, beside those in cp->files. NULL: it is
	 * the one that gives owner and time alone. */
	bool (*is_read)(const char *name);
	/* The name of the file that says what belongs to a checkpoint: a commit
	 * renames another one over it. NULL: it has no name of its own, and lies on
	 * one host. */
	const char *metadata;
	/* None is longer: a sparse file is not read for hours. */
	uint64_t metadata_most;
	/* The next three where there is write. */
	void (*shard_name)(char out[static CK_NAME_LEN], uint64_t rank,
			   uint64_t generation, const char *hex);
	bool (*is_ours)(const char *name, uint64_t *generation);
	/* Whether a commit may keep this unknown class without keep_unknown. */
	bool (*is_carried)(struct ck_str global);
	/* The rank that saved a data file of cp->files; CK_NO_RANK: nothing
	 * tells. */
	uint64_t (*rank)(const struct ck_checkpoint *cp, uint32_t file);
	/* Bytes of a data file that belong to no item, and are of use: its header.
	 * NULL: there are none. */
	uint64_t (*head)(const struct ck_checkpoint *cp, uint32_t file);
	/* Of an item that is no archive the sum that its bytes are in; NULL: they are
	 * in none, or there are no such items. Any thread. */
	struct ck_sum *(*sum)(const struct ck_checkpoint *cp,
			      const struct ck_item *item);
	/* That of the pickle of a file, which says what is in it; NULL: it has none. Is set
	 * where sum is. */
	struct ck_sum *(*pickle_sum)(const struct ck_checkpoint *cp,
				     uint32_t file);
	/* Bytes of a data file that are in sum number i of it, as an item; false: it has
	 * no more. NULL: there are none but those of items. Any thread. */
	bool (*record)(const struct ck_checkpoint *cp, uint32_t file, size_t i,
		       struct ck_item *out);
	/* Fills the catalog, which is made, but for its files, and cp->files;
	 * finishes neither. Says which file is the metadata, by
	 * ck_metadata_open() or ck_metadata_take(). */
	int (*load)(struct ck_checkpoint *cp, struct ck_catalog *c,
		    const struct ck_format_options *options,
		    const struct ck_brought *brought, struct ck_diag *d);
	/* ck_metadata_write(); NULL if it cannot be written. */
	int (*write)(struct ck_checkpoint *cp,
		     const struct ck_change_of_place *changes, uint32_t n,
		     int fd, struct ck_diag *d);
	/* ck_metadata_movable(); where there is write. */
	int (*movable)(const struct ck_checkpoint *cp, uint32_t chunk,
		       struct ck_diag *d);
	/* What was written last is the metadata now. */
	void (*switched)(struct ck_checkpoint *cp);
	/* Of a directory that is one: 0, or what of it is not saved yet, -EBADMSG. NULL:
	 * it is complete if it can be opened and nothing is lost. */
	int (*complete)(const struct ck_src *src, struct ck_diag *d);
	bool of_one_host; /* others are not looked at */
	bool is_sure; /* nothing else looks like it: who has one below is a run */
	/* Frees cp->own, which load() may have made. */
	void (*forget)(struct ck_checkpoint *cp);
};

/* --- kinds.c ------------------------------------------------------------------- */

/* What is to be mounted. */
struct ck_src {
	int dirfd; /* the directory, */
	struct ck_elsewhere
		*elsewhere; /* with what others have of it; or NULL, */
	const char *file;   /* or this regular file of it, if it is not NULL */
	const char *kind;   /* the only one that is tried; NULL: all are */
	bool brief; /* nobody said that it is one: only a little is looked at */
	unsigned level; /* of directories below in which steps may be */
	const struct ck_kinds *kinds; /* set by ck_kind_find() */
};

enum { CK_RUN_LEVELS = 2 };

/* One way in which a checkpoint is recognised. */
struct ck_kind {
	const struct ck_format *format;
	const char *why; /* it is one, for a person */
	/* 1: it is one, 0: it is none; a negative errno: nobody can tell. */
	int (*holds)(const struct ck_src *src, struct ck_diag *d);
	/* No row of any kind holds. 0, or -EBADMSG: saving one of this kind did
	 * not end, which d says. NULL: nothing tells. */
	int (*unfinished)(const struct ck_src *src, struct ck_diag *d);
	/* For a person, where it does not hold: what is missing; of a directory, or
	 * of a file. NULL: it says nothing. */
	const char *missing;
	bool of_file;
};

struct ck_kinds {
	const struct ck_kind *rows;
	size_t n;
};

/* All that there are, in the contract's order (section 10.1). */
extern const struct ck_kinds ck_kinds;

/* The first row that holds, of src->kind. -ENOENT: none does; errors of its look. */
CK_MUST_USE int ck_kind_find(const struct ck_kinds *kinds,
			     const struct ck_src *src,
			     const struct ck_kind **out, struct ck_diag *d);
/* After that: 0, or -EBADMSG, see ck_kind.unfinished. */
CK_MUST_USE int ck_kind_unfinished(const struct ck_kinds *kinds,
				   const struct ck_src *src, struct ck_diag *d);
/* After that, with src->kind: says into d what is missing for one of that kind, and
 * what it is. -EBADMSG. */
CK_MUST_USE int ck_kind_missing(const struct ck_kinds *kinds,
				const struct ck_src *src, struct ck_diag *d);

/* ck_checkpoint_open() with kinds that others have made up. */
CK_MUST_USE int ck_checkpoint_open_as(const char *path,
				      const struct ck_format_options *options,
				      const struct ck_kinds *kinds,
				      struct ck_checkpoint **out,
				      struct ck_diag *d);

int ck_run_is_sure(const struct ck_src *src, struct ck_diag *d);
int ck_run_is_here(const struct ck_src *src, struct ck_diag *d);
int ck_dcp_is_here(const struct ck_src *src, struct ck_diag *d);
int ck_dcp_is_unfinished(const struct ck_src *src, struct ck_diag *d);
int ck_dcp_has_ranks(const struct ck_src *src, struct ck_diag *d);
int ck_safetensors_has_index(const struct ck_src *src, struct ck_diag *d);
int ck_safetensors_has_files(const struct ck_src *src, struct ck_diag *d);
int ck_safetensors_is_file(const struct ck_src *src, struct ck_diag *d);
int ck_torch_has_index(const struct ck_src *src, struct ck_diag *d);
int ck_torch_has_pieces(const struct ck_src *src, struct ck_diag *d);
int ck_torch_has_files(const struct ck_src *src, struct ck_diag *d);
int ck_torch_is_file(const struct ck_src *src, struct ck_diag *d);
int ck_ranks_has_family(const struct ck_src *src, struct ck_diag *d);

/* --- object_value.c ----------------------------------------------------------- */

/* Appends the value of a pickle as JSON, and a newline. */
CK_MUST_USE int ck_value_json(struct ck_str pickle, struct ck_buf *out,
			      struct ck_diag *d);
/* The archive around the value that an object of CK_FORM_VALUE is, see
 * ck_object_item(). */
CK_MUST_USE int ck_value_archive(const struct ck_object *o, struct ck_buf *out,
				 struct ck_object_gaps *gaps,
				 struct ck_diag *d);

/* What to look at. */
struct ck_look {
	const struct ck_catalog *catalog; /* whose these are: */
	const struct ck_item *item;
	const struct ck_tensor *tensor; /* NULL: another entry's item */
	uint32_t box;			/* of the tensor */
	struct ck_str pickle;		/* of a CK_FORM_VALUE */
	void *buffer;			/* NULL: not at the bytes */
	size_t buffer_len;
	/* fpos: in the file, of what is wrong. */
	void (*fault)(void *ctx, uint64_t fpos, const struct ck_diag *d);
	void *ctx;
};

/* Looks at all of one item: is it what its box wants, and with look->buffer,
 * are its bytes those that were written? What is wrong with it goes to
 * look->fault; errors are of this process only. */
CK_MUST_USE int ck_look_at_item(struct ck_checkpoint *cp,
				const struct ck_look *look);

extern const struct ck_format ck_format_dcp, ck_format_dcp_ranks,
	ck_format_safetensors, ck_format_torch, ck_format_ranks, ck_format_run;

/* No format knows the directory: says into d what it is, and which
 * directories below it, by `path`, are checkpoints. -EBADMSG; -ENOMEM. */
CK_MUST_USE int ck_say_what_is_here(const struct ck_kinds *kinds, int dirfd,
				    const char *path, struct ck_diag *d);

/* The same of a file of no kind. */
CK_MUST_USE int ck_say_what_file(const struct ck_src *src, struct ck_diag *d);

/* Layouts found so far, one list for each checkpoint. */
struct ck_layouts *ck_layouts_make(const struct ck_catalog *c);
void ck_layouts_free(struct ck_layouts *l);
/* What is known of a data file, as a row of the catalog. */
struct ck_data_file ck_file_described(const struct ck_checkpoint *cp,
				      uint32_t number);
/* The next catalog, which it takes, is the present one from now on. cp->changing
 * is held. metadata: the file is another one, too; or NULL. */
void ck_checkpoint_publish(struct ck_checkpoint *cp,
			   const struct ck_catalog *next,
			   const struct stat *metadata);

/* --- metadata.c ---------------------------------------------------------------- */

/* Opens the file that is the checkpoint's metadata from now on, which must be a
 * regular one, and notes which it is, its owner, mode and time. The caller's
 * descriptor. Errors of open(2) and, if it is no file, -EBADMSG. */
CK_MUST_USE int ck_metadata_open(struct ck_checkpoint *cp, struct ck_catalog *c,
				 const char *name,
				 const struct ck_format_options *options,
				 const struct ck_brought *brought, int *fd,
				 struct ck_diag *d);
/* The same of one that was brought from another host; of that nobody has a
 * stat. */
CK_MUST_USE int ck_metadata_take(struct ck_checkpoint *cp, struct ck_catalog *c,
				 const char *name,
				 const struct ck_brought *brought,
				 struct ck_diag *d);
/* The metadata is the directory. -ENOMEM; errors of stat(2). */
CK_MUST_USE int ck_metadata_directory(struct ck_checkpoint *cp,
				      struct ck_catalog *c);
/* Opens it again, if it is the file that was read or switched to, else -ESTALE. */
CK_MUST_USE int ck_metadata_open_again(const struct ck_checkpoint *cp, int *fd,
				       struct stat *st, struct ck_diag *d);
/* 1: the metadata is another file than `was`, which load() or a commit set in
 * cp->metadata, 0: it is that; errors of stat(2). A save renames a new file over
 * the old one; whoever writes in place changes size or time. */
CK_MUST_USE int ck_metadata_changed(const struct ck_checkpoint *cp,
				    const struct stat *was);
CK_MUST_USE bool ck_metadata_is_same(const struct stat *a,
				     const struct stat *b);

/* Who may read .metadata and the directory. NULL: out of memory. Free it. */
struct ck_access *ck_access_make(const struct ck_catalog *c);
/* As it is now; its ACL is looked at, too. Nothing is noted before there is
 * cp->access. Any thread. */
void ck_access_note_metadata(const struct ck_checkpoint *cp,
			     const struct stat *st);
/* Which bits of its mode copies on other hosts take. */
mode_t ck_metadata_closed(const struct ck_checkpoint *cp);
/* ck_metadata_changed() where it is on another host. */
int ck_metadata_changed_far(const struct ck_checkpoint *cp);
void ck_access_note_directory(const struct ck_checkpoint *cp);
/* The mode that the directories of the tree have: as above, but before there is
 * cp->access. Errors of stat(2). */
CK_MUST_USE int ck_directory_mode(const struct ck_checkpoint *cp, mode_t *mode);
/* A catalog that nobody has yet says what is known now of who may read, and of files
 * that were seen by now; *changed: it said something else. After -ENOMEM it says
 * partly this, partly that. */
CK_MUST_USE int ck_access_correct(struct ck_checkpoint *cp,
				  struct ck_catalog *next, bool *changed);
/* The present catalog says something else than the one before. */
void ck_access_renewed(struct ck_checkpoint *cp);
/* Takes over what was found out about files that nobody could look at before.
 * Without memory it is taken over later. */
void ck_checkpoint_learn(struct ck_checkpoint *cp);

/* A tensor has another version: the layout of the one before is not to be given
 * out. */
void ck_layouts_forget(struct ck_checkpoint *cp, uint32_t tensor);
#endif
