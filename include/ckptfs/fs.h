/* SPDX-License-Identifier: MIT */
/*
 * fs: FUSE requests in and out, nothing else. Mounts a checkpoint that is
 * open and serves it until it is unmounted.
 */
#ifndef CKPTFS_FS_H
#define CKPTFS_FS_H

#include "ckptfs/format.h"
#include "ckptfs/hosts_options.h"
#include "ckptfs/move.h"
#include "ckptfs/view.h"

#include <sys/ioctl.h>

/* When what is written into a file becomes part of the checkpoint. */
enum ck_commit_when {
	CK_COMMIT_CLOSE,  /* at close(2) and fsync(2) */
	CK_COMMIT_MANUAL, /* when it is ordered, with all others */
};

/* As -o commit= has them. */
extern const char *const ck_commit_words[];

/* Where the bytes of reads are put together. */
enum ck_gather_where {
	CK_GATHER_HOST,
	CK_GATHER_GPU,
};

/* Whether bytes of other hosts come straight to a GPU. */
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
	bool used; /* gpu= was given, and is not off */
	/* Numbers of the driver's devices; n 0: all of them. */
	uint32_t devices[CK_GPUS_GIVEN_MOST];
	uint32_t n;
	enum ck_gather_where gather;
	enum ck_nccl_use nccl;
	uint64_t pinned; /* bytes; 0: it was not given */
	uint64_t
		cache; /* bytes of exports that are kept while nobody has them */
	bool cache_given;
};

/* One of them: name with its `=`. -EINVAL. */
CK_EXPORT CK_MUST_USE int ck_gpu_choice_set(struct ck_gpu_choice *c,
					    const char *name, const char *value,
					    struct ck_diag *d);
/* -EINVAL: one that needs another. */
CK_MUST_USE int ck_gpu_choice_check(const struct ck_gpu_choice *c,
				    struct ck_diag *d);

/* Whether processes of hosts are to make rounds. */
CK_EXPORT bool ck_gpu_choice_has_rounds(const struct ck_gpu_choice *c);
/* The devices as gpu= has them. */
CK_EXPORT void ck_gpu_choice_text(const struct ck_gpu_choice *c,
				  char out[static CK_GPUS_TEXT]);

/* Mount options (the contract's section 8), parsed. */
struct ck_mount_options {
	bool allow_other;
	bool auto_unmount;
	bool nonempty; /* the mount point may hide files */
	bool direct;   /* FOPEN_DIRECT_IO for every tensor */
	bool noxattr;  /* ENOSYS to all attribute requests */
	bool ro;       /* whatever `write` says */
	bool write;
	bool keep_unknown;
	bool patch; /* what is not written stays, when a file is closed */
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
	struct ck_hosts_options hosts; /* those of -o, and long ones */
	struct ck_view_options view;
	struct ck_mover *remote; /* the caller's, of remote files; or NULL */
	struct ck_gpu_choice gpu;
	/* The caller's, which has GPUs; NULL: nobody has. */
	struct ck_gatherer *gatherer;
	bool gathers; /* reads go there */
	/* As of ck_tree_options. */
	void (*gpu_paths)(void *arg, struct ck_buf *out);
	void (*gpu_status)(void *arg, struct ck_buf *out);
	void *gpu_arg;
	/* nviews, the caller's; NULL: ck_views. */
	const struct ck_view *const *views;
	size_t nviews;
	struct ck_buf given; /* the text of all options, for the report */
};

/* Adds "a,b=c,..." (`\` escapes a comma, and in map= a `+`, too). -EINVAL names an unknown option and
 * the nearest one that does something. */
CK_EXPORT CK_MUST_USE int ck_options_parse(struct ck_mount_options *o,
					   const char *text, struct ck_diag *d);
/* The same where nothing is mounted: only options that say how a checkpoint is
 * read and shown, and from where, are known. view: NULL: nothing is shown. */
CK_MUST_USE int ck_options_parse_reading(struct ck_format_options *o,
					 struct ck_hosts_options *hosts,
					 struct ck_view_options *view,
					 const char *text, struct ck_diag *d);
/* -EINVAL: one that needs, or excludes, another. */
CK_EXPORT CK_MUST_USE int ck_options_check(const struct ck_mount_options *o,
					   struct ck_diag *d);
/* Appends a line for each option that does something, `write` first. */
void ck_options_help(struct ck_buf *out);
CK_EXPORT void ck_options_fini(struct ck_mount_options *o);

/* A process that unmounts for a daemon of root, which gives up that right. */
struct ck_detacher;

/* Starts it, before there are threads and anything is open; *out stays as it is
 * for those who are not root. mountpoint stays the caller's, as long as *out is. */
CK_MUST_USE int ck_detacher_start(const char *mountpoint,
				  struct ck_detacher **out, struct ck_diag *d);
/* It does what it was told last and ends. NULL is allowed. */
void ck_detacher_end(struct ck_detacher *detacher);

/* What gives up all that root's daemon does not need to serve, in each thread that is started
 * before it is mounted; why it fails is logged. A user's has nothing to give up. The options
 * stay the caller's. */
CK_EXPORT struct ck_thread_init ck_fs_thread_init(struct ck_mount_options *o);

/* Mounts cp on mountpoint and serves requests until the mount ends or
 * SIGTERM, SIGINT or SIGHUP arrives; then unmounts. ready(mount, arg) is called
 * once when the tree can be used, from another thread; mount is the number that
 * statx(2) has for it, from Linux 6.8 on the one that never comes again, and 0
 * if it cannot be told from others. detacher: told to unmount, and not ended;
 * NULL: the process that serves unmounts itself. With one the process keeps
 * no privilege that serving does not need. 0 after a clean end. */
CK_MUST_USE int ck_fs_serve(struct ck_checkpoint *cp, const char *mountpoint,
			    const struct ck_mount_options *options,
			    struct ck_detacher *detacher,
			    void (*ready)(uint64_t mount, void *arg), void *arg,
			    struct ck_diag *d);

/* Prints lines on stdout: the versions of libfuse, of the kernel's interface
 * that it speaks, and of fusermount3. 0, or -errno. */
CK_MUST_USE int ck_fs_version_print(void);

/* Of mounts, as the kernel's table has it. */
#define CK_FS_TYPE "fuse.ckptfs"

/* --- orders: what commands ask of a mount for writing ---------------------- */

/* The answer to an ioctl(2) on the mount's root. */
struct ck_control_reply {
	int32_t err; /* 0, or a positive errno */
	char text[2044];
};

#define CK_IOC_COMMIT _IOR('k', 1, struct ck_control_reply)
#define CK_IOC_ABORT  _IOR('k', 2, struct ck_control_reply)

#endif
