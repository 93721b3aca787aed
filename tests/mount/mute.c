/* SPDX-License-Identifier: MIT */
/*
 * mute: an LD_PRELOAD library. The daemon is killed as it gives its n-th
 * answer, where MUTE_AT says n: a request of the kernel stays unanswered. With
 * MUTE_LATE its first answer comes half a second late.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

__attribute__((visibility("default"))) ssize_t writev(int fd,
						      const struct iovec *iov,
						      int n)
{
	static atomic_int answers;
	const char *at = getenv("MUTE_AT");
	int answer = atomic_fetch_add(&answers, 1) + 1;

	if (at && answer == atoi(at))
		kill(getpid(), SIGKILL);
	if (getenv("MUTE_LATE") && answer == 1)
		usleep(500 * 1000);
	return syscall(SYS_writev, fd, iov, n);
}
