/* SPDX-License-Identifier: MIT */
/*
 * client_session: opens a checkpoint and its tree, finds names and reads files, for commands
 * without a mount and for the library. The tree has its own lock; the session itself has no
 * state that changes while it is open.
 */
#include "client_session.h"
#include "format/run/run.h"

#include <errno.h>

int ck_session_open(struct ck_session *s, const char *src, struct ck_diag *d)
{
	int rc = ck_view_files_use(&s->view, &s->template, d);

	if (rc == 0)
		rc = ck_checkpoint_open(src, &s->options, &s->cp, d);
	if (rc)
		return rc;
	s->shown.view = &s->view;
	rc = ck_sigbus_install();
	if (rc == 0)
		rc = ck_root_make(s->cp, ck_views, ck_nviews, &s->shown,
				  &s->root);
	if (rc == 0)
		rc = ck_tree_make(s->root, &s->tree);
	return rc ? ck_fail(d, -rc, "%s: %s", ck_show(ck_str_from(src)),
			    strerrordesc_np(-rc))
		  : 0;
}

void ck_session_close(struct ck_session *s)
{
	ck_tree_free(s->tree);
	ck_root_free(s->root);
	if (s->cp)
		ck_checkpoint_close(s->cp);
	ck_view_files_leave(&s->view, &s->template);
	ck_view_options_fini(&s->view);
	ck_format_options_fini(&s->options);
}

int ck_session_is_one(const char *src, const struct ck_checkpoint *cp,
		      struct ck_buf *why)
{
	struct ck_rundir *run = ck_checkpoint_run(cp);
	const char *shown = ck_show(ck_str_from(src));
	const struct ck_steps *steps;
	size_t n = 0;
	int rc;

	if (!run)
		return 0;
	rc = ck_run_steps(run, &steps);
	if (rc) {
		ck_buf_printf(why, "%s: its steps cannot be listed", shown);
		return rc;
	}
	ck_buf_printf(why, "%s: a run directory", shown);
	for (uint32_t i = 0; i < steps->nshown; i++)
		if (!steps->all[i].is_link)
			ck_buf_printf(why, "%s%s",
				      n++ ? ", " : "; give one of its steps: ",
				      steps->all[i].stem);
	if (n == 0)
		ck_buf_text(why, " of which no step is complete");
	ck_steps_put(steps);
	return -EISDIR;
}

/* --- names ---------------------------------------------------------------------- */

int ck_session_use(struct ck_session *s, uint64_t in, bool follow,
		   struct ck_node *n)
{
	struct ck_buf target = { 0 };
	int rc = 0;

	if (follow && n->about.type == CK_TYPE_LINK) {
		rc = ck_tree_link(n, &target);
		if (rc == 0)
			rc = ck_tree_name(
				s->tree, in,
				(struct ck_str){ target.data, target.len }, n);
	}
	ck_buf_fini(&target);
	return rc ? rc : ck_tree_use(s->tree, n);
}

/* Replaces *n, which is in use, by the node of a name in it. */
static int step(struct ck_session *s, struct ck_str name, bool follow,
		struct ck_node *n)
{
	uint64_t in = n->number;
	int rc = n->about.type == CK_TYPE_DIR ? 0 : -ENOTDIR;

	if (rc == 0)
		rc = ck_tree_name(s->tree, in, name, n);
	if (rc == 0)
		rc = ck_session_use(s, in, follow, n);
	ck_tree_forget(s->tree, in, 1);
	return rc;
}

int ck_session_find(struct ck_session *s, const char *path, bool follow_last,
		    struct ck_node *out)
{
	int rc = ck_tree_find(s->tree, CK_TREE_ROOT, out);

	if (rc == 0)
		rc = ck_tree_use(s->tree, out);
	while (rc == 0 && *(path += strspn(path, "/"))) {
		struct ck_str name = { path, strcspn(path, "/") };

		path += name.len;
		if (ck_str_is(name, "..")) {
			ck_tree_forget(s->tree, out->number, 1);
			rc = -EINVAL;
		} else if (!ck_str_is(name, ".")) {
			rc = step(s, name, *path || follow_last, out);
		}
	}
	return rc;
}

int ck_session_each(struct ck_session *s, uint64_t dir,
		    int (*each)(void *arg, struct ck_node *n, const char *name),
		    void *arg)
{
	struct ck_buf name = { 0 };
	struct ck_tree_list *list;
	struct ck_node n;
	int rc = ck_tree_list(s->tree, dir, &list);

	if (rc)
		return rc;
	for (uint64_t at = 0; rc == 0; at++) {
		rc = ck_tree_list_next(list, &at, &n, &name);
		if (rc == 0)
			rc = each(arg, &n, name.data);
	}
	ck_tree_list_end(list);
	ck_buf_fini(&name);
	return rc == -ENOENT ? 0 : rc;
}

/* --- files ---------------------------------------------------------------------- */

int ck_session_file(struct ck_session *s, const struct ck_node *n,
		    struct ck_tree_file *out)
{
	int rc;

	*out = (struct ck_tree_file){ .node = *n };
	rc = ck_tree_pin(s->tree, n, &out->catalog);
	return rc ? rc : ck_tree_file_open(out);
}

uint64_t ck_session_size(const struct ck_tree_file *f)
{
	return f->opened ? ck_open_slice_slice(f->opened)->size : 0;
}

struct ck_files *ck_session_files(const struct ck_tree_file *f)
{
	return ck_root_checkpoint(f->node.dir.root)->files;
}

void ck_session_count(const struct ck_tree_file *f, size_t len, int rc)
{
	if (f->node.about.topic != CK_FILE_KIND_CHECKPOINT)
		ck_stats_answered(ck_files_stats(ck_session_files(f)), len, rc);
}

int ck_session_read(const struct ck_tree_file *f, uint64_t vpos, size_t len,
		    void *to)
{
	struct ck_read what = {
		.from = f->opened, .vpos = vpos, .len = len, .to = to
	};

	return f->err ? -f->err : ck_host_read(ck_session_files(f), &what);
}

bool ck_session_is_damage(int err)
{
	return err == EIO || err == ENODATA || err == EBADMSG || err == ESTALE;
}

void ck_session_fault(const struct ck_node *n, struct ck_buf *out)
{
	struct ck_buf why = { 0 };
	struct ck_str line;
	struct ck_cur at;

	if (ck_tree_xattr(n, CK_XATTR_PREFIX "error", NULL, &why))
		why.len = 0;
	at = ck_cur_make(why.data, why.len);
	if (!ck_cur_line(&at, &line))
		line = (struct ck_str){ why.data, why.len };
	ck_buf_str(out, line);
	ck_buf_fini(&why);
}
