/* SPDX-License-Identifier: MIT */
/*
 * wire_cases: faults of messages. Each sets some bytes of a good one, see wire_test.c;
 * a body begins at 64.
 */
#ifndef CK_WIRE_CASES_H
#define CK_WIRE_CASES_H

#include "dist/proto/wire.h"

#include <errno.h>
#include <sys/stat.h>

enum which {
	LIST = CK_WIRE_LIST,
	LOOK,
	READ,
	DIGEST,
	PING,
	REQUESTS, /* those above; and their answers: */
	AN_ANSWER = 16,
	A_LIST = AN_ANSWER + LIST,
	A_LOOK,
	A_READ,
	A_DIGEST,
	A_PING,
};

struct fault {
	const char *name;
	enum which which;
	size_t at;
	unsigned len;
	uint64_t value;
};

static const struct fault faults[] = {
	/* Heads. */
	{ "no magic", PING, 0, 4, 0 },
	{ "magic of other bytes", PING, 0, 4, 0x636b7077 },
	{ "version 0", PING, 4, 2, 0 },
	{ "version 2", LIST, 4, 2, 2 },
	{ "type 0", PING, 6, 2, 0 },
	{ "type 1", PING, 6, 2, 1 },
	{ "an unknown type", PING, 6, 2, 7 },
	{ "the greatest type", PING, 6, 2, 0xffff },
	{ "an unknown flag", PING, 8, 4, 2 },
	{ "the highest flag", PING, 8, 4, 0x80000000 },
	{ "an answer", PING, 8, 4, 1 },
	{ "an errno", PING, 12, 4, EIO },
	{ "a payload", PING, 24, 8, 1 },
	{ "a payload", READ, 24, 8, 32 },
	{ "a payload of 2^64 - 1", READ, 24, 8, UINT64_MAX },
	{ "a body that is not there", PING, 32, 4, 1 },
	{ "a body of more than 1 MiB", READ, 32, 4, (1 << 20) + 1 },
	{ "a body of 4 GiB", LOOK, 32, 4, UINT32_MAX },
	{ "the first byte that is to be zero", PING, 40, 1, 1 },
	{ "the last byte that is to be zero", PING, 63, 1, 0x80 },
	/* LIST. */
	{ "a name of more bytes", LIST, 72, 2, 4 },
	{ "a name of fewer bytes", LIST, 72, 2, 2 },
	{ "a name of 65535 bytes", LIST, 72, 2, 0xffff },
	/* STAT. */
	{ "no name", LOOK, 72, 4, 0 },
	{ "fewer names", LOOK, 72, 4, 1 },
	{ "more names", LOOK, 72, 4, 3 },
	{ "2^32 - 1 names", LOOK, 72, 4, UINT32_MAX },
	{ "a name of no bytes and more", LOOK, 76, 2, 0 },
	{ "a name that goes on behind the end", LOOK, 79, 2, 6 },
	{ "a name that ends before", LOOK, 79, 2, 4 },
	/* READ. */
	{ "no move", READ, 64, 4, 0 },
	{ "fewer moves", READ, 64, 4, 1 },
	{ "more moves", READ, 64, 4, 3 },
	{ "2^32 - 1 moves", READ, 64, 4, UINT32_MAX },
	{ "behind the count no zero", READ, 68, 4, 1 },
	{ "fewer loops", READ, 76, 4, 1 },
	{ "more loops", READ, 76, 4, 3 },
	{ "65 loops", READ, 76, 4, 65 },
	{ "2^32 - 1 loops", READ, 76, 4, UINT32_MAX },
	{ "a run of nothing", READ, 88, 8, 0 },
	{ "a run of more than 64 MiB", READ, 88, 8, (64 << 20) + 1 },
	{ "a run of 2^63", READ, 88, 8, UINT64_C(1) << 63 },
	{ "6 x a run is 2^64 and some", READ, 88, 8, 0x2aaaaaaaaaaaaaab },
	{ "a loop of no turns", READ, 96, 8, 0 },
	{ "a loop of 2^64 - 1 turns", READ, 96, 8, UINT64_MAX },
	{ "turns times a run is 2^64", READ, 96, 8, UINT64_C(1) << 61 },
	{ "more than 64 MiB by turns", READ, 96, 8, (64 << 20) / 8 + 1 },
	{ "a stride whose way is 2^64 and more", READ, 104, 8, UINT64_MAX },
	{ "an inner loop of no turns", READ, 112, 8, 0 },
	{ "a stride that ends behind 2^64", READ, 120, 8, UINT64_MAX - 8 },
	{ "a position that ends behind 2^64", READ, 136, 8, UINT64_MAX - 7 },
	{ "64 MiB of two moves, and some", READ, 144, 8, (64 << 20) - 23 },
	{ "a run of the last that is 0", READ, 144, 8, 0 },
	/* DIGEST. */
	{ "no run", DIGEST, 64, 4, 0 },
	{ "fewer runs", DIGEST, 64, 4, 1 },
	{ "more runs", DIGEST, 64, 4, 3 },
	{ "2^32 - 1 runs", DIGEST, 64, 4, UINT32_MAX },
	{ "behind the count no zero", DIGEST, 68, 4, 1 },
	{ "behind the file no zero", DIGEST, 76, 4, 1 },
	{ "more than 256 MiB", DIGEST, 88, 8, (256 << 20) - 999 },
	{ "2^64 - 1 bytes", DIGEST, 88, 8, UINT64_MAX },
	/* Answers. */
	{ "a request", A_PING, 8, 4, 0 },
	{ "of another type", A_PING, 6, 2, DIGEST },
	{ "to another request", A_PING, 16, 8, 1 },
	{ "of another epoch", A_PING, 36, 4, 8 },
	{ "errno 4096", A_PING, 12, 4, 4096 },
	{ "errno -1", A_PING, 12, 4, UINT32_MAX },
	{ "an errno and a body", A_LIST, 12, 4, EIO },
	{ "an errno and a payload", A_READ, 12, 4, EIO },
	{ "errno EPROTO", A_PING, 12, 4, EPROTO },
	{ "a payload", A_LIST, 24, 8, 1 },
	{ "more payload", A_READ, 24, 8, 33 },
	{ "less payload", A_READ, 24, 8, 31 },
	{ "no payload", A_READ, 24, 8, 0 },
	{ "64 MiB of payload", A_READ, 24, 8, 64 << 20 },
	{ "2^64 - 1 bytes of payload", A_READ, 24, 8, UINT64_MAX },
	{ "more body, less payload", A_READ, 32, 4, 20 },
	{ "fewer names", A_LIST, 72, 4, 1 },
	{ "more names", A_LIST, 72, 4, 3 },
	{ "2^32 - 1 names", A_LIST, 72, 4, UINT32_MAX },
	{ "no names and rows", A_LIST, 72, 4, 0 },
	{ "2 for more", A_LIST, 76, 4, 2 },
	{ "kind 0", A_LIST, 80, 1, 0 },
	{ "an unknown kind", A_LIST, 80, 1, 5 },
	{ "a name of no bytes", A_LIST, 81, 2, 0 },
	{ "a name behind the end", A_LIST, 85, 2, 3 },
	{ "a name of 65535 bytes", A_LIST, 85, 2, 0xffff },
	{ "the name .", A_LIST, 83, 1, '.' },
	{ "the name ..", A_LIST, 87, 2, 0x2e2e },
	{ "a name with /", A_LIST, 88, 1, '/' },
	{ "a name with NUL", A_LIST, 88, 1, 0 },
	{ "fewer files", A_LOOK, 64, 4, 1 },
	{ "more files", A_LOOK, 64, 4, 3 },
	{ "2 for seen", A_LOOK, 72, 1, 2 },
	{ "a reason without an errno", A_LOOK, 73, 1, 1 },
	{ "an unknown reason", A_LOOK, 73, 1, 6 },
	{ "no zero in a row", A_LOOK, 74, 2, 1 },
	{ "an errno without a reason", A_LOOK, 76, 4, ENODATA },
	{ "errno 4096 of a file", A_LOOK, 76, 4, 4096 },
	{ "trouble 4096", A_LOOK, 80, 4, 4096 },
	{ "no regular file and no errno", A_LOOK, 84, 4, S_IFDIR | 0755 },
	{ "a mode of more bits", A_LOOK, 84, 4, S_IFREG | 0x10000 },
	{ "closed of other bits", A_LOOK, 96, 4, 0111 },
	{ "10^9 nanoseconds", A_LOOK, 100, 4, 1000000000 },
	{ "a size of 2^63", A_LOOK, 104, 8, UINT64_C(1) << 63 },
	{ "neither seen nor trouble", A_LOOK, 132, 4, 0 },
	{ "not seen, and has a size", A_LOOK, 156, 8, 1 },
	{ "not seen, and has a time", A_LOOK, 164, 8, 1 },
	{ "not seen, and has a mode", A_LOOK, 136, 4, S_IFREG },
	{ "errno 4096 of a move", A_READ, 72, 4, 4096 },
	{ "errno 2^32 - 1 of a move", A_READ, 76, 4, UINT32_MAX },
};

#endif
