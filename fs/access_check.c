/* SPDX-License-Identifier: MIT */
/*
 * access_check: permission checks for a source whose modes and owners change
 * under a mount.
 *
 * The kernel checks permissions by the attributes in its cache, which may be
 * hours old. Each open and each change of a name reads the modes and owners of
 * the source again. If they have changed, the daemon shows the new ones and
 * checks permissions itself. The kernel cannot do it: it would need a new
 * lookup, and a file of /proc/self/fd is opened without a name. Before the
 * kernel refuses an access it requests the attributes, which are then read
 * again, too.
 *
 * State: a counter of changes, and the nodes whose cached attributes were
 * dropped since the last change.
 *
 * Threads: all functions may be called by any thread.
 */
#include "internal.h"
#include <errno.h>
#include <fcntl.h>

/* Nodes that are remembered; the kernel may be notified of others more than
 * once. */
enum { KNOWN = 1024 };

struct ck_access_checks {
	pthread_mutex_t lock;
	/* Changed under lock; atomic for readers without it: */
	/* number of changes of the shown attributes */
	uint64_t changes;
	/* Under lock: */
	uint64_t notified_of; /* change that notified[] belongs to */
	/* numbers of nodes whose cached attributes were dropped */
	uint64_t notified[KNOWN];
};

struct ck_access_checks *ck_access_checks_make(void)
{
	struct ck_access_checks *j = calloc(1, sizeof(*j));

	if (j)
		pthread_mutex_init(&j->lock, NULL);
	return j;
}

void ck_access_checks_free(struct ck_access_checks *j)
{
	if (!j)
		return;
	pthread_mutex_destroy(&j->lock);
	free(j);
}

/* True if the shown attributes have changed. */
static bool note_change(struct ck_fs *fs, const struct ck_node *n)
{
	struct ck_access_checks *j = fs->access_checks;

	if (!ck_root_is_renewed(ck_node_root(fs, n)))
		return false;
	pthread_mutex_lock(&j->lock);
	__atomic_add_fetch(&j->changes, 1, __ATOMIC_ACQ_REL);
	pthread_mutex_unlock(&j->lock);
	return true;
}

static size_t slot_of(uint64_t number)
{
	struct ck_str bytes = { (const char *)&number, sizeof(number) };

	return (size_t)(ck_hash64_seeded(bytes, 0) % KNOWN);
}

/* True once for each change: the kernel may have older attributes of the node. */
static bool must_notify(struct ck_access_checks *j, uint64_t number)
{
	size_t slot = slot_of(number);
	bool notify;

	if (__atomic_load_n(&j->changes, __ATOMIC_ACQUIRE) == 0)
		return false;
	pthread_mutex_lock(&j->lock);
	if (j->notified_of != j->changes)
		memset(j->notified, 0, sizeof(j->notified));
	j->notified_of = j->changes;
	notify = j->notified[slot] != number;
	j->notified[slot] = number;
	pthread_mutex_unlock(&j->lock);
	return notify;
}

/* Reads the source of the bytes that a node has in a catalog. */
static int refresh(struct ck_fs *fs, const struct ck_catalog *of,
		   const struct ck_node *n)
{
	struct ck_items items = ck_about_items(of, &n->about);

	ck_mount_status_notice(fs, ck_node_root(fs, n));
	ck_checkpoint_stat_items(ck_node_checkpoint(fs, n), items);
	return ck_checkpoint_renew_access(ck_node_checkpoint(fs, n), items);
}

int ck_access_refresh(struct ck_fs *fs, const struct ck_node *n)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(ck_node_checkpoint(fs, n));

	return refresh(fs, c, n);
}

/* -ENOMEM: the shown attributes may be old. */
static int update(struct ck_fs *fs, const struct ck_catalog *of,
		  const struct ck_node *n)
{
	int rc = ck_checkpoint_renew_access(ck_node_checkpoint(fs, n),
					    ck_about_items(of, &n->about));

	if (note_change(fs, n))
		ck_nodes_forget_attributes(fs);
	if (!ck_node_is_scratch(n) && must_notify(fs->access_checks, n->number))
		ck_node_forget_attributes(fs, n->number);
	return rc;
}

/* --- judging -------------------------------------------------------------- */

static bool was_changed(const struct ck_fs *fs, const struct ck_node *n)
{
	return ck_checkpoint_access(ck_node_checkpoint(fs, n)) != 0;
}

/* All directories of a checkpoint have the same attributes. */
static bool may_in(const struct ck_fs *fs, fuse_req_t req,
		   const struct ck_node *in, mode_t bits)
{
	const struct ck_node any = { .dir.root = ck_node_root(fs, in),
				     .about.type = CK_TYPE_DIR };
	struct stat shown;

	return ck_node_stat(fs, &any, &shown) == 0 && ck_may(req, &shown, bits);
}

static bool may_as_seen(const struct ck_fs *fs, fuse_req_t req,
			const struct ck_catalog *of, const struct ck_node *n,
			mode_t bits)
{
	struct ck_node_stat known;
	struct stat shown;

	if (!may_in(fs, req, n, CK_MAY_SEARCH))
		return false;
	if (ck_node_is_scratch(n))
		return true;
	ck_tree_rights(of, n, &known);
	ck_node_stat_fill(fs, n, &known, &shown);
	return ck_may(req, &shown, bits);
}

static bool may_now(struct ck_fs *fs, fuse_req_t req,
		    const struct ck_catalog *of, const struct ck_node *n,
		    mode_t bits)
{
	int rc = refresh(fs, of, n);

	if (rc == 0)
		rc = update(fs, of, n);
	return rc == 0 && may_as_seen(fs, req, of, n, bits);
}

bool ck_access_may_now(struct ck_fs *fs, fuse_req_t req,
		       const struct ck_node *n, mode_t bits)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(ck_node_checkpoint(fs, n));

	return may_now(fs, req, c, n, bits);
}

mode_t ck_access_bits(int flags)
{
	int mode = flags & O_ACCMODE;
	mode_t bits = mode == O_WRONLY ? 0 : CK_MAY_READ;

	return mode != O_RDONLY || (flags & O_TRUNC) ? bits | CK_MAY_WRITE
						     : bits;
}

int ck_access_check_open(struct ck_fs *fs, fuse_req_t req,
			 const struct ck_catalog *of, const struct ck_node *n,
			 int flags)
{
	mode_t bits = ck_access_bits(flags);
	int rc = update(fs, of, n);

	if (rc)
		return rc;
	if (!was_changed(fs, n) || may_as_seen(fs, req, of, n, bits))
		return 0;
	return may_now(fs, req, of, n, bits) ? 0 : -EACCES;
}

int ck_access_check_names(struct ck_fs *fs, fuse_req_t req,
			  const struct ck_node *dir)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(ck_node_checkpoint(fs, dir));
	int rc = refresh(fs, c, dir);

	if (rc == 0)
		rc = update(fs, c, dir);
	if (rc)
		return rc;
	if (!was_changed(fs, dir) ||
	    may_in(fs, req, dir, CK_MAY_WRITE | CK_MAY_SEARCH))
		return 0;
	return -EACCES;
}
