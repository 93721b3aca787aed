/* SPDX-License-Identifier: MIT */
/*
 * html_file: a regular file is replaced by rename(2). A new file has a random name, which begins
 * with a dot, in the same directory. No state beside the struct.
 */
#include "cli.h"
#include "html_page.h"
#include "picked_source.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* err: a positive errno. */
static int failed(const struct ck_html_file *f, int err)
{
	return ck_trouble("%s: %s", ck_show(ck_str_from(f->path)),
			  strerror(err));
}

/* --- the place ------------------------------------------------------------------------------ */

/* Sets f->target, and the facts of the file that exists there. */
static int target_find(struct ck_html_file *f)
{
	struct stat st;

	if (stat(f->path, &st)) {
		if (errno != ENOENT)
			return -errno;
		f->target = strdup(f->path);
		return f->target ? 0 : -ENOMEM;
	}
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	f->is_stream = !S_ISREG(st.st_mode);
	f->mode = st.st_mode & 0777;
	f->target = f->is_stream ? strdup(f->path) : realpath(f->path, NULL);
	return f->target ? 0 : -errno;
}

/* Opens the directory of f->target, and divides the target. */
static int directory_open(struct ck_html_file *f)
{
	char *slash = strrchr(f->target, '/');
	const char *dir = slash == f->target ? "/" : f->target;

	f->name = slash ? slash + 1 : f->target;
	if (slash)
		*slash = '\0';
	f->dirfd = open(slash ? dir : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (f->dirfd < 0 || faccessat(f->dirfd, ".", W_OK | X_OK, AT_EACCESS))
		return -errno;
	return *f->name ? 0 : -EISDIR;
}

int ck_html_file_find(struct ck_html_file *f, const char *path)
{
	int rc;

	*f = (struct ck_html_file){ .path = path, .dirfd = -1 };
	if (strcmp(path, "-") == 0) {
		f->is_stream = true;
		return CK_EXIT_FINE;
	}
	rc = target_find(f);
	if (rc == 0 && !f->is_stream)
		rc = directory_open(f);
	return rc ? failed(f, -rc) : CK_EXIT_FINE;
}

void ck_html_file_fini(struct ck_html_file *f)
{
	free(f->target);
	if (f->dirfd >= 0)
		close(f->dirfd);
}

/* --- the source ----------------------------------------------------------------------------- */

/* True if the file begins as a page does. */
static bool is_page(const struct ck_html_file *f)
{
	struct ck_str begin = ck_html_page.before;
	ck_auto_fd int fd = openat(f->dirfd, f->name,
				   O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char text[16];

	begin.len = ck_min(begin.len, sizeof(text));
	return fd >= 0 && pread(fd, text, begin.len, 0) == (ssize_t)begin.len &&
	       memcmp(text, begin.p, begin.len) == 0;
}

int ck_html_file_spare(const struct ck_html_file *f,
		       const struct ck_picked_source *source)
{
	const struct ck_checkpoint *cp = source->from.cp;
	struct stat st;

	if (f->is_stream || fstatat(f->dirfd, f->name, &st, 0) != 0)
		return CK_EXIT_FINE;
	if (!ck_picked_source_reads(source, &st) &&
	    (cp->file ||
	     !ck_checkpoint_holds(cp, fcntl(f->dirfd, F_DUPFD_CLOEXEC, 0)) ||
	     is_page(f)))
		return CK_EXIT_FINE;
	return ck_trouble("%s: a file of the source, which is not replaced",
			  ck_show(ck_str_from(f->path)));
}

/* --- the bytes ------------------------------------------------------------------------------ */

/* Writes all bytes and closes fd. Returns 0, or a negative errno. */
static int fd_write(int fd, const struct ck_buf *text)
{
	int rc = ck_write_full(fd, text->data, text->len);

	if (close(fd) && rc == 0)
		rc = -errno;
	return rc;
}

static int stream_write(const struct ck_html_file *f, const struct ck_buf *text)
{
	int fd = open(f->target, O_WRONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write(fd, text);
}

static int new_write(const struct ck_html_file *f, const struct ck_buf *text)
{
	char hex[17], name[32];
	int fd, rc = ck_random_hex(hex);

	if (rc)
		return rc;
	snprintf(name, sizeof(name), ".ckptfs-%s", hex);
	fd = openat(f->dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		    0666);
	if (fd < 0 || (f->mode && fchmod(fd, f->mode)))
		rc = -errno;
	if (fd >= 0 && rc == 0)
		rc = fd_write(fd, text);
	else if (fd >= 0)
		close(fd);
	if (rc == 0 && renameat(f->dirfd, name, f->dirfd, f->name))
		rc = -errno;
	if (rc && fd >= 0)
		unlinkat(f->dirfd, name, 0);
	return rc;
}

/* Signals that end the process wait, so that no file with a random name stays. */
static int replace(const struct ck_html_file *f, const struct ck_buf *text)
{
	sigset_t ending, old;
	int rc;

	sigemptyset(&ending);
	sigaddset(&ending, SIGHUP);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &ending, &old);
	rc = new_write(f, text);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

int ck_html_file_write(const struct ck_html_file *f, struct ck_buf *text)
{
	int rc = text->err;

	if (rc == 0 && f->is_stream && !f->target)
		return ck_print(text);
	if (rc == 0)
		rc = f->is_stream ? stream_write(f, text) : replace(f, text);
	ck_buf_fini(text);
	return rc ? failed(f, -rc) : CK_EXIT_FINE;
}
