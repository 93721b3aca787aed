/* SPDX-License-Identifier: MIT */
/* fd_link: see fd_link.h. */
#include "fd_link.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

void ck_fd_link(int fd, char out[static CK_FD_LINK_BYTES])
{
	snprintf(out, CK_FD_LINK_BYTES, "/proc/self/fd/%d", fd);
}

int ck_fd_reopen(int fd, int flags)
{
	char link[CK_FD_LINK_BYTES];
	int opened;

	ck_fd_link(fd, link);
	opened = open(link, flags | O_CLOEXEC);
	return opened < 0 ? -errno : opened;
}
