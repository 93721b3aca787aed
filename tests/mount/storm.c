/* SPDX-License-Identifier: MIT */
/*
 * storm: many threads fault random pages of mapped tensors, while others read
 * them and one throws their pages out of the cache, so that faults keep
 * reaching the daemon. Every word is compared: element i of tensor t is
 * (t << 40) + i, as big.py makes them. A watchdog ends a storm that hangs.
 *
 *	storm SECONDS FILE...	FILE number t is raw/t<t>
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FAULTERS = 64, READERS = 4, FILES_MAX = 16, PAGE = 4096 };

struct tensor {
	int fd;
	size_t pages;
	char *map;
};

static struct tensor tensors[FILES_MAX];
static unsigned ntensors;
static atomic_bool stop;
static atomic_ulong faults, reads, wrong;

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(0x2545F4914F6CDD1D);
}

static bool words_right(const char *bytes, size_t len, unsigned tensor,
			uint64_t vpos)
{
	uint64_t word;

	for (size_t i = 0; i + 8 <= len; i += 8) {
		memcpy(&word, bytes + i, 8);
		if (word != ((uint64_t)tensor << 40) + (vpos + i) / 8)
			return false;
	}
	return true;
}

static void *fault(void *seed)
{
	uint64_t state = (uint64_t)(uintptr_t)seed;

	while (!atomic_load(&stop)) {
		uint64_t r = random_next(&state);
		unsigned t = (unsigned)(r % ntensors);
		size_t page = (r >> 8) % tensors[t].pages;

		if (!words_right(tensors[t].map + page * PAGE, PAGE, t,
				 page * PAGE))
			atomic_fetch_add(&wrong, 1);
		atomic_fetch_add(&faults, 1);
		/* This mapping lets go of it, so the cache may. */
		madvise(tensors[t].map + page * PAGE, PAGE, MADV_DONTNEED);
	}
	return NULL;
}

static void *read_some(void *seed)
{
	uint64_t state = (uint64_t)(uintptr_t)seed;
	size_t len = 256 * 1024;
	char *buf = malloc(len);

	while (buf && !atomic_load(&stop)) {
		uint64_t r = random_next(&state);
		unsigned t = (unsigned)(r % ntensors);
		uint64_t vpos = (r >> 8) % (tensors[t].pages * PAGE) / 8 * 8;
		ssize_t n = pread(tensors[t].fd, buf, len, (off_t)vpos);

		if (n <= 0 || !words_right(buf, (size_t)n, t, vpos))
			atomic_fetch_add(&wrong, 1);
		atomic_fetch_add(&reads, 1);
	}
	free(buf);
	return NULL;
}

static void *drop(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		for (unsigned t = 0; t < ntensors; t++)
			posix_fadvise(tensors[t].fd, 0, 0, POSIX_FADV_DONTNEED);
		usleep(5000);
	}
	return NULL;
}

static int tensor_open(const char *path)
{
	struct tensor *t = &tensors[ntensors];
	struct stat st;

	t->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (t->fd < 0 || fstat(t->fd, &st) || ntensors == FILES_MAX)
		return -1;
	t->pages = (size_t)st.st_size / PAGE;
	t->map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, t->fd,
		      0);
	if (t->map == MAP_FAILED)
		return -1;
	madvise(t->map, (size_t)st.st_size, MADV_RANDOM);
	ntensors++;
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[FAULTERS + READERS + 1];
	unsigned seconds = argc > 2 ? (unsigned)atoi(argv[1]) : 0;
	int n = 0;

	for (int i = 2; i < argc; i++)
		if (tensor_open(argv[i])) {
			perror(argv[i]);
			return 1;
		}
	if (ntensors == 0)
		return 1;
	alarm(seconds + 30); /* the watchdog: SIGALRM kills */
	for (; n < FAULTERS; n++)
		pthread_create(&threads[n], NULL, fault,
			       (void *)(uintptr_t)(n + 1));
	for (; n < FAULTERS + READERS; n++)
		pthread_create(&threads[n], NULL, read_some,
			       (void *)(uintptr_t)(n + 1));
	pthread_create(&threads[n++], NULL, drop, NULL);
	sleep(seconds);
	atomic_store(&stop, true);
	while (n > 0)
		pthread_join(threads[--n], NULL);
	printf("%lu faults, %lu reads, %lu wrong\n", atomic_load(&faults),
	       atomic_load(&reads), atomic_load(&wrong));
	return atomic_load(&wrong) || !atomic_load(&faults) ? 1 : 0;
}
