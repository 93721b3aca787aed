/* SPDX-License-Identifier: MIT */
/*
 * area_protect: see area_protect.h. The list of files is made at the first check, and each
 * commit adds its files. Since a job may save the checkpoint beside the mount, it is made
 * again after a second, or after twenty times the duration of the last making.
 *
 * Lock: ck_area_protected.lock, held while the list is made.
 */
#include "area_protect.h"
#include "area_internal.h"
#include "area_path.h"
#include "format/run/run.h"
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

/* A file that may not be changed. */
struct row {
	struct ck_file_id id; /* first */
	bool holds;	      /* a directory with such files */
	uint64_t logged;      /* time of the last refusal in the log; 0: none */
};

struct ck_area_protected {
	/* Constant: */
	const struct ck_fs *fs;

	pthread_mutex_t lock;
	/* Under lock: */
	struct row *rows; /* sorted; owned */
	size_t n, room;
	bool made;
	uint32_t nfiles;      /* data files that are in it */
	unsigned commits;     /* ck_fs.commits when it was filled */
	unsigned made_at;     /* the same when it was made */
	uint64_t valid_until; /* ns of CLOCK_MONOTONIC */
	/* the last refusal of a name in the log, and its time */
	char name[CK_AREA_NAME_BYTES];
	uint64_t logged;
};

struct ck_area_protected *ck_area_protected_make(const struct ck_fs *fs)
{
	struct ck_area_protected *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->fs = fs;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

void ck_area_protected_free(struct ck_area_protected *p)
{
	if (!p)
		return;
	pthread_mutex_destroy(&p->lock);
	free(p->rows);
	free(p);
}

/* --- the list ------------------------------------------------------------------------- */

static struct row *row_find(const struct ck_area_protected *p,
			    struct ck_file_id id)
{
	const struct row key = { .id = id };

	return p->n ? bsearch(&key, p->rows, p->n, sizeof(key), ck_file_id_cmp)
		    : NULL;
}

static int row_add(struct ck_area_protected *p, struct ck_file_id id,
		   bool holds)
{
	struct row *rows;

	if (p->n == p->room) {
		p->room = 2 * p->room + 64;
		rows = realloc(p->rows, p->room * sizeof(*rows));
		if (!rows)
			return -ENOMEM;
		p->rows = rows;
	}
	p->rows[p->n++] = (struct row){ id, holds, 0 };
	return 0;
}

static int state_add(void *protected, const struct stat *st)
{
	return row_add(protected, ck_file_id_of(st), S_ISDIR(st->st_mode));
}

/* Adds the files that a path beneath the checkpoint leads through, but for directories that it
 * shares with the path before. */
static int path_add(struct ck_area_protected *p, struct ck_str path,
		    struct ck_str before)
{
	size_t known = 0;

	for (size_t i = 0;
	     i < path.len && i < before.len && path.p[i] == before.p[i]; i++)
		if (path.p[i] == '/')
			known = i + 1;
	return ck_area_path_each(p->fs->cp->dirfd, path, known, state_add, p);
}

static int file_add(struct ck_area_protected *p, uint32_t i,
		    struct ck_str before)
{
	const struct ck_files *files = p->fs->cp->files;
	struct ck_str path = ck_files_info(files, i)->path;
	struct ck_file_id id;
	int rc = 0;

	if (ck_files_is_remote(files, i))
		return 0;
	if (ck_files_identify(files, i, &id) == 0)
		rc = row_add(p, id, false);
	id = ck_files_id(files, i);
	if (rc == 0 && id.ino)
		rc = row_add(p, id, false);
	return rc ? rc : path_add(p, path, before);
}

static int metadata_add(struct ck_area_protected *p)
{
	const struct ck_checkpoint *cp = p->fs->cp;
	int rc = row_add(p, (struct ck_file_id){ cp->dev, cp->ino }, true);

	return rc ? rc
		  : path_add(p, ck_str_from(ck_metadata_name(cp)), CK_STR(""));
}

static void equal_remove(struct ck_area_protected *p)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->n; i++)
		if (kept == 0 ||
		    ck_file_id_cmp(&p->rows[kept - 1], &p->rows[i]))
			p->rows[kept++] = p->rows[i];
		else
			p->rows[kept - 1].logged = ck_max(
				p->rows[kept - 1].logged, p->rows[i].logged);
	p->n = kept;
}

/* Rows whose refusal is in the log. */
static void logged_keep(struct ck_area_protected *p, const struct row *old,
			size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct row *row = row_find(p, old[i].id);

		if (row)
			row->logged = old[i].logged;
	}
}

/* Adds the metadata, and data files that were added behind the first p->nfiles. A commit that
 * runs may not have named its files yet. */
static int list_fill(struct ck_area_protected *p)
{
	const struct ck_files *files = p->fs->cp->files;
	unsigned commits = atomic_load(&p->fs->commits);
	uint32_t n = ck_files_count(files);
	struct ck_str before = CK_STR("");
	int rc = metadata_add(p);

	for (uint32_t i = p->nfiles; rc == 0 && i < n; i++) {
		rc = file_add(p, i, before);
		before = ck_files_info(files, i)->path;
	}
	if (rc)
		return rc;
	if (commits % 2 == 0)
		p->nfiles = n;
	p->commits = commits;
	qsort(p->rows, p->n, sizeof(*p->rows), ck_file_id_cmp);
	equal_remove(p);
	return 0;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* Under the lock. */
static int list_make(struct ck_area_protected *p)
{
	enum { SHARE = 20 };
	ck_auto_free struct row *old = p->rows;
	uint64_t begin = now(), took;
	size_t nold = p->n;
	int rc;

	p->rows = NULL;
	p->n = p->room = 0;
	p->nfiles = 0;
	rc = list_fill(p);
	p->made = rc == 0;
	if (rc)
		return rc;
	p->made_at = p->commits;
	logged_keep(p, old, nold);
	took = now() - begin;
	p->valid_until = begin + ck_max(SECOND, SHARE * took);
	return 0;
}

/* Under the lock. */
static int list_renew(struct ck_area_protected *p)
{
	int rc;

	if (!p->made || now() >= p->valid_until)
		return list_make(p);
	if (p->commits == atomic_load(&p->fs->commits))
		return 0;
	rc = list_fill(p);
	p->made = rc == 0;
	return rc;
}

/* --- checks --------------------------------------------------------------------------- */

/* A refusal is logged again after some seconds, so that the last lines of the log have the
 * reason, and a program that repeats a call does not fill it. */
static int refuse(uint64_t *logged, const char *name, const char *why)
{
	enum { SECONDS = 5 };

	uint64_t at = now();

	if (*logged && at - *logged < SECONDS * SECOND)
		return -EPERM;
	*logged = at;
	ck_log(CK_AREA_NAME "/: %s %s", ck_show(ck_str_from(name)), why);
	return -EPERM;
}

/* The same for a name, which has no row. Under the lock. */
static int name_refuse(struct ck_area_protected *p, const char *name,
		       const char *why)
{
	if (strcmp(p->name, name) != 0)
		p->logged = 0;
	strncpy(p->name, name, sizeof(p->name) - 1);
	return refuse(&p->logged, name, why);
}

/* Finds the row of a file in a list of now. A commit removes the metadata that it replaces,
 * and the file system may give its number to a new file at once: a list that was made before
 * the last commit is made again if it has the file. Under the lock. */
static int row_look(struct ck_area_protected *p, struct ck_file_id id,
		    struct row **out)
{
	int rc = list_renew(p);

	*out = rc == 0 ? row_find(p, id) : NULL;
	if (!*out || p->made_at == p->commits)
		return rc;
	rc = list_make(p);
	*out = rc == 0 ? row_find(p, id) : NULL;
	return rc;
}

static int id_check(struct ck_area_protected *p, struct ck_file_id id,
		    const char *name)
{
	struct row *row;
	int rc;

	pthread_mutex_lock(&p->lock);
	rc = row_look(p, id, &row);
	if (row)
		rc = refuse(&row->logged, name,
			    row->holds ? "holds files of the checkpoint: its "
					 "owner, mode, times and name stay"
				       : "is a file of the checkpoint, and is "
					 "not changed in " CK_AREA_NAME "/");
	pthread_mutex_unlock(&p->lock);
	return rc;
}

/* Names that are for commits, in a directory with files of the checkpoint. */
static bool is_reserved(const struct ck_checkpoint *cp, const char *name)
{
	const char *metadata = ck_metadata_name(cp);

	return strcmp(metadata, ".metadata") == 0 &&
	       (strncmp(name, metadata, strlen(metadata)) == 0 ||
		fnmatch("__*_ckptfs-*", name, 0) == 0);
}

/* Sets *step to the step of a run directory that a name in it is. */
static bool is_step(const struct ck_area *a, const char *name)
{
	struct ck_rundir *run = ck_checkpoint_run(a->fs->cp);
	const struct ck_steps *steps;
	bool found = false;

	if (!run || ck_run_steps(run, &steps))
		return false;
	for (uint32_t i = 0; i < steps->n && !found; i++)
		found = !steps->all[i].why && !steps->all[i].is_link &&
			strcmp(steps->all[i].name, name) == 0;
	ck_steps_put(steps);
	return found;
}

/* A directory of another top than that of the mount is a step, or beneath one. `name`: in
 * dir; or NULL for dir itself, or "". */
static int step_check(struct ck_area *a, const struct ck_area_node *dir,
		      const char *name)
{
	char first[CK_AREA_NAME_BYTES];
	bool is_of_step = ck_area_top_of(dir) != a->top->number;
	int rc;

	if (!ck_checkpoint_run(a->fs->cp))
		return 0;
	rc = ck_area_first_name(&a->table, dir, first);
	if (rc)
		return rc;
	if (first[0])
		name = first;
	if (!is_of_step && !(name && is_step(a, name)))
		return 0;
	pthread_mutex_lock(&a->protected->lock);
	rc = refuse(&a->protected->logged,
		    name && name[0] ? name : CK_AREA_NAME,
		    "is a step of the run: mount the step to change files "
		    "beside its checkpoint");
	pthread_mutex_unlock(&a->protected->lock);
	return rc;
}

/* A file that a commit makes is in the list after the commit, so that its name protects it
 * meanwhile. */
static int name_check(struct ck_area *a, const struct ck_area_node *dir,
		      const char *name)
{
	struct ck_area_protected *p = a->protected;
	int rc;

	if (!is_reserved(a->fs->cp, name))
		return 0;
	pthread_mutex_lock(&p->lock);
	rc = list_renew(p);
	if (rc == 0 &&
	    row_find(p, (struct ck_file_id){ dir->id.dev, dir->id.ino }))
		rc = name_refuse(
			p, name,
			"is a name for commits, as .metadata* and __*_ckptfs-*");
	pthread_mutex_unlock(&p->lock);
	return rc;
}

int ck_area_may_change(struct ck_area *a, const struct ck_area_node *n)
{
	char name[CK_AREA_NAME_BYTES] = CK_AREA_NAME;
	struct ck_area_node *parent = NULL;
	int rc = step_check(a, n, NULL);

	if (rc || n->id.covered)
		return rc;
	(void)!ck_area_name_of(&a->table, n, &parent, name);
	rc = id_check(a->protected, (struct ck_file_id){ n->id.dev, n->id.ino },
		      name);
	if (rc == 0 && parent)
		rc = name_check(a, parent, name);
	ck_area_put(&a->table, parent);
	return rc;
}

int ck_area_may_remove(struct ck_area *a, const struct ck_area_node *dir,
		       const char *name, const struct stat *st)
{
	int rc = step_check(a, dir, name);

	if (rc == 0)
		rc = id_check(a->protected, ck_file_id_of(st), name);
	return rc ? rc : name_check(a, dir, name);
}

int ck_area_may_name(struct ck_area *a, const struct ck_area_node *dir,
		     const char *name)
{
	int rc = step_check(a, dir, name);

	return rc ? rc : name_check(a, dir, name);
}
