/* SPDX-License-Identifier: MIT */
/*
 * remote_source: the interface to parts of the directory that are on other hosts.
 * All hosts together form one directory. The code that opens a checkpoint lists and
 * stats files through this interface as if they were local. core/dist implements
 * it. A part of source.
 */
#ifndef CKPTFS_REMOTE_SOURCE_H
#define CKPTFS_REMOTE_SOURCE_H

#include "ckptfs/source.h"
#include "fetch.h"

/* A replica that is not used, since another one is. Texts are valid until the
 * thread calls ck_shown() again, and the name as long as the ck_remote_source. */
struct ck_unused_copy {
	uint32_t file;
	const char *host;
	int err; /* positive errno that a read of it would return */
	const char *what;
	const char *expected, *found; /* NULL: not a difference */
};

enum { CK_REMOTE_SOURCE_HEAD = 32 }; /* bytes */

/* A name in the directory of one or more hosts. */
struct ck_remote_source_name {
	const char *name;
	unsigned char type; /* as in struct dirent */
};

/* The thread that opens the checkpoint calls list(), begins(), text(), metadata(),
 * files() and bring(), and finally opened(). Functions marked "any thread" may also
 * be called later. Functions return 0 or a negative errno. */
struct ck_remote_source {
	/* The names in the directory of all hosts, each once, in natural order.
	 * Valid as long as the ck_remote_source. Hosts are queried once. When
	 * the checkpoint is open, any thread may call this again if it was
	 * called before. */
	int (*list)(struct ck_remote_source *e,
		    const struct ck_remote_source_name **list, size_t *n,
		    struct ck_diag *d);
	/* Finds which of n files begin as `is` requires, given up to
	 * CK_REMOTE_SOURCE_HEAD of their first bytes. out[i]: the replica of one
	 * host does, or is a link that is not followed. */
	int (*begins)(struct ck_remote_source *e, const struct ck_str *names,
		      size_t n, bool (*is)(const uint8_t *head, size_t len),
		      bool *out, struct ck_diag *d);
	/* As metadata(), for another file that describes the checkpoint. */
	int (*text)(struct ck_remote_source *e, struct ck_str name,
		    uint64_t most, struct ck_file_info *info, void **pages,
		    struct ck_diag *d);
	/* Chooses the file of this name over all hosts. *info: the state that
	 * its host reported, with the latest mtime and the intersection of the
	 * access rights of all replicas. *pages: its contents, info->size bytes
	 * of ck_pages_alloc(), owned by the caller; NULL if the local file was
	 * chosen. Returns 0, or: -ENOENT if no host has one; -ESTALE if they
	 * differ; -EBADMSG if one is longer than `most` bytes or not a regular
	 * file; -EIO. */
	int (*metadata)(struct ck_remote_source *e, struct ck_str name,
			uint64_t most, struct ck_file_info *info, void **pages,
			struct ck_diag *d);
	/* Files were added to the set, which has recorded the local ones. Those
	 * added since the last call that are not local, but on another host, become
	 * remote. From then on they are read like all others, and the opening
	 * thread blocks on their bytes. shown: owner and group to show; NULL: those
	 * of the first usable file. */
	int (*files)(struct ck_remote_source *e, struct ck_files *files,
		     const struct ck_ids *shown, struct ck_diag *d);
	/* Fetches all ranges of `wanted` together. Returns 0, or -ENOMEM; errors of
	 * single ranges are in their rc. */
	int (*bring)(struct ck_remote_source *e, struct ck_fetch *wanted);
	/* The checkpoint is open: from now on no thread blocks on remote bytes.
	 * Sets *partly if some host was down, so that its files were not listed. */
	int (*opened)(struct ck_remote_source *e, struct ck_files *files,
		      bool *partly);
	/* Bits of 0777 that replicas of the metadata on other hosts deny, although
	 * the local one grants them. Set by metadata(), or by a format that uses a
	 * data file as metadata. */
	mode_t metadata_closed;
	/* For metadata on another host: 1 if it was replaced, 0 if it is unchanged
	 * as far as its host has reported, or a negative errno. If 0, sets *now to
	 * its access rights. */
	int (*changed)(struct ck_remote_source *e, struct ck_file_access *now);
	/* Name of the host from which a file of the set is read (i = 0), and of the
	 * hosts to which reads fail over (i > 0), in order. NULL if there are no
	 * more. Valid as long as the ck_remote_source. Any thread. */
	const char *(*host)(const struct ck_remote_source *e, uint32_t file,
			    uint32_t i);
	/* Reason why no host serves bytes of a file now that were served when the
	 * checkpoint was opened, as ck_shown(); NULL if one does. Any thread. */
	const char *(*down_host)(const struct ck_remote_source *e,
				 uint32_t file);
	/* Sets *out to the i-th unused replica on a host that is or was up. Returns
	 * false if there are not so many. Any thread. */
	bool (*unused)(const struct ck_remote_source *e, size_t i,
		       struct ck_unused_copy *out);
	/* Appends a line for each host to a status. Any thread. */
	void (*print)(const struct ck_remote_source *e, struct ck_buf *out);
	/* Appends a row of "paths" in .ckptfs/stats for each host. Any thread. */
	void (*paths)(const struct ck_remote_source *e, struct ck_buf *out);
	struct ck_stats *stats; /* counters of reads; NULL: not counted */
};

#endif
