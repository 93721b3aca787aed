/* SPDX-License-Identifier: MIT */
/*
 * host: what happens when files disappear, shrink or change; large
 * replies are made; threads; speed.
 */
#include "io/local/gather.h"
#include "world.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

/* --- by hand ------------------------------------------------------------- */

/* Two rows of four bytes, row 0 in f0, row 1 in f1; the slice is all of it. */
static struct world *two_rows(void)
{
	struct world *w = world_make();
	struct boxes *b = &w->b;
	const int64_t box[] = { 0, 0, 1, 4, 1, 0, 1, 4 };

	b->ndim = 2;
	b->item = 1;
	b->n = 2;
	b->shape[0] = 2;
	b->shape[1] = 4;
	memcpy(b->box, box, sizeof(box));
	b->strides[0] = b->strides[2] = 4;
	b->strides[1] = b->strides[3] = 1;
	b->order[1] = 1;
	make_world(w, dtype_of("uint8"));
	w->extents[1].file = 1;
	add_part(w, (struct world_part){ .is_box = true, .len = 8 });
	return w;
}

static int read_rc(struct world *w, uint64_t vpos, uint64_t len)
{
	int rc;

	free(world_read(w, vpos, len, &rc));
	return rc;
}

/* A box that cannot be had fails the reads that touch it, and no others. */
static void test_lost_box(void)
{
	struct world *w = two_rows();

	eq_err(read_rc(w, 0, 8), 0);
	w->extents[1].file = 5; /* missing */
	eq_err(read_rc(w, 0, 4), 0);
	eq_err(read_rc(w, 3, 2), -ENODATA);
	eq_err(read_rc(w, 4, 4), -ENODATA);
	w->extents[1].file = CK_NO_FILE;
	eq_err(read_rc(w, 0, 4), 0);
	eq_err(read_rc(w, 4, 1), -ENODATA);
	w->extents[1] = (struct ck_extent){ .file = 1, .err = EIO };
	eq_err(read_rc(w, 0, 4), 0);
	eq_err(read_rc(w, 4, 1), -EIO);
	w->extents[1] = (struct ck_extent){ .file = 1, .pos = FILE_BYTES - 3 };
	eq_err(read_rc(w, 0, 4), 0);
	eq_err(read_rc(w, 4, 3), 0);
	eq_err(read_rc(w, 4, 4), -EIO); /* one byte behind the end */
	w->extents[1].pos = UINT64_MAX - 2;
	eq_err(read_rc(w, 4, 4), -EIO);
	w->extents[1].pos = UINT64_MAX;
	eq_err(read_rc(w, 5, 1), -EIO);
	world_free(w);
}

static void test_bad_tensor(void)
{
	struct world *w = two_rows();

	w->layout.err = EIO;
	eq_err(read_rc(w, 0, 1), -EIO);
	w->layout.err = 0;
	w->layout.dtype = CK_DTYPE_UNKNOWN;
	eq_err(read_rc(w, 0, 1), -EBADMSG);
	w->layout.dtype = dtype_of("uint8");
	w->layout.ndim = CK_MAX_DIMS + 1;
	eq_err(read_rc(w, 0, 1), -EBADMSG);
	world_free(w);
}

/* Strides that leave the number range must not come back inside the file. */
static void test_overflow(void)
{
	struct world *w = two_rows();
	const int64_t box[] = { 0, 0, 2, 4 };

	memcpy(w->b.box, box, sizeof(box));
	w->b.n = w->layout.n = 1;
	w->b.strides[0] = UINT64_MAX;
	eq_err(read_rc(w, 0, 8), -EIO);
	w->b.strides[0] = UINT64_C(1) << 63;
	eq_err(read_rc(w, 0, 8), -EIO);
	eq_err(read_rc(w, 4, 1), -EIO);
	w->b.strides[1] = UINT64_C(1) << 62;
	w->b.strides[0] = 1;
	eq_err(read_rc(w, 0, 4), -EIO);
	w->b.shape[1] = 5;
	w->b.box[3] = 5; /* 4 * 2^62 would be 0 again */
	w->slice.size = w->begins[1] = 10;
	eq_err(read_rc(w, 4, 1), -EIO);
	eq_err(read_rc(w, 9, 1), -EIO);
	eq_err(read_rc(w, 5, 1), 0);
	world_free(w);
}

static void test_stale(void)
{
	struct world *w = two_rows();
	char path[64];

	snprintf(path, sizeof(path), "%s/f1", dir_path);
	eq_err(read_rc(w, 0, 8), 0);
	ok(truncate(path, 2) == 0);
	eq_err(read_rc(w, 0, 4), 0);
	eq_err(read_rc(w, 0, 8), -ESTALE);
	unlink(path);
	eq_err(read_rc(w, 4, 4), -ESTALE);
	write_file(1, FILE_BYTES); /* another file, same bytes */
	eq_err(read_rc(w, 4, 4), -ESTALE);
	eq_err(read_rc(w, 0, 4), 0);
	world_free(w);
}

/* A file cut while it is being copied from: an error, not a death. */
static void test_sigbus(void)
{
	static uint8_t to[1 << 16];
	struct ck_plan_op copies[] = {
		{ .run = 4096, .nloops = 0 },
		{ .dst = 4096, .run = 4, .nloops = 1 },
	};
	struct ck_loop loops[] = { { 1024, 4, 16 } };
	struct ck_plan plan = {
		.copies = copies, .loops = loops, .ncopies = 2, .nloops = 1
	};
	const uint8_t *from[2];
	struct ck_gather g = { &plan, from, to };
	int fd = openat(dir, "cut", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	uint8_t *map;

	ok(fd >= 0 && ftruncate(fd, 1 << 16) == 0);
	map = mmap(NULL, 1 << 16, PROT_READ, MAP_SHARED, fd, 0);
	if (!ok(map != MAP_FAILED))
		return;
	from[0] = map;
	from[1] = map + 4096;
	eq_err(ck_sigbus_guard(ck_gather_run, &g), 0);
	ok(ftruncate(fd, 4096) == 0);
	eq_err(ck_sigbus_guard(ck_gather_run, &g), -EIO);
	eq_err(ck_sigbus_guard(ck_gather_run, &g), -EIO);
	ok(ftruncate(fd, 1 << 16) == 0);
	eq_err(ck_sigbus_guard(ck_gather_run, &g), 0);
	munmap(map, 1 << 16);
	close(fd);
}

/* --- large ----------------------------------------------------------- */

/* A tensor of rows x columns float32 in f4, cut in n on dimension d. */
static struct world *big(uint64_t rows, uint64_t columns, unsigned d,
			 unsigned n)
{
	struct world *w = world_make();
	struct boxes *b = &w->b;

	b->ndim = 2;
	b->item = 4;
	b->n = n;
	b->shape[0] = rows;
	b->shape[1] = columns;
	for (unsigned i = 0; i < n; i++) {
		int64_t *box = boxes_at(b, i);

		box[0] = box[1] = 0;
		box[2] = (int64_t)rows;
		box[3] = (int64_t)columns;
		box[2 + d] /= n;
		box[d] = i * box[2 + d];
		b->strides[2 * i] = (uint64_t)box[3] * 4;
		b->strides[2 * i + 1] = 4;
		b->order[i] = i;
	}
	make_world(w, dtype_of("float32"));
	for (unsigned i = 0; i < n; i++) {
		w->extents[i].file = BIG;
		w->extents[i].pos = rows * columns * 4 / n * i;
	}
	add_part(w, (struct world_part){ .is_box = true,
					 .len = rows * columns * 4 });
	return w;
}

/* Byte vpos of big(). */
static uint8_t big_byte(struct world *w, uint64_t vpos)
{
	uint64_t columns = w->b.shape[1];
	const uint64_t index[BOXES_DIMS] = { vpos / 4 / columns,
					     vpos / 4 % columns };
	uint64_t src = 0;
	int64_t chunk = boxes_find(&w->b, index, &src);

	return content[BIG][w->extents[chunk].pos + src + vpos % 4];
}

/* Reads and compares: the ends and some bytes between. */
static bool is_big(struct world *w, uint64_t vpos, uint64_t len)
{
	int rc;
	uint8_t *bytes = world_read(w, vpos, len, &rc);
	bool right = bytes != NULL;

	for (size_t k = 0; k < len && right; k += k + 97 < len ? 97 : 1)
		right = bytes[k] == big_byte(w, vpos + k);
	free(bytes);
	return right;
}

static void test_big(void)
{
	struct world *w = big(64, 8192, 0, 8);

	ok(is_big(w, 0, 1 << 20));
	eq_err(read_rc(w, 1, 2 << 20), -EINVAL); /* beyond the end */
	for (unsigned i = 0; i < 8; i++) /* in another order than the file */
		w->extents[i].pos = 262144 * (7 - i);
	ok(is_big(w, 0, 1 << 20));
	ok(is_big(w, 1001, 1 << 20));
	ok(is_big(w, 123457, 5));
	world_free(w);
	w = big(64, 8192, 1, 8); /* rows of 4 KiB */
	ok(is_big(w, 4097, 1 << 20));
	ok(is_big(w, 0, 2 << 20));
	world_free(w);
	w = big(256, 2048, 1, 8); /* rows of 1 KiB */
	ok(is_big(w, 0, 1 << 20));
	ok(is_big(w, 77777, 999999));
	ok(is_big(w, 77777, 3000));
	world_free(w);
}

/* Read calls of this process so far. */
static uint64_t reads_made(void)
{
	FILE *f = fopen("/proc/self/io", "re");
	char line[64];
	uint64_t n = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "syscr: %" SCNu64, &n) == 1)
			break;
	if (f)
		fclose(f);
	return n;
}

/* Whether a read is right and takes no more than so many calls. */
static bool is_cheap(struct world *w, uint64_t vpos, uint64_t len,
		     uint64_t most)
{
	uint64_t before = reads_made(), made;

	if (!is_big(w, vpos, len))
		return false;
	made = reads_made() - before;
	printf("# %" PRIu64 " reads\n", made);
	return made <= most;
}

/* Where nothing is mapped, what is short lies close together, or is long, is
 * not read by a call for each run. */
static void test_unmapped(void)
{
	struct ck_files *mapped = files;
	struct ck_file file;
	struct world *w;

	files = unmapped;
	if (ok(ck_files_get(files, BIG, &file) == 0)) {
		ok(file.map == NULL && file.size == BIG_BYTES);
		ck_files_put(files, &file);
	}
	test_big();
	w = big(8192, 128, 1, 8); /* rows of 64 bytes */
	ok(is_cheap(w, 0, 1 << 20, 40));
	ok(is_cheap(w, 12345, 1 << 20, 40));
	world_free(w);
	w = big(1024, 1024, 0, 1);
	w->b.strides[0] = 4;
	w->b.strides[1] = 4096; /* transposed: rows of 4 bytes */
	ok(is_cheap(w, 0, 1 << 20, 40));
	ok(is_cheap(w, 4097, 1 << 20, 60));
	ok(is_big(w, 7, 5));
	world_free(w);
	w = big(16, 1024, 0, 1);
	w->b.strides[0] = 200000; /* far apart */
	ok(is_cheap(w, 0, 1 << 16, 32));
	ok(is_big(w, 4000, 8200));
	world_free(w);
	files = mapped;
}

/* A header between any two boxes. */
static void test_many_parts(void)
{
	enum { N = 1500 };

	static const char text[N + 1] = "abc";
	static uint64_t off[2] = { 1, 1 }, size[2] = { 1, 2 };
	struct world *w = two_rows();
	static uint8_t want[3 * N];

	w->slice.size = w->slice.nparts = 0;
	for (unsigned i = 0; i < N; i++) {
		add_part(w,
			 (struct world_part){ .literal = text + i, .len = 1 });
		add_part(w, (struct world_part){ .is_box = true,
						 .len = 2,
						 .off = off,
						 .size = size });
		want[3 * i] = (uint8_t)text[i];
		memcpy(want + 3 * i + 1, content[0] + 1, 2);
	}
	w->extents[1].file = 0;
	ok(is_right_read(w, want, 0, 3 * N));
	ok(is_right_read(w, want + 1001, 1001, 301));
	world_free(w);
}

/* --- threads ------------------------------------------------------------- */

static void *read_random(void *arg)
{
	uint64_t random = *(uint64_t *)arg;
	struct world *w;
	uintptr_t wrong = 0;

	for (unsigned round = 0; round < 300; round++) {
		unsigned n = 1U << boxes_below(&random, 4);

		w = big(256, 2048, boxes_one_in(&random, 2), n);
		for (unsigned i = 0; i < 4; i++) {
			uint64_t vpos = boxes_below(&random, (2 << 20) - 5000);

			wrong += !is_big(w, vpos, 5000);
		}
		world_free(w);
	}
	return (void *)wrong; /* NOLINT */
}

static void test_threads(void)
{
	pthread_t threads[4];
	uint64_t seeds[4];

	for (unsigned i = 0; i < 4; i++) {
		seeds[i] = i + 5;
		if (pthread_create(&threads[i], NULL, read_random, &seeds[i]))
			abort();
	}
	for (unsigned i = 0; i < 4; i++) {
		void *wrong;

		pthread_join(threads[i], &wrong);
		ok(wrong == NULL);
	}
}

/* --- speed: printed, never judged ---------------------------------------- */

static void report_speed(const char *what, struct world *w)
{
	enum { ROUNDS = 400 };
	struct timespec a, b;
	double seconds;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (unsigned i = 0; i < ROUNDS; i++)
		if (read_rc(w, (uint64_t)(i % 3) << 20, 1 << 20))
			return;
	clock_gettime(CLOCK_MONOTONIC, &b);
	seconds = (double)(b.tv_sec - a.tv_sec) +
		  (double)(b.tv_nsec - a.tv_nsec) / 1e9;
	printf("# %s: %.1f us, %.2f GB/s\n", what, seconds * 1e6 / ROUNDS,
	       ROUNDS * 1048576. / 1e9 / seconds);
}

static void test_speed(void)
{
	struct world *w = big(512, 2048, 0, 8);

	report_speed("addresses, 1 MiB", w);
	world_free(w);
	w = big(512, 2048, 1, 8);
	report_speed("gather, rows of 1 KiB", w);
	world_free(w);
	w = big(8192, 128, 1, 8);
	report_speed("gather, rows of 64 B", w);
	world_free(w);
	w = big(1024, 1024, 0, 1);
	w->b.strides[0] = 4;
	w->b.strides[1] = 4096;
	report_speed("gather, transposed", w);
	world_free(w);
	w = big(1024, 1024, 0, 1);
	w->layout.change = w->extents[0].change = CK_CHANGE_SWAP;
	report_speed("gather, swapped", w);
	world_free(w);
}

int main(void)
{
	if (!world_begin())
		return 2;
	test_lost_box();
	test_bad_tensor();
	test_overflow();
	test_big();
	test_unmapped();
	test_many_parts();
	if (!TAP_THREADS) /* it blocks SIGBUS once its handler was left */
		test_sigbus();
	test_threads();
	if (!TAP_SLOW)
		test_speed();
	test_stale();
	return world_end();
}
