/* SPDX-License-Identifier: MIT */
/* Rows of /proc/self/mountinfo, and malformed rows. */
#include "base/system/mountinfo.h"
#include "tap.h"

#include <unistd.h>

static char line[1 << 16];

/* Parses a copy, since the parser changes its input. */
static bool parse(const char *text, struct ck_mountinfo *out)
{
	snprintf(line, sizeof(line), "%s", text);
	return ck_mountinfo_parse(line, out);
}

static void test_row(void)
{
	struct ck_mountinfo m;

	ok(parse("36 35 98:1234 /root /mnt rw,noatime - ext3 /dev/root "
		 "rw,errors=continue\n",
		 &m));
	eq_u64((uint64_t)m.id, 36);
	eq_u64((uint64_t)m.parent, 35);
	eq_u64(m.major, 98);
	eq_u64(m.minor, 1234);
	eq_text(m.root, "/root");
	eq_text(m.point, "/mnt");
	eq_text(m.type, "ext3");
	eq_text(m.source, "/dev/root");
	eq_text(m.options, "rw,errors=continue");
}

static void test_tags(void)
{
	struct ck_mountinfo m;

	ok(parse("1 1 0:1 / /a rw shared:1 - t s rw", &m));
	eq_text(m.type, "t");
	ok(parse(
		"1 1 0:1 / /a rw shared:1 master:2 propagate_from:3 unbindable "
		"new - t s rw",
		&m));
	eq_text(m.source, "s");
	/* A source may be `-`, or empty. */
	ok(parse("1 1 0:1 / /a rw - t - rw", &m));
	eq_text(m.source, "-");
	ok(parse("1 1 0:1 / /- rw - t  rw", &m));
	eq_text(m.point, "/-");
	eq_text(m.source, "");
	eq_text(m.options, "rw");
}

static void test_escapes(void)
{
	struct ck_mountinfo m;

	ok(parse("1 1 0:1 / /a\\040b\\011\\012\\134\\043 rw - t x\\040-\\040y "
		 "rw",
		 &m));
	eq_text(m.point, "/a b\t\n\\#");
	eq_text(m.source, "x - y");
	/* Invalid escapes, and those above 255, stay as they are. */
	ok(parse("1 1 0:1 / /\\04 rw - t \\400\\08\\ rw", &m));
	eq_text(m.point, "/\\04");
	eq_text(m.source, "\\400\\08\\");
	/* Escapes are decoded once only. */
	ok(parse("1 1 0:1 / /\\134040 rw - t s rw", &m));
	eq_text(m.point, "/\\040");
	/* The kernel does not escape these, nor bytes that are not UTF-8. */
	ok(parse("1 1 0:1 / /a\rb\f\v\xff rw - t s\r rw,x", &m));
	eq_text(m.point, "/a\rb\f\v\xff");
	eq_text(m.source, "s\r");
}

static void test_long(void)
{
	static char text[40000], path[12000];
	struct ck_mountinfo m;

	memset(path, 'x', sizeof(path) - 1);
	snprintf(text, sizeof(text), "1 1 0:1 / /%s rw - t %s rw,user_id=7",
		 path, path);
	ok(parse(text, &m));
	eq_u64(strlen(m.point), sizeof(path));
	eq_text(m.source, path);
	eq_text(m.options, "rw,user_id=7");
}

static void test_no_row(void)
{
	static const char *const lines[] = {
		"",
		"\n",
		" ",
		"36",
		"36 35 0:47 / /p rw",
		"36 35 0:47 / /p rw shared:1",
		"36 35 0:47 / /p rw -",
		"36 35 0:47 / /p rw - t",
		"36 35 0:47 / /p rw - t s",
		"36 35 0:47 / /p - t s rw",
		"x 35 0:47 / /p rw - t s rw",
		"36  0:47 / /p rw - t s rw",
		"36 -1 0:47 / /p rw - t s rw",
		"36 35 0: / /p rw - t s rw",
		"36 35 47 / /p rw - t s rw",
		"36 35 0:47x / /p rw - t s rw",
		"36 35 0:99999999999 / /p rw - t s rw",
		"99999999999999999999 35 0:47 / /p rw - t s rw",
		" 36 35 0:47 / /p rw - t s rw",
	};
	struct ck_mountinfo m;

	for (size_t i = 0; i < CK_ARRAY_SIZE(lines); i++)
		if (!ok(!parse(lines[i], &m)))
			printf("# %s\n", lines[i]);
}

static void test_options(void)
{
	struct ck_mountinfo m;
	struct ck_str value = { 0 };
	uid_t user = 1;

	ok(parse("1 1 0:1 / /a ro - t s rw,user_id=1000,group_id=5,x=", &m));
	ok(ck_mountinfo_option(&m, "rw", &value) && value.len == 0);
	ok(ck_mountinfo_option(&m, "group_id", &value) &&
	   ck_str_is(value, "5"));
	ok(ck_mountinfo_option(&m, "x", &value) && value.len == 0);
	ok(ck_mountinfo_option(&m, "x", NULL));
	ok(!ck_mountinfo_option(&m, "ro", &value));
	ok(!ck_mountinfo_option(&m, "id", &value));
	ok(!ck_mountinfo_option(&m, "user", &value));
	ok(ck_mountinfo_user(&m, &user) && user == 1000);
	ok(parse("1 1 0:1 / /a ro - t s a_user_id=3,user_id=4294967294", &m));
	ok(ck_mountinfo_user(&m, &user) && user == 4294967294U);
	ok(parse("1 1 0:1 / /a ro - t s rw,user_id=4x", &m));
	ok(!ck_mountinfo_user(&m, &user));
	ok(parse("1 1 0:1 / /a ro - t s rw,user_id=", &m));
	ok(!ck_mountinfo_user(&m, &user));
	ok(parse("1 1 0:1 / /a ro - t s ", &m));
	ok(!ck_mountinfo_user(&m, &user));
}

struct seen {
	unsigned rows;
	bool root;
};

static int see(const struct ck_mountinfo *row, void *arg)
{
	struct seen *s = arg;

	s->rows++;
	s->root |= strcmp(row->point, "/") == 0;
	return s->rows == 1 && s->root ? 5 : 0;
}

static void test_table(void)
{
	struct seen s = { 0 };
	int rc = ck_mountinfo_each(see, &s);

	if (rc == -ENOENT)
		return; /* no /proc here */
	ok(rc == (s.rows == 1 && s.root ? 5 : 0));
	ok(s.root);
}

int main(void)
{
	test_row();
	test_tags();
	test_escapes();
	test_long();
	test_no_row();
	test_options();
	test_table();
	return tap_done();
}
