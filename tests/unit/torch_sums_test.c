/* SPDX-License-Identifier: MIT */
/*
 * torch_sums: the CRC-32 of records of files of torch.save: which record an item is in, also of
 * files and records that are too large for a test to write.
 */
#include "format/torch/entries.h"
#include "tap.h"

#include <fcntl.h>
#include <unistd.h>

#define GIB (UINT64_C(1) << 30)

static struct ck_torch_state *own;

/* As the reader of zips has them: sorted by name. */
static struct ck_zip_record first[] = {
	{ .name = { "data.pkl", 8 }, .ipos = 64, .len = 100, .crc = 1 },
	{ .name = { "data/0", 6 }, .ipos = 256, .len = 8, .crc = 2 },
	{ .name = { "data/1", 6 }, .ipos = 512, .len = 8, .crc = 0 },
	{ .name = { "data/10", 7 },
	  .ipos = 12 * GIB,
	  .len = 5 * GIB,
	  .crc = 3 },
	{ .name = { "data/2", 6 }, .ipos = 1024, .len = 0, .crc = 4 },
	{ .name = { "data/3", 6 }, .ipos = 2 * GIB, .len = 4 * GIB, .crc = 5 },
	{ .name = { "data/4", 6 },
	  .ipos = 7 * GIB,
	  .len = UINT32_MAX,
	  .crc = 6 },
	{ .name = { "version", 7 }, .ipos = 20 * GIB, .len = 2, .crc = 7 },
};

static struct ck_zip_record third[] = {
	{ .name = { "data.pkl", 8 }, .ipos = 64, .len = 100, .crc = 8 },
};

static void take(struct ck_torch_load *l, uint32_t number,
		 struct ck_zip_record *records, uint32_t n)
{
	static struct ck_torch_file f; /* large */

	f.number = number;
	f.zip = (struct ck_zip){ .records = records, .nrecords = n };
	if (ck_torch_sums_take(l, &f))
		abort();
}

/* Files 2 and 0, in this order; 1 has none. */
static void make(struct ck_files *files)
{
	static struct ck_checkpoint cp; /* large, as are the others */
	static struct ck_diag d;
	static struct ck_torch_load l = { .cp = &cp, .d = &d };

	cp.files = files;
	take(&l, 2, third, CK_ARRAY_SIZE(third));
	take(&l, 0, first, CK_ARRAY_SIZE(first));
	if (ck_torch_state_add(&l, &own))
		abort();
	ck_torch_rows_fini(&l);
}

static void is_in(uint32_t file, uint64_t fpos, uint32_t crc, uint64_t at,
		  uint64_t len)
{
	const struct ck_item item = { .file = file, .fpos = fpos, .length = 1 };
	struct ck_sum *sum = ck_torch_state_sum(own, &item);

	ok(sum && sum->crc == crc && sum->fpos == at && sum->len == len &&
	   sum->file == file && !sum->known);
	/* What is found is remembered for all items of the record. */
	ok(sum && sum == ck_torch_state_sum(own, &item));
}

static void is_in_none(uint32_t file, uint64_t fpos)
{
	const struct ck_item item = { .file = file, .fpos = fpos, .length = 1 };

	ok(!ck_torch_state_sum(own, &item));
}

static void test_found(void)
{
	is_in(0, 64, 1, 64, 100);
	is_in(0, 163, 1, 64, 100);
	is_in(0, 256, 2, 256, 8);
	is_in(0, 263, 2, 256, 8);
	is_in(0, 1024, 4, 1024, 0);
	is_in(2, 100, 8, 64, 100);
}

static void test_long_records(void)
{
	is_in(0, 2 * GIB, 5, 2 * GIB, 4 * GIB);
	is_in(0, 6 * GIB - 1, 5, 2 * GIB, 4 * GIB);
	is_in(0, 7 * GIB + UINT32_MAX - 1, 6, 7 * GIB, UINT32_MAX);
	is_in(0, 17 * GIB - 1, 3, 12 * GIB, 5 * GIB);
}

static void test_in_none(void)
{
	is_in_none(0, 0);
	is_in_none(0, 63);
	is_in_none(0, 164);
	is_in_none(0, 264);
	is_in_none(0, 512); /* torch left it out */
	is_in_none(0, 1025);
	is_in_none(0, 6 * GIB);
	is_in_none(0, 7 * GIB + UINT32_MAX);
	is_in_none(0, 17 * GIB);
	is_in_none(0, 20 * GIB); /* no data */
	is_in_none(1, 64);
	is_in_none(2, 63);
	is_in_none(3, 64);
	is_in_none(CK_NO_FILE, 64);
}

int main(void)
{
	int fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct ck_files *files = ck_files_make(fd, CK_BENEATH_NO_SYMLINKS, 4);
	uint32_t number;

	for (uint32_t i = 0; i < 3; i++) {
		const char name[] = { (char)('a' + (int)i), '\0' };

		if (!files || ck_files_add(files, ck_str_from(name), &number))
			abort();
	}
	make(files);
	test_found();
	test_long_records();
	test_in_none();
	ck_torch_state_free(own);
	ck_files_free(files);
	close(fd);
	return tap_done();
}
