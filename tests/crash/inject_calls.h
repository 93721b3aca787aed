/* SPDX-License-Identifier: MIT */
/*
 * The system calls that inject intercepts, and which of their arguments name a
 * file. A call without a file beneath the directory is not intercepted.
 */
#ifndef CK_INJECT_CALLS_H
#define CK_INJECT_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

enum how {
	BY_NOTHING,
	BY_FD,	 /* a descriptor */
	BY_PATH, /* a path */
	BY_DIR,	 /* a descriptor of a directory, and a path after it */
};

struct file_arg {
	enum how how;
	int arg;
};

struct call {
	uint64_t nr;
	const char *name;
	struct file_arg files[2];
	int length;  /* the argument with the length of the data; or -1 */
	bool vector; /* arguments 1 and 2 are an iovec */
};

/* clang-format off */
#define FILE_CALL(name, ...) { SYS_##name, #name, { __VA_ARGS__ }, -1, false }
#define DATA_CALL(name, arg, ...) \
	{ SYS_##name, #name, { __VA_ARGS__ }, arg, false }
#define VECTOR_CALL(name) { SYS_##name, #name, { { BY_FD, 0 } }, 2, true }

static const struct call calls[] = {
	/* change data */
	DATA_CALL(write, 2, { BY_FD, 0 }),
	DATA_CALL(pwrite64, 2, { BY_FD, 0 }),
	VECTOR_CALL(writev),
	VECTOR_CALL(pwritev),
	VECTOR_CALL(pwritev2),
	DATA_CALL(copy_file_range, 4, { BY_FD, 2 }, { BY_FD, 0 }),
	DATA_CALL(sendfile, 3, { BY_FD, 0 }, { BY_FD, 1 }),
	DATA_CALL(splice, 4, { BY_FD, 2 }, { BY_FD, 0 }),
	FILE_CALL(fallocate, { BY_FD, 0 }),
	FILE_CALL(ftruncate, { BY_FD, 0 }),
	FILE_CALL(truncate, { BY_PATH, 0 }),
	FILE_CALL(ioctl, { BY_FD, 0 }),
	/* sync */
	FILE_CALL(fsync, { BY_FD, 0 }),
	FILE_CALL(fdatasync, { BY_FD, 0 }),
	FILE_CALL(sync_file_range, { BY_FD, 0 }),
	FILE_CALL(syncfs, { BY_FD, 0 }),
	/* change names */
	FILE_CALL(open, { BY_PATH, 0 }),
	FILE_CALL(creat, { BY_PATH, 0 }),
	FILE_CALL(openat, { BY_DIR, 0 }),
	FILE_CALL(openat2, { BY_DIR, 0 }),
	FILE_CALL(close, { BY_FD, 0 }),
	FILE_CALL(link, { BY_PATH, 0 }, { BY_PATH, 1 }),
	FILE_CALL(linkat, { BY_DIR, 0 }, { BY_DIR, 2 }),
	FILE_CALL(rename, { BY_PATH, 0 }, { BY_PATH, 1 }),
	FILE_CALL(renameat, { BY_DIR, 0 }, { BY_DIR, 2 }),
	FILE_CALL(renameat2, { BY_DIR, 0 }, { BY_DIR, 2 }),
	FILE_CALL(unlink, { BY_PATH, 0 }),
	FILE_CALL(unlinkat, { BY_DIR, 0 }),
	FILE_CALL(rmdir, { BY_PATH, 0 }),
	FILE_CALL(mkdir, { BY_PATH, 0 }),
	FILE_CALL(mkdirat, { BY_DIR, 0 }),
	FILE_CALL(mknod, { BY_PATH, 0 }),
	FILE_CALL(mknodat, { BY_DIR, 0 }),
	FILE_CALL(symlink, { BY_PATH, 1 }),
	FILE_CALL(symlinkat, { BY_DIR, 1 }),
	/* change attributes, lock */
	FILE_CALL(chmod, { BY_PATH, 0 }),
	FILE_CALL(fchmod, { BY_FD, 0 }),
	FILE_CALL(fchmodat, { BY_DIR, 0 }),
	FILE_CALL(chown, { BY_PATH, 0 }),
	FILE_CALL(lchown, { BY_PATH, 0 }),
	FILE_CALL(fchown, { BY_FD, 0 }),
	FILE_CALL(fchownat, { BY_DIR, 0 }),
	FILE_CALL(utimensat, { BY_DIR, 0 }),
	FILE_CALL(setxattr, { BY_PATH, 0 }),
	FILE_CALL(lsetxattr, { BY_PATH, 0 }),
	FILE_CALL(fsetxattr, { BY_FD, 0 }),
	FILE_CALL(removexattr, { BY_PATH, 0 }),
	FILE_CALL(lremovexattr, { BY_PATH, 0 }),
	FILE_CALL(fremovexattr, { BY_FD, 0 }),
	FILE_CALL(flock, { BY_FD, 0 }),
	/* read data and attributes */
	DATA_CALL(read, 2, { BY_FD, 0 }),
	DATA_CALL(pread64, 2, { BY_FD, 0 }),
	VECTOR_CALL(readv),
	VECTOR_CALL(preadv),
	VECTOR_CALL(preadv2),
	FILE_CALL(mmap, { BY_FD, 4 }),
	FILE_CALL(getdents64, { BY_FD, 0 }),
	FILE_CALL(stat, { BY_PATH, 0 }),
	FILE_CALL(lstat, { BY_PATH, 0 }),
	FILE_CALL(fstat, { BY_FD, 0 }),
	FILE_CALL(newfstatat, { BY_DIR, 0 }),
	FILE_CALL(statx, { BY_DIR, 0 }),
	FILE_CALL(access, { BY_PATH, 0 }),
	FILE_CALL(faccessat, { BY_DIR, 0 }),
	FILE_CALL(faccessat2, { BY_DIR, 0 }),
	FILE_CALL(readlink, { BY_PATH, 0 }),
	FILE_CALL(readlinkat, { BY_DIR, 0 }),
	FILE_CALL(statfs, { BY_PATH, 0 }),
	FILE_CALL(fstatfs, { BY_FD, 0 }),
	FILE_CALL(getxattr, { BY_PATH, 0 }),
	FILE_CALL(lgetxattr, { BY_PATH, 0 }),
	FILE_CALL(fgetxattr, { BY_FD, 0 }),
	FILE_CALL(listxattr, { BY_PATH, 0 }),
	FILE_CALL(flistxattr, { BY_FD, 0 }),
};

/* clang-format on */

enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

#endif
