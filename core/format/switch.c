/* SPDX-License-Identifier: MIT */
/*
 * switch: what changes in a catalog that is in use: a commit in memory, and
 * data files that nobody could look at when it was made.
 * Texts of new files are added behind what others
 * read, and move nothing; their number and the rows of changed boxes are
 * changed under a lock that every reader of rows holds. Layouts are not
 * changed: the one of a changed tensor is forgotten, and whoever uses it keeps
 * it.
 */
#include "ckptfs/rewrite.h"
#include "format_internal.h"

#include <errno.h>

int ck_checkpoint_reserve(struct ck_checkpoint *cp)
{
	int rc = ck_catalog_reserve(cp->catalog);

	return rc ? rc : ck_files_reserve(cp->files);
}

void ck_checkpoint_lock(struct ck_checkpoint *cp)
{
	pthread_rwlock_rdlock(&cp->places);
}

void ck_checkpoint_unlock(struct ck_checkpoint *cp)
{
	pthread_rwlock_unlock(&cp->places);
}

/* Up to this one; some may have been added in vain before. */
static int describe_up_to(struct ck_checkpoint *cp, uint32_t file)
{
	int rc = 0;

	pthread_rwlock_wrlock(&cp->places);
	while (rc == 0 && cp->catalog->nfiles <= file)
		rc = ck_file_describe(cp, (uint32_t)cp->catalog->nfiles);
	pthread_rwlock_unlock(&cp->places);
	return rc;
}

/* --- files that could not be looked at ------------------------------------ */

static bool is_learnt(const struct ck_checkpoint *cp, uint32_t file)
{
	return ck_catalog_file(cp->catalog, file)->unseen &&
	       ck_files_is_seen(cp->files, file);
}

/* Lock held for writing. */
static void learn(struct ck_checkpoint *cp)
{
	struct ck_catalog *c = cp->catalog;

	for (uint32_t i = 0; i < c->nfiles; i++) {
		const struct ck_file_info *info = ck_files_info(cp->files, i);
		struct ck_data_file *file = &c->files[i];

		if (!is_learnt(cp, i))
			continue;
		file->size = info->size;
		file->attr = (struct ck_attr){ info->mtime, info->mode,
					       info->uid, info->gid };
		file->closed = info->closed;
		file->err = info->err;
		file->why = info->why;
		file->unseen = false;
		__atomic_fetch_sub(&cp->unseen, 1, __ATOMIC_RELEASE);
	}
	ck_access_renewed(cp);
}

bool ck_checkpoint_is_seen(const struct ck_checkpoint *cp)
{
	return __atomic_load_n(&cp->unseen, __ATOMIC_ACQUIRE) == 0;
}

void ck_checkpoint_learn(struct ck_checkpoint *cp)
{
	bool any = false;

	if (ck_checkpoint_is_seen(cp))
		return;
	ck_checkpoint_lock(cp);
	for (uint32_t i = 0; i < cp->catalog->nfiles && !any; i++)
		any = is_learnt(cp, i);
	ck_checkpoint_unlock(cp);
	if (!any)
		return;
	pthread_rwlock_wrlock(&cp->places);
	learn(cp);
	pthread_rwlock_unlock(&cp->places);
}

/* --- a commit -------------------------------------------------------------- */

/* A new file must be known before anybody reads it. */
static int new_file_check(const struct ck_checkpoint *cp, uint32_t file)
{
	int trouble = ck_files_trouble(cp->files, file);

	return trouble ? -trouble : -ck_files_info(cp->files, file)->err;
}

int ck_checkpoint_prepare(struct ck_checkpoint *cp,
			  struct ck_change_of_place *changes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct ck_change_of_place *change = &changes[i];
		int rc = ck_files_add(cp->files, change->path, &change->file);

		if (rc == 0)
			rc = new_file_check(cp, change->file);
		if (rc == 0)
			rc = describe_up_to(cp, change->file);
		if (rc)
			return rc;
	}
	return 0;
}

void ck_checkpoint_unprepare(struct ck_checkpoint *cp,
			     const struct ck_change_of_place *changes,
			     uint32_t n)
{
	struct ck_catalog *c = cp->catalog;

	pthread_rwlock_wrlock(&cp->places);
	for (uint32_t i = 0; i < n; i++)
		if (changes[i].file < c->nfiles)
			c->files[changes[i].file].err = ENODATA;
	pthread_rwlock_unlock(&cp->places);
}

static void tensor_renew(struct ck_checkpoint *cp, uint32_t tensor)
{
	ck_catalog_tensor_renew(cp->catalog, tensor);
	cp->catalog->tensors[tensor].version++;
	ck_layouts_forget(cp->layouts, tensor);
}

void ck_checkpoint_switch(struct ck_checkpoint *cp, const struct stat *metadata,
			  const struct ck_change_of_place *changes, uint32_t n)
{
	struct ck_catalog *c = cp->catalog;
	struct ck_attr was;

	ck_access_note_metadata(cp, metadata);
	pthread_rwlock_wrlock(&cp->places);
	was = c->meta;
	cp->metadata = *metadata;
	cp->format->switched(cp);
	c->meta.mtime = metadata->st_mtim;
	ck_access_take_metadata(cp);
	for (uint32_t i = 0; i < n; i++) {
		c->chunks[changes[i].chunk] = (struct ck_item){
			.fpos = changes[i].fpos,
			.length = changes[i].length,
			.file = changes[i].file,
		};
		ck_catalog_replicas_drop(c, changes[i].chunk);
	}
	/* Changes of one tensor are next to each other. */
	for (uint32_t i = 0; i < n; i++) {
		uint32_t tensor = ck_catalog_tensor_of(c, changes[i].chunk);

		if (i == 0 ||
		    tensor != ck_catalog_tensor_of(c, changes[i - 1].chunk))
			tensor_renew(cp, tensor);
	}
	if (was.mode != c->meta.mode || was.uid != c->meta.uid ||
	    was.gid != c->meta.gid)
		ck_access_renewed(cp);
	pthread_rwlock_unlock(&cp->places);
}
