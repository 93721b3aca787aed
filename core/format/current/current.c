/* SPDX-License-Identifier: MIT */
/*
 * switch: which catalog is the present one. Nobody changes a catalog that others
 * may have: a commit makes the next one, and so does who has learnt something of
 * a file or of who may read it. Making it takes a while and is done by one at a
 * time; that it is the present one, only a moment. Who has the one before keeps
 * it, and nobody waits for him.
 */
#include "../format_internal.h"
#include "ckptfs/rewrite.h"

#include <errno.h>

/* Nobody may change a constant checkpoint, but anybody may ask it. */
static void lock(const struct ck_checkpoint *cp)
{
	pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&cp->lock);
}

static void unlock(const struct ck_checkpoint *cp)
{
	pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&cp->lock);
}

const struct ck_catalog *ck_checkpoint_catalog(const struct ck_checkpoint *cp)
{
	const struct ck_catalog *c;

	lock(cp);
	c = ck_catalog_hold(cp->catalog);
	unlock(cp);
	return c;
}

struct stat ck_checkpoint_metadata(const struct ck_checkpoint *cp)
{
	struct stat metadata;

	lock(cp);
	metadata = cp->metadata;
	unlock(cp);
	return metadata;
}

void ck_checkpoint_publish(struct ck_checkpoint *cp,
			   const struct ck_catalog *next,
			   const struct stat *metadata)
{
	const struct ck_catalog *old;

	lock(cp);
	old = cp->catalog;
	cp->catalog = next;
	if (metadata)
		cp->metadata = *metadata;
	unlock(cp);
	ck_catalog_put(old);
}

bool ck_checkpoint_is_seen(const struct ck_checkpoint *cp)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	return c->unseen == 0;
}

/* --- a commit -------------------------------------------------------------- */

/* A new file must be known before anybody reads it. */
static int new_file_check(const struct ck_checkpoint *cp, uint32_t file)
{
	int trouble = ck_files_trouble(cp->files, file);

	return trouble ? -trouble : -ck_files_info(cp->files, file)->err;
}

/* Gives the files of the changes numbers. */
static int add_files(struct ck_checkpoint *cp,
		     const struct ck_change_of_place *changes,
		     struct ck_edit *edits, uint32_t n)
{
	int rc = 0;

	for (uint32_t i = 0; i < n && rc == 0; i++) {
		edits[i] = (struct ck_edit){
			.kind = CK_EDIT_PLACE,
			.number = changes[i].chunk,
			.item = { .fpos = changes[i].fpos,
				  .length = changes[i].length },
		};
		rc = ck_files_add(cp->files, changes[i].path,
				  &edits[i].item.file);
		if (rc == 0)
			rc = new_file_check(cp, edits[i].item.file);
	}
	return rc;
}

static bool is_named(const struct ck_edit *edits, uint32_t n, uint32_t file)
{
	for (uint32_t i = 0; i < n; i++)
		if (edits[i].item.file == file)
			return true;
	return false;
}

/* Files that were there `before`, and are not in the catalog, are those of
 * commits that came to nothing. */
static int describe_files(struct ck_checkpoint *cp, struct ck_catalog *next,
			  const struct ck_edit *edits, uint32_t n,
			  uint32_t before)
{
	int rc = 0;

	while (next->files.n < ck_files_count(cp->files) && rc == 0) {
		uint32_t number = next->files.n;
		struct ck_data_file file = ck_file_described(cp, number);

		if (number < before && !is_named(edits, n, number)) {
			file.err = ENODATA;
			file.unseen = false; /* nobody will look */
		}
		rc = ck_catalog_file_add(next, &file);
	}
	return rc;
}

int ck_checkpoint_prepare(struct ck_checkpoint *cp,
			  const struct ck_change_of_place *changes, uint32_t n,
			  struct ck_catalog **next)
{
	ck_auto_free struct ck_edit *edits = calloc(n + 1UL, sizeof(*edits));
	ck_auto_catalog *now = ck_checkpoint_catalog(cp);
	uint32_t before = ck_files_count(cp->files);
	struct ck_catalog *c = edits ? ck_catalog_next(now) : NULL;
	int rc = c ? add_files(cp, changes, edits, n) : -ENOMEM;

	if (rc == 0)
		rc = describe_files(cp, c, edits, n, before);
	if (rc == 0)
		rc = ck_catalog_edit(c, edits, n, NULL);
	if (rc)
		ck_catalog_put(c);
	else
		*next = c;
	return rc;
}

/* What was noted of rights since it was prepared: nobody is shown those of then
 * again. Without memory nobody is shown any, until somebody finds out. */
static bool correct(struct ck_checkpoint *cp, struct ck_catalog *next)
{
	bool changed;

	if (ck_access_correct(cp, next, &changed) == 0)
		return changed;
	next->dir_mode &= (mode_t)~0777;
	return true;
}

void ck_checkpoint_switch(struct ck_checkpoint *cp, struct ck_catalog *next,
			  const struct stat *metadata,
			  const struct ck_change_of_place *changes, uint32_t n)
{
	ck_auto_catalog *c = ck_catalog_hold(next);

	ck_access_note_metadata(cp, metadata);
	/* It may have been changed since its stat was taken. */
	(void)!ck_metadata_changed(cp, metadata);
	next->meta.mtime = metadata->st_mtim;
	cp->format->switched(cp);
	pthread_mutex_lock(&cp->changing);
	if (correct(cp, next))
		ck_access_renewed(cp);
	ck_checkpoint_publish(cp, next, metadata);
	pthread_mutex_unlock(&cp->changing);
	for (uint32_t i = 0; i < n; i++)
		ck_layouts_forget(cp,
				  ck_catalog_tensor_of(c, changes[i].chunk));
}
