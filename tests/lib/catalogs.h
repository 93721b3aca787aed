/* SPDX-License-Identifier: MIT */
/*
 * catalogs: small catalogs for tests, made by hand. What cannot be added
 * ends the program.
 */
#ifndef CK_CATALOGS_H
#define CK_CATALOGS_H

#include "ckptfs/model.h"
#include "model/catalog/catalog_edit.h"
#include <stdio.h>

#define DIMS(...) ((const int64_t[]){ __VA_ARGS__ })

static inline void must(int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "catalogs: %s\n", strerror(-rc));
	abort();
}

/* meta: mode 0644, owner 1, group 2, mtime 100; directory 0755. */
static inline struct ck_catalog *catalog_new(void)
{
	struct ck_catalog *c = ck_catalog_make("dcp");

	if (!c)
		abort();
	c->meta = (struct ck_attr){
		.mode = 0100644, .uid = 1, .gid = 2, .mtime = { 100, 0 }
	};
	c->dir_mode = 0040755;
	return c;
}

static inline void file_add_of(struct ck_catalog *c, const char *path,
			       uint64_t size, int err, uint64_t rank)
{
	struct ck_data_file file = {
		.path = ck_str_from(path),
		.size = size,
		.err = err,
		.attr = { .mode = err ? 0 : 0100644,
			  .uid = 1,
			  .gid = 2,
			  .mtime = { 200 + (time_t)c->files.n, 0 } },
		.rank = rank,
	};

	must(ck_catalog_file_add(c, &file));
}

static inline void file_add(struct ck_catalog *c, const char *path,
			    uint64_t size, int err)
{
	file_add_of(c, path, size, err, CK_NO_RANK);
}

static inline void tensor_add(struct ck_catalog *c, const char *key,
			      const char *dtype, uint32_t ndim,
			      const int64_t *shape)
{
	must(ck_catalog_tensor_add(c, ck_str_from(key), ck_str_from(dtype),
				   ndim, shape));
}

/* A box whose item is 10 bytes at chunk number * 10 of file 0. */
static inline void box_add(struct ck_catalog *c, const int64_t *off,
			   const int64_t *size)
{
	struct ck_item chunk = { .fpos = c->chunks.n * 10, .length = 10 };

	must(ck_catalog_chunk_add(c, off, size, &chunk));
}

static inline void item_add(struct ck_catalog *c, const int64_t *off,
			    const int64_t *size, uint32_t file, uint64_t fpos,
			    uint64_t length)
{
	struct ck_item chunk = { .file = file, .fpos = fpos, .length = length };

	must(ck_catalog_chunk_add(c, off, size, &chunk));
}

static inline void object_add(struct ck_catalog *c, const char *key)
{
	struct ck_item item = { .length = 1 };

	must(ck_catalog_object_add(c, ck_str_from(key), &item));
}

static inline void finish(struct ck_catalog *c)
{
	struct ck_diag d = { 0 };

	if (ck_catalog_finish(c, &d) == 0)
		return;
	fprintf(stderr, "catalogs: %s\n", d.text);
	abort();
}

/* A text as a string; from a ring of four buffers. */
static inline const char *text_of(struct ck_str s)
{
	static char ring[4][1024];
	static unsigned next;
	char *out = ring[next++ % 4];

	snprintf(out, sizeof(ring[0]), "%.*s", (int)s.len, s.p);
	return out;
}

static inline const char *name_of(const struct ck_catalog *c, size_t entry)
{
	return text_of(ck_entry_names(c, entry).name);
}

#endif
