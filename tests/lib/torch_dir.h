/* SPDX-License-Identifier: MIT */
/*
 * torch_dir: writes files of torch.save into a directory, and compares their dump.
 * Values are as in torch_case.h. Storages are words: `k:6` has six elements of four
 * bytes; `k:6/4` declares six elements and contains four. The bytes of all storages
 * of a file count from 1.
 */
#ifndef CK_TORCH_DIR_H
#define CK_TORCH_DIR_H

#include "ckptfs/format.h"
#include "model/catalog/fault.h"
#include "tap.h"
#include "torch_case.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- storages ---------------------------------------------------------------- */

struct tc_stored {
	char key[64];
	unsigned long says, there; /* elements */
};

/* Parses the next word. False at the end. */
static inline bool tc_stored_next(const char **text, struct tc_stored *out)
{
	int n = 0;

	*out = (struct tc_stored){ 0 };
	if (sscanf(*text, " %63[^: ]:%lu%n", out->key, &out->says, &n) < 2)
		return false;
	*text += n;
	out->there = out->says;
	if (**text == '/') {
		char *end;

		out->there = strtoul(*text + 1, &end, 10);
		*text = end;
	}
	return true;
}

static inline void tc_fill(struct ck_buf *b, unsigned long n, unsigned *next)
{
	for (unsigned long i = 0; i < 4 * n; i++)
		iw_put(b, ++*next & 0xff, 1);
}

/* A legacy container (before 1.6) of that pickle. order: keys as a pickle; NULL: the keys
 * of the storages. */
static inline struct ck_buf tc_legacy_of(struct ck_str value,
					 const char *storages,
					 const char *order)
{
	struct torch_case c = { .old = true };
	struct ck_buf keys = { 0 };
	struct tc_stored s;
	unsigned next = 0;

	ck_buf_add(&c.b, "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", 15);
	tc_pickle(&c, "1001");
	tc_pickle(&c, "{ ( 'protocol_version 1001 'little_endian T u");
	ck_buf_str(&c.b, value);
	ck_buf_text(&keys, "[ (");
	for (const char *p = storages; tc_stored_next(&p, &s);)
		ck_buf_printf(&keys, " '%s", s.key);
	ck_buf_text(&keys, " e");
	tc_pickle(&c, order ? order : keys.data);
	for (const char *p = storages; tc_stored_next(&p, &s);) {
		iw_put(&c.b, s.says, 8);
		tc_fill(&c.b, s.there, &next);
	}
	ck_buf_fini(&keys);
	return c.b;
}

static inline struct ck_buf tc_legacy(const char *value, const char *storages,
				      const char *order)
{
	struct torch_case c = { .old = true };
	struct ck_buf all;

	tc_pickle(&c, value);
	all = tc_legacy_of((struct ck_str){ c.b.data, c.b.len }, storages,
			   order);
	ck_buf_fini(&c.b);
	return all;
}

/* The zip container (since 1.6). */
static inline struct ck_buf tc_zip_of(struct ck_str value, const char *storages)
{
	struct iw *w = iw_make();
	struct tc_stored s;
	unsigned next = 0;
	struct ck_buf out;

	iw_record(w, "data.pkl", value);
	iw_record(w, "byteorder", CK_STR("little"));
	for (const char *p = storages; tc_stored_next(&p, &s);) {
		struct ck_buf bytes = { 0 };
		char name[80];

		(void)snprintf(name, sizeof(name), "data/%s", s.key);
		tc_fill(&bytes, s.there, &next);
		iw_record(w, name, (struct ck_str){ bytes.data, bytes.len });
		ck_buf_fini(&bytes);
	}
	iw_record(w, "version", CK_STR("3\n"));
	iw_finish(w);
	out = w->out;
	w->out = (struct ck_buf){ 0 };
	iw_free(w);
	return out;
}

static inline struct ck_buf tc_zip(const char *value, const char *storages)
{
	struct torch_case c = { .old = false };
	struct ck_buf all;

	tc_pickle(&c, value);
	all = tc_zip_of((struct ck_str){ c.b.data, c.b.len }, storages);
	ck_buf_fini(&c.b);
	return all;
}

/* --- checkpoints --------------------------------------------------------------------------------- */

static char tc_dir[64];
static int tc_dirfd;

static inline void tc_put(const char *name, struct ck_buf bytes)
{
	int fd = openat(tc_dirfd, name,
			O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);

	if (fd < 0 || bytes.err || ck_write_full(fd, bytes.data, bytes.len))
		abort();
	close(fd);
	ck_buf_fini(&bytes);
}

static inline void tc_put_text(const char *name, const char *text)
{
	struct ck_buf b = { 0 };

	ck_buf_text(&b, text);
	tc_put(name, b);
}

static const char *const tc_made[] = {
	"model.pt",
	"model.bin",
	"optimizer.pt",
	"a.pt",
	"p-00001-of-00002.bin",
	"p-00002-of-00002.bin",
	"pytorch_model.bin.index.json",
	"x.bin.index.json",
	"lord-of-rings-1-of-2.bin",
	"pytorch_model.bin",
};

static inline void tc_clear(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(tc_made); i++)
		unlinkat(tc_dirfd, tc_made[i], 0);
}

static inline int tc_open_it(const char *name, struct ck_checkpoint **cp,
			     struct ck_diag *d)
{
	static const struct ck_format_options options = { 0 };
	char path[128];

	*d = (struct ck_diag){ 0 };
	*cp = NULL;
	(void)snprintf(path, sizeof(path), "%s%s%s", tc_dir, *name ? "/" : "",
		       name);
	return ck_checkpoint_open(path, &options, cp, d);
}

/* Compares the dump of a file without its first line. */
static inline void tc_shows(const char *name, const char *want)
{
	struct ck_checkpoint *cp;
	struct ck_buf dump = { 0 };
	struct ck_diag d;
	const char *rest;

	if (!ok(tc_open_it(name, &cp, &d) == 0)) {
		printf("# %s\n", d.text);
		return;
	}
	eq_text(ck_checkpoint_kind(cp), "torch");
	ck_catalog_dump(cp->catalog, &dump);
	rest = strchr(dump.data, '\n');
	eq_text(rest ? rest + 1 : "", want);
	ck_buf_fini(&dump);
	ck_checkpoint_close(cp);
	tc_clear();
}

static inline void tc_refused(const char *name, const char *words)
{
	struct ck_checkpoint *cp;
	struct ck_diag d;

	eq_err(tc_open_it(name, &cp, &d), -EBADMSG);
	if (!ok(strstr(d.text, words) != NULL))
		printf("# %.400s\n", d.text);
	ck_checkpoint_close(cp);
	tc_clear();
}

/* Prefers a directory in memory: some disks discard the blocks of a file each time it is
 * rewritten. */
static inline void tc_begin(void)
{
	(void)snprintf(tc_dir, sizeof(tc_dir), "%s/ckptfs-torch-XXXXXX",
		       access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
	if (!mkdtemp(tc_dir))
		abort();
	tc_dirfd = open(tc_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static inline void tc_remove(void)
{
	tc_clear();
	close(tc_dirfd);
	rmdir(tc_dir);
}

static inline int tc_end(void)
{
	tc_remove();
	return tap_done();
}

#endif
