/* SPDX-License-Identifier: MIT */
/*
 * ask: measures the time to export tensors from an `offer` (offer_mount.c) to a GPU, and the time
 * of plain copies to the GPU. It is in C, since Python itself would take as long as an export.
 *
 *	ask exports DEVICE SOCKET N THREADS PATH	PATH has a %u, which is 0 to N - 1
 *	ask copies DEVICE BYTES pinned|pageable		from memory of this kind
 *
 * Prints one JSON object.
 */
#include "ckptfs/gpu_memory.h"
#include "gpu/driver/cuda_device.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PIECE = 64 << 20, PATH_MOST = 512, THREADS_MOST = 64 };

static double now(void)
{
	struct timespec t = ck_time_in(CLOCK_MONOTONIC, 0);

	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int fail(const char *what, int err)
{
	fprintf(stderr, "ask: %s: %s\n", what, strerror(err));
	return 1;
}

/* --- exports ----------------------------------------------------------------------------- */

struct asked {
	struct ckptfs_gpu gpu;
	char path[PATH_MOST];
};

struct answered {
	int32_t err;
	uint8_t gpu[sizeof(struct ckptfs_gpu)];
};

static int connect_to(const char *path)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(name.sun_path))
		return -1;
	memcpy(name.sun_path, path, strlen(path) + 1);
	return connect(sock, (struct sockaddr *)&name, sizeof(name)) ? -1
								     : sock;
}

/* Exports one tensor. Returns 0, or a positive errno. */
static int ask_one(int sock, struct asked *q, uint64_t *bytes)
{
	struct answered a;
	struct ckptfs_gpu gpu;
	size_t len = sizeof(q->gpu) + strlen(q->path) + 1;

	if (send(sock, q, len, 0) != (ssize_t)len ||
	    recv(sock, &a, sizeof(a), 0) != (ssize_t)sizeof(a))
		return EIO;
	memcpy(&gpu, a.gpu, sizeof(gpu));
	*bytes += gpu.bytes;
	return a.err;
}

/* Replaces the first %u of PATH by the number. */
static void name_it(const char *pattern, unsigned i, char to[PATH_MOST])
{
	const char *at = strstr(pattern, "%u");

	if (at)
		(void)snprintf(to, PATH_MOST, "%.*s%u%s", (int)(at - pattern),
			       pattern, i, at + 2);
	else
		(void)snprintf(to, PATH_MOST, "%s", pattern);
}

/* The requests of all threads, each with its own connection. */
struct asking {
	const struct ck_device *g;
	const char *place, *pattern;
	unsigned n;
	unsigned next; /* atomic, as the next fields */
	uint64_t bytes;
	int rc;
};

static int ask_some(struct asking *a, int sock)
{
	struct asked q = { .gpu = { .version = CKPTFS_GPU_VERSION } };
	uint64_t bytes = 0;
	unsigned i;
	int rc = 0;

	memcpy(q.gpu.uuid, a->g->uuid.bytes, sizeof(q.gpu.uuid));
	while (rc == 0 &&
	       (i = __atomic_fetch_add(&a->next, 1, __ATOMIC_RELAXED)) < a->n) {
		name_it(a->pattern, i, q.path);
		rc = ask_one(sock, &q, &bytes);
	}
	__atomic_fetch_add(&a->bytes, bytes, __ATOMIC_RELAXED);
	return rc;
}

/* The connection stays open: its end would release the exports. */
static void *ask_run(void *arg)
{
	struct asking *a = arg;
	int sock = connect_to(a->place);
	int rc = sock < 0 ? errno : ask_some(a, sock);

	if (rc)
		__atomic_store_n(&a->rc, rc, __ATOMIC_RELAXED);
	return NULL;
}

static int exports(struct asking *a, unsigned threads)
{
	pthread_t ids[THREADS_MOST];
	double begun = now(), took;
	unsigned n = 0;

	while (n < threads && n < THREADS_MOST &&
	       ck_thread_start(&ids[n], ask_run, a) == 0)
		n++;
	for (unsigned i = 0; i < n; i++)
		pthread_join(ids[i], NULL);
	took = now() - begun;
	if (a->rc || n == 0)
		return fail(a->place, n ? a->rc : EAGAIN);
	printf("{\"n\":%u,\"bytes\":%llu,\"seconds\":%.6f}\n", a->n,
	       (unsigned long long)a->bytes, took);
	return 0;
}

/* --- copies ------------------------------------------------------------------------------ */

struct copies {
	struct ck_device *g;
	const struct ck_cuda *cuda;
	CUdeviceptr to; /* PIECE bytes */
	void *pinned;
	uint8_t *pageable; /* `bytes` bytes */
	uint64_t bytes;
};

/* Copies all bytes from the memory at `from`; step: the distance of two pieces. */
static int copy_from(struct copies *c, const uint8_t *from, uint64_t step,
		     double *seconds)
{
	CUstream up = c->g->streams[CK_GPU_STREAM_UP];
	double begun = now();
	int rc = 0;

	for (uint64_t at = 0; at < c->bytes && rc == 0; at += PIECE)
		rc = ck_device_check(
			c->g,
			c->cuda->cuMemcpyHtoDAsync(
				c->to, from + at / PIECE * step,
				ck_min(c->bytes - at, (uint64_t)PIECE), up));
	if (rc == 0)
		rc = ck_device_check(c->g, c->cuda->cuStreamSynchronize(up));
	*seconds = now() - begun;
	return rc;
}

/* Copies from the same memory repeatedly, like a ring. */
static int copy_pinned(struct copies *c, double *seconds)
{
	return copy_from(c, c->pinned, 0, seconds);
}

/* Copies memory that was written before, as after reading a file. */
static int copy_pageable(struct copies *c, double *seconds)
{
	return copy_from(c, c->pageable, PIECE, seconds);
}

static int copies_make(struct copies *c, bool pageable)
{
	int rc = ck_device_check(c->g, c->cuda->cuMemAlloc(&c->to, PIECE));

	if (rc == 0)
		rc = ck_device_check(c->g, c->cuda->cuMemHostAlloc(
						   &c->pinned, PIECE,
						   CU_MEMHOSTALLOC_PORTABLE));
	if (rc)
		return rc;
	memset(c->pinned, 1, PIECE);
	if (!pageable)
		return 0;
	c->pageable = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (c->pageable == MAP_FAILED)
		return -ENOMEM;
	memset(c->pageable, 1, c->bytes);
	return 0;
}

/* Runs twice, since the first run includes setup. */
static int copies(struct ck_device *g, uint64_t bytes, bool pageable)
{
	struct copies c = { .g = g, .cuda = g->cuda, .bytes = bytes };
	double took = 0;
	int rc = copies_make(&c, pageable);

	for (unsigned i = 0; i < 2 && rc == 0; i++)
		rc = pageable ? copy_pageable(&c, &took)
			      : copy_pinned(&c, &took);
	if (rc)
		return fail("copies", -rc);
	printf("{\"bytes\":%llu,\"seconds\":%.6f}\n", (unsigned long long)bytes,
	       took);
	return 0;
}

static int run(struct ck_device *g, int argc, char **argv)
{
	struct asking a = { .g = g };

	if (argc == 5)
		return copies(g, strtoull(argv[3], NULL, 10),
			      strcmp(argv[4], "pageable") == 0);
	a.place = argv[3];
	a.n = (unsigned)strtoul(argv[4], NULL, 10);
	a.pattern = argv[6];
	return exports(&a, (unsigned)strtoul(argv[5], NULL, 10));
}

int main(int argc, char **argv)
{
	struct ck_diag d = { 0 };
	struct ck_cuda cuda;
	struct ck_device *g;
	int rc;

	if (argc != 7 && argc != 5) {
		fputs("usage: ask exports DEVICE SOCKET N THREADS PATH\n"
		      "       ask copies DEVICE BYTES pinned|pageable\n",
		      stderr);
		return 2;
	}
	if (ck_cuda_load(&cuda, &d) ||
	    ck_device_open(&cuda, atoi(argv[2]), &g, &d)) {
		fprintf(stderr, "ask: %s\n", d.text);
		return 1;
	}
	rc = run(g, argc, argv);
	(void)fflush(stdout);
	_exit(rc); /* the driver frees the remaining objects */
}
