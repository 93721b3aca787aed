/* SPDX-License-Identifier: MIT */
/*
 * world: real data files in a temporary directory and a catalog of one tensor
 * whose boxes lie in them, for tests of the host mover.
 */
#ifndef CK_WORLD_H
#define CK_WORLD_H

#include "boxes.h"
#include "ckptfs/move.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NFILES = 4, FILE_BYTES = 24000, BIG_BYTES = 4 << 20, BIG = NFILES };

static int dir = -1;
static char dir_path[] = "/tmp/ckptfs-move-XXXXXX";
static struct ck_files *files; /* those that make_world() takes */
/* The same files, none of which is mapped; of which two have room to be. */
static struct ck_files *unmapped, *half_mapped;
static uint8_t content[NFILES + 1][BIG_BYTES];

static inline void write_file(unsigned i, size_t len)
{
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "f%u", i);
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ck_write_full(fd, content[i], len))
		abort();
	close(fd);
}

/* f0 to f3, the big f4, and number 5, which is not there. */
static inline struct ck_files *files_open(void)
{
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	uint32_t number;

	for (unsigned i = 0; i <= BIG + 1; i++) {
		char name[16];

		snprintf(name, sizeof(name), "f%u", i);
		if (ck_files_add(f, ck_str_from(name), &number))
			abort();
	}
	return f;
}

static inline void make_files(void)
{
	uint64_t random = 99;

	for (unsigned i = 0; i <= BIG; i++) {
		size_t len = i == BIG ? BIG_BYTES : FILE_BYTES;

		for (size_t k = 0; k < len; k++)
			content[i][k] = (uint8_t)tap_random(&random);
		write_file(i, len);
	}
	files = files_open();
	unmapped = files_open();
	ck_files_map_most(unmapped, 0);
	half_mapped = files_open();
	ck_files_map_most(half_mapped, 2 * FILE_BYTES);
}

/* --- one tensor in a catalog --------------------------------------------- */

struct world {
	struct boxes b;
	struct ck_tensor tensor;
	struct ck_catalog catalog;
	struct ck_extent extents[BOXES_MAX];
	struct ck_layout layout;
	const struct ck_layout *layouts[8];
	struct ck_slice *slice;
	struct ck_read read;
};

static inline uint8_t dtype_of(const char *name)
{
	return ck_dtype_by_name(ck_str_from(name));
}

/* Everything that follows from w->b. */
static inline void make_world(struct world *w, uint8_t dtype)
{
	struct boxes *b = &w->b;

	w->tensor = (struct ck_tensor){ .ndim = b->ndim,
					.nchunks = b->n,
					.dtype = dtype };
	w->catalog = (struct ck_catalog){ .tensors = &w->tensor,
					  .shapes = (int64_t *)b->shape,
					  .boxes = b->box,
					  .order = b->order };
	w->layout = (struct ck_layout){ .n = b->n,
					.extents = w->extents,
					.strides = b->strides };
	memset(w->extents, 0, sizeof(w->extents));
	for (size_t i = 0; i < CK_ARRAY_SIZE(w->layouts); i++)
		w->layouts[i] = &w->layout;
	w->read = (struct ck_read){ .catalog = &w->catalog,
				    .files = files,
				    .slice = w->slice,
				    .layouts = w->layouts };
}

static inline struct world *world_make(uint32_t nparts)
{
	struct world *w = calloc(1, sizeof(*w));

	if (w)
		w->slice = calloc(1, sizeof(*w->slice) +
					     nparts * sizeof(struct ck_part));
	if (!w || !w->slice)
		abort();
	return w;
}

static inline void world_free(struct world *w)
{
	free(w->slice);
	free(w);
}

/* --- slices and reads --------------------------------------------------- */

static inline void add_part(struct ck_slice *slice, struct ck_part part)
{
	part.vpos = slice->size;
	slice->size += part.len;
	slice->parts[slice->nparts++] = part;
}

/* The bytes [vpos, vpos + len), the caller's; or NULL and *rc. */
static inline uint8_t *world_read(const struct world *w, uint64_t vpos,
				  uint64_t len, int *rc)
{
	uint8_t *bytes = malloc(len + 1);

	if (!bytes)
		abort();
	*rc = ck_host_read(&w->read, vpos, len, bytes);
	if (*rc) {
		free(bytes);
		return NULL;
	}
	return bytes;
}

static inline bool is_right_read(const struct world *w, const uint8_t *want,
				 uint64_t vpos, uint64_t len)
{
	int rc;
	uint8_t *bytes = world_read(w, vpos, len, &rc);
	bool right = bytes && memcmp(bytes, want, len) == 0;

	free(bytes);
	return right;
}

/* --- the directory -------------------------------------------------------- */

static inline bool world_begin(void)
{
	alarm(110); /* a read that hangs is a failure */
	if (!mkdtemp(dir_path) || ck_sigbus_install())
		return false;
	dir = open(dir_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	make_files();
	return true;
}

static inline int world_end(void)
{
	char command[128];

	ck_files_free(files);
	ck_files_free(unmapped);
	ck_files_free(half_mapped);
	close(dir);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir_path);
	return system(command) ? 2 : tap_done();
}

#endif
