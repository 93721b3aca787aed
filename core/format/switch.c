/* SPDX-License-Identifier: MIT */
/*
 * switch: a commit in memory. Texts of new files are added behind what others
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

int ck_checkpoint_prepare(struct ck_checkpoint *cp,
			  struct ck_change_of_place *changes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct ck_change_of_place *change = &changes[i];
		int rc = ck_files_add(cp->files, change->path, &change->file);

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

	pthread_rwlock_wrlock(&cp->places);
	was = c->meta;
	cp->metadata = *metadata;
	cp->format->switched(cp);
	ck_access_note_metadata(cp->access, metadata);
	c->meta = (struct ck_attr){ metadata->st_mtim, metadata->st_mode,
				    metadata->st_uid, metadata->st_gid };
	for (uint32_t i = 0; i < n; i++)
		c->chunks[changes[i].chunk] = (struct ck_chunk){
			.fpos = changes[i].fpos,
			.length = changes[i].length,
			.file = changes[i].file,
		};
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
