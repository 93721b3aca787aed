/* SPDX-License-Identifier: MIT */
/*
 * collect: what a writer removes when it begins, on a copy of a fixture: all
 * that has a name of ours and is not needed, and nothing that is.
 *
 *	collect_test SAMPLE
 */
#include "ckptfs/commit.h"
#include "copy_case.h"

#include <errno.h>
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
	uint64_t len = cp->catalog->tensors[wk].nbytes;
	uint8_t *bytes = malloc(len + 1);
	struct ck_stage *s = NULL;
	struct ck_diag d = { 0 };

	memset(bytes, with, len);
	eq_err(ck_stage_open(w, wk, CK_STAGE_ALL, CK_STAGE_RAW, &s, &d), 0);
	eq_err(ck_stage_write(s, 0, bytes, len, &d), 0);
	eq_err(ck_stage_commit(s, &d), 0);
	ck_stage_close(s);
	free(bytes);
}

/* What takes the place of files of any generation has names of ours, too: when
 * it is not needed any more it goes. */
static void test_generation(uint64_t last)
{
	struct ck_writer_status status;
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
	ck_writer_status(w, &status);
	eq_u64(status.generation,
	       last > UINT64_MAX - 3 ? UINT64_MAX : last + 3);
	ck_writer_close(w);
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
	shell("rm -rf %s", dir);
	return tap_done();
}
