/* SPDX-License-Identifier: MIT */
/* Who reads on finds the data files in memory; who jumps fetches nothing. */
#include "ckptfs/io.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* The end is far behind what is fetched and what the kernel reads ahead of that:
 * there are disks with windows of 8 MiB and more. */
enum { SIZE = 96 << 20, STEP = 128 << 10, FAR = 20 << 20 };

static const uint64_t shape[] = { SIZE };
static int64_t boxes[] = { 0, SIZE };
static uint32_t order[] = { 0 };
static uint64_t strides[] = { 1 };

static bool is_in_memory(const uint8_t *map, size_t fpos)
{
	unsigned char page = 0;

	mincore((void *)(uintptr_t)(map + fpos), 4096, &page);
	return page & 1;
}

/* The kernel keeps the pages that were written last a little longer. */
static bool drop(int fd, const uint8_t *map)
{
	for (int i = 0; i < 100; i++) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		if (!is_in_memory(map, FAR) && !is_in_memory(map, SIZE - 4096))
			return true;
		usleep(10000);
	}
	return false;
}

/* A file on disk that is not in memory; false if that cannot be had here. */
static bool make_cold(int fd, const uint8_t **map)
{
	static char block[STEP];

	memset(block, 7, sizeof(block));
	for (size_t i = 0; i < SIZE / STEP; i++)
		if (ck_write_full(fd, block, sizeof(block)))
			return false;
	fsync(fd);
	*map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	return *map != MAP_FAILED && drop(fd, *map);
}

/* Half of what follows will do: pages are also brought, and not brought, by the
 * kernel on its own account. */
static bool comes_into_memory(const uint8_t *map, size_t fpos)
{
	for (int i = 0; i < 1500; i++) {
		unsigned n = 0;

		for (size_t at = 0; at < 64; at++)
			n += is_in_memory(map, fpos + at * (64 << 10));
		if (n >= 32)
			return true;
		usleep(10000);
	}
	return false;
}

static struct ck_extent extent;
static const struct ck_layout *layout;

static int locate(struct ck_locator *l, uint32_t tensor, const uint64_t *window,
		  const struct ck_layout **out)
{
	(void)l, (void)tensor, (void)window;
	*out = layout;
	return 0;
}

static void put(struct ck_locator *l, const struct ck_layout *unused)
{
	(void)l, (void)unused;
}

static void note(struct ck_ahead *ahead, struct ck_ahead_stream *stream,
		 struct ck_open_slice *from, uint64_t vpos, uint64_t len)
{
	const struct ck_read r = { .from = from, .vpos = vpos, .len = len };

	ck_ahead_note(ahead, stream, &r);
}

static void test_streams(int dirfd, struct ck_str path, const uint8_t *map)
{
	const struct ck_layout all = {
		.n = 1,
		.ndim = 1,
		.dtype = ck_dtype_by_name(CK_STR("uint8")),
		.shape = shape,
		.boxes = boxes,
		.order = order,
		.extents = &extent,
		.strides = strides,
	};
	struct ck_files *files = ck_files_make(dirfd, CK_BENEATH_NO_SYMLINKS,
					       16);
	struct ck_slice_builder builder = { 0 };
	struct ck_locator locator = { .get = locate, .put = put };
	struct ck_slice *slice;
	struct ck_open_slice *opened;
	struct ck_ahead_stream jumping = { 0 };
	bool came = false;
	struct ck_ahead *ahead;

	layout = &all;
	ck_slice_add_box(&builder, 0, 1, NULL, SIZE);
	if (ck_slice_make(&builder, &slice) ||
	    ck_open_slice_make(slice, &locator, &opened))
		abort();
	eq_err(ck_files_add(files, path, &extent.file), 0);
	eq_err(ck_open_slice_locate(opened), 0);
	ahead = ck_ahead_make(files);
	for (uint64_t i = 0; i < 16; i++)
		note(ahead, &jumping, opened,
		     i * 11 % 16 * (STEP * 40UL) % SIZE, 4096);
	usleep(100000);
	ok(!is_in_memory(map, FAR));
	/* Another program may drop the page cache of the machine meanwhile. */
	for (int tries = 0; tries < 4 && !came; tries++) {
		struct ck_ahead_stream reading_on = { 0 };

		for (uint64_t i = 0; i < 8; i++)
			note(ahead, &reading_on, opened, i * STEP, STEP);
		came = comes_into_memory(map, FAR);
	}
	ok(came);
	ok(!is_in_memory(map, SIZE - 4096));
	ck_ahead_free(ahead);
	ck_files_free(files);
	ck_open_slice_free(opened);
}

/* --- parts that were not touched yet ------------------------------------------- */

enum { FIRST = 4 << 20 };

static const struct ck_str told = { "f", 1 };

static void guess(struct ck_locator *l, uint32_t tensor, const uint64_t *window,
		  uint64_t begin, uint64_t end, ck_range_use *each, void *arg)
{
	(void)l, (void)tensor;
	if (window[0] == FIRST)
		each(arg, extent.file, FIRST + begin, end - begin);
}

/* Two parts of the tensor; the second one is located by nobody. */
static void test_guessed(int dirfd, const uint8_t *map, bool guessing)
{
	static const uint64_t parts[2][2] = { { 0, FIRST },
					      { FIRST, SIZE - FIRST } };
	struct ck_files *files = ck_files_make(dirfd, CK_BENEATH_NO_SYMLINKS,
					       16);
	struct ck_locator locator = { .get = locate,
				      .put = put,
				      .guess = guessing ? guess : NULL };
	struct ck_ahead_stream stream = { 0 };
	struct ck_slice_builder builder = { 0 };
	struct ck_slice *slice;
	struct ck_open_slice *opened;
	struct ck_ahead *ahead;

	for (unsigned i = 0; i < 2; i++)
		ck_slice_add_box(&builder, 0, 1, parts[i], parts[i][1]);
	if (ck_slice_make(&builder, &slice) ||
	    ck_open_slice_make(slice, &locator, &opened))
		abort();
	eq_err(ck_files_add(files, told, &extent.file), 0);
	ahead = ck_ahead_make(files);
	for (uint64_t i = 0; i < 8; i++)
		note(ahead, &stream, opened, i * STEP, STEP);
	if (guessing) {
		ok(comes_into_memory(map, FAR));
	} else {
		usleep(100000);
		ok(!is_in_memory(map, FAR));
	}
	ok(!is_in_memory(map, SIZE - 4096));
	ok(ck_open_slice_known(opened, 1) == NULL);
	ck_ahead_free(ahead);
	ck_files_free(files);
	ck_open_slice_free(opened);
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
		test_streams(dirfd, told, map);
	if (cold && drop(fd, map))
		test_guessed(dirfd, map, false);
	if (cold && drop(fd, map))
		test_guessed(dirfd, map, true);
	munmap((void *)(uintptr_t)map, SIZE);
	close(fd);
	unlinkat(dirfd, "f", 0);
	close(dirfd);
	rmdir(dir);
	if (!cold)
		return tap_skip_all("files cannot be dropped from memory here");
	return tap_done();
}
