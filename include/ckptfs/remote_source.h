/* SPDX-License-Identifier: MIT */
/*
 * remote_source: a directory of which parts lie on other hosts. All hosts together are one
 * directory: whoever opens a checkpoint asks here what is in it, and looks at files here as
 * if there were no others. A part of source.
 */
#ifndef CKPTFS_REMOTE_SOURCE_H
#define CKPTFS_REMOTE_SOURCE_H

#include "ckptfs/fetch.h"
#include "ckptfs/source.h"

/* A copy of a file that is not used where another one is. Texts are valid until others
 * are shown, and the name as long as the ck_remote_source. */
struct ck_unused_copy {
	uint32_t file;
	const char *host;
	int err; /* positive errno that it would give */
	const char *what;
	const char *expected, *found; /* NULL: no difference */
};

enum { CK_REMOTE_SOURCE_HEAD = 32 }; /* bytes */

/* What there is in the directory of some host. */
struct ck_remote_source_name {
	const char *name;
	unsigned char type; /* as in struct dirent */
};

/* The part of a checkpoint's directory that lies on other hosts. Whoever opens the
 * checkpoint calls list(), begins(), text(), metadata(), files() and bring(), in one
 * thread, and opened() in the end. */
struct ck_remote_source {
	/* The names in the directory, those of all hosts, each once, in natural order: as
	 * long as the ck_remote_source. They are asked for once; when the checkpoint is open
	 * any thread may have them again, of one whose names were asked for. */
	int (*list)(struct ck_remote_source *e,
		    const struct ck_remote_source_name **list, size_t *n,
		    struct ck_diag *d);
	/* Which of n files begin so, by up to CK_REMOTE_SOURCE_HEAD of their first bytes: the
	 * copy of one host does, or is a link that is not followed. */
	int (*begins)(struct ck_remote_source *e, const struct ck_str *names,
		      size_t n, bool (*is)(const uint8_t *head, size_t len),
		      bool *out, struct ck_diag *d);
	/* As metadata(), of a file that says something of the checkpoint beside that. */
	int (*text)(struct ck_remote_source *e, struct ck_str name,
		    uint64_t most, struct ck_file_info *said, void **pages,
		    struct ck_diag *d);
	/* The file of this name that counts, over all hosts: *said is what its host
	 * says of it, with the newest time and the fewest rights of all, and *pages what
	 * is in it, said->size bytes of ck_pages_alloc(), the caller's; NULL: it is the one in the directory of this host. -ENOENT:
	 * no host has one; -ESTALE: they differ; -EBADMSG: one has more than `most`
	 * bytes, or is no file; -EIO. */
	int (*metadata)(struct ck_remote_source *e, struct ck_str name,
			uint64_t most, struct ck_file_info *said, void **pages,
			struct ck_diag *d);
	/* Files of the checkpoint were added to the set, which has looked for them here:
	 * of those that were not there the last time it was called, those that another
	 * host has are made remote. From then on they are read as any others: who opens
	 * the checkpoint waits for their bytes. shown: NULL: the owner and group of the
	 * first of them that can be used. */
	int (*files)(struct ck_remote_source *e, struct ck_files *files,
		     const struct ck_ids *shown, struct ck_diag *d);
	/* Brings what is wanted of remote files, all of it at once. -ENOMEM; what is
	 * wrong with single pieces is theirs. */
	int (*bring)(struct ck_remote_source *e, struct ck_fetch *wanted);
	/* The checkpoint is open: nobody waits for bytes any more. *partly: some host was
	 * not there, and what it has was not listed. */
	int (*opened)(struct ck_remote_source *e, struct ck_files *files,
		      bool *partly);
	/* Which bits of 0777 copies of the metadata on other hosts take from that which
	 * is here. Set by metadata(), or by whoever takes a data file for it. */
	mode_t metadata_closed;
	/* Of metadata that is not here: 1: it is another file by now, 0: it is not, as
	 * far as was heard, and *now is who may read it; or a negative errno. */
	int (*changed)(struct ck_remote_source *e, struct ck_file_access *now);
	/* The name of the host on which a file of the set is read, i = 0, and of those
	 * with a copy that is read if that fails, in this order; NULL: there are no
	 * more. As long as the ck_remote_source. Any thread. */
	const char *(*host)(const struct ck_remote_source *e, uint32_t file,
			    uint32_t i);
	/* Why no host gives bytes of a file now that some could give when the
	 * checkpoint was opened, as ck_shown(); NULL: one does. Any thread. */
	const char *(*away)(const struct ck_remote_source *e, uint32_t file);
	/* The i-th of the copies that are not used, although their hosts are there or
	 * were. False: there are not so many. Any thread. */
	bool (*unused)(const struct ck_remote_source *e, size_t i,
		       struct ck_unused_copy *out);
	/* Appends a line for each host to a status. Any thread. */
	void (*print)(const struct ck_remote_source *e, struct ck_buf *out);
	/* Appends a row of "paths" in .ckptfs/stats for each host. Any thread. */
	void (*paths)(const struct ck_remote_source *e, struct ck_buf *out);
	struct ck_stats *stats; /* what was read so far; NULL: nobody counts */
};

#endif
