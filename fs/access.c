/* SPDX-License-Identifier: MIT */
/*
 * access: who may do what, when that is changed under a mount. The kernel
 * judges by the modes and owners that it was told, and it was told them long
 * ago. Each open and each change of a name looks at those of the source, and
 * where they are others the daemon shows these from then on, and judges by them
 * itself. It does not leave that to the kernel, which would have to look the
 * name up again: a file of /proc/self/fd is opened without a name. Before the
 * kernel refuses somebody it asks for the attributes of the file: these are
 * looked at then, too.
 */
#include "internal.h"
#include <errno.h>
#include <fcntl.h>

struct ck_judged {
	pthread_mutex_t lock; /* of setting all bits, too */
	/* Changed under lock; atomic for readers without it: */
	uint64_t renewed; /* as ck_checkpoint_access() was */

	/* Atomic: */
	struct ck_bits old; /* of nodes: the kernel may have what was before */
};

struct ck_judged *ck_judged_make(const struct ck_fs *fs)
{
	struct ck_judged *j = calloc(1, sizeof(*j));

	if (!j || ck_bits_make(&j->old, ck_node_places(fs))) {
		free(j);
		return NULL;
	}
	pthread_mutex_init(&j->lock, NULL);
	return j;
}

void ck_judged_free(struct ck_judged *j)
{
	if (!j)
		return;
	pthread_mutex_destroy(&j->lock);
	ck_bits_fini(&j->old);
	free(j);
}

/* The kernel asks for those of directories when it needs them. */
static void tell_directories(struct ck_fs *fs)
{
	static const enum ck_node_kind single[] = {
		CK_NODE_ROOT,
		CK_NODE_CONTROL,
		CK_NODE_LOCAL,
		CK_NODE_OBJECTS,
	};
	struct ck_node n = { .kind = CK_NODE_VIEW };

	for (; n.index < ck_ntensor_views; n.index++)
		ck_node_forget_attributes(fs, &n);
	n.kind = CK_NODE_OWNER;
	for (n.index = 0; n.index < ck_local_count(fs->local); n.index++)
		ck_node_forget_attributes(fs, &n);
	n.index = 0;
	for (size_t i = 0; i < CK_ARRAY_SIZE(single); i++) {
		n.kind = single[i];
		ck_node_forget_attributes(fs, &n);
	}
}

/* True: what is shown was changed. */
static bool note_renewal(struct ck_fs *fs)
{
	struct ck_judged *j = fs->judged;
	uint64_t now = ck_checkpoint_access(fs->cp);
	bool changed;

	if (now == __atomic_load_n(&j->renewed, __ATOMIC_ACQUIRE))
		return false;
	pthread_mutex_lock(&j->lock);
	changed = j->renewed != now;
	if (changed)
		ck_bits_set_all_atomic(&j->old);
	__atomic_store_n(&j->renewed, now, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&j->lock);
	return changed;
}

static bool take_bit(struct ck_judged *j, uint64_t at)
{
	return ck_bits_has(&j->old, at) && ck_bits_clear_atomic(&j->old, at);
}

/* What the bytes of a node come from in a catalog. */
static int look(struct ck_fs *fs, const struct ck_catalog *of,
		const struct ck_node *n)
{
	struct ck_items items = ck_node_items(of, n);

	ck_control_notice(fs);
	ck_checkpoint_look(fs->cp, items);
	return ck_checkpoint_renew_access(fs->cp, items);
}

int ck_access_look(struct ck_fs *fs, const struct ck_node *n)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	return look(fs, c, n);
}

/* -ENOMEM: what is shown may be old. */
static int renew(struct ck_fs *fs, const struct ck_catalog *of,
		 const struct ck_node *n)
{
	int rc = ck_checkpoint_renew_access(fs->cp, ck_node_items(of, n));

	if (note_renewal(fs))
		tell_directories(fs);
	if (n->kind != CK_NODE_SCRATCH &&
	    take_bit(fs->judged, ck_node_place(fs, n)))
		ck_node_forget_attributes(fs, n);
	return rc;
}

/* --- judging ------------------------------------------------------------------ */

static bool was_changed(const struct ck_fs *fs)
{
	return ck_checkpoint_access(fs->cp) != 0;
}

/* All directories show the same. */
static bool may_in(const struct ck_fs *fs, fuse_req_t req, mode_t bits)
{
	const struct ck_node root = { .kind = CK_NODE_ROOT };
	struct stat shown;

	ck_node_stat(fs, &root, 0, &shown);
	return ck_may(req, &shown, bits);
}

static bool may_as_seen(const struct ck_fs *fs, fuse_req_t req,
			const struct ck_catalog *of, const struct ck_node *n,
			mode_t bits)
{
	struct stat shown;

	if (!may_in(fs, req, CK_MAY_SEARCH))
		return false;
	if (n->kind == CK_NODE_SCRATCH)
		return true;
	ck_node_stat(fs, n, 0, &shown);
	shown.st_mode = ck_node_mode(fs, of, n);
	return ck_may(req, &shown, bits);
}

static bool may_now(struct ck_fs *fs, fuse_req_t req,
		    const struct ck_catalog *of, const struct ck_node *n,
		    mode_t bits)
{
	int rc = look(fs, of, n);

	if (rc == 0)
		rc = renew(fs, of, n);
	return rc == 0 && may_as_seen(fs, req, of, n, bits);
}

bool ck_access_may_now(struct ck_fs *fs, fuse_req_t req,
		       const struct ck_node *n, mode_t bits)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	return may_now(fs, req, c, n, bits);
}

mode_t ck_access_bits(int flags)
{
	int mode = flags & O_ACCMODE;
	mode_t bits = mode == O_WRONLY ? 0 : CK_MAY_READ;

	return mode != O_RDONLY || (flags & O_TRUNC) ? bits | CK_MAY_WRITE
						     : bits;
}

int ck_access_judge_open(struct ck_fs *fs, fuse_req_t req,
			 const struct ck_catalog *of, const struct ck_node *n,
			 int flags)
{
	mode_t bits = ck_access_bits(flags);
	int rc = renew(fs, of, n);

	if (rc)
		return rc;
	if (!was_changed(fs) || may_as_seen(fs, req, of, n, bits))
		return 0;
	return may_now(fs, req, of, n, bits) ? 0 : -EACCES;
}

int ck_access_judge_names(struct ck_fs *fs, fuse_req_t req,
			  const struct ck_node *dir)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	int rc = look(fs, c, dir);

	if (rc == 0)
		rc = renew(fs, c, dir);
	if (rc)
		return rc;
	if (!was_changed(fs) || may_in(fs, req, CK_MAY_WRITE | CK_MAY_SEARCH))
		return 0;
	return -EACCES;
}
