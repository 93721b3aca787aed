/* SPDX-License-Identifier: MIT */
/*
 * access: owners and modes that the checkpoint shows. A catalog has those of the metadata
 * file, the directory and the data files as of when it was made. Each function that
 * revalidates one of these files records its owner and mode, in struct ck_access or in
 * cp->files. This file compares the records with the current catalog, and publishes a
 * corrected one if they differ.
 *
 * Any thread may record and compare: fields are atomic. One thread at a time publishes,
 * under ck_checkpoint.changing.
 */
#include "current.h"
#include "model/catalog/catalog_edit.h"

#include <errno.h>
#include <fcntl.h>

/* The rights that were seen last. Each field is atomic, but two fields that are read one
 * after the other may be from different times. */
struct ck_access {
	struct ck_file_access metadata;
	struct ck_file_access dir;
	uint64_t renewed; /* number of corrected catalogs */
};

struct ck_access *ck_access_make(const struct ck_catalog *c)
{
	struct ck_access *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->metadata = (struct ck_file_access){ .mode = c->meta.mode,
					       .uid = c->meta.uid,
					       .gid = c->meta.gid };
	a->dir.mode = c->dir_mode;
	return a;
}

const char *ck_checkpoint_down(const struct ck_checkpoint *cp, uint32_t file)
{
	const struct ck_remote_source *e = cp->elsewhere;

	return e && file != CK_NO_FILE ? e->down_host(e, file) : NULL;
}

const char *ck_checkpoint_host(const struct ck_checkpoint *cp, uint32_t file)
{
	const struct ck_remote_source *e = cp->elsewhere;

	return e && file != CK_NO_FILE ? e->host(e, file, 0) : NULL;
}

mode_t ck_metadata_closed(const struct ck_checkpoint *cp)
{
	return cp->elsewhere ? cp->elsewhere->metadata_closed & 0777 : 0;
}

void ck_access_note_metadata(const struct ck_checkpoint *cp,
			     const struct stat *st)
{
	struct ck_file_access now;

	if (!cp->access)
		return;
	now = ck_file_access_noted(&cp->access->metadata);
	ck_file_access_note(&now, st, cp->dirfd, cp->metadata_name, 0);
	now.mode &= ~ck_metadata_closed(cp);
	ck_file_access_copy(&cp->access->metadata, &now);
	ck_files_show_as(cp->files, (struct ck_ids){ st->st_uid, st->st_gid });
}

/* ck_metadata_changed_remote() for metadata that is a data file. Sets *now to
 * its rights. */
static int file_changed(const struct ck_checkpoint *cp,
			struct ck_file_access *now)
{
	uint32_t file = cp->metadata_file;
	int rc = ck_files_check(cp->files, file, NULL);

	*now = ck_file_access_noted(ck_files_access(cp->files, file));
	now->mode &= ~now->closed;
	return rc == -ESTALE ? 1 : rc;
}

int ck_metadata_changed_remote(const struct ck_checkpoint *cp)
{
	struct ck_file_access now = { 0 };
	int rc = cp->metadata_file == CK_NO_FILE
			 ? cp->elsewhere->changed(cp->elsewhere, &now)
			 : file_changed(cp, &now);

	if (rc || !cp->access)
		return rc;
	ck_file_access_copy(&cp->access->metadata, &now);
	ck_files_show_as(cp->files, (struct ck_ids){ now.uid, now.gid });
	return 0;
}

/* Updates *to by a stat of the directory. For a checkpoint that is a single file, read bits of
 * the file also give the right to enter directories of the mount. Returns 0, or an error of
 * stat(2), which leaves *to unchanged. */
static int note_directory(const struct ck_checkpoint *cp,
			  struct ck_file_access *to)
{
	const char *name = cp->file ? cp->file : "";
	int flags = cp->file ? 0 : AT_EMPTY_PATH;
	struct ck_file_access now = ck_file_access_noted(to);
	struct stat st;

	if (fstatat(cp->dirfd, name, &st, flags))
		return -errno;
	ck_file_access_note(&now, &st, cp->dirfd, name, flags);
	if (cp->file)
		now.mode = S_IFDIR | (now.mode & 0444) | (now.mode & 0444) >> 2;
	ck_file_access_copy(to, &now);
	return 0;
}

void ck_access_note_directory(const struct ck_checkpoint *cp)
{
	if (cp->access)
		(void)note_directory(cp, &cp->access->dir);
}

int ck_directory_mode(const struct ck_checkpoint *cp, mode_t *mode)
{
	struct ck_file_access now = { 0 };
	int rc = note_directory(cp, &now);

	*mode = now.mode;
	return rc;
}

static mode_t directory_mode(const struct ck_checkpoint *cp)
{
	return ck_file_access_noted(&cp->access->dir).mode;
}

/* --- comparing ---------------------------------------------------------------- */

static bool is_other(const struct ck_attr *shown,
		     const struct ck_file_access *now)
{
	struct ck_file_access seen = ck_file_access_noted(now);

	return shown->mode != seen.mode || shown->uid != seen.uid ||
	       shown->gid != seen.gid;
}

/* True if the catalog has no stat of the file, but cp->files has one by now. */
static bool is_learnt(const struct ck_checkpoint *cp,
		      const struct ck_catalog *c, uint32_t file)
{
	return ck_catalog_file(c, file)->unseen &&
	       ck_files_is_seen(cp->files, file);
}

/* True if the rights of a file in the catalog differ from those of its last check. */
static bool file_is_other(const struct ck_checkpoint *cp,
			  const struct ck_catalog *c, uint32_t file)
{
	const struct ck_file_access *now;
	const struct ck_data_file *shown;

	if (file >= c->files.n)
		return false;
	shown = ck_catalog_file(c, file);
	if (shown->err || shown->unseen)
		return false;
	now = ck_files_access(cp->files, file);
	return is_other(&shown->attr, now) ||
	       shown->closed != ck_file_access_noted(now).closed;
}

/* True if the rights of the metadata file or the directory have changed. */
static bool is_old(const struct ck_checkpoint *cp, const struct ck_catalog *c)
{
	return is_other(&c->meta, &cp->access->metadata) ||
	       c->dir_mode != directory_mode(cp);
}

static bool items_are_old(const struct ck_checkpoint *cp,
			  const struct ck_catalog *now, struct ck_items items)
{
	uint32_t last = CK_NO_FILE;
	bool old = false;

	for (uint32_t i = 0; i < items.n && !old; i++) {
		uint32_t file = ck_items_file(items, i);

		old = file != last && file_is_other(cp, now, file);
		last = file;
	}
	return old;
}

/* --- correcting ----------------------------------------------------------------- */

static void take(struct ck_attr *shown, const struct ck_file_access *now)
{
	struct ck_file_access seen = ck_file_access_noted(now);

	shown->mode = seen.mode;
	shown->uid = seen.uid;
	shown->gid = seen.gid;
}

/* Corrects the rows of files. Sets *changed to true if a row differed. */
static int take_files(const struct ck_checkpoint *cp, struct ck_catalog *next,
		      bool *changed)
{
	int rc = 0;

	for (uint32_t i = 0; i < next->files.n && rc == 0; i++) {
		const struct ck_file_access *now = ck_files_access(cp->files,
								   i);
		struct ck_data_file file;

		if (is_learnt(cp, next, i)) {
			file = ck_file_described(cp, i);
		} else if (file_is_other(cp, next, i)) {
			file = *ck_catalog_file(next, i);
			take(&file.attr, now);
			file.closed = ck_file_access_noted(now).closed;
		} else {
			continue;
		}
		*changed = true;
		rc = ck_catalog_file_set(next, i, &file);
	}
	return rc;
}

int ck_access_correct(struct ck_checkpoint *cp, struct ck_catalog *next,
		      bool *changed)
{
	int rc;

	*changed = is_old(cp, next);
	rc = take_files(cp, next, changed);
	if (rc || !*changed)
		return rc;
	take(&next->meta, &cp->access->metadata);
	next->dir_mode = directory_mode(cp);
	return ck_catalog_access_renew(next);
}

void ck_access_renewed(struct ck_checkpoint *cp)
{
	__atomic_fetch_add(&cp->access->renewed, 1, __ATOMIC_RELEASE);
}

/* Publishes a corrected catalog if rights differ, or a file has its first stat. Must hold
 * cp->changing. Returns 0, or -ENOMEM. */
static int renew(struct ck_checkpoint *cp)
{
	ck_auto_catalog *now = ck_checkpoint_catalog(cp);
	struct ck_catalog *next = ck_catalog_next(now);
	bool changed = false;
	int rc = next ? ck_access_correct(cp, next, &changed) : -ENOMEM;

	if (rc || !changed) {
		ck_catalog_put(next);
		return rc;
	}
	ck_checkpoint_publish(cp, next, NULL);
	ck_access_renewed(cp);
	return 0;
}

static int renew_alone(struct ck_checkpoint *cp)
{
	int rc;

	pthread_mutex_lock(&cp->changing);
	rc = renew(cp);
	pthread_mutex_unlock(&cp->changing);
	return rc;
}

static bool has_learnt(const struct ck_checkpoint *cp)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	for (uint32_t i = 0; c->unseen && i < c->files.n; i++)
		if (is_learnt(cp, c, i))
			return true;
	return false;
}

void ck_checkpoint_learn(struct ck_checkpoint *cp)
{
	/* After -ENOMEM, the next call retries. */
	if (has_learnt(cp))
		(void)!renew_alone(cp);
}

void ck_checkpoint_stat_items(struct ck_checkpoint *cp, struct ck_items items)
{
	uint32_t count = ck_files_count(cp->files);
	uint32_t last = CK_NO_FILE;
	int rc = 0;

	for (uint32_t i = 0; i < items.n; i++) {
		uint32_t file = ck_items_file(items, i);

		if (file != last && file < count)
			rc = ck_files_check(cp->files, file, NULL);
		last = file;
	}
	ck_checkpoint_learn(cp);
	(void)rc; /* an open of the file returns its error */
}

int ck_checkpoint_renew_access(struct ck_checkpoint *cp, struct ck_items items)
{
	ck_auto_catalog *now = ck_checkpoint_catalog(cp);

	if (!is_old(cp, now) && !items_are_old(cp, now, items))
		return 0;
	return renew_alone(cp);
}

uint64_t ck_checkpoint_access(const struct ck_checkpoint *cp)
{
	return __atomic_load_n(&cp->access->renewed, __ATOMIC_ACQUIRE);
}
