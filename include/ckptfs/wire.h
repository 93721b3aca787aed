/* SPDX-License-Identifier: MIT */
/*
 * wire: what two hosts say to each other about data files, as bytes, and the side of
 * the one who asks. An owner (file_server.h) has the files of one directory; a requester
 * asks it for their names, for what they are, and for runs of their bytes. Everything
 * else stays with the requester. No input or output here: whoever calls this moves the
 * messages.
 *
 * A message is a head of CK_WIRE_HEAD bytes, a body, and the payload of a READ's answer.
 * Numbers are little-endian, without gaps; `text` is a length of 16 bits and so many
 * bytes.
 *
 *	head	magic u32, version u16, type u16, flags u32 (1: an answer), err u32,
 *		id u64, payload u64, body u32, epoch u32, 24 bytes of zeros
 *	LIST	cursor u64, directory text	-> next u64, n u32, more u32,
 *						   n x (type u8, name text)
 *	LOOK	uid u32, gid u32, n u32,	-> n u32, n x what is said of a file,
 *		n x name text			   CK_WIRE_LOOKED bytes
 *	READ	n u32, 0 u32, n x (file u32,	-> bytes read from files for it u64,
 *		loops u32, fpos u64, run u64,	   n x (0 or errno) u32;
 *		loops x (count u64, stride u64))   payload: the runs of all moves,
 *						   packed; zeros of one that failed
 *	DIGEST	n u32, 0 u32, n x (file u32,	-> the XXH3-128 of the runs, one behind
 *		0 u32, fpos u64, len u64)	   the other: 16 bytes, as printed
 *	PING					->
 *	UNMOUNTED, OVER				what a rank says to all others: its
 *						mount is gone; the job ends
 *	ROUND	a message of rounds.h		what ranks say about rounds;
 *		no_rounds.h			or why one makes none
 *
 * An answer has the type, id and epoch of its request. With err, the errno why there is
 * none, it has no body. Whatever is not exactly so does not parse: -EPROTO, and nothing
 * of it was used. It is the caller's business to have nothing to do any more with the
 * one who sent it.
 *
 * Whoever asks one owner for more than CK_WIRE_OPEN_MAX and CK_WIRE_ASKED_MAX at a time,
 * counted until the answers are there, may find himself cut off: owners keep room for
 * each requester, and no more.
 */
#ifndef CKPTFS_WIRE_H
#define CKPTFS_WIRE_H

#include "ckptfs/backend.h"
#include "ckptfs/source.h"

enum {
	CK_WIRE_VERSION = 1,
	CK_WIRE_HEAD = 64,		/* bytes */
	CK_WIRE_LOOKED = 52,		/* bytes */
	CK_WIRE_BODY_MAX = 1 << 20,	/* bytes */
	CK_WIRE_READ_MAX = 8 << 20,	/* bytes of a payload */
	CK_WIRE_DIGEST_MAX = 256 << 20, /* bytes digested by one request */
	CK_WIRE_LIST_MAX = 64 << 10,	/* bytes of the rows of a page */
	CK_WIRE_LOOKS_MAX = 1024,	/* names in a LOOK */
	CK_WIRE_OPEN_MAX = 1024,     /* requests to one owner, not answered */
	CK_WIRE_ASKED_MAX = 4 << 20, /* bytes of their bodies */
	CK_WIRE_NAME_MAX = 4096,     /* bytes */
	CK_WIRE_ERR_MAX = 4095,	     /* the greatest errno */
};

enum ck_wire_type {
	CK_WIRE_LIST = 2, /* the first */
	CK_WIRE_LOOK,
	CK_WIRE_READ,
	CK_WIRE_DIGEST,
	CK_WIRE_PING,
	CK_WIRE_REQUESTS, /* those before it are answered, and no others */
	CK_WIRE_UNMOUNTED = CK_WIRE_REQUESTS,
	CK_WIRE_OVER,
	CK_WIRE_ROUND,
	CK_WIRE_TYPES
};

/* What is in a head. */
struct ck_wire_head {
	uint16_t type; /* enum ck_wire_type */
	bool answer;
	uint32_t
		err; /* of an answer: 0, or the positive errno why there is none */
	uint64_t id;	  /* the requester's, for the answer to be found by */
	uint64_t payload; /* bytes */
	uint32_t body;	  /* bytes */
	uint32_t epoch;	  /* the requester's: which set of hosts it is of */
};

/* A message as it came, borrowed. */
struct ck_message {
	struct ck_wire_head head;
	struct ck_str body, payload;
};

void ck_wire_head_put(const struct ck_wire_head *head,
		      uint8_t out[static CK_WIRE_HEAD]);
/* -EPROTO. Then body and payload are not greater than any message may have. */
CK_MUST_USE int ck_wire_head_get(const uint8_t bytes[static CK_WIRE_HEAD],
				 struct ck_wire_head *out);

/* --- asking ------------------------------------------------------------------------ */

/* A request, and what its answer has to be like. Each function below that makes one
 * overwrites it; ck_ask_fini() is due if it returns 0. One thread at a time. */
struct ck_ask {
	struct ck_wire_head head; /* its id and epoch are the caller's to set */
	struct ck_buf body;
	/* Private: */
	uint32_t n;		   /* names of a LOOK */
	uint64_t bytes;		   /* of the payload of the answer */
	struct ck_ask_part *parts; /* of moves */
	size_t nparts, cap;
	struct ck_arena loops;
};

void ck_ask_fini(struct ck_ask *a);

/* Bytes of the payload of its answer. */
static inline uint64_t ck_ask_bytes(const struct ck_ask *a)
{
	return a->bytes;
}

/* All of these: -ENOMEM. */
CK_MUST_USE int ck_ask_ping(struct ck_ask *a);
/* The names in a directory, "" for the owner's own. cursor: 0, or `next` of the page
 * before. -ENAMETOOLONG. */
CK_MUST_USE int ck_ask_list(struct ck_ask *a, struct ck_str directory,
			    uint64_t cursor);
/* What files are: the first ones of n, as many as a request takes, *taken. shown: as of
 * ck_files_show_as(). -ENAMETOOLONG: not even the first. */
CK_MUST_USE int ck_ask_look(struct ck_ask *a, struct ck_ids shown,
			    const struct ck_str *names, size_t n,
			    size_t *taken);

/* Bytes [fpos, fpos + len) of a file, by the owner's number. */
struct ck_wire_run {
	uint32_t file;
	uint64_t fpos, len;
};

/* -E2BIG: more than CK_WIRE_DIGEST_MAX bytes, or too many runs. Of what is longer,
 * digests are made of its parts. */
CK_MUST_USE int ck_ask_digest(struct ck_ask *a, const struct ck_wire_run *runs,
			      size_t n);

/* Moves on their way into requests: file is the owner's number. A move that is larger
 * than a request may be is cut.
 *
 *	ck_reads_begin(&r, list, n);
 *	while (ck_reads_left(&r))
 *		rc = ck_ask_read(&r, &ask);
 *
 * Moves and their loops are borrowed until all asks are done with. A move is done when
 * all asks are in which it has a part: its rc is the first error. */
struct ck_reads {
	struct ck_move *list;
	size_t n;
	/* Private: */
	size_t next;	/* the move that comes now */
	uint64_t bytes; /* of it */
	uint64_t done;	/* bytes of it that were asked for, in packed order */
};

/* Sets the rc of all to 0. */
void ck_reads_begin(struct ck_reads *r, struct ck_move *list, size_t n);
/* Whether something is left to be asked for. Moves that no file can have are -EIO. */
bool ck_reads_left(struct ck_reads *r);
/* The next request; something is left. On -ENOMEM r stays as it was. */
CK_MUST_USE int ck_ask_read(struct ck_reads *r, struct ck_ask *a);
/* The moves of a READ that will not be answered. rc < 0. */
void ck_ask_fail(const struct ck_ask *a, int rc);

/* --- answers ------------------------------------------------------------------------- */

/* -EPROTO: what has such a head is no answer to it, whatever else it has. Asked before
 * memory is taken for the rest. */
CK_MUST_USE int ck_ask_check(const struct ck_ask *a,
			     const struct ck_wire_head *head);

/* All of these: -EPROTO; or what the owner says, any other errno. They check the whole
 * message, its head too, before they use anything. */

enum ck_wire_kind {
	CK_WIRE_FILE = 1,
	CK_WIRE_DIRECTORY,
	CK_WIRE_LINK,
	CK_WIRE_OTHER,
	CK_WIRE_KINDS
};

/* Some of the names in a directory. */
struct ck_page {
	uint64_t next;	    /* the cursor to ask with for those that follow */
	bool more;	    /* there are some: then this one is not empty */
	uint32_t n;	    /* names that ck_page_next() has not given yet */
	struct ck_cur rows; /* private; borrowed from the message */
};

struct ck_page_row {
	struct ck_str name; /* not empty, "." or "..", without '/' and NUL */
	enum ck_wire_kind kind;
};

CK_MUST_USE int ck_take_list(const struct ck_ask *a, const struct ck_message *m,
			     struct ck_page *out);
/* False: there was no more. */
bool ck_page_next(struct ck_page *page, struct ck_page_row *out);

/* What an owner says of a name. */
struct ck_looked {
	uint32_t number; /* of the file there */
	bool seen;   /* info holds; else it is zeros, and there is a trouble */
	int trouble; /* 0, or the positive errno of the moment why its bytes are
			  * not to be had now; ESTALE: it was another file when the
			  * name was first looked at, and info is of that */
	struct ck_file_info info; /* without path */
};

/* out: as many as names were taken. */
CK_MUST_USE int ck_take_look(const struct ck_ask *a, const struct ck_message *m,
			     struct ck_looked *out);
CK_MUST_USE int ck_take_digest(const struct ck_ask *a,
			       const struct ck_message *m,
			       uint8_t out[static 16]);
/* Bytes go to where the moves say; sets the rc of those that failed, and of all if it
 * does not return 0. No rc is -EINTR, -EREMOTE or -EINPROGRESS, which mean something
 * here: they are -EIO. *read: how many bytes of files the owner says it has read for it. */
CK_MUST_USE int ck_take_read(const struct ck_ask *a, const struct ck_message *m,
			     uint64_t *read);

#endif
