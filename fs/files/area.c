/* SPDX-License-Identifier: MIT */
/*
 * area: files/ of a mount from its making to its end, its place in the tree, and requests
 * about names and attributes.
 *
 * Cache lifetimes: names and attributes in files/ are not cached, since the job that saves
 * the checkpoint writes beside the mount. The name files/ itself stays: its directory is
 * the one that was mounted. In a step of a run directory it is not cached.
 *
 * States: made; stopped (no thread runs, requests are not queued any more); freed.
 */
#include "area_internal.h"
#include "format/run/run.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

enum {
	THREADS = 16,
	MAKERS = 2,	 /* the creator makes one file at a time */
	FDS_MOST = 1024, /* descriptors of nodes that no request uses */
	FDS_SHARE = 8,	 /* or this part of RLIMIT_NOFILE */
	OPEN_SHARE = 2,	 /* part of RLIMIT_NOFILE for open files */
};

/* --- making -------------------------------------------------------------------------- */

static rlim_t descriptors_most(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) ? FDS_MOST : limit.rlim_cur;
}

/* True if the source is a directory of this host that files/ may show. */
bool ck_area_is_wanted(const struct ck_fs *fs)
{
	return !fs->cp->file && !fs->cp->no_local_dir && !fs->options->remote &&
	       ck_view_is_wanted(&fs->options->view, CK_AREA_NAME);
}

static int root_enter(struct ck_area *a, const struct ck_checkpoint *cp,
		      const char *path, unsigned lookups,
		      struct ck_area_node **out)
{
	const struct ck_area_id id = { .dev = cp->dev,
				       .ino = cp->ino,
				       .type = S_IFDIR };

	return ck_area_enter(&a->table, NULL, path, &id, -1, lookups, out);
}

/* A network file system may write, and report errors, at close(2). */
static bool flushes_at_close(int dirfd)
{
	static const unsigned local[] = {
		BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC,	  F2FS_SUPER_MAGIC,
		TMPFS_MAGIC,	   OVERLAYFS_SUPER_MAGIC, XFS_SUPER_MAGIC,
	};
	struct statfs st;

	if (fstatfs(dirfd, &st))
		return true;
	for (size_t i = 0; i < CK_ARRAY_SIZE(local); i++)
		if (local[i] == (unsigned)st.f_type)
			return false;
	return true;
}

/* The descriptor of the top directory stays pinned. */
static int area_init(struct ck_area *a)
{
	rlim_t most = descriptors_most();
	int rc = ck_area_table_init(
		&a->table, CK_AREA_FIRST,
		(unsigned)ck_min(FDS_MOST, most / FDS_SHARE));

	a->handles_most = (size_t)(most / OPEN_SHARE);
	if (rc == 0)
		rc = root_enter(a, a->fs->cp, ".", 0, &a->top);
	if (rc == 0)
		rc = ck_area_pin(a, a->top);
	if (rc < 0)
		return rc;
	a->protected = ck_area_protected_make(a->fs);
	a->flushes = flushes_at_close(a->dirfd);
	a->pool = ck_pool_make(THREADS);
	a->makers = ck_pool_make(MAKERS);
	return a->pool && a->makers && a->protected ? 0 : -ENOMEM;
}

int ck_area_make(struct ck_fs *fs)
{
	struct ck_area *a;
	int rc;

	if (!ck_area_is_wanted(fs))
		return 0;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->fs = fs;
	a->dirfd = fs->cp->dirfd;
	a->creator = fs->creator;
	a->backing = fs->options->backing;
	pthread_mutex_init(&a->handles_lock, NULL);
	pthread_rwlock_init(&a->renames, NULL);
	rc = area_init(a);
	if (rc)
		ck_area_free(a);
	else
		fs->area = a;
	return rc;
}

void ck_area_stop(struct ck_area *a)
{
	if (!a)
		return;
	ck_pool_free(a->pool);
	ck_pool_free(a->makers);
	a->pool = a->makers = NULL;
	a->backing = NULL;
}

void ck_area_free(struct ck_area *a)
{
	if (!a)
		return;
	ck_area_stop(a);
	while (a->handles)
		ck_area_handle_free(a, a->handles);
	ck_area_table_fini(&a->table);
	ck_area_protected_free(a->protected);
	pthread_rwlock_destroy(&a->renames);
	pthread_mutex_destroy(&a->handles_lock);
	free(a);
}

bool ck_area_is_writable(const struct ck_fs *fs)
{
	return fs->area && fs->area->creator;
}

void ck_area_status(struct ck_area *a, bool of_step, struct ck_buf *out)
{
	size_t nodes;
	unsigned fds;

	if (!a)
		return;
	if (of_step && a->creator) {
		ck_buf_text(out, CK_AREA_NAME "/: read-only; mount the step to "
					      "change files beside its "
					      "checkpoint\n");
		return;
	}
	ck_area_counts(&a->table, &nodes, &fds);
	ck_buf_printf(out,
		      CK_AREA_NAME "/: %s, %zu names in use, %u descriptors, ",
		      a->creator ? "writable" : "read-only", nodes, fds);
	ck_backing_status(a->backing, out);
	ck_buf_text(out, "\n");
}

/* --- its place in the tree ------------------------------------------------------------ */

/* True if a step has the name. */
static bool is_taken(const struct ck_checkpoint *cp)
{
	struct ck_rundir *run = ck_checkpoint_run(cp);
	const struct ck_steps *steps;
	bool taken;

	if (!run || ck_run_steps(run, &steps))
		return false;
	taken = ck_steps_find(steps, CK_STR(CK_AREA_NAME)) != NULL;
	ck_steps_put(steps);
	return taken;
}

bool ck_area_is_in(const struct ck_fs *fs, const struct ck_node *dir,
		   uint64_t *ino)
{
	struct ck_root *root = ck_node_root(fs, dir);
	const struct ck_checkpoint *cp = ck_root_checkpoint(root);
	struct ck_dir top = ck_root_dir(root);

	if (!fs->area || !ck_node_is_dir(dir) || dir->dir.view != top.view ||
	    dir->dir.state != top.state || cp->file || is_taken(cp))
		return false;
	*ino = cp->ino | CK_AREA_INO;
	return true;
}

/* The path of the directory of a checkpoint beneath the source. */
static const char *path_in(const struct ck_fs *fs,
			   const struct ck_checkpoint *cp)
{
	size_t len = strlen(fs->cp->path);

	if (cp == fs->cp || strncmp(cp->path, fs->cp->path, len) != 0)
		return ".";
	return cp->path + len + strspn(cp->path + len, "/");
}

/* Seconds for which the kernel may cache the name files/. In a run directory a step of that
 * name may appear, and a step may be replaced. */
static double name_timeout(const struct ck_node *dir, bool is_top)
{
	if (dir->dir.names_msec)
		return dir->dir.names_msec / 1e3;
	return is_top ? CK_TIMEOUT : 0;
}

/* The kernel requests the other attributes before it uses them. */
int ck_area_entry(const struct ck_fs *fs, const struct ck_node *dir,
		  struct fuse_entry_param *out)
{
	const struct ck_checkpoint *cp = ck_node_checkpoint(fs, dir);
	struct ck_area *a = fs->area;
	struct ck_area_node *n;
	int rc = root_enter(a, cp, path_in(fs, cp), 1, &n);

	if (rc)
		return rc;
	*out = (struct fuse_entry_param){
		.ino = n->number,
		.attr = { .st_ino = cp->ino | CK_AREA_INO,
			  .st_mode = S_IFDIR | S_IRWXU,
			  .st_nlink = 2 },
		.entry_timeout = name_timeout(dir, cp == fs->cp),
	};
	ck_area_put(&a->table, n);
	return 0;
}

/* --- names --------------------------------------------------------------------------- */

static void lookup_run(struct ck_area_job *j)
{
	struct ck_area *a = j->area;
	struct ck_area_node *dir = ck_area_get(&a->table, j->ino);
	struct fuse_entry_param e;
	int rc = dir ? ck_area_lookup(a, dir, j->name, &e) : -ESTALE;

	ck_area_put(&a->table, dir);
	ck_area_reply_entry(j, rc, &e);
}

static void area_lookup(fuse_req_t req, fuse_ino_t dir, const char *name)
{
	ck_area_defer(req, dir, lookup_run, name, NULL);
}

/* Through an open file, which may have no name any more, or by the names. */
static int do_getattr(struct ck_area_job *j, struct stat *st)
{
	int fd = j->has_fi ? ck_area_handle_of(&j->fi)->fd : -1;
	struct ck_area_node *n;
	int rc;

	if (fd >= 0)
		return ck_area_fd_stat(j->area, fd, st);
	n = ck_area_get(&j->area->table, j->ino);
	rc = n ? ck_area_stat(j->area, n, st) : -ESTALE;
	ck_area_put(&j->area->table, n);
	return rc;
}

static void getattr_run(struct ck_area_job *j)
{
	struct stat st;
	int rc = do_getattr(j, &st);

	if (rc)
		fuse_reply_err(j->req, -rc);
	else
		fuse_reply_attr(j->req, &st, 0);
}

static void area_getattr(fuse_req_t req, fuse_ino_t ino,
			 struct fuse_file_info *fi)
{
	ck_area_defer(req, ino, getattr_run, NULL, fi);
}

/* Returns the length of the target, or an error. */
static ssize_t target_read(struct ck_area *a, struct ck_area_node *n, char *to,
			   size_t room)
{
	int fd = ck_area_pin(a, n);
	ssize_t len;

	if (fd < 0)
		return fd;
	len = readlinkat(fd, "", to, room);
	if (len < 0)
		len = -errno;
	ck_area_fd_unpin(&a->table, n);
	return len;
}

static void readlink_run(struct ck_area_job *j)
{
	struct ck_area_node *n = ck_area_get(&j->area->table, j->ino);
	char *target = ck_reply_buffer(PATH_MAX + 1);
	ssize_t len = target ? -ESTALE : -ENOMEM;

	if (n && target)
		len = target_read(j->area, n, target, PATH_MAX);
	ck_area_put(&j->area->table, n);
	if (len < 0) {
		fuse_reply_err(j->req, (int)-len);
		return;
	}
	target[len] = '\0';
	fuse_reply_readlink(j->req, target);
}

static void area_readlink(fuse_req_t req, fuse_ino_t ino)
{
	ck_area_defer(req, ino, readlink_run, NULL, NULL);
}

static int do_statfs(struct ck_area *a, struct ck_area_node *n,
		     struct statvfs *out)
{
	char name[CK_AREA_NAME_BYTES];
	struct ck_area_node *pinned = n;
	int fd, rc;

	if (n->id.covered)
		fd = ck_area_pin_parent(a, n, &pinned, name);
	else
		fd = ck_area_pin(a, n);
	if (fd < 0)
		return fd;
	rc = fstatvfs(fd, out) ? -errno : 0;
	ck_area_fd_unpin(&a->table, pinned);
	if (n->id.covered)
		ck_area_put(&a->table, pinned);
	return rc;
}

static void statfs_run(struct ck_area_job *j)
{
	struct ck_area_node *n = ck_area_get(&j->area->table, j->ino);
	struct statvfs st;
	int rc = n ? do_statfs(j->area, n, &st) : -ESTALE;

	ck_area_put(&j->area->table, n);
	if (rc)
		fuse_reply_err(j->req, -rc);
	else
		fuse_reply_statfs(j->req, &st);
}

static void area_statfs(fuse_req_t req, fuse_ino_t ino)
{
	ck_area_defer(req, ino, statfs_run, NULL, NULL);
}

/* --- forgetting ---------------------------------------------------------------------- */

/* Numbers that the kernel forgets. In a thread of the pool, since a descriptor may be
 * closed. */
struct forgetting {
	struct ck_pool_job job; /* first */
	struct ck_area *area;
	size_t n;
	struct fuse_forget_data all[];
};

static void forget_run(struct ck_pool_job *job, bool ended)
{
	struct forgetting *f = (struct forgetting *)job;

	(void)ended;
	for (size_t i = 0; i < f->n; i++)
		ck_area_forget(&f->area->table, f->all[i].ino,
			       f->all[i].nlookup);
	free(f);
}

static void forget_here(struct ck_area *a, size_t count,
			const struct fuse_forget_data *all)
{
	for (size_t i = 0; i < count; i++)
		if (ck_area_has(all[i].ino))
			ck_area_forget(&a->table, all[i].ino, all[i].nlookup);
}

void ck_area_forget_all(struct ck_area *a, size_t count,
			const struct fuse_forget_data *all)
{
	struct forgetting *f;
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		n += ck_area_has(all[i].ino);
	if (!a || n == 0)
		return;
	f = malloc(sizeof(*f) + n * sizeof(*all));
	if (!f) {
		forget_here(a, count, all);
		return;
	}
	*f = (struct forgetting){ .job.run = forget_run, .area = a };
	for (size_t i = 0; i < count; i++)
		if (ck_area_has(all[i].ino))
			f->all[f->n++] = all[i];
	if (!ck_pool_add(a->pool, &f->job))
		forget_run(&f->job, true);
}

static void area_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n)
{
	const struct fuse_forget_data one = { .ino = ino, .nlookup = n };

	ck_area_forget_all(ck_area_of(req), 1, &one);
	fuse_reply_none(req);
}

struct fuse_lowlevel_ops ck_area_ops(const struct ck_fs *fs)
{
	struct fuse_lowlevel_ops ops = {
		.lookup = area_lookup,
		.forget = area_forget,
		.getattr = area_getattr,
		.readlink = area_readlink,
		.statfs = area_statfs,
	};

	ck_area_data_ops(&ops);
	ck_area_list_ops(&ops);
	ck_area_xattr_ops(&ops);
	ck_area_refuse_ops(&ops);
	if (!ck_area_is_writable(fs))
		return ops;
	ck_area_write_ops(&ops);
	ck_area_attr_ops(&ops);
	ck_area_make_ops(&ops);
	ck_area_name_ops(&ops);
	return ops;
}
