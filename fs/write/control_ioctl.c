/* SPDX-License-Identifier: MIT */
/*
 * control_ioctl: ioctl(2) on the root of a mount. The commit thread executes and
 * answers those of `ckptfs commit` and `ckptfs abort` on a writable mount. They
 * are allowed to root, to the user who mounted, and to users who may write the
 * file of a tensor. The one of `ckptfs stats --reset` is answered here, on any
 * mount. It is allowed to root and to the user who mounted. No state, no locks.
 */
#include "../internal.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* --- permission ----------------------------------------------------------- */

static bool may_write(struct ck_fs *fs, fuse_req_t req)
{
	/* Properties that all writable files have in common. */
	const struct ck_node any = { .dir.root = fs->root,
				     .about.accepts = CK_ACCEPTS_RAW };
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	if (fuse_req_ctx(req)->uid == geteuid())
		return true;
	if (c->tensors.n == 0)
		return fuse_req_ctx(req)->uid == 0;
	return ck_access_may_now(fs, req, &any, CK_MAY_WRITE);
}

/* --- the request ---------------------------------------------------------- */

static void reply_nothing(fuse_req_t req, unsigned cmd)
{
	struct ck_control_reply answer = { 0 };
	struct ck_buf text = { 0 };

	ck_buf_text(&text, "nothing is staged: with commit=close each file is "
			   "committed when it is closed");
	if (cmd == CK_IOC_COMMIT)
		ck_scratches_print(fuse_req_userdata(req), &text);
	snprintf(answer.text, sizeof(answer.text), "%s",
		 text.data ? text.data : "out of memory");
	ck_buf_fini(&text);
	fuse_reply_ioctl(req, 0, &answer, sizeof(answer));
}

static int reset_stats(struct ck_fs *fs, fuse_req_t req)
{
	uid_t uid = fuse_req_ctx(req)->uid;

	if (uid != 0 && uid != geteuid())
		return -EPERM;
	ck_stats_reset(ck_files_stats(fs->cp->files));
	fuse_reply_ioctl(req, 0, NULL, 0);
	return 0;
}

static int do_control(struct ck_fs *fs, fuse_req_t req, fuse_ino_t ino,
		      unsigned cmd, size_t out_len)
{
	if (ino == FUSE_ROOT_ID && cmd == CK_IOC_RESET_STATS)
		return reset_stats(fs, req);
	if (!fs->writer || ino != FUSE_ROOT_ID ||
	    (cmd != CK_IOC_COMMIT && cmd != CK_IOC_ABORT) ||
	    out_len < sizeof(struct ck_control_reply))
		return -ENOTTY;
	if (!may_write(fs, req))
		return -EPERM;
	if (fs->options->commit != CK_COMMIT_CLOSE)
		return ck_commit_thread_control(fs, req, cmd);
	reply_nothing(req, cmd);
	return 0;
}

void ck_fs_control_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd,
			 size_t out_len)
{
	int rc = do_control(fuse_req_userdata(req), req, ino, cmd, out_len);

	if (rc)
		fuse_reply_err(req, -rc);
}
