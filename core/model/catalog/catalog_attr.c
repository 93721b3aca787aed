/* SPDX-License-Identifier: MIT */
/*
 * catalog_attr: mode and mtime of a tensor or another entry. Both follow from the
 * metadata, the directory and the files of its items. Called while a catalog is filled
 * or edited.
 */
#include "base/system/rights.h"
#include "catalog_internal.h"
#include "items.h"

#include <errno.h>
#include <sys/stat.h>

/* Returns the r bits that a data file grants to the owner, group and others of the
 * metadata, whom the mount shows. */
static mode_t file_mode(const struct ck_attr *file, const struct ck_attr *meta)
{
	return 0444 & ck_rights_as(file->mode,
				   (struct ck_ids){ file->uid, file->gid },
				   (struct ck_ids){ meta->uid, meta->gid });
}

/* True if the attributes of the file are known. */
static bool has_attr(const struct ck_data_file *file)
{
	return !file->unseen && (file->err == 0 || (file->attr.mode & S_IFMT));
}

static uint32_t file_of(struct ck_items items, uint32_t i,
			struct ck_item_walk *walk)
{
	if (items.own || items.are_files)
		return ck_items_file(items, i);
	return ck_item_walk_to(walk, items.of, items.chunk + i)->file;
}

struct ck_attr ck_catalog_attr(const struct ck_catalog *c,
			       struct ck_items items)
{
	struct ck_attr attr = c->meta;
	struct ck_item_walk walk = { 0 };
	uint32_t last = CK_NO_FILE;
	bool any = false;

	attr.mode = c->meta.mode & c->dir_mode & 0444;
	for (uint32_t i = 0; i < items.n; i++) {
		uint32_t number = file_of(items, i, &walk);
		const struct ck_data_file *file;

		if (number == last || number >= c->files.n)
			continue;
		last = number;
		file = ck_catalog_file(c, number);
		if (!has_attr(file))
			continue;
		attr.mode &= file_mode(&file->attr, &c->meta) & ~file->closed;
		if (!any || ck_time_is_later(file->attr.mtime, attr.mtime))
			attr.mtime = file->attr.mtime;
		any = true;
	}
	return attr;
}

static bool is_shown(const struct ck_attr *attr, mode_t mode,
		     struct timespec mtime)
{
	return attr->mode == mode && attr->mtime.tv_sec == mtime.tv_sec &&
	       attr->mtime.tv_nsec == mtime.tv_nsec;
}

/* An unchanged row stays shared with other catalogs. */
int ck_catalog_tensor_renew(struct ck_catalog *c, uint32_t tensor,
			    struct ck_facts_met *met)
{
	const struct ck_tensor *old = ck_catalog_tensor(c, tensor);
	struct ck_tensor_facts facts = *old->facts;
	struct ck_attr attr = ck_catalog_attr(c, ck_items_of_tensor(c, old));
	struct ck_tensor *t;

	if (is_shown(&attr, facts.mode, facts.mtime))
		return 0;
	t = ck_catalog_own_tensor(c, tensor);
	if (!t)
		return -ENOMEM;
	facts.mode = attr.mode;
	facts.mtime = attr.mtime;
	return ck_tensor_facts_set(t, &facts, met);
}

int ck_catalog_object_renew(struct ck_catalog *c, uint32_t object)
{
	const struct ck_object *old = ck_catalog_object(c, object);
	struct ck_attr attr = ck_catalog_attr(c, ck_items_of_object(c, old));
	struct ck_object *o;

	if (is_shown(&attr, old->mode, old->mtime))
		return 0;
	o = ck_catalog_own_object(c, object);
	if (!o)
		return -ENOMEM;
	o->mode = attr.mode;
	o->mtime = attr.mtime;
	return 0;
}

int ck_catalog_access_renew(struct ck_catalog *next)
{
	struct ck_facts_met met = { 0 };
	int rc = 0;

	for (uint32_t i = 0; i < next->tensors.n && rc == 0; i++)
		if (ck_catalog_tensor(next, i)->entry.key.p)
			rc = ck_catalog_tensor_renew(next, i, &met);
	ck_facts_met_fini(&met);
	for (uint32_t i = 0; i < next->objects.n && rc == 0; i++)
		if (ck_catalog_object(next, i)->entry.key.p)
			rc = ck_catalog_object_renew(next, i);
	return rc;
}
