/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint of a test format is opened, served and closed like any other: from a directory
 * or from one file, detected by content among several kinds. Its metadata file may have any
 * name and contains ranks; the format keeps private state.
 *
 * Its metadata begins with "LINES" and a newline; each line after it is a tensor of bytes: name,
 * file, rank, offset, length.
 */
#include "format/current/current_metadata.h"
#include "format/dcp/dcp_kind.h"
#include "format/detect.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 1024, FILES = 8 };

static char dir[] = "/tmp/ckptfs-formats-XXXXXX";
static int dirfd_;
static unsigned states; /* private states that are allocated */

/* The private state of the format. */
struct state {
	uint64_t ranks[FILES];
};

/* --- the format --------------------------------------------------------------------------------- */

/* Reads a metadata file. Returns false if it is not of this format. */
static bool read_lines(int at, const char *name, char text[static MOST])
{
	int fd = openat(at, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, MOST - 1);

	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = '\0';
	return n >= 6 && memcmp(text, "LINES\n", 6) == 0;
}

static const char *find_lines(const struct ck_src *src)
{
	static const char *const names[] = { "a.txt", "b.txt" };
	char text[MOST];

	if (src->file)
		return read_lines(src->dirfd, src->file, text) ? src->file
							       : NULL;
	for (unsigned i = 0; i < CK_ARRAY_SIZE(names); i++)
		if (read_lines(src->dirfd, names[i], text))
			return names[i];
	return NULL;
}

static int is_here(const struct ck_src *src, struct ck_diag *d)
{
	(void)d;
	return find_lines(src) != NULL;
}

static int is_unfinished(const struct ck_src *src, struct ck_diag *d)
{
	if (src->file || faccessat(src->dirfd, "saving", F_OK, 0))
		return 0;
	return ck_fail(d, EBADMSG, "it is being saved");
}

static int add_line(struct ck_checkpoint *cp, struct ck_catalog *c,
		    const char *line)
{
	struct state *state = cp->own;
	char name[32], file[32];
	unsigned rank, pos;
	struct ck_item item = { .form = CK_FORM_BLOB };
	int64_t len, zero = 0;
	int rc;

	if (sscanf(line, "%31s %31s %u %u %ld", name, file, &rank, &pos,
		   &len) != 5)
		return -EBADMSG;
	item.fpos = pos;
	item.length = (uint64_t)len;
	rc = ck_files_add(cp->files, ck_str_from(file), &item.file);
	state->ranks[item.file] = rank;
	if (rc == 0)
		rc = ck_catalog_tensor_add(c, ck_str_from(name),
					   CK_STR("uint8"), 1, &len);
	return rc ? rc : ck_catalog_chunk_add(c, &zero, &len, &item);
}

static int load(struct ck_checkpoint *cp, struct ck_catalog *c,
		const struct ck_format_options *options,
		const struct ck_fetched_metadata *fetched, struct ck_diag *d)
{
	const struct ck_src src = { .dirfd = cp->dirfd, .file = cp->file };
	const char *name = find_lines(&src);
	char text[MOST], *rest, *line;
	int fd, rc = ck_metadata_open(cp, c, name, options, fetched, &fd, d);

	if (rc)
		return rc;
	close(fd);
	(void)read_lines(cp->dirfd, name, text);
	cp->own = calloc(1, sizeof(struct state));
	states++;
	for (line = strtok_r(text + 6, "\n", &rest); line && rc == 0;
	     line = strtok_r(NULL, "\n", &rest))
		rc = add_line(cp, c, line);
	return rc ? ck_fail(d, -rc, "%s: a line", name) : 0;
}

static void forget(struct ck_checkpoint *cp)
{
	states -= cp->own != NULL;
	free(cp->own);
}

static uint64_t rank_of(const struct ck_checkpoint *cp, uint32_t file)
{
	const struct state *state = cp->own;

	return state->ranks[file];
}

static const struct ck_format lines = { .name = "lines",
					.suffix = ".bin",
					.rank = rank_of,
					.load = load,
					.forget = forget };

static const struct ck_kind rows[] = {
	{ &ck_format_dcp, "it has .metadata", ck_dcp_is_here,
	  ck_dcp_is_unfinished, "no .metadata", false },
	{ &lines, "it has lines", is_here, is_unfinished, "no lines", false },
	{ &lines, "it is never reached", is_here, NULL, NULL, false },
};

static const struct ck_kinds kinds = { rows, CK_ARRAY_SIZE(rows) };

/* --- files ---------------------------------------------------------------------------------------- */

static void put(const char *name, const char *text)
{
	int fd = openat(dirfd_, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0640);

	if (fd < 0 || ck_write_full(fd, text, strlen(text)))
		abort();
	close(fd);
}

static const char *path_of(const char *name)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s%s%s", dir, *name ? "/" : "",
		       name);
	return path;
}

static void begin(void)
{
	put("x.bin", "0123456789");
	put("y.bin", "abcdefghij");
	put("a.txt", "nothing");
	put("b.txt", "LINES\nt x.bin 7 2 4\nu y.bin 3 0 10\n");
	put("one", "LINES\nv x.bin 5 1 3\n");
}

static const char *kind; /* the value of kind=, or NULL */

static int open_at(const char *name, bool write, struct ck_checkpoint **cp,
		   struct ck_diag *d)
{
	const struct ck_format_options options = { .write = write,
						   .kind = kind };

	*d = (struct ck_diag){ 0 };
	*cp = NULL;
	return ck_checkpoint_open_as(path_of(name), &options, &kinds, cp, d);
}

static struct ck_checkpoint *opened(const char *name)
{
	struct ck_checkpoint *cp;
	struct ck_diag d;

	if (open_at(name, false, &cp, &d)) {
		printf("# %s\n", d.text);
		abort();
	}
	return cp;
}

/* --- tests ---------------------------------------------------------------------------------------- */

/* Compares the location of a tensor. */
static void at(struct ck_checkpoint *cp, uint32_t tensor, const char *file,
	       uint64_t pos)
{
	const struct ck_layout *layout;

	eq_err(ck_layout_get(cp, cp->catalog, tensor, NULL, &layout), 0);
	eq_u64(layout->n, 1);
	eq_u64(layout->extents[0].pos, pos);
	ok(ck_str_is(ck_files_info(cp->files, layout->extents[0].file)->path,
		     file));
	ck_layout_put(cp, layout);
}

static void test_directory(void)
{
	struct ck_checkpoint *cp = opened("");

	eq_text(ck_checkpoint_kind(cp), "lines");
	eq_text(cp->why, "it has lines");
	eq_text(ck_metadata_name(cp), "b.txt");
	eq_text(cp->path, dir);
	eq_u64(cp->catalog->tensors.n, 2);
	at(cp, 0, "x.bin", 2);
	at(cp, 1, "y.bin", 0);
	eq_u64(ck_catalog_file(cp->catalog, 0)->rank, 7);
	eq_u64(ck_catalog_file(cp->catalog, 1)->rank, 3);
	eq_u64(states, 1);
	ck_checkpoint_close(cp);
	eq_u64(states, 0);
}

static void test_file(void)
{
	struct ck_checkpoint *cp = opened("one");
	struct stat st;
	uint64_t dead;
	int err;

	eq_text(ck_checkpoint_kind(cp), "lines");
	eq_text(ck_metadata_name(cp), "one");
	eq_text(cp->path, path_of("one"));
	eq_u64(cp->catalog->tensors.n, 1);
	at(cp, 0, "x.bin", 1);
	eq_u64(cp->catalog->meta.mode & 0777, 0640);
	eq_u64(cp->catalog->dir_mode, S_IFDIR | 0550);
	eq_err(ck_checkpoint_dead(cp, &dead), 0);
	eq_u64(dead, 7); /* of x.bin; other files are not counted */
	ok(!ck_checkpoint_holds(cp, dup(dirfd_)));
	ok(ck_checkpoint_fate(cp, &err) == CK_FATE_NONE);
	eq_i64(fstatat(dirfd_, "one", &st, 0), 0);
	eq_i64(fchmodat(dirfd_, "one", 0600, 0), 0);
	ok(ck_checkpoint_fate(cp, &err) == CK_FATE_NONE);
	eq_err(ck_checkpoint_renew_access(cp, (struct ck_items){ 0 }), 0);
	eq_u64(cp->catalog->dir_mode, S_IFDIR | 0500);
	ck_checkpoint_close(cp);
	cp = opened("");
	ok(ck_checkpoint_holds(cp, dup(dirfd_)));
	ck_checkpoint_close(cp);
}

/* The metadata file is replaced, and then removed. */
static void test_fates(void)
{
	struct ck_checkpoint *cp = opened("one");
	struct ck_diag d = { 0 };
	int err;

	eq_err(ck_checkpoint_same(cp, &d), 0);
	put("new", "LINES\nv x.bin 5 0 3\n");
	eq_i64(renameat(dirfd_, "new", dirfd_, "one"), 0);
	ok(ck_checkpoint_fate(cp, &err) == CK_FATE_SAVED);
	eq_err(ck_checkpoint_same(cp, &d), -ESTALE);
	ok(strstr(d.text, "one was changed by somebody else") != NULL);
	unlinkat(dirfd_, "one", 0);
	ok(ck_checkpoint_fate(cp, &err) == CK_FATE_NO_METADATA);
	eq_err(ck_checkpoint_same(cp, &d), -ESTALE);
	ck_checkpoint_close(cp);
	begin();
}

static void refused(const char *name, int rc, const char *words)
{
	struct ck_checkpoint *cp;
	struct ck_diag d;

	eq_err(open_at(name, false, &cp, &d), rc);
	ok(strstr(d.text, words) != NULL);
	printf("# %s\n", d.text);
	eq_u64(states, 0);
}

static void test_refused(void)
{
	refused("a.txt", -EBADMSG, "no checkpoint");
	refused("one/more", -ENOTDIR, "Not a directory");
	refused("missing", -ENOENT, "No such file");
	put("one", "LINES\nv x.bin\n");
	refused("one", -EBADMSG, "one: a line");
	eq_i64(mkfifoat(dirfd_, "fifo", 0600), 0);
	refused("fifo", -ENOTDIR, "Not a directory");
	unlinkat(dirfd_, "fifo", 0);
	unlinkat(dirfd_, "b.txt", 0);
	put("saving", "");
	refused("", -EBADMSG, "it is being saved");
	unlinkat(dirfd_, "saving", 0);
	refused("", -EBADMSG, "no checkpoint known here");
	begin();
}

/* A link to a metadata file is resolved, and its target is mounted. */
static void test_link(void)
{
	struct ck_checkpoint *cp;

	eq_i64(symlinkat("one", dirfd_, "link"), 0);
	cp = opened("link");
	eq_text(cp->path, path_of("one"));
	eq_text(ck_metadata_name(cp), "one");
	ck_checkpoint_close(cp);
	unlinkat(dirfd_, "link", 0);
}

/* Formats are tried in the order of the table. */
static void test_order(void)
{
	struct ck_checkpoint *cp;
	struct ck_diag d;

	put(".metadata", "");
	eq_err(open_at("", false, &cp, &d), -EBADMSG);
	ok(strstr(d.text, ".metadata") != NULL);
	unlinkat(dirfd_, ".metadata", 0);
}

/* With kind=, only formats of that kind are tried. */
static void test_kind(void)
{
	struct ck_checkpoint *cp;

	put(".metadata", "");
	kind = "lines";
	cp = opened("");
	eq_text(ck_checkpoint_kind(cp), "lines");
	ck_checkpoint_close(cp);
	unlinkat(dirfd_, "b.txt", 0);
	refused("", -EBADMSG,
		"no checkpoint of kind lines: no lines; it is one of kind dcp: "
		"it has .metadata");
	begin();
	unlinkat(dirfd_, ".metadata", 0);
	kind = "dcp";
	refused("", -EBADMSG,
		"no checkpoint of kind dcp: no .metadata; it is one of kind "
		"lines: it has lines");
	put(".metadata.tmp", "");
	refused("", -EBADMSG, "saving this checkpoint did not end");
	unlinkat(dirfd_, ".metadata.tmp", 0);
	refused("one", -EBADMSG,
		"it is a file, not a directory; it is one of kind lines");
	unlinkat(dirfd_, "b.txt", 0);
	put("saving", "");
	refused("", -EBADMSG, "no checkpoint of kind dcp: no .metadata");
	unlinkat(dirfd_, "saving", 0);
	begin();
	kind = NULL;
}

/* The format does not support writes. */
static void test_write(void)
{
	struct ck_checkpoint *cp;
	struct ck_diag d;

	eq_err(open_at("", true, &cp, &d), 0);
	eq_err(ck_metadata_writable(cp, false, &d), -EOPNOTSUPP);
	ok(strstr(d.text, "kind lines cannot be written") != NULL);
	ck_checkpoint_close(cp);
}

static void end(void)
{
	static const char *const names[] = { "x.bin", "y.bin", "a.txt", "b.txt",
					     "one" };

	for (unsigned i = 0; i < CK_ARRAY_SIZE(names); i++)
		unlinkat(dirfd_, names[i], 0);
	rmdir(dir);
}

int main(void)
{
	if (!mkdtemp(dir))
		abort();
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)umask(0);
	begin();
	test_directory();
	test_file();
	test_fates();
	test_refused();
	test_link();
	test_order();
	test_kind();
	test_write();
	end();
	return tap_done();
}
