/* SPDX-License-Identifier: MIT */
/*
 * timed_ops: handlers that count the time of a request for .ckptfs/stats. Each
 * calls the handler of the same name of the mount. A request that another thread
 * continues has its time taken along (ck_request_time_take()). Two reads of the
 * clock for each request, no locks. State: the handlers of the one mount of this
 * process, which are set before threads serve it.
 */
#include "../internal.h"

/* Name, parameters and arguments of each handler that a mount may have. */
#define HANDLERS(X)                                                            \
	X(lookup, (fuse_req_t req, fuse_ino_t dir, const char *name),          \
	  (req, dir, name))                                                    \
	X(forget, (fuse_req_t req, fuse_ino_t ino, uint64_t n), (req, ino, n)) \
	X(forget_multi,                                                        \
	  (fuse_req_t req, size_t n, struct fuse_forget_data * all),           \
	  (req, n, all))                                                       \
	X(getattr,                                                             \
	  (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info * fi),        \
	  (req, ino, fi))                                                      \
	X(setattr,                                                             \
	  (fuse_req_t req, fuse_ino_t ino, struct stat * attr, int to_set,     \
	   struct fuse_file_info *fi),                                         \
	  (req, ino, attr, to_set, fi))                                        \
	X(readlink, (fuse_req_t req, fuse_ino_t ino), (req, ino))              \
	X(mknod,                                                               \
	  (fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode,      \
	   dev_t dev),                                                         \
	  (req, dir, name, mode, dev))                                         \
	X(mkdir,                                                               \
	  (fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode),     \
	  (req, dir, name, mode))                                              \
	X(unlink, (fuse_req_t req, fuse_ino_t dir, const char *name),          \
	  (req, dir, name))                                                    \
	X(rmdir, (fuse_req_t req, fuse_ino_t dir, const char *name),           \
	  (req, dir, name))                                                    \
	X(symlink,                                                             \
	  (fuse_req_t req, const char *link, fuse_ino_t dir,                   \
	   const char *name),                                                  \
	  (req, link, dir, name))                                              \
	X(rename,                                                              \
	  (fuse_req_t req, fuse_ino_t dir, const char *name, fuse_ino_t to,    \
	   const char *new_name, unsigned flags),                              \
	  (req, dir, name, to, new_name, flags))                               \
	X(link,                                                                \
	  (fuse_req_t req, fuse_ino_t ino, fuse_ino_t dir, const char *name),  \
	  (req, ino, dir, name))                                               \
	X(open, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info * fi),  \
	  (req, ino, fi))                                                      \
	X(create,                                                              \
	  (fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode,      \
	   struct fuse_file_info *fi),                                         \
	  (req, dir, name, mode, fi))                                          \
	X(read,                                                                \
	  (fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,              \
	   struct fuse_file_info * fi),                                        \
	  (req, ino, size, at, fi))                                            \
	X(write,                                                               \
	  (fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size,     \
	   off_t at, struct fuse_file_info *fi),                               \
	  (req, ino, bytes, size, at, fi))                                     \
	X(flush, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info * fi), \
	  (req, ino, fi))                                                      \
	X(release,                                                             \
	  (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info * fi),        \
	  (req, ino, fi))                                                      \
	X(fsync,                                                               \
	  (fuse_req_t req, fuse_ino_t ino, int data_only,                      \
	   struct fuse_file_info *fi),                                         \
	  (req, ino, data_only, fi))                                           \
	X(fallocate,                                                           \
	  (fuse_req_t req, fuse_ino_t ino, int mode, off_t at, off_t len,      \
	   struct fuse_file_info *fi),                                         \
	  (req, ino, mode, at, len, fi))                                       \
	X(readdir,                                                             \
	  (fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,              \
	   struct fuse_file_info * fi),                                        \
	  (req, ino, size, at, fi))                                            \
	X(readdirplus,                                                         \
	  (fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,              \
	   struct fuse_file_info * fi),                                        \
	  (req, ino, size, at, fi))                                            \
	X(statfs, (fuse_req_t req, fuse_ino_t ino), (req, ino))                \
	X(setxattr,                                                            \
	  (fuse_req_t req, fuse_ino_t ino, const char *name,                   \
	   const char *bytes, size_t size, int flags),                         \
	  (req, ino, name, bytes, size, flags))                                \
	X(getxattr,                                                            \
	  (fuse_req_t req, fuse_ino_t ino, const char *name, size_t size),     \
	  (req, ino, name, size))                                              \
	X(listxattr, (fuse_req_t req, fuse_ino_t ino, size_t size),            \
	  (req, ino, size))                                                    \
	X(removexattr, (fuse_req_t req, fuse_ino_t ino, const char *name),     \
	  (req, ino, name))                                                    \
	X(ioctl,                                                               \
	  (fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,            \
	   struct fuse_file_info *fi, unsigned flags, const void *in,          \
	   size_t in_len, size_t out_len),                                     \
	  (req, ino, cmd, arg, fi, flags, in, in_len, out_len))

static struct fuse_lowlevel_ops handlers;

static const struct fuse_lowlevel_ops *begin(fuse_req_t req)
{
	const struct ck_fs *fs = fuse_req_userdata(req);

	ck_request_time_begin(ck_files_stats(fs->cp->files));
	return &handlers;
}

#define DEFINE(name, params, args)                                             \
	static void timed_##name params                                        \
	{                                                                      \
		begin(req)->name args;                                         \
		ck_request_time_end();                                         \
	}
HANDLERS(DEFINE)

#define SET(name, params, args)                                                \
	if (ops.name)                                                          \
		ops.name = timed_##name;

struct fuse_lowlevel_ops ck_fs_timed_ops(const struct ck_fs *fs)
{
	struct fuse_lowlevel_ops ops;

	handlers = ops = ck_fs_ops(fs);
	HANDLERS(SET)
	return ops;
}
