/* SPDX-License-Identifier: MIT */
/*
 * lookup: names to nodes, and attributes of nodes.
 *
 * Cache lifetimes:
 * - Names and attributes, and missing names, are valid for a day: only requests
 *   of the same kernel change names.
 * - The name of a tensor or box of a writable mount is valid for a second at
 *   most: a commit gives it a new inode. An inode is one version, so its
 *   attributes stay valid for a day.
 * - Live reports are looked up each time, since that makes their snapshot. So
 *   are scratch files, whose names may be those of tensors after a rename.
 *
 * No state. Handlers run in any FUSE thread; with remote files the reply may
 * come from the thread of the backend (async_reply.c).
 */
#include "async_reply.h"
#include "internal.h"
#include <errno.h>

int ck_fs_name(const struct ck_fs *fs, const struct ck_node *dir,
	       const char *name, struct ck_node *out)
{
	uint32_t scratch;
	int rc = ck_tree_name(fs->tree, dir->number, ck_str_from(name), out);

	if (rc != -ENOENT || !ck_node_takes_files(dir) || !fs->scratches)
		return rc;
	rc = ck_scratch_find(fs, dir, name, &scratch);
	if (rc == 0)
		*out = ck_node_of_scratch(scratch);
	return rc;
}

/* Seconds for which a name is valid. changes: a commit replaces the node, or it
 * is a scratch file; msec: limit of its directory, or 0. */
static double name_timeout(const struct ck_fs *fs, bool changes, uint32_t msec)
{
	double seconds = fs->writer && changes ? fs->name_timeout : CK_TIMEOUT;

	return msec && msec / 1e3 < seconds ? msec / 1e3 : seconds;
}

/* Without all data files the permissions of a file are not known. The size of
 * an object whose file is missing may become known later. */
static double attr_timeout(const struct ck_fs *fs, const struct ck_node *n,
			   uint64_t size)
{
	if (!ck_node_is_dir(n) &&
	    !ck_checkpoint_is_seen(ck_node_checkpoint(fs, n)))
		return 0;
	if (n->about.live || (n->about.made && size == 0))
		return 0;
	return CK_TIMEOUT;
}

void ck_fs_entry_fill(const struct ck_fs *fs, const struct ck_node *n,
		      const struct ck_node_stat *known,
		      struct fuse_entry_param *out)
{
	*out = (struct fuse_entry_param){
		.ino = n->number,
		.attr_timeout = attr_timeout(fs, n, known->size),
		.entry_timeout =
			n->about.live
				? 0
				: name_timeout(fs, ck_node_is_of_tensors(n),
					       n->names_msec),
	};
	ck_node_stat_fill(fs, n, known, &out->attr);
}

/* A scratch file may become a tensor by a rename: its attributes are not
 * cached. */
static int scratch_entry(const struct ck_fs *fs, const struct ck_node *n,
			 struct fuse_entry_param *out)
{
	*out = (struct fuse_entry_param){ .ino = n->number };
	return ck_scratch_stat(fs, ck_node_scratch(n), &out->attr);
}

int ck_fs_entry(struct ck_fs *fs, const struct ck_node *n,
		struct fuse_entry_param *out)
{
	struct ck_node used = *n;
	struct ck_node_stat known;
	int rc;

	if (ck_node_is_scratch(n))
		return scratch_entry(fs, n, out);
	rc = ck_tree_use(fs->tree, &used);
	if (rc)
		return rc;
	rc = ck_tree_stat(&used, &known);
	if (rc)
		ck_fs_forget_one(fs, used.number, 1);
	else
		ck_fs_entry_fill(fs, &used, &known, out);
	return rc;
}

/* The entry of files/, if a directory has it and no entry of the tree has its
 * name. */
static int area_entry(const struct ck_fs *fs, const struct ck_node *dir,
		      const char *name, struct fuse_entry_param *out)
{
	uint64_t ino;

	if (strcmp(name, CK_AREA_NAME) != 0 || !ck_area_is_in(fs, dir, &ino))
		return -ENOENT;
	return ck_area_entry(fs, dir, out);
}

/* Inode 0 means that there is no such name, and that the kernel caches this. */
static void no_entry(const struct ck_fs *fs, const struct ck_node *dir,
		     struct fuse_entry_param *out)
{
	*out = (struct fuse_entry_param){
		.entry_timeout =
			dir->dir.names_msec
				/* a new step becomes visible soon */
				? 0
				: name_timeout(fs, ck_node_takes_files(dir), 0),
	};
}

static int do_lookup(struct ck_fs *fs, fuse_ino_t parent, const char *name,
		     struct fuse_entry_param *out)
{
	struct ck_node dir, n;
	int rc;

	rc = ck_node_find(fs, parent, &dir);
	if (rc)
		return rc;
	rc = ck_fs_name(fs, &dir, name, &n);
	if (rc == -ENOENT) {
		rc = area_entry(fs, &dir, name, out);
		if (rc != -ENOENT)
			return rc;
	}
	if (rc == -ENOENT || (rc == 0 && ck_whiteout_has(fs, &n))) {
		no_entry(fs, &dir, out);
		return 0;
	}
	if (rc)
		return rc;
	return ck_fs_entry(fs, &n, out);
}

static void reply_lookup(fuse_req_t req, int rc,
			 const struct fuse_entry_param *e)
{
	if (rc)
		fuse_reply_err(req, -rc);
	else
		ck_fs_reply_entry(req, e);
}

/* A lookup that may need bytes of remote files, for a node that is made by it. */
struct async_lookup {
	struct ck_async_fetch fetch; /* first */
	fuse_ino_t parent;
	struct fuse_entry_param entry;
	char name[];
};

/* A report is made with the bytes that are here, and again when the others have
 * arrived. */
static int lookup_run(void *arg)
{
	struct async_lookup *l = arg;
	struct ck_fs *fs = l->fetch.reply.fs;
	int rc = do_lookup(fs, l->parent, l->name, &l->entry);

	if (rc || !ck_fetch_is_pending(&l->fetch.headers.fetch))
		return rc;
	ck_fs_forget_one(fs, l->entry.ino, 1);
	return -EREMOTE;
}

static void lookup_answer(struct ck_async_fetch *fetch)
{
	struct async_lookup *l = (struct async_lookup *)fetch;
	int rc = ck_async_fetch_run(fetch, lookup_run, l);

	if (rc > 0)
		return;
	reply_lookup(fetch->reply.req, rc, &l->entry);
	ck_async_fetch_end(fetch);
	free(l);
}

static void lookup_remote(struct ck_fs *fs, fuse_req_t req, fuse_ino_t parent,
			  const char *name)
{
	struct async_lookup *l = malloc(sizeof(*l) + strlen(name) + 1);

	if (!l) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	ck_async_fetch_init(&l->fetch, fs, req, lookup_answer);
	l->parent = parent;
	memcpy(l->name, name, strlen(name) + 1);
	lookup_answer(&l->fetch);
}

void ck_fs_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct fuse_entry_param e;
	int rc;

	if (fs->route.remote) {
		lookup_remote(fs, req, parent, name);
		return;
	}
	if (fs->writer)
		ck_reopen_lease_renew(fs->reopen_leases,
				      fuse_req_ctx(req)->pid);
	rc = do_lookup(fs, parent, name, &e);
	reply_lookup(req, rc, &e);
}

static int do_getattr(struct ck_fs *fs, fuse_ino_t ino, struct stat *st,
		      double *timeout)
{
	struct ck_node n;
	int rc = ck_node_find(fs, ino, &n);

	*timeout = 0;
	if (rc)
		return rc;
	if (ck_node_is_scratch(&n))
		return ck_node_stat(fs, &n, st);
	/* on failure: the known attributes */
	(void)!ck_access_refresh(fs, &n);
	rc = ck_node_stat(fs, &n, st);
	if (rc == 0)
		*timeout = attr_timeout(fs, &n, (uint64_t)st->st_size);
	return rc;
}

static void reply_getattr(fuse_req_t req, int rc, const struct stat *st,
			  double timeout)
{
	if (rc)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_attr(req, st, timeout);
}

/* A getattr that may need bytes of remote files. */
struct async_getattr {
	struct ck_async_fetch fetch; /* first */
	fuse_ino_t ino;
	struct stat st;
	double timeout;
};

static int getattr_run(void *arg)
{
	struct async_getattr *l = arg;

	return do_getattr(l->fetch.reply.fs, l->ino, &l->st, &l->timeout);
}

static void getattr_answer(struct ck_async_fetch *fetch)
{
	struct async_getattr *l = (struct async_getattr *)fetch;
	int rc = ck_async_fetch_run(fetch, getattr_run, l);

	if (rc > 0)
		return;
	reply_getattr(fetch->reply.req, rc, &l->st, l->timeout);
	ck_async_fetch_end(fetch);
	free(l);
}

static void getattr_remote(struct ck_fs *fs, fuse_req_t req, fuse_ino_t ino)
{
	struct async_getattr *l = malloc(sizeof(*l));

	if (!l) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	ck_async_fetch_init(&l->fetch, fs, req, getattr_answer);
	l->ino = ino;
	getattr_answer(&l->fetch);
}

void ck_fs_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct ck_fs *fs = fuse_req_userdata(req);
	struct stat st;
	double timeout;
	int rc;

	(void)fi;
	if (fs->route.remote) {
		getattr_remote(fs, req, ino);
		return;
	}
	rc = do_getattr(fs, ino, &st, &timeout);
	reply_getattr(req, rc, &st, timeout);
}

void ck_fs_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct ck_buf target = { 0 };
	struct ck_node n;
	int rc = ck_node_find(fuse_req_userdata(req), ino, &n);

	if (rc == 0)
		rc = ck_tree_link(&n, &target);
	if (rc == 0 && !target.data)
		rc = -ENOENT;
	if (rc)
		fuse_reply_err(req, -rc);
	else
		fuse_reply_readlink(req, target.data);
	ck_buf_fini(&target);
}

/* --- forgetting ----------------------------------------------------------- */

void ck_fs_forget_one(struct ck_fs *fs, uint64_t number, uint64_t n)
{
	const struct fuse_forget_data one = { .ino = number, .nlookup = n };

	if (ck_area_has(number))
		ck_area_forget_all(fs->area, 1, &one);
	else if (number && number < CK_TREE_FOREIGN)
		ck_tree_forget(fs->tree, number, n);
}

void ck_fs_reply_entry(fuse_req_t req, const struct fuse_entry_param *e)
{
	/* The kernel dropped the reply and will not forget the node. */
	if (fuse_reply_entry(req, e) == -ENOENT)
		ck_fs_forget_one(fuse_req_userdata(req), e->ino, 1);
}

void ck_fs_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	ck_fs_forget_one(fuse_req_userdata(req), ino, n);
	fuse_reply_none(req);
}

void ck_fs_forget_multi(fuse_req_t req, size_t count,
			struct fuse_forget_data *all)
{
	struct ck_fs *fs = fuse_req_userdata(req);

	for (size_t i = 0; i < count; i++)
		if (!ck_area_has(all[i].ino))
			ck_fs_forget_one(fs, all[i].ino, all[i].nlookup);
	ck_area_forget_all(fs->area, count, all);
	fuse_reply_none(req);
}
