/* SPDX-License-Identifier: MIT */
/*
 * collect: what a writer removes when it begins, on a copy of a fixture: all
 * that has a name of ours and is not needed, and nothing that is.
 *
 *	collect_test SAMPLE
 */
#include "ckptfs/commit.h"
#include "copy_case.h"
#include "stage_case.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static const char *sample;

static void copy(void)
{
	shell("rm -rf %s && cp -r %s %s", dir, sample, dir);
}

static struct ck_writer *begin(struct ck_checkpoint *cp)
{
	static const struct ck_writer_options any = { .keep_unknown = true };
	struct ck_writer *w = NULL;
	static struct ck_diag d;

	if (!cp || ck_writer_open(cp, &any, &w, &d)) {
		printf("# %s\n", d.text);
		abort();
	}
	return w;
}

/* A tensor of four ranks is replaced, each byte by `with`. */
static void commit(struct ck_checkpoint *cp, struct ck_writer *w, int with)
{
	uint32_t wk = tensor_named(cp->catalog,
				   "model.layers.0.attention.wk.weight");
	uint64_t len = ck_catalog_tensor(cp->catalog, wk)->nbytes;
	uint8_t *bytes = malloc(len + 1);
	struct ck_transaction *x = begun(w, false);
	struct ck_stage *s = NULL;
	struct ck_diag d = { 0 };

	memset(bytes, with, len);
	eq_err(stage_case_open(x, cp, wk, ALL_BOXES, CK_ACCEPTS_RAW, &s, &d),
	       0);
	eq_err(ck_stage_write(s, 0, bytes, len, 1, &d), 0);
	eq_err(ck_stage_commit(s, &d), 0);
	ck_stage_close(s);
	ck_transaction_end(x);
	free(bytes);
}

/* What takes the place of files of any generation has names of ours, too: when
 * it is not needed any more it goes. */
static void test_generation(uint64_t last)
{
	struct ck_checkpoint *cp;
	struct ck_writer *w;
	unsigned files;

	copy();
	files = count_files();
	shell("touch %s/__0_ckptfs-%ju-0123456789abcdef.distcp", dir,
	      (uintmax_t)last);
	cp = open_copy();
	w = begin(cp);
	eq_u64(count_files(), files);
	for (int i = 1; i <= 3; i++)
		commit(cp, w, i);
	eq_u64(count_files(), files + 3 * 4);
	ck_writer_close(w);
	ck_checkpoint_close(cp);
	cp = open_copy();
	w = begin(cp);
	eq_u64(count_files(), files + 4);
	eq_u64(ck_writer_generation(w),
	       last > UINT64_MAX - 3 ? UINT64_MAX : last + 3);
	ck_writer_close(w);
	ck_checkpoint_close(cp);
}

/* --- other spellings -------------------------------------------------------------- */

enum { LINKS = 1, ORPHAN_STAYS = 2, REFUSED = 4 };

static const struct spelling {
	const char *text; /* as spelled.py has it */
	int how; /* LINKS: those beneath are followed; REFUSED: the data
			   * files cannot be used; ORPHAN_STAYS: any file may be
			   * one of them */
} spellings[] = {
	{ "NAME", 0 },
	{ "./NAME", 0 },
	{ ".//NAME", 0 },
	{ "sub/NAME", 0 },
	{ "hard.NAME", 0 },
	{ "soft.NAME", LINKS },
	{ "soft.NAME", REFUSED | ORPHAN_STAYS },
	{ "here/NAME", LINKS },
	{ "here/NAME", REFUSED | ORPHAN_STAYS },
	{ "here/.//NAME", LINKS },
	{ "sub/../NAME", REFUSED | ORPHAN_STAYS },
	{ "DIR/NAME", REFUSED | ORPHAN_STAYS },
};

static struct ck_checkpoint *open_with(int how)
{
	const struct ck_format_options options = {
		.shardlinks = how & LINKS ? CK_BENEATH_SYMLINKS
					  : CK_BENEATH_NO_SYMLINKS,
		.write = true,
	};
	struct ck_checkpoint *cp = NULL;
	static struct ck_diag d;

	if (ck_checkpoint_open(dir, &options, &cp, &d))
		printf("# %s\n", d.text);
	return cp;
}

static bool exists(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* All that the list has. */
static bool are_unchanged(void)
{
	char command[256];

	snprintf(command, sizeof(command), "sha256sum --status -c %s.sums",
		 dir);
	return system(command) == 0;
}

/* Nothing is removed that .metadata leads to, whatever it calls it. */
static void test_spelling(const struct spelling *s)
{
	static const char orphan[] = "__0_ckptfs-1-00000000000000aa.distcp";
	struct ck_checkpoint *cp;
	unsigned good = 0, files;

	shell("rm -rf %s && python3 -B %s/../../unit/spelled.py %s '%s' && "
	      "sha256sum $(find %s -type f) >%s.sums",
	      dir, sample, dir, s->text, dir, dir);
	files = count_files();
	shell("echo >%s/%s", dir, orphan);
	cp = open_with(s->how);
	ck_writer_close(begin(cp));
	for (uint32_t i = 0; i < cp->catalog->tensors.n; i++) {
		uint64_t len;
		uint8_t *bytes = read_tensor(cp, i, &len);

		good += bytes != NULL;
		free(bytes);
	}
	eq_u64(good, s->how & REFUSED ? 0 : cp->catalog->tensors.n);
	ck_checkpoint_close(cp);
	ok(are_unchanged());
	ok(exists(orphan) == !!(s->how & ORPHAN_STAYS));
	eq_u64(count_files(), files + !!(s->how & ORPHAN_STAYS));
	shell("rm %s.sums", dir);
}

/* Not made by us, whatever they are called. */
static void test_no_file(void)
{
	struct ck_checkpoint *cp;
	unsigned files;

	copy();
	shell("cd %s && mkdir __0_ckptfs-3-0123456789abcdef.distcp && "
	      "ln -s README __1_ckptfs-4-0123456789abcdef.distcp && "
	      "mkfifo .metadata.ckptfs-0123456789abcdef",
	      dir);
	files = count_files();
	cp = open_copy();
	ck_writer_close(begin(cp));
	ck_checkpoint_close(cp);
	eq_u64(count_files(), files);
}

/* A missing file is none of those that are there. */
static void test_missing(void)
{
	struct ck_checkpoint *cp;
	unsigned files;

	copy();
	shell("cd %s && rm __0_0.distcp", dir);
	files = count_files();
	shell("touch %s/__0_ckptfs-3-0123456789abcdef.distcp", dir);
	cp = open_copy();
	ck_writer_close(begin(cp));
	ck_checkpoint_close(cp);
	eq_u64(count_files(), files);
}

/* --- bytes of no use ---------------------------------------------------------------- */

/* A file that .metadata has under two names has its bytes once. */
static void test_dead(void)
{
	struct ck_checkpoint *cp;
	uint64_t dead = 0;

	shell("rm -rf %s && python3 -B %s/../../unit/spelled.py %s TWICE", dir,
	      sample, dir);
	cp = open_copy();
	eq_err(ck_checkpoint_dead(cp, &dead), 0);
	eq_u64(dead, 1000);
	ck_checkpoint_close(cp);
}

int main(int argc, char **argv)
{
	if (argc != 2 || !mkdtemp(dir) || ck_sigbus_install())
		return 2;
	sample = argv[1];
	test_generation(7);
	test_generation(999999999999999999);
	test_generation(UINT64_MAX - 1);
	test_generation(UINT64_MAX);
	for (size_t i = 0; i < CK_ARRAY_SIZE(spellings); i++)
		test_spelling(&spellings[i]);
	test_no_file();
	test_missing();
	test_dead();
	shell("rm -rf %s", dir);
	return tap_done();
}
