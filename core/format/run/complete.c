/* SPDX-License-Identifier: MIT */
/* complete: checks whether a subdirectory of a run directory is a complete step. Called
 * with the lock of the run directory held (ck_run_scan()). */
#include "format/detect.h"
#include "run_internal.h"
#include "run_kind.h"

#include <errno.h>
#include <stdio.h>

static char *path_of(const struct ck_rundir *r, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", r->cp->path, name) < 0 ? NULL : path;
}

static bool is_whole(const struct ck_catalog *c)
{
	for (uint32_t i = 0; i < c->chunks.n; i++)
		if (ck_catalog_item(c, i)->err)
			return false;
	for (uint32_t i = 0; i < c->tensors.n; i++)
		if (ck_catalog_tensor(c, i)->holes)
			return false;
	return true;
}

/* Returns the first loss of the model. Losses of files beside it do not count. */
static const struct ck_loss *first_loss(const struct ck_catalog *c)
{
	for (size_t i = 0; i < c->nlosses; i++)
		if (i < c->beside_loss ||
		    i - c->beside_loss >= c->nbeside_losses)
			return &c->losses[i];
	return NULL;
}

/* Fails with the loss, and the file that has it. */
static int lost(const struct ck_catalog *c, const struct ck_loss *loss,
		struct ck_diag *d)
{
	const char *file = "";

	if (loss->file < c->files.n)
		file = ck_shown("%s: ",
				ck_show(ck_catalog_file(c, loss->file)->path));
	return ck_fail(d, EBADMSG, "%s%.*s", file, (int)loss->what.len,
		       loss->what.p);
}

/* For a format without complete(): the step is complete if it opens without losses. */
static int opens(const struct ck_rundir *r, const char *name, struct ck_diag *d)
{
	ck_auto_free char *path = path_of(r, name);
	struct ck_checkpoint *cp = NULL;
	const struct ck_loss *loss;
	int rc = path ? ck_checkpoint_open(path, &r->options, &cp, d) : -ENOMEM;

	if (rc)
		return rc;
	loss = first_loss(cp->catalog);
	if (loss)
		rc = lost(cp->catalog, loss, d);
	else if (!is_whole(cp->catalog))
		rc = ck_fail(d, EBADMSG, "a file is too short, or is missing");
	ck_checkpoint_close(cp);
	return rc;
}

/* A nested run directory is complete if one of its parts is. */
static int has_parts(const struct ck_rundir *r, const char *name,
		     struct ck_diag *d)
{
	ck_auto_free char *path = path_of(r, name);
	const struct ck_steps *steps;
	struct ck_checkpoint *cp = NULL;
	int rc = path ? ck_checkpoint_open(path, &r->options, &cp, d) : -ENOMEM;

	if (rc)
		return rc;
	rc = ck_checkpoint_run(cp) ? ck_run_steps(ck_checkpoint_run(cp), &steps)
				   : -EAGAIN;
	if (rc == 0) {
		if (steps->nshown == 0)
			rc = ck_fail(d, EBADMSG,
				     "none of its parts is complete");
		ck_steps_put(steps);
	}
	ck_checkpoint_close(cp);
	return rc;
}

static int complete(const struct ck_rundir *r, const struct ck_src *src,
		    const struct ck_format *format, const char *name,
		    struct ck_diag *d)
{
	if (format == &ck_format_run)
		return has_parts(r, name, d);
	return format->complete ? format->complete(src, d) : opens(r, name, d);
}

/* True for the name of a directory of torch_checkpointing before the save ends. Its files may look
 * like those of any kind but DCP. */
static bool is_temporary(const struct ck_format *format, const char *name)
{
	return strncmp(name, "tmp_", 4) == 0 &&
	       strcmp(format->name, "dcp") != 0;
}

int ck_run_judge(struct ck_rundir *r, const char *name, int fd,
		 const struct ck_format **format, char **why)
{
	const struct ck_src src = { .dirfd = fd, .level = r->level };
	const struct ck_kind *kind = NULL;
	struct ck_diag d = { 0 };
	int rc = ck_kind_find(&ck_kinds, &src, &kind, &d);

	*format = rc ? NULL : kind->format;
	*why = NULL;
	if (rc == -ENOENT) {
		rc = ck_kind_unfinished(&ck_kinds, &src, &d);
		if (rc == 0)
			rc = ck_fail(&d, ENOENT, "no checkpoint is in it");
	} else if (rc == 0 && is_temporary(kind->format, name)) {
		rc = ck_fail(&d, EBADMSG,
			     "torch_checkpointing gives this name to a save "
			     "that has not ended");
	} else if (rc == 0) {
		rc = complete(r, &src, kind->format, name, &d);
	}
	if (rc == 0)
		return 0;
	*why = strdup(d.text[0] ? d.text : strerror(-rc));
	return *why ? 0 : -ENOMEM;
}
