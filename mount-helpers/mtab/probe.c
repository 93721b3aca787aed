/* SPDX-License-Identifier: MIT */
/*
 * probe: runs a call that may block for ever in a child process, with a deadline. A child
 * that waits in the kernel for a mount without daemon may survive SIGKILL. Therefore the
 * parent does not wait for a killed child. The child keeps one descriptor only, the pipe for
 * its answer, so it does not hold files or locks of its caller.
 */
#include "mounts.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MSEC = 500 }; /* between two calls of goes_on() */

/* Writes the answer to the pipe: an int, the value that work() returned, and the bytes. */
static void run_child(int (*work)(void *arg, struct ck_buf *answer), void *arg,
		      int to_parent)
{
	struct ck_buf answer = { 0 };
	int null = open("/dev/null", O_RDWR);
	int rc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	dup2(to_parent, STDIN_FILENO);
	(void)syscall(SYS_close_range, 3U, ~0U, 0U);
	rc = work(arg, &answer);
	if (rc == 0)
		rc = answer.err;
	if (ck_write_full(STDIN_FILENO, &rc, sizeof(rc)) == 0)
		(void)!ck_write_full(STDIN_FILENO, answer.data, answer.len);
	_exit(0);
}

struct limit {
	int64_t end; /* of ck_msec_now() */
	bool (*goes_on)(void *arg);
	void *arg;
};

/* Returns 0 when there are bytes or the end of the pipe, or: -ETIMEDOUT at the limit; an
 * errno of poll(2). */
static int wait_readable(int fd, const struct limit *l)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;) {
		int64_t left = l->end - (int64_t)ck_msec_now();
		int n;

		if (left < 0 && l->goes_on && l->goes_on(l->arg))
			left = LOOK_MSEC;
		if (left < 0)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)left);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

static int read_answer(int fd, const struct limit *l, struct ck_buf *out)
{
	char bytes[2048];

	for (;;) {
		int rc = wait_readable(fd, l);
		ssize_t n = rc ? 0 : read(fd, bytes, sizeof(bytes));

		if (rc)
			return rc;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return out->err;
		if (n > 0)
			ck_buf_add(out, bytes, (size_t)n);
		if (out->len > CK_ANSWER_MAX)
			return -EFBIG;
	}
}

int ck_probe(int (*work)(void *arg, struct ck_buf *answer), void *arg,
	     unsigned msec, bool (*goes_on)(void *arg), struct ck_buf *answer)
{
	const struct limit limit = { (int64_t)ck_msec_now() + msec, goes_on,
				     arg };
	struct ck_buf all = { 0 };
	ck_auto_fd int from_child = -1;
	int ends[2], rc, result = -EIO;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	from_child = ends[0];
	child = fork();
	if (child == 0)
		run_child(work, arg, ends[1]);
	close(ends[1]);
	if (child < 0)
		return -errno;
	rc = read_answer(from_child, &limit, &all);
	if (rc)
		kill(child, SIGKILL);
	while (waitpid(child, NULL, rc ? WNOHANG : 0) < 0 && errno == EINTR)
		;
	if (rc == 0 && all.len >= sizeof(result)) {
		memcpy(&result, all.data, sizeof(result));
		ck_buf_add(answer, all.data + sizeof(result),
			   all.len - sizeof(result));
	}
	ck_buf_fini(&all);
	return rc ? rc : result ? result : answer->err;
}
