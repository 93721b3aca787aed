/* SPDX-License-Identifier: MIT */
/*
 * options: the options of -o, for mounts, for commands without a mount, and for the
 * library. No state; any thread.
 */
#ifndef CKPTFS_OPTIONS_H
#define CKPTFS_OPTIONS_H

#include "ckptfs/format.h"
#include "ckptfs/view.h"
#include "source/hosts_options.h"

#include <sys/types.h>

struct ck_backend;	 /* backend.h */
struct ck_gather_engine; /* device.h */
struct ck_creator;	 /* fs/files/creator.h */
struct ck_backing;	 /* fs/files/backing.h */

/* When written bytes become part of the checkpoint. */
enum ck_commit_when {
	CK_COMMIT_CLOSE,  /* at close(2) and fsync(2) */
	CK_COMMIT_MANUAL, /* by CK_IOC_COMMIT, with all others */
};

/* Words of -o commit=. */
extern const char *const ck_commit_words[];

/* Where the bytes of reads are gathered. */
enum ck_gather_where {
	CK_GATHER_HOST,
	CK_GATHER_GPU,
};

/* Whether bytes of other hosts are transferred directly to a GPU. */
enum ck_nccl_use {
	CK_NCCL_OFF,
	CK_NCCL_FORCE, /* always; otherwise the mount fails */
};

enum {
	CK_GPUS_GIVEN_MOST = 16,
	CK_GPUS_TEXT = 128, /* bytes */
};

/* Options of GPUs. */
struct ck_gpu_choice {
	bool used; /* gpu= is given, and not off */
	/* Device numbers of the driver; n 0: all devices. */
	uint32_t devices[CK_GPUS_GIVEN_MOST];
	uint32_t n;
	enum ck_gather_where gather;
	enum ck_nccl_use nccl;
	uint64_t pinned; /* bytes; 0 if not given */
	/* Bytes of exports that stay in memory after their last file was closed. */
	uint64_t cache;
	bool cache_given;
};

/* Sets one option: name with its `=`. -EINVAL. */
CK_MUST_USE int ck_gpu_choice_set(struct ck_gpu_choice *c, const char *name,
				  const char *value, struct ck_diag *d);
/* Returns 0, or -EINVAL if an option needs another one. */
CK_MUST_USE int ck_gpu_choice_check(const struct ck_gpu_choice *c,
				    struct ck_diag *d);

/* True if the processes on the hosts take part in NCCL rounds. */
bool ck_gpu_choice_has_rounds(const struct ck_gpu_choice *c);
/* Writes the devices in the form of gpu=. */
void ck_gpu_choice_text(const struct ck_gpu_choice *c,
			char out[static CK_GPUS_TEXT]);

/* Parsed mount options, see ckptfs(1). */
struct ck_mount_options {
	bool allow_other;
	bool auto_unmount;
	bool nonempty;	    /* the mount point may hide files */
	bool direct;	    /* FOPEN_DIRECT_IO for every file */
	bool nopassthrough; /* the daemon reads and writes files/ */
	bool noxattr;	    /* ENOSYS to all attribute requests */
	bool ro;	    /* overrides `write` */
	bool write;
	bool keep_unknown;
	bool patch; /* bytes that are not written keep their values */
	bool commit_given;
	enum ck_commit_when commit;
	bool debug; /* libfuse's trace */
	bool have_uid, have_gid;
	uid_t uid;
	gid_t gid;
	mode_t umask; /* bits removed */
	char *log;    /* file or "syslog"; owned */
	char *fsname; /* owned; NULL: the checkpoint's path */
	struct ck_format_options format;
	struct ck_hosts_options hosts; /* of -o, and long ones */
	struct ck_view_options view;
	/* borrowed; backend of remote files; or NULL */
	struct ck_backend *remote;
	struct ck_gpu_choice gpu;
	/* Borrowed; the engine that gathers on GPUs; NULL without a GPU. */
	struct ck_gather_engine *gather_engine;
	bool gathers; /* reads are gathered there */
	/* Borrowed; makes files in files/ of a writable mount. NULL: files/ is read-only. */
	struct ck_creator *creator;
	/* Borrowed; FUSE passthrough of files/. NULL: there is none. */
	struct ck_backing *backing;
	/* As of ck_tree_options. */
	void (*gpu_paths)(void *arg, struct ck_buf *out);
	void (*gpu_status)(void *arg, struct ck_buf *out);
	void *gpu_arg;
	/* nviews of them, borrowed; NULL: ck_views. */
	const struct ck_view *const *views;
	size_t nviews;
	struct ck_buf given; /* the text of all options, for `status` */
};

/* Sets of options; each has those of the set before. */
enum ck_options_taken {
	CK_TAKES_SOURCE,   /* how, and from where, a checkpoint is read */
	CK_TAKES_MANIFEST, /* and what it is compared with */
	CK_TAKES_VIEWS,	   /* and which files are shown */
	CK_TAKES_ALL,	   /* and those of mounts */
};

/* Adds "a,b=c,...". `\` escapes a comma, and in map= also a `+`. Returns 0, or
 * -EINVAL; for an unknown option the message has the nearest known one, if
 * one resembles it. */
CK_MUST_USE int ck_options_parse(struct ck_mount_options *o, const char *text,
				 struct ck_diag *d);
/* The same without a mount: only the options that are taken. view: NULL if these are of
 * CK_TAKES_SOURCE. */
CK_MUST_USE int ck_options_parse_reading(struct ck_format_options *o,
					 struct ck_hosts_options *hosts,
					 struct ck_view_options *view,
					 enum ck_options_taken taken,
					 const char *text, struct ck_diag *d);
/* True if the first word of `text` is an option with an effect. */
bool ck_options_know(const char *text);
/* Returns 0, or -EINVAL if an option needs or excludes another one. */
CK_MUST_USE int ck_options_check(const struct ck_mount_options *o,
				 struct ck_diag *d);
/* Appends a line for each option that has an effect, `write` first. */
void ck_options_help(struct ck_buf *out);
void ck_options_fini(struct ck_mount_options *o);

#endif
