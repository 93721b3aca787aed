/* SPDX-License-Identifier: MIT */
/*
 * commit: the commands `status`, `commit` and `abort` of a mount. The last two call an
 * ioctl(2) on its root, which returns when the daemon has finished. Interrupting the command
 * does not stop a commit or abort that has begun. A child process makes the call, so that
 * a mount that hangs does not block the command.
 */
#include "ckptfs/fs.h"
#include "commands.h"
#include "mount_report.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* --- status ------------------------------------------------------------------- */

static int print_status_json(const struct ck_buf *text)
{
	struct ck_buf out = { 0 };

	ck_status_json(text, &out);
	return ck_print_json(&out);
}

int ck_cmd_status(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	struct ck_buf text = { 0 };
	struct ck_mount_operand at;
	bool json = false;
	int rc, letter;

	while ((letter = ck_getopt(argc, argv, "", long_options)) != -1) {
		if (letter != 'j')
			return CK_EXIT_TROUBLE;
		json = true;
	}
	rc = ck_mount_operand_find(argc, argv, &at);
	if (rc == CK_EXIT_FINE)
		rc = ck_mount_operand_report(&at, "status", &text);
	if (rc == CK_EXIT_FINE)
		rc = json ? print_status_json(&text)
			  : ck_print_lines(
				    (struct ck_str){ text.data, text.len });
	ck_buf_fini(&text);
	ck_mount_operand_fini(&at);
	return rc;
}

/* --- commit and abort ---------------------------------------------------------------- */

static const char *why_not(int rc)
{
	if (rc == -ETIMEDOUT)
		return "does not answer; a running commit continues";
	if (rc == -ENOTTY)
		return "not mounted for writing; mount it with -o write";
	if (rc == -EPERM)
		return "Permission denied; only root, the user who mounted "
		       "and users who may write tensors can commit or abort";
	return ck_why_silent(rc);
}

enum { ORDER_MSEC = 60000 };

struct request {
	const struct ck_mount *mount;
	unsigned long order;
	struct ck_mount_record daemon;
};

static int order_work(void *arg, struct ck_buf *out)
{
	const struct request *a = arg;
	ck_auto_fd int fd = ck_mount_open(a->mount, ".",
					  O_RDONLY | O_DIRECTORY);
	struct ck_control_reply answer = { 0 };

	if (fd < 0)
		return fd;
	if (ioctl(fd, a->order, &answer))
		return -errno;
	ck_buf_add(out, &answer, sizeof(answer));
	return out->err;
}

/* Extends the deadline of a large commit: true as long as the mount answers a statfs(2)
 * within 60 s. */
static bool order_goes_on(void *arg)
{
	const struct request *a = arg;

	return ck_mount_record_life(&a->daemon) != CK_LIFE_DEAD &&
	       ck_mount_ping(a->mount, ORDER_MSEC) == 0;
}

/* Has no deadline, while the mount answers, for a mount of root or of the caller. For a mount
 * of another user the deadline is 60 s: its daemon could answer statfs(2) for ever, and never
 * the ioctl(2). Returns 0, or: errors of ck_probe(); an errno of ioctl(2). */
static int give_order(const struct ck_mount *m, unsigned long order,
		      struct ck_buf *out)
{
	struct request a = { .mount = m, .order = order };

	if (m->user != 0 && m->user != geteuid())
		return ck_probe(order_work, &a, ORDER_MSEC, NULL, out);
	ck_mount_record_read(m, &a.daemon);
	return ck_probe(order_work, &a, CK_PROBE_MSEC, order_goes_on, out);
}

static int print_line(struct ck_buf *out)
{
	ck_buf_text(out, "\n");
	return ck_print(out);
}

/* Sends an order and prints the reply. name: of the mount, escaped. what: the number of the
 * ioctl(2). Returns the exit status. */
static int order(const struct ck_mount *m, const char *name, unsigned long what)
{
	struct ck_control_reply answer = { 0 };
	struct ck_buf out = { 0 };
	int rc = give_order(m, what, &out);

	if (rc == 0 && out.len == sizeof(answer))
		memcpy(&answer, out.data, sizeof(answer));
	ck_buf_fini(&out);
	if (rc)
		return ck_trouble("%s: %s", name, why_not(rc));
	answer.text[sizeof(answer.text) - 1] = '\0';
	ck_buf_plain_lines(&out, ck_str_from(answer.text));
	if (answer.err)
		rc = ck_trouble("%s: %s", name, out.data ? out.data : "");
	else
		rc = print_line(&out);
	ck_buf_fini(&out);
	return rc;
}

static int run_order(int argc, char **argv, unsigned long what)
{
	struct ck_mount_operand at;
	int rc;

	rc = ck_mount_operand_find(argc, argv, &at);
	if (rc == CK_EXIT_FINE)
		rc = order(&at.mount, at.name, what);
	ck_mount_operand_fini(&at);
	return rc;
}

int ck_cmd_commit(int argc, char **argv)
{
	return run_order(argc, argv, CK_IOC_COMMIT);
}

int ck_cmd_abort(int argc, char **argv)
{
	return run_order(argc, argv, CK_IOC_ABORT);
}
