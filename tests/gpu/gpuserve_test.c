/* SPDX-License-Identifier: MIT */
/*
 * gpuserve: bytes of other ranks are transferred in rounds, directly into the gathered memory. The
 * GPU processes are real, on the fake driver and the fake NCCL; this test is the mount, and all
 * ranks, which forward messages and have files. Files fail; processes die, hang and return in
 * other jobs. Each gather request gets the right bytes, or an error in time.
 *
 *	LD_LIBRARY_PATH=STANDIN gpuserve_test CKPTFS
 */
#include "gpuserve_mount.h"

enum {
	/* Time to detect that NCCL does not return. */
	STUCK_MSEC = 6000,
	/* A communicator is given up after 5 s. */
	STOPPED_USEC = 6500000,
};

static unsigned rounds_wanted(void)
{
	return (unsigned)tap_cases("CKPTFS_ROUNDS", 400, 400);
}

static void test_random(void)
{
	uint64_t random = tap_seed(1);
	unsigned rounds = rounds_wanted(), good = 0, all = 0, reads;
	static struct fixture f;
	char text[512];

	begin(&f, sound);
	ok(is_joined(&f));
	ok(comes(&f, 1) && comes(&f, 2));
	ok(ck_gpulink_nccl(f.link, text, sizeof(text)) &&
	   strstr(text, "libnccl.so.2"));
	for (unsigned i = 0; i < rounds; i += AT_A_TIME) {
		unsigned n = 1 + (unsigned)boxes_below(&random, AT_A_TIME);

		all += n;
		good += run_some(
			&f, &random, n,
			1 + 2 * (1 + (uint32_t)boxes_below(&random, 3)), 0);
	}
	ok(good == all && all > rounds / AT_A_TIME);
	reads = __atomic_load_n(&f.ranks.reads, __ATOMIC_RELAXED);
	printf("# %u gatherings, %u READs\n", all, reads);
	ok(reads > all);
	end(&f);
}

/* An unreadable file, or an unknown set of hosts, fails soon and without an effect on others. */
static void test_refused(void)
{
	uint64_t random = tap_seed(1);
	struct ck_copy_desc bad = { .file = BAD_FILE, .run = 500 };
	static struct fixture f;
	struct one o;
	sem_t done;

	begin(&f, sound);
	ok(comes(&f, 1) && comes(&f, 2));
	sem_init(&done, 0, 0);
	one_fill(&f, &o, &random, 7, &done);
	put_want(&o, 2, &bad, 0, 500);
	f.g->start(f.g, o.slot);
	ok(wait_one(&done) && o.rc == -EREMOTEIO);
	one_end(&f, &o);
	ok(run_some(&f, &random, 3, 7, 0) == 3);
	one_fill(&f, &o, &random, 7, &done);
	o.slot->set = f.set + 1;
	f.g->start(f.g, o.slot);
	ok(wait_one(&done) && o.rc == -EREMOTEIO);
	one_end(&f, &o);
	one_fill(&f, &o, &random, 7, &done);
	f.g->start(f.g, o.slot);
	f.g->interrupt(f.g, o.slot);
	ok(wait_one(&done) && (o.rc == 0 || o.rc == -EINTR));
	if (o.rc == 0)
		f.g->put(f.g, o.slot);
	free(o.want);
	ok(run_some(&f, &random, 3, 7, 0) == 3);
	sem_destroy(&done);
	end(&f);
}

/* A process dies, or hangs: the others continue, and the next job works again. */
static void test_gone(int number)
{
	uint64_t random = tap_seed(1);
	static struct fixture f;
	pid_t pid;

	begin(&f, sound);
	ok(comes(&f, 1) && comes(&f, 2));
	pid = process_of(&f.ranks.list[2]);
	ok(pid > 0 && kill(pid, number) == 0);
	ok(run_some(&f, &random, AT_A_TIME, 4, -EREMOTEIO) == AT_A_TIME);
	if (number == SIGSTOP)
		__atomic_store_n(&f.ranks.cut[2], true, __ATOMIC_RELAXED);
	ok(comes(&f, 1));
	ok(run_some(&f, &random, AT_A_TIME, 3, 0) == AT_A_TIME);
	(void)kill(pid, SIGCONT);
	job_end(&f);
	job_begin(&f);
	ok(is_joined(&f) && comes(&f, 1) && comes(&f, 2));
	ok(run_some(&f, &random, AT_A_TIME, 7, 0) == AT_A_TIME);
	end(&f);
}

/* The worker is stopped in a round for longer than the timeout of a round. Its communicator has
 * ended when it continues, and missing bytes must not count as received. */
static void test_stopped(void)
{
	uint64_t random = tap_seed(1);
	static struct one list[AT_A_TIME];
	static struct fixture f;
	unsigned wrong = 0, lost = 0, reads;
	sem_t done;
	pid_t pid;

	begin(&f, sound);
	ok(comes(&f, 1) && comes(&f, 2));
	pid = process_of(&f.ranks.list[0]);
	sem_init(&done, 0, 0);
	reads = __atomic_load_n(&f.ranks.reads, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < AT_A_TIME; i++) {
		one_large(&f, &list[i], &done);
		f.g->start(f.g, list[i].slot);
	}
	while (__atomic_load_n(&f.ranks.reads, __ATOMIC_RELAXED) < reads + 2)
		usleep(100);
	usleep((useconds_t)boxes_below(&random, 10000));
	(void)kill(pid, SIGSTOP);
	usleep(STOPPED_USEC);
	(void)kill(pid, SIGCONT);
	for (unsigned i = 0; i < AT_A_TIME; i++) {
		wrong += !wait_one(&done);
	}
	for (unsigned i = 0; i < AT_A_TIME; i++) {
		wrong += list[i].rc == 0 && !is_right(&list[i]);
		lost += list[i].rc == -EREMOTEIO;
		one_end(&f, &list[i]);
	}
	eq_u64(wrong, 0);
	printf("# %u of %d had not come\n", lost, AT_A_TIME);
	ok(comes(&f, 1) && comes(&f, 2));
	sem_destroy(&done);
	end(&f);
}

/* Waits for the condition, for at most STUCK_MSEC. */
static bool waits_until(bool (*is_so)(pid_t pid), pid_t pid)
{
	uint64_t end = ck_msec_now() + STUCK_MSEC;

	while (!is_so(pid) && ck_msec_now() < end)
		usleep(10000);
	return is_so(pid);
}

/* True if the process has ended, also as a zombie. */
static bool has_ended(pid_t pid)
{
	char name[32], state = 'X';
	FILE *file;

	(void)snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	file = fopen(name, "re");
	if (file) {
		if (fscanf(file, "%*d %*s %c", &state) != 1)
			state = 'X';
		(void)fclose(file);
	}
	return state == 'X' || state == 'Z';
}

/* Regression: the abort of a communicator does not return. The worker reports a failure and is
 * replaced when the job has ended; a process for rounds exits. */
static void test_stuck(void)
{
	static const char *const words[RANKS] = { "fail=ncclCommAbort:1:NEVER",
						  "fail=ncclCommAbort:1:NEVER",
						  "" };
	uint64_t random = tap_seed(1);
	static struct fixture f;
	pid_t backend, process;

	begin(&f, words);
	ok(comes(&f, 1) && comes(&f, 2));
	backend = process_of(&f.ranks.list[0]);
	process = process_of(&f.ranks.list[1]);
	job_end(&f);
	ok(waits_until(has_ended, backend));
	ok(waits_until(has_ended, process));
	f.g->put(f.g, slot_take(&f));
	job_begin(&f);
	ok(is_joined(&f) && comes(&f, 1) && comes(&f, 2));
	ok(run_some(&f, &random, AT_A_TIME, 7, 0) == AT_A_TIME);
	end(&f);
}

/* The same in a round that one rank never completes: requests for its bytes fail as if the worker
 * had died. */
static void test_stuck_round(void)
{
	static const char *const words[RANKS] = { "fail=ncclCommAbort:1:NEVER",
						  "",
						  "fail=ncclGroupEnd:2:NEVER" };
	uint64_t since;
	static struct fixture f;
	struct one o;
	sem_t done;

	begin(&f, words);
	ok(is_joined(&f));
	sem_init(&done, 0, 0);
	since = ck_msec_now();
	do {
		one_large(&f, &o, &done);
		f.g->start(f.g, o.slot);
		ok(wait_one(&done));
		one_end(&f, &o);
		usleep(10000);
	} while (o.rc == -EREMOTEIO && ck_msec_now() - since < STUCK_MSEC);
	eq_err(o.rc, -EIO);
	ok(ck_msec_now() - since < STUCK_MSEC);
	f.g->put(f.g, slot_take(&f));
	sem_destroy(&done);
	end(&f);
}

/* Ranks stop forwarding messages, and a job ends. */
static void test_link(void)
{
	uint64_t random = tap_seed(1);
	char text[512];
	static struct fixture f;

	begin(&f, sound);
	ok(comes(&f, 1) && comes(&f, 2));
	__atomic_store_n(&f.ranks.mute, true, __ATOMIC_RELAXED);
	ok(run_some(&f, &random, AT_A_TIME, 7, -EREMOTEIO) == AT_A_TIME);
	job_end(&f);
	ok(run_some(&f, &random, AT_A_TIME, 7, -EREMOTEIO) == AT_A_TIME);
	ok(!ck_gpulink_nccl(f.link, text, sizeof(text)));
	job_begin(&f);
	ok(comes(&f, 1) && comes(&f, 2));
	end(&f);
}

/* A replaced GPU process leaves its job. */
static void test_replaced(void)
{
	uint64_t random = tap_seed(1);
	static struct fixture f;
	char text[512];

	begin(&f, sound);
	ok(comes(&f, 1) && comes(&f, 2));
	ok(kill(process_of(&f.ranks.list[0]), SIGKILL) == 0);
	for (int i = 0;
	     i < 1000 && __atomic_load_n(&f.g->rounds, __ATOMIC_RELAXED); i++)
		usleep(10000);
	ok(!ck_gpulink_nccl(f.link, text, sizeof(text)));
	job_end(&f);
	f.g->put(f.g, slot_take(&f));
	job_begin(&f);
	ok(is_joined(&f) && comes(&f, 1) && comes(&f, 2));
	ok(run_some(&f, &random, AT_A_TIME, 7, 0) == AT_A_TIME);
	end(&f);
}

/* NCCL is missing, or fails. */
static void test_without(void)
{
	static struct fixture f;
	char text[512];

	setenv("CKPTFS_NCCL_LIB", "/nowhere/libnccl.so.2", 1);
	begin(&f, sound);
	ok(!is_joined(&f));
	ok(!ck_gpulink_nccl(f.link, text, sizeof(text)) &&
	   strstr(text, "/nowhere"));
	ok(f.g->rounds == 0);
	end(&f);
	unsetenv("CKPTFS_NCCL_LIB");
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	program = argv[1];
	(void)signal(SIGPIPE, SIG_IGN);
	test_random();
	test_refused();
	test_gone(SIGKILL);
	test_gone(SIGSTOP);
	test_stopped();
	test_stuck();
	test_stuck_round();
	test_link();
	test_replaced();
	test_without();
	return tap_done();
}
