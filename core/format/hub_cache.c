/* SPDX-License-Identifier: MIT */
/*
 * hub_cache: finds the cache of huggingface_hub that contains a path. In this cache a model
 * is a directory of links. Stateless.
 *
 * Source: huggingface_hub, docs/source/en/guides/manage-cache.md, "Understand caching",
 * 1.x: models--ORG--NAME has snapshots/REVISION/FILE, a relative link to blobs/HASH; FILE
 * may be in directories of its own.
 */
#include "hub_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define SNAPSHOTS "/snapshots/"

/* The last "/snapshots/" in the path, since an outer directory may have that name too. NULL if
 * the path has no such part. */
static const char *snapshots_of(const char *path)
{
	const char *found = NULL;

	for (const char *at = path; (at = strstr(at, SNAPSHOTS)); at++)
		found = at;
	return found;
}

int ck_hub_cache_open_blobs(const char *path)
{
	const char *snapshots = snapshots_of(path);
	ck_auto_free char *blobs = NULL;
	int fd;

	if (!snapshots)
		return -ENOENT;
	if (asprintf(&blobs, "%.*s/blobs", (int)(snapshots - path), path) < 0)
		return -ENOMEM;
	fd = open(blobs, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}
