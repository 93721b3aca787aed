/* SPDX-License-Identifier: MIT */
/*
 * spread: works by lot, most of them to memory of some device, on the stand-ins for a driver with
 * several devices and for NCCL: each byte is compared, whatever becomes of NCCL meanwhile. Then
 * what is used too early, which has to be found. CKPTFS_CASES: how many works (300; all of it: 3000).
 *
 *	LD_LIBRARY_PATH=STANDIN spread_test LIBNCCL
 */
#include "spread_process.h"

/* The status of one; with what came of it in result. */
static int run_plan(const char *what, struct plan p)
{
	uint64_t since = ck_msec_now();
	int status = -1;
	pid_t pid;

	plan = &p;
	memset(result, 0, sizeof(*result));
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		process();
	if (waitpid(pid, &status, 0) != pid)
		abort();
	printf("# %s: %u good, %u wrong, %u failed, %u transfers, %s (%s), "
	       "status %x, %" PRIu64 " ms\n",
	       what, result->good, result->wrong, result->failed,
	       result->spread, result->last.used ? "used" : "not used",
	       result->last.text, (unsigned)status, ck_msec_now() - since);
	return status;
}

/* Of one that leaves threads, which end with it, a sanitizer of threads complains. */
static bool is_well(int status, bool leaves)
{
	return status == 0 || (leaves && TAP_THREADS && WIFEXITED(status));
}

/* All bytes are right. */
static void run_well(const char *what, struct plan p)
{
	ok(is_well(run_plan(what, p), p.stays));
	ok(result->over);
	eq_u64(result->wrong, 0);
	eq_u64(result->failed, 0);
	eq_u64(result->good, p.works * (p.again ? 2 : 1));
	ok(p.stays || result->leaks == 0);
}

/* --- tests -------------------------------------------------------------------------------- */

static void test_works(unsigned works, uint64_t seed)
{
	for (uint32_t n = 2; n <= DEVICES; n += 2) {
		run_well("several devices",
			 (struct plan){ .devices = n,
					.works = works,
					.spreading = CK_GPU_SPREAD,
					.seed = seed + n });
		ok(result->last.used && result->last.rc == 0);
		ok(result->last.rate > 0 && result->last.nsec > 0);
		ok(strncmp(result->last.text, "2.28.9 /", 8) == 0);
		ok(result->spread > works / 8);
	}
	run_well("if it is faster",
		 (struct plan){ .devices = 2,
				.works = works / 10,
				.spreading = CK_GPU_SPREAD_FASTER,
				.seed = seed });
	ok(result->last.rc == 0 && result->last.rate > 0);
	ok(result->last.used || result->spread == 0);
}

static void test_none(uint64_t seed)
{
	struct plan p = { .devices = 2, .works = 60, .seed = seed };

	run_well("off", p);
	ok(result->spread == 0 && result->last.text[0] == '\0');
	p.devices = 1;
	p.spreading = CK_GPU_SPREAD_FASTER;
	run_well("one device", p);
	ok(result->last.text[0] == '\0');
	p.spreading = CK_GPU_SPREAD;
	run_well("one device, and it has to be", p);
	ok(!result->last.used && result->last.rc == -ENODEV);
	ok(strcmp(result->last.text, "there is one GPU") == 0);
}

/* Before it is open, and later: each call at times that hit a beginning, and transfers. */
static const struct fault {
	const char *before, *after;
	bool ends; /* its use */
} faults[] = {
	{ "fail=ncclGetUniqueId:1:UNKNOWN", NULL, true },
	{ "fail=ncclCommInitRankConfig:1:UNKNOWN", NULL, true },
	{ "fail=ncclCommInitRankConfig:2:UNKNOWN", NULL, true },
	{ "fail=ncclGroupStart:1:UNKNOWN", NULL, true },
	{ "fail=ncclGroupStart:2+:UNKNOWN", NULL, true },
	{ "fail=ncclGroupEnd:1:UNKNOWN", NULL, true },
	{ "fail=ncclGroupEnd:2:UNKNOWN", NULL, true },
	{ "fail=ncclCommGetAsyncError:1:UNKNOWN", NULL, true },
	{ "fail=ncclAsync:1:UNKNOWN", NULL, true },
	{ "fail=ncclAsync:4:UNKNOWN", NULL, true },
	{ "fail=ncclSend:1:UNKNOWN", NULL, true },
	{ "fail=ncclRecv:1:UNKNOWN", NULL, true },
	{ "fail=ncclRecv:9:UNKNOWN", NULL, true },
	{ NULL, "fail=ncclGroupStart:5:UNKNOWN", true },
	{ NULL, "fail=ncclGroupEnd:5:UNKNOWN", true },
	{ NULL, "fail=ncclSend:20:UNKNOWN", true },
	{ NULL, "fail=ncclRecv:30:UNKNOWN", true },
	{ NULL, "fail=ncclAsync:9:UNKNOWN", true },
	{ NULL, "fail=ncclCommGetAsyncError:40:UNKNOWN", true },
	{ NULL, "fail=ncclAsync:5:UNKNOWN fail=ncclCommAbort:1+:UNKNOWN",
	  true },
	{ NULL, "fail=ncclCommAbort:1:UNKNOWN", false },
};

static void test_fault(const struct fault *f, uint64_t seed)
{
	run_well(f->before ? f->before : f->after,
		 (struct plan){ .devices = 3,
				.works = 150,
				.spreading = CK_GPU_SPREAD,
				.before = f->before,
				.after = f->after,
				.seed = seed });
	ok(result->last.used == !f->ends);
	ok(!f->ends || (result->last.rc < 0 && result->last.text[0]));
}

/* A transfer that never ends: it is given up in time, also if nobody looks after it, and tried
 * again a while later. */
static void test_silent(bool sleeps, uint64_t seed)
{
	run_well("nobody receives", (struct plan){ .devices = 3,
						   .works = 200,
						   .spreading = CK_GPU_SPREAD,
						   .spoil = SPOIL_SILENT,
						   .spared = 40,
						   .sleeps = sleeps,
						   .again = true,
						   .seed = seed });
	ok(strstr(result->first.text, "libnccl") != NULL);
	ok(result->last.used);
}

/* Its use is over then: nothing waits, nothing is wrong. */
static void run_lost(const char *what, struct plan p)
{
	p.devices = 3;
	p.works = 300;
	p.spreading = CK_GPU_SPREAD;
	p.loses = true;
	ok(is_well(run_plan(what, p), true));
	ok(result->over);
	ok(result->trouble);
	eq_u64(result->wrong, 0);
}

/* While they come together, when that is measured, and later. */
static void test_lost(uint64_t seed)
{
	static const char *const before[] = {
		"fail=operation:1:ILLEGAL_ADDRESS",
		"fail=operation:5:ILLEGAL_ADDRESS",
		"fail=operation:30:ILLEGAL_ADDRESS",
		"fail=operation:200:ILLEGAL_ADDRESS",
		"fail=cuEventRecord:2:ILLEGAL_ADDRESS",
		"fail=cuEventQuery:2:ILLEGAL_ADDRESS",
		"fail=cuCtxSetCurrent:12:ILLEGAL_ADDRESS",
	};
	static const char *const after[] = {
		"fail=operation:20:ILLEGAL_ADDRESS",
		"fail=operation:400:ILLEGAL_ADDRESS",
		"fail=cuEventRecord:50:ILLEGAL_ADDRESS",
		"fail=cuEventQuery:50:ILLEGAL_ADDRESS",
		"fail=cuMemcpyHtoDAsync:40:ILLEGAL_ADDRESS",
		"fail=cuLaunchKernel:40:ILLEGAL_ADDRESS",
		"fail=cuStreamWaitEvent:40:ILLEGAL_ADDRESS",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(before); i++)
		run_lost(before[i],
			 (struct plan){ .before = before[i], .seed = seed });
	for (size_t i = 0; i < CK_ARRAY_SIZE(after); i++) {
		run_lost(after[i],
			 (struct plan){ .after = after[i], .seed = seed });
		ok(result->failed > 0);
		eq_u64(result->failed + result->good, 300);
	}
}

/* A call of NCCL that never returns, while they come together: the devices are used without it;
 * and later, when a transfer is to be ended by force: what is on its way fails, and nothing is
 * asked of the devices any more. */
static void test_stuck(uint64_t seed)
{
	static const char *const begins[] = {
		"fail=ncclCommInitRankConfig:2:NEVER",
		"fail=ncclGroupEnd:1:NEVER",
		"fail=ncclAsync:1:UNKNOWN fail=ncclCommAbort:1:NEVER",
	};
	struct plan p = { .spoil = SPOIL_SILENT,
			  .spared = 40,
			  .speed = 10,
			  .after = "fail=ncclCommAbort:1:NEVER",
			  .seed = seed };

	run_lost("communicators do not end", p);
	ok(result->failed > 0);
	eq_u64(result->failed + result->good, 300);
	for (size_t i = 0; i < CK_ARRAY_SIZE(begins); i++) {
		p = (struct plan){ .devices = 2,
				   .works = 60,
				   .spreading = CK_GPU_SPREAD,
				   .speed = 60,
				   .before = begins[i],
				   .stays = true,
				   .seed = seed };
		run_well(begins[i], p);
		ok(!result->last.used && result->last.rc == -EIO);
		ok(strstr(result->last.text, "does not return") != NULL);
	}
}

/* Bytes are wrong, or the stand-in ends the process. */
static void test_spoiled(const char *what, enum spoil spoil, uint64_t seed)
{
	int status = run_plan(what, (struct plan){ .devices = 2,
						   .works = 300,
						   .spreading = CK_GPU_SPREAD,
						   .spoil = spoil,
						   .seed = seed });

	ok(result->wrong > 0 ||
	   (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
}

int main(int argc, char **argv)
{
	unsigned works = (unsigned)tap_cases("CKPTFS_CASES", 300, 3000);
	uint64_t seed = tap_seed(1);

	if (argc != 2)
		return 2;
	setenv("CKPTFS_NCCL_LIB", argv[1], 1);
	result = (void *)map(sizeof(*result));
	test_works(works, seed);
	test_none(seed);
	for (size_t i = 0; i < CK_ARRAY_SIZE(faults); i++)
		test_fault(&faults[i], seed + i);
	test_silent(false, seed);
	test_silent(true, seed + 1);
	test_lost(seed);
	test_stuck(seed);
	if (!TAP_THREADS) {
		test_spoiled("put together too early", SPOIL_GATHERED, seed);
		test_spoiled("transferred too early", SPOIL_MOVED, seed);
	}
	return tap_done();
}
