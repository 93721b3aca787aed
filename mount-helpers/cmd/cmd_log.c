/* SPDX-License-Identifier: MIT */
/*
 * log: prints the log of a mount; -f follows it. To follow, the command reads the whole log
 * every 250 ms and prints the new lines. It keeps no file of the mount open, which would
 * make the mount busy. A log that was cut begins with the number of bytes lost, so the
 * position of each line is known. One thread.
 */
#include "commands.h"
#include "mount_report.h"
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { POLL_USEC = 250000 };

struct following {
	struct ck_mount_operand at;
	struct ck_mount_record daemon;
	size_t seen; /* bytes printed, counted from the start of the log */
};

/* Removes the first line if it is the one that counts lost bytes. Returns that number, or 0
 * without such a line. */
static size_t take_gone(struct ck_str *text)
{
	struct ck_cur at = ck_cur_make(text->p, text->len);
	struct ck_str line;
	char first[64];
	size_t gone;

	if (!ck_cur_line(&at, &line) || line.len >= sizeof(first))
		return 0;
	memcpy(first, line.p, line.len);
	first[line.len] = '\0';
	if (sscanf(first, CK_LOG_GONE, &gone) != 1)
		return 0;
	text->p += line.len + 1;
	text->len -= line.len + 1;
	return gone;
}

/* Prints the lines that were not printed yet. Returns the exit status. */
static int print_new(struct following *f, const struct ck_buf *log)
{
	struct ck_str text = { log->data, log->len };
	size_t gone = take_gone(&text), end = gone + text.len, skip = 0;
	int rc = CK_EXIT_FINE;

	if (gone > f->seen && f->seen == 0)
		rc = ck_print_lines(
			(struct ck_str){ log->data, log->len - text.len });
	else if (gone > f->seen)
		ck_trouble("%s: the log grew faster than it was read; %zu "
			   "bytes are missing here",
			   f->at.name, gone - f->seen);
	else
		skip = ck_min(f->seen - gone, text.len);
	f->seen = end;
	if (rc)
		return rc;
	return ck_print_lines(
		(struct ck_str){ text.p + skip, text.len - skip });
}

/* True if the daemon is still the same and alive, or if its record cannot be read, as on a
 * busy machine: then the presence of the mount decides. */
static bool is_same_daemon(struct following *f)
{
	struct ck_mount_record r;

	ck_mount_record_read(&f->at.mount, &r);
	if (r.pid == 0)
		return true;
	if (f->daemon.pid == 0)
		f->daemon = r;
	return r.pid == f->daemon.pid && r.start == f->daemon.start &&
	       ck_mount_record_life(&r) != CK_LIFE_DEAD;
}

/* True if the same mount and the same daemon are still there. */
static bool goes_on(struct following *f)
{
	const struct ck_shown shown = {
		.id = f->at.mount.id,
		.major = f->at.mount.major,
		.minor = f->at.mount.minor,
		.root = true,
	};
	const struct ck_mount *there;
	struct ck_mounts all;
	bool same;

	if (ck_mounts_read(&all))
		return false;
	there = ck_mounts_shown(&all, &shown);
	same = there && there->ours;
	ck_mounts_fini(&all);
	return same && is_same_daemon(f);
}

static int follow(struct following *f)
{
	int rc = CK_EXIT_FINE;
	bool over = false;

	while (rc == CK_EXIT_FINE && !over) {
		struct ck_buf log = { 0 };
		int err;

		usleep(POLL_USEC);
		if (!goes_on(f))
			break;
		err = ck_report_read(&f->at.mount, "log", &log);
		/* The daemon ends; its process may still exist. */
		over = err == -ENOTCONN || err == -ECONNABORTED;
		if (err == 0)
			rc = print_new(f, &log);
		else if (!over && err != -ETIMEDOUT && goes_on(f))
			rc = ck_trouble("%s: %s", f->at.name,
					ck_why_silent(err));
		ck_buf_fini(&log);
	}
	return rc;
}

static int show(struct following *f, bool go_on)
{
	struct ck_buf log = { 0 };
	int rc;

	ck_mount_record_read(&f->at.mount, &f->daemon);
	rc = ck_mount_operand_report(&f->at, "log", &log);
	if (rc == CK_EXIT_FINE)
		rc = print_new(f, &log);
	ck_buf_fini(&log);
	return rc || !go_on ? rc : follow(f);
}

int ck_cmd_log(int argc, char **argv)
{
	static const struct option none[] = { { NULL, 0, NULL, 0 } };
	struct following f = { 0 };
	bool go_on = false;
	int letter, rc;

	while ((letter = ck_getopt(argc, argv, "f", none)) != -1) {
		if (letter != 'f')
			return CK_EXIT_TROUBLE;
		go_on = true;
	}
	rc = ck_mount_operand_find(argc, argv, &f.at);
	if (rc == CK_EXIT_FINE)
		rc = show(&f, go_on);
	ck_mount_operand_fini(&f.at);
	return rc;
}
