/* SPDX-License-Identifier: MIT */
/*
 * format: where bytes are. A format reads a checkpoint's directory into a
 * catalog, and finds the elements inside the items that the catalog names.
 * Nothing from a checkpoint is ever executed.
 */
#ifndef CKPTFS_FORMAT_H
#define CKPTFS_FORMAT_H

#include "ckptfs/fault.h"
#include "ckptfs/items.h"
#include "ckptfs/layout.h"
#include "ckptfs/reach.h"
#include "ckptfs/remote_source.h"
#include "ckptfs/rename.h"
#include "ckptfs/source.h"
#include <pthread.h>

struct ck_format;	/* core/format/kind.h */
struct ck_others;	/* others.h */
struct ck_metadata_sum; /* core/format/current/metadata_sum.c */

struct ck_format_options {
	enum ck_beneath shardlinks;
	/* A directory: links to files beneath it are followed, too; not with
	 * elsewhere. NULL: none is. Owned. */
	char *linkroot;
	/* A file that says what flat parameters are made of; NULL: one that lies with
	 * them does. Owned. */
	char *sidecar;
	/* A file with names that entries are shown as, see rename.h; NULL: there is none.
	 * Owned. renames: the map, if it was read already; held. */
	char *rename;
	const struct ck_renames *renames;
	/* See ck_kind_named(); NULL: any. */
	const char *kind;
	bool write; /* with what ck_writer_open() needs */
	/* Parts of the directory that are on other hosts, not with write; the
	 * caller's, and outlives the checkpoint. NULL: there are none. */
	struct ck_remote_source *elsewhere;
	/* Set by ck_run_open(): data files kept open at most, 0: as many as is good; how
	 * many run directories it lies in. */
	uint32_t files_most;
	unsigned in_runs;
};

static inline void ck_format_options_fini(struct ck_format_options *o)
{
	free(o->linkroot);
	free(o->sidecar);
	free(o->rename);
	ck_renames_put(o->renames);
	o->linkroot = o->sidecar = o->rename = NULL;
	o->renames = NULL;
}

/* One checkpoint that is open: its directory, its data files, what is in it.
 * Threads: everything below may be used from any thread. */
struct ck_checkpoint {
	/* Constant: */
	const struct ck_format *format;
	const char *why; /* how the format was recognised, for a person */
	int dirfd;
	int linkroot; /* descriptor of that directory; -1: there is none */
	struct ck_reach reach; /* of those two */
	char *file; /* NULL; or the checkpoint is this one, of the directory */
	char *path; /* of that, or of the directory; absolute */
	struct ck_remote_source *elsewhere;
	char *metadata_name; /* see ck_metadata_name() */
	bool nowhere;	     /* no such directory here: dirfd is an empty one */
	bool write;	     /* it was opened for that */
	bool metadata_far;   /* is on another host, */
	uint32_t metadata_file; /* and this one of files; or CK_NO_FILE */
	dev_t dev;		/* of the directory */
	ino_t ino;

	/* Private: */
	pthread_mutex_t changing; /* one at a time makes the next catalog */
	pthread_mutex_t lock;
	/* Under lock: */
	const struct ck_catalog *catalog; /* the present one */
	struct ck_others
		*others;      /* constant; NULL: nobody has asked for them */
	struct stat metadata; /* of the file that was read, or made last */
	struct ck_metadata_sum *metadata_sum; /* private; or NULL */
	/* Of the format, from its load() to its forget(): its own, and it says
	 * who may use it when. */
	void *own;

	/* Each locks itself, or is atomic: */
	struct ck_files *files;		  /* numbers as in catalog->files */
	struct ck_layouts *layouts;	  /* found so far; private */
	struct ck_items_read *items_read; /* private */
	struct ck_blobs *blobs;	    /* headers of some data files; private */
	struct ck_undones *undones; /* archives of runs; private */
	struct ck_remarks *remarks; /* facts found in items; private */
	struct ck_access *access;   /* private: as it was last seen */
};

/* Opens the checkpoint that is the directory or file `path`: finds its format, reads its metadata,
 * looks at every file named. Damage of single tensors is in the catalog and no error. -ENOENT,
 * -ENOTDIR, -EBADMSG (unknown, malformed or dangerous metadata), -ENOMEM, errors of open(2). */
CK_MUST_USE int ck_checkpoint_open(const char *path,
				   const struct ck_format_options *options,
				   struct ck_checkpoint **out,
				   struct ck_diag *d);
void ck_checkpoint_close(struct ck_checkpoint *cp);
/* A kind of checkpoints by its name, as options have it: a constant. -EINVAL: this version
 * reads none of that name. */
CK_MUST_USE int ck_kind_named(const char *name, const char **out,
			      struct ck_diag *d);
/* Appends the line of `status` that names what lies beside in the directory and is of no
 * use to it, if there is anything: parts of checkpoints of other kinds, files that an index
 * leaves out. Looks into the directory. */
void ck_checkpoint_print_beside(struct ck_checkpoint *cp, struct ck_buf *out);
/* The name of its format, a constant. */
const char *ck_checkpoint_kind(const struct ck_checkpoint *cp);
/* What is in it, as of the last commit. It stays what it is; put it back. Waits
 * for nobody. */
const struct ck_catalog *ck_checkpoint_catalog(const struct ck_checkpoint *cp);
/* The name of the file that gives the checkpoint its owner, times and modes:
 * another one means that it was saved anew. */
const char *ck_metadata_name(const struct ck_checkpoint *cp);
/* Whether the directory of fd is the checkpoint's, or lies in it; what lies beside a checkpoint
 * that is a file does not. Closes fd. */
CK_MUST_USE bool ck_checkpoint_holds(const struct ck_checkpoint *cp, int fd);
/* The metadata file that was read, or made by the last commit. */
struct stat ck_checkpoint_metadata(const struct ck_checkpoint *cp);
/* 0: the metadata is the file that was read. -ESTALE: it is another one, or
 * gone; errors of stat(2) as they are. d says which. */
CK_MUST_USE int ck_checkpoint_same(const struct ck_checkpoint *cp,
				   struct ck_diag *d);

/* What became of a checkpoint since it was read. */
enum ck_fate {
	CK_FATE_NONE,
	CK_FATE_SAVED,	      /* other metadata: saved anew */
	CK_FATE_NO_METADATA,  /* there is none any more */
	CK_FATE_NO_DIRECTORY, /* the directory was removed */
	CK_FATE_MOVED,	      /* it has another path; all is served */
	CK_FATE_UNSEEN,	      /* the metadata cannot be looked at */
};

/* Looks at the metadata and where the directory is. *err is a positive errno of
 * CK_FATE_UNSEEN, else 0. */
CK_MUST_USE enum ck_fate ck_checkpoint_fate(struct ck_checkpoint *cp, int *err);
/* Looks at the files of these items of a catalog of it, as an open does. */
void ck_checkpoint_look(struct ck_checkpoint *cp, struct ck_items items);
/* Compares the access rights of the metadata, the directory and the files of these items with
 * the current catalog, and publishes a corrected one if they differ. Does no I/O: the rights
 * are those of the last ck_checkpoint_fate(), and of files those of their last use. -ENOMEM. */
CK_MUST_USE int ck_checkpoint_renew_access(struct ck_checkpoint *cp,
					   struct ck_items items);
/* How often that was done, here or by a commit. */
uint64_t ck_checkpoint_access(const struct ck_checkpoint *cp);
/* Dead bytes: those of data files that belong to no item, and files beside them that have the
 * name of a data file and are named by nothing. An error of open(2): the directory cannot be
 * listed, and *bytes has the former only; -ENOMEM. */
CK_MUST_USE int ck_checkpoint_dead(struct ck_checkpoint *cp, uint64_t *bytes);
/* Data files that could not be looked at, or opened, when the checkpoint was:
 * one line of the log, if there are any. */
void ck_checkpoint_log_troubles(const struct ck_checkpoint *cp);
/* False: of some data files nobody knows size, mode and time yet. Those that
 * use them find out; then modes and times in the catalog change. */
bool ck_checkpoint_is_seen(const struct ck_checkpoint *cp);

/* Finds where the boxes of a tensor of a catalog of it, the present one or an older one, lie
 * that a window of it touches (ndim offsets, ndim sizes; NULL: all of it): reads the headers
 * of their items only, and compares each with its box. The result is shared; put it back. It
 * is good as long as the checkpoint, unless it is old. Faults of single boxes are in the
 * extents (and logged once). Returns 0, or: -ENOMEM, -EMFILE and other shortages of this
 * process; -EREMOTE if bytes of remote files must be fetched first, see ck_files_read(). Boxes
 * with a transient error are looked at again by the next call. May block on the source. */
CK_MUST_USE int ck_layout_get(struct ck_checkpoint *cp,
			      const struct ck_catalog *c, uint32_t tensor,
			      const uint64_t *window,
			      const struct ck_layout **out);
void ck_layout_put(struct ck_checkpoint *cp, const struct ck_layout *layout);
/* Whether a change of the ctime of one of its files was seen since the layout was found: then
 * ck_layout_get() reads the headers of the items in that file again. Reads nothing. */
CK_MUST_USE bool ck_layout_is_old(const struct ck_checkpoint *cp,
				  const struct ck_layout *layout);
/* The layout of a tensor as a catalog has it, if one is kept that is not old, else NULL;
 * reads nothing. Put it back. */
const struct ck_layout *ck_layout_known(struct ck_checkpoint *cp,
					const struct ck_catalog *c,
					uint32_t tensor);
/* How many items there are, and of how many the header was read. */
void ck_layouts_count(struct ck_checkpoint *cp, uint64_t *seen,
		      uint64_t *items);
/* What is wrong with box i of a tensor: what the catalog knows, and with a
 * layout what was found in its item, or that its file has changed. Fields are
 * valid as long as the layout, and until other text is shown. */
CK_MUST_USE bool ck_box_has_fault(struct ck_checkpoint *cp,
				  const struct ck_catalog *c,
				  const struct ck_layout *layout,
				  uint32_t tensor, uint32_t i,
				  struct ck_fault *out);

/* Why bytes of a data file that lies on other hosts cannot be had now, as ck_shown(); NULL:
 * they can, or nothing is known. Any thread. */
const char *ck_checkpoint_away(const struct ck_checkpoint *cp, uint32_t file);
/* The name of the host on which a data file is read; NULL: there are not several, or it is
 * on none. Any thread. */
const char *ck_checkpoint_host(const struct ck_checkpoint *cp, uint32_t file);

/* A fault of an entry's item is in the catalog, or was found by
 * ck_object_json() before. */
bool ck_object_known_faulty(const struct ck_checkpoint *cp, uint32_t object);
/* Looks at the item and appends what is wrong with it as one line, see
 * ck_fault_print(); nothing if nothing is. May block on the source. */
CK_MUST_USE int ck_object_print_fault(struct ck_checkpoint *cp, uint32_t object,
				      bool name, struct ck_buf *out);

/* --- check: everything that can be found to be wrong ------------------------- */

struct ck_check_progress {
	uint64_t items, items_total;
	uint64_t bytes, bytes_total; /* of items, as stored */
};

struct ck_check_options {
	bool full;	  /* all bytes of all items, not headers only */
	unsigned threads; /* at least 1 */
	/* From time to time, from one thread at a time; may be NULL. */
	void (*progress)(void *arg, const struct ck_check_progress *p);
	void *arg;
};

struct ck_findings {
	struct ck_fault *faults; /* by name in natural order, then by place */
	size_t n;
	uint64_t items;	       /* whose header was read */
	uint64_t items_total;  /* that the checkpoint has */
	struct ck_arena arena; /* the texts that are not the catalog's */
	const struct ck_catalog *catalog; /* held */
	size_t cap;			  /* private */
};

/* Looks at everything. 0 also if faults were found; -ENOMEM and the like
 * when it could not look. The findings may not outlive the checkpoint. */
CK_MUST_USE int ck_checkpoint_check(struct ck_checkpoint *cp,
				    const struct ck_check_options *options,
				    struct ck_findings *out, struct ck_diag *d);
void ck_findings_fini(struct ck_findings *f);
/* Copies a fault with its texts; names and boxes are the catalog's. Sort when all are
 * added. -ENOMEM. */
CK_MUST_USE int ck_findings_add(struct ck_findings *out,
				const struct ck_fault *f);
void ck_findings_sort(struct ck_findings *f);

/* --- entries that are no tensors --------------------------------------------- */

/* Appends entry `object` of the catalog as JSON, as the contract's section 5
 * has it, with a newline. -EBADMSG: malformed, dangerous, nested too deep, or
 * longer than its size allows; -ENODATA, -ESTALE, errors of open(2) and of
 * the source as they are. Nothing is appended on error. May block on the
 * source. */
CK_MUST_USE int ck_object_json(struct ck_checkpoint *cp, uint32_t object,
			       struct ck_buf *out, struct ck_diag *d);

/* Bytes of a data file. */
struct ck_object_place {
	uint32_t file; /* number in catalog->files */
	uint64_t fpos;
	uint64_t length;
};

/* Where the item of an entry lies: 1 if those bytes are the item, 0 if they
 * are transformed, or have others around it, and ck_object_item() must be asked, a
 * negative errno if nobody has it. */
CK_MUST_USE int ck_object_place(const struct ck_checkpoint *cp, uint32_t object,
				struct ck_object_place *out);
/* Looks at the file of an entry's item: 0, or what is wrong with it, as of
 * ck_object_item(). */
CK_MUST_USE int ck_object_look(struct ck_checkpoint *cp, uint32_t object,
			       struct ck_diag *d);

/* Bytes of a data file that belong into a text before its byte `at`. */
struct ck_object_gap {
	size_t at;
	struct ck_object_place place;
};

struct ck_object_gaps {
	struct ck_object_gap *list; /* in order; free() it */
	uint32_t n;
};

/* Appends what torch.load opens, less the gaps in it, which the caller frees also
 * after an error: the item, its stream transforms undone; of a value of a larger
 * pickle an archive of its own, whose gaps are the storages that it refers to. */
CK_MUST_USE int ck_object_item(struct ck_checkpoint *cp, uint32_t object,
			       struct ck_buf *out, struct ck_object_gaps *gaps,
			       struct ck_diag *d);

#endif
