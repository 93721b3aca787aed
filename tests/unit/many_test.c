/* SPDX-License-Identifier: MIT */
/*
 * Files of many tensors, by the view in view_many.c, for each checkpoint of a directory. For
 * random layouts and ranks, each range of a file must equal the bytes below raw/. Directories
 * that were not looked up are not listed. A fault makes only the bytes of its tensor fail, and
 * later opens report it.
 *
 *	many_test DIRECTORY	of checkpoints; those that cannot be opened are skipped
 */
#include "read_case.h"
#include "shell.h"
#include "tap.h"
#include "tree_walk.h"
#include "view_many.h"

#include <dirent.h>
#include <errno.h>

enum { MOST_BYTES = 4 << 20 }; /* larger files are skipped */

static const struct ck_tree_options options = { .umask = 022 };
static struct ck_checkpoint *cp;
static struct ck_root *root;
static struct ck_tree *tree;
static unsigned files, ranges;

static bool case_open(const char *path)
{
	static const struct ck_format_options reading = { 0 };
	const struct ck_view *const views[] = { ck_views[1], &view_many };

	if (ck_checkpoint_open(path, &reading, &cp, NULL))
		return false;
	if (ck_root_make(cp, views, 2, &options, &root) ||
	    ck_tree_make(root, &tree))
		abort();
	return true;
}

static void case_close(void)
{
	ck_tree_free(tree);
	ck_root_free(root);
	ck_checkpoint_close(cp);
}

/* Looks up many/<spec>/rank-<rank>/all; the node stays in use. */
static int file_find(const char *spec, uint32_t rank, struct ck_node_stat *st)
{
	char name[32];
	int rc = tree_lookup(tree, CK_TREE_ROOT, CK_STR("many"), st);

	snprintf(name, sizeof(name), "rank-%u", rank);
	rc = rc ? rc : tree_lookup(tree, st->number, ck_str_from(spec), st);
	rc = rc ? rc : tree_lookup(tree, st->number, ck_str_from(name), st);
	return rc ? rc : tree_lookup(tree, st->number, CK_STR("all"), st);
}

static int file_open(uint64_t number, struct ck_tree_file *f)
{
	int rc;

	*f = (struct ck_tree_file){ 0 };
	rc = ck_tree_find(tree, number, &f->node);
	rc = rc ? rc : ck_tree_pin(tree, &f->node, &f->catalog);
	return rc ? rc : ck_tree_file_open(f);
}

static int file_read(const struct ck_tree_file *f, uint64_t vpos, uint64_t len,
		     void *to)
{
	const struct ck_read r = {
		.from = f->opened, .vpos = vpos, .len = len, .to = to
	};

	return ck_host_read(cp->files, &r);
}

/* --- brute force ------------------------------------------------------------- */

/* The expected bytes of a file; known: '1' for each byte that can be read. */
struct expected {
	struct ck_buf bytes, known;
};

static void add(struct expected *e, const void *bytes, size_t len, bool known)
{
	static const char zeros[4096];

	for (size_t n = 0; !bytes && n < len; n += sizeof(zeros))
		ck_buf_add(&e->bytes, zeros, ck_min(len - n, sizeof(zeros)));
	if (bytes)
		ck_buf_add(&e->bytes, bytes, len);
	for (size_t i = 0; i < len; i++)
		ck_buf_add(&e->known, known ? "1" : "", 1);
}

/* Appends a rank's rows of a tensor. False if the tensor is too large for this test. */
static bool tensor_expect(struct expected *e, const struct ck_catalog *c,
			  uint32_t i, uint32_t ranks, uint32_t rank)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, i);
	uint64_t begin = 0, end = 1, row = t->nbytes;
	ck_auto_free uint8_t *all = NULL;
	struct ck_buf text = { 0 };
	bool known;

	ck_buf_printf(&text, "%u:", i);
	add(e, text.data, text.len, true);
	ck_buf_fini(&text);
	if (!ck_tensor_is_whole(c, i) || t->err || (t->ndim == 0 && rank))
		return true;
	if (t->nbytes > MOST_BYTES)
		return false;
	if (t->ndim) {
		many_rows((uint64_t)t->shape[0], ranks, rank, &begin, &end);
		row = t->shape[0] ? t->nbytes / (uint64_t)t->shape[0] : 0;
	}
	all = malloc(t->nbytes + 1);
	known = all && read_case(cp, i, NULL, all) == 0;
	add(e, known ? all + begin * row : NULL, (end - begin) * row, known);
	add(e, NULL, (8 - (end - begin) * row % 8) % 8, true);
	return true;
}

static bool expect(struct expected *e, const struct ck_catalog *c,
		   uint32_t ranks, uint32_t rank)
{
	for (uint32_t i = 0; i < c->tensors.n; i++) {
		struct ck_str key = ck_tensor_names(c, i).key;

		add(e, key.p, key.len, true);
		add(e, "\n", 1, true);
	}
	for (uint32_t i = 0; i < c->tensors.n; i++)
		if (!tensor_expect(e, c, i, ranks, rank))
			return false;
	add(e, "end", 3, true);
	return true;
}

static void expected_fini(struct expected *e)
{
	ck_buf_fini(&e->bytes);
	ck_buf_fini(&e->known);
}

/* A read may succeed though the whole tensor has a fault: then only known bytes count. */
static bool is_right(const struct ck_tree_file *f, const struct expected *e,
		     uint64_t vpos, uint64_t len, uint8_t *got)
{
	bool known = true;
	int rc = file_read(f, vpos, len, got);

	for (uint64_t i = vpos; i < vpos + len; i++)
		known &= e->known.data[i] == '1';
	if (rc)
		return !known;
	for (uint64_t i = 0; i < len; i++)
		if (e->known.data[vpos + i] == '1' &&
		    got[i] != (uint8_t)e->bytes.data[vpos + i])
			return false;
	return true;
}

/* --- read-ahead -------------------------------------------------------------- */

struct told {
	uint64_t bytes;
	bool outside;
};

static void told_range(void *arg, uint32_t file, uint64_t fpos, uint64_t len)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	struct told *t = arg;

	t->bytes += len;
	t->outside |= file >= c->files.n ||
		      fpos + len > ck_catalog_file(c, file)->size;
}

/* Read-ahead must not exceed the requested size, and stays within files. */
static unsigned check_guesses(struct ck_tree_file *f)
{
	const struct ck_slice *s = ck_open_slice_slice(f->opened);
	unsigned wrong = 0;

	for (uint32_t i = 0; i < s->nparts; i++) {
		uint64_t len = ck_slice_part_len(s, i);
		struct told t = { 0 };

		if (ck_slice_part(s, i).kind != CK_PART_BOX)
			continue;
		ck_open_slice_guess(f->opened, i, len / 3, len, told_range, &t);
		wrong += t.bytes > len - len / 3;
		wrong += t.outside && !f->faulty &&
			 ck_open_slice_known(f->opened, i) &&
			 !ck_open_slice_known(f->opened, i)->faulty;
	}
	return wrong;
}

/* --- files ------------------------------------------------------------------- */

static unsigned check_ranges(struct ck_tree_file *f, const struct expected *e,
			     uint64_t *random)
{
	uint64_t size = e->bytes.len;
	uint8_t *got = malloc(size + 1);
	unsigned wrong = 0;

	for (unsigned i = 0; i < 40; i++) {
		uint64_t vpos = tap_random(random) % size;
		uint64_t len = tap_random(random) % (size - vpos + 1);

		if (i % 2)
			len %= 200;
		wrong += !is_right(f, e, vpos, len, got);
	}
	for (uint64_t at = 0; at < size; at += 4096)
		wrong += !is_right(f, e, at, ck_min(size - at, 4096), got);
	wrong += !is_right(f, e, 0, size, got);
	wrong += check_guesses(f);
	ranges += 41;
	free(got);
	return wrong;
}

static unsigned check_file(uint64_t *random)
{
	static const char *const specs[] = { "1", "2",	    "3",
					     "4", "fsdp=8", "dp=2,tp=3" };
	static const uint32_t ranks[] = { 1, 2, 3, 4, 8, 6 };
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);
	uint64_t which = tap_random(random) % 6;
	uint32_t rank = (uint32_t)(tap_random(random) % ranks[which]);
	struct expected e = { 0 };
	struct ck_tree_file f;
	struct ck_node_stat st;
	unsigned wrong = 0;

	if (!expect(&e, c, ranks[which], rank)) {
		expected_fini(&e);
		return 0;
	}
	eq_err(file_find(specs[which], rank, &st), 0);
	wrong += st.size != e.bytes.len;
	if (wrong == 0 && file_open(st.number, &f))
		wrong++;
	else if (wrong == 0)
		wrong += check_ranges(&f, &e, random);
	if (wrong)
		printf("# %s rank %u: %u\n", specs[which], rank, wrong);
	ck_tree_file_close(&f);
	expected_fini(&e);
	files++;
	return wrong;
}

static void test_checkpoints(const char *of)
{
	uint64_t random = tap_seed(4711) | 1;
	DIR *dir = opendir(of);
	struct dirent *e;
	char path[1024];

	while (dir && (e = readdir(dir))) {
		unsigned wrong = 0;

		snprintf(path, sizeof(path), "%s/%s", of, e->d_name);
		if (e->d_name[0] == '.' || !case_open(path))
			continue;
		for (unsigned i = 0; i < 3; i++)
			wrong += check_file(&random);
		if (wrong)
			printf("# %s\n", e->d_name);
		eq_u64(wrong, 0);
		case_close();
	}
	if (dir)
		closedir(dir);
	printf("# %u files, %u ranges\n", files, ranges);
	ok(files > 100);
}

/* --- names ------------------------------------------------------------------- */

static void count(void *arg, const char *path, const struct ck_node_stat *st)
{
	unsigned *n = arg;

	(void)st;
	*n += strncmp(path, "/many/", 6) == 0;
}

static unsigned listed(void)
{
	unsigned n = 0;

	eq_u64(tree_walk(tree, CK_TREE_ROOT, "", count, &n), 0);
	return n;
}

/* A spec that was looked up is listed, with two entries for each rank. */
static void test_names(const char *path)
{
	struct ck_node_stat in, st;

	ok(case_open(path));
	eq_err(tree_lookup(tree, CK_TREE_ROOT, CK_STR("many"), &in), 0);
	eq_u64(listed(), 0);
	eq_err(tree_lookup(tree, in.number, CK_STR("03"), &st), -ENOENT);
	eq_err(file_find("3", 3, &st), -ENOENT);
	eq_u64(listed(), 7);
	eq_err(file_find("tp=2", 1, &st), 0);
	eq_u64(listed(), 12);
	eq_err(file_find("1000000", 999999, &st), 0);
	for (uint32_t i = 3; i < 4096; i++) {
		char name[32];

		snprintf(name, sizeof(name), "x=%u", i);
		if (tree_lookup(tree, in.number, ck_str_from(name), &st))
			ok(false);
		ck_tree_forget(tree, st.number, 1);
	}
	eq_err(tree_lookup(tree, in.number, CK_STR("7"), &st), -ENOSPC);
	eq_err(file_find("tp=2", 0, &st), 0);
	case_close();
}

/* --- faults ------------------------------------------------------------------ */

/* Counts known bytes that cannot be read one by one. */
static unsigned wrong_bytes(const struct ck_tree_file *f,
			    const struct expected *e)
{
	unsigned wrong = 0;
	uint8_t got[1];

	for (uint64_t i = 0; i < e->bytes.len; i++)
		if (e->known.data[i] == '1')
			wrong += !is_right(f, e, i, 1, got);
	return wrong;
}

/* known: the file lacks bytes, which is known at open. Otherwise a read detects a damaged item.
 * In both cases, bytes without a fault can be read. */
static void test_fault(const char *from, const char *harm, bool known)
{
	char dir[] = "/tmp/ckptfs-many-XXXXXX";
	struct ck_tree_file f, again;
	const struct ck_catalog *c;
	struct expected e = { 0 };
	struct ck_node_stat st;
	uint8_t *got;

	if (!mkdtemp(dir))
		abort();
	shell("cp -r %s/. %s && chmod -R u+w %s && cd %s && %s", from, dir, dir,
	      dir, harm);
	ok(case_open(dir));
	c = ck_checkpoint_catalog(cp);
	eq_err(file_find("1", 0, &st), 0);
	eq_err(file_open(st.number, &f), 0);
	ok(f.faulty == known);
	ok(expect(&e, c, 1, 0));
	ok(memchr(e.known.data, 0, e.known.len) != NULL);
	got = malloc(e.bytes.len + 1);
	ok(file_read(&f, 0, e.bytes.len, got) != 0);
	eq_err(file_open(st.number, &again), 0);
	ok(again.faulty);
	eq_u64(wrong_bytes(&f, &e), 0);
	eq_u64(wrong_bytes(&again, &e), 0);
	free(got);
	ck_tree_file_close(&again);
	ck_tree_file_close(&f);
	ck_catalog_put(c);
	case_close();
	expected_fini(&e);
	shell("rm -r %s", dir);
}

int main(int argc, char **argv)
{
	char path[1024];

	if (argc != 2)
		return 2;
	test_checkpoints(argv[1]);
	snprintf(path, sizeof(path), "%s/sample", argv[1]);
	test_names(path);
	test_fault(path, "truncate -s -300 __0_0.distcp", true);
	test_fault(path,
		   "dd if=/dev/zero of=__0_0.distcp bs=16 count=1 "
		   "conv=notrunc status=none",
		   false);
	return tap_done();
}
