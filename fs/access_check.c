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

/* Nodes that are remembered; of others it is told again. */
enum { TOLD = 1024 };

struct ck_access_checks {
	pthread_mutex_t lock;
	/* Changed under lock; atomic for readers without it: */
	uint64_t renewed; /* how often what is shown was changed */
	/* Under lock: */
	uint64_t told_of;    /* renewal */
	uint64_t told[TOLD]; /* numbers of nodes of which the kernel was told */
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

/* True: what is shown was changed. */
static bool note_renewal(struct ck_fs *fs, const struct ck_node *n)
{
	struct ck_access_checks *j = fs->access_checks;

	if (!ck_root_is_renewed(ck_node_root(fs, n)))
		return false;
	pthread_mutex_lock(&j->lock);
	__atomic_add_fetch(&j->renewed, 1, __ATOMIC_ACQ_REL);
	pthread_mutex_unlock(&j->lock);
	return true;
}

static size_t slot_of(uint64_t number)
{
	struct ck_str bytes = { (const char *)&number, sizeof(number) };

	return (size_t)(ck_hash64_seeded(bytes, 0) % TOLD);
}

/* The kernel may have what was before the last renewal: it is told once. */
static bool is_to_tell(struct ck_access_checks *j, uint64_t number)
{
	size_t slot = slot_of(number);
	bool tell;

	if (__atomic_load_n(&j->renewed, __ATOMIC_ACQUIRE) == 0)
		return false;
	pthread_mutex_lock(&j->lock);
	if (j->told_of != j->renewed)
		memset(j->told, 0, sizeof(j->told));
	j->told_of = j->renewed;
	tell = j->told[slot] != number;
	j->told[slot] = number;
	pthread_mutex_unlock(&j->lock);
	return tell;
}

/* What the bytes of a node come from in a catalog. */
static int look(struct ck_fs *fs, const struct ck_catalog *of,
		const struct ck_node *n)
{
	struct ck_items items = ck_about_items(of, &n->about);

	ck_mount_status_notice(fs, ck_node_root(fs, n));
	ck_checkpoint_look(ck_node_checkpoint(fs, n), items);
	return ck_checkpoint_renew_access(ck_node_checkpoint(fs, n), items);
}

int ck_access_refresh(struct ck_fs *fs, const struct ck_node *n)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(ck_node_checkpoint(fs, n));

	return look(fs, c, n);
}

/* -ENOMEM: what is shown may be old. */
static int renew(struct ck_fs *fs, const struct ck_catalog *of,
		 const struct ck_node *n)
{
	int rc = ck_checkpoint_renew_access(ck_node_checkpoint(fs, n),
					    ck_about_items(of, &n->about));

	if (note_renewal(fs, n))
		ck_nodes_forget_attributes(fs);
	if (!ck_node_is_scratch(n) && is_to_tell(fs->access_checks, n->number))
		ck_node_forget_attributes(fs, n->number);
	return rc;
}

/* --- judging ------------------------------------------------------------------ */

static bool was_changed(const struct ck_fs *fs, const struct ck_node *n)
{
	return ck_checkpoint_access(ck_node_checkpoint(fs, n)) != 0;
}

/* All directories of a checkpoint show the same. */
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
	int rc = look(fs, of, n);

	if (rc == 0)
		rc = renew(fs, of, n);
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
	int rc = renew(fs, of, n);

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
	int rc = look(fs, c, dir);

	if (rc == 0)
		rc = renew(fs, c, dir);
	if (rc)
		return rc;
	if (!was_changed(fs, dir) ||
	    may_in(fs, req, dir, CK_MAY_WRITE | CK_MAY_SEARCH))
		return 0;
	return -EACCES;
}
