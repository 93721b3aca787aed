/* SPDX-License-Identifier: MIT */
/*
 * order: `status`, `commit` and `abort` of a mount. The last two are an
 * ioctl(2) on its root, which is answered when it is done. Who interrupts the
 * command changes nothing of that: an order that has begun is carried out.
 */
#include "ckptfs/fs.h"
#include "commands.h"
#include "mounts.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* --- its reports -------------------------------------------------------------------- */

struct report {
	const struct ck_mount *mount;
	const char *name; /* beneath the mount's root */
};

static int report_work(void *arg, struct ck_buf *out)
{
	const struct report *r = arg;
	ck_auto_fd int fd = ck_mount_open(r->mount, r->name, O_RDONLY);
	static char bytes[1 << 16];
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = read(fd, bytes, sizeof(bytes))) > 0 &&
	       out->len <= CK_ANSWER_MAX)
		ck_buf_add(out, bytes, (size_t)n);
	return n < 0 ? -errno : out->err;
}

int ck_report_read(const struct ck_mount *m, const char *report,
		   struct ck_buf *out)
{
	ck_auto_free char *name = NULL;
	struct report r = { .mount = m };

	if (asprintf(&name, ".ckptfs/%s", report) < 0)
		return -ENOMEM;
	r.name = name;
	return ck_ask(report_work, &r, CK_ASK_MSEC, NULL, out);
}

/* A daemon escapes what it shows; what is mounted may be no daemon of ours. */
static bool is_plain(const struct ck_buf *text)
{
	for (size_t i = 0; i < text->len; i++) {
		unsigned char c = (unsigned char)text->data[i];

		if (c < 0x20 || c == 0x7f ||
		    (c == 0xc2 && (unsigned char)text->data[i + 1] < 0xa0))
			return false;
	}
	return true;
}

bool ck_status_field(const struct ck_buf *status, const char *field,
		     struct ck_buf *value)
{
	struct ck_str line, name = ck_str_from(field);
	struct ck_cur at = ck_cur_make(status->data, status->len);

	while (value->len == 0 && ck_cur_line(&at, &line))
		if (ck_str_starts(line, name) && line.len > name.len + 2 &&
		    line.p[name.len] == ':')
			ck_buf_add(value, line.p + name.len + 2,
				   line.len - name.len - 2);
	return value->len > 0 && value->err == 0 && is_plain(value);
}

const char *ck_why_silent(int rc)
{
	if (rc == -ETIMEDOUT)
		return "does not answer";
	if (rc == -EACCES)
		return "Permission denied; others than who mounted may look "
		       "only with the mount option allow_other";
	if (rc == -ENOTCONN)
		return "its process is dead; ckptfs umount detaches it";
	if (rc == -ESTALE)
		return "another mount shows there now";
	if (rc == -EFBIG)
		return "its answer has no end";
	return strerror(-rc);
}

/* Frees the text. */
static int print_status(struct ck_buf *text, bool json)
{
	struct ck_buf out = { 0 };

	if (!json)
		return ck_print(text);
	ck_status_json(text, &out);
	ck_buf_fini(text);
	return ck_print(&out);
}

int ck_cmd_status(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ NULL, 0, NULL, 0 },
	};
	struct ck_buf text = { 0 };
	struct ck_mount m;
	bool json = false;
	int rc, letter;

	while ((letter = ck_getopt(argc, argv, "", long_options)) != -1) {
		if (letter != 'j')
			return CK_EXIT_TROUBLE;
		json = true;
	}
	if (argc - optind != 1)
		return ck_usage(argv[0]);
	if (ck_mount_find(argv[optind], &m))
		return CK_EXIT_TROUBLE;
	rc = ck_report_read(&m, "status", &text);
	ck_mount_fini(&m);
	if (rc == 0)
		return print_status(&text, json);
	ck_buf_fini(&text);
	return ck_trouble("%s: %s", ck_show(ck_str_from(argv[optind])),
			  ck_why_silent(rc));
}

/* --- orders -------------------------------------------------------------------------- */

static const char *why_not(int rc)
{
	if (rc == -ETIMEDOUT)
		return "does not answer; what has begun goes on";
	if (rc == -ENOTTY)
		return "not mounted for writing";
	if (rc == -EPERM)
		return "only root, the user who mounted, and who may write "
		       "tensors may do that";
	return ck_why_silent(rc);
}

enum { ORDER_MSEC = 60000 };

struct asked {
	const struct ck_mount *mount;
	unsigned long order;
	struct ck_record daemon;
};

static int order_work(void *arg, struct ck_buf *out)
{
	const struct asked *a = arg;
	ck_auto_fd int fd = ck_mount_open(a->mount, ".",
					  O_RDONLY | O_DIRECTORY);
	struct ck_order answer = { 0 };

	if (fd < 0)
		return fd;
	if (ioctl(fd, a->order, &answer))
		return -errno;
	ck_buf_add(out, &answer, sizeof(answer));
	return out->err;
}

/* A commit of much takes long, but other questions are answered meanwhile. */
static bool order_goes_on(void *arg)
{
	const struct asked *a = arg;

	return ck_record_life(&a->daemon) != CK_LIFE_DEAD &&
	       ck_mount_asked(a->mount, ORDER_MSEC) == 0;
}

/* Whose mount it is decides how long one waits: another user could answer
 * questions for ever, and never this one. */
static int give_order(const struct ck_mount *m, unsigned long order,
		      struct ck_buf *out)
{
	struct asked a = { .mount = m, .order = order };

	if (m->user != 0 && m->user != geteuid())
		return ck_ask(order_work, &a, ORDER_MSEC, NULL, out);
	ck_record_read(m, &a.daemon);
	return ck_ask(order_work, &a, CK_ASK_MSEC, order_goes_on, out);
}

int ck_order(const struct ck_mount *m, const char *name, unsigned long order,
	     bool say)
{
	struct ck_order answer = { 0 };
	struct ck_buf out = { 0 };
	int rc = give_order(m, order, &out);

	if (rc == 0 && out.len == sizeof(answer))
		memcpy(&answer, out.data, sizeof(answer));
	ck_buf_fini(&out);
	if (rc)
		return ck_trouble("%s: %s", name, why_not(rc));
	answer.text[sizeof(answer.text) - 1] = '\0';
	if (answer.err)
		return ck_trouble("%s: %s", name, answer.text);
	if (!say)
		return CK_EXIT_FINE;
	ck_buf_printf(&out, "%s\n", answer.text);
	return ck_print(&out);
}

static int run_order(int argc, char **argv, unsigned long order)
{
	struct ck_mount m;
	int rc;

	if (argc != 2)
		return ck_usage(argv[0]);
	rc = ck_mount_find(argv[1], &m);
	if (rc)
		return rc;
	rc = ck_order(&m, ck_show(ck_str_from(argv[1])), order, true);
	ck_mount_fini(&m);
	return rc;
}

int ck_cmd_commit(int argc, char **argv)
{
	return run_order(argc, argv, CK_ORDER_COMMIT);
}

int ck_cmd_abort(int argc, char **argv)
{
	return run_order(argc, argv, CK_ORDER_ABORT);
}
