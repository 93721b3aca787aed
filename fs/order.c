/* SPDX-License-Identifier: MIT */
/*
 * order: what `ckptfs commit` and `ckptfs abort` ask for, by ioctl(2) on the
 * root of a mount for writing, and the sentences that answer. The work is the
 * publisher's. Orders may come from those who may have written: root, the user who
 * mounted, and those who may write a tensor's file.
 */
#include "ckptfs/report.h"
#include "internal.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { NAMES = 6, GROUPS = 1024 };

/* --- what is said ------------------------------------------------------------- */

static void print_count(struct ck_buf *text, uint32_t n, const char *one,
			const char *many)
{
	ck_buf_printf(text, "%u %s", n, n == 1 ? one : many);
}

/* "2 tensors (a, b)" in natural order, of many the first ones. */
static void print_tensors(const struct ck_fs *fs, struct ck_outcome *out,
			  struct ck_buf *text)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	uint32_t n = out->n > NAMES ? NAMES - 1 : out->n;

	ck_report_sort(c, out->tensors, out->n);
	print_count(text, out->n, "tensor", "tensors");
	for (uint32_t i = 0; i < n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c,
							      out->tensors[i]);

		ck_buf_text(text, i ? ", " : " (");
		ck_buf_escaped(text, ck_tensor_names(c, t->entry.number).name);
	}
	if (n < out->n)
		ck_buf_printf(text, " and %u more", out->n - n);
	ck_buf_text(text, n ? ")" : "");
}

static void print_open(const struct ck_outcome *out, struct ck_buf *text)
{
	if (out->open == 0)
		return;
	ck_buf_text(text, "; ");
	print_count(text, out->open, "file is being written and no part of it",
		    "files are being written and no part of it");
}

static void print_failure(const struct ck_fs *fs, struct ck_outcome *out,
			  const struct ck_diag *d, struct ck_buf *text)
{
	ck_buf_text(text, d->text);
	if (out->n == 0)
		return;
	ck_buf_text(text, out->published ? "; " : "; nothing is committed; ");
	print_tensors(fs, out, text);
	if (out->published)
		ck_buf_printf(text, " %s there, but may be gone after a crash",
			      out->n == 1 ? "is" : "are");
	else if (out->lost)
		ck_buf_text(text, " must be written again");
	else
		ck_buf_text(text,
			    out->n == 1 ? " stays staged" : " stay staged");
}

void ck_outcome_print(const struct ck_fs *fs, struct ck_outcome *out, int rc,
		      const struct ck_diag *d, struct ck_buf *text)
{
	if (rc) {
		print_failure(fs, out, d, text);
		return;
	}
	if (out->n) {
		ck_buf_text(text, "committed ");
		print_tensors(fs, out, text);
	} else {
		ck_buf_text(text, "nothing is staged");
	}
	print_open(out, text);
}

void ck_drop_print(const struct ck_fs *fs, struct ck_outcome *out,
		   const char *what, struct ck_buf *text)
{
	if (out->n) {
		ck_buf_printf(text, "%s ", what);
		print_tensors(fs, out, text);
	} else {
		ck_buf_text(text, "nothing is staged");
	}
	print_open(out, text);
}

/* --- who may -------------------------------------------------------------------- */

void ck_caller_take(struct ck_caller *c, fuse_req_t req)
{
	const struct fuse_ctx *by = fuse_req_ctx(req);
	int n;

	*c = (struct ck_caller){ .uid = by->uid, .gid = by->gid };
	if (by->uid == 0)
		return;
	c->groups = calloc(GROUPS, sizeof(*c->groups));
	n = c->groups ? fuse_req_getgroups(req, GROUPS, c->groups) : 0;
	c->n = n < 0 ? 0 : n > GROUPS ? GROUPS : (unsigned)n;
}

void ck_caller_fini(struct ck_caller *c)
{
	free(c->groups);
	*c = (struct ck_caller){ 0 };
}

static bool has_group(const struct ck_caller *c, gid_t gid)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->groups[i] == gid)
			return true;
	return c->gid == gid;
}

static bool has_all(mode_t mode, mode_t bits)
{
	return (mode & bits) == bits;
}

bool ck_caller_may(const struct ck_caller *c, const struct stat *shown,
		   mode_t bits)
{
	if (c->uid == 0)
		return true;
	if (c->uid == shown->st_uid)
		return has_all(shown->st_mode >> 6, bits);
	if (has_group(c, shown->st_gid))
		return has_all(shown->st_mode >> 3, bits);
	return has_all(shown->st_mode, bits);
}

/* Which groups he is in has to be read from /proc: only if it matters. */
bool ck_may(fuse_req_t req, const struct stat *shown, mode_t bits)
{
	const struct fuse_ctx *by = fuse_req_ctx(req);
	struct ck_caller c = { .uid = by->uid, .gid = by->gid };
	bool may;

	if (by->uid != shown->st_uid && by->gid != shown->st_gid &&
	    has_all(shown->st_mode >> 3, bits) != has_all(shown->st_mode, bits))
		ck_caller_take(&c, req);
	may = ck_caller_may(&c, shown, bits);
	ck_caller_fini(&c);
	return may;
}

bool ck_may_write(struct ck_fs *fs, fuse_req_t req)
{
	/* What all files that can be written have in common. */
	const struct ck_node any = { .dir.root = fs->root,
				     .about.accepts = CK_ACCEPTS_RAW };
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	if (fuse_req_ctx(req)->uid == geteuid())
		return true;
	if (c->tensors.n == 0)
		return fuse_req_ctx(req)->uid == 0;
	return ck_access_may_now(fs, req, &any, CK_MAY_WRITE);
}

/* --- the request ------------------------------------------------------------------ */

static void reply_nothing(fuse_req_t req, unsigned order)
{
	struct ck_order answer = { 0 };
	struct ck_buf text = { 0 };

	ck_buf_text(&text, "nothing is staged: with commit=close each file is "
			   "committed when it is closed");
	if (order == CK_ORDER_COMMIT)
		ck_scratches_print(fuse_req_userdata(req), &text);
	snprintf(answer.text, sizeof(answer.text), "%s",
		 text.data ? text.data : "out of memory");
	ck_buf_fini(&text);
	fuse_reply_ioctl(req, 0, &answer, sizeof(answer));
}

static int do_order(struct ck_fs *fs, fuse_req_t req, fuse_ino_t ino,
		    unsigned order, size_t out_len)
{
	if (ino != FUSE_ROOT_ID ||
	    (order != CK_ORDER_COMMIT && order != CK_ORDER_ABORT) ||
	    out_len < sizeof(struct ck_order))
		return -ENOTTY;
	if (!ck_may_write(fs, req))
		return -EPERM;
	if (fs->options->commit != CK_COMMIT_CLOSE)
		return ck_publish_order(fs, req, order);
	reply_nothing(req, order);
	return 0;
}

void ck_fs_order(fuse_req_t req, fuse_ino_t ino, unsigned order, void *arg,
		 struct fuse_file_info *fi, unsigned flags, const void *in,
		 size_t in_len, size_t out_len)
{
	int rc = do_order(fuse_req_userdata(req), req, ino, order, out_len);

	(void)arg, (void)fi, (void)flags, (void)in, (void)in_len;
	if (rc)
		fuse_reply_err(req, -rc);
}
