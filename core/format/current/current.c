/* SPDX-License-Identifier: MIT */
/*
 * current: which catalog of a checkpoint is current. A catalog is constant once it is
 * published. A commit makes the next one, and so does a thread that has found other
 * access rights or a file that was unseen. One thread at a time makes the next catalog,
 * under ck_checkpoint.changing; publishing replaces one pointer under
 * ck_checkpoint.lock. Readers hold a reference and keep the catalog that they began
 * with, so that neither side waits for the other.
 */
#include "current.h"
#include "format/kind.h"

/* Readers of a constant checkpoint take its lock, too. */
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

/* --- files in a catalog --------------------------------------------------- */

struct ck_data_file ck_file_described(const struct ck_checkpoint *cp,
				      uint32_t number)
{
	const struct ck_file_info *info = ck_files_info(cp->files, number);

	return (struct ck_data_file){
		.path = info->path,
		.size = info->size,
		.attr = { ck_files_mtime(cp->files, number), info->mode,
			  info->uid, info->gid },
		.closed =
			ck_file_access_noted(ck_files_access(cp->files, number))
				.closed,
		.unseen = !ck_files_is_seen(cp->files, number),
		.err = info->err,
		.why = info->why,
		.rank = cp->format->rank(cp, number),
	};
}
