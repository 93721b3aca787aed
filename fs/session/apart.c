/* SPDX-License-Identifier: MIT */
/*
 * apart: see apart.h. No state, no locks.
 */
#include "apart.h"

#include "ckptfs/base.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Closes everything of the daemon's caller but one descriptor, which becomes 3. */
static void leave_all(int fd, const char *name)
{
	int null = open("/dev/null", O_RDWR);

	setsid();
	(void)!chdir("/");
	for (int i = 0; null >= 0 && i <= 2; i++)
		dup2(null, i);
	if (fd != 3)
		dup2(fd, 3);
	(void)syscall(SYS_close_range, 4U, ~0U, 0U);
	prctl(PR_SET_NAME, name);
}

/* Signals are blocked before the fork: one for the process group of the daemon, as a
 * terminal sends it, would end the new process. */
pid_t ck_apart_start(const int ends[2], const char *name,
		     int (*run)(int fd, const void *arg), const void *arg)
{
	sigset_t all, old;
	pid_t process;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	process = fork();
	if (process == 0) {
		leave_all(ends[0], name);
		_exit(run(3, arg));
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(ends[0]);
	if (process < 0)
		close(ends[1]);
	return process;
}

int ck_apart_open(struct ck_apart *out, const char *name,
		  int (*run)(int fd, const void *arg))
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	*out = (struct ck_apart){ ck_apart_start(ends, name, run, NULL),
				  ends[1] };
	return out->process < 0 ? -errno : 0;
}

bool ck_apart_has_ended(pid_t process, int msec)
{
	ck_auto_fd int fd = (int)syscall(SYS_pidfd_open, process, 0);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n;

	do
		n = poll(&p, 1, msec);
	while (n < 0 && errno == EINTR);
	return fd < 0 || n != 0;
}

void ck_apart_close(const struct ck_apart *a)
{
	enum { WAIT_MSEC = 1000 };

	close(a->fd);
	if (ck_apart_has_ended(a->process, WAIT_MSEC))
		(void)waitpid(a->process, NULL, WNOHANG);
}
