/* SPDX-License-Identifier: MIT */
/*
 * stats: prints the counters of a mount, or sets them to 0 by an ioctl(2) on its root. A
 * child process makes the call, so that a mount that hangs does not block the command.
 * No state; one thread.
 */
#include "ckptfs/fs.h"
#include "commands.h"
#include "mount_report.h"
#include <errno.h>
#include <fcntl.h>

/* --- printing --------------------------------------------------------------- */

/* Appends the members of a JSON object, each on a line as "name: value". The daemon may
 * not be trusted: any bytes are accepted. */
static void print_members(struct ck_str json, struct ck_buf *out)
{
	unsigned depth = 0;
	bool quoted = false;

	for (size_t i = 0; i < json.len; i++) {
		char c = json.p[i];
		bool outer = depth == 1 && !quoted;

		if (quoted && c == '\\' && i + 1 < json.len) {
			ck_buf_add(out, &json.p[i++], 2);
			continue;
		}
		if (c == '"')
			quoted = !quoted;
		else if (!quoted && (c == '{' || c == '['))
			depth++;
		else if (!quoted && (c == '}' || c == ']'))
			depth -= depth > 0;
		if (depth == 0 || (depth == 1 && (c == '"' || i == 0)))
			continue;
		ck_buf_add(out, outer && c == ',' ? "\n" : &c, 1);
		if (outer && c == ':')
			ck_buf_text(out, " ");
	}
	ck_buf_text(out, "\n");
}

static int show(const struct ck_mount_operand *at, bool json)
{
	struct ck_buf text = { 0 }, lines = { 0 };
	int rc = ck_mount_operand_report(at, "stats", &text);

	if (rc == CK_EXIT_FINE && json) {
		rc = ck_print_json(&text);
	} else if (rc == CK_EXIT_FINE) {
		print_members((struct ck_str){ text.data, text.len }, &lines);
		rc = lines.err ? ck_trouble("out of memory")
			       : ck_print_lines((struct ck_str){ lines.data,
								 lines.len });
	}
	ck_buf_fini(&text);
	ck_buf_fini(&lines);
	return rc;
}

/* --- reset ------------------------------------------------------------------ */

static int reset_work(void *arg, struct ck_buf *out)
{
	ck_auto_fd int fd = ck_mount_open(arg, ".", O_RDONLY | O_DIRECTORY);

	(void)out;
	if (fd < 0)
		return fd;
	return ioctl(fd, CK_IOC_RESET_STATS) ? -errno : 0;
}

static int reset(struct ck_mount_operand *at)
{
	struct ck_buf none = { 0 };
	int rc = ck_probe(reset_work, &at->mount, CK_PROBE_MSEC, NULL, &none);

	ck_buf_fini(&none);
	if (rc == -EPERM)
		return ck_trouble("%s: Permission denied; only root and the "
				  "user who mounted can reset the counters",
				  at->name);
	return rc ? ck_trouble("%s: %s", at->name, ck_why_silent(rc))
		  : CK_EXIT_FINE;
}

int ck_cmd_stats(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "reset", no_argument, NULL, 'r' },
		{ NULL, 0, NULL, 0 },
	};
	bool json = false, resets = false;
	struct ck_mount_operand at;
	int rc, letter;

	while ((letter = ck_getopt(argc, argv, "", long_options)) != -1) {
		json |= letter == 'j';
		resets |= letter == 'r';
		if (letter != 'j' && letter != 'r')
			return CK_EXIT_TROUBLE;
	}
	if (json && resets)
		return ck_usage();
	rc = ck_mount_operand_find(argc, argv, &at);
	if (rc == CK_EXIT_FINE)
		rc = resets ? reset(&at) : show(&at, json);
	ck_mount_operand_fini(&at);
	return rc;
}
