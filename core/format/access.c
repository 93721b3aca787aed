/* SPDX-License-Identifier: MIT */
/*
 * access: who may read what. The catalog has the modes and owners of .metadata,
 * the directory and the data files as they were at first. Whoever looks at one
 * of these, to see whether it is still the same, notes what it is now; this
 * file compares, and puts the catalog right.
 */
#include "format_internal.h"

#include <errno.h>
#include <fcntl.h>

/* What was seen last. Each field is atomic, and two that are read one after
 * the other may be of two moments; whoever acts on them looks again. */
struct ck_access {
	struct ck_file_access metadata;
	struct ck_file_access dir;
	uint64_t renewed; /* how often the catalog was put right */
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

void ck_access_note_metadata(const struct ck_checkpoint *cp,
			     const struct stat *st)
{
	if (!cp->access)
		return;
	ck_file_access_note(&cp->access->metadata, st, cp->dirfd, ".metadata",
			    0);
	ck_files_show_as(cp->files, (struct ck_ids){ st->st_uid, st->st_gid });
}

void ck_access_note_directory(const struct ck_checkpoint *cp,
			      const struct stat *st)
{
	if (cp->access)
		ck_file_access_note(&cp->access->dir, st, cp->dirfd, "",
				    AT_EMPTY_PATH);
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

static bool file_is_other(const struct ck_checkpoint *cp, uint32_t file)
{
	const struct ck_catalog *c = cp->catalog;

	const struct ck_data_file *shown = ck_catalog_file(c, file);
	const struct ck_file_access *now;

	if (file >= c->nfiles || shown->err || shown->unseen)
		return false;
	now = ck_files_access(cp->files, file);
	return is_other(&shown->attr, now) ||
	       shown->closed != ck_file_access_noted(now).closed;
}

/* Locked. */
static bool is_old(const struct ck_checkpoint *cp, struct ck_items items)
{
	const struct ck_catalog *c = cp->catalog;
	bool old = is_other(&c->meta, &cp->access->metadata) ||
		   c->dir_mode != directory_mode(cp);
	uint32_t last = CK_NO_FILE;

	for (uint32_t i = 0; i < items.n && !old; i++) {
		uint32_t file = ck_items_at(c, items, i)->file;

		if (i == 0 || file != last)
			old = file_is_other(cp, file);
		last = file;
	}
	return old;
}

/* --- putting it right --------------------------------------------------------- */

static void take(struct ck_attr *shown, const struct ck_file_access *now)
{
	struct ck_file_access seen = ck_file_access_noted(now);

	shown->mode = seen.mode;
	shown->uid = seen.uid;
	shown->gid = seen.gid;
}

static void take_file(struct ck_data_file *shown,
		      const struct ck_file_access *now)
{
	take(&shown->attr, now);
	shown->closed = ck_file_access_noted(now).closed;
}

void ck_access_take_metadata(struct ck_checkpoint *cp)
{
	take(&cp->catalog->meta, &cp->access->metadata);
}

void ck_access_renewed(struct ck_checkpoint *cp)
{
	ck_catalog_access_renew(cp->catalog);
	__atomic_fetch_add(&cp->access->renewed, 1, __ATOMIC_RELEASE);
}

static void renew(struct ck_checkpoint *cp)
{
	struct ck_catalog *c = cp->catalog;

	pthread_rwlock_wrlock(&cp->places);
	ck_access_take_metadata(cp);
	c->dir_mode = directory_mode(cp);
	for (uint32_t i = 0; i < c->nfiles; i++)
		if (file_is_other(cp, i))
			take_file(&c->files[i], ck_files_access(cp->files, i));
	ck_access_renewed(cp);
	pthread_rwlock_unlock(&cp->places);
}

enum { FILES_AT_ONCE = 64 };

/* The files of items from *at on, some at a time, each once where neighbours
 * have the same; *at moves on behind their items. */
static uint32_t files_of(struct ck_checkpoint *cp, struct ck_items items,
			 uint32_t *at, uint32_t *files)
{
	uint32_t count = 0;

	ck_checkpoint_lock(cp);
	for (; *at < items.n && count < FILES_AT_ONCE; ++*at) {
		uint32_t file = ck_items_at(cp->catalog, items, *at)->file;

		if (file < cp->catalog->nfiles &&
		    (count == 0 || file != files[count - 1]))
			files[count++] = file;
	}
	ck_checkpoint_unlock(cp);
	return count;
}

void ck_checkpoint_look(struct ck_checkpoint *cp, struct ck_items items)
{
	uint32_t files[FILES_AT_ONCE];
	uint32_t at = 0;
	int rc = 0;

	while (at < items.n) {
		uint32_t count = files_of(cp, items, &at, files);

		for (uint32_t i = 0; i < count; i++)
			rc = ck_files_check(cp->files, files[i], NULL);
	}
	ck_checkpoint_learn(cp);
	(void)rc; /* what is wrong with one is told to whoever opens it */
}

void ck_checkpoint_renew_access(struct ck_checkpoint *cp, struct ck_items items)
{
	bool old;

	ck_checkpoint_lock(cp);
	old = is_old(cp, items);
	ck_checkpoint_unlock(cp);
	if (old)
		renew(cp);
}

uint64_t ck_checkpoint_access(const struct ck_checkpoint *cp)
{
	return __atomic_load_n(&cp->access->renewed, __ATOMIC_ACQUIRE);
}
