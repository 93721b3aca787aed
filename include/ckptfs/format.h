/* SPDX-License-Identifier: MIT */
/*
 * format: from files to a catalog. A format reads the directory of a checkpoint into a
 * catalog, and finds elements inside the items that the catalog names. Never executes anything
 * from a checkpoint.
 *
 * A checkpoint is opened once, and has one current catalog at a time. A commit or a change of
 * access rights publishes the next one. Any thread may use an open checkpoint.
 */
#ifndef CKPTFS_FORMAT_H
#define CKPTFS_FORMAT_H

#include "base/system/reach.h"
#include "ckptfs/layout.h"
#include "ckptfs/source.h"
#include "model/catalog/fault.h"
#include "model/catalog/items.h"
#include "model/catalog/rename.h"
#include "source/remote_source.h"
#include <pthread.h>

struct ck_format;	/* core/format/kind.h */
struct ck_side_files;	/* side_files.h */
struct ck_metadata_sum; /* core/format/current/metadata_sum.c */

struct ck_format_options {
	enum ck_beneath shardlinks;
	/* Follow links to files beneath this directory, or NULL; not with elsewhere. Owned. */
	char *linkroot;
	/* A file that describes flat parameters; NULL: the one beside them. Owned. */
	char *sidecar;
	/* A file with the names that entries are shown as, see rename.h; NULL: no file. Owned.
	 * `renames` is the parsed map if it was read already; holds a reference. */
	char *rename;
	const struct ck_renames *renames;
	/* Patterns of the names that are shown, see selection.h; NULL: all. Owned.
	 * `selection` is made of them if it was not yet; holds a reference. */
	char *only, *exclude;
	const struct ck_selection *selection;
	const char *kind; /* see ck_kind_named(); NULL: any */
	bool write;	  /* opens what ck_writer_open() needs */
	/* Parts of the directory that are on other hosts; not together with `write`. NULL: all
	 * are local. Caller owns it; it must outlive the checkpoint. */
	struct ck_remote_source *elsewhere;
	/* Set by ck_run_open(): most data files kept open, 0: the default; and the number of
	 * run directories that contain the checkpoint. */
	uint32_t files_most;
	unsigned in_runs;
};

CK_EXPORT void ck_format_options_fini(struct ck_format_options *o);

/* An open checkpoint: its directory, its data files and its current catalog. Any thread may
 * call all functions below. */
struct ck_checkpoint {
	/* Constant: */
	const struct ck_format *format;
	const char *why; /* how the format was recognised, for messages */
	int dirfd;
	int linkroot;	       /* descriptor of options.linkroot, or -1 */
	struct ck_reach reach; /* of dirfd and linkroot */
	char *file;	       /* base name of a single file; else NULL */
	char *path; /* absolute path of that file, or of the directory */
	struct ck_remote_source *elsewhere;
	char *metadata_name;	/* see ck_metadata_name() */
	bool no_local_dir;	/* dirfd is an empty directory */
	bool write;		/* opened for writing */
	bool metadata_remote;	/* The metadata file is on another host. */
	uint32_t metadata_file; /* in `files`; CK_NO_FILE: local */
	dev_t dev;		/* of the directory */
	ino_t ino;

	/* Private: */
	pthread_mutex_t changing; /* held while the next catalog is made */
	pthread_mutex_t lock;
	/* Under lock: */
	const struct ck_catalog *catalog;     /* the current one */
	struct ck_side_files *side_files;     /* NULL until requested */
	struct stat metadata;		      /* at the last load or commit */
	struct ck_metadata_sum *metadata_sum; /* private; or NULL */
	/* State of the format from its load() to its forget(); the format defines which
	 * threads may use it. */
	void *own;

	/* Each has its own lock, or is atomic: */
	struct ck_files *files;		  /* numbers as in catalog->files */
	struct ck_layouts *layouts;	  /* private: cache of layouts */
	struct ck_items_read *items_read; /* private */
	struct ck_blobs *blobs;	    /* private: headers of some data files */
	struct ck_undones *undones; /* private: archives of runs */
	struct ck_remarks *remarks; /* private: facts found in items */
	struct ck_access *access;   /* private: at the last check */
};

/* Opens the checkpoint that is the directory or file `path`: detects its format, reads its
 * metadata and stats every file that it names. Damage of single tensors is recorded in the
 * catalog and is not an error. Returns 0, or: -ENOENT; -ENOTDIR; -EBADMSG if the metadata is
 * unknown, malformed or dangerous; -ENOMEM; errors of open(2). Caller must call
 * ck_checkpoint_close(). */
CK_MUST_USE int ck_checkpoint_open(const char *path,
				   const struct ck_format_options *options,
				   struct ck_checkpoint **out,
				   struct ck_diag *d);
void ck_checkpoint_close(struct ck_checkpoint *cp);
/* Sets *out to the constant name of a kind, as in options.kind. Returns 0, or -EINVAL if this
 * version reads no kind of that name. */
CK_MUST_USE int ck_kind_named(const char *name, const char **out,
			      struct ck_diag *d);
/* Appends the line of `status` about files in the directory that the checkpoint does not use,
 * if there are any: parts of checkpoints of other kinds, files that an index omits. Reads the
 * directory. */
void ck_checkpoint_print_unshown(struct ck_checkpoint *cp, struct ck_buf *out);
/* Name of its format, a constant. */
const char *ck_checkpoint_kind(const struct ck_checkpoint *cp);
/* Returns 0 if tensors of checkpoints of its kind can be written, or -EOPNOTSUPP. */
CK_MUST_USE int ck_checkpoint_can_be_written(const struct ck_checkpoint *cp,
					     struct ck_diag *d);
/* Current catalog: that of the last commit. Never blocks on I/O. Caller must call
 * ck_catalog_put(). A catalog never changes. */
const struct ck_catalog *ck_checkpoint_catalog(const struct ck_checkpoint *cp);
/* Name of the file that gives the checkpoint its owner, times and modes. If this file is
 * replaced, the checkpoint was saved again. */
const char *ck_metadata_name(const struct ck_checkpoint *cp);
/* True if the directory `fd` is the directory of the checkpoint or beneath it; false for a
 * checkpoint that is a single file. Closes fd. */
CK_MUST_USE bool ck_checkpoint_holds(const struct ck_checkpoint *cp, int fd);
/* Stat of the metadata file, of the load or the last commit. */
struct stat ck_checkpoint_metadata(const struct ck_checkpoint *cp);
/* Compares the metadata file with the one that was read. Returns 0 if it is the same, or:
 * -ESTALE if it was replaced or removed; errors of stat(2). d has the reason. */
CK_MUST_USE int ck_checkpoint_same(const struct ck_checkpoint *cp,
				   struct ck_diag *d);

/* State of a checkpoint on disk, compared with its state when it was read. */
enum ck_fate {
	CK_FATE_NONE,
	CK_FATE_SAVED,	      /* other metadata: saved again */
	CK_FATE_NO_METADATA,  /* the metadata was removed */
	CK_FATE_NO_DIRECTORY, /* the directory was removed */
	/* moved to another path; all files are still served */
	CK_FATE_MOVED,
	CK_FATE_UNSEEN, /* stat of the metadata failed */
};

/* Stats the metadata and the directory. Sets *err to the positive errno if CK_FATE_UNSEEN,
 * else to 0. */
CK_MUST_USE enum ck_fate ck_checkpoint_fate(struct ck_checkpoint *cp, int *err);
/* Checks the files of these items, as an open does, and updates their access rights. `items`
 * must be of a catalog of this checkpoint. */
void ck_checkpoint_stat_items(struct ck_checkpoint *cp, struct ck_items items);
/* Compares the access rights of the metadata, the directory and the files of these items
 * with the current catalog, and publishes a corrected one if they differ. Does no I/O: the
 * rights are those of the last ck_checkpoint_fate(), and of files those of their last use.
 * -ENOMEM. */
CK_MUST_USE int ck_checkpoint_renew_access(struct ck_checkpoint *cp,
					   struct ck_items items);
/* Number of catalogs with corrected access rights, published here or by a commit. */
uint64_t ck_checkpoint_access(const struct ck_checkpoint *cp);
/* Sets *bytes to the unreferenced bytes: those in data files that no item uses, and files
 * named like data files that the metadata does not reference. Returns 0, or: -ENOMEM; an error
 * of open(2) if the directory cannot be listed, *bytes is then of data files only. */
CK_MUST_USE int ck_checkpoint_dead(struct ck_checkpoint *cp, uint64_t *bytes);
/* Logs one line if the stat or open of data files failed when the checkpoint was opened. */
void ck_checkpoint_log_troubles(const struct ck_checkpoint *cp);
/* False if size, mode and time of some data files are still unknown. The first use of such a
 * file records them; modes and times in the catalog then change. */
bool ck_checkpoint_is_seen(const struct ck_checkpoint *cp);

/*
 * Sets *out to the layout of the boxes of a tensor that a window touches (ndim offsets, ndim
 * sizes; NULL: the whole tensor). `c` is the current catalog or an older one. Reads only the
 * headers of the items, and compares each with its box. Faults of single boxes are in the
 * extents, and logged once. Boxes with a transient error are located again by the next call.
 * May block on local files.
 *
 * Returns 0, or: -ENOMEM, -EMFILE and other shortages of this process; -EREMOTE if remote
 * ranges must be fetched first, see ck_files_read(). Caller must call ck_layout_put(). The
 * result is shared, and valid as long as the checkpoint unless it is outdated.
 */
CK_MUST_USE int ck_layout_get(struct ck_checkpoint *cp,
			      const struct ck_catalog *c, uint32_t tensor,
			      const uint64_t *window,
			      const struct ck_layout **out);
void ck_layout_put(struct ck_checkpoint *cp, const struct ck_layout *layout);
/* True if a file of the layout changed its ctime after the layout was found: ck_layout_get()
 * then reads the headers of the items in that file again. Does no I/O. */
CK_MUST_USE bool ck_layout_is_old(const struct ck_checkpoint *cp,
				  const struct ck_layout *layout);
/* Cached layout of a tensor of a catalog, or NULL if it is not cached or is outdated. Does no
 * I/O. Caller must call ck_layout_put(). */
const struct ck_layout *ck_layout_known(struct ck_checkpoint *cp,
					const struct ck_catalog *c,
					uint32_t tensor);
/* Counts the items, and those whose header was read. */
void ck_layouts_count(struct ck_checkpoint *cp, uint64_t *seen,
		      uint64_t *items);
/* True if box i of a tensor has a fault, which *out then describes: a fault in the catalog,
 * and with a layout also one found in its item, or a file that has changed. Fields of *out are
 * valid as long as the layout, and until the thread calls ck_shown() again. */
CK_MUST_USE bool ck_box_has_fault(struct ck_checkpoint *cp,
				  const struct ck_catalog *c,
				  const struct ck_layout *layout,
				  uint32_t tensor, uint32_t i,
				  struct ck_fault *out);

/* Reason why a remote data file cannot be read now, as ck_shown(); NULL if it can, or no
 * failure is known. Any thread. */
const char *ck_checkpoint_down(const struct ck_checkpoint *cp, uint32_t file);
/* Host from which a data file is read; NULL: only one host, or no host has it. Any thread. */
const char *ck_checkpoint_host(const struct ck_checkpoint *cp, uint32_t file);

/* True if a fault of the item is in the catalog, or was found by ck_object_json(). */
bool ck_object_known_faulty(const struct ck_checkpoint *cp, uint32_t object);
/* Checks the item and appends its fault as one line, see ck_fault_print(); appends nothing if
 * it has no fault. May block on local files. Returns 0 or an error. */
CK_MUST_USE int ck_object_print_fault(struct ck_checkpoint *cp, uint32_t object,
				      bool name, struct ck_buf *out);

/* --- check: everything that can be found to be wrong ------------------------- */

struct ck_check_progress {
	uint64_t items, items_total;
	uint64_t bytes, bytes_total; /* of items, as stored */
};

struct ck_check_options {
	bool full;	  /* read all bytes of all items, not only headers */
	unsigned threads; /* at least 1 */
	/* Called before the first item and after each, by one thread at a time; may be
	 * NULL. */
	void (*progress)(void *arg, const struct ck_check_progress *p);
	void *arg;
};

struct ck_findings {
	struct ck_fault *faults; /* by natural order of names, then location */
	size_t n;
	uint64_t items;	       /* items whose header was read */
	uint64_t items_total;  /* items of the checkpoint */
	struct ck_arena arena; /* texts that are not in the catalog */
	const struct ck_catalog *catalog; /* holds a reference */
	size_t cap;			  /* private */
};

/* Checks all items. Returns 0, also if there are faults, or: -ENOMEM and other errors that
 * prevent the check. Caller must call ck_findings_fini() before the checkpoint is closed. */
CK_MUST_USE int ck_checkpoint_check(struct ck_checkpoint *cp,
				    const struct ck_check_options *options,
				    struct ck_findings *out, struct ck_diag *d);
void ck_findings_fini(struct ck_findings *f);
/* Copies a fault and its texts; names and boxes belong to the catalog. Call ck_findings_sort()
 * when all are added. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_findings_add(struct ck_findings *out,
				const struct ck_fault *f);
void ck_findings_sort(struct ck_findings *f);

/* --- entries that are no tensors --------------------------------------------- */

/* Append object `object` of the catalog as one line of JSON, with a newline, in the form that
 * ckptfs(5) describes; or its pickle. Append nothing on error. May block on files. Return 0, or:
 * -EBADMSG if malformed, dangerous, nested too deep, or longer than its size allows; -ENODATA;
 * -ESTALE; errors of open(2) and of the source. */
CK_MUST_USE int ck_object_json(struct ck_checkpoint *cp, uint32_t object,
			       struct ck_buf *out, struct ck_diag *d);
CK_MUST_USE int ck_object_pickle(struct ck_checkpoint *cp, uint32_t object,
				 struct ck_buf *out, struct ck_diag *d);

struct ck_object_place { /* bytes of a data file */
	uint32_t file;	 /* number in catalog->files */
	uint64_t fpos, length;
};

/* Sets *out to the location of the item of an object. Returns 1 if those bytes are the item; 0
 * if they are transformed or part of a larger pickle: use ck_object_item(); or a negative errno
 * if the item has an err other than EBADMSG. */
CK_MUST_USE int ck_object_place(const struct ck_checkpoint *cp, uint32_t object,
				struct ck_object_place *out);
/* Checks the file of the item of an object. Returns 0, or an error of ck_object_item(). */
CK_MUST_USE int ck_object_stat(struct ck_checkpoint *cp, uint32_t object,
			       struct ck_diag *d);

/* Bytes of a data file that must be inserted into a text before its byte `at`. */
struct ck_object_gap {
	size_t at;
	struct ck_object_place place;
};

struct ck_object_gaps {
	struct ck_object_gap *list; /* by ascending `at`; for free() */
	uint32_t n;
};

/* Appends the bytes of a file for torch.load, without its gaps: the item after its stream
 * transforms are undone, or for a value of a larger pickle an archive of its own, whose gaps
 * are its storages. Caller frees the gaps, also after an error. Errors as of ck_object_json(). */
CK_MUST_USE int ck_object_item(struct ck_checkpoint *cp, uint32_t object,
			       struct ck_buf *out, struct ck_object_gaps *gaps,
			       struct ck_diag *d);

#endif
