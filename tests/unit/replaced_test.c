/* SPDX-License-Identifier: MIT */
/*
 * replaced: a data file is overwritten between a stat of it and a read. Mixed old and new
 * content must not be reported as damage of the checkpoint; the error is ESTALE.
 *
 *	replaced_test DIRECTORY		a checkpoint of one shard, __0_0.distcp
 */
#include "ckptfs/format.h"
#include "ctime.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 1 << 20, READS = 6 };

static const char *const names[] = { ".metadata", "__0_0.distcp" };
static uint8_t content[2][ROOM], other[ROOM];
static size_t len[2];
static char dir[] = "/tmp/ckptfs-replaced-XXXXXX";
static int dirfd_;

/* --- the overwritten file ------------------------------------------------------------- */

enum {
	NEVER,
	ALL,
	CUT,
	RESTORED, /* all, and its times are restored */
};

static int how;		/* how the file is overwritten */
static unsigned before; /* number of reads before that */

static void write_over(void)
{
	int fd = openat(dirfd_, names[1], O_WRONLY | O_CLOEXEC);

	if (how == RESTORED)
		ctime_write(dirfd_, names[1], other, len[1], 0);
	if (fd < 0 || (how == CUT && ftruncate(fd, 100)) ||
	    (how == ALL && ck_write_full(fd, other, len[1])))
		abort();
	close(fd);
	how = NEVER;
}

int __real_ck_files_read(struct ck_files *f, const struct ck_file *file,
			 void *to, size_t n, uint64_t fpos, uint64_t end);
int __wrap_ck_files_read(struct ck_files *f, const struct ck_file *file,
			 void *to, size_t n, uint64_t fpos, uint64_t end);

int __wrap_ck_files_read(struct ck_files *f, const struct ck_file *file,
			 void *to, size_t n, uint64_t fpos, uint64_t end)
{
	if (how != NEVER && before == 0)
		write_over();
	else if (how != NEVER)
		before--;
	return __real_ck_files_read(f, file, to, n, fpos, end);
}

/* --- a checkpoint --------------------------------------------------------------------- */

static void load(const char *from, unsigned i)
{
	char path[512];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", from, names[i]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, content[i], ROOM);
	if (n <= 0 || n == ROOM)
		abort();
	len[i] = (size_t)n;
	close(fd);
}

/* Restores the content, with a unique mtime. */
static void restore(void)
{
	const struct timespec times[2] = { { 1000, 5 }, { 1000, 5 } };

	for (unsigned i = 0; i < 2; i++) {
		int fd = openat(dirfd_, names[i],
				O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		if (fd < 0 || ck_write_full(fd, content[i], len[i]) ||
		    futimens(fd, times))
			abort();
		close(fd);
	}
}

static struct ck_checkpoint *begin(void)
{
	struct ck_format_options options = { .shardlinks =
						     CK_BENEATH_NO_SYMLINKS };
	struct ck_checkpoint *cp;
	struct ck_diag d = { 0 };

	restore();
	if (ck_checkpoint_open(dir, &options, &cp, &d))
		abort();
	return cp;
}

static void end(struct ck_checkpoint *cp)
{
	how = NEVER;
	ck_checkpoint_close(cp);
}

static void arm(int what, unsigned read)
{
	how = what;
	before = read;
}

static bool is_over(void)
{
	return how == NEVER;
}

/* --- results -------------------------------------------------------------------------- */

/* Returns 0 or the error of the first box of the first tensor. */
static int locate(struct ck_checkpoint *cp)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	const struct ck_layout *l;
	int err;

	if (ck_layout_get(cp, c, 0, NULL, &l))
		abort();
	err = l->extents[0].err;
	ok(!l->extents[0].transient);
	ck_layout_put(cp, l);
	return -err;
}

static int object(struct ck_checkpoint *cp)
{
	struct ck_buf json = { 0 };
	struct ck_diag d = { 0 };
	int rc = ck_object_json(cp, 0, &json, &d);

	eq_err(-d.err, rc);
	ok(!d.transient);
	ck_buf_fini(&json);
	return rc;
}

/* The file is overwritten before each of the reads in turn. The result is ESTALE, and the
 * restored file can be read. */
static void test_whole(int (*look)(struct ck_checkpoint *cp), int what)
{
	unsigned times = 0;

	for (unsigned read = 0; read < READS; read++) {
		struct ck_checkpoint *cp = begin();
		int rc;

		arm(what, read);
		rc = look(cp);
		if (is_over()) {
			times++;
			/* All data may have been read before the change. */
			ok(rc == -ESTALE || (read > 0 && rc == 0));
			restore();
			eq_err(look(cp), 0);
		}
		end(cp);
	}
	ok(times > 0);
}

/* Only the ctime reveals the change. The read returns old bytes or an error of the archive,
 * and the error is transient. */
static void test_restored(int (*look)(struct ck_checkpoint *cp))
{
	unsigned times = 0, errors = 0;

	for (unsigned read = 0; read < READS; read++) {
		struct ck_checkpoint *cp = begin();
		int rc;

		eq_err(look(cp), 0);
		ctime_chmod(dirfd_, names[1], 0640);
		(void)!ck_files_check(cp->files, 0, NULL);
		arm(RESTORED, read);
		rc = look(cp);
		if (is_over()) {
			times++;
			errors += rc != 0;
			ok(rc == 0 || rc == -EBADMSG || rc == -EIO ||
			   rc == -ENODATA);
			(void)!ck_files_check(cp->files, 0, NULL);
			ok(look(cp) != 0);
			ctime_wait(dirfd_, names[1]);
			restore();
			(void)!ck_files_check(cp->files, 0, NULL);
			eq_err(look(cp), 0);
		}
		end(cp);
	}
	ok(times > 0 && errors > 0);
}

/* A check reports ESTALE for the file, and no damage. */
static void test_check(int what)
{
	struct ck_check_options options = { .threads = 1, .full = true };

	for (unsigned read = 0; read < READS; read++) {
		struct ck_checkpoint *cp = begin();
		struct ck_findings found = { 0 };
		struct ck_diag d = { 0 };
		unsigned stale = 0;

		arm(what, read);
		eq_err(ck_checkpoint_check(cp, &options, &found, &d), 0);
		for (size_t i = 0; i < found.n; i++)
			stale += found.faults[i].err == ESTALE;
		ok(found.n > 0);
		eq_u64(stale, found.n);
		ck_findings_fini(&found);
		end(cp);
	}
}

/* --- replicas on other hosts ---------------------------------------------------------- */

static int read_elsewhere(struct ck_remote_reader *r, uint32_t file, void *to,
			  size_t n, uint64_t fpos)
{
	(void)r, (void)file;
	memcpy(to, content[1] + fpos, n);
	return 0;
}

static void test_copied(int (*look)(struct ck_checkpoint *cp), int what)
{
	struct ck_remote_reader reader = { read_elsewhere };

	for (unsigned read = 0; read < READS; read++) {
		struct ck_checkpoint *cp = begin();

		ck_files_set_copied(cp->files, 0);
		ck_files_set_reader(cp->files, &reader);
		arm(what, read);
		eq_err(look(cp), 0);
		end(cp);
	}
}

int main(int argc, char **argv)
{
	char command[128];

	if (argc != 2 || !mkdtemp(dir))
		return 2;
	dirfd_ = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < 2; i++)
		load(argv[1], i);
	memset(other, 0xa5, ROOM);
	for (int what = ALL; what <= CUT; what++) {
		test_whole(locate, what);
		test_whole(object, what);
		test_check(what);
		test_copied(locate, what);
		test_copied(object, what);
	}
	test_restored(locate);
	test_restored(object);
	close(dirfd_);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command) ? 2 : tap_done();
}
