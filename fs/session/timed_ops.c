/* SPDX-License-Identifier: MIT */
/*
 * timed_ops: handlers that count the time of a request for .ckptfs/stats. Each
 * calls the handler of the same name: of files/ for its nodes, else of the tree. A request that another thread
 * continues has its time taken along (ck_request_time_take()). Two reads of the
 * clock for each request, no locks. State: the handlers of the one mount of this
 * process, which are set before threads serve it.
 */
#include "../internal.h"

/* Name, parameters and arguments of each handler that a mount may have, and the number that
 * decides whether the request is for files/. */
#define HANDLERS(X)                                                            \
	X(lookup, (fuse_req_t req, fuse_ino_t dir, const char *name),          \
	  (req, dir, name), dir)                                               \
	X(forget, (fuse_req_t req, fuse_ino_t ino, uint64_t n), (req, ino, n), \
	  ino)                                                                 \
	X(forget_multi,                                                        \
	  (fuse_req_t req, size_t n, struct fuse_forget_data * all),           \
	  (req, n, all), 0)                                                    \
	X(getattr,                                                             \
	  (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info * fi),        \
	  (req, ino, fi), ino)                                                 \
	X(setattr,                                                             \
	  (fuse_req_t req, fuse_ino_t ino, struct stat * attr, int to_set,     \
	   struct fuse_file_info *fi),                                         \
	  (req, ino, attr, to_set, fi), ino)                                   \
	X(readlink, (fuse_req_t req, fuse_ino_t ino), (req, ino), ino)         \
	X(mknod,                                                               \
	  (fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode,      \
	   dev_t dev),                                                         \
	  (req, dir, name, mode, dev), dir)                                    \
	X(mkdir,                                                               \
	  (fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode),     \
	  (req, dir, name, mode), dir)                                         \
	X(unlink, (fuse_req_t req, fuse_ino_t dir, const char *name),          \
	  (req, dir, name), dir)                                               \
	X(rmdir, (fuse_req_t req, fuse_ino_t dir, const char *name),           \
	  (req, dir, name), dir)                                               \
	X(symlink,                                                             \
	  (fuse_req_t req, const char *link, fuse_ino_t dir,                   \
	   const char *name),                                                  \
	  (req, link, dir, name), dir)                                         \
	X(rename,                                                              \
	  (fuse_req_t req, fuse_ino_t dir, const char *name, fuse_ino_t to,    \
	   const char *new_name, unsigned flags),                              \
	  (req, dir, name, to, new_name, flags), either(dir, to))              \
	X(link,                                                                \
	  (fuse_req_t req, fuse_ino_t ino, fuse_ino_t dir, const char *name),  \
	  (req, ino, dir, name), either(ino, dir))                             \
	X(open, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info * fi),  \
	  (req, ino, fi), ino)                                                 \
	X(create,                                                              \
	  (fuse_req_t req, fuse_ino_t dir, const char *name, mode_t mode,      \
	   struct fuse_file_info *fi),                                         \
	  (req, dir, name, mode, fi), dir)                                     \
	X(read,                                                                \
	  (fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,              \
	   struct fuse_file_info * fi),                                        \
	  (req, ino, size, at, fi), ino)                                       \
	X(write,                                                               \
	  (fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size,     \
	   off_t at, struct fuse_file_info *fi),                               \
	  (req, ino, bytes, size, at, fi), ino)                                \
	X(flush, (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info * fi), \
	  (req, ino, fi), ino)                                                 \
	X(release,                                                             \
	  (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info * fi),        \
	  (req, ino, fi), ino)                                                 \
	X(fsync,                                                               \
	  (fuse_req_t req, fuse_ino_t ino, int data_only,                      \
	   struct fuse_file_info *fi),                                         \
	  (req, ino, data_only, fi), ino)                                      \
	X(fallocate,                                                           \
	  (fuse_req_t req, fuse_ino_t ino, int mode, off_t at, off_t len,      \
	   struct fuse_file_info *fi),                                         \
	  (req, ino, mode, at, len, fi), ino)                                  \
	X(fsyncdir,                                                            \
	  (fuse_req_t req, fuse_ino_t ino, int data_only,                      \
	   struct fuse_file_info *fi),                                         \
	  (req, ino, data_only, fi), ino)                                      \
	X(lseek,                                                               \
	  (fuse_req_t req, fuse_ino_t ino, off_t at, int whence,               \
	   struct fuse_file_info *fi),                                         \
	  (req, ino, at, whence, fi), ino)                                     \
	X(copy_file_range,                                                     \
	  (fuse_req_t req, fuse_ino_t ino, off_t at,                           \
	   struct fuse_file_info * fi, fuse_ino_t to, off_t to_at,             \
	   struct fuse_file_info * to_fi, size_t len, int flags),              \
	  (req, ino, at, fi, to, to_at, to_fi, len, flags), either(ino, to))   \
	X(readdir,                                                             \
	  (fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,              \
	   struct fuse_file_info * fi),                                        \
	  (req, ino, size, at, fi), ino)                                       \
	X(readdirplus,                                                         \
	  (fuse_req_t req, fuse_ino_t ino, size_t size, off_t at,              \
	   struct fuse_file_info * fi),                                        \
	  (req, ino, size, at, fi), ino)                                       \
	X(statfs, (fuse_req_t req, fuse_ino_t ino), (req, ino), ino)           \
	X(setxattr,                                                            \
	  (fuse_req_t req, fuse_ino_t ino, const char *name,                   \
	   const char *bytes, size_t size, int flags),                         \
	  (req, ino, name, bytes, size, flags), ino)                           \
	X(getxattr,                                                            \
	  (fuse_req_t req, fuse_ino_t ino, const char *name, size_t size),     \
	  (req, ino, name, size), ino)                                         \
	X(listxattr, (fuse_req_t req, fuse_ino_t ino, size_t size),            \
	  (req, ino, size), ino)                                               \
	X(removexattr, (fuse_req_t req, fuse_ino_t ino, const char *name),     \
	  (req, ino, name), ino)                                               \
	X(ioctl,                                                               \
	  (fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg,            \
	   struct fuse_file_info *fi, unsigned flags, const void *in,          \
	   size_t in_len, size_t out_len),                                     \
	  (req, ino, cmd, arg, fi, flags, in, in_len, out_len), ino)           \
	X(opendir,                                                             \
	  (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info * fi),        \
	  (req, ino, fi), ino)                                                 \
	X(releasedir,                                                          \
	  (fuse_req_t req, fuse_ino_t ino, struct fuse_file_info * fi),        \
	  (req, ino, fi), ino)

static struct fuse_lowlevel_ops handlers, area_handlers;

static const struct fuse_lowlevel_ops *begin(fuse_req_t req, fuse_ino_t ino)
{
	const struct ck_fs *fs = fuse_req_userdata(req);

	ck_request_time_begin(ck_files_stats(fs->cp->files));
	return ck_area_has(ino) ? &area_handlers : &handlers;
}

/* For a request with two numbers: that of files/ if one of them is. */
static fuse_ino_t either(fuse_ino_t a, fuse_ino_t b)
{
	return a > b ? a : b;
}

#define DEFINE(name, params, args, ino)                                        \
	static void timed_##name params                                        \
	{                                                                      \
		begin(req, ino)->name args;                                    \
		ck_request_time_end();                                         \
	}
HANDLERS(DEFINE)

#define SET(name, params, args, ino)                                           \
	if (ops.name)                                                          \
		ops.name = timed_##name;

struct fuse_lowlevel_ops ck_fs_timed_ops(const struct ck_fs *fs)
{
	struct fuse_lowlevel_ops ops;

	handlers = ops = ck_fs_ops(fs);
	area_handlers = ck_area_ops(fs);
	HANDLERS(SET)
	return ops;
}
