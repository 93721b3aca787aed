/* SPDX-License-Identifier: MIT */
/*
 * order: `status`, `commit` and `abort` of a mount. The last two are an
 * ioctl(2) on its root, which is answered when it is done. Who interrupts the
 * command changes nothing of that: an order that has begun is carried out.
 */
#include "ckptfs/fs.h"
#include "commands.h"
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <unistd.h>

#define TYPE "fuse.ckptfs"

/* --- which mount --------------------------------------------------------------- */

/* The last mount on a path is the one that shows. */
static bool is_ours(const char *path)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	bool ours = false;
	struct mntent *m;

	if (!f)
		return false;
	while ((m = getmntent(f)))
		if (strcmp(m->mnt_dir, path) == 0)
			ours = strcmp(m->mnt_type, TYPE) == 0;
	endmntent(f);
	return ours;
}

/* The path without symbolic links; of a dead mount's root nothing can be
 * asked, so that only its parent is resolved. Owned by the caller; NULL and
 * errno. */
static char *resolve(const char *path)
{
	ck_auto_free char *copy = strdup(path);
	ck_auto_free char *parent = NULL;
	char *whole = realpath(path, NULL);
	char *slash;

	if (whole || !copy || errno != ENOTCONN)
		return whole;
	slash = strrchr(copy, '/');
	if (slash)
		*slash = '\0';
	parent = realpath(!slash ? "." : *copy ? copy : "/", NULL);
	if (!parent || asprintf(&whole, "%s/%s", parent + (parent[1] == '\0'),
				slash ? slash + 1 : path) < 0)
		return NULL;
	return whole;
}

char *ck_mount_point(const char *path)
{
	char *whole = resolve(path);
	const char *name = ck_show(ck_str_from(path));

	if (!whole) {
		ck_trouble("%s: %s", name, strerror(errno));
		return NULL;
	}
	if (is_ours(whole))
		return whole;
	ck_trouble("%s: not the mount point of a checkpoint", name);
	free(whole);
	return NULL;
}

/* --- its status -------------------------------------------------------------------- */

static int read_status(const char *path, struct ck_buf *out)
{
	ck_auto_free char *name = NULL;
	ck_auto_fd int fd = -1;
	char bytes[2048];
	ssize_t n;

	if (asprintf(&name, "%s/.ckptfs/status", path) < 0)
		return -ENOMEM;
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		ck_buf_add(out, bytes, (size_t)n);
	return n < 0 ? -errno : out->err;
}

bool ck_status_field(const char *path, const char *field, struct ck_buf *value)
{
	struct ck_buf text = { 0 };
	struct ck_str line, name = ck_str_from(field);
	struct ck_cur at;

	if (read_status(path, &text) == 0) {
		at = ck_cur_make(text.data, text.len);
		while (value->len == 0 && ck_cur_line(&at, &line))
			if (ck_str_starts(line, name) &&
			    line.len > name.len + 2 && line.p[name.len] == ':')
				ck_buf_add(value, line.p + name.len + 2,
					   line.len - name.len - 2);
	}
	ck_buf_fini(&text);
	return value->len > 0 && value->err == 0;
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
	ck_auto_free char *path = NULL;
	struct ck_buf text = { 0 };
	bool json = false;
	int rc, letter;

	while ((letter = ck_getopt(argc, argv, "", long_options)) != -1) {
		if (letter != 'j')
			return CK_EXIT_TROUBLE;
		json = true;
	}
	if (argc - optind != 1)
		return ck_usage(argv[0]);
	path = ck_mount_point(argv[optind]);
	if (!path)
		return CK_EXIT_TROUBLE;
	rc = read_status(path, &text);
	if (rc == 0)
		return print_status(&text, json);
	ck_buf_fini(&text);
	return ck_trouble("%s: %s", ck_show(ck_str_from(argv[optind])),
			  strerror(-rc));
}

/* --- orders -------------------------------------------------------------------------- */

static const char *why_not(int err)
{
	if (err == ENOTTY)
		return "not mounted for writing";
	if (err == EPERM)
		return "only root, the user who mounted, and who may write "
		       "tensors may do that";
	return strerror(err);
}

int ck_order(const char *path, const char *name, unsigned long order, bool say)
{
	ck_auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct ck_order answer = { 0 };
	struct ck_buf out = { 0 };

	name = ck_show(ck_str_from(name));
	if (fd < 0)
		return ck_trouble("%s: %s", name, strerror(errno));
	if (ioctl(fd, order, &answer))
		return ck_trouble("%s: %s", name, why_not(errno));
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
	ck_auto_free char *path = NULL;

	if (argc != 2)
		return ck_usage(argv[0]);
	path = ck_mount_point(argv[1]);
	return path ? ck_order(path, argv[1], order, true) : CK_EXIT_TROUBLE;
}

int ck_cmd_commit(int argc, char **argv)
{
	return run_order(argc, argv, CK_ORDER_COMMIT);
}

int ck_cmd_abort(int argc, char **argv)
{
	return run_order(argc, argv, CK_ORDER_ABORT);
}
