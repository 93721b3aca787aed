/* SPDX-License-Identifier: MIT */
/*
 * files_ctime: changes of the ctime of data files whose size and mtime stay: each change is
 * counted once, by whichever thread, and the head of the file is compared then.
 */
#include "ctime.h"
#include "source/head.h"
#include "tap.h"

#include <pthread.h>

enum { THREADS = 8, TOUCHES = 40 };

static int dir = -1; /* of the test, removed at the end */
static char dir_path[] = "/tmp/ckptfs-files_ctime-XXXXXX";

static void put_file(const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0600);

	if (fd < 0 || ck_write_full(fd, text, strlen(text)))
		abort();
	close(fd);
}

static uint32_t add(struct ck_files *f, const char *path)
{
	uint32_t number = UINT32_MAX;

	ok(ck_files_add(f, ck_str_from(path), &number) == 0);
	return number;
}

static int get_rc(struct ck_files *f, uint32_t number)
{
	struct ck_file file;
	int rc = ck_files_get(f, number, &file);

	if (!rc)
		ck_files_put(f, &file);
	return rc;
}

static struct ck_files *watching(void)
{
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, 16);

	ck_files_watch_ctime(f);
	return f;
}

static void test_touched(void)
{
	struct ck_files *f = watching();
	struct ck_files *blind = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	struct ck_file file;
	uint32_t a, b, other;
	bool transient;

	put_file("x", "first");
	put_file("y", "first");
	a = add(f, "x");
	b = add(f, "y");
	other = add(blind, "x");
	eq_err(get_rc(f, a), 0);
	eq_err(ck_files_check(f, b, NULL), 0);
	eq_u64(ck_files_touches(f), 0);
	ctime_chmod(dir, "x", 0640);
	eq_err(ck_files_check(f, a, NULL), 0);
	eq_err(get_rc(f, a), 0);
	eq_u64(ck_files_touched(f, a), 1);
	eq_u64(ck_files_touched(f, b), 0);
	ctime_write(dir, "y", "other", 5, 0);
	ok(ck_files_get(f, b, &file) == 0);
	eq_u64(file.touched, 2);
	ctime_chmod(dir, "y", 0640);
	eq_err(ck_files_revalidate(f, &file, &transient), 0);
	eq_u64(ck_files_touched(f, b), 3);
	eq_u64(file.touched, 2);
	ck_files_put(f, &file);
	ctime_chmod(dir, "x", 0600);
	ck_files_forget_ctime(f, a);
	eq_err(get_rc(f, a), 0);
	eq_u64(ck_files_touched(f, a), 1);
	ctime_chmod(dir, "x", 0640);
	eq_err(get_rc(f, a), 0);
	eq_u64(ck_files_touched(f, a), 4);
	eq_u64(ck_files_touches(f), 4);
	eq_err(get_rc(blind, other), 0);
	eq_u64(ck_files_touches(blind), 0);
	ck_files_free(blind);
	ck_files_free(f);
}

struct looker {
	pthread_t thread;
	struct ck_files *files;
	bool *stop; /* atomic */
	unsigned failed;
};

static void *look_often(void *arg)
{
	struct looker *l = arg;

	while (!__atomic_load_n(l->stop, __ATOMIC_RELAXED))
		l->failed += get_rc(l->files, 0) ||
			     ck_files_check(l->files, 0, NULL);
	return NULL;
}

/* Each change counts once, and every later look at the file returns its number. */
static void test_touched_by_threads(void)
{
	struct ck_files *f = watching();
	struct looker lookers[THREADS];
	bool stop = false;
	unsigned wrong = 0;

	put_file("x", "first");
	(void)add(f, "x");
	for (unsigned i = 0; i < THREADS; i++) {
		lookers[i] = (struct looker){ .files = f, .stop = &stop };
		if (pthread_create(&lookers[i].thread, NULL, look_often,
				   &lookers[i]))
			abort();
	}
	for (unsigned i = 1; i <= TOUCHES; i++) {
		ctime_chmod(dir, "x", i % 2 ? 0640 : 0600);
		wrong += get_rc(f, 0) || ck_files_touched(f, 0) != i;
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(lookers[i].thread, NULL);
		wrong += lookers[i].failed;
	}
	eq_u64(wrong, 0);
	eq_u64(ck_files_touches(f), TOUCHES);
	ck_files_free(f);
}

/* The first and the last two bytes are the head. */
static void read_head(struct ck_files *f, uint32_t number, bool keep)
{
	struct ck_file file;
	char bytes[2];

	ok(ck_files_get(f, number, &file) == 0);
	ok(ck_files_head_begin(f, &file) == 0);
	ok(ck_files_read(f, &file, bytes, 2, 0, 2) == 0);
	ok(ck_files_head_end(f, &file, keep) == 0);
	ok(ck_files_head_begin(f, &file) == 0);
	ok(ck_files_read(f, &file, bytes, 2, 8, 10) == 0);
	ok(ck_files_head_end(f, &file, keep) == 0);
	ck_files_put(f, &file);
}

static void test_head(void)
{
	static const struct {
		off_t at;
		int rc;
	} bytes[] = { { 4, 0 }, { 1, -ESTALE }, { 9, -ESTALE } };

	for (size_t i = 0; i < CK_ARRAY_SIZE(bytes); i++) {
		struct ck_files *f = watching();
		bool transient = true;
		uint32_t kept, free;

		put_file("x", "0123456789");
		put_file("y", "0123456789");
		kept = add(f, "x");
		free = add(f, "y");
		read_head(f, kept, true);
		read_head(f, free, false);
		ctime_write(dir, "x", "!", 1, bytes[i].at);
		ctime_write(dir, "y", "!", 1, bytes[i].at);
		eq_err(ck_files_check(f, kept, &transient), bytes[i].rc);
		ok(!transient);
		eq_err(get_rc(f, kept), bytes[i].rc);
		eq_err(ck_files_check(f, kept, NULL), bytes[i].rc);
		eq_err(get_rc(f, free), 0);
		ctime_write(dir, "x", "0123456789", 10, 0);
		eq_err(ck_files_check(f, kept, NULL), 0);
		eq_err(get_rc(f, kept), 0);
		ck_files_free(f);
	}
}

int main(void)
{
	char command[64];

	if (!mkdtemp(dir_path))
		return 2;
	dir = open(dir_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	test_touched();
	test_touched_by_threads();
	test_head();
	close(dir);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir_path);
	return system(command) ? 2 : tap_done();
}
