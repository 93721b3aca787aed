/* SPDX-License-Identifier: MIT */
/*
 * objects: objects/ has two files of each entry that is no tensor. An entry is number
 * of the object * CK_OBJECT_FILES + which of the two.
 */
#include "object.h"
#include "tree_internal.h"

#include <errno.h>

static bool is_shown(const struct ck_catalog *c, uint64_t object)
{
	return ck_object_is_there(c, object) &&
	       ck_catalog_object(c, (uint32_t)object)->entry.role ==
		       CK_ROLE_WHOLE;
}

static int objects_make(const struct ck_view_source *from, const void **state)
{
	*state = from->objects.cp;
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
	if (!is_shown(c, object))
		return -ENOENT;
	*out = (struct ck_child){ .type = CK_TYPE_FILE,
				  .entry = object * CK_OBJECT_FILES + file };
	return 0;
}

static int objects_next(const struct ck_catalog *c, const struct ck_dir *dir,
			uint64_t *at, struct ck_child *out)
{
	uint64_t n = (uint64_t)c->objects.n * CK_OBJECT_FILES;

	(void)dir;
	while (*at < n && !is_shown(c, *at / CK_OBJECT_FILES))
		++*at;
	if (*at >= n)
		return -ENOENT;
	*out = (struct ck_child){ .type = CK_TYPE_FILE,
				  .entry = (uint32_t)*at };
	return 0;
}

static void objects_name(const struct ck_catalog *c, const struct ck_dir *dir,
			 uint32_t entry, struct ck_buf *out)
{
	(void)dir;
	ck_object_file_name(c, entry / CK_OBJECT_FILES, entry % CK_OBJECT_FILES,
			    out);
}

static int objects_stat(const struct ck_catalog *c, const struct ck_dir *dir,
			uint32_t entry, struct ck_file_content *out)
{
	(void)dir;
	if (!is_shown(c, entry / CK_OBJECT_FILES))
		return -ENOENT;
	*out = (struct ck_file_content){
		.topic = CK_FILE_KIND_OBJECT,
		.made = true,
		.number = entry / CK_OBJECT_FILES,
	};
	return 0;
}

static int objects_size(const struct ck_catalog *c, const struct ck_dir *dir,
			uint32_t entry, uint64_t *size)
{
	(void)c;
	return ck_object_file_size(checkpoint_of(dir), entry / CK_OBJECT_FILES,
				   entry % CK_OBJECT_FILES, size);
}

/* No bytes, for each read answers the error. */
static int failing_slice(int err, struct ck_slice **out)
{
	const struct ck_slice_builder none = { .n = 0 };
	int rc = ck_slice_make(&none, out);

	if (rc == 0)
		(*out)->err = err;
	return rc;
}

/* JSON that cannot be made is refused when it is opened; an item is what it is, and
 * what is wrong with it is answered by each read. What could not be asked is
 * refused. */
static int objects_slice(const struct ck_catalog *c, const struct ck_dir *dir,
			 uint32_t entry, struct ck_slice **out)
{
	uint32_t object = entry / CK_OBJECT_FILES;
	uint32_t file = entry % CK_OBJECT_FILES;
	bool transient;
	int rc;

	if (!is_shown(c, object))
		return -ENOENT;
	rc = ck_object_file_slice(checkpoint_of(dir), object, file, out,
				  &transient);
	return rc && file == CK_OBJECT_ITEM && !transient
		       ? failing_slice(-rc, out)
		       : rc;
}

static uint64_t objects_count(const struct ck_catalog *c, const void *state)
{
	(void)state;
	return (uint64_t)ck_shown_objects(c) * CK_OBJECT_FILES;
}

const struct ck_view ck_view_objects = {
	.top = "objects",
	.make = objects_make,
	.lookup = objects_lookup,
	.next = objects_next,
	.name = objects_name,
	.stat = objects_stat,
	.size = objects_size,
	.slice = objects_slice,
	.count = objects_count,
};
