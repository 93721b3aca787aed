/* SPDX-License-Identifier: MIT */
/*
 * mount_report: reads the files in .ckptfs of a mount. Another file system may have been
 * mounted there meanwhile. Therefore a child process reads, with a deadline (ck_probe()).
 * The length is limited, and fields with control characters are refused.
 */
#include "mount_report.h"
#include "cli.h"
#include "mounts.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* --- reading ---------------------------------------------------------------- */

struct report {
	const struct ck_mount *mount;
	const char *name; /* relative to the mount's root */
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
	return ck_probe(report_work, &r, CK_PROBE_MSEC, NULL, out);
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
	return value->len > 0 && value->err == 0 &&
	       ck_str_plain((struct ck_str){ value->data, value->len });
}

const char *ck_why_silent(int rc)
{
	if (rc == -ETIMEDOUT)
		return "does not answer";
	if (rc == -EACCES)
		return "Permission denied; only the user who mounted has "
		       "access, or all users with the mount option "
		       "allow_other";
	if (rc == -ENOTCONN)
		return "its process is dead; ckptfs umount detaches it";
	if (rc == -ESTALE)
		return "another mount is at this path now";
	if (rc == -EFBIG)
		return "its answer is too long";
	return strerror(-rc);
}

/* --- the operand of a command --------------------------------------------- */

int ck_mount_operand_find(int argc, char **argv, struct ck_mount_operand *out)
{
	*out = (struct ck_mount_operand){ 0 };
	if (argc - optind != 1)
		return ck_usage();
	out->name = strdup(ck_show(ck_str_from(argv[optind])));
	return out->name ? ck_mount_find(argv[optind], &out->mount)
			 : ck_trouble("out of memory");
}

void ck_mount_operand_fini(struct ck_mount_operand *p)
{
	free(p->name);
	ck_mount_fini(&p->mount);
}

int ck_mount_operand_report(const struct ck_mount_operand *p,
			    const char *report, struct ck_buf *out)
{
	int rc = ck_report_read(&p->mount, report, out);

	return rc ? ck_trouble("%s: %s", p->name, ck_why_silent(rc))
		  : CK_EXIT_FINE;
}
