/* SPDX-License-Identifier: MIT */
/*
 * protocol: the parts of the FUSE protocol that libfuse 3.14 lacks: two capabilities, the
 * backing file of an open file, and O_TMPFILE. libfuse lets its user read requests and send
 * replies (fuse_session_custom_io()), so they are completed on their way; with newer
 * releases of libfuse, too.
 *
 * libfuse sends a reply in the thread that calls fuse_reply_*(), and the reply to FUSE_INIT
 * in the one that calls the handler `init`. So a thread says what its next reply has.
 *
 * Source: linux/fuse.h of Linux 6.9, protocol 7.40. No locks; any thread.
 */
#ifndef CKPTFS_PROTOCOL_H
#define CKPTFS_PROTOCOL_H

#include "ckptfs/base.h"
#include <fcntl.h>

struct ck_fs;

/* Capabilities of FUSE_INIT. */
#define CK_PROTOCOL_KILLPRIV_V2 (UINT64_C(1) << 28) /* Linux 5.11 */
#define CK_PROTOCOL_PASSTHROUGH (UINT64_C(1) << 37) /* Linux 6.9 */

/* Must be called after the mount and before the first request. Sets fs->offered, before the
 * handler `init` is called. Returns 0 or a negative errno. */
CK_MUST_USE int ck_protocol_begin(struct ck_fs *fs);
/* The reply to FUSE_INIT requests these capabilities, too. For the handler `init`. */
void ck_protocol_request(uint64_t capabilities);
/* The reply to open(2) or creat(2) that this thread sends next has the backing file with
 * this id; 0: none. */
void ck_protocol_back(int id);

/* A file without a name comes to the handler `create`, with a name that has no meaning. True
 * if the flags are those of such a file: open(2) accepts O_TMPFILE with no O_CREAT. */
static inline bool ck_protocol_is_unnamed(int flags)
{
	return (flags & O_TMPFILE) == O_TMPFILE;
}

#endif
