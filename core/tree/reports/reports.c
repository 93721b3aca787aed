/* SPDX-License-Identifier: MIT */
/*
 * reports: the files of .ckptfs/, each made when it is opened. The user of the tree can
 * append lines to `status`. No state; any thread.
 */
#include "ckptfs/report.h"
#include "format/rewrite.h"
#include "format/warnings.h"
#include "report/manifest.h"
#include "tree/tree_internal.h"

#include <errno.h>
#include <inttypes.h>

enum { CLASSES = 64 }; /* unknown ones that are named */

/* --- status ---------------------------------------------------------------------- */

/* The state of the mounted generation: text, and if `more` is not NULL, the name of the
 * metadata file and `more`. */
static const struct {
	const char *text, *more;
} fates[] = {
	[CK_FATE_NONE] = { "the source's present one", NULL },
	[CK_FATE_SAVED] = { "the one mounted; the source has a newer one",
			    NULL },
	[CK_FATE_NO_METADATA] = { "the one mounted; the source has no ",
				  " any more" },
	[CK_FATE_NO_DIRECTORY] = { "the one mounted; its directory was removed",
				   NULL },
	[CK_FATE_MOVED] = { "the one mounted; its directory was moved", NULL },
	[CK_FATE_UNSEEN] = { "the one mounted; the source's ",
			     " cannot be looked at" },
};

static void print_generation(const struct ck_root *r, enum ck_fate fate,
			     int err, struct ck_buf *out)
{
	ck_buf_printf(out, "generation: %s", fates[fate].text);
	if (fates[fate].more)
		ck_buf_printf(out, "%s%s", ck_metadata_name(r->cp),
			      fates[fate].more);
	ck_buf_printf(out, "%s%s\n", err ? ": " : "", err ? strerror(err) : "");
}

void ck_status_begin(const struct ck_root *r, enum ck_fate fate, int err,
		     struct ck_buf *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(r->cp);

	ck_buf_text(out, "ckptfs: " CK_VERSION "\nsource: ");
	ck_buf_escaped(out, ck_str_from(r->cp->path));
	ck_buf_printf(out, "\nkind: %s (%s)\n", c->kind, r->cp->why);
	print_generation(r, fate, err, out);
	ck_buf_printf(out, "tensors: %u\nbytes: %ju\n", ck_shown_tensors(c),
		      (uintmax_t)c->nbytes);
	ck_buf_printf(out, "boxes: %u\nfiles: %u\nother entries: %u\n",
		      ck_shown_chunks(c), c->files.n, ck_shown_objects(c));
	if (r->cp->elsewhere)
		r->cp->elsewhere->print(r->cp->elsewhere, out);
	if (r->options->gpu_status)
		r->options->gpu_status(r->options->gpu_arg, out);
}

static void print_prefixed(const struct ck_catalog *c, struct ck_buf *out)
{
	ck_buf_printf(out, "prefixed names: %zu\n", c->listing->nprefixed);
	if (c->listing->nprefixed == 0)
		return;
	ck_buf_text(out, "prefixed: ");
	ck_report_prefixed(c, out);
	ck_buf_text(out, "\n");
}

static void print_renamed(const struct ck_catalog *c, struct ck_buf *out)
{
	if (c->listing->renames)
		ck_buf_printf(out, "renamed names: %" PRIu32 "\n",
			      c->listing->nrenamed);
}

static void print_hidden(const struct ck_catalog *c, struct ck_buf *out)
{
	if (c->listing->selection)
		ck_buf_printf(out, "names not selected: %zu\n",
			      c->listing->nhidden);
}

static void print_unknown(const struct ck_root *r, const struct ck_catalog *c,
			  struct ck_buf *out)
{
	struct ck_unknown_classes unknown;

	if (ck_checkpoint_unknown(r->cp, c, &unknown))
		out->err = -ENOMEM;
	ck_buf_printf(out, "unknown classes: %zu\n", unknown.n);
	for (size_t i = 0; i < unknown.n && i < CLASSES; i++) {
		ck_buf_text(out, "  ");
		ck_buf_escaped(out, unknown.all[i]);
		ck_buf_text(out, "\n");
	}
	if (unknown.n > CLASSES)
		ck_buf_printf(out, "  and %zu more\n", unknown.n - CLASSES);
	ck_unknown_classes_fini(&unknown);
}

/* The notes of the format. */
static void print_notes(const struct ck_catalog *c, struct ck_buf *out)
{
	for (size_t i = 0; i < c->nnotes; i++) {
		ck_buf_str(out, c->notes[i].text);
		ck_buf_text(out, "\n");
	}
}

static void print_faulty(const struct ck_root *r, const struct ck_catalog *c,
			 struct ck_buf *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->tensors.n; i++)
		n += ck_damage_is_known(r->damage, i);
	ck_buf_printf(out, "tensors with a known fault: %u%s\n", n,
		      n ? "; see damage" : "");
}

void ck_status_end(const struct ck_root *r, struct ck_buf *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(r->cp);

	print_prefixed(c, out);
	print_renamed(c, out);
	print_hidden(c, out);
	print_unknown(r, c, out);
	print_notes(c, out);
	ck_checkpoint_print_warnings(r->cp, c, out);
	for (size_t i = 0; i < r->n; i++)
		if (r->views[i]->status)
			r->views[i]->status(c, r->states[i], out);
	ck_checkpoint_print_unshown(r->cp, out);
	if (r->made)
		ck_made_status(r, out);
	else
		print_faulty(r, c, out);
}

static void print_status(void *arg, struct ck_buf *out)
{
	struct ck_root *r = arg;
	enum ck_fate fate;
	int err;

	if (r->options->status) {
		r->options->status(r->options->arg, r, out);
		return;
	}
	fate = ck_checkpoint_fate(r->cp, &err);
	ck_status_begin(r, fate, err, out);
	ck_status_end(r, out);
}

/* --- the others -------------------------------------------------------------------- */

static void print_damage(void *arg, struct ck_buf *out)
{
	const struct ck_root *r = arg;

	if (r->made)
		ck_made_damage(r, out);
	else
		ck_damage_print(r->damage, out);
}

static void print_log(void *arg, struct ck_buf *out)
{
	(void)arg;
	ck_log_snapshot(out);
}

static void print_paths(void *arg, struct ck_buf *out)
{
	const struct ck_root *r = arg;

	if (r->cp->elsewhere)
		r->cp->elsewhere->paths(r->cp->elsewhere, out);
	if (r->options->gpu_paths)
		r->options->gpu_paths(r->options->gpu_arg, out);
}

static void print_stats(void *arg, struct ck_buf *out)
{
	const struct ck_root *r = arg;
	bool remote = r->cp->elsewhere || r->options->gpu_paths;

	ck_stats_print(ck_files_stats(r->cp->files),
		       remote ? print_paths : NULL, arg, out);
}

static void print_csv(void *arg, struct ck_buf *out)
{
	const struct ck_root *r = arg;
	ck_auto_catalog *c = ck_checkpoint_catalog(r->cp);

	ck_report_csv(c, out);
}

static void print_jsonl(void *arg, struct ck_buf *out)
{
	const struct ck_root *r = arg;
	ck_auto_catalog *c = ck_checkpoint_catalog(r->cp);

	ck_report_jsonl(c, out);
}

static void print_state_dict(void *arg, struct ck_buf *out)
{
	const struct ck_root *r = arg;
	ck_auto_catalog *c = ck_checkpoint_catalog(r->cp);

	ck_report_state_dict(c, out);
}

static bool has_manifest(const void *arg)
{
	const struct ck_root *r = arg;

	return !r->made && r->options->view && r->options->view->expected;
}

static void print_strict(void *arg, struct ck_buf *out)
{
	const struct ck_root *r = arg;
	ck_auto_catalog *c = ck_checkpoint_catalog(r->cp);

	ck_strict_report(c, r->options->view->expected, out);
}

const struct ck_report ck_reports[] = {
	{ "status", print_status, true, NULL },
	{ "damage", print_damage, true, NULL },
	{ "log", print_log, true, NULL },
	{ "tensors.csv", print_csv, false, NULL },
	{ "tensors.jsonl", print_jsonl, false, NULL },
	{ "state_dict.json", print_state_dict, false, NULL },
	{ "strict.json", print_strict, false, has_manifest },
	{ "stats", print_stats, true, NULL },
};
const size_t ck_nreports = CK_ARRAY_SIZE(ck_reports);
