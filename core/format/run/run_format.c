/* SPDX-License-Identifier: MIT */
/*
 * run_format: the format of a run directory: a checkpoint without tensors, whose steps
 * are checkpoints. Detects it, and opens a step. Its state is a struct ck_rundir in
 * cp->own, which any thread may use.
 */
#include "format/current/current_metadata.h"
#include "run_internal.h"
#include "run_kind.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	OPENS_MOST = 20000, /* most subdirectories opened to find one step */
	FILES_MOST = 256,   /* most data files of a step that stay open */
};

/* --- the kind ---------------------------------------------------------------------- */

struct probe {
	const struct ck_kinds *kinds;
	/* tries formats with is_sure, and nested directories; otherwise the other
	 * formats */
	bool sure;
	unsigned opens;
};

static int below(struct probe *p, int dirfd, unsigned level);

static bool is_step(struct probe *p, int fd, unsigned level)
{
	const struct ck_src src = { .dirfd = fd,
				    .by_search = true,
				    .level = level - 1,
				    .kinds = p->kinds };

	for (size_t i = 0; i < p->kinds->n; i++) {
		const struct ck_kind *kind = &p->kinds->rows[i];

		if (!kind->format && kind->holds(&src, NULL) < 0)
			return false;
		if (kind->format && kind->format != &ck_format_run &&
		    kind->format->is_sure == p->sure &&
		    kind->holds(&src, NULL) > 0)
			return true;
	}
	return p->sure && level > 1 && below(p, fd, level - 1) > 0;
}

static bool entry_is_step(struct probe *p, int dirfd, const struct dirent *e,
			  unsigned level)
{
	ck_auto_fd int fd = -1;

	if (e->d_name[0] == '.' ||
	    (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN) ||
	    p->opens++ >= OPENS_MOST)
		return false;
	fd = ck_open_beneath(dirfd, ck_str_from(e->d_name),
			     O_RDONLY | O_DIRECTORY | O_NONBLOCK,
			     CK_BENEATH_NO_SYMLINKS);
	return fd >= 0 && is_step(p, fd, level);
}

/* Returns 1 if there is a step at most `level` levels below, else 0. */
static int below(struct probe *p, int dirfd, unsigned level)
{
	int fd = ck_open_again(dirfd);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int found = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	while (!found && (e = readdir(dir)))
		found = entry_is_step(p, dirfd, e, level);
	closedir(dir);
	return found;
}

static int probe(const struct ck_src *src, bool sure)
{
	struct probe p = { .kinds = src->kinds, .sure = sure };

	if (src->file || src->level == 0 || !src->kinds)
		return 0;
	return below(&p, src->dirfd, src->level);
}

int ck_run_is_sure(const struct ck_src *src, struct ck_diag *d)
{
	(void)d;
	return probe(src, true);
}

int ck_run_is_here(const struct ck_src *src, struct ck_diag *d)
{
	(void)d;
	return probe(src, false);
}

/* --- the checkpoint ------------------------------------------------------------------ */

struct ck_rundir *ck_checkpoint_run(const struct ck_checkpoint *cp)
{
	return cp->format == &ck_format_run ? cp->own : NULL;
}

/* Makes a path absolute: a daemon has another working directory when it opens steps. */
static int path_keep(const char *path, char **out)
{
	*out = path ? realpath(path, NULL) : NULL;
	return path && !*out ? -errno : 0;
}

static int run_make(struct ck_checkpoint *cp,
		    const struct ck_format_options *options)
{
	struct ck_rundir *r = calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return -ENOMEM;
	pthread_mutex_init(&r->lock, NULL);
	cp->own = r;
	r->cp = cp;
	r->next = 1;
	r->level = CK_RUN_LEVELS - 1 - (unsigned)ck_min(options->in_runs, 1);
	r->options = (struct ck_format_options){
		.shardlinks = options->shardlinks,
		.files_most = FILES_MOST,
		.in_runs = options->in_runs + 1,
	};
	/* The map was read when the run directory was opened; all steps use it. */
	r->options.renames = ck_renames_hold(cp->catalog->listing->renames);
	r->options.selection =
		ck_selection_hold(cp->catalog->listing->selection);
	rc = path_keep(options->linkroot, &r->options.linkroot);
	return rc ? rc : path_keep(options->sidecar, &r->options.sidecar);
}

/* Adds a doubt if no step is shown, with the reason of the first one. */
static int none_note(struct ck_catalog *c, const struct ck_steps *steps)
{
	if (steps->nshown || steps->n == 0)
		return 0;
	return ck_catalog_doubt_add(
		c, ck_shown("run directory: no step is complete; %s: %s",
			    ck_show(ck_str_from(steps->all[0].name)),
			    ck_show(ck_str_from(steps->all[0].why))));
}

static int load(struct ck_checkpoint *cp, struct ck_catalog *c,
		const struct ck_format_options *options,
		const struct ck_fetched_metadata *fetched, struct ck_diag *d)
{
	const struct ck_steps *steps;
	int rc;

	(void)fetched;
	rc = run_make(cp, options);
	if (rc == 0)
		rc = ck_metadata_directory(cp, c);
	if (rc == 0)
		rc = ck_run_steps(cp->own, &steps);
	if (rc)
		return ck_fail(d, -rc, "%s", strerror(-rc));
	rc = none_note(c, steps);
	ck_steps_put(steps);
	return rc ? ck_fail(d, ENOMEM, "out of memory") : 0;
}

static void forget(struct ck_checkpoint *cp)
{
	struct ck_rundir *r = cp->own;

	if (!r)
		return;
	ck_steps_put(r->steps);
	for (size_t i = 0; i < r->n; i++)
		ck_found_fini(&r->found[i]);
	for (size_t i = 0; i < r->nlinks; i++) {
		free(r->links[i].name);
		free(r->links[i].target);
	}
	free(r->found);
	free(r->links);
	free(r->overruled);
	ck_format_options_fini(&r->options);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static uint64_t rank(const struct ck_checkpoint *cp, uint32_t file)
{
	(void)cp, (void)file;
	return CK_NO_RANK;
}

const struct ck_format ck_format_run = {
	.name = "run",
	.has_sidecar = true,
	.suffix = "",
	.rank = rank,
	.load = load,
	.of_one_host = true,
	.forget = forget,
};

/* --- steps ---------------------------------------------------------------------------- */

/* True if cp is the directory that was checked as this step, unchanged. Otherwise the
 * next ck_run_steps() checks it again. */
static bool is_as_found(struct ck_rundir *r, const struct ck_step *step,
			const struct ck_checkpoint *cp)
{
	bool same = false;
	struct stat st;

	if (fstat(cp->dirfd, &st))
		return false;
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < r->n && !same; i++) {
		const struct ck_found *f = &r->found[i];

		same = f->id == step->id && f->ino == st.st_ino &&
		       f->dev == st.st_dev &&
		       f->mtime.tv_sec == st.st_mtim.tv_sec &&
		       f->mtime.tv_nsec == st.st_mtim.tv_nsec;
		if (f->id == step->id && !same)
			r->last_scan = 0; /* the list is no longer fresh */
	}
	pthread_mutex_unlock(&r->lock);
	return same;
}

/* True if data files are missing and the directory has changed within the last second:
 * it is being removed, file by file. A file that is missing later is damage. */
static bool is_being_removed(const struct ck_checkpoint *cp)
{
	struct timespec now;
	struct stat st;
	bool missing = false;

	for (uint32_t i = 0; i < ck_files_count(cp->files) && !missing; i++)
		missing = ck_file_is_missing(ck_files_info(cp->files, i));
	if (!missing || fstat(cp->dirfd, &st))
		return false;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec - st.st_mtim.tv_sec >= 0 &&
	       now.tv_sec - st.st_mtim.tv_sec <= 1;
}

int ck_run_open(struct ck_rundir *r, const struct ck_step *step,
		struct ck_checkpoint **out, struct ck_diag *d)
{
	ck_auto_free char *path = NULL;
	int rc;

	if (asprintf(&path, "%s/%s", r->cp->path, step->name) < 0) {
		path = NULL;
		return ck_fail(d, ENOMEM, "out of memory");
	}
	rc = ck_checkpoint_open(path, &r->options, out, d);
	if (rc == -ENOENT || rc == -ENOTDIR)
		return -EAGAIN;
	if (rc)
		return rc;
	if (!is_as_found(r, step, *out))
		rc = -EAGAIN;
	else if (is_being_removed(*out))
		rc = ck_fail(d, ESTALE, "%s: it is being removed", path);
	if (rc == 0)
		return 0;
	ck_checkpoint_close(*out);
	*out = NULL;
	return rc;
}
