/* SPDX-License-Identifier: MIT */
/*
 * A data file that is written over while a read copies from it: its bytes may be of both, so
 * that the read is ESTALE, and never of anything else.
 *
 *	read_replaced_test DIRECTORY		a checkpoint of one shard, __0_0.distcp
 */
#include "copy_case.h"
#include "ctime.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static const char shard[] = "__0_0.distcp";
static int source = -1; /* the directory */
static bool armed, cut, restores;
static uint8_t other[1 << 20];

static void write_over(void)
{
	int fd = openat(source, shard, O_WRONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || (size_t)st.st_size > sizeof(other))
		abort();
	if (restores)
		ctime_write(source, shard, other, (size_t)st.st_size, 0);
	else if ((cut && ftruncate(fd, 100)) ||
		 (!cut && ck_write_full(fd, other, (size_t)st.st_size)))
		abort();
	close(fd);
}

int __real_ck_sigbus_guard(void (*copy)(void *arg), void *arg);
int __wrap_ck_sigbus_guard(void (*copy)(void *arg), void *arg);

int __wrap_ck_sigbus_guard(void (*copy)(void *arg), void *arg)
{
	if (armed)
		write_over();
	armed = false;
	return __real_ck_sigbus_guard(copy, arg);
}

/* The same, and its times are restored: no byte of it is taken for the tensor's. */
static void test_restored(const char *from)
{
	struct ck_checkpoint *cp;
	struct stat st;
	uint8_t *bytes;
	int rc;

	shell("rm -rf %s && cp -r %s %s", dir, from, dir);
	source = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	st = ctime_stat(source, shard);
	cp = open_copy();
	bytes = calloc(1, ck_tensor_views[1]->size(cp->catalog, 0) + 1);
	eq_err(read_case(cp, 0, NULL, bytes), 0);
	armed = true;
	restores = true;
	rc = read_case(cp, 0, NULL, bytes);
	ok(!armed);
	ok(ctime_stat(source, shard).st_mtim.tv_nsec == st.st_mtim.tv_nsec);
	eq_err(rc, -EBADMSG);
	eq_err(read_case(cp, 0, NULL, bytes), -EBADMSG);
	free(bytes);
	ck_checkpoint_close(cp);
	close(source);
}

static void test(const char *from, bool cuts)
{
	const struct timespec times[2] = { { 1000, 5 }, { 1000, 5 } };
	struct ck_checkpoint *cp;
	uint8_t *bytes;
	uint64_t len;
	int rc;

	shell("rm -rf %s && cp -r %s %s", dir, from, dir);
	source = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (source < 0 || utimensat(source, shard, times, 0))
		abort();
	cp = open_copy();
	len = ck_tensor_views[1]->size(cp->catalog, 0);
	bytes = calloc(1, len + 1);
	eq_err(read_case(cp, 0, NULL, bytes), 0);
	armed = true;
	cut = cuts;
	rc = read_case(cp, 0, NULL, bytes);
	ok(!armed);
	eq_err(rc, -ESTALE);
	eq_err(read_case(cp, 0, NULL, bytes), -ESTALE);
	free(bytes);
	ck_checkpoint_close(cp);
	close(source);
}

int main(int argc, char **argv)
{
	if (argc != 2 || !mkdtemp(dir) || ck_sigbus_install())
		return 2;
	memset(other, 0xa5, sizeof(other));
	test(argv[1], false);
	test(argv[1], true);
	test_restored(argv[1]);
	shell("rm -rf %s", dir);
	return tap_done();
}
