/* SPDX-License-Identifier: MIT */
/*
 * owner: the names that a file server opens, its answers to STAT, DIGEST and
 * LIST, and its answers after a file was replaced. READ is in
 * owner_reads_test.c.
 */
#include "owner_case.h"

#include <errno.h>
#include <pthread.h>

/* --- STAT ----------------------------------------------------------------- */

static void make_files(void)
{
	put_file("a", "first", 5);
	put_file("b", "second", 6);
	put_file("empty", "", 0);
	ok(mkdirat(dir, "sub", 0700) == 0);
	put_file("sub/c", "third", 5);
	ok(mkfifoat(dir, "fifo", 0600) == 0);
	ok(symlinkat("a", dir, "link") == 0);
	ok(symlinkat("../../etc/passwd", dir, "link_out") == 0);
	ok(symlinkat("/etc/passwd", dir, "link_absolute") == 0);
	ok(symlinkat("sub", dir, "link_dir") == 0);
	ok(symlinkat("nowhere", dir, "link_dangling") == 0);
}

static void test_look(void)
{
	struct ck_name_stat looked;
	struct stat st;

	ok(fchmodat(dir, "sub", 0710, 0) == 0);
	ok(fchmodat(dir, "sub/c", 0644, 0) == 0);
	ok(fstatat(dir, "sub/c", &st, 0) == 0);
	eq_err(look_at(owner, CK_STR("sub/c"), &looked), 0);
	ok(looked.seen && looked.trouble == 0 && looked.info.err == 0);
	eq_u64(looked.info.size, 5);
	eq_u64(looked.info.mode, S_IFREG | 0644);
	ok(looked.info.uid == st.st_uid && looked.info.gid == st.st_gid);
	eq_i64(looked.info.mtime.tv_sec, st.st_mtim.tv_sec);
	eq_i64(looked.info.mtime.tv_nsec, st.st_mtim.tv_nsec);
	eq_u64(looked.info.closed, geteuid() ? looked.info.closed : 0004);
	ok(fchmodat(dir, "sub", 0700, 0) == 0);
	eq_err(look_at(owner, CK_STR("sub/c"), &looked), 0);
	eq_u64(looked.info.closed, geteuid() ? looked.info.closed : 0044);
	eq_u64(number_of(owner, "sub/c"), looked.number);
	ok(number_of(owner, "a") != looked.number);
}

static void check_refused(struct ck_file_server *o, struct ck_str name,
			  const char *why)
{
	struct ck_name_stat looked;
	uint8_t byte = 0;
	struct ck_copy_desc move = { .run = 1, .to = &byte };

	eq_err(look_at(o, name, &looked), 0);
	ok(looked.seen && looked.trouble == 0);
	eq_i64(looked.info.err, ENODATA);
	eq_text(looked.info.why ? looked.info.why : "", why);
	move.file = looked.number;
	eq_err(move_by(o, &move, 1), 0);
	eq_err(move.rc, -ENODATA);
}

static void test_refused(void)
{
	static const char missing[] = "is missing";
	static const char none[] = "is no regular file";
	static const char link[] = "is a link that is not followed";
	static const char beneath[] = "is a link that is not followed "
				      "(-o shardlinks=beneath follows it)";
	static const char refused[] = "is refused: not beneath the "
				      "checkpoint's directory";
	static const char *const names[][2] = {
		{ "missing", missing },
		{ "missing/a", missing },
		{ "a/b", refused },
		{ "../a", refused },
		{ "sub/../a", refused },
		{ "/etc/passwd", refused },
		{ "fifo", none },
		{ "sub", none },
		{ ".", none },
		{ "..", refused },
		{ "link", beneath },
		{ "link_out", link },
		{ "link_dir/c", beneath },
		{ "link_dangling", link },
		{ "", refused },
		{ "/proc/self/maps", refused },
		{ "link_absolute", link },
	};
	static char longest[CK_WIRE_NAME_MAX];

	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		printf("# %s\n", names[i][0]);
		check_refused(owner, ck_str_from(names[i][0]), names[i][1]);
	}
	check_refused(owner, (struct ck_str){ "a\0b", 3 }, refused);
	memset(longest, 'x', sizeof(longest));
	check_refused(owner, (struct ck_str){ longest, sizeof(longest) },
		      refused);
	check_refused(owner, (struct ck_str){ longest, 300 }, refused);
}

static void test_links(void)
{
	struct ck_file_server *o = owner_begin(CK_BENEATH_SYMLINKS);
	struct ck_name_stat looked;

	eq_err(look_at(o, CK_STR("link_dir/c"), &looked), 0);
	ok(looked.seen && looked.info.err == 0 && looked.info.size == 5);
	check_refused(o, CK_STR("link_out"),
		      "is refused: not beneath the checkpoint's directory");
	ck_file_server_free(o);
}

static void test_too_many_names(void)
{
	struct ck_name_stat looked;
	uint64_t before = owner->names;

	owner->names = CK_OWNER_NAMES_MAX - 1;
	eq_err(look_at(owner, CK_STR("one more"), &looked), 0);
	eq_err(look_at(owner, CK_STR("and another"), &looked), -E2BIG);
	owner->names = before;
	eq_err(look_at(owner, CK_STR("a"), &looked), 0);
	eq_u64(owner->names, before); /* it was known */
	eq_err(look_at(owner, CK_STR("new"), &looked), 0);
	ok(owner->names > before);
}

/* A stat or open that failed for lack of permission is repeated by the next
 * STAT. */
static void test_look_again(void)
{
	struct ck_name_stat looked;

	ok(mkdirat(dir, "closed", 0700) == 0);
	put_file("closed/in", "12345", 5);
	put_file("secret", "12", 2);
	ok(fchmodat(dir, "secret", 0, 0) == 0);
	ok(fchmodat(dir, "closed", 0, 0) == 0);
	if (geteuid() == 0 && seteuid(65534))
		return;
	ok(look_at(owner, CK_STR("closed/in"), &looked) == 0);
	ok(!looked.seen && looked.trouble == EACCES);
	ok(look_at(owner, CK_STR("closed/in"), &looked) == 0);
	ok(!looked.seen && looked.trouble == EACCES);
	ok(look_at(owner, CK_STR("secret"), &looked) == 0);
	ok(looked.seen && looked.trouble == EACCES && looked.info.size == 2);
	if (geteuid() != getuid() && seteuid(getuid()))
		abort();
	ok(fchmodat(dir, "closed", 0700, 0) == 0);
	ok(fchmodat(dir, "secret", 0600, 0) == 0);
	ok(look_at(owner, CK_STR("closed/in"), &looked) == 0);
	ok(looked.seen && looked.trouble == 0 && looked.info.size == 5);
	ok(look_at(owner, CK_STR("secret"), &looked) == 0);
	ok(looked.seen && looked.trouble == 0);
	put_file("secret", "123", 3);
	ok(look_at(owner, CK_STR("secret"), &looked) == 0);
	ok(looked.seen && looked.trouble == ESTALE && looked.info.size == 2);
}

/* --- files that change --------------------------------------------------------------------- */

static int digest_of(struct ck_file_server *o, const struct ck_wire_run *runs,
		     size_t n, uint8_t out[static 16])
{
	struct ck_buf bytes;
	struct ck_message m;
	struct ck_query a;
	int rc = ck_query_digest(&a, runs, n);

	if (rc)
		return rc;
	rc = serve(o, &a, &bytes, &m) ? ck_reply_digest(&a, &m, out) : -EPROTO;
	ck_buf_fini(&bytes);
	ck_query_fini(&a);
	return rc;
}

enum change {
	KEEP,
	REPLACE,
	CUT,
	GROW,
	TOUCH,
	REMOVE,
	TO_LINK,
	TO_FIFO,
	TO_DIR,
	CHANGES
};

static void change(enum change how)
{
	static const struct timespec other[2] = { { 1000000, 7 },
						  { 1000000, 7 } };

	switch (how) {
	case KEEP: break;
	case REPLACE:
		put_file("new", "FIRST", 5);
		ok(renameat(dir, "new", dir, "it") == 0);
		break;
	case CUT: put_file("it", "f", 1); break;
	case GROW: put_file("it", "first and more", 14); break;
	case TOUCH: ok(utimensat(dir, "it", other, 0) == 0); break;
	case TO_LINK:
		ok(renameat(dir, "it", dir, "moved") == 0);
		ok(symlinkat("moved", dir, "it") == 0);
		break;
	case REMOVE:
	case TO_FIFO:
	case TO_DIR:
		unlinkat(dir, "it", 0);
		if (how == TO_FIFO)
			ok(mkfifoat(dir, "it", 0600) == 0);
		if (how == TO_DIR)
			ok(mkdirat(dir, "it", 0700) == 0);
		break;
	case CHANGES:
	default: abort();
	}
}

/* If `read`, the file is read before the change, so that it is open. */
static void test_change(enum change how, bool read)
{
	struct ck_file_server *o = owner_begin(CK_BENEATH_NO_SYMLINKS);
	int want = how == KEEP ? 0 : -ESTALE;
	struct ck_wire_run run = { .len = 5 };
	struct ck_copy_desc move = { .run = 5 };
	uint8_t bytes[5] = "....", sum[16];

	printf("# change %d, read before: %d\n", (int)how, read);
	put_file("it", "first", 5);
	move.file = run.file = number_of(o, "it");
	move.to = bytes;
	if (read)
		ok(move_by(o, &move, 1) == 0 && move.rc == 0);
	memset(bytes, '.', 5);
	change(how);
	eq_err(digest_of(o, &run, 1, sum), want);
	eq_err(move_by(o, &move, 1), 0);
	eq_err(move.rc, want);
	eq_mem(bytes, 5, how == KEEP ? "first" : ".....", 5);
	unlinkat(dir, "it", 0);
	unlinkat(dir, "it", AT_REMOVEDIR);
	ck_file_server_free(o);
}

static void test_not_readable(void)
{
	uint8_t byte;
	struct ck_copy_desc move = { .run = 1, .to = &byte };

	put_file("it", "first", 5);
	move.file = number_of(owner, "it");
	ok(fchmodat(dir, "it", 0, 0) == 0);
	if (geteuid() == 0 && seteuid(65534))
		return;
	ok(move_by(owner, &move, 1) == 0);
	eq_err(move.rc, -EACCES);
	if (geteuid() != getuid() && seteuid(getuid()))
		abort();
	ok(fchmodat(dir, "it", 0600, 0) == 0);
	ok(move_by(owner, &move, 1) == 0 && move.rc == 0 && byte == 'f');
}

/* --- DIGEST ------------------------------------------------------------------------------ */

static void test_digest(void)
{
	enum { LEN = 700000 };
	struct ck_buf all = { 0 };
	uint8_t sum[16], *bytes = malloc(LEN);
	char want[33], shown[33];
	struct ck_wire_run runs[3] = { { .len = LEN },
				       { .fpos = 1000, .len = 300000 },
				       { .fpos = 2, .len = 3 } };

	for (size_t i = 0; bytes && i < LEN; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	put_file("long", bytes, LEN);
	runs[0].file = runs[1].file = number_of(owner, "long");
	runs[2].file = number_of(owner, "b");
	ck_buf_add(&all, bytes, LEN);
	ck_buf_add(&all, bytes + 1000, 300000);
	ck_buf_add(&all, "con", 3);
	ck_hash128_hex((struct ck_str){ all.data, all.len }, want);
	eq_err(digest_of(owner, runs, 3, sum), 0);
	for (size_t i = 0; i < 16; i++)
		snprintf(shown + 2 * i, 3, "%02x", sum[i]);
	eq_text(shown, want);
	runs[1].fpos = LEN - 300000 + 1;
	eq_err(digest_of(owner, runs, 3, sum), -EIO);
	runs[1].fpos = UINT64_MAX;
	eq_err(digest_of(owner, runs, 3, sum), -EIO);
	runs[1].file = UINT32_MAX;
	eq_err(digest_of(owner, runs, 3, sum), -ENODATA);
	ck_buf_fini(&all);
	free(bytes);
}

/* --- LIST ---------------------------------------------------------------------------------- */

enum { NAMES = 10000, KEPT = 5 }; /* each KEPT-th name stays as it is */

static unsigned times_seen[NAMES];

/* One page: 0, or an errno. */
static int list_page(const char *name, uint64_t *cursor, bool *more,
		     unsigned *n, void (*each)(const struct ck_page_row *row))
{
	struct ck_page page = { 0 };
	struct ck_page_row row;
	struct ck_buf bytes;
	struct ck_message m;
	struct ck_query a;
	int rc = ck_query_list(&a, ck_str_from(name), *cursor);

	if (rc)
		return rc;
	rc = serve(owner, &a, &bytes, &m) ? ck_reply_list(&a, &m, &page)
					  : -EPROTO;
	for (*n = 0; rc == 0 && ck_page_next(&page, &row); ++*n)
		each(&row);
	*more = page.more;
	*cursor = page.next;
	ck_buf_fini(&bytes);
	ck_query_fini(&a);
	return rc;
}

static void note_many(const struct ck_page_row *row)
{
	char name[32] = "";
	unsigned i;

	memcpy(name, row->name.p, ck_min(row->name.len, sizeof(name) - 1));
	if (sscanf(name, "a name of some length %u", &i) == 1 && i < NAMES)
		times_seen[i]++;
	else
		ok(ck_str_is(row->name, "added"));
}

static void note_few(const struct ck_page_row *row)
{
	bool is_dir = ck_str_is(row->name, "sub") ||
		      ck_str_is(row->name, "closed") ||
		      ck_str_is(row->name, "many");
	bool is_link = ck_str_starts(row->name, CK_STR("link"));

	if (is_dir)
		ok(row->kind == CK_WIRE_DIRECTORY);
	else if (is_link)
		ok(row->kind == CK_WIRE_LINK);
	else if (ck_str_is(row->name, "fifo"))
		ok(row->kind == CK_WIRE_OTHER);
	else
		ok(row->kind == CK_WIRE_FILE);
}

/* Creates or removes the i-th file. */
static void change_name(unsigned i, bool make)
{
	char name[64];

	snprintf(name, sizeof(name), "many/a name of some length %u", i);
	if (make)
		put_file(name, "", 0);
	else
		ok(unlinkat(dir, name, 0) == 0);
}

/* Lists all pages. If `changing`, names are created and removed between the pages. */
static unsigned list_many(bool changing)
{
	uint64_t cursor = 0;
	unsigned pages = 0, n, next = 1;
	bool more = true;

	memset(times_seen, 0, sizeof(times_seen));
	for (; more && pages < 100; pages++) {
		eq_err(list_page("many", &cursor, &more, &n, note_many), 0);
		ok(n <= CK_WIRE_LIST_MAX / 4);
		for (unsigned i = 0; changing && i < 300; i++, next++)
			if (next % KEPT)
				change_name(next, false);
		if (changing)
			put_file("many/added", "", 0);
	}
	return pages;
}

static void test_list(void)
{
	unsigned n, wrong = 0, pages;
	uint64_t cursor = 0;
	bool more;

	ok(mkdirat(dir, "many", 0700) == 0);
	for (unsigned i = 0; i < NAMES; i++)
		change_name(i, true);
	pages = list_many(false);
	printf("# %u pages\n", pages);
	ok(pages >= NAMES * 25 / CK_WIRE_LIST_MAX && pages < 10);
	for (unsigned i = 0; i < NAMES; i++)
		wrong += times_seen[i] != 1;
	eq_u64(wrong, 0);
	list_many(true);
	for (unsigned i = 0; i < NAMES; i++)
		wrong += times_seen[i] > 1 || (!times_seen[i] && i % KEPT == 0);
	eq_u64(wrong, 0);
	ok(list_page("", &cursor, &more, &n, note_few) == 0);
	ok(!more && n > 10);
	cursor = 0;
	ok(list_page("sub", &cursor, &more, &n, note_few) == 0);
	ok(!more && n == 1);
}

static void test_list_refused(void)
{
	static const struct {
		const char *name;
		int rc;
	} rows[] = {
		{ "missing", -ENOENT }, { "a", -ENOTDIR },
		{ "fifo", -ENOTDIR },	{ "link_dir", -ELOOP },
		{ "..", -EPERM },	{ "sub/../..", -EPERM },
		{ "/", -EPERM },	{ "/etc", -EPERM },
	};

	uint64_t cursor;
	unsigned n;
	bool more;

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		cursor = 0;
		eq_err(list_page(rows[i].name, &cursor, &more, &n, note_few),
		       rows[i].rc);
	}
	cursor = UINT64_MAX;
	ok(list_page("", &cursor, &more, &n, note_few) == -EINVAL);
}

/* --- threads -------------------------------------------------------------------------------- */

static void *read_on(void *arg)
{
	unsigned *wrong = arg;
	char bytes[5];
	struct ck_copy_desc move = { .run = 5, .to = (uint8_t *)bytes };
	const struct ck_loop none = { .count = 1 };

	move.loops = &none;
	for (int i = 0; i < 2000; i++) {
		struct ck_reads r;
		struct ck_buf answer;
		struct ck_message m;
		struct ck_query a;
		uint64_t read;

		ck_reads_begin(&r, &move, 1);
		if (!ck_reads_left(&r) || ck_query_read(&r, &a))
			abort();
		if (wire_serve(owner, &a, &answer) ||
		    wire_split(answer.data, answer.len, &m) ||
		    ck_reply_read(&a, &m, &read) || move.rc ||
		    memcmp(bytes, "third", 5) != 0)
			++*wrong;
		ck_buf_fini(&answer);
		ck_query_fini(&a);
	}
	return NULL;
}

/* Two threads read the first file while another one sends STAT for ever more
 * names. */
static void test_threads(void)
{
	struct ck_file_server *before = owner;
	pthread_t threads[2];
	unsigned wrong[2] = { 0 };
	struct ck_name_stat looked;

	owner = owner_begin(CK_BENEATH_NO_SYMLINKS);
	eq_u64(number_of(owner, "sub/c"), 0);
	for (int i = 0; i < 2; i++)
		ok(pthread_create(&threads[i], NULL, read_on, &wrong[i]) == 0);
	for (int i = 0; i < 2000; i++) {
		char name[32];
		struct ck_str s = { name, 0 };
		struct ck_buf answer;
		struct ck_message m;
		struct ck_query a;
		size_t n;

		s.len = (size_t)snprintf(name, sizeof(name), "name %d", i);
		if (ck_query_stat(&a, (struct ck_ids){ 0, 0 }, &s, 1, &n) ||
		    wire_serve(owner, &a, &answer) ||
		    wire_split(answer.data, answer.len, &m) ||
		    ck_reply_stat(&a, &m, &looked))
			abort();
		ck_buf_fini(&answer);
		ck_query_fini(&a);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	ok(wrong[0] == 0 && wrong[1] == 0);
	ck_file_server_free(owner);
	owner = before;
}

int main(void)
{
	if (!case_begin())
		return 2;
	make_files();
	test_look();
	test_refused();
	test_links();
	test_look_again();
	test_too_many_names();
	for (enum change how = KEEP; how < CHANGES; how++) {
		test_change(how, false);
		test_change(how, true);
	}
	test_not_readable();
	test_digest();
	test_list();
	test_list_refused();
	test_threads();
	return case_end();
}
