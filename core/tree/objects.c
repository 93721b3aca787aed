/* SPDX-License-Identifier: MIT */
/*
 * objects: objects/ has two files of each entry that is no tensor. An entry is number
 * of the object * CK_OBJECT_FILES + which of the two.
 */
#include "ckptfs/object.h"
#include "tree_internal.h"

#include <errno.h>

static int objects_make(const struct ck_view_source *from, const void **state)
{
	*state = from->cp;
	return 0;
}

static struct ck_checkpoint *checkpoint_of(const struct ck_dir *dir)
{
	return (struct ck_checkpoint *)(uintptr_t)dir->state;
}

static int objects_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
			  struct ck_str name, struct ck_child *out)
{
	uint32_t object, file;
	int rc = ck_object_file_find(c, name, &object, &file);

	(void)dir;
	if (rc)
		return rc;
	*out = (struct ck_child){ .type = CK_TYPE_FILE,
				  .made = true,
				  .entry = object * CK_OBJECT_FILES + file };
	return 0;
}

static int objects_next(const struct ck_catalog *c, const struct ck_dir *dir,
			uint64_t *at, struct ck_child *out, struct ck_buf *name)
{
	uint64_t n = (uint64_t)c->objects.n * CK_OBJECT_FILES;

	(void)dir;
	while (*at < n && !ck_object_is_there(c, *at / CK_OBJECT_FILES))
		++*at;
	if (*at >= n)
		return -ENOENT;
	*out = (struct ck_child){ .type = CK_TYPE_FILE,
				  .made = true,
				  .entry = (uint32_t)*at };
	ck_object_file_name(c, out->entry / CK_OBJECT_FILES,
			    out->entry % CK_OBJECT_FILES, name);
	return 0;
}

static int objects_stat(const struct ck_catalog *c, const struct ck_dir *dir,
			uint32_t entry, struct ck_about *out)
{
	if (!ck_object_is_there(c, entry / CK_OBJECT_FILES))
		return -ENOENT;
	*out = (struct ck_about){
		.topic = CK_ABOUT_OBJECT,
		.number = entry / CK_OBJECT_FILES,
	};
	return ck_object_file_size(checkpoint_of(dir), out->number,
				   entry % CK_OBJECT_FILES, &out->size);
}

static int objects_slice(const struct ck_catalog *c, const struct ck_dir *dir,
			 uint32_t entry, struct ck_slice **out)
{
	bool passing;

	return ck_object_is_there(c, entry / CK_OBJECT_FILES)
		       ? ck_object_file_slice(
				 checkpoint_of(dir), entry / CK_OBJECT_FILES,
				 entry % CK_OBJECT_FILES, out, &passing)
		       : -ENOENT;
}

const struct ck_view ck_view_objects = {
	.name = "objects",
	.make = objects_make,
	.lookup = objects_lookup,
	.next = objects_next,
	.stat = objects_stat,
	.slice = objects_slice,
};
