/* SPDX-License-Identifier: MIT */
/*
 * Data files of a checkpoint: which paths are refused, which changes give ESTALE, and the limit
 * of open files.
 */
#include "ckptfs/source.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static int dir = -1; /* scratch directory, removed at the end */
static char dir_path[] = "/tmp/ckptfs-files-XXXXXX";

static void put_file(const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0600);

	if (fd < 0 || ck_write_full(fd, text, strlen(text)))
		abort();
	close(fd);
}

/* Replaces a file by a new one. */
static void replace_file(const char *name, const char *text)
{
	put_file("new", text);
	if (renameat(dir, "new", dir, name))
		abort();
}

static void set_mtime(const char *name, const struct timespec *mtime)
{
	struct timespec times[2] = { *mtime, *mtime };

	if (utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW))
		abort();
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

static void check_read(struct ck_files *f, uint32_t number, const char *text)
{
	struct ck_file file;
	char bytes[64];

	if (!ok(ck_files_get(f, number, &file) == 0))
		return;
	eq_u64(file.number, number);
	eq_mem(file.map, file.size, text, strlen(text));
	ok(ck_pread_full(file.fd, bytes, strlen(text), 0) == 0);
	ck_files_put(f, &file);
}

static void test_plain(void)
{
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	uint32_t a, b, nested, empty;
	struct ck_file file;

	put_file("a", "first");
	put_file("b", "second");
	put_file("empty", "");
	ok(mkdirat(dir, "sub", 0700) == 0);
	put_file("sub/c", "third");
	a = add(f, "a");
	b = add(f, "b");
	nested = add(f, "sub/c");
	empty = add(f, "empty");
	eq_u64(add(f, "a"), a);
	eq_u64(ck_files_count(f), 4);
	ok(ck_files_info(f, a)->err == 0);
	eq_u64(ck_files_info(f, a)->size, 5);
	eq_u64(ck_files_info(f, a)->mode & 07777, 0600);
	ok(ck_str_is(ck_files_info(f, nested)->path, "sub/c"));
	check_read(f, a, "first");
	check_read(f, b, "second");
	check_read(f, nested, "third");
	check_read(f, a, "first");
	eq_err(ck_files_check(f, a, NULL), 0);
	eq_err(ck_files_check(f, nested, NULL), 0);
	ok(ck_files_get(f, empty, &file) == 0);
	ok(file.map == NULL && file.size == 0);
	ck_files_put(f, &file);
	ck_files_free(f);
}

static void check_refused(struct ck_files *f, struct ck_str path)
{
	uint32_t number;

	ok(ck_files_add(f, path, &number) == 0);
	if (!ok(ck_files_info(f, number)->err == ENODATA))
		printf("# %s: %d\n", ck_show(path),
		       ck_files_info(f, number)->err);
	eq_err(get_rc(f, number), -ENODATA);
	eq_err(ck_files_check(f, number, NULL), -ENODATA);
}

static void test_refused(void)
{
	static const char *const paths[] = {
		"missing",
		"missing/a",
		"a/b",
		"../a",
		"sub/../a",
		"/etc/passwd",
		"fifo",
		"sub",
		".",
		"..",
		"link",
		"link_out",
		"link_dir/c",
		"link_dangling",
		"",
		"/proc/self/maps",
		"link_absolute",
	};
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	struct ck_str nul = { "a\0b", 3 };
	char *longest = calloc(1, 5001);

	ok(mkfifoat(dir, "fifo", 0600) == 0);
	ok(symlinkat("a", dir, "link") == 0);
	ok(symlinkat("../../etc/passwd", dir, "link_out") == 0);
	ok(symlinkat("/etc/passwd", dir, "link_absolute") == 0);
	ok(symlinkat("sub", dir, "link_dir") == 0);
	ok(symlinkat("nowhere", dir, "link_dangling") == 0);
	for (size_t i = 0; i < CK_ARRAY_SIZE(paths); i++)
		check_refused(f, ck_str_from(paths[i]));
	check_refused(f, nul);
	if (longest) {
		memset(longest, 'x', 5000);
		check_refused(f, ck_str_from(longest));
		longest[300] = '\0';
		check_refused(f, ck_str_from(longest));
	}
	free(longest);
	ck_files_free(f);
}

/* Links are followed if the mount option allows it, and only below the directory. */
static void test_links(void)
{
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_SYMLINKS, 16);
	uint32_t link = add(f, "link");

	check_read(f, link, "first");
	check_read(f, add(f, "link_dir/c"), "third");
	check_read(f, add(f, "a"), "first");
	check_refused(f, CK_STR("link_out"));
	check_refused(f, CK_STR("link_absolute"));
	check_refused(f, CK_STR("link_dangling"));
	unlinkat(dir, "link", 0);
	ok(symlinkat("b", dir, "link") == 0);
	eq_err(ck_files_check(f, link, NULL), -ESTALE);
	eq_err(get_rc(f, link), -ESTALE);
	ck_files_free(f);
}

/* Changes of a file. Each makes reads return ESTALE. */
enum change {
	REPLACE,
	TRUNCATE,
	REWRITE,
	TOUCH,
	REMOVE,
	TO_LINK,
	TO_FIFO,
	TO_DIR,
	NCHANGES
};

static void change(enum change how, const char *name)
{
	static const struct timespec other = { 1000000, 7 };
	char path[64];

	switch (how) {
	case REPLACE: replace_file(name, "FIRST"); break;
	case TRUNCATE:
		snprintf(path, sizeof(path), "%s/%s", dir_path, name);
		ok(truncate(path, 2) == 0);
		break;
	case REWRITE:
		put_file(name, "FIRST");
		set_mtime(name, &other); /* a write may not change mtime */
		break;
	case TOUCH: set_mtime(name, &other); break;
	case REMOVE: unlinkat(dir, name, 0); break;
	case TO_LINK:
		ok(renameat(dir, name, dir, "moved") == 0);
		ok(symlinkat("moved", dir, name) == 0);
		break;
	case TO_FIFO:
		unlinkat(dir, name, 0);
		ok(mkfifoat(dir, name, 0600) == 0);
		break;
	case TO_DIR:
		unlinkat(dir, name, 0);
		ok(mkdirat(dir, name, 0700) == 0);
		break;
	case NCHANGES:
	default: abort();
	}
}

/* open_before: the cached descriptor must not be used after the change. */
static void test_change(enum change how, const char *name, bool open_before)
{
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	uint32_t number;

	printf("# change %d of %s, open before: %d\n", (int)how, name,
	       open_before);
	put_file(name, "first");
	number = add(f, name);
	if (open_before)
		eq_err(get_rc(f, number), 0);
	eq_err(ck_files_check(f, number, NULL), 0);
	change(how, name);
	eq_err(ck_files_check(f, number, NULL), -ESTALE);
	eq_err(get_rc(f, number), -ESTALE);
	eq_err(get_rc(f, number), -ESTALE);
	unlinkat(dir, name, 0);
	unlinkat(dir, name, AT_REMOVEDIR);
	eq_err(get_rc(f, number), -ESTALE);
	ck_files_free(f);
}

/* A parent directory is replaced by a link. */
static void test_parent_changed(void)
{
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	uint32_t number = add(f, "sub/c");

	check_read(f, number, "third");
	ok(renameat(dir, "sub", dir, "sub2") == 0);
	eq_err(ck_files_check(f, number, NULL), -ESTALE);
	ok(symlinkat("sub2", dir, "sub") == 0);
	eq_err(get_rc(f, number), -ESTALE);
	unlinkat(dir, "sub", 0);
	ok(renameat(dir, "sub2", dir, "sub") == 0);
	check_read(f, number, "third");
	ck_files_free(f);
}

static void test_no_permission(void)
{
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	uint32_t number;

	put_file("secret", "12345");
	ok(fchmodat(dir, "secret", 0, 0) == 0);
	if (geteuid() == 0 && seteuid(65534)) {
		ck_files_free(f);
		return;
	}
	number = add(f, "secret");
	eq_u64((uint64_t)ck_files_info(f, number)->err, 0);
	eq_u64((uint64_t)ck_files_trouble(f, number), EACCES);
	ok(ck_files_is_seen(f, number));
	eq_err(get_rc(f, number), -EACCES);
	if (geteuid() != getuid() && seteuid(getuid()))
		abort();
	eq_u64(ck_files_info(f, number)->size, 5);
	ok(fchmodat(dir, "secret", 0600, 0) == 0);
	eq_err(get_rc(f, number), 0); /* the error was transient */
	ck_files_free(f);
}

/* A directory without permissions, which is then opened to its owner. */
static void test_unseen(void)
{
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	bool transient = false;
	uint32_t number;

	ok(mkdirat(dir, "closed", 0700) == 0);
	put_file("closed/in", "12345");
	ok(fchmodat(dir, "closed", 0, 0) == 0);
	if (geteuid() == 0 && seteuid(65534)) {
		ck_files_free(f);
		return;
	}
	number = add(f, "closed/in");
	eq_u64((uint64_t)ck_files_info(f, number)->err, 0);
	eq_u64((uint64_t)ck_files_trouble(f, number), EACCES);
	ok(!ck_files_is_seen(f, number));
	eq_err(ck_files_check(f, number, &transient), -EACCES);
	ok(transient && !ck_files_is_seen(f, number));
	if (geteuid() != getuid() && seteuid(getuid()))
		abort();
	ok(fchmodat(dir, "closed", 0700, 0) == 0);
	eq_err(ck_files_check(f, number, &transient), 0);
	ok(ck_files_is_seen(f, number));
	eq_u64(ck_files_info(f, number)->size, 5);
	check_read(f, number, "12345");
	put_file("closed/in", "1");
	eq_err(ck_files_check(f, number, &transient), -ESTALE);
	ok(!transient);
	ck_files_free(f);
}

static unsigned count_open(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	if (!d)
		return 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

enum { MANY = 100, KEPT = 16, THREADS = 8, ROUNDS = 4000 };

struct reader {
	pthread_t thread;
	struct ck_files *files;
	uint64_t random;
	unsigned wrong;
};

/* Reads random files, up to three at a time. */
static void *read_many(void *arg)
{
	struct reader *r = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ck_file held[3];
		unsigned n = 0;

		for (; n < 3; n++) {
			uint64_t k = tap_random(&r->random) % MANY;
			char want[16];

			snprintf(want, sizeof(want), "content %u", (unsigned)k);
			if (ck_files_get(r->files, (uint32_t)k, &held[n]))
				break;
			if (held[n].size != strlen(want) ||
			    memcmp(held[n].map, want, strlen(want)) != 0)
				r->wrong++;
		}
		if (n < 3)
			r->wrong++;
		while (n)
			ck_files_put(r->files, &held[--n]);
	}
	return NULL;
}

static struct ck_files *make_many(void)
{
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, KEPT);

	for (unsigned i = 0; i < MANY; i++) {
		char name[16], text[16];

		snprintf(name, sizeof(name), "m%u", i);
		snprintf(text, sizeof(text), "content %u", i);
		put_file(name, text);
		eq_u64(add(f, name), i);
	}
	return f;
}

static void test_threads(void)
{
	struct reader readers[THREADS];
	struct ck_files *f = make_many();
	unsigned before = count_open();
	unsigned wrong = 0;
	uint64_t seed = tap_seed(4711);

	for (unsigned i = 0; i < THREADS; i++) {
		readers[i] = (struct reader){ .files = f,
					      .random = seed + i + 1 };
		if (pthread_create(&readers[i].thread, NULL, read_many,
				   &readers[i]))
			abort();
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(readers[i].thread, NULL);
		wrong += readers[i].wrong;
	}
	eq_u64(wrong, 0);
	eq_u64(count_open(), before + KEPT);
	ck_files_free(f);
	eq_u64(count_open(), before - 1);
}

/* More files in use than the cache keeps: all can be read, and the surplus is then closed. */
static void test_all_in_use(void)
{
	static struct ck_file held[MANY];
	struct ck_files *f = make_many();
	unsigned before = count_open();

	for (uint32_t i = 0; i < MANY; i++)
		ok(ck_files_get(f, i, &held[i]) == 0);
	eq_u64(count_open(), before + MANY);
	eq_mem(held[0].map, held[0].size, "content 0", 9);
	for (uint32_t i = 0; i < MANY; i++)
		ck_files_put(f, &held[i]);
	eq_u64(count_open(), before + KEPT);
	/* the most recently used files were kept */
	ok(ck_files_get(f, MANY - 1, &held[0]) == 0);
	eq_u64(count_open(), before + KEPT);
	ok(ck_files_get(f, 0, &held[1]) == 0);
	eq_u64(count_open(), before + KEPT);
	ck_files_put(f, &held[1]);
	ck_files_put(f, &held[0]);
	ck_files_free(f);
}

/* Permissions that directories along a path remove, for the user that the mount shows. */
static void test_way(void)
{
	const struct ck_ids mine = { geteuid(), getegid() };
	const struct ck_ids of_others = { mine.uid + 1, mine.gid };
	const struct ck_ids of_none = { mine.uid + 1, mine.gid + 1 };
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_SYMLINKS, 16);
	uint32_t deep, top, linked;

	ok(mkdirat(dir, "way", 0755) == 0 && mkdirat(dir, "way/on", 0755) == 0);
	ok(symlinkat("way/on/it", dir, "to-it") == 0);
	put_file("way/on/it", "deep");
	put_file("top", "top");
	ck_files_show_as(f, mine);
	deep = add(f, "way//on/it");
	top = add(f, "top");
	linked = add(f, "to-it");
	eq_u64(ck_files_info(f, deep)->closed, 0);
	ok(fchmodat(dir, "way/on", 0710, 0) == 0);
	eq_u64(ck_files_closed(f, deep, mine), 0004);
	eq_u64(ck_files_closed(f, linked, mine), 0004);
	eq_u64(ck_files_closed(f, top, mine), 0);
	eq_u64(ck_files_closed(f, deep, of_others), 0404);
	eq_u64(ck_files_closed(f, deep, of_none), 0444);
	ok(fchmodat(dir, "way", 0701, 0) == 0);
	eq_u64(ck_files_closed(f, deep, mine), 0044);
	eq_u64(ck_files_closed(f, linked, of_none), 0444);
	ok(ck_files_check(f, deep, NULL) == 0);
	eq_u64(ck_files_access(f, deep)->closed, 0044);
	ck_files_show_as(f, of_others);
	eq_u64(ck_files_access(f, deep)->closed, 0044);
	ok(ck_files_check(f, deep, NULL) == 0);
	eq_u64(ck_files_access(f, deep)->closed, 0444);
	eq_u64(ck_files_info(f, add(f, "way/on/./it"))->closed, 0444);
	ck_files_free(f);
}

static void remove_dir(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir_path);
	if (system(command))
		printf("# left behind: %s\n", dir_path);
	close(dir);
}

/* Each change of a local file is counted once, for caches of its bytes. */
static void test_changes_counted(void)
{
	struct ck_files *f = ck_files_make(dir, CK_BENEATH_NO_SYMLINKS, 16);
	uint32_t number;

	put_file("kept", "first");
	number = add(f, "kept");
	ok(get_rc(f, number) == 0);
	eq_u64(ck_files_changes(f), 0);
	replace_file("kept", "other");
	eq_err(ck_files_check(f, number, NULL), -ESTALE);
	eq_u64(ck_files_changes(f), 1);
	eq_err(get_rc(f, number), -ESTALE);
	eq_u64(ck_files_changes(f), 1);
	unlinkat(dir, "kept", 0);
	ck_files_free(f);
}

int main(void)
{
	alarm(100); /* a FIFO that hangs is a failure */
	if (!mkdtemp(dir_path))
		return 2;
	chmod(dir_path, 0755);
	dir = open(dir_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	test_plain();
	test_refused();
	test_links();
	for (enum change how = REPLACE; how < NCHANGES; how++) {
		test_change(how, "x", false);
		test_change(how, "x", true);
		test_change(how, "sub/x", false);
		test_change(how, "sub/x", true);
	}
	test_parent_changed();
	test_no_permission();
	test_unseen();
	test_threads();
	test_all_in_use();
	test_way();
	test_changes_counted();
	remove_dir();
	return tap_done();
}
