/* SPDX-License-Identifier: MIT */
/*
 * detacher: the process that unmounts for a daemon of root. After it has
 * mounted, such a daemon drops the privilege to unmount (see privileges.c).
 *
 * The process (apart.h) waits at a pipe. When the other end closes, it executes
 * the last message that it has read. The kernel closes that end for a daemon
 * that is killed, too.
 *
 * By then the path may lead to another mount: ours may be unmounted already, or
 * covered. Only the mount with the identity from the message is detached.
 * Neither lookup nor detaching needs a reply of a FUSE daemon.
 *
 * Threads: the daemon calls these functions from one thread at a time.
 */
#include "detacher.h"
#include "apart.h"
#include "base/system/fd_link.h"
#include "base/system/privileges.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAIT_MSEC = 10000 };

struct ck_detacher {
	pid_t process;
	int orders; /* owned; end of the pipe */
	const char *mountpoint;
};

struct order {
	struct ck_mount_id mounted;
	bool detach;
};

/* --- the process ---------------------------------------------------------- */

/* Returns 0 also if the mount does not exist any more. The mount is detached by
 * its descriptor, so no other can take its place; without /proc by its path. */
static int detach_mount(const char *mountpoint,
			const struct ck_mount_id *mounted)
{
	ck_auto_fd int fd = ck_mounted_open(mountpoint, mounted);
	char link[CK_FD_LINK_BYTES];

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	ck_fd_link(fd, link);
	if (umount2(link, MNT_DETACH) == 0)
		return 0;
	return errno == ENOENT
		       ? umount2(mountpoint, MNT_DETACH | UMOUNT_NOFOLLOW)
		       : -1;
}

static int wait_and_detach(int orders, const void *arg)
{
	const char *mountpoint = arg;
	struct order order = { .detach = false }, next;
	struct ck_diag d = { 0 };

	if (ck_privileges_drop(CK_ROLE_DETACHER, CK_SOCKETS_NONE, &d))
		return 1;
	while (read(orders, &next, sizeof(next)) == sizeof(next))
		order = next;
	return order.detach && detach_mount(mountpoint, &order.mounted) ? 1 : 0;
}

/* --- its daemon ----------------------------------------------------------- */

int ck_detacher_start(const char *mountpoint, struct ck_detacher **out,
		      struct ck_diag *d)
{
	struct ck_detacher *detacher;
	int ends[2];

	if (geteuid() != 0)
		return 0;
	detacher = calloc(1, sizeof(*detacher));
	if (!detacher || pipe2(ends, O_CLOEXEC)) {
		free(detacher);
		return ck_fail(d, errno, "no pipe: %s", strerror(errno));
	}
	detacher->mountpoint = mountpoint;
	detacher->process = ck_apart_start(ends, "ckptfs-detacher",
					   wait_and_detach, mountpoint);
	detacher->orders = ends[1];
	if (detacher->process < 0) {
		free(detacher);
		return ck_fail(d, errno, "no process: %s", strerror(errno));
	}
	*out = detacher;
	return 0;
}

void ck_detacher_send(struct ck_detacher *d, const struct ck_mount_id *mounted,
		      bool detach)
{
	struct order order = { *mounted, detach };

	if (ck_write_full(d->orders, &order, sizeof(order)))
		ck_log("%s: the process that unmounts is gone",
		       ck_show(ck_str_from(d->mountpoint)));
}

/* A directory above the mount may be in a file system that does not answer. The
 * daemon holds the lock of the checkpoint and must not wait for it. */
int ck_detacher_wait(struct ck_detacher *d)
{
	int status = 0;

	if (d->orders < 0)
		return 0;
	ck_fd_cleanup(&d->orders);
	if (!ck_apart_has_ended(d->process, WAIT_MSEC))
		return -EBUSY;
	while (waitpid(d->process, &status, 0) < 0 && errno == EINTR)
		;
	return status ? -EBUSY : 0;
}

void ck_detacher_end(struct ck_detacher *d)
{
	if (d)
		(void)!ck_detacher_wait(d);
	free(d);
}
