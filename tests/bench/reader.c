/* SPDX-License-Identifier: MIT */
/*
 * reader: times one way of reading files, in a process of its own, and prints
 * "SECONDS BYTES". The clock starts when every thread has its buffer, and
 * runs over open, reads and close.
 *
 *	reader PATTERN [-b BLOCK] [-t THREADS] [-n COUNT] [-d] PIECE...
 *
 * A piece is FILE or FILE@OFFSET+LENGTH. Reading shards by pieces gives the
 * native figure for a tensor: the same bytes, by the same sizes. The pieces
 * one after the other are one long run of bytes, of which each thread has an
 * equal part; so threads have files of their own when there are as many, and
 * parts of one file when there is one.
 *
 *	read	 pread of BLOCK bytes after BLOCK bytes
 *	mmap	 each byte of a mapping
 *	touch	 one byte of each page of a mapping
 *	random	 COUNT preads by each thread, each at a multiple of BLOCK
 *	resident no clock: how many bytes are in the page cache
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAGE	    4096UL
#define THREADS_MAX 64UL

struct piece {
	char *path;
	uint64_t fpos, len;
};

/* One thread's part of the run of all pieces. */
struct part {
	uint64_t begin, end;
	uint64_t seed;
	void *buf;
	uint64_t done;
	pthread_t thread;
};

static struct piece *pieces;
static size_t npieces;
static uint64_t total;
static uint64_t block = 1 << 20;
static uint64_t count = 1000;
static int flags = O_RDONLY | O_CLOEXEC;
static pthread_barrier_t barrier;
static volatile uint64_t sink; /* so that reading memory is not left out */

static void fail(const char *what)
{
	fprintf(stderr, "reader: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int piece_open(const struct piece *p)
{
	int fd = open(p->path, flags);

	if (fd < 0)
		fail(p->path);
	return fd;
}

/* --- the patterns, on one range of one file ------------------------------- */

static void block_read(const struct piece *p, int fd, struct part *part,
		       uint64_t fpos, uint64_t len)
{
	ssize_t n = pread(fd, part->buf, len, (off_t)fpos);

	if (n < 0)
		fail(p->path);
	if ((uint64_t)n != len) {
		fprintf(stderr, "reader: %s: %zd of %ju bytes at %ju\n",
			p->path, n, (uintmax_t)len, (uintmax_t)fpos);
		exit(1);
	}
	part->done += len;
}

static void range_read(const struct piece *p, struct part *part, uint64_t fpos,
		       uint64_t len)
{
	int fd = piece_open(p);

	for (uint64_t at = 0; at < len; at += block)
		block_read(p, fd, part, fpos + at,
			   len - at < block ? len - at : block);
	close(fd);
}

static uint64_t bytes_sum(const uint8_t *bytes, uint64_t len)
{
	uint64_t sum[4] = { 0 }, word[4];
	uint64_t at = 0;

	for (; at + sizeof(word) <= len; at += sizeof(word)) {
		memcpy(word, bytes + at, sizeof(word));
		for (int i = 0; i < 4; i++)
			sum[i] += word[i];
	}
	for (; at < len; at++)
		sum[0] += bytes[at];
	return sum[0] + sum[1] + sum[2] + sum[3];
}

static uint64_t pages_sum(const uint8_t *bytes, uint64_t len)
{
	uint64_t sum = 0;

	for (uint64_t at = 0; at < len; at += PAGE)
		sum += bytes[at];
	return sum;
}

static void range_scan(const struct piece *p, struct part *part, uint64_t fpos,
		       uint64_t len,
		       uint64_t (*sum)(const uint8_t *bytes, uint64_t len))
{
	uint64_t lead = fpos % PAGE;
	int fd = piece_open(p);
	uint8_t *map = mmap(NULL, lead + len, PROT_READ, MAP_SHARED, fd,
			    (off_t)(fpos - lead));

	if (map == MAP_FAILED)
		fail(p->path);
	sink = sum(map + lead, len);
	part->done += len;
	munmap(map, lead + len);
	close(fd);
}

static void range_mmap(const struct piece *p, struct part *part, uint64_t fpos,
		       uint64_t len)
{
	range_scan(p, part, fpos, len, bytes_sum);
}

static void range_touch(const struct piece *p, struct part *part, uint64_t fpos,
			uint64_t len)
{
	range_scan(p, part, fpos, len, pages_sum);
}

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void range_random(const struct piece *p, struct part *part,
			 uint64_t fpos, uint64_t len)
{
	uint64_t blocks = len / block;
	uint64_t reads = blocks ? count * len / (part->end - part->begin) : 0;
	int fd = piece_open(p);

	for (uint64_t i = 0; i < reads; i++)
		block_read(p, fd, part,
			   fpos + random_next(&part->seed) % blocks * block,
			   block);
	close(fd);
}

static void range_resident(const struct piece *p, struct part *part,
			   uint64_t fpos, uint64_t len)
{
	uint64_t lead = fpos % PAGE, pages = (lead + len + PAGE - 1) / PAGE;
	uint8_t *in = calloc(pages, 1);
	int fd = piece_open(p);
	void *map = mmap(NULL, lead + len, PROT_READ, MAP_SHARED, fd,
			 (off_t)(fpos - lead));

	if (!in || map == MAP_FAILED || mincore(map, lead + len, in))
		fail(p->path);
	for (uint64_t i = 0; i < pages; i++)
		part->done += in[i] & 1 ? PAGE : 0;
	munmap(map, lead + len);
	close(fd);
	free(in);
}

static const struct pattern {
	const char *name;
	void (*range)(const struct piece *p, struct part *part, uint64_t fpos,
		      uint64_t len);
} patterns[] = {
	{ "read", range_read },		{ "mmap", range_mmap },
	{ "touch", range_touch },	{ "random", range_random },
	{ "resident", range_resident },
};

static const struct pattern *pattern;

/* --- threads -------------------------------------------------------------- */

static void *part_run(void *arg)
{
	struct part *part = arg;
	uint64_t start = 0; /* of the piece, in the run */

	memset(part->buf, 1, block);
	pthread_barrier_wait(&barrier);
	for (size_t i = 0; i < npieces; start += pieces[i++].len) {
		const struct piece *p = &pieces[i];
		uint64_t begin = part->begin > start ? part->begin : start;
		uint64_t end = start + p->len < part->end ? start + p->len
							  : part->end;

		if (begin < end)
			pattern->range(p, part, p->fpos + begin - start,
				       end - begin);
	}
	return NULL;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run(size_t nthreads)
{
	static struct part parts[THREADS_MAX];
	/* parts begin at whole blocks, so that all have full reads */
	uint64_t share = (total / nthreads + block - 1) / block * block;
	uint64_t done = 0;
	double start;

	pthread_barrier_init(&barrier, NULL, (unsigned)nthreads + 1);
	for (size_t i = 0; i < nthreads; i++) {
		struct part *part = &parts[i];

		part->begin = i * share < total ? i * share : total;
		part->end = i + 1 == nthreads || (i + 1) * share > total
				    ? total
				    : (i + 1) * share;
		part->seed = 0x9e3779b97f4a7c15 * (i + 1);
		if (posix_memalign(&part->buf, PAGE, block) ||
		    pthread_create(&part->thread, NULL, part_run, part))
			fail("thread");
	}
	pthread_barrier_wait(&barrier);
	start = now();
	for (size_t i = 0; i < nthreads; i++) {
		pthread_join(parts[i].thread, NULL);
		done += parts[i].done;
	}
	printf("%.6f %ju\n", now() - start, (uintmax_t)done);
}

/* --- arguments ------------------------------------------------------------ */

static void piece_add(char *text)
{
	struct piece *p = &pieces[npieces++];
	char *at = strrchr(text, '@'), *plus = at ? strchr(at, '+') : NULL;
	struct stat st;

	p->path = text;
	if (plus) {
		p->fpos = strtoull(at + 1, NULL, 10);
		p->len = strtoull(plus + 1, NULL, 10);
		*at = '\0';
	} else if (stat(text, &st)) {
		fail(text);
	} else {
		p->len = (uint64_t)st.st_size;
	}
	total += p->len;
}

static void usage(void)
{
	fprintf(stderr, "usage: reader read|mmap|touch|random|resident "
			"[-b BLOCK] [-t THREADS] [-n COUNT] [-d] PIECE...\n");
	exit(2);
}

int main(int argc, char **argv)
{
	size_t nthreads = 1;
	int letter;

	for (size_t i = 0; argc > 1 && i < sizeof(patterns) / sizeof(*patterns);
	     i++)
		if (strcmp(argv[1], patterns[i].name) == 0)
			pattern = &patterns[i];
	optind = 2;
	while (pattern && (letter = getopt(argc, argv, "b:t:n:d")) != -1) {
		switch (letter) {
		case 'b': block = strtoull(optarg, NULL, 10); break;
		case 't': nthreads = strtoul(optarg, NULL, 10); break;
		case 'n': count = strtoull(optarg, NULL, 10); break;
		case 'd': flags |= O_DIRECT; break;
		default: usage();
		}
	}
	if (!pattern || optind >= argc || block == 0 || nthreads == 0 ||
	    nthreads > THREADS_MAX)
		usage();
	pieces = calloc((size_t)(argc - optind), sizeof(*pieces));
	if (!pieces)
		fail("memory");
	while (optind < argc)
		piece_add(argv[optind++]);
	run(nthreads);
	return 0;
}
