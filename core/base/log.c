/* SPDX-License-Identifier: MIT */
/*
 * log: writes one line at a time to stderr (until ck_log_detach()), to a file
 * or syslog (if configured), and always into a ring of 1 MiB that .ckptfs/log
 * shows. The oldest lines of the ring are overwritten. Any thread; one lock
 * protects the state and is not held during writes.
 */
#include "ckptfs/base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <syslog.h>
#include <unistd.h>

enum { RING = 1 << 20, LINE = 2048 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Under lock: */
static char *ring;
static size_t ring_end; /* total bytes written */
static bool to_stderr = true, to_syslog;
static int file_fd = -1;

static void ring_add(const char *line, size_t len)
{
	if (!ring)
		ring = malloc(RING);
	if (!ring)
		return;
	for (size_t i = 0; i < len; i++)
		ring[ring_end++ % RING] = line[i];
}

/* `line` ends in a newline. The lock is not held during the writes, which may
 * block. */
static void write_line(const char *line, size_t len)
{
	bool terminal, system;
	int fd;

	pthread_mutex_lock(&lock);
	ring_add(line, len);
	terminal = to_stderr;
	system = to_syslog;
	fd = file_fd;
	pthread_mutex_unlock(&lock);
	if (terminal)
		(void)!write(STDERR_FILENO, line, len);
	if (fd >= 0)
		(void)!write(fd, line, len);
	if (system)
		syslog(LOG_NOTICE, "%.*s", (int)len - 1, line);
}

void ck_log(const char *fmt, ...)
{
	char line[LINE] = "ckptfs: ";
	size_t len = strlen(line);
	va_list args;

	va_start(args, fmt);
	vsnprintf(line + len, sizeof(line) - len - 1, fmt, args);
	va_end(args);
	len = strlen(line);
	line[len++] = '\n';
	write_line(line, len);
}

int ck_log_open(const char *file)
{
	int fd;

	if (!file)
		return 0;
	if (strcmp(file, "syslog") == 0) {
		openlog("ckptfs", LOG_PID | LOG_NDELAY, LOG_DAEMON);
		pthread_mutex_lock(&lock);
		to_syslog = true;
		pthread_mutex_unlock(&lock);
		return 0;
	}
	/* A full FIFO or a stopped terminal must not block a request. */
	fd = open(file,
		  O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY |
			  O_CLOEXEC,
		  0600);
	if (fd < 0)
		return -errno;
	pthread_mutex_lock(&lock);
	file_fd = fd;
	pthread_mutex_unlock(&lock);
	return 0;
}

void ck_log_detach(void)
{
	pthread_mutex_lock(&lock);
	to_stderr = false;
	pthread_mutex_unlock(&lock);
}

/* Begin of the oldest whole line, counted in total bytes written. */
static size_t oldest_line(void)
{
	size_t at;

	if (ring_end <= RING)
		return 0;
	for (at = ring_end - RING; at < ring_end; at++)
		if (ring[at % RING] == '\n')
			return at + 1;
	return ring_end;
}

void ck_log_snapshot(struct ck_buf *out)
{
	size_t oldest;

	pthread_mutex_lock(&lock);
	oldest = ring ? oldest_line() : ring_end;
	if (oldest > 0)
		ck_buf_printf(out, CK_LOG_GONE "\n", oldest);
	for (size_t at = oldest; at < ring_end;) {
		size_t begin = at % RING;
		size_t len = ck_min(RING - begin, ring_end - at);

		ck_buf_add(out, ring + begin, len);
		at += len;
	}
	pthread_mutex_unlock(&lock);
}
