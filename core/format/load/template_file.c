/* SPDX-License-Identifier: MIT */
/*
 * template_file: opens a file in a directory that the user names (hf_template=). In a
 * checkpoint, links are followed as far as its options allow; here all are followed.
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
