/* SPDX-License-Identifier: MIT */
/*
 * wire: the messages about data files between two hosts, as bytes, and the
 * client's side of them. A file server (file_server.h) has the files of one
 * directory. A client requests their names, their metadata and runs of their
 * bytes. All other state is the client's. There is no I/O here: the caller
 * sends and receives the messages. One thread at a time uses an object.
 *
 * A message is a head of CK_WIRE_HEAD bytes, a body, and for a READ's reply a
 * payload. Numbers are little-endian, without gaps; `text` is a length of 16
 * bits, then that many bytes.
 *
 *	head	magic u32, version u16, type u16, flags u32 (1: a reply),
 *		err u32, id u64, payload u64, body u32, epoch u32, then 24
 *		bytes of zeros
 *	LIST	cursor u64, directory text
 *	 ->	next u64, n u32, more u32, n x (type u8, name text)
 *	STAT	uid u32, gid u32, n u32, n x name text
 *	 ->	n u32, n x the metadata of a file, CK_WIRE_STAT_ROW bytes
 *	READ	n u32, 0 u32, n x (file u32, loops u32, fpos u64, run u64,
 *		loops x (count u64, stride u64))
 *	 ->	bytes read from files for it u64, n x (0 or errno) u32;
 *		payload: the runs of all copy descriptors, packed; zeros for
 *		a descriptor that failed
 *	DIGEST	n u32, 0 u32, n x (file u32, 0 u32, fpos u64, len u64)
 *	 ->	the XXH3-128 of the runs in their order: 16 bytes, as printed
 *	PING
 *	 ->	an empty body
 *
 * Notes between ranks have no reply:
 *
 *	UNMOUNTED	the mount of the sending rank is gone
 *	OVER		the job ends
 *	ROUND		a message of rounds.h; or, by no_rounds.h, the reason
 *			why the sending rank takes part in no rounds
 *
 * A reply has the type, id and epoch of its request. A reply with err, the
 * errno why the request failed, has no body. A message of any other form fails
 * to parse with -EPROTO, and no part of it is used; the caller must then drop
 * the peer that sent it.
 *
 * A client may have CK_WIRE_OPEN_MAX requests and CK_WIRE_BODIES_MAX bytes of
 * their bodies in flight to one file server. A server may drop a client that
 * exceeds that.
 */
#ifndef CKPTFS_WIRE_H
#define CKPTFS_WIRE_H

#include "ckptfs/backend.h"
#include "ckptfs/source.h"

enum {
	CK_WIRE_VERSION = 1,
	CK_WIRE_HEAD = 64,		/* bytes */
	CK_WIRE_STAT_ROW = 52,		/* bytes */
	CK_WIRE_BODY_MAX = 1 << 20,	/* bytes */
	CK_WIRE_READ_MAX = 8 << 20,	/* bytes of a payload */
	CK_WIRE_DIGEST_MAX = 256 << 20, /* bytes digested by one request */
	CK_WIRE_LIST_MAX = 64 << 10,	/* bytes of the rows of a page */
	CK_WIRE_STAT_MAX = 1024,	/* names in a STAT */
	CK_WIRE_OPEN_MAX = 1024,	/* requests in flight to one server */
	CK_WIRE_BODIES_MAX = 4 << 20,	/* bytes of their bodies */
	CK_WIRE_NAME_MAX = 4096,	/* bytes */
	CK_WIRE_ERR_MAX = 4095,		/* the greatest errno */
};

enum ck_wire_type {
	CK_WIRE_LIST = 2, /* the lowest type */
	CK_WIRE_STAT,
	CK_WIRE_READ,
	CK_WIRE_DIGEST,
	CK_WIRE_PING,
	CK_WIRE_REQUESTS, /* types below this one have replies */
	CK_WIRE_UNMOUNTED = CK_WIRE_REQUESTS,
	CK_WIRE_OVER,
	CK_WIRE_ROUND,
	CK_WIRE_TYPES
};

/* The fields of a head. */
struct ck_wire_head {
	uint16_t type; /* enum ck_wire_type */
	bool answer;   /* it is a reply */
	/* Of a reply: 0, or the positive errno with which the request
	 * failed. */
	uint32_t err;
	uint64_t id;	  /* set by the client, to match the reply */
	uint64_t payload; /* bytes */
	uint32_t body;	  /* bytes */
	uint32_t epoch;	  /* set by the client: identifies the job */
};

/* A received message. Borrows body and payload. */
struct ck_message {
	struct ck_wire_head head;
	struct ck_str body, payload;
};

/* Encodes a head. */
void ck_wire_head_put(const struct ck_wire_head *head,
		      uint8_t out[static CK_WIRE_HEAD]);
/* Decodes a head. Returns 0, or: -EPROTO if it is not valid. A valid head has a
 * body of at most CK_WIRE_BODY_MAX and a payload of at most CK_WIRE_READ_MAX
 * bytes. */
CK_MUST_USE int ck_wire_head_get(const uint8_t bytes[static CK_WIRE_HEAD],
				 struct ck_wire_head *out);

/* --- requests ------------------------------------------------------------- */

/* A request, and the form of its reply. Each function below that makes a
 * request overwrites *a; if it returns 0, the caller must call
 * ck_query_fini(). */
struct ck_query {
	struct ck_wire_head head; /* the caller sets its id and epoch */
	struct ck_buf body;
	/* Private: */
	uint32_t n;		     /* names of a STAT */
	uint64_t bytes;		     /* of the reply's payload */
	struct ck_query_part *parts; /* of copy descriptors */
	size_t nparts, cap;
	struct ck_arena loops;
};

/* Frees the request. Zeros *a. */
void ck_query_fini(struct ck_query *a);

/* Returns the bytes of the reply's payload. */
static inline uint64_t ck_query_bytes(const struct ck_query *a)
{
	return a->bytes;
}

/* Makes a PING. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_query_ping(struct ck_query *a);
/* Makes a LIST of the names in a directory; "" is the file server's directory.
 * cursor: 0, or `next` of the page before. Returns 0, or: -ENAMETOOLONG;
 * -ENOMEM. */
CK_MUST_USE int ck_query_list(struct ck_query *a, struct ck_str directory,
			      uint64_t cursor);
/* Makes a STAT: a stat of the first *taken of n names, as many as fit. shown:
 * see ck_files_show_as(). Returns 0, or: -ENAMETOOLONG if the first name does
 * not fit, or n is 0; -ENOMEM. */
CK_MUST_USE int ck_query_stat(struct ck_query *a, struct ck_ids shown,
			      const struct ck_str *names, size_t n,
			      size_t *taken);

/* Bytes [fpos, fpos + len) of a file, by the file server's number. */
struct ck_wire_run {
	uint32_t file;
	uint64_t fpos, len;
};

/* Makes a DIGEST. Returns 0, or: -E2BIG if the runs have more than
 * CK_WIRE_DIGEST_MAX bytes, or are too many, or n is 0; -ENOMEM. The caller
 * splits longer requests. */
CK_MUST_USE int ck_query_digest(struct ck_query *a,
				const struct ck_wire_run *runs, size_t n);

/* Splits copy descriptors into READ requests. `file` of a descriptor is the
 * file server's number. A descriptor that is too large for a request is split.
 *
 *	ck_reads_begin(&r, list, n);
 *	while (ck_reads_left(&r))
 *		rc = ck_query_read(&r, &query);
 *
 * Borrows the descriptors and their loops until all requests are over. A
 * descriptor is complete when all requests with a part of it are; its rc is the
 * first error. */
struct ck_reads {
	struct ck_copy_desc *list;
	size_t n;
	/* Private: */
	size_t next;	/* the descriptor that is being split */
	uint64_t bytes; /* of that descriptor */
	uint64_t done;	/* its bytes that were requested, in packed order */
};

/* Starts with n descriptors and sets their rc to 0. */
void ck_reads_begin(struct ck_reads *r, struct ck_copy_desc *list, size_t n);
/* Returns true if ck_query_read() has bytes to request. Sets the rc of a
 * descriptor whose range or loops are invalid to -EIO and skips it. */
bool ck_reads_left(struct ck_reads *r);
/* Makes the next READ. ck_reads_left() must have returned true. Returns 0, or:
 * -ENOMEM; *r is then unchanged. */
CK_MUST_USE int ck_query_read(struct ck_reads *r, struct ck_query *a);
/* Fails the descriptors of a READ that has no reply: sets rc, which is
 * negative, where it is 0. */
void ck_query_fail(const struct ck_query *a, int rc);

/* --- replies -------------------------------------------------------------- */

/* Checks the head of a reply, before memory is allocated for the rest. Returns
 * 0, or: -EPROTO if a message with this head is not a reply to the request. */
CK_MUST_USE int ck_query_check(const struct ck_query *a,
			       const struct ck_wire_head *head);

/* The ck_reply_ functions parse a reply. They check the whole message, its head
 * too, before they use it. They return 0, or: -EPROTO if it is not a valid
 * reply to the request; else the errno of the file server. EINTR, EREMOTE and
 * EINPROGRESS of a server are -EIO, since they have other meanings in a
 * client. */

enum ck_wire_kind {
	CK_WIRE_FILE = 1,
	CK_WIRE_DIRECTORY,
	CK_WIRE_LINK,
	CK_WIRE_OTHER,
	CK_WIRE_KINDS
};

/* A page of the names in a directory. */
struct ck_page {
	uint64_t next;	    /* the cursor of the next page */
	bool more;	    /* there is a next page; this one is not empty */
	uint32_t n;	    /* names that ck_page_next() has not returned yet */
	struct ck_cur rows; /* private; borrowed from the message */
};

struct ck_page_row {
	struct ck_str name; /* not empty, "." or "..", without '/' and NUL */
	enum ck_wire_kind kind;
};

/* Parses a page. Borrows the message. */
CK_MUST_USE int ck_reply_list(const struct ck_query *a,
			      const struct ck_message *m, struct ck_page *out);
/* Sets *out to the next name. Returns false at the end of the page. */
bool ck_page_next(struct ck_page *page, struct ck_page_row *out);

/* The file server's stat of a name. */
struct ck_name_stat {
	uint32_t number; /* of the file there */
	bool seen; /* info is valid; else it is zeros, and trouble is set */
	/* 0, or the positive errno of a transient failure to open the file.
	 * ESTALE: the file has changed since the name was first looked up; info
	 * is that of the first lookup. */
	int trouble;
	struct ck_file_info info; /* without path */
};

/* Parses metadata. out: one for each name of the STAT; undefined after an
 * error. */
CK_MUST_USE int ck_reply_stat(const struct ck_query *a,
			      const struct ck_message *m,
			      struct ck_name_stat *out);
/* Parses a digest. */
CK_MUST_USE int ck_reply_digest(const struct ck_query *a,
				const struct ck_message *m,
				uint8_t out[static 16]);
/* Copies the payload to the destinations of the descriptors. Sets the rc of
 * those that failed; of all if it does not return 0. *read: bytes that the
 * server has read from files for the request. */
CK_MUST_USE int ck_reply_read(const struct ck_query *a,
			      const struct ck_message *m, uint64_t *read);

#endif
