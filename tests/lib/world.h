/* SPDX-License-Identifier: MIT */
/*
 * world: real data files in a temporary directory and a catalog of one tensor
 * whose boxes lie in them, for tests of the host mover.
 */
#ifndef CK_WORLD_H
#define CK_WORLD_H

#include "boxes.h"
#include "ckptfs/io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NFILES = 4, FILE_BYTES = 24000, BIG_BYTES = 4 << 20, BIG = NFILES };

static int dir = -1;
static char dir_path[] = "/tmp/ckptfs-move-XXXXXX";
static struct ck_files *files; /* those that make_world() takes */
/* The same files without mappings; with room for two mappings. */
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

/* The same, of which those are remote whose bit is set. */
static inline struct ck_files *files_open_remote(unsigned remote)
{
	struct ck_files *f = files_open();

	for (unsigned i = 0; i <= BIG + 1; i++) {
		const struct ck_file_info said = *ck_files_info(f, i);

		if (remote >> i & 1)
			ck_files_set_remote(f, i, &said);
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

/* --- one tensor, and a slice of boxes of it ------------------------------- */

/* One part of the slice, in the test's own words. */
struct world_part {
	bool is_box, is_zeros, is_range, is_made;
	uint64_t len;		    /* bytes */
	const char *literal;	    /* otherwise, and of one that is made */
	const uint64_t *off, *size; /* of a box; NULL: all of the tensor */
	uint32_t file;		    /* of a range */
	uint64_t fpos;
	uint64_t vpos; /* set by add_part() */
};

enum { WORLD_PARTS = 3000 };

struct world {
	struct boxes b;
	struct ck_extent extents[BOXES_MAX];
	struct ck_layout layout;
	struct ck_files *files;
	unsigned located; /* how often the locator was asked */
	struct ck_slice slice;
	struct ck_locator locator;
	uint32_t nparts;
	struct world_part given[WORLD_PARTS];
	struct ck_part parts[WORLD_PARTS];
	uint64_t begins[WORLD_PARTS + 1];
	uint64_t windows[WORLD_PARTS][2 * BOXES_DIMS];
};

static inline uint8_t dtype_of(const char *name)
{
	return ck_dtype_by_name(ck_str_from(name));
}

#define WORLD_OF(pointer, member)                                              \
	((struct world *)(void *)((char *)(uintptr_t)(pointer)-offsetof(       \
		struct world, member)))

static inline int world_locate(struct ck_locator *l, uint32_t tensor,
			       const uint64_t *window,
			       const struct ck_layout **out)
{
	struct world *w = WORLD_OF(l, locator);

	(void)tensor, (void)window;
	__atomic_fetch_add(&w->located, 1, __ATOMIC_RELAXED);
	*out = &w->layout;
	return 0;
}

static inline void world_put(struct ck_locator *l,
			     const struct ck_layout *layout)
{
	(void)l, (void)layout;
}

static inline void world_keep(struct ck_slice *s)
{
	(void)s;
}

static inline int world_make_part(const struct ck_slice *s, uint32_t number,
				  struct ck_buf *out)
{
	const struct world_part *p = &WORLD_OF(s, slice)->given[number];

	ck_buf_add(out, p->literal, p->len);
	return 0;
}

/* Everything that follows from w->b. */
static inline void make_world(struct world *w, uint8_t dtype)
{
	struct boxes *b = &w->b;

	w->layout = (struct ck_layout){ .n = b->n,
					.ndim = b->ndim,
					.dtype = dtype,
					.shape = b->shape,
					.boxes = b->box,
					.order = b->order,
					.extents = w->extents,
					.strides = b->dense ? NULL
							    : b->strides };
	memset(w->extents, 0, sizeof(w->extents));
	w->files = files;
	w->locator = (struct ck_locator){ .get = world_locate,
					  .put = world_put };
	w->slice = (struct ck_slice){ .begins = w->begins,
				      .parts = w->parts,
				      .make = world_make_part,
				      .free = world_keep };
}

static inline struct world *world_make(void)
{
	struct world *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	return w;
}

static inline void world_free(struct world *w)
{
	free(w);
}

/* --- slices and reads --------------------------------------------------- */

static inline struct ck_part world_part(struct world *w,
					const struct world_part *p, uint32_t i)
{
	struct ck_part part = { .kind = CK_PART_BYTES, .at.bytes = p->literal };
	size_t bytes = w->b.ndim * sizeof(uint64_t);

	if (p->is_made)
		part = (struct ck_part){ .kind = CK_PART_MADE, .number = i };
	if (p->is_zeros)
		part = (struct ck_part){ .kind = CK_PART_ZEROS };
	if (p->is_range)
		part = (struct ck_part){ .kind = CK_PART_RANGE,
					 .number = p->file,
					 .at.fpos = p->fpos };
	if (!p->is_box)
		return part;
	part = (struct ck_part){ .kind = CK_PART_BOX };
	if (p->off) {
		memcpy(w->windows[i], p->off, bytes);
		memcpy(w->windows[i] + w->b.ndim, p->size, bytes);
		part.at.box = w->windows[i];
	}
	return part;
}

static inline void add_part(struct world *w, struct world_part part)
{
	uint32_t i = w->slice.nparts++;

	part.vpos = w->slice.size;
	w->given[i] = part;
	w->parts[i] = world_part(w, &part, i);
	w->begins[i] = part.vpos;
	w->slice.size += part.len;
	w->begins[i + 1] = w->slice.size;
}

static inline int world_read_into(struct world *w, struct ck_open_slice *from,
				  uint64_t vpos, uint64_t len, void *to)
{
	const struct ck_read r = {
		.from = from, .vpos = vpos, .len = len, .to = to
	};

	return ck_host_read(w->files, &r);
}

static inline struct ck_open_slice *world_open(struct world *w)
{
	struct ck_open_slice *o;

	if (ck_open_slice_make(&w->slice, &w->locator, &o))
		abort();
	return o;
}

/* The bytes [vpos, vpos + len), the caller's; or NULL and *rc. */
static inline uint8_t *world_read(struct world *w, uint64_t vpos, uint64_t len,
				  int *rc)
{
	struct ck_open_slice *o = world_open(w);
	uint8_t *bytes = malloc(len + 1);

	if (!bytes)
		abort();
	*rc = world_read_into(w, o, vpos, len, bytes);
	ck_open_slice_free(o);
	if (*rc) {
		free(bytes);
		return NULL;
	}
	return bytes;
}

static inline bool is_right_read(struct world *w, const uint8_t *want,
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
	alarm(tap_is_long() ? 1200 : 300); /* a read that hangs is a failure */
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
