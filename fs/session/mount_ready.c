/* SPDX-License-Identifier: MIT */
/*
 * mount_ready: a thread that waits for the first request of the kernel, raises
 * the read-ahead, reports that the mount can be used, and then waits for a
 * signal that ends the mount. A FUSE thread cannot do this: it would wait for
 * itself.
 *
 * Signals are blocked in all threads and taken by this one with sigwait(), so
 * no signal can be lost between the test of a flag and a wait. It wakes the serving
 * thread with KICK until that thread has left its loop.
 *
 * States: waiting for the first request; ready; ending; joined.
 */
#include "mount_ready.h"
#include "../internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define KICK	  SIGUSR1
#define KICK_USEC 10000

static bool write_text(const char *path, const char *text)
{
	ck_auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && ck_write_full(fd, text, strlen(text)) == 0;
}

/* The default is 128 KiB, and FUSE can only lower it. Reads of uncached data
 * are 1.4 to 2 times faster with more. */
static bool read_ahead_raise(const char *path)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", CK_READ_AHEAD_KB);
	return write_text(path, text);
}

/* The kernel has sent its first request, so the mount works, or has worked if
 * it ended since. This thread must not access files in the mount: a daemon that
 * is killed while it waits for its own reply would never end. */
static void mount_finish(struct ck_mount_ready *k)
{
	char path[64] = "";
	bool raised;

	if (k->mounted)
		snprintf(path, sizeof(path),
			 "/sys/class/bdi/%u:%u/read_ahead_kb",
			 k->mounted->major, k->mounted->minor);
	/* After the end of the mount its device number may be reused. */
	raised = !k->mounted || atomic_load(&k->ended) ||
		 read_ahead_raise(path);
	k->ready(k->mounted ? k->mounted->id : 0, k->arg);
	ck_root_log_copies(k->fs->root, k->fs->area ? CK_AREA_NAME : NULL);
	if (!raised)
		ck_log("first reads are faster with more read-ahead; as root: "
		       "echo %d > %s",
		       CK_READ_AHEAD_KB, path);
}

/* The signals that end a mount. SIGHUP is not one under nohup. */
static void signals_fill(sigset_t *out)
{
	struct sigaction hup;

	sigemptyset(out);
	sigaddset(out, SIGTERM);
	sigaddset(out, SIGINT);
	if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler != SIG_IGN)
		sigaddset(out, SIGHUP);
}

static void *thread_run(void *arg)
{
	struct ck_mount_ready *k = arg;
	sigset_t signals;
	int sig = 0;

	while (sem_wait(&k->fs->first_request) && errno == EINTR)
		;
	if (atomic_load(&k->fs->was_asked))
		mount_finish(k);
	signals_fill(&signals);
	sigwait(&signals, &sig);
	if (!atomic_load(&k->ended))
		ck_log("%s: unmounting", strsignal(sig));
	fuse_session_exit(k->fs->session);
	while (!atomic_load(&k->ended)) {
		pthread_kill(k->caller, KICK);
		usleep(KICK_USEC);
	}
	return NULL;
}

static void kicked(int sig)
{
	(void)sig;
}

/* Only the calling thread may be kicked. */
void ck_mount_ready_take_signals(struct ck_mount_ready *k, sigset_t *old)
{
	struct sigaction kick = { .sa_handler = kicked };
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t ends;

	k->caller = pthread_self();
	signals_fill(&ends);
	pthread_sigmask(SIG_BLOCK, &ends, old);
	sigaction(KICK, &kick, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
	/* a write beyond the limit fails with EFBIG */
	sigaction(SIGXFSZ, &ignore, NULL);
}

int ck_mount_ready_start(struct ck_mount_ready *k,
			 const struct ck_mount_id *mounted)
{
	k->mounted = mounted;
	return pthread_create(&k->thread, NULL, thread_run, k);
}

void ck_mount_ready_stop(struct ck_mount_ready *k)
{
	atomic_store(&k->ended, true);
}

void ck_mount_ready_join(struct ck_mount_ready *k)
{
	/* the kernel may not have sent a request */
	sem_post(&k->fs->first_request);
	pthread_kill(k->thread, SIGTERM);
	pthread_join(k->thread, NULL);
}
