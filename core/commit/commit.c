/* SPDX-License-Identifier: MIT */
/*
 * commit: the protocol. Invariants:
 * - 1. Before and after .metadata is renamed over, every file that the old metadata
 *   names is unchanged. So a reader finds a complete checkpoint, the old or the new
 *   one, also after a crash at any point.
 * - 2. A name is never reused, and a file gets its name only when it is complete
 *   and durable.
 * - 3. Bytes are durable before a name refers to them: data files before their
 *   names, their names before the metadata that uses them, the metadata before its
 *   name.
 * - 4. Success is returned only when the new name of the metadata is durable. XFS
 *   that has shut down returns 0 for fsync(2) of a directory, so the renamed file
 *   is synced too.
 * - 5. A file whose fsync(2) failed is discarded: the kernel may have dropped its
 *   dirty pages.
 * - 6. Once a commit has sealed files, no stage writes into them, and no other
 *   commit uses them.
 * - 7. A failed commit removes the files it made and no others. After a crash,
 *   names of this program without metadata remain; the next writer removes them.
 *
 * The states are the rows of `steps`. Until the rename a step may fail without
 * effect. Steps behind the rename cannot undo it: their failure is reported, and
 * the new content stays. The caller holds the commit lock, so that one commit runs
 * at a time.
 */
#include "commit_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct commit {
	struct ck_writer *w;
	struct ck_stage *stage; /* NULL for all staged items of a transaction */
	struct ck_transaction *x; /* set if `stage` is NULL */
	struct ck_outcome *out;	  /* set together with `x` */
	struct ck_batch *batch;
	struct ck_change_of_place *changes;
	uint32_t nchanges;
	/* catalog with the changes; NULL before it is made */
	struct ck_catalog *next;
	uint64_t generation;	   /* part of the names of new files */
	struct ck_ownership owner; /* of all new files */
	bool carries;		   /* some bytes were copied from old files */
	int fd;			   /* file of the new metadata, or -1 */
	struct stat metadata;	   /* stat of `fd` after the last sync */
	char temp[64];		   /* temporary name until the rename, or "" */
	/* new files belong to this commit, and are discarded on error */
	bool sealed;
	bool renamed;
};

/* --- changes -------------------------------------------------------------------- */

static int compare_changes(const void *a, const void *b)
{
	const struct ck_change_of_place *x = a, *y = b;

	return x->chunk < y->chunk ? -1 : x->chunk > y->chunk;
}

static struct ck_change_of_place change_to(const struct ck_batch *b,
					   const struct ck_staged_item *kept)
{
	return (struct ck_change_of_place){
		.chunk = kept->chunk,
		.path = ck_str_from(b->shards[kept->shard].name),
		.fpos = kept->fpos,
		.length = kept->length,
	};
}

static int list_changes(struct commit *k, struct ck_diag *d)
{
	const struct ck_batch *b = k->batch;
	int rc;

	k->changes = calloc(b->nkept, sizeof(*k->changes));
	if (!k->changes)
		return ck_fail(d, ENOMEM, "out of memory");
	for (size_t i = 0; i < b->nkept; i++)
		k->changes[k->nchanges++] = change_to(b, &b->kept[i]);
	qsort(k->changes, k->nchanges, sizeof(*k->changes), compare_changes);
	/* Names of the new files are final, so that they can be recorded. */
	rc = ck_checkpoint_prepare(k->w->cp, k->changes, k->nchanges, &k->next);
	return rc ? ck_fail(d, -rc, "a new data file: %s", strerror(-rc)) : 0;
}

/* --- steps ---------------------------------------------------------------------- */

static void mark(struct ck_bits *named, uint32_t file)
{
	if (file < named->n)
		ck_bits_set(named, file);
}

/* Marks the data files that contain an item. */
static int files_named(struct ck_bits *named, const struct ck_catalog *c)
{
	int rc = ck_bits_make(named, c->files.n);
	struct ck_item_walk walk = { 0 };

	for (uint32_t i = 0; rc == 0 && i < c->chunks.n; i++)
		mark(named, ck_item_walk_to(&walk, c, i)->file);
	for (uint32_t i = 0; rc == 0 && i < c->objects.n; i++)
		mark(named, ck_catalog_object(c, i)->item.file);
	return rc;
}

/* Returns -ESTALE if one of these files changed. */
static int check_files(const struct ck_checkpoint *cp,
		       const struct ck_bits *named, struct ck_diag *d)
{
	for (uint32_t i = 0; i < named->n; i++)
		if (ck_bits_has(named, i) &&
		    ck_files_check(cp->files, i, NULL) == -ESTALE)
			return ck_fail(
				d, ESTALE, "%s was changed by somebody else",
				ck_show(ck_files_info(cp->files, i)->path));
	return 0;
}

/* Checks whether another program saved the checkpoint, or changed a file that the
 * metadata names. */
static int check_source(struct commit *k, struct ck_diag *d)
{
	const struct ck_checkpoint *cp = k->w->cp;
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct ck_bits named;
	int rc;

	if (files_named(&named, c))
		return ck_fail(d, ENOMEM, "out of memory");
	rc = ck_checkpoint_same(cp, d);
	if (rc == 0)
		rc = check_files(cp, &named, d);
	ck_bits_fini(&named);
	return rc;
}

/* Detects early, before any change, that files cannot get the owner of the
 * metadata. */
static int make_metadata(struct commit *k, struct ck_diag *d)
{
	return ck_owner_try(k->w, &k->fd, &k->owner, d);
}

static int seal_stage(struct commit *k, struct ck_diag *d)
{
	int rc = ck_cuts_keep(&k->stage->cuts, k->stage->of.tensor);

	k->carries = k->stage->carries;
	k->sealed = true;
	return rc ? ck_fail(d, -rc, "a new data file: %s", strerror(-rc)) : 0;
}

/* All staged items are complete. */
static int take_batch(struct commit *k, struct ck_diag *d)
{
	int rc = ck_batch_take(k->x, &k->batch, k->out, d);

	k->sealed = rc == 0;
	return rc;
}

static int own(struct commit *k, struct ck_diag *d)
{
	struct ck_mode_cap limits[CK_SHARDS_MAX];
	int rc;

	if (!k->carries)
		return ck_batch_own(&k->owner, NULL, k->batch, d);
	rc = ck_limits_find(limits, &k->owner, k->w, k->batch, d);
	return rc ? rc : ck_batch_own(&k->owner, limits, k->batch, d);
}

static int seal(struct commit *k, struct ck_diag *d)
{
	int rc = k->stage ? seal_stage(k, d) : take_batch(k, d);

	return rc ? rc : own(k, d);
}

static int sync_shards(struct commit *k, struct ck_diag *d)
{
	return ck_batch_sync(k->batch, d);
}

static int link_shards(struct commit *k, struct ck_diag *d)
{
	return ck_batch_link(k->w, k->generation, k->batch, d);
}

static int sync_names(struct commit *k, struct ck_diag *d)
{
	if (fsync(k->w->dirfd))
		return ck_fail(d, errno, "its directory: fsync: %s",
			       strerror(errno));
	return 0;
}

static int write_metadata(struct commit *k, struct ck_diag *d)
{
	return ck_metadata_write(k->w->cp, k->changes, k->nchanges, k->fd, d);
}

static int sync_metadata(struct commit *k, struct ck_diag *d)
{
	if (fsync(k->fd))
		return ck_fail(d, errno, "new metadata: fsync: %s",
			       strerror(errno));
	/* A new name changes neither size nor mtime. */
	if (fstat(k->fd, &k->metadata))
		return ck_fail(d, errno, "new metadata: %s", strerror(errno));
	return 0;
}

/* Applies a chmod or chown of the current .metadata, made while the commit runs, to
 * the new files too. */
static int follow_owner(struct commit *k, struct ck_diag *d)
{
	bool changed;
	int rc = ck_owner_renew(&k->owner, &changed, d);

	if (rc || !changed)
		return rc;
	rc = own(k, d);
	if (rc == 0)
		rc = ck_batch_sync(k->batch, d);
	if (rc == 0)
		rc = ck_file_own(&k->owner, NULL, k->fd, d);
	return rc ? rc : sync_metadata(k, d);
}

static int name_metadata(struct commit *k, struct ck_diag *d)
{
	char hex[17], name[sizeof(k->temp)];
	int rc = ck_random_hex(hex);

	if (rc)
		return ck_fail(d, -rc, "no random number");
	snprintf(name, sizeof(name), "%s" CK_TEMP "%s",
		 ck_metadata_name(k->w->cp), hex);
	rc = ck_file_link(k->w, k->fd, name, d);
	if (rc == 0)
		memcpy(k->temp, name, sizeof(name));
	return rc;
}

/* The commit point. */
static int rename_metadata(struct commit *k, struct ck_diag *d)
{
	const char *name = ck_metadata_name(k->w->cp);

	if (renameat(k->w->dirfd, k->temp, k->w->dirfd, name))
		return ck_fail(d, errno, "%s: rename: %s", name,
			       strerror(errno));
	k->temp[0] = '\0';
	k->renamed = true;
	return 0;
}

static int (*const steps[])(struct commit *k, struct ck_diag *d) = {
	check_source,	 /* no other program saved */
	make_metadata,	 /* an empty file with the owner of the old one */
	seal,		 /* new data files are complete and sealed */
	sync_shards,	 /* new data files are durable */
	link_shards,	 /* new data files have names */
	sync_names,	 /* those names are durable */
	list_changes,	 /* new locations, and the next catalog */
	write_metadata,	 /* contents of the new metadata, unnamed */
	sync_metadata,	 /* new metadata is durable */
	follow_owner,	 /* owner of .metadata may have changed */
	check_source,	 /* again: no other program saved */
	name_metadata,	 /* temporary name beside the old one */
	rename_metadata, /* replaces the old one: the commit point */
	follow_owner,	 /* owner changes until the rename */
	sync_metadata,	 /* only this reports XFS that has shut down */
	sync_names,	 /* the rename is durable */
	follow_owner,	 /* changes that found the old file */
};

/* --- running the steps ------------------------------------------------------------ */

static void undo(struct commit *k)
{
	if (k->temp[0])
		(void)unlinkat(k->w->dirfd, k->temp, 0);
	ck_catalog_put(k->next);
	if (!k->sealed)
		return;
	ck_batch_unlink(k->w, k->batch);
	if (k->stage)
		ck_stage_lose(k->stage, "its commit failed; write it again");
}

/* Switches the mount to the new catalog. */
static void publish(struct commit *k)
{
	const struct ck_writer_options *o = &k->w->options;

	if (o->before_switch)
		o->before_switch(o->arg);
	ck_checkpoint_switch(k->w->cp, k->next, &k->metadata, k->changes,
			     k->nchanges);
	if (k->stage)
		ck_stage_renew(k->stage);
}

/* Next generation, for file names. At UINT64_MAX the generation repeats; names then
 * differ only in their random digits. */
static uint64_t generation_next(struct ck_writer *w)
{
	uint64_t generation;

	pthread_mutex_lock(&w->lock);
	if (w->generation < UINT64_MAX)
		w->generation++;
	generation = w->generation;
	pthread_mutex_unlock(&w->lock);
	return generation;
}

static int run_steps(struct commit *k, struct ck_diag *d)
{
	int rc = 0;

	k->generation = generation_next(k->w);
	for (size_t i = 0; i < CK_ARRAY_SIZE(steps) && !rc; i++)
		rc = steps[i](k, d);
	if (k->renamed)
		publish(k);
	else
		undo(k);
	ck_fd_cleanup(&k->fd);
	ck_owner_fini(&k->owner);
	free(k->changes);
	return rc;
}

/* Must hold the commit lock. */
static int commit_stage(struct ck_stage *s, struct ck_diag *d)
{
	struct commit k = {
		.w = s->x->w, .stage = s, .owner.fd = -1, .fd = -1
	};
	int rc = ck_stage_complete(s, d);

	if (rc)
		return rc;
	if (s->cuts.n == 0) { /* no elements: nothing to store */
		ck_stage_renew(s);
		return 0;
	}
	rc = ck_cuts_movable(&s->cuts, s->x->w, d);
	if (rc)
		return rc;
	k.batch = s->batch;
	return run_steps(&k, d);
}

static int answer(int rc, struct ck_diag *d)
{
	if (rc)
		ck_diag_prefix(d, "commit");
	/* After EINTR from close(2) a program may close again, and would close
	 * another file. */
	return rc == -EINTR ? -EIO : rc;
}

int ck_stage_commit(struct ck_stage *s, struct ck_diag *d)
{
	int rc;

	pthread_mutex_lock(&s->x->w->commit_lock);
	rc = commit_stage(s, d);
	pthread_mutex_unlock(&s->x->w->commit_lock);
	return answer(rc, d);
}

/* Detects a full disk before staged items are sealed: the new metadata needs
 * space. */
static int check_room(const struct ck_writer *w, size_t boxes,
		      struct ck_diag *d)
{
	enum { OF_EACH = 256 }; /* bytes per new location, rounded up */

	struct stat metadata = ck_checkpoint_metadata(w->cp);
	uint64_t len = (uint64_t)metadata.st_size + boxes * OF_EACH;
	ck_auto_fd int fd = -1;
	int rc = ck_file_make(w, &fd, d);

	if (rc)
		return rc;
	if (fallocate(fd, 0, 0, (off_t)len) && errno != EOPNOTSUPP)
		return ck_fail(d, errno, "no room for the new metadata: %s",
			       strerror(errno));
	return 0;
}

/* Must hold the commit lock. */
static int commit_all(struct ck_transaction *x, struct ck_outcome *out,
		      struct ck_diag *d)
{
	struct commit k = {
		.w = x->w, .x = x, .out = out, .owner.fd = -1, .fd = -1
	};
	int rc = ck_outcome_make(out, x, d);

	if (rc || out->n == 0)
		return rc;
	rc = check_room(x->w, out->boxes, d);
	if (rc)
		return rc;
	rc = run_steps(&k, d);
	out->published = k.renamed;
	out->lost = k.sealed && !k.renamed;
	if (k.sealed) {
		ck_batch_settle(x, k.batch, out->lost);
		ck_batch_free(k.batch);
	}
	return rc;
}

int ck_transaction_commit(struct ck_transaction *x, struct ck_outcome *out,
			  struct ck_diag *d)
{
	int rc;

	pthread_mutex_lock(&x->w->commit_lock);
	rc = commit_all(x, out, d);
	pthread_mutex_unlock(&x->w->commit_lock);
	return answer(rc, d);
}
