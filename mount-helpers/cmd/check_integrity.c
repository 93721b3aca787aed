/* SPDX-License-Identifier: MIT */
/*
 * check_integrity: the calling thread parses integrity.json and adds the findings. Worker threads,
 * one of them the calling one, take files in the order of their names and hash them. Under the
 * lock: the next file, and the first error.
 */
#include "check_integrity.h"
#include "base/system/process.h"
#include "base/system/sha256.h"
#include "picked_source.h"
#include "syntax/json_reader.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME "integrity.json"

enum {
	TEXT_MOST = 64 << 20,
	PIECE = 256 << 10, /* stays in the cache between read and hash */
	THREADS_MOST = 16,
};

struct file {
	struct ck_str name, expected; /* owned by the reader */
	int err;		      /* positive errno of reading it */
	char found[CK_SHA256_HEX];
};

struct integrity {
	/* Constant once there are several threads: */
	const struct ck_checkpoint *cp;
	enum ck_beneath links;
	struct ck_json_reader json;
	bool is_sha256;
	struct file *files;
	size_t n, cap;
	struct ck_progress progress;
	pthread_mutex_t lock;
	/* Under lock: */
	size_t next;
	int rc; /* first shortage of this process */
};

/* --- the text ------------------------------------------------------------------------- */

static int file_take(struct integrity *g, const struct ck_json_value *v)
{
	struct file *files;

	if (v->type != CK_JSON_STRING)
		return ck_json_refuse(&g->json, v, "expected a SHA-256");
	files = ck_grow(g->files, &g->cap, g->n, 1, sizeof(*files));
	if (!files)
		return -ENOMEM;
	g->files = files;
	files[g->n++] = (struct file){ .name = v->key, .expected = v->text };
	return 0;
}

static int files_take(struct integrity *g, const struct ck_json_value *all)
{
	struct ck_json_value v;
	int rc = 0;

	if (all->type != CK_JSON_OBJECT)
		return ck_json_refuse(&g->json, all, "expected an object");
	while (rc == 0 && (rc = ck_json_next(&g->json, &v)) == 0 &&
	       v.type != CK_JSON_END)
		rc = file_take(g, &v);
	return rc;
}

static int text_take(struct integrity *g)
{
	struct ck_json_value v, top;
	bool found = false;
	int rc = ck_json_next(&g->json, &top);

	if (rc == 0 && top.type != CK_JSON_OBJECT)
		return ck_json_refuse(&g->json, &top, "expected an object");
	while (rc == 0 && (rc = ck_json_next(&g->json, &v)) == 0 &&
	       v.type != CK_JSON_END) {
		if (ck_str_is(v.key, "algorithm"))
			g->is_sha256 = v.type == CK_JSON_STRING &&
				       ck_str_is(v.text, "sha256");
		found |= ck_str_is(v.key, "files");
		rc = ck_str_is(v.key, "files") ? files_take(g, &v)
					       : ck_json_skip(&g->json, &v);
	}
	if (rc == 0)
		rc = ck_json_next(&g->json, &v); /* the end of the text */
	if (rc == 0 && !found)
		rc = ck_json_refuse(&g->json, &top, "no member \"files\"");
	return rc;
}

/* --- files ---------------------------------------------------------------------------- */

static int fd_hash(struct integrity *g, int fd, void *piece,
		   struct ck_sha256 *h)
{
	ssize_t n;

	while ((n = read(fd, piece, PIECE)) > 0 || (n < 0 && errno == EINTR)) {
		int rc = n > 0 ? ck_sha256_add(h, piece, (size_t)n) : 0;

		if (rc)
			return rc;
		if (n > 0)
			ck_progress_add(&g->progress, (uint64_t)n);
	}
	return n < 0 ? -errno : 0;
}

/* Returns 0, or a negative errno of this file or of this process. */
static int file_hash(struct integrity *g, struct file *f, void *piece)
{
	ck_auto_fd int fd = ck_open_beneath(g->cp->dirfd, f->name,
					    O_RDONLY | O_NONBLOCK | O_NOCTTY,
					    g->links);
	struct ck_sha256 *h = NULL;
	struct stat st;
	int rc = fd < 0 ? fd : 0;

	if (rc == 0 && fstat(fd, &st))
		rc = -errno;
	if (rc == 0 && !S_ISREG(st.st_mode))
		rc = -EISDIR;
	if (rc == 0)
		rc = ck_sha256_make(&h, NULL);
	if (rc == 0)
		rc = fd_hash(g, fd, piece, h);
	if (rc == 0)
		rc = ck_sha256_hex(h, f->found);
	ck_sha256_free(h);
	return rc;
}

/* Takes the next file; NULL if all are taken. */
static struct file *file_next(struct integrity *g, int rc)
{
	struct file *f = NULL;

	pthread_mutex_lock(&g->lock);
	if (ck_is_shortage(rc))
		g->rc = rc;
	if (g->rc == 0 && g->next < g->n)
		f = &g->files[g->next++];
	pthread_mutex_unlock(&g->lock);
	return f;
}

static void *work(void *arg)
{
	struct integrity *g = arg;
	void *piece = malloc(PIECE);
	struct file *f;
	int rc = piece ? 0 : -ENOMEM;

	while ((f = file_next(g, rc))) {
		rc = file_hash(g, f, piece);
		f->err = -rc;
	}
	free(piece);
	return NULL;
}

static uint64_t bytes_of(const struct integrity *g)
{
	uint64_t sum = 0;
	struct stat st;

	for (size_t i = 0; i < g->n; i++) {
		ck_auto_fd int fd = ck_open_beneath(
			g->cp->dirfd, g->files[i].name, O_PATH, g->links);

		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
			sum += (uint64_t)st.st_size;
	}
	return sum;
}

static void run_threads(struct integrity *g)
{
	size_t n = ck_min(ck_processors(), THREADS_MOST);

	pthread_mutex_init(&g->lock, NULL);
	ck_pass_progress_begin(&g->progress, bytes_of(g));
	ck_workers_run((unsigned)ck_min(n, g->n), work, g, 0);
	ck_pass_progress_end(&g->progress);
	pthread_mutex_destroy(&g->lock);
}

/* --- findings ------------------------------------------------------------------------- */

static int warn(struct ck_findings *out, const char *why)
{
	struct ck_buf what = { 0 };
	struct ck_fault f = { .file = CK_STR(NAME),
			      .kind = "integrity",
			      .is_warning = true };
	int rc;

	ck_buf_printf(&what, "the files are not compared with " NAME ": %s",
		      why);
	f.what = (struct ck_str){ what.data, what.len };
	rc = what.err ? what.err : ck_findings_add(out, &f);
	ck_buf_fini(&what);
	return rc;
}

static int file_report(const struct file *f, struct ck_findings *out)
{
	/* The names in the text end before the findings are printed. */
	struct ck_str name = ck_arena_copy(&out->arena, f->name);
	struct ck_str expected = ck_arena_copy(&out->arena, f->expected);
	struct ck_fault fault = { .file = name,
				  .kind = "integrity",
				  .err = f->err,
				  .what = CK_STR("in " NAME
						 ", but cannot be read") };

	if (!name.p || !expected.p)
		return -ENOMEM;
	if (f->err == 0 && expected.len == strlen(f->found) &&
	    strcasecmp(expected.p, f->found) == 0)
		return 0;
	if (f->err == 0) {
		fault.what = CK_STR("its SHA-256 is not that of " NAME);
		fault.expected = ck_shown("%s", ck_show(expected));
		fault.found = f->found;
	}
	return ck_findings_add(out, &fault);
}

static int compare(struct integrity *g, struct ck_findings *out)
{
	struct ck_sha256 *h = NULL;
	struct ck_diag d = { 0 };
	int rc = ck_sha256_make(&h, &d);

	ck_sha256_free(h);
	if (rc == -ELIBACC)
		return warn(out, d.text);
	if (rc)
		return rc;
	run_threads(g);
	rc = g->rc;
	for (size_t i = 0; i < g->n && rc == 0; i++)
		rc = file_report(&g->files[i], out);
	ck_findings_sort(out);
	return rc;
}

static int check_text(struct integrity *g, struct ck_str text,
		      struct ck_findings *out)
{
	struct ck_diag d = { 0 };
	int rc;

	ck_json_reader_init(&g->json, text, &d);
	rc = text_take(g);
	if (rc == -EBADMSG)
		rc = warn(out, d.text);
	else if (rc == 0 && !g->is_sha256)
		rc = warn(out, "unknown algorithm; known is sha256");
	else if (rc == 0)
		rc = compare(g, out);
	ck_json_reader_fini(&g->json);
	free(g->files);
	return rc;
}

static int check_fd(struct ck_checkpoint *cp, int fd, enum ck_beneath links,
		    struct ck_findings *out)
{
	struct integrity *g = calloc(1, sizeof(*g));
	struct ck_buf text = { 0 };
	int rc = g ? ck_read_all(fd, TEXT_MOST, &text) : -ENOMEM;

	if (rc == 0) {
		g->cp = cp;
		g->links = links;
		g->is_sha256 = true;
		rc = check_text(g, (struct ck_str){ text.data, text.len }, out);
	} else if (!ck_is_shortage(rc)) {
		rc = warn(out, strerrordesc_np(-rc));
	}
	ck_buf_fini(&text);
	free(g);
	return rc;
}

int ck_check_integrity(struct ck_checkpoint *cp, enum ck_beneath links,
		       struct ck_findings *out)
{
	ck_auto_fd int fd = -1;

	if (cp->file)
		return 0;
	fd = ck_open_beneath(cp->dirfd, CK_STR(NAME),
			     O_RDONLY | O_NONBLOCK | O_NOCTTY, links);
	if (fd == -ENOENT || ck_is_shortage(fd))
		return fd == -ENOENT ? 0 : fd;
	if (cp->elsewhere)
		return warn(out, "files are on several hosts");
	return fd < 0 ? warn(out, strerrordesc_np(-fd))
		      : check_fd(cp, fd, links, out);
}
