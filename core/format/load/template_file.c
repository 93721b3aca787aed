/* SPDX-License-Identifier: MIT */
/*
 * template_file: opens a file in a directory that the user names (hf_template=). All
 * links are followed there; in a checkpoint, only those that its options allow.
 * Stateless.
 */
#include "load_gather.h"

#include <errno.h>
#include <fcntl.h>

int ck_template_file(int dirfd, const char *name)
{
	int fd = openat(dirfd, name,
			O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}
