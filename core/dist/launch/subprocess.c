/* SPDX-License-Identifier: MIT */
/*
 * subprocess: starts a child process by posix_spawn(3), reads its standard
 * error, and ends it with its session. A pidfd becomes readable when it has exited. A
 * child is running until ck_subprocess_end() has reaped it. One thread at a
 * time.
 */
#include "subprocess.h"
#include "base/system/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	TERM_MSEC = 1000,
	OUTPUT_MOST = 64 << 10, /* bytes of one read: output may be endless */
};

char *ck_subprocess_program(void)
{
	return realpath("/proc/self/exe", NULL);
}

/* --- starting ------------------------------------------------------------- */

/* Redirects standard error to `errors`, and output to /dev/null, and changes to
 * the root, so that no file system is kept busy. `errors` comes first: it may be
 * descriptor 1 if this process had it closed. */
static int set_errors(posix_spawn_file_actions_t *files, int errors)
{
	int err = posix_spawn_file_actions_adddup2(files, errors, 2);

	if (!err)
		err = posix_spawn_file_actions_addopen(files, 1, "/dev/null",
						       O_WRONLY, 0);
	return err ? err : posix_spawn_file_actions_addchdir_np(files, "/");
}

/* The descriptors of the child. */
struct files {
	/* Its standard error. -1: it inherits standard output, standard error
	 * and the directory. */
	int errors;
	const int *more; /* n, numbered above their destinations */
	size_t n;
};

static int set_files(posix_spawn_file_actions_t *files, const struct files *of)
{
	int err = of->errors < 0 ? 0 : set_errors(files, of->errors);

	if (!err)
		err = posix_spawn_file_actions_addopen(files, 0, "/dev/null",
						       O_RDONLY, 0);
	for (size_t i = 0; i < of->n && !err; i++)
		err = posix_spawn_file_actions_adddup2(
			files, of->more[i], CK_SUBPROCESS_FILES + (int)i);
	if (!err)
		err = posix_spawn_file_actions_addclosefrom_np(
			files, CK_SUBPROCESS_FILES + (int)of->n);
	return err;
}

/* In the child no signal is blocked or ignored. */
static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none, all;
	int err;

	sigemptyset(&none);
	sigfillset(&all);
	err = posix_spawnattr_setflags(
		attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
				    POSIX_SPAWN_SETSIGDEF);
	if (!err)
		err = posix_spawnattr_setsigmask(attributes, &none);
	return err ? err : posix_spawnattr_setsigdefault(attributes, &all);
}

static int spawn(char *const argv[], char *const environment[],
		 const struct files *of, pid_t *process)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	int err = posix_spawn_file_actions_init(&files);

	if (err)
		return -err;
	err = posix_spawnattr_init(&attributes);
	if (!err) {
		err = set_files(&files, of);
		if (!err)
			err = set_attributes(&attributes);
		if (!err)
			err = posix_spawnp(process, argv[0], &files,
					   &attributes, argv,
					   environment ? environment : environ);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&files);
	return -err;
}

/* Starts a process with a pidfd. */
static int start(char *const argv[], char *const environment[],
		 const struct files *of, struct ck_subprocess *out)
{
	int rc;

	*out = (struct ck_subprocess){ .ended = -1, .errors = -1 };
	rc = spawn(argv, environment, of, &out->process);
	if (rc)
		return rc;
	out->ended = (int)syscall(SYS_pidfd_open, out->process, 0);
	if (out->ended >= 0)
		return 0;
	rc = -errno;
	if (rc != -ESRCH) /* ESRCH: SIGCHLD is ignored, and it has exited */
		(void)kill(out->process, SIGKILL);
	(void)waitpid(out->process, NULL, 0);
	return rc;
}

int ck_subprocess_start(char *const argv[], char *const environment[],
			struct ck_subprocess *out)
{
	ck_auto_fd int from_it = -1, errors = -1;
	int ends[2], rc;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	from_it = ends[0];
	errors = ends[1];
	if (fcntl(from_it, F_SETFL, O_NONBLOCK))
		return -errno;
	rc = start(argv, environment, &(struct files){ .errors = errors }, out);
	if (rc)
		return rc;
	out->errors = from_it;
	from_it = -1;
	return 0;
}

/* A destination may be the number of another file, so all are duplicated above
 * the destinations first. */
int ck_subprocess_start_beside(char *const argv[], const int *files, size_t n,
			       struct ck_subprocess *out)
{
	int copies[CK_SUBPROCESS_FILES_MOST];
	struct files of = { .errors = -1, .more = copies };
	int rc = n > CK_SUBPROCESS_FILES_MOST ? -EINVAL : 0;

	for (; of.n < n && rc == 0; of.n += rc == 0) {
		copies[of.n] =
			fcntl(files[of.n], F_DUPFD_CLOEXEC,
			      CK_SUBPROCESS_FILES + CK_SUBPROCESS_FILES_MOST);
		rc = copies[of.n] < 0 ? -errno : 0;
	}
	if (rc == 0)
		rc = start(argv, NULL, &of, out);
	while (of.n)
		close(copies[--of.n]);
	return rc;
}

int ck_subprocess_settle(void)
{
	ck_auto_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || chdir("/") ||
	    fcntl(CK_SUBPROCESS_FILES, F_SETFD, FD_CLOEXEC))
		return -errno;
	return 0;
}

/* --- reading -------------------------------------------------------------- */

void ck_subprocess_read(const struct ck_subprocess *job, struct ck_buf *out)
{
	char step[2048];
	size_t length = 0;
	ssize_t n;

	while (length < OUTPUT_MOST &&
	       (n = read(job->errors, step, sizeof(step))) > 0) {
		ck_buf_add(out, step, (size_t)n);
		length += (size_t)n;
	}
}

/* --- ending --------------------------------------------------------------- */

/* Waits until the process has exited, at most msec. Reads its output meanwhile,
 * since it blocks if the pipe is full. */
static bool has_ended(const struct ck_subprocess *job, int msec)
{
	uint64_t end = ck_msec_now() + (uint64_t)msec, now;
	struct pollfd fds[] = { { .fd = job->ended, .events = POLLIN },
				{ .fd = job->errors, .events = POLLIN } };

	while ((now = ck_msec_now()) <= end) {
		struct ck_buf unheard = { 0 };

		if (poll(fds, 2, (int)(end - now)) <= 0)
			continue;
		if (fds[0].revents)
			return true;
		ck_subprocess_read(job, &unheard);
		ck_buf_fini(&unheard);
		if (!(fds[1].revents & POLLIN))
			fds[1].fd = -1; /* the child has closed it */
	}
	return false;
}

/* Returns true if the process belongs to the session. */
static bool is_of_session(pid_t process, pid_t session)
{
	char text[CK_PROCESS_STAT];
	const char *fields = ck_process_stat(process, text);
	long of = 0;

	/* state, parent, group, session */
	return fields && sscanf(fields, " %*c %*d %*d %ld", &of) == 1 &&
	       of == session;
}

/* Kills processes of the session that the child has left behind. */
static void end_session(pid_t session)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		pid_t process = (pid_t)strtol(e->d_name, NULL, 10);

		if (process > 0 && is_of_session(process, session))
			(void)kill(process, SIGKILL);
	}
	if (dir)
		closedir(dir);
}

void ck_subprocess_end(struct ck_subprocess *job, int msec)
{
	static const int signals[] = { SIGTERM, SIGKILL };
	bool ended = has_ended(job, msec);

	for (size_t i = 0; !ended && i < CK_ARRAY_SIZE(signals); i++) {
		(void)syscall(SYS_pidfd_send_signal, job->ended, signals[i],
			      NULL, 0);
		ended = has_ended(job, TERM_MSEC);
		if (ended || signals[i] == SIGKILL)
			end_session(job->process);
	}
	job->status = -1;
	while (ended && waitpid(job->process, &job->status, 0) < 0 &&
	       errno == EINTR)
		;
	ck_fd_cleanup(&job->ended);
	ck_fd_cleanup(&job->errors);
}
