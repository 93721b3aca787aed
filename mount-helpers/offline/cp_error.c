/* SPDX-License-Identifier: MIT */
/*
 * cp_error: what stops a copy, and its messages. A signal or a failed write ends the
 * whole copy: its threads look at ck_cp_stopping(). A file that cannot be read, or a
 * name that must not be replaced, is reported and left out. The exit status of the copy
 * is the worst one that was reported. The signal's number is the only global state.
 */
#include "cli.h"
#include "cp_internal.h"
#include <signal.h>
#include <stdio.h>

/* --- signals ------------------------------------------------------------------------ */

static atomic_int signalled;

static void on_signal(int number)
{
	atomic_store(&signalled, number);
}

void ck_cp_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction act = { .sa_handler = on_signal,
				 .sa_flags = SA_RESTART };
	struct sigaction old;

	for (size_t i = 0; i < CK_ARRAY_SIZE(numbers); i++)
		if (sigaction(numbers[i], NULL, &old) == 0 &&
		    old.sa_handler != SIG_IGN)
			(void)sigaction(numbers[i], &act, NULL);
	/* A closed stderr and a file that is too large are reported by the calls. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
}

int ck_cp_signalled(void)
{
	return atomic_load(&signalled);
}

bool ck_cp_stopping(const struct ck_cp *c)
{
	return atomic_load(&c->stopped) || ck_cp_signalled();
}

/* --- messages ------------------------------------------------------------------------ */

char *ck_cp_dir_path(const struct ck_cp_dir *into, const char *name)
{
	size_t len = strlen(into->path);
	bool apart = len && into->path[len - 1] != '/';
	char *path;

	return asprintf(&path, "%s%s%s", into->path, apart ? "/" : "", name) < 0
		       ? NULL
		       : path;
}

static void note_status(struct ck_cp *c, int status)
{
	int worst = atomic_load(&c->status);

	while (worst < status &&
	       !atomic_compare_exchange_weak(&c->status, &worst, status))
		continue;
}

void ck_cp_unread(struct ck_cp *c, const struct ck_named *from, int rc)
{
	if (!ck_progress_hide(c->how.progress))
		return; /* a signal ends the copy */
	note_status(c, ck_offline_report(&from->node, from->path, rc));
	ck_progress_show(c->how.progress);
}

static void report(struct ck_cp *c, const struct ck_cp_dir *into,
		   const char *name, const char *what)
{
	ck_auto_free char *path = ck_cp_dir_path(into, name ? name : "");

	if (!ck_progress_hide(c->how.progress))
		return; /* a signal ends the copy */
	note_status(c,
		    ck_trouble("%s: %s", ck_show(ck_str_from(path ? path : "")),
			       what));
	ck_progress_show(c->how.progress);
}

void ck_cp_unwritten(struct ck_cp *c, const struct ck_cp_dir *into,
		     const char *name, int err)
{
	if (!atomic_exchange(&c->stopped, true))
		report(c, into, name, strerror(err));
}

void ck_cp_no_memory(struct ck_cp *c)
{
	if (!atomic_exchange(&c->stopped, true))
		note_status(c, ck_trouble("out of memory"));
}

void ck_cp_refuse(struct ck_cp *c, const struct ck_cp_dir *into,
		  const char *name, const char *why)
{
	report(c, into, name, why);
}
