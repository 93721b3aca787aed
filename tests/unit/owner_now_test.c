/* SPDX-License-Identifier: MIT */
/* owner_now: which READs are answered at once: small ones of what is in memory. */
#include "owner_case.h"

#include <errno.h>
#include <sys/mman.h>

enum { SMALL = 4096, WIDE = 128 << 10, SIZE = 1 << 20 };

static uint8_t content[SIZE], to[WIDE];
static uint32_t number;

static bool is_now(struct ck_copy_desc *list, size_t n)
{
	unsigned before = answered_now;

	memset(to, 0, sizeof(to));
	(void)move_by(owner, list, n);
	return answered_now > before;
}

static struct ck_copy_desc small(uint64_t fpos)
{
	return (struct ck_copy_desc){
		.file = number, .fpos = fpos, .run = SMALL, .to = to
	};
}

static void test_in_memory(void)
{
	struct ck_copy_desc m[] = { small(12345), small(SIZE - SMALL) };

	m[1].to = to + SMALL;
	ok(is_now(m, 2));
	eq_err(m[0].rc, 0);
	eq_mem(to, SMALL, content + 12345, SMALL);
	eq_mem(to + SMALL, SMALL, content + SIZE - SMALL, SMALL);
}

static void test_not_so(void)
{
	const struct ck_loop loop = { .count = 2, .dst = SMALL, .src = 8192 };
	struct ck_copy_desc m = small(0);

	m.run = WIDE;
	ok(!is_now(&m, 1));
	m = small(0);
	m.nloops = 1;
	m.loops = &loop;
	ok(!is_now(&m, 1));
	m = small(SIZE - SMALL + 1); /* behind its end */
	ok(!is_now(&m, 1));
	eq_err(m.rc, -EIO);
	m = small(0);
	m.file = number + 1;
	ok(!is_now(&m, 1));
	eq_err(m.rc, -ENODATA);
}

/* One that waits for a disk would hold up all others. */
static void test_on_disk(void)
{
	struct ck_copy_desc m = small(SIZE / 2);
	unsigned char there = 1;
	int fd = openat(dir, "f", O_RDONLY | O_CLOEXEC);
	char *map = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);

	/* Pages that are mapped stay. */
	ck_file_server_free(owner);
	owner = owner_begin(CK_BENEATH_NO_SYMLINKS);
	number = number_of(owner, "f");
	m = small(0);
	ok(is_now(&m, 1));
	m = small(SIZE / 2);
	if (fsync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) ||
	    mincore(map + SIZE / 2, 1, &there) || there & 1) {
		puts("# not tried: the filesystem is in memory");
	} else {
		struct ck_local_backend *host = &owner->host;
		struct ck_copy_batch batch = { .list = &m, .n = 1 };

		ok(!ck_local_backend_try(host, &batch));
	}
	munmap(map, SIZE);
	close(fd);
	ok(is_now(&m, 1)); /* it was read meanwhile */
	eq_mem(to, SMALL, content + SIZE / 2, SMALL);
}

/* Others are no reason to look whether there is memory. */
static void test_quick(void)
{
	struct ck_message m = { .head = { .type = CK_WIRE_READ } };

	ok(ck_file_server_is_quick(owner, &m, CK_OWNER_NOW_MOST));
	ok(!ck_file_server_is_quick(owner, &m, CK_OWNER_NOW_MOST + 1));
	m.head.type = CK_WIRE_STAT;
	ok(!ck_file_server_is_quick(owner, &m, 1));
}

static void test_elsewhere(void)
{
	struct ck_copy_desc m = small(0);

	owner->quick = false;
	ok(!is_now(&m, 1));
	eq_mem(to, SMALL, content, SMALL);
	owner->quick = true;
}

static void test_changed(void)
{
	struct ck_copy_desc m = small(0);

	put_file("f", content, SIZE - 1);
	ok(!is_now(&m, 1));
	eq_err(m.rc, -ESTALE);
}

int main(void)
{
	uint64_t random = 77;

	if (!case_begin())
		return 2;
	for (size_t i = 0; i < SIZE; i++)
		content[i] = (uint8_t)tap_random(&random);
	put_file("f", content, SIZE);
	number = number_of(owner, "f");
	if (!owner->quick) {
		puts("# not tried: /tmp is on a filesystem that may be elsewhere");
		ok(!is_now((struct ck_copy_desc[]){ small(0) }, 1));
		return case_end();
	}
	test_in_memory();
	test_not_so();
	test_on_disk();
	test_quick();
	test_elsewhere();
	test_changed();
	return case_end();
}
