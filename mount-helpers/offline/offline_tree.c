/* SPDX-License-Identifier: MIT */
/*
 * offline_tree: opens a checkpoint and its tree for commands without a mount, and reads its
 * files. On one host a read is synchronous. With several hosts it goes through the streams,
 * which prefetch: `held` counts the segments in flight for a reader. The main thread opens and
 * closes; any thread may read.
 */
#include "offline_tree.h"
#include "cli.h"
#include "cluster.h"
#include "format/run/run.h"
#include <errno.h>
#include <sys/stat.h>

#define LATEST "latest"

/* *src: replaced by the path of the checkpoint on this host. */
static int cluster_start(struct ck_hosts_options *hosts,
			 struct ck_format_options *options, const char **src,
			 struct ck_cluster **out, struct ck_diag *d)
{
	int rc = ck_cluster_start(hosts, options, src, -1, out, d);

	if (rc == 0 && *out)
		ck_hosts_let_wait(ck_cluster_hosts(*out));
	return rc;
}

/* Returns the name of the step that `latest` of a run directory leads to; NULL if there is none.
 * Caller must free it. */
static char *latest_of(const char *run)
{
	struct ck_format_options options = { .shardlinks =
						     CK_BENEATH_NO_SYMLINKS };
	struct ck_checkpoint *cp = NULL;
	const struct ck_steps *steps;
	struct ck_diag d = { 0 };
	char *name = NULL;

	if (ck_checkpoint_open(run, &options, &cp, &d))
		return NULL;
	if (ck_checkpoint_run(cp) &&
	    ck_run_steps(ck_checkpoint_run(cp), &steps) == 0) {
		for (uint32_t i = 0; i < steps->n && !name; i++)
			if (steps->all[i].is_link &&
			    strcmp(steps->all[i].name, LATEST) == 0)
				name = strdup(steps->all[i].target);
		ck_steps_put(steps);
	}
	ck_checkpoint_close(cp);
	return name;
}

/* Reports why SRC cannot be opened. A mount of a run directory has `latest`; the directory itself
 * need not: names the step. */
static int open_failed(const char *src, const struct ck_diag *d)
{
	struct ck_str path = ck_str_from(src);
	ck_auto_free char *run = NULL, *name = NULL;
	struct stat st;

	if (!ck_str_ends(path, CK_STR("/" LATEST)) || lstat(src, &st) == 0 ||
	    errno != ENOENT)
		return ck_trouble("%s", d->text);
	run = strndup(src, path.len - strlen("/" LATEST));
	name = run && *run ? latest_of(run) : NULL;
	if (!name)
		return ck_trouble("%s", d->text);
	return ck_trouble("%s; the newest step is %s/%s", d->text,
			  ck_show(ck_str_from(run)),
			  ck_show(ck_str_from(name)));
}

int ck_source_open(const char *src, struct ck_format_options *options,
		   struct ck_hosts_options *hosts, struct ck_cluster **cluster,
		   struct ck_checkpoint **out)
{
	struct ck_diag d = { 0 };

	if (cluster_start(hosts, options, &src, cluster, &d) ||
	    ck_checkpoint_open(src, options, out, &d))
		return open_failed(src, &d);
	return CK_EXIT_FINE;
}

void ck_source_close(struct ck_cluster *cluster, struct ck_checkpoint *cp)
{
	ck_cluster_end(cluster);
	if (cp)
		ck_checkpoint_close(cp);
}

void ck_source_notes(const char *src, const struct ck_checkpoint *cp)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	for (size_t i = 0; i < c->nnotes; i++)
		if (c->notes[i].doubt)
			(void)ck_trouble("%s: %.*s", ck_show(ck_str_from(src)),
					 (int)c->notes[i].text.len,
					 c->notes[i].text.p);
}

int ck_source_losses(const struct ck_checkpoint *cp)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(cp);

	if (c->nlosses == 0)
		return CK_EXIT_FINE;
	(void)ck_trouble("%s: files and names that cannot be read and are left "
			 "out: %zu; ckptfs check names them",
			 ck_show(ck_str_from(cp->path)), c->nlosses);
	return CK_EXIT_DAMAGE;
}

int ck_source_is_one(const char *src, const struct ck_checkpoint *cp)
{
	struct ck_buf why = { 0 };
	int rc = ck_session_is_one(src, cp, &why);

	if (rc)
		(void)ck_trouble("%s", why.data ? why.data : "out of memory");
	ck_buf_fini(&why);
	if (rc == -EISDIR)
		ck_source_notes(src, cp);
	return rc ? CK_EXIT_TROUBLE : CK_EXIT_FINE;
}

/* --- readers -------------------------------------------------------------------- */

struct ck_reader ck_reader_of(struct ck_offline *u,
			      const struct ck_tree_file *f)
{
	return (struct ck_reader){ .u = u,
				   .file = f,
				   .stream.slice = f->node.number };
}

static int read_here(struct ck_reader *r, struct ck_read *what,
		     ck_stream_taker *take, void *arg)
{
	int rc = ck_session_read(r->file, what->vpos, what->len, what->to);

	if (rc == 0)
		take(arg, &(struct iovec){ what->to, what->len }, 1);
	return rc;
}

int ck_reader_pass(struct ck_reader *r, uint64_t vpos, size_t len, void *room,
		   ck_stream_taker *take, void *arg)
{
	const struct ck_tree_file *f = r->file;
	struct ck_offline *u = r->u;
	struct ck_read what = {
		.from = f->opened, .vpos = vpos, .len = len, .to = room
	};
	int rc = -f->err;

	r->stream.reader = r;
	if (rc == 0)
		rc = u->streams ? ck_stream_pass(u->streams, &u->route,
						 &r->stream, &what, take, arg)
				: read_here(r, &what, take, arg);
	ck_session_count(f, len, rc);
	return rc;
}

void ck_reader_end(struct ck_reader *r)
{
	struct ck_offline *u = r->u;

	if (!u->streams)
		return;
	pthread_mutex_lock(&u->lock);
	while (r->held)
		pthread_cond_wait(&u->changed, &u->lock);
	pthread_mutex_unlock(&u->lock);
}

static void reader_hold(struct ck_stream *s)
{
	struct ck_reader *r = s->reader;

	pthread_mutex_lock(&r->u->lock);
	r->held++;
	pthread_mutex_unlock(&r->u->lock);
}

static void reader_drop(struct ck_stream *s)
{
	struct ck_reader *r = s->reader;
	struct ck_offline *u = r->u;

	pthread_mutex_lock(&u->lock);
	r->held--;
	pthread_cond_broadcast(&u->changed);
	pthread_mutex_unlock(&u->lock);
}

/* Makes the prefetch streams of a checkpoint on several hosts. */
static int streams_make(struct ck_offline *u)
{
	const struct ck_streams_options o = { .route = &u->route,
					      .segment = u->hosts.segment,
					      .cache = u->hosts.cache,
					      .hold = reader_hold,
					      .drop = reader_drop };

	pthread_mutex_init(&u->lock, NULL);
	pthread_cond_init(&u->changed, NULL);
	return ck_streams_make(&o, &u->streams);
}

/* --- the whole -------------------------------------------------------------------- */

static void note(const char *line)
{
	(void)ck_trouble("%s", line);
}

int ck_offline_open(struct ck_offline *u, const char *src)
{
	struct ck_diag d = { 0 };

	ck_log_detach();
	u->s.view.note = note;
	if (cluster_start(&u->hosts, &u->s.options, &src, &u->cluster, &d) ||
	    ck_session_open(&u->s, src, &d))
		return open_failed(src, &d);
	if (u->s.options.rename || u->s.options.only || u->s.options.exclude)
		ck_source_notes(src, u->s.cp);
	ck_route_init(&u->route, u->s.cp->files,
		      ck_cluster_backend(u->cluster));
	if (u->cluster && streams_make(u))
		return ck_trouble("%s: out of memory",
				  ck_show(ck_str_from(src)));
	return CK_EXIT_FINE;
}

void ck_offline_close(struct ck_offline *u)
{
	ck_streams_free(u->streams);
	ck_cluster_end(u->cluster);
	ck_session_close(&u->s);
	ck_hosts_options_fini(&u->hosts);
}

/* --- files ---------------------------------------------------------------------- */

/* Compares the data files of a layout. Empty boxes have no bytes in a file. */
static int check_boxes(struct ck_files *files, const struct ck_layout *l)
{
	uint32_t last = UINT32_MAX;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && l && i < l->n; i++) {
		uint32_t file = l->extents[i].file;

		if (file == last || ck_layout_box_is_empty(l, i))
			continue;
		rc = ck_files_check(files, file, NULL);
		last = file;
	}
	return rc;
}

int ck_offline_check(const struct ck_tree_file *f)
{
	const struct ck_slice *slice = ck_open_slice_slice(f->opened);
	struct ck_files *files = ck_session_files(f);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < slice->nparts; i++) {
		struct ck_part part = ck_slice_part(slice, i);

		if (part.kind == CK_PART_RANGE)
			rc = ck_files_check(files, part.number, NULL);
		else if (part.kind == CK_PART_BOX)
			rc = check_boxes(files,
					 ck_open_slice_known(f->opened, i));
	}
	return rc;
}

const char *ck_path_shown(const char *path)
{
	struct ck_str s = ck_str_from(path);

	if (s.len == 0)
		return ".";
	return ck_str_plain(s) ? path : ck_show(s);
}

int ck_offline_report(const struct ck_node *n, const char *path, int rc)
{
	const char *shown = ck_path_shown(path);
	struct ck_buf why = { 0 };

	if (!ck_session_is_damage(-rc))
		return ck_trouble("%s: %s", shown, strerror(-rc));
	ck_session_fault(n, &why);
	(void)ck_trouble("%s: %s%s%s", shown, strerror(-rc),
			 why.len ? "; " : "", why.len ? why.data : "");
	ck_buf_fini(&why);
	return CK_EXIT_DAMAGE;
}

/* --- directories -------------------------------------------------------------------- */

/* The arguments of ck_offline_copied(). */
struct copied {
	const struct ck_view *in;
	int (*each)(void *arg, struct ck_node *n, const char *name);
	void *arg;
	bool by_views;
};

static int copied_each(void *arg, struct ck_node *n, const char *name)
{
	const struct copied *c = arg;
	const struct ck_view *view = n->dir.view;

	if (n->about.type == CK_TYPE_DIR && view && view != c->in &&
	    (c->by_views ? strcmp(view->top, CK_CONTROL_DIR) == 0
			 : view->is_on_request))
		return 0;
	return c->each(c->arg, n, name);
}

int ck_offline_copied(struct ck_offline *u, uint64_t dir,
		      int (*each)(void *arg, struct ck_node *n,
				  const char *name),
		      void *arg)
{
	struct copied c = { .each = each, .arg = arg, .by_views = u->by_views };
	struct ck_node in;
	int rc = ck_tree_find(u->s.tree, dir, &in);

	c.in = in.dir.view;
	return rc ? rc : ck_session_each(&u->s, dir, copied_each, &c);
}
