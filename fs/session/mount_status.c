/* SPDX-License-Identifier: MIT */
/*
 * mount_status: the state of a mount, in .ckptfs/status and in the log: changes
 * of the source under the mount, options, and counters of writing.
 *
 * State: the root remembers which changes of the source are in the log. Any
 * thread.
 */
#include "../internal.h"
#include "ckptfs/report.h"
#include <errno.h>
#include <unistd.h>

/* --- changes of the source ------------------------------------------------ */

/* Text of the log: the event, and its object; NULL is the metadata. */
static const struct {
	const char *who, *what;
} fates[] = {
	[CK_FATE_NONE] = { NULL, NULL },
	[CK_FATE_SAVED] = { "the checkpoint", "was saved anew" },
	[CK_FATE_NO_METADATA] = { NULL, "was removed" },
	[CK_FATE_NO_DIRECTORY] = { "the directory", "was removed" },
	[CK_FATE_MOVED] = { "the directory", "was moved" },
	[CK_FATE_UNSEEN] = { NULL, "cannot be looked at" },
};

/* During a commit of this mount the new .metadata exists before the mount knows
 * it. So the result of a look during a commit is ignored. */
static enum ck_fate seen_fate(struct ck_fs *fs, const struct ck_root *of,
			      int *err)
{
	unsigned commits = atomic_load(&fs->commits);
	enum ck_fate fate = ck_checkpoint_fate(ck_root_checkpoint(of), err);

	if (commits % 2 == 0 && commits == atomic_load(&fs->commits))
		return fate;
	*err = 0;
	return CK_FATE_NONE;
}

/* Logs each kind of change once. */
static enum ck_fate noticed_fate(struct ck_fs *fs, struct ck_root *of, int *err)
{
	const struct ck_checkpoint *cp = ck_root_checkpoint(of);
	enum ck_fate fate = seen_fate(fs, of, err);
	unsigned bit = 1U << fate;
	const char *who = fates[fate].who;

	if (!who)
		who = ck_show(ck_str_from(ck_metadata_name(cp)));
	if (fates[fate].what && ck_root_log_once(of, bit))
		ck_log("%s: %s %s%s%s; this mount keeps what it read",
		       ck_show(ck_str_from(cp->path)), who, fates[fate].what,
		       *err ? ": " : "", *err ? strerror(*err) : "");
	return fate;
}

void ck_mount_status_notice(struct ck_fs *fs, struct ck_root *of)
{
	int err;

	(void)noticed_fate(fs, of, &err);
}

/* The log names those that are shown with the prefix, since a lookup without it
 * fails. */
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

/* --- the report `status` -------------------------------------------------- */

/* Prints nothing if the figure is not known. */
static void print_dead(struct ck_fs *fs, struct ck_buf *out)
{
	uint64_t dead;

	if (ck_checkpoint_dead(fs->cp, &dead) == 0)
		ck_buf_printf(out, "dead bytes: %ju\n", (uintmax_t)dead);
}

static void print_writing(struct ck_fs *fs, struct ck_buf *out)
{
	struct ck_transaction_status status;

	ck_transaction_status(fs->transaction, &status);
	ck_buf_printf(out, "commit: %s\ncommits: %ju\nstaged writers: %u\n",
		      ck_commit_words[fs->options->commit],
		      (uintmax_t)ck_writer_generation(fs->writer),
		      status.stages);
	ck_buf_printf(out, "staged tensors: %u\nstaged bytes: %ju\n",
		      status.staged, (uintmax_t)status.bytes);
	ck_buf_printf(out, "scratch bytes: %ju\n",
		      (uintmax_t)ck_scratches_bytes(fs));
	print_dead(fs, out);
	ck_buf_printf(out, "free bytes: %ju\n",
		      (uintmax_t)ck_fs_free_bytes(fs));
	ck_scratches_status(fs, out);
}

void ck_mount_status_report(void *arg, struct ck_root *of, struct ck_buf *out)
{
	struct ck_fs *fs = arg;
	const struct ck_buf *given = &fs->options->given;
	int err;
	enum ck_fate fate = noticed_fate(fs, of, &err);

	ck_status_begin(of, fate, err, out);
	if (fs->writer)
		print_writing(fs, out);
	ck_buf_text(out, "options: ");
	ck_buf_escaped(out, (struct ck_str){ given->data, given->len });
	ck_buf_printf(out, "\ndaemon: %d\n", (int)getpid());
	ck_area_status(fs->area, of != fs->root, out);
	ck_status_end(of, out);
}
