/* SPDX-License-Identifier: MIT */
/*
 * look_catalog: what holds for the catalog of any checkpoint that was opened: boxes lie in
 * their tensors, bytes in their files, and a loss has an errno and a reason.
 */
#ifndef CK_LOOK_CATALOG_H
#define CK_LOOK_CATALOG_H

#include "ckptfs/format.h"
#include "must.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* The bytes of each file are those that the catalog has. */
#define OWN_SIZE UINT64_MAX

/* A tensor that can be read has its boxes in the tensor. */
static inline void look_at_boxes(const struct ck_tensor *t)
{
	for (uint32_t b = 0; b < t->nchunks && !t->err; b++) {
		const int64_t *at = ck_tensor_box(t, b);

		for (uint32_t d = 0; d < t->ndim; d++)
			must(at[d] >= 0 && at[t->ndim + d] >= 0 &&
			     at[d] <= t->shape[d] &&
			     at[t->ndim + d] <= t->shape[d] - at[d]);
	}
}

/* Of an item without elements the storage may be behind the end of a cut file. */
static inline void look_at_item(const struct ck_catalog *c,
				const struct ck_item *item, uint64_t size)
{
	if (item->file == CK_NO_FILE || item->err || item->length == 0)
		return;
	if (size == OWN_SIZE)
		size = ck_catalog_file(c, item->file)->size;
	must(item->fpos <= size && item->length <= size - item->fpos);
}

/* size: bytes of each file, or OWN_SIZE. */
static inline void look_at_catalog(const struct ck_catalog *c, uint64_t size)
{
	struct ck_buf text = { 0 };

	for (uint32_t i = 0; i < c->tensors.n; i++)
		look_at_boxes(ck_catalog_tensor(c, i));
	for (uint32_t i = 0; i < c->chunks.n; i++)
		look_at_item(c, ck_catalog_item(c, i), size);
	for (uint32_t i = 0; i < c->objects.n; i++)
		look_at_item(c, &ck_catalog_object(c, i)->item, size);
	for (uint32_t i = 0; i < c->nlosses; i++)
		must(c->losses[i].err && c->losses[i].what.len);
	ck_catalog_dump(c, &text);
	ck_buf_fini(&text);
}

/* Opens the checkpoint: it is refused with a reason, or its catalog is as it must be. */
static inline void open_and_look(const char *dir, uint64_t size)
{
	static const struct ck_format_options options = { 0 };
	struct ck_checkpoint *cp = NULL;
	struct ck_diag d = { 0 };

	if (ck_checkpoint_open(dir, &options, &cp, &d))
		must(*d.text);
	else
		look_at_catalog(cp->catalog, size);
	ck_checkpoint_close(cp);
}

static inline void put_bytes(const char *dir, const char *name,
			     const uint8_t *bytes, size_t len)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	must(fd >= 0 && ck_write_full(fd, bytes, len) == 0);
	close(fd);
}

/* A new directory, in memory if there is such a file system. */
static inline void dir_make(char dir[static 64], const char *name)
{
	snprintf(dir, 64, "%s/ckptfs-%s-XXXXXX",
		 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", name);
	must(mkdtemp(dir));
}

static inline void dir_remove(const char *dir)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	must(system(command) == 0);
}

#endif
