/* SPDX-License-Identifier: MIT */
/* Who reads on finds the data files in memory; who jumps fetches nothing. */
#include "ckptfs/move.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 48 << 20, STEP = 128 << 10, FAR = 20 << 20 };

static int64_t shape[] = { SIZE };
static int64_t boxes[] = { 0, SIZE };
static uint32_t order[] = { 0 };
static uint64_t strides[] = { 1 };

/* A file on disk that is not in memory; false if that cannot be had here. */
static bool make_cold(int fd, const uint8_t **map)
{
	static char block[STEP];
	unsigned char page;

	memset(block, 7, sizeof(block));
	for (size_t i = 0; i < SIZE / STEP; i++)
		if (ck_write_full(fd, block, sizeof(block)))
			return false;
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	*map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	return *map != MAP_FAILED &&
	       mincore((void *)(uintptr_t)(*map + FAR), 4096, &page) == 0 &&
	       !(page & 1);
}

static bool is_in_memory(const uint8_t *map, size_t fpos)
{
	unsigned char page = 0;

	mincore((void *)(uintptr_t)(map + fpos), 4096, &page);
	return page & 1;
}

static bool comes_into_memory(const uint8_t *map, size_t fpos)
{
	for (int i = 0; i < 500; i++) {
		if (is_in_memory(map, fpos))
			return true;
		usleep(10000);
	}
	return false;
}

static void test_streams(int dirfd, struct ck_str path, const uint8_t *map)
{
	struct ck_tensor tensor = { .ndim = 1,
				    .dtype = ck_dtype_by_name(CK_STR("uint8")),
				    .nchunks = 1,
				    .nbytes = SIZE };
	struct ck_catalog catalog = { .tensors = &tensor,
				      .shapes = shape,
				      .boxes = boxes,
				      .order = order,
				      .ntensors = 1 };
	struct ck_files *files = ck_files_make(dirfd, CK_BENEATH_NO_SYMLINKS,
					       16);
	struct ck_extent extent = { 0 };
	struct ck_layout layout = { .n = 1,
				    .extents = &extent,
				    .strides = strides };
	const struct ck_layout *layouts[] = { &layout };
	struct ck_slice *slice =
		calloc(1, sizeof(*slice) + sizeof(struct ck_part));
	struct ck_read read = { &catalog, files, slice, layouts };
	struct ck_ahead_stream jumping = { 0 }, reading_on = { 0 };
	struct ck_ahead *ahead;

	slice->size = SIZE;
	slice->nparts = 1;
	slice->parts[0] = (struct ck_part){ .kind = CK_PART_TENSOR,
					    .len = SIZE };
	eq_err(ck_files_add(files, path, &extent.file), 0);
	ahead = ck_ahead_make(files);
	for (uint64_t i = 0; i < 16; i++)
		ck_ahead_note(ahead, &jumping, &read,
			      i * 11 % 16 * (STEP * 40UL) % SIZE, 4096);
	usleep(100000);
	ok(!is_in_memory(map, FAR));
	for (uint64_t i = 0; i < 8; i++)
		ck_ahead_note(ahead, &reading_on, &read, i * STEP, STEP);
	ok(comes_into_memory(map, FAR));
	ok(!is_in_memory(map, SIZE - 4096));
	ck_ahead_free(ahead);
	ck_files_free(files);
	free(slice);
}

int main(void)
{
	char dir[] = "ahead-XXXXXX"; /* here: /tmp may be no disk */
	const uint8_t *map = MAP_FAILED;
	int dirfd, fd;
	bool cold;

	if (!mkdtemp(dir))
		return tap_skip_all("no directory can be made here");
	dirfd = open(dir, O_DIRECTORY | O_CLOEXEC);
	fd = openat(dirfd, "f", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	cold = make_cold(fd, &map);
	if (cold)
		test_streams(dirfd, CK_STR("f"), map);
	munmap((void *)(uintptr_t)map, SIZE);
	close(fd);
	unlinkat(dirfd, "f", 0);
	close(dirfd);
	rmdir(dir);
	if (!cold)
		return tap_skip_all("files cannot be dropped from memory here");
	return tap_done();
}
