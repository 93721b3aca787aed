/* SPDX-License-Identifier: MIT */
/*
 * kernel_ops: the FUSE requests that a mount answers, and the capabilities that it
 * requests from the kernel in the first one (FUSE_INIT). session_init() runs in a worker
 * thread of libfuse, before any other handler. No locks.
 */
#include "../files/backing.h"
#include "../internal.h"
#include "mount_ready.h"
#include "protocol.h"

static const struct {
	unsigned flag;
	const char *why;
} capabilities[] = {
	{ FUSE_CAP_ASYNC_READ, "read-ahead requests run beside each other" },
	{ FUSE_CAP_ASYNC_DIO, "so do the parts of one large direct read" },
	{ FUSE_CAP_PARALLEL_DIROPS, "lookups in one directory too" },
	{ FUSE_CAP_READDIRPLUS, "a listing with attributes is one request" },
	{ FUSE_CAP_READDIRPLUS_AUTO, "and one without does not pay for them" },
	{ FUSE_CAP_IOCTL_DIR, "orders come to the root" },
	{ FUSE_CAP_DONT_MASK, "a default ACL of files/ replaces the umask" },
	/* Not requested, though libfuse would: AUTO_INVAL_DATA: a buffered read
	 * of files/ would be a request for attributes, too;
	 * EXPLICIT_INVAL_DATA: the last page of a file of files/ that has grown
	 * would show zeros. Without both the kernel drops the pages of a file
	 * when it learns another size, which a tensor never has. SPLICE_*:
	 * measured 2 to 3 times slower, and a truncated
	 * file gives a short reply, which a reader takes for the end of the
	 * tensor; WRITEBACK_CACHE: errors of a write would come at the wrong
	 * call, and readers would see staged bytes; ATOMIC_O_TRUNC: cuts the
	 * file under programs that map it. */
};

/* The kernel sends at most `max_background` read-ahead requests and releases
 * without a reply. Requests that wait for other hosts, for a GPU or for files/
 * must not hold back others. */
static void background_raise(struct fuse_conn_info *conn)
{
	enum { MOST = 16384 };

	conn->max_background = MOST;
	conn->congestion_threshold = MOST / 4 * 3;
}

/* Without ASYNC_DIO a direct read can be interrupted; the kernel does not
 * interrupt its parts. */
static void session_init_remote(struct fuse_conn_info *conn)
{
	conn->want &= ~(unsigned)FUSE_CAP_ASYNC_DIO;
}

/* Of files/ alone. */
static uint64_t passthrough_want(const struct ck_fs *fs)
{
	ck_backing_offered(fs->options->backing,
			   fs->area && fs->offered & CK_PROTOCOL_PASSTHROUGH);
	return ck_backing_is_wanted(fs->options->backing)
		       ? CK_PROTOCOL_PASSTHROUGH
		       : 0;
}

/* With KILLPRIV_V2 the kernel requests security.capability once for an inode, else at each
 * write. It leaves set-ID bits to the daemon then: the source's kernel drops them for a daemon
 * without CAP_FSETID. */
static uint64_t setid_want(struct ck_fs *fs)
{
	if (!fs->area || !(fs->offered & CK_PROTOCOL_KILLPRIV_V2))
		return 0;
	atomic_store(&fs->drops_setid, geteuid() == 0);
	return CK_PROTOCOL_KILLPRIV_V2;
}

static void session_init(void *userdata, struct fuse_conn_info *conn)
{
	struct ck_fs *fs = userdata;

	conn->want = 0;
	for (size_t i = 0; i < CK_ARRAY_SIZE(capabilities); i++)
		conn->want |= capabilities[i].flag & conn->capable;
	ck_protocol_request(passthrough_want(fs) | setid_want(fs));
	if (fs->area || fs->route.remote || fs->route.gather_engine)
		background_raise(conn);
	if (fs->route.remote || fs->route.gather_engine)
		session_init_remote(conn);
	conn->max_write = CK_REQUEST_MAX;
	conn->max_read = CK_READ_MAX;
	/* The kernel keeps a smaller value of its own. mount_ready.c may raise
	 * it before this reply arrives. */
	conn->max_readahead = CK_READ_AHEAD_KB << 10;
	conn->time_gran = 1;
	atomic_store(&fs->was_asked, true);
	sem_post(&fs->first_request);
}

struct fuse_lowlevel_ops ck_fs_ops(const struct ck_fs *fs)
{
	struct fuse_lowlevel_ops ops = {
		.init = session_init,
		.lookup = ck_fs_lookup,
		.forget = ck_fs_forget,
		.forget_multi = ck_fs_forget_multi,
		.getattr = ck_fs_getattr,
		.statfs = ck_fs_statfs,
		.opendir = ck_fs_opendir,
		.releasedir = ck_fs_releasedir,
		.readdir = ck_fs_readdir,
		.readdirplus = ck_fs_readdirplus,
		.open = ck_fs_open,
		.read = ck_fs_read,
		.ioctl = ck_fs_ioctl,
		.release = ck_fs_release,
		.readlink = ck_fs_readlink,
		.getxattr = ck_fs_getxattr,
		.listxattr = ck_fs_listxattr,
	};

	ck_fs_readonly_ops(&ops);
	if (fs->area)
		ck_fs_quiet_ops(fs, &ops);
	if (fs->writer)
		ck_fs_write_ops(&ops);
	return ops;
}
