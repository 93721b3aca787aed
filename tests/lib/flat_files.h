/* SPDX-License-Identifier: MIT */
/*
 * flat_files: files of ranks, `<stem>_0.pt` and on, whose storages a test fills, and a sidecar
 * beside them, in the directory of torch_dir.h.
 */
#ifndef CK_FLAT_FILES_H
#define CK_FLAT_FILES_H

#include "torch_dir.h"

enum { MOST = 24, PADDING = 0xabababab };

/* --- files -------------------------------------------------------------------- */

/* The file of a rank: words of torch_case.h, and what its storages hold. */
struct file {
	char name[32];
	struct ck_buf words, stored[200];
	unsigned n;
	bool lost;
};

static struct file files[MOST];
static unsigned nfiles;

/* Files `<stem>_0.pt` and on. */
static inline void files_begin(const char *stem, unsigned n)
{
	memset(files, 0, sizeof(files));
	nfiles = n;
	for (unsigned r = 0; r < n; r++)
		(void)snprintf(files[r].name, sizeof(files[r].name), "%s_%u.pt",
			       stem, r);
}

static inline void say(struct file *f, const char *words)
{
	ck_buf_printf(&f->words, " %s", words);
}

/* A tensor of one dimension; dims: or of these, as torch_case.h has them. */
static inline void put(struct file *f, const uint32_t *v, unsigned n,
		       const char *dims)
{
	if (f->n == CK_ARRAY_SIZE(f->stored))
		abort();
	for (unsigned i = 0; i < n; i++)
		iw_put(&f->stored[f->n], v[i], 4);
	ck_buf_printf(&f->words, " +%u:%u%s", f->n++, n, dims);
}

static inline void put_one(struct file *f, uint32_t v)
{
	put(f, &v, 1, ":0::");
}

static inline void file_write(const struct file *f)
{
	struct torch_case c = { .old = false };
	struct iw *w = iw_make();
	char name[32];

	tc_pickle(&c, f->words.data);
	iw_record(w, "data.pkl", (struct ck_str){ c.b.data, c.b.len });
	iw_record(w, "byteorder", CK_STR("little"));
	for (unsigned i = 0; i < f->n; i++) {
		(void)snprintf(name, sizeof(name), "data/%u", i);
		iw_record(
			w, name,
			(struct ck_str){ f->stored[i].data, f->stored[i].len });
	}
	iw_record(w, "version", CK_STR("3\n"));
	iw_finish(w);
	tc_put(f->name, w->out);
	w->out = (struct ck_buf){ 0 };
	iw_free(w);
	ck_buf_fini(&c.b);
}

static inline void files_write(void)
{
	for (unsigned r = 0; r < nfiles; r++)
		if (!files[r].lost)
			file_write(&files[r]);
}

static inline void files_end(void)
{
	for (unsigned r = 0; r < nfiles; r++) {
		unlinkat(tc_dirfd, files[r].name, 0);
		ck_buf_fini(&files[r].words);
		for (unsigned i = 0; i < files[r].n; i++)
			ck_buf_fini(&files[r].stored[i]);
	}
	unlinkat(tc_dirfd, "ckptfs-flat.json", 0);
	nfiles = 0;
}

/* --- the sidecar --------------------------------------------------------------- */

/* units and optimizers: without their brackets. */
static inline void side_put(unsigned world, const char *units,
			    const char *optimizers)
{
	struct ck_buf b = { 0 };

	ck_buf_text(&b, "{\"format\":\"ckptfs-flat\",\"version\":1,");
	if (world)
		ck_buf_printf(&b, "\"world_size\":%u,", world);
	ck_buf_text(&b, "\"units\":[");
	ck_buf_text(&b, units);
	ck_buf_text(&b, "],\"optimizers\":[");
	ck_buf_text(&b, optimizers);
	ck_buf_text(&b, "]}");
	tc_put("ckptfs-flat.json", b);
}

/* 21 elements: w of 3 rows at 0, a gap, b at 13, and 3 more. */
#define UNIT_AT(name, w, b)                                                    \
	"{\"flat_param\":\"" name "\",\"numel\":21,\"params\":["               \
	"{\"fqn\":\"" w "\",\"shape\":[3,4],\"offset\":0},"                    \
	"{\"fqn\":\"" b "\",\"shape\":[5],\"offset\":13}]}"
#define UNIT UNIT_AT("_flat_param", "w", "b")

#endif
