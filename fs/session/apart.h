/* SPDX-License-Identifier: MIT */
/*
 * apart: processes that do for the daemon what it may not do itself. Each is forked before
 * the daemon opens anything, so it has no device, lock or memory of the daemon, only one end
 * of a pipe or socket. It ends when the other end is closed.
 */
#ifndef CKPTFS_APART_H
#define CKPTFS_APART_H

#include <stdbool.h>
#include <sys/types.h>

/* Starts a process without signals, with this name, that ends with the value of
 * run(ends[0], arg). Closes ends[0] here and, if there is no process, ends[1], too. Must be
 * called before threads are started. Returns the process, or -1 and errno. */
pid_t ck_apart_start(const int ends[2], const char *name,
		     int (*run)(int fd, const void *arg), const void *arg);

/* Waits for the end of a process, for at most so many milliseconds. False if it runs on. */
bool ck_apart_has_ended(pid_t process, int msec);

/* Such a process at the other end of a socket. */
struct ck_apart {
	pid_t process;
	int fd; /* of the type SOCK_SEQPACKET */
};

/* Starts it as ck_apart_start() does. Returns 0 or a negative errno. */
int ck_apart_open(struct ck_apart *out, const char *name,
		  int (*run)(int fd, const void *arg));
/* Closes the socket, and waits up to one second for the process. It may wait for a file system
 * that does not answer, and ends after that. */
void ck_apart_close(const struct ck_apart *a);

#endif
