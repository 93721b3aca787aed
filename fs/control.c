/* SPDX-License-Identifier: MIT */
/* control: the files of .ckptfs, and what they say. */
#include "ckptfs/report.h"
#include "internal.h"
#include <errno.h>
#include <unistd.h>

enum {
	REPORT_STATUS,
	REPORT_DAMAGE,
	REPORT_LOG,
	REPORT_CSV,
	REPORT_JSONL,
	REPORT_STATE_DICT,
	NREPORTS
};

/* --- what the reports say ------------------------------------------------- */

/* In the line `generation` of status, and in the log. */
static const struct {
	const char *status, *log;
} fates[] = {
	[CK_FATE_NONE] = { "the source's present one", NULL },
	[CK_FATE_SAVED] = { "the one mounted; the source has a newer one",
			    "the checkpoint was saved anew" },
	[CK_FATE_NO_METADATA] = { "the one mounted; the source has no "
				  ".metadata any more",
				  ".metadata was removed" },
	[CK_FATE_NO_DIRECTORY] = { "the one mounted; its directory was "
				   "removed",
				   "the directory was removed" },
	[CK_FATE_MOVED] = { "the one mounted; its directory was moved",
			    "the directory was moved" },
	[CK_FATE_UNSEEN] = { "the one mounted; the source's .metadata "
			     "cannot be looked at",
			     ".metadata cannot be looked at" },
};

/* While this mount commits, its own .metadata is there before it is known to
 * be: what is seen then says nothing. */
static enum ck_fate seen_fate(struct ck_fs *fs, int *err)
{
	unsigned commits = atomic_load(&fs->commits);
	enum ck_fate fate = ck_checkpoint_fate(fs->cp, err);

	if (commits % 2 == 0 && commits == atomic_load(&fs->commits))
		return fate;
	*err = 0;
	return CK_FATE_NONE;
}

/* Logs each kind of change once. */
static enum ck_fate noticed_fate(struct ck_fs *fs, int *err)
{
	enum ck_fate fate = seen_fate(fs, err);
	unsigned bit = 1U << fate;

	if (fates[fate].log && !(atomic_fetch_or(&fs->fates_said, bit) & bit))
		ck_log("%s: %s%s%s; this mount keeps what it read",
		       ck_show(ck_str_from(fs->cp->path)), fates[fate].log,
		       *err ? ": " : "", *err ? strerror(*err) : "");
	return fate;
}

void ck_control_notice(struct ck_fs *fs)
{
	int err;

	(void)noticed_fate(fs, &err);
}

/* Whoever looks for a name without the prefix does not find it. */
static void log_prefixed(const struct ck_fs *fs)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	struct ck_buf names = { 0 };

	if (c->listing->nprefixed == 0)
		return;
	ck_report_prefixed(c, &names);
	ck_log("%s: shown with the prefixes of wrappers, since names would be "
	       "equal without them: %s",
	       ck_show(ck_str_from(fs->cp->path)),
	       names.data ? names.data : "out of memory");
	ck_buf_fini(&names);
}

void ck_fs_log_faults(const struct ck_fs *fs)
{
	ck_damage_log(ck_root_damage(fs->root));
	log_prefixed(fs);
}

static void print_globals(const struct ck_catalog *c, struct ck_buf *out)
{
	ck_buf_printf(out, "unknown classes: %zu\n", c->nglobals);
	for (size_t i = 0; i < c->nglobals; i++) {
		ck_buf_text(out, "  ");
		ck_buf_escaped(out, c->globals[i]);
		ck_buf_text(out, "\n");
	}
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

static void print_faulty(const struct ck_fs *fs, struct ck_buf *out)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->tensors.n; i++)
		n += ck_damage_is_known(ck_root_damage(fs->root), i);
	ck_buf_printf(out, "tensors with a known fault: %u%s\n", n,
		      n ? "; see damage" : "");
}

/* Says nothing where it is not known. */
static void print_dead(struct ck_fs *fs, struct ck_buf *out)
{
	uint64_t dead;

	if (ck_checkpoint_dead(fs->cp, &dead) == 0)
		ck_buf_printf(out, "dead bytes: %ju\n", (uintmax_t)dead);
}

static void print_writing(struct ck_fs *fs, struct ck_buf *out)
{
	struct ck_writer_status status;

	ck_writer_status(fs->writer, &status);
	ck_buf_printf(out, "commit: %s\ncommits: %ju\nstaged writers: %u\n",
		      ck_commit_words[fs->options->commit],
		      (uintmax_t)status.generation, status.stages);
	ck_buf_printf(out, "staged tensors: %u\nstaged bytes: %ju\n",
		      status.staged, (uintmax_t)status.bytes);
	ck_buf_printf(out, "scratch bytes: %ju\n",
		      (uintmax_t)ck_scratches_bytes(fs));
	print_dead(fs, out);
	ck_buf_printf(out, "free bytes: %ju\n",
		      (uintmax_t)ck_fs_free_bytes(fs));
	ck_scratches_status(fs, out);
}

static void print_generation(struct ck_fs *fs, struct ck_buf *out)
{
	int err;
	enum ck_fate fate = noticed_fate(fs, &err);

	ck_buf_printf(out, "generation: %s%s%s\n", fates[fate].status,
		      err ? ": " : "", err ? strerror(err) : "");
}

static void print_status(void *arg, struct ck_buf *out)
{
	struct ck_fs *fs = arg;
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);
	const struct ck_buf *given = &fs->options->given;

	ck_buf_text(out, "ckptfs: " CK_VERSION "\nsource: ");
	ck_buf_escaped(out, ck_str_from(fs->cp->path));
	ck_buf_printf(out, "\nkind: %s (%s)\n", c->kind, fs->cp->why);
	print_generation(fs, out);
	ck_buf_printf(out, "tensors: %u\nbytes: %ju\n", c->tensors.n,
		      (uintmax_t)c->nbytes);
	ck_buf_printf(out, "boxes: %u\nfiles: %u\nother entries: %u\n",
		      c->chunks.n, c->files.n, c->objects.n);
	if (fs->writer)
		print_writing(fs, out);
	ck_buf_text(out, "options: ");
	ck_buf_escaped(out, (struct ck_str){ given->data, given->len });
	ck_buf_printf(out, "\ndaemon: %d\n", (int)getpid());
	print_prefixed(c, out);
	print_globals(c, out);
	print_faulty(fs, out);
}

static void print_log(void *arg, struct ck_buf *out)
{
	(void)arg;
	ck_log_snapshot(out);
}

static void print_csv(void *arg, struct ck_buf *out)
{
	struct ck_fs *fs = arg;
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	ck_report_csv(c, out);
}

static void print_jsonl(void *arg, struct ck_buf *out)
{
	struct ck_fs *fs = arg;
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	ck_report_jsonl(c, out);
}

static void print_state_dict(void *arg, struct ck_buf *out)
{
	struct ck_fs *fs = arg;
	ck_auto_catalog *c = ck_checkpoint_catalog(fs->cp);

	ck_report_state_dict(c, out);
}

static void print_damage(void *arg, struct ck_buf *out)
{
	const struct ck_fs *fs = arg;

	ck_damage_print(ck_root_damage(fs->root), out);
}

const struct ck_report ck_fs_reports[] = {
	[REPORT_STATUS] = { "status", print_status, true },
	[REPORT_DAMAGE] = { "damage", print_damage, true },
	[REPORT_LOG] = { "log", print_log, true },
	[REPORT_CSV] = { "tensors.csv", print_csv, false },
	[REPORT_JSONL] = { "tensors.jsonl", print_jsonl, false },
	[REPORT_STATE_DICT] = { "state_dict.json", print_state_dict, false },
};
const size_t ck_fs_nreports = NREPORTS;
