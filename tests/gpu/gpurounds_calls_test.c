/* SPDX-License-Identifier: MIT */
/*
 * gpurounds_calls: the plugin calls of a participant in rounds, which is alone in its job: slots
 * and messages, their maximum number, refused calls, and a device that is lost.
 *
 *	LD_LIBRARY_PATH=STANDIN gpurounds_calls_test LIBNCCL
 */
#include "gpurounds_job.h"

#include <cuda.h>

enum {
	SOON_MSEC = 20000,
	STUCK_MSEC = 6000,
	ROOMS = 8,
	PARCELS = 4,
	SIZE = 1 << 20
};

static struct fixture {
	struct ck_gpu *gpu;
	struct ck_round_backend *backend;
	struct grank_driver driver;
	uint8_t *memory, *sent; /* SIZE each */
	struct ck_loop loops[1];
	struct ck_gather_desc copies[1];
} f;

static void rest(void)
{
	(void)usleep(200);
}

/* Polls until the result is not 0. */
static int staged(struct ck_gpu_work *w)
{
	uint64_t end = now_msec() + SOON_MSEC;
	int rc;

	while ((rc = f.gpu->is_staged(f.gpu, w)) == 0 && now_msec() < end)
		rest();
	return rc;
}

static int packed(struct ck_gpu_parcel *p)
{
	uint64_t end = now_msec() + SOON_MSEC;
	int rc;

	while ((rc = f.gpu->is_packed(f.gpu, p)) == 0 && now_msec() < end)
		rest();
	return rc;
}

static struct ck_gpu_work *done(void)
{
	uint64_t end = now_msec() + SOON_MSEC;
	struct ck_gpu_work *w;

	while (!(w = f.gpu->done(f.gpu)) && now_msec() < end)
		rest();
	return w;
}

/* A round of an epoch without other ranks. */
static int run_round(const struct ck_gpu_transfer *list, size_t n)
{
	struct ck_gpu_round round = { list, n };
	struct ck_round r = { .op = 1, .arg = &round };
	uint64_t end = now_msec() + SOON_MSEC;
	int rc = f.backend->begin(f.backend, &r);

	while (rc == 0 &&
	       (rc = f.backend->poll(f.backend, &r)) == -EINPROGRESS &&
	       now_msec() < end) {
		rest();
		rc = 0;
	}
	return rc;
}

/* The only rank. */
static void begin_epoch(uint64_t epoch)
{
	const uint32_t self = 0;
	uint8_t token[CK_ROUND_TOKEN];

	f.backend->token(f.backend, token);
	f.backend->epoch(f.backend, epoch, &self, 1, token);
}

static int join(void)
{
	struct ck_diag d = { 0 };
	int rc = f.gpu->join(f.gpu, 0, f.sent, SIZE, &f.backend, &d);

	if (rc)
		printf("# %s\n", d.text);
	return rc;
}

static void open_gpus(void)
{
	struct ck_gpu_options options = { .size = SIZE, .room = SIZE / 4 };
	struct ck_diag d = { 0 };

	setenv("CKPTFS_NCCL_LIB", library_nccl, 1);
	grank_find_driver(&f.driver);
	f.memory = grank_map(SIZE);
	f.sent = grank_map(SIZE);
	options.memory = f.memory;
	if (ck_gpu_open(&options, &f.gpu, &d)) {
		printf("Bail out! %s\n", d.text);
		exit(1);
	}
}

/* A work of 1000 bytes that copies them unchanged. */
static struct ck_gpu_work work_at(unsigned i)
{
	uint8_t *fill = f.memory + 4096UL * i;

	f.copies[0] = (struct ck_gather_desc){ .run = 1000 };
	fill_bytes(fill, 1000, i);
	memset(fill + 2048, GRANK_UNTOUCHED, 1000);
	return (struct ck_gpu_work){ .fill = fill,
				     .result = fill + 2048,
				     .filled = 1000,
				     .results = 1000,
				     .ncopies = 1,
				     .copies = f.copies,
				     .loops = f.loops };
}

/* --- tests -------------------------------------------------------------------------------- */

static void test_joins(void)
{
	struct ck_gpu_work w = work_at(0);

	f.gpu->leave(f.gpu);
	setenv("CKPTFS_NCCL_LIB", "/nowhere", 1);
	eq_err(join(), -ENOENT);
	setenv("CKPTFS_NCCL_LIB", library_nccl, 1);
	eq_err(f.driver.control("nccl=21705"), 0);
	eq_err(join(), -ENOSYS);
	eq_err(f.driver.control("nccl=22809"), 0);
	eq_err(join(), 0);
	ok(strncmp(f.gpu->nccl, "2.28.9 /", 8) == 0);
	ok(strstr(f.gpu->nccl, "libnccl.so.2") != NULL);
	/* No epoch has begun. */
	eq_err(f.gpu->stage(f.gpu, &w), 0);
	(void)usleep(50000);
	eq_err(f.gpu->is_staged(f.gpu, &w), 0);
	eq_err(f.gpu->is_up(f.gpu), 0);
	f.gpu->proceed(f.gpu, &w, -ECANCELED);
	ok(done() == &w);
	eq_err(w.rc, -ECANCELED);
	ok(w.result[0] == GRANK_UNTOUCHED);
	begin_epoch(1);
}

static void test_rooms(void)
{
	struct ck_gpu_work works[ROOMS + 1];
	unsigned right = 0;

	for (unsigned i = 0; i <= ROOMS; i++)
		works[i] = work_at(i);
	for (unsigned i = 0; i < ROOMS; i++)
		eq_err(f.gpu->stage(f.gpu, &works[i]), 0);
	eq_err(f.gpu->stage(f.gpu, &works[ROOMS]), -EAGAIN);
	eq_err(staged(&works[3]), 1);
	eq_err(f.gpu->is_up(f.gpu), 1);
	f.gpu->proceed(f.gpu, &works[3], 0);
	ok(done() == &works[3]);
	/* Its slot is free, although it is not the first one. */
	while (f.gpu->stage(f.gpu, &works[ROOMS]) == -EAGAIN)
		rest();
	eq_err(staged(&works[ROOMS]), 1);
	for (unsigned i = 0; i <= ROOMS; i++) {
		if (i == 3)
			continue;
		/* An abandoned work returns its slot at once, complete or not. */
		if (i % 2)
			eq_err(staged(&works[i]), 1);
		f.gpu->proceed(f.gpu, &works[i], i % 2 ? 0 : -EREMOTEIO);
	}
	for (unsigned i = 0; i < ROOMS; i++) {
		struct ck_gpu_work *w = done();

		if (!w)
			break;
		right += w->rc == 0 ? are_bytes(w->result, 1000,
						(uint64_t)(w - works))
				    : w->rc == -EREMOTEIO &&
					      w->result[0] == GRANK_UNTOUCHED;
	}
	eq_u64(right, ROOMS);
	ok(f.gpu->done(f.gpu) == NULL);
}

static void test_refused(void)
{
	struct ck_gpu_memory other = { .gpu = 1 };
	struct ck_gpu_work w = work_at(0);
	static struct ck_gather_desc many[2000];
	static struct ck_loop loops[12];

	w.to = &other;
	eq_err(f.gpu->stage(f.gpu, &w), -ENODEV);
	w.to = NULL;
	w.filled = 2 * SIZE;
	eq_err(f.gpu->stage(f.gpu, &w), -E2BIG);
	/* More small copies than fit into a slot. */
	w.filled = w.results = 3 << 12;
	for (unsigned i = 0; i < 12; i++)
		loops[i] = (struct ck_loop){ 2, 3ULL << i, 3ULL << i };
	for (unsigned i = 0; i < CK_ARRAY_SIZE(many); i++)
		many[i] = (struct ck_gather_desc){ .run = 2, .nloops = 12 };
	w.copies = many;
	w.loops = loops;
	w.ncopies = CK_ARRAY_SIZE(many);
	eq_err(f.gpu->stage(f.gpu, &w), 0);
	eq_err(staged(&w), 1);
	f.gpu->proceed(f.gpu, &w, 0);
	ok(done() == &w);
	eq_err(w.rc, -EOVERFLOW);
}

static void test_parcels(void)
{
	struct ck_gpu_parcel *parcels[PARCELS], *none;

	eq_err(f.gpu->pack(f.gpu, f.sent, CK_GPU_PARCEL + 1, &none), -E2BIG);
	for (unsigned i = 0; i < PARCELS; i++) {
		eq_err(f.gpu->pack(f.gpu, i == 2 ? NULL : f.sent, 1000 * i,
				   &parcels[i]),
		       0);
		eq_u64(parcels[i]->size, 1000 * i);
	}
	eq_err(f.gpu->pack(f.gpu, f.sent, 1, &none), -EAGAIN);
	for (unsigned i = 0; i < PARCELS; i++)
		eq_err(packed(parcels[i]), 1);
	f.gpu->unpack(f.gpu, parcels[1]);
	eq_err(f.gpu->pack(f.gpu, f.sent, 1, &parcels[1]), 0);
	for (unsigned i = 0; i < PARCELS; i++)
		f.gpu->unpack(f.gpu, parcels[i]);
}

/* Copies bytes of the device to the host, on a separate stream. */
static void copy_back(uint8_t *to, CUdeviceptr from, size_t len)
{
	__typeof__(cuStreamCreate) *create;
	__typeof__(cuMemcpyDtoHAsync) *copy;
	__typeof__(cuStreamSynchronize) *settle;
	__typeof__(cuStreamDestroy) *destroy;
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	CUstream stream;

	find_call(library, "cuStreamCreate", &create);
	find_call(library, "cuMemcpyDtoHAsync_v2", &copy);
	find_call(library, "cuStreamSynchronize", &settle);
	find_call(library, "cuStreamDestroy_v2", &destroy);
	if (create(&stream, CU_STREAM_NON_BLOCKING) ||
	    copy(to, from, len, stream) || settle(stream) || destroy(stream))
		abort();
}

static void find_uuid(uint8_t uuid[static 16])
{
	__typeof__(cuDeviceGetUuid) *find;
	CUuuid found;

	find_call(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL),
		  "cuDeviceGetUuid_v2", &find);
	if (find(&found, 0))
		abort();
	memcpy(uuid, found.bytes, 16);
}

/* Work whose destination is memory exported to other processes. */
static void test_export(void)
{
	uint8_t uuid[16], *host = f.memory + 65536;
	struct ck_gpu_work w = work_at(5);
	struct ck_gpu_memory memory;

	find_uuid(uuid);
	eq_err(f.gpu->allocate(f.gpu, uuid, 8192, false, &memory), 0);
	w.to = &memory;
	w.to_at = 4096;
	eq_err(f.gpu->stage(f.gpu, &w), 0);
	eq_err(staged(&w), 1);
	f.gpu->proceed(f.gpu, &w, 0);
	ok(done() == &w);
	eq_err(w.rc, 0);
	copy_back(host, memory.at + 4096, 1000);
	ok(are_bytes(host, 1000, 5));
	f.gpu->release(f.gpu, &memory);
}

static void test_rounds(void)
{
	const struct ck_gpu_transfer self = { 0, true, 0, 10 };
	const struct ck_gpu_transfer stranger = { 7, true, 0, 10 };

	eq_err(run_round(NULL, 0), 0);
	eq_err(run_round(&self, 1), -EINVAL);
	eq_err(run_round(&stranger, 1), -EINVAL);
}

/* Work that has proceeded completes although its rank leaves the job. */
static void test_leaves(void)
{
	struct ck_gpu_work one = work_at(0), two = work_at(1);
	struct ck_gpu_parcel *p;

	eq_err(f.gpu->pack(f.gpu, f.sent, 100, &p), 0);
	eq_err(f.gpu->stage(f.gpu, &one), 0);
	eq_err(f.gpu->stage(f.gpu, &two), 0);
	eq_err(staged(&two), 1);
	f.gpu->proceed(f.gpu, &two, 0);
	f.gpu->leave(f.gpu);
	ok(f.gpu->done(f.gpu) == &two);
	eq_err(two.rc, 0);
	ok(are_bytes(two.result, 1000, 1));
	ok(f.gpu->done(f.gpu) == NULL);
	eq_err(join(), 0);
	begin_epoch(2);
}

/* The last test: the device is lost permanently. */
static void test_lost(void)
{
	struct ck_gpu_work one = work_at(0), two = work_at(1), w = work_at(2);
	struct ck_gpu_parcel *p;

	eq_err(f.gpu->stage(f.gpu, &one), 0);
	eq_err(f.gpu->stage(f.gpu, &two), 0);
	eq_err(staged(&one), 1);
	eq_err(f.gpu->pack(f.gpu, f.sent, 100, &p), 0);
	ok(f.gpu->trouble(f.gpu) == NULL);
	eq_err(f.driver.control("fail=operation:1:ILLEGAL_ADDRESS"), 0);
	f.gpu->proceed(f.gpu, &one, 0);
	ok(done() == &one);
	eq_err(one.rc, -EIO);
	ok(f.gpu->trouble(f.gpu) &&
	   strstr(f.gpu->trouble(f.gpu), "CUDA_ERROR_ILLEGAL_ADDRESS"));
	eq_err(f.gpu->is_staged(f.gpu, &two), -EIO);
	eq_err(f.gpu->is_packed(f.gpu, p), -EIO);
	f.gpu->unpack(f.gpu, p);
	eq_err(f.gpu->pack(f.gpu, f.sent, 100, &p), -EIO);
	eq_err(f.gpu->stage(f.gpu, &w), -EIO);
	f.gpu->proceed(f.gpu, &two, 0);
	ok(done() == &two);
	eq_err(two.rc, -EIO);
	f.gpu->leave(f.gpu);
	eq_err(join(), -EIO);
}

/* An epoch with a rank that never joins: the communicator waits for it. */
static void begin_epoch_of_two(void)
{
	const uint32_t both[] = { 0, 1 };
	uint8_t token[CK_ROUND_TOKEN];

	f.backend->token(f.backend, token);
	f.backend->epoch(f.backend, 1, both, 2, token);
	(void)usleep(300000);
}

/* The number of the first failed check, or 0. */
static int leave_stuck(void)
{
	uint8_t uuid[16];
	struct ck_gpu_memory memory;
	uint64_t since;
	unsigned left;

	open_gpus();
	if (join() || f.driver.control("fail=ncclCommAbort:1:NEVER"))
		return 1;
	find_uuid(uuid);
	if (f.gpu->allocate(f.gpu, uuid, 8192, false, &memory))
		return 2;
	begin_epoch_of_two();
	left = f.driver.leaks();
	since = now_msec();
	if (f.gpu->leave(f.gpu) || now_msec() - since > STUCK_MSEC)
		return 3;
	if (!f.gpu->trouble(f.gpu) ||
	    !strstr(f.gpu->trouble(f.gpu), "NCCL does not return"))
		return 4;
	if (join() != -EIO)
		return 5;
	since = now_msec();
	f.gpu->release(f.gpu, &memory);
	f.gpu->close(f.gpu);
	if (now_msec() - since > 1000)
		return 6;
	return f.driver.leaks() == left ? 0 : 7;
}

/* ncclCommAbort() does not return: the wait for it is short, and memory that NCCL may still write
 * is not freed. Must run in a process without threads. */
static void test_stuck(void)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(leave_stuck());
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	eq_err(status, 0);
}

int main(int argc, char **argv)
{
	if (!job_begin(argc, argv))
		return 2;
	test_stuck();
	open_gpus();
	test_joins();
	test_rooms();
	test_refused();
	test_parcels();
	test_export();
	test_rounds();
	test_leaves();
	test_lost();
	f.gpu->close(f.gpu);
	eq_u64(f.driver.leaks(), 0);
	return tap_done();
}
