/* SPDX-License-Identifier: MIT */
/*
 * check: verifies all items of a checkpoint without a mount and reports each fault, as a line
 * or as JSON. The exit status is CK_EXIT_DAMAGE if there are faults; warnings do not change
 * it. The main thread prints; ck_checkpoint_check() reads in THREADS threads.
 */
#include "check_digests.h"
#include "check_integrity.h"
#include "ckptfs/format.h"
#include "ckptfs/io.h"
#include "ckptfs/json.h"
#include "ckptfs/tree.h"
#include "ckptfs/view.h"
#include "cluster.h"
#include "commands.h"
#include "format/warnings.h"
#include "offline_tree.h"
#include "picked_source.h"
#include "report/manifest.h"
#include "tree/reports/replicas.h"
#include "view/state_warn.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Checksums are faster than most disks. While some threads compute, the others keep the
 * disk busy. */
enum { THREADS = 4 };

enum { CLASSES = 64 }; /* unknown classes printed as text; JSON has all */

struct checking {
	bool full, json;
	struct ck_format_options options;
	struct ck_hosts_options hosts;
	struct ck_view_options view;  /* only `manifest` is used */
	struct ck_manifest *expected; /* its content, or NULL */
	const char *digests;	      /* of --digests, or NULL */
	struct ck_buf digests_text;   /* the content of that file */
	struct ck_progress progress;  /* of the items */
	bool begun;		      /* `progress` */
	uint64_t done;		      /* that `progress` has */
	uint64_t dead;		      /* unreferenced bytes, if dead_known */
	bool dead_known;
};

/* --- progress ------------------------------------------------------------- */

/* Without --full only headers are read: items tell how far it is. */
static void items_progress(void *arg, const struct ck_check_progress *p)
{
	struct checking *k = arg;
	uint64_t done = k->full ? p->bytes : p->items;

	if (!k->begun) {
		k->begun = true;
		k->progress.counts_items = !k->full;
		ck_pass_progress_begin(&k->progress, k->full ? p->bytes_total
							     : p->items_total);
	}
	ck_progress_add(&k->progress, done - k->done);
	k->done = done;
}

static int replicas_check(const struct checking *k, struct ck_checkpoint *cp,
			  struct ck_route *route, struct ck_findings *out)
{
	struct ck_progress progress = { .counts_items = true };
	const struct ck_replicas_options o = {
		.full = k->full,
		.progress = ck_pass_progress_add,
		.arg = &progress,
	};
	int rc;

	ck_pass_progress_begin(&progress, ck_shown_tensors(out->catalog));
	rc = ck_replicas_check(cp, route, &o, out);
	ck_pass_progress_end(&progress);
	return rc;
}

/* --- findings ------------------------------------------------------------- */

static void field(struct ck_buf *out, const char *before, struct ck_str s)
{
	ck_buf_text(out, before);
	if (s.p)
		ck_buf_json_str(out, s);
	else
		ck_buf_text(out, "null");
}

static struct ck_str text_of(const char *text)
{
	return text ? ck_str_from(text) : (struct ck_str){ 0 };
}

/* hosts: the checkpoint is on several hosts; adds the member `host`. */
static void print_finding(const struct ck_fault *f, bool hosts, bool is_warning,
			  struct ck_buf *out)
{
	const char *err = f->err ? strerrorname_np(f->err) : NULL;

	field(out, "{\"fqn\":", f->name);
	field(out, ",\"file\":", f->file);
	if (f->file.p && f->has_pos)
		ck_buf_printf(out, ",\"pos\":%" PRIu64, f->pos);
	else
		ck_buf_text(out, ",\"pos\":null");
	if (hosts)
		field(out, ",\"host\":", text_of(f->host));
	if (is_warning)
		ck_buf_text(out, ",\"severity\":\"warning\"");
	if (f->kind)
		field(out, ",\"kind\":", text_of(f->kind));
	field(out, ",\"errno\":", text_of(err));
	field(out, ",\"what\":", f->what);
	field(out, ",\"expected\":", text_of(f->expected));
	field(out, ",\"found\":", text_of(f->found));
	ck_buf_text(out, ",\"offset\":");
	if (f->box)
		ck_dims_print(out, f->box, f->ndim);
	ck_buf_text(out, f->box ? ",\"size\":" : "null,\"size\":");
	if (f->box)
		ck_dims_print(out, f->box + f->ndim, f->ndim);
	ck_buf_text(out, f->box ? "}" : "null}");
}

/* The argument of print_warning(), which prints lines or JSON objects. */
struct warnings {
	const struct checking *k;
	struct ck_buf *out;
	bool first; /* the next object is the first of its list */
};

static void print_warning(void *arg, const struct ck_fault *f)
{
	struct warnings *w = arg;

	if (w->k->json) {
		ck_buf_text(w->out, w->first ? "\n" : ",\n");
		print_finding(f, w->k->options.elsewhere != NULL, true, w->out);
		w->first = false;
		return;
	}
	ck_buf_text(w->out, "warning: ");
	ck_warning_print(f, w->out);
	ck_buf_text(w->out, "\n");
}

/* Prints the classes whose values are shown by name only. A commit keeps them, so they are listed
 * for the kind that can be written. */
static void print_classes(const struct ck_catalog *c,
			  const struct ck_unknown_classes *unknown,
			  struct ck_buf *out)
{
	bool is_dcp = strcmp(c->kind, "dcp") == 0;

	if (unknown->n && !is_dcp)
		ck_buf_printf(
			out,
			"unknown classes: %zu, such as %s; objects/ shows "
			"their names and arguments\n",
			unknown->n, ck_show(unknown->all[0]));
	for (size_t i = 0; i < unknown->n && i < CLASSES && is_dcp; i++) {
		ck_buf_text(out, "unknown class, kept as it is: ");
		ck_buf_escaped(out, unknown->all[i]);
		ck_buf_text(out, "\n");
	}
	if (unknown->n > CLASSES && is_dcp)
		ck_buf_printf(out, "unknown classes: and %zu more\n",
			      unknown->n - CLASSES);
}

/* Findings that are damage. */
static size_t count_damage(const struct ck_findings *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += !f->faults[i].is_warning;
	return n;
}

static void print_text(const struct checking *k, struct ck_checkpoint *cp,
		       const struct ck_catalog *c, const struct ck_findings *f,
		       const struct ck_unknown_classes *unknown,
		       struct ck_buf *out)
{
	struct warnings w = { k, out, false };
	size_t damage = count_damage(f);

	for (size_t i = 0; i < f->n; i++) {
		ck_buf_text(out, f->faults[i].is_warning ? "warning: " : "");
		ck_fault_print(&f->faults[i], true, out);
		ck_buf_text(out, "\n");
	}
	print_classes(c, unknown, out);
	ck_checkpoint_warn(cp, c, print_warning, &w);
	if (ck_state_warn(c, print_warning, &w))
		out->err = -ENOMEM;
	if (k->dead_known && k->dead)
		ck_buf_printf(out, "dead bytes: %" PRIu64 "\n", k->dead);
	ck_buf_printf(out, "items checked %" PRIu64 " of %" PRIu64 "; %zu %s\n",
		      f->items, f->items_total, damage,
		      damage == 1 ? "finding" : "findings");
}

static void print_json(const struct checking *k, struct ck_checkpoint *cp,
		       const struct ck_catalog *c, const struct ck_findings *f,
		       const struct ck_unknown_classes *unknown,
		       struct ck_buf *out)
{
	struct warnings w = { k, out, f->n == 0 };

	ck_buf_printf(out,
		      "{\"version\":1,\"ok\":%s,\"checked\":%" PRIu64
		      ",\"total\":%" PRIu64 ",\"findings\":[",
		      count_damage(f) ? "false" : "true", f->items,
		      f->items_total);
	for (size_t i = 0; i < f->n; i++) {
		ck_buf_text(out, i ? ",\n" : "\n");
		print_finding(&f->faults[i], k->options.elsewhere != NULL,
			      f->faults[i].is_warning, out);
	}
	ck_checkpoint_warn(cp, c, print_warning, &w);
	if (ck_state_warn(c, print_warning, &w))
		out->err = -ENOMEM;
	ck_buf_text(out, "],\n\"unknown_globals\":[");
	for (size_t i = 0; i < unknown->n; i++)
		field(out, i ? "," : "", unknown->all[i]);
	ck_buf_text(out, "],\n\"dead_bytes\":");
	if (k->dead_known)
		ck_buf_printf(out, "%" PRIu64 "}\n", k->dead);
	else
		ck_buf_text(out, "null}\n");
}

static void print(const struct checking *k, struct ck_checkpoint *cp,
		  const struct ck_findings *f, struct ck_buf *out)
{
	struct ck_unknown_classes unknown;

	if (ck_checkpoint_unknown(cp, f->catalog, &unknown))
		out->err = -ENOMEM;
	if (k->json)
		print_json(k, cp, f->catalog, f, &unknown, out);
	else
		print_text(k, cp, f->catalog, f, &unknown, out);
	ck_unknown_classes_fini(&unknown);
}

/* --- the command ---------------------------------------------------------- */

static int strict_add(const struct checking *k, struct ck_findings *out,
		      const struct ck_strict_row *row)
{
	static const struct ck_str what[] = {
		[CK_STRICT_MISSING] = CK_STR("strict: missing, the manifest "
					     "has it"),
		[CK_STRICT_UNEXPECTED] = CK_STR("strict: not in the manifest"),
		[CK_STRICT_MISMATCHED] = CK_STR("strict: another dtype or "
						"shape"),
	};
	struct ck_buf expected = { 0 }, found = { 0 };
	struct ck_fault f = { .name = row->name,
			      .kind = "strict",
			      .what = what[row->kind] };
	int rc;

	if (row->kind == CK_STRICT_MISMATCHED) {
		ck_strict_print_expected(k->expected, row->expected, &expected);
		ck_strict_print_found(out->catalog, row->tensor, &found);
		f.expected = expected.data;
		f.found = found.data;
	}
	rc = expected.err || found.err ? -ENOMEM : ck_findings_add(out, &f);
	ck_buf_fini(&expected);
	ck_buf_fini(&found);
	return rc;
}

/* Adds the differences to the manifest. */
static int strict_check(const struct checking *k, struct ck_findings *out)
{
	struct ck_strict s = { 0 };
	int rc = k->expected ? ck_strict_find(out->catalog, k->expected, &s)
			     : 0;

	for (size_t i = 0; i < s.n && rc == 0; i++)
		rc = strict_add(k, out, &s.rows[i]);
	free(s.rows);
	return rc;
}

/* Reads all bytes: compares replicas, the file of digests, and integrity.json. */
static int bytes_check(const struct checking *k, struct ck_checkpoint *cp,
		       struct ck_cluster *cluster, struct ck_findings *out)
{
	const struct ck_str text = { k->digests_text.data,
				     k->digests_text.len };
	struct ck_route route;
	int rc;

	ck_route_init(&route, cp->files, ck_cluster_backend(cluster));
	rc = replicas_check(k, cp, &route, out);
	if (rc == 0 && k->digests)
		rc = ck_check_digests(cp, cluster ? &route : NULL, text, out);
	ck_route_fini(&route);
	if (rc == 0 && k->full)
		rc = ck_check_integrity(cp, k->options.shardlinks, out);
	return rc;
}

static int check(struct checking *k, struct ck_checkpoint *cp,
		 struct ck_cluster *cluster)
{
	struct ck_check_options options = {
		.full = k->full,
		.threads = THREADS,
		.progress = items_progress,
		.arg = k,
	};
	struct ck_findings findings;
	struct ck_buf out = { 0 };
	struct ck_diag d = { 0 };
	int status, rc = ck_checkpoint_check(cp, &options, &findings, &d);

	if (k->begun)
		ck_pass_progress_end(&k->progress);
	if (rc)
		return ck_trouble("%s", d.text);
	rc = strict_check(k, &findings);
	if (rc == 0)
		rc = bytes_check(k, cp, cluster, &findings);
	if (rc) {
		ck_findings_fini(&findings);
		return ck_trouble("%s", strerror(-rc));
	}
	k->dead_known = ck_checkpoint_dead(cp, &k->dead) == 0;
	print(k, cp, &findings, &out);
	status = count_damage(&findings) ? CK_EXIT_DAMAGE : CK_EXIT_FINE;
	ck_findings_fini(&findings);
	rc = ck_print(&out);
	return rc ? rc : status;
}

static int parse(struct checking *k, int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "full", no_argument, NULL, 'f' },
		{ "json", no_argument, NULL, 'j' },
		{ "digests", required_argument, NULL, 'd' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, rc = CK_EXIT_FINE;

	while (rc == 0 &&
	       (letter = ck_getopt_hosts(argc, argv, "o:", long_options,
					 &k->hosts)) != -1) {
		switch (letter) {
		case 'f': k->full = true; break;
		case 'j': k->json = true; break;
		case 'd': k->digests = optarg; break;
		case 'o':
			rc = ck_parse_checking(&k->options, &k->hosts, &k->view,
					       optarg);
			break;
		default: rc = CK_EXIT_TROUBLE;
		}
	}
	if (rc)
		return rc;
	if (argc - optind != 1)
		return ck_usage();
	if (k->full && k->hosts.replicas == CK_REPLICAS_SAMPLE)
		k->hosts.replicas = CK_REPLICAS_FULL;
	return ck_check_hosts(&k->hosts);
}

static int manifest_read(struct checking *k)
{
	struct ck_diag d = { 0 };

	if (ck_manifest_read(k->view.manifest, &k->expected, &d))
		return ck_trouble("%s", d.text);
	return CK_EXIT_FINE;
}

int ck_cmd_check(int argc, char **argv)
{
	struct checking k = { .options.shardlinks = CK_BENEATH_NO_SYMLINKS };
	struct ck_checkpoint *cp = NULL;
	struct ck_cluster *cluster = NULL;
	int rc = parse(&k, argc, argv);

	if (rc == 0 && k.view.manifest)
		rc = manifest_read(&k);
	if (rc == 0 && k.digests)
		rc = ck_check_digests_read(k.digests, &k.digests_text);
	if (rc == 0)
		rc = ck_source_open(argv[optind], &k.options, &k.hosts,
				    &cluster, &cp);
	if (rc == 0)
		rc = ck_source_is_one(argv[optind], cp);
	if (rc == 0)
		rc = check(&k, cp, cluster);
	ck_source_close(cluster, cp);
	ck_manifest_free(k.expected);
	ck_buf_fini(&k.digests_text);
	ck_view_options_fini(&k.view);
	ck_hosts_options_fini(&k.hosts);
	ck_format_options_fini(&k.options);
	return rc;
}
