/* SPDX-License-Identifier: MIT */
/*
 * commit_order: a commit makes its files durable and names them in the order of commit.c,
 * for one tensor and for several together. The test wraps these calls and notes each as a
 * letter:
 *
 *	s	fsync of a new data file	n	linkat of a data file
 *	m	fsync of the new metadata	t	linkat of the new metadata
 *	d	fsync of the directory		r	rename of the metadata
 *
 *	commit_order_test SAMPLE
 */
#include "ckptfs/commit.h"
#include "scene.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int __real_fsync(int fd);
int __real_linkat(int from, const char *path, int to, const char *name,
		  int flags);
int __real_renameat(int from, const char *name, int to, const char *other);

static struct {
	char text[64];
	ino_t file[64]; /* of each letter */
	size_t n;
	ino_t metadata;
} noted;

static void note(char letter, ino_t file)
{
	if (noted.n == sizeof(noted.text) - 1)
		abort();
	noted.text[noted.n] = letter;
	noted.file[noted.n++] = file;
}

int __wrap_fsync(int fd);

int __wrap_fsync(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		abort();
	note(S_ISDIR(st.st_mode) ? 'd' : 's', st.st_ino);
	return __real_fsync(fd);
}

int __wrap_linkat(int from, const char *path, int to, const char *name,
		  int flags);

int __wrap_linkat(int from, const char *path, int to, const char *name,
		  int flags)
{
	bool is_metadata = strncmp(name, ".metadata", 9) == 0;
	int rc = __real_linkat(from, path, to, name, flags);
	struct stat st;

	if (rc || fstatat(to, name, &st, 0))
		abort();
	if (is_metadata)
		noted.metadata = st.st_ino;
	note(is_metadata ? 't' : 'n', st.st_ino);
	return rc;
}

int __wrap_renameat(int from, const char *name, int to, const char *other);

int __wrap_renameat(int from, const char *name, int to, const char *other)
{
	note('r', noted.metadata);
	return __real_renameat(from, name, to, other);
}

/* The letters so far. An fsync of the metadata is recognized by the name that this file
 * gets later. */
static const char *order(void)
{
	for (size_t i = 0; i < noted.n; i++)
		if (noted.text[i] == 's' && noted.file[i] == noted.metadata)
			noted.text[i] = 'm';
	return noted.text;
}

/* Each data file was synced before its name was linked. */
static bool names_follow_syncs(void)
{
	for (size_t i = 0; i < noted.n; i++) {
		size_t k = 0;

		if (noted.text[i] != 'n')
			continue;
		while (k < i &&
		       (noted.text[k] != 's' || noted.file[k] != noted.file[i]))
			k++;
		if (k == i)
			return false;
	}
	return true;
}

/* The rows of the tensor are of four ranks, so the commit makes four data files. */
static void test_one(void)
{
	struct ck_transaction *x;
	struct ck_stage *stage;
	struct ck_diag d = { 0 };
	struct scene s;

	scene_begin(&s);
	x = begun(s.w, false);
	stage = begin_in(x, &s, wk, ALL_BOXES);
	eq_err(put(stage, 0, nbytes(&s, wk), 5), 0);
	memset(&noted, 0, sizeof(noted));
	eq_err(ck_stage_commit(stage, &d), 0);
	eq_text(order(), "ssssnnnndmtrmd");
	ok(names_follow_syncs());
	ck_stage_close(stage);
	ck_transaction_end(x);
	expect(&s, wk, 5);
	scene_end(&s);
}

static void test_together(void)
{
	struct scene s;

	scene_begin(&s);
	stage_all_in(s.x, &s, wk, 6);
	stage_all_in(s.x, &s, wq, 7);
	memset(&noted, 0, sizeof(noted));
	commit_in(s.x, 2, 0);
	eq_text(order(), "ssssnnnndmtrmd");
	ok(names_follow_syncs());
	expect(&s, wk, 6);
	expect(&s, wq, 7);
	scene_end(&s);
}

int main(int argc, char **argv)
{
	if (!scenes_prepare(argc, argv))
		return 2;
	test_one();
	test_together();
	shell("rm -rf %s", dir);
	return tap_done();
}
