/* SPDX-License-Identifier: MIT */
/*
 * picked_source: opens a checkpoint on this host or on several, and describes tensors that
 * cannot be read. The state is that of the struct.
 */
#include "picked_source.h"
#include "cli.h"
#include "cluster.h"
#include "format/run/run.h"
#include "offline_tree.h"
#include <stdio.h>
#include <unistd.h>

int ck_picked_source_open(struct ck_picked_source *s, const char *src,
			  struct ck_format_options *options,
			  struct ck_hosts_options *hosts, char *const *patterns,
			  size_t n)
{
	struct ck_checkpoint *cp = NULL;
	int rc = ck_source_open(src, options, hosts, &s->cluster, &cp);

	s->from.cp = cp;
	if (rc == 0 && !(s->takes_run && ck_checkpoint_run(cp)))
		rc = ck_source_is_one(src, cp);
	if (rc)
		return rc;
	ck_log_detach(); /* the command reports what cannot be read */
	if (options->rename || options->only || options->exclude)
		ck_source_notes(src, cp);
	s->losses = ck_source_losses(cp);
	ck_route_init(&s->route, cp->files, ck_cluster_backend(s->cluster));
	s->from.route = s->cluster ? &s->route : NULL;
	s->from.c = ck_checkpoint_catalog(cp);
	return ck_pick(s->from.c, patterns, n, &s->picked)
		       ? ck_trouble("out of memory")
		       : CK_EXIT_FINE;
}

void ck_picked_source_close(struct ck_picked_source *s)
{
	ck_picked_fini(&s->picked);
	if (s->from.c)
		ck_route_fini(&s->route);
	ck_catalog_put(s->from.c);
	ck_source_close(s->cluster, s->from.cp);
}

/* --- files -------------------------------------------------------------------------- */

static bool is_at(int dirfd, const char *path, const struct stat *what)
{
	struct stat st;

	return path && fstatat(dirfd, path, &st, 0) == 0 &&
	       st.st_dev == what->st_dev && st.st_ino == what->st_ino;
}

bool ck_picked_source_reads(const struct ck_picked_source *s,
			    const struct stat *what)
{
	const struct ck_checkpoint *cp = s->from.cp;

	if (is_at(cp->dirfd, cp->file, what) ||
	    is_at(cp->dirfd, ck_metadata_name(cp), what))
		return true;
	for (uint32_t i = 0; i < s->from.c->files.n; i++) {
		struct ck_str path = ck_catalog_file(s->from.c, i)->path;
		ck_auto_free char *text = strndup(path.p, path.len);

		if (is_at(cp->dirfd, text, what))
			return true;
	}
	return false;
}

/* --- faults ------------------------------------------------------------------------- */

static bool has_fault(const struct ck_picked_source *s,
		      const struct ck_layout *layout, uint32_t tensor,
		      struct ck_fault *out)
{
	const struct ck_tensor *t = ck_catalog_tensor(s->from.c, tensor);

	if (ck_catalog_tensor_has_fault(s->from.c, t, out))
		return true;
	for (uint32_t i = 0; i < t->nchunks; i++)
		if (ck_box_has_fault(s->from.cp, s->from.c, layout, tensor, i,
				     out))
			return true;
	return false;
}

void ck_picked_source_fault(const struct ck_picked_source *s, uint32_t tensor,
			    int err, struct ck_buf *out)
{
	const struct ck_layout *layout = ck_layout_known(s->from.cp, s->from.c,
							 tensor);
	struct ck_fault f = { 0 };

	if (!has_fault(s, layout, tensor, &f) || !f.err)
		f = (struct ck_fault){
			.name = ck_tensor_names(s->from.c, tensor).name,
			.err = err,
			.what = CK_STR("its bytes cannot be read"),
		};
	ck_fault_print(&f, true, out);
	if (layout)
		ck_layout_put(s->from.cp, layout);
}

/* --- progress ------------------------------------------------------------------------- */

static int never(void)
{
	return 0;
}

void ck_pass_progress_begin(struct ck_progress *p, uint64_t total)
{
	ck_progress_init(p, never);
	if (isatty(STDERR_FILENO))
		ck_progress_begin(p, total);
}

void ck_pass_progress_add(void *arg, uint64_t bytes)
{
	ck_progress_add(arg, bytes);
}

void ck_pass_progress_end(struct ck_progress *p)
{
	ck_progress_end(p);
	ck_progress_fini(p);
}
