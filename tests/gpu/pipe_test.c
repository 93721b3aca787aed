/* SPDX-License-Identifier: MIT */
/*
 * pipe: random copies through the pipe, on the fake driver. The bytes copied back equal those of
 * the definition, for any order of the streams. Canaries: a pipe that omits a wait is detected.
 *
 *	LD_LIBRARY_PATH=STANDIN pipe_test
 */
#include "gpu/driver/pipe.h"
#include "tiles_case.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	SLOT = 1 << 20,
	ROOM = SLOT / 2, /* part of a slot for bytes; the rest is for tiles */
	COPIES = 6,	 /* at most, in a batch */
	ON_WAY = 3,
};

static struct ck_cuda cuda;
static struct ck_device *device;

/* A batch, and its expected result. */
struct sent {
	struct ck_pipe_batch batch;
	uint8_t *own; /* pinned, 2 * ROOM bytes; NULL if it uses slots */
	bool taken, there;
	size_t down;
	/* Results over bytes of 0 and of 255: a byte is defined if both are equal. */
	uint8_t *want[2];
};

/* --- a batch --------------------------------------------------------------------------- */

/* Appends a random copy. False if it does not fit. */
static bool add_copy(struct sent *s, struct ck_tiles *tiles, size_t *filled,
		     uint64_t *random)
{
	struct random_copy r;
	uint64_t src, dst;

	copy_random(&r, random);
	src = (*filled + 15) / 16 * 16 + r.copy.src % 16;
	dst = (s->down + 15) / 16 * 16 + r.copy.dst % 16;
	if (src + r.src_size > ROOM || dst + r.dst_size > ROOM)
		return false;
	memcpy((s->own ? s->own : s->batch.fill) + src,
	       area.src + (r.copy.src - (uintptr_t)area.src), r.src_size);
	for (unsigned i = 0; i < 2; i++) {
		memset(s->want[i] + s->down, i ? 255 : 0,
		       dst + r.dst_size - s->down);
		copy_defined(&r, s->want[i] + dst);
	}
	*filled = src + r.src_size;
	s->down = dst + r.dst_size;
	r.copy.src = s->batch.staged + src;
	r.copy.dst = s->batch.result + dst;
	if (ck_tiles_add(tiles, &r.copy))
		abort();
	return true;
}

static int send(struct ck_pipe *pipe, struct sent *s, struct ck_tiles *tiles,
		uint64_t *random)
{
	unsigned copies = 1 + (unsigned)boxes_below(random, COPIES);
	size_t filled = 0;

	s->down = 0;
	ck_tiles_clear(tiles);
	s->batch.tiles = tiles;
	for (unsigned i = 0; i < copies && add_copy(s, tiles, &filled, random);
	     i++)
		continue;
	return ck_pipe_send(pipe, &s->batch, filled, s->down);
}

static bool is_right(const struct sent *s)
{
	for (size_t i = 0; i < s->down; i++)
		if (s->want[0][i] == s->want[1][i] &&
		    s->batch.bytes[i] != s->want[0][i])
			return false;
	return true;
}

/* --- many batches, some in flight ------------------------------------------------------ */

struct tally {
	uint64_t wrong, failed, empty; /* empty: no bytes are copied back */
};

static void rest_a_little(void)
{
	const struct timespec t = { .tv_nsec = 20000 };

	nanosleep(&t, NULL);
}

/* Begins one more batch, if it fits. */
static void begin(struct ck_pipe *pipe, struct sent *s, struct ck_tiles *tiles,
		  struct tally *tally, uint64_t *random)
{
	int rc;

	s->batch.from = s->own;
	s->batch.to = s->own ? s->own + ROOM : NULL;
	rc = ck_pipe_take(pipe, 0, &s->batch);
	if (rc == -EAGAIN) {
		rest_a_little();
		return;
	}
	if (rc == 0)
		rc = send(pipe, s, tiles, random);
	if (rc == -E2BIG) { /* the random tiles do not fit */
		ck_pipe_drop(&s->batch);
		s->batch = (struct ck_pipe_batch){ 0 };
		return;
	}
	tally->failed += rc != 0;
	s->there = rc == 0;
	s->taken = true;
}

/* True if the batch has ended. */
static bool end(struct ck_pipe *pipe, struct sent *s, struct tally *tally)
{
	int rc = s->there ? ck_pipe_is_done(pipe, &s->batch) : 1;

	if (rc == 0)
		return false;
	tally->failed += rc < 0;
	if (s->there && rc == 1) {
		tally->wrong += !is_right(s);
		tally->empty += s->down == 0;
	}
	ck_pipe_put(&s->batch);
	s->taken = s->there = false;
	s->batch = (struct ck_pipe_batch){ 0 };
	return true;
}

static uint8_t *pinned(void)
{
	void *at = NULL;

	if (cuda.cuMemHostAlloc(&at, 2 * ROOM, CU_MEMHOSTALLOC_PORTABLE))
		abort();
	return at;
}

static void sent_make(struct sent *s, bool own)
{
	s->own = own ? pinned() : NULL;
	s->want[0] = calloc(1, ROOM);
	s->want[1] = calloc(1, ROOM);
}

static void sent_free(struct sent *s)
{
	if (s->own)
		(void)cuda.cuMemFreeHost(s->own);
	free(s->want[0]);
	free(s->want[1]);
}

/* Batches end in the order of their begin, since slots are used in turn. own: batches use their
 * own memory. */
static struct tally run(unsigned batches, bool own, uint64_t *random)
{
	const struct ck_pipe_sizes sizes = { SLOT, 2, 3, own ? ROOM : 0 };
	struct sent sent[ON_WAY] = { 0 };
	struct ck_tiles tiles = { 0 };
	struct tally tally = { 0 };
	struct ck_diag d = { 0 };
	struct ck_pipe pipe;
	unsigned begun = 0, over = 0;

	for (unsigned i = 0; i < ON_WAY; i++)
		sent_make(&sent[i], own);
	if (ck_pipe_make(device, &sizes, &pipe, &d)) {
		printf("# %s\n", d.text);
		abort();
	}
	while (over < batches) {
		struct sent *s = &sent[begun % ON_WAY];

		if (begun < batches && !s->taken) {
			begin(&pipe, s, &tiles, &tally, random);
			begun += s->taken;
		}
		while (over < begun && end(&pipe, &sent[over % ON_WAY], &tally))
			over++;
	}
	ck_pipe_fini(&pipe);
	ck_tiles_fini(&tiles);
	for (unsigned i = 0; i < ON_WAY; i++)
		sent_free(&sent[i]);
	return tally;
}

static void test_random(bool own)
{
	unsigned batches = (unsigned)tap_cases("CKPTFS_CASES", 100,
					       TAP_SLOW ? 100 : 400);
	uint64_t random = tap_seed(1) | 1;
	struct tally t = run(batches, own, &random);

	printf("# %u batches\n", batches);
	eq_u64(t.wrong, 0);
	eq_u64(t.failed, 0);
	ok(t.empty < batches / 4);
}

/* --- canaries: faults are detected ------------------------------------------------------ */

static CUresult do_not_wait(CUstream stream, CUevent event, unsigned flags)
{
	(void)stream;
	(void)event;
	(void)flags;
	return CUDA_SUCCESS;
}

static CUresult say_done(CUevent event)
{
	(void)event;
	return CUDA_SUCCESS;
}

/* Runs in its own process: 0 if all bytes are right. The fake driver may abort it. */
static int spoiled(const char *how, bool own)
{
	uint64_t random = tap_seed(3) | 1;

	if (strcmp(how, "no wait") == 0)
		cuda.cuStreamWaitEvent = do_not_wait;
	else
		cuda.cuEventQuery = say_done;
	_exit(run(40, own, &random).wrong > 0);
}

static void test_spoiled(const char *self, const char *how, const char *own)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		execl(self, self, how, own, (char *)NULL);
		_exit(0);
	}
	ok(waitpid(pid, &status, 0) == pid && status != 0);
	printf("# %s: %s\n", how, WIFEXITED(status) ? "wrong bytes" : "ended");
}

/* --- errors ------------------------------------------------------------------------------ */

static int control(const char *text)
{
	int (*call)(const char *);
	void *found = dlsym(cuda.library, "standin_control");

	memcpy(&call, &found, sizeof(call));
	return call(text);
}

static unsigned leaks(void)
{
	unsigned (*call)(void);
	void *found = dlsym(cuda.library, "standin_leaks");

	memcpy(&call, &found, sizeof(call));
	return call();
}

static void test_no_room(void)
{
	const struct ck_pipe_sizes sizes = { SLOT, 2, 3, 0 };
	struct ck_diag d = { 0 };
	struct ck_pipe pipe;

	eq_err(control("memory=4000000"), 0);
	eq_err(ck_pipe_make(device, &sizes, &pipe, &d), -ENOSPC);
	ok(strstr(d.text, "3 x 1048576 bytes of its memory: "
			  "CUDA_ERROR_OUT_OF_MEMORY") != NULL);
	eq_err(control("reset"), 0);
}

/* More tiles than fit into a slot. */
static void test_many_tiles(void)
{
	const struct ck_pipe_sizes sizes = { 65536, 1, 1, 0 };
	struct ck_tiles tiles = { 0 };
	struct ck_pipe_batch b = { .tiles = &tiles };
	struct ck_diag d = { 0 };
	struct ck_pipe pipe;
	int rc = 0;

	eq_err(ck_pipe_make(device, &sizes, &pipe, &d), 0);
	eq_err(ck_pipe_take(&pipe, 0, &b), 0);
	for (unsigned i = 0; i < 1000 && rc == 0; i++)
		rc = ck_tiles_add(&tiles,
				  &(struct ck_tile_copy){ .src = b.staged,
							  .dst = b.result,
							  .run = 16 });
	eq_err(rc, 0);
	eq_err(ck_pipe_send(&pipe, &b, 16, 16), -E2BIG);
	ck_tiles_clear(&tiles);
	eq_err(ck_pipe_send(&pipe, &b, 16, 16), 0);
	while (ck_pipe_is_done(&pipe, &b) == 0)
		rest_a_little();
	ck_pipe_put(&b);
	ck_pipe_fini(&pipe);
	ck_tiles_fini(&tiles);
}

/* The last test: the device is lost permanently. */
static void test_lost(void)
{
	const struct ck_pipe_sizes sizes = { SLOT, 2, 2, 0 };
	uint64_t random = tap_seed(5) | 1;
	struct ck_tiles tiles = { 0 };
	struct sent s = { .want = { calloc(1, ROOM), calloc(1, ROOM) } };
	struct ck_diag d = { 0 };
	struct ck_pipe pipe;
	int rc = 0;

	eq_err(ck_pipe_make(device, &sizes, &pipe, &d), 0);
	eq_err(control("fail=operation:3:ILLEGAL_ADDRESS"), 0);
	for (unsigned i = 0; i < 10000 && (rc == 0 || rc == -EAGAIN); i++) {
		rc = ck_pipe_take(&pipe, 0, &s.batch);
		if (rc == 0)
			rc = send(&pipe, &s, &tiles, &random);
		if (rc == -EAGAIN) {
			rest_a_little();
			continue;
		}
		ck_pipe_put(&s.batch);
		s.batch = (struct ck_pipe_batch){ 0 };
	}
	eq_err(rc, -EOPNOTSUPP);
	ok(ck_device_is_lost(device));
	ck_pipe_fini(&pipe);
	ck_tiles_fini(&tiles);
	free(s.want[0]);
	free(s.want[1]);
}

int main(int argc, char **argv)
{
	struct ck_diag d = { 0 };
	uint64_t random = 1;

	if (ck_cuda_load(&cuda, &d) || ck_device_open(&cuda, 0, &device, &d)) {
		printf("Bail out! %s\n", d.text);
		return 1;
	}
	area_make(&random);
	if (argc > 1)
		return spoiled(argv[1], argc > 2);
	test_random(false);
	test_random(true);
	test_spoiled(argv[0], "no wait", NULL);
	test_spoiled(argv[0], "no wait", "own");
	test_spoiled(argv[0], "slots too early", NULL);
	test_spoiled(argv[0], "slots too early", "own");
	test_no_room();
	test_many_tiles();
	test_lost();
	ck_device_close(device);
	eq_u64(leaks(), 0);
	area_free();
	return tap_done();
}
