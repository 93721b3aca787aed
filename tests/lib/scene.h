/* SPDX-License-Identifier: MIT */
/* scene: a copy of a fixture that is open for writing, and the expected, staged and
 * committed contents of its tensors.
 */
#ifndef CK_SCENE_H
#define CK_SCENE_H

#include "ckptfs/commit.h"
#include "copy_case.h"
#include "stage_case.h"

static const struct ck_writer_options options = { .keep_unknown = false };
static const char *sample; /* the fixture; set by the test */

/* A checkpoint that is open for writing, and its expected contents. */
struct scene {
	struct ck_checkpoint *cp;
	struct ck_writer *w;
	struct ck_transaction *x; /* with `together` */
	uint8_t **want;
	unsigned files;
};

static uint32_t wk,
	wq; /* of the sample: float32, 16 x 16, by rows from four ranks */

/* What a test begins with; argv has the fixture. False: it cannot. */
static inline bool scenes_prepare(int argc, char **argv)
{
	struct ck_checkpoint *cp;

	if (argc != 2 || !mkdtemp(dir) || ck_sigbus_install())
		return false;
	sample = argv[1];
	shell("rm -rf %s && cp -r %s %s", dir, sample, dir);
	cp = open_copy();
	wk = tensor_named(cp->catalog, "model.layers.0.attention.wk.weight");
	wq = tensor_named(cp->catalog, "model.layers.0.attention.wq.weight");
	ck_checkpoint_close(cp);
	return true;
}

static inline void scene_open(struct scene *s)
{
	static struct ck_diag d;
	uint64_t len;

	*s = (struct scene){ .cp = open_copy() };
	if (!s->cp || ck_writer_open(s->cp, &options, &s->w, &d)) {
		printf("# %s\n", d.text);
		abort();
	}
	s->x = begun(s->w, true);
	s->want = calloc(s->cp->catalog->tensors.n + 1UL, sizeof(*s->want));
	for (uint32_t i = 0; i < s->cp->catalog->tensors.n; i++)
		s->want[i] = read_tensor(s->cp, i, &len);
	s->files = count_files();
}

static inline void scene_begin(struct scene *s)
{
	shell("rm -rf %s && cp -r %s %s", dir, sample, dir);
	scene_open(s);
}

/* All is as it should be, also for who opens the checkpoint now. */
static inline void scene_check(struct scene *s)
{
	struct ck_checkpoint *fresh = open_copy();

	eq_u64(count_wrong(s->cp, s->want), 0);
	eq_u64(fresh ? count_wrong(fresh, s->want) : 1, 0);
	ck_checkpoint_close(fresh);
}

static inline void scene_end(struct scene *s)
{
	unsigned files;

	scene_check(s);
	files = count_files();
	ck_transaction_end(s->x);
	ck_writer_close(s->w);
	eq_u64(count_files(), files);
	for (uint32_t i = 0; i < s->cp->catalog->tensors.n; i++)
		free(s->want[i]);
	free(s->want);
	ck_checkpoint_close(s->cp);
}

/* --- writing -------------------------------------------------------------------- */

static inline struct ck_stage *begin_in(struct ck_transaction *x,
					struct scene *s, uint32_t tensor,
					uint32_t box)
{
	struct ck_stage *stage = NULL;
	static struct ck_diag d;

	if (stage_case_open(x, s->cp, tensor, box, CK_ACCEPTS_RAW, &stage,
			    &d)) {
		printf("# %s\n", d.text);
		abort();
	}
	return stage;
}

static inline uint64_t nbytes(const struct scene *s, uint32_t tensor)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(s->cp);

	return ck_catalog_tensor(c, tensor)->nbytes;
}

static inline uint8_t *filled(uint64_t len, int with)
{
	uint8_t *bytes = malloc(len + 1);

	memset(bytes, with, len);
	return bytes;
}

/* Elements [from, to) in halves of the file, all with one value. */
static inline int put(struct ck_stage *stage, uint64_t from, uint64_t to,
		      int with)
{
	uint8_t *bytes = filled(to - from, with);
	static struct ck_diag d;
	int rc = ck_stage_write(stage, from, bytes, to - from, 1, &d);

	if (rc)
		printf("# %s\n", d.text);
	free(bytes);
	return rc;
}

static inline int keep(struct ck_stage *stage)
{
	struct ck_diag d = { 0 };

	return ck_stage_keep(stage, &d);
}

/* Keeps a tensor in which each byte is `with`. */
static inline void stage_all_in(struct ck_transaction *x, struct scene *s,
				uint32_t tensor, int with)
{
	struct ck_stage *stage = begin_in(x, s, tensor, ALL_BOXES);

	eq_err(put(stage, 0, nbytes(s, tensor), with), 0);
	eq_err(keep(stage), 0);
	eq_i64(ck_stage_state(stage), CK_STAGE_EMPTY);
	ck_stage_close(stage);
}

static inline void expect(struct scene *s, uint32_t tensor, int with)
{
	free(s->want[tensor]);
	s->want[tensor] = filled(nbytes(s, tensor), with);
}

static inline uint32_t staged_in(struct ck_transaction *x)
{
	struct ck_transaction_status status;

	ck_transaction_status(x, &status);
	return status.staged;
}

/* Commits, of n tensors; how many stages are no part of it. */
static inline void commit_in(struct ck_transaction *x, uint32_t n,
			     uint32_t open)
{
	struct ck_outcome out;
	struct ck_diag d = { 0 };

	eq_err(ck_transaction_commit(x, &out, &d), 0);
	eq_u64(out.n, n);
	eq_u64(out.open, open);
	ok(out.published == (n > 0) && !out.lost);
	ck_outcome_fini(&out);
	eq_u64(staged_in(x), 0);
}

#endif
