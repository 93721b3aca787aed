/* SPDX-License-Identifier: MIT */
/*
 * write: requests that change something, on a mount for writing. Bytes go into
 * the draft of the open file; a close or fsync(2) of a complete one commits
 * it, or keeps it for a commit of many. Until then the file is shown as it is
 * committed, its size to the writer too: readers share the kernel's inode. Only the
 * writer's own open file reads its written bytes.
 *
 * Owner, mode and times of a tensor are those of the checkpoint. To change
 * them is accepted and has no effect, so that tools which copy them end well,
 * but for one thing: who takes permissions from others must not believe that
 * it was done. Whoever has the file open for writing, as `cp -p`, is told by the log
 * alone. A file that was made anew starts as private as its maker likes, and
 * then has the tensor's mode, as one that is renamed. Scratch files are ordinary
 * ones.
 */
#include "ckptfs/process.h"
#include "internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* --- bytes ------------------------------------------------------------------ */

/* A write into what is being committed. The open file stays until it is
 * answered. */
struct write_request {
	struct ck_later later;
	fuse_req_t req;
	struct ck_draft *draft;
	uint64_t off;
	size_t len;
	char bytes[];
};

static int write_answer(struct ck_later *l)
{
	struct write_request *r = (struct write_request *)l;
	int rc = ck_draft_write(fuse_req_userdata(r->req), r->draft, r->off,
				r->bytes, r->len, fuse_req_ctx(r->req)->pid);

	if (rc == CK_AFTER && !l->may_commit)
		return rc;
	if (rc)
		fuse_reply_err(r->req, rc == CK_AFTER ? EBUSY : -rc);
	else
		fuse_reply_write(r->req, r->len);
	return 0;
}

/* CK_AFTER: it will be answered. */
static int write_after(fuse_req_t req, struct ck_draft *draft, uint64_t off,
		       const char *bytes, size_t len)
{
	struct write_request *r = calloc(1, sizeof(*r) + len);

	if (!r)
		return -ENOMEM;
	r->later.answer = write_answer;
	r->req = req;
	r->draft = draft;
	r->off = off;
	r->len = len;
	memcpy(r->bytes, bytes, len);
	if (ck_publish_later(fuse_req_userdata(req), &r->later) == 0)
		return CK_AFTER;
	free(r);
	return -ENOMEM;
}

static void rw_write(fuse_req_t req, fuse_ino_t ino, const char *bytes,
		     size_t len, off_t off, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	int rc = -EBADF;

	(void)ino;
	if (ck_handle_draft(fi))
		rc = ck_draft_write(fs, ck_handle_draft(fi), (uint64_t)off,
				    bytes, len, fuse_req_ctx(req)->pid);
	else if (ck_handle_scratch(fi))
		rc = ck_scratch_write(fs, ck_handle_scratch(fi), (uint64_t)off,
				      bytes, len, fuse_req_ctx(req)->pid);
	if (rc == CK_AFTER)
		rc = write_after(req, ck_handle_draft(fi), (uint64_t)off, bytes,
				 len);
	if (rc == CK_AFTER)
		return;
	if (rc)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_write(req, len);
}

/* A read by the writer that waits for a commit. */
struct read_request {
	struct ck_later later;
	fuse_req_t req;
	struct ck_draft *draft;
	uint64_t vpos;
	size_t size;
};

static int read_answer(struct ck_later *l)
{
	struct read_request *r = (struct read_request *)l;
	void *bytes = ck_reply_buffer(r->size);
	size_t len = r->size;
	int rc = bytes ? ck_draft_read(fuse_req_userdata(r->req), r->draft,
				       r->vpos, &len, bytes)
		       : -ENOMEM;

	if (rc == CK_AFTER && !l->may_commit)
		return rc;
	if (rc)
		fuse_reply_err(r->req, rc == CK_AFTER ? EBUSY : -rc);
	else
		fuse_reply_buf(r->req, bytes, len);
	return 0;
}

void ck_fs_read_draft(fuse_req_t req, struct ck_draft *draft, uint64_t vpos,
		      size_t size)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct read_request r = { .later.answer = read_answer,
				  .req = req,
				  .draft = draft,
				  .vpos = vpos,
				  .size = size };

	ck_later_answer(fs->laters, &r.later, sizeof(r));
}

/* Without this call the C library writes a zero into each block, which could not be
 * distinguished from bytes of the tensor. */
static void rw_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off,
			 off_t len, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	uint64_t begin = (uint64_t)off, n = (uint64_t)len;
	int rc = -EOPNOTSUPP;

	(void)ino;
	if (mode & ~FALLOC_FL_KEEP_SIZE)
		rc = -EOPNOTSUPP;
	else if (ck_handle_scratch(fi))
		rc = ck_scratch_allocate(fs, ck_handle_scratch(fi), mode, begin,
					 n);
	else if (ck_handle_draft(fi) && mode)
		rc = 0;
	else if (ck_handle_draft(fi))
		rc = ck_draft_grow(fs, ck_handle_draft(fi), begin + n);
	fuse_reply_err(req, rc == CK_AFTER ? EBUSY : -rc);
}

/* Whether the kernel closes the file since its thread ends, and has not called close(2). */
static bool is_ending(pid_t thread)
{
	enum { PF_EXITING = 4 }; /* of include/linux/sched.h */

	char text[CK_PROCESS_STAT];
	const char *fields = ck_process_stat(thread, text);
	unsigned long flags = 0;

	/* state ppid pgrp session tty_nr tpgid flags */
	return fields &&
	       sscanf(fields, " %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 &&
	       (flags & PF_EXITING);
}

static pid_t closing_thread(fuse_req_t req)
{
	pid_t thread = fuse_req_ctx(req)->pid;

	return is_ending(thread) ? 0 : thread;
}

/* One that is complete is committed: 1, it will be answered. */
static int commit_draft(struct ck_fs *fs, fuse_req_t req,
			struct ck_draft *draft, bool sync)
{
	int rc;

	if (sync)
		ck_draft_synced(draft);
	else
		ck_draft_closed_by(draft, closing_thread(req));
	if (fs->options->commit != CK_COMMIT_CLOSE)
		return ck_draft_keep(fs, draft, sync);
	rc = ck_draft_settle(fs, draft, sync);
	if (rc != 1)
		return rc;
	rc = ck_publish(fs, req, draft, sync);
	return rc ? rc : 1;
}

static void rw_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct ck_draft *draft = ck_handle_draft(fi);
	int rc;

	(void)ino;
	if (ck_handle_scratch(fi)) {
		ck_scratch_closed_by(ck_handle_scratch(fi),
				     closing_thread(req));
		ck_scratch_closed(fs, ck_handle_scratch(fi));
	}
	/* Once it is answered, by whomever, the open file may be gone. */
	rc = draft ? commit_draft(fs, req, draft, false) : 0;
	if (rc != 1)
		fuse_reply_err(req, -rc);
}

static void rw_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
		     struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct ck_draft *draft = ck_handle_draft(fi);
	int rc = draft ? commit_draft(fs, req, draft, true) : 0;

	(void)ino, (void)datasync;
	if (ck_handle_scratch(fi))
		ck_scratch_synced(ck_handle_scratch(fi));
	if (rc != 1)
		fuse_reply_err(req, -rc);
}

/* --- attributes --------------------------------------------------------------- */

/* Takes bits from group or others that the file shows. */
static bool is_private(const struct stat *shown, mode_t mode)
{
	return shown->st_mode & ~mode & 077;
}

struct setattr_request {
	struct ck_later later;
	fuse_req_t req;
	fuse_ino_t ino;
	struct stat attr;
	int to_set;
	struct ck_draft *draft; /* of the open file, if it has one */
	struct stat out;
};

/* open(2) with O_TRUNC comes without its open file, as truncate(2) does: it is
 * for whoever has the file open for writing. */
static int set_size(const struct setattr_request *r, const struct ck_node *n)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);
	uint64_t size = (uint64_t)r->attr.st_size;
	struct ck_draft *draft;
	int rc;

	if (!ck_node_accepts(n))
		return -EISDIR;
	if (r->draft)
		return ck_draft_truncate(fs, r->draft, size);
	rc = ck_draft_find(fs, n, r->later.last, &draft);
	if (rc)
		return rc;
	if (!draft)
		return size == (uint64_t)r->out.st_size ? 0 : -EINVAL;
	rc = ck_draft_truncate_by(fs, draft, size, fuse_req_ctx(r->req)->pid);
	ck_draft_put(fs, draft);
	return rc;
}

/* Bits are taken that are shown: 0 if that may be dropped. */
static int set_private(const struct setattr_request *r, const struct ck_node *n)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);
	struct ck_draft *draft;
	int rc;

	if (!ck_node_accepts(n))
		return -EPERM;
	if (ck_node_made(fs, n))
		return 0;
	rc = ck_draft_find(fs, n, r->later.last, &draft);
	if (rc || !draft)
		return rc ? rc : -EPERM;
	if (!ck_draft_is_new(draft) &&
	    !ck_draft_drop_mode(fs, draft, r->attr.st_mode,
				fuse_req_ctx(r->req)->pid))
		rc = -EPERM;
	ck_draft_put(fs, draft);
	return rc;
}

static int do_setattr(struct setattr_request *r)
{
	struct ck_fs *fs = fuse_req_userdata(r->req);
	struct ck_node n;
	int rc = ck_node_find(fs, r->ino, &n);

	if (rc)
		return rc;
	if (ck_node_is_scratch(&n)) {
		rc = ck_scratch_setattr(fs, ck_node_scratch(&n), &r->attr,
					r->to_set);
		return rc ? rc : ck_node_stat(fs, &n, &r->out);
	}
	if (!ck_node_accepts(&n) && !ck_node_is_dir(&n))
		return -EROFS;
	r->later.tensor = n.about.number;
	rc = ck_node_stat(fs, &n, &r->out);
	if (rc == 0 && (r->to_set & FUSE_SET_ATTR_MODE) &&
	    is_private(&r->out, r->attr.st_mode))
		rc = set_private(r, &n);
	if (rc == 0 && (r->to_set & FUSE_SET_ATTR_SIZE))
		rc = set_size(r, &n);
	return rc;
}

static int setattr_answer(struct ck_later *l)
{
	struct setattr_request *r = (struct setattr_request *)l;
	int rc = do_setattr(r);

	if (rc == CK_LATER || (rc == CK_AFTER && !l->may_commit))
		return rc;
	if (rc == CK_AFTER)
		rc = -EBUSY;
	if (rc)
		fuse_reply_err(r->req, -rc);
	else
		fuse_reply_attr(r->req, &r->out, CK_TIMEOUT);
	return 0;
}

static void rw_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr,
		       int to_set, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct setattr_request r = {
		.later.answer = setattr_answer,
		.req = req,
		.ino = ino,
		.attr = *attr,
		.to_set = to_set,
		.draft = fi ? ck_handle_draft(fi) : NULL,
	};

	ck_later_answer(fs->laters, &r.later, sizeof(r));
}

void ck_fs_write_ops(struct fuse_lowlevel_ops *ops)
{
	ops->write = rw_write;
	ops->fallocate = rw_fallocate;
	ops->flush = rw_flush;
	ops->fsync = rw_fsync;
	ops->setattr = rw_setattr;
	ops->setxattr = ck_fs_setxattr;
	ops->removexattr = ck_fs_removexattr;
	ck_fs_name_ops(ops);
}
