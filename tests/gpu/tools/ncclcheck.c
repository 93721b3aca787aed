/* SPDX-License-Identifier: MIT */
/*
 * ckptfs-ncclcheck [--quick] [--only=CHECK] [--limit=SECONDS]: main program of the NCCL checks: it
 * runs each check in a child process with a time limit, and prints its line. CKPTFS_SEED: the seed
 * of random rounds; the program prints the seed. Exit status 0: all checks passed, or there is no
 * NCCL; 1: a check failed; 2: there is no GPU.
 */
#include "ncclcheck.h"

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FINE, FAILED, NO_GPU };

enum { ROUNDS = 1000, QUICK = 60, LOOK_USEC = 2000, END_MSEC = 3000 };

static const char usage[] =
	"usage: ckptfs-ncclcheck [--quick] [--only=CHECK] [--limit=SECONDS]\n"
	"Checks NCCL on this machine's first GPU: one JSON object a line. CHECK: version,\n"
	"self, two_ranks, killed, memory. SECONDS: that each has, at most.\n";

/* The first check includes the load of NCCL's large library from disk. A check may also use the
 * remaining time of earlier ones. */
static const struct step {
	const char *name;
	void (*check)(struct checks *c);
	unsigned until; /* seconds since the program began */
} steps[] = {
	{ "version", check_version, 25 },     { "self", check_self, 40 },
	{ "two_ranks", check_two_ranks, 75 }, { "killed", check_killed, 105 },
	{ "memory", check_memory, 115 },
};

struct program {
	struct checks *c;
	bool quick;
	const char *only;
	uint64_t began;
	uint64_t limit; /* milliseconds of each check */
	unsigned passed, failed, skipped;
};

/* --- results of a check ------------------------------------------------------------------- */

void check_well(struct checks *c)
{
	c->now.state = CHECK_WELL;
}

void check_fails(struct checks *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(c->now.why, sizeof(c->now.why), format, args);
	va_end(args);
	c->now.state = CHECK_FAILED;
}

void check_skips(struct checks *c, const char *why)
{
	check_fails(c, "%s", why);
	c->now.state = CHECK_SKIPPED;
}

void check_adds(struct checks *c, const char *format, ...)
{
	size_t len = strlen(c->now.more);
	va_list args;

	va_start(args, format);
	(void)vsnprintf(c->now.more + len, sizeof(c->now.more) - len, format,
			args);
	va_end(args);
}

/* --- lines ---------------------------------------------------------------------------------- */

/* Prints text as JSON, without unprintable characters. */
static void put_text(const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			(void)putchar('\\');
		(void)putchar(*text >= ' ' && *text <= '~' ? *text : ' ');
	}
}

static void say(struct program *p, const struct step *s)
{
	const struct check *now = &p->c->now;
	bool good = now->state == CHECK_WELL;

	if (now->state == CHECK_SKIPPED)
		p->skipped++;
	else
		*(good ? &p->passed : &p->failed) += 1;
	printf("{\"version\":1,\"check\":\"nccl_%s\",\"ok\":%s%s", s->name,
	       now->state == CHECK_SKIPPED ? "null"
	       : good			   ? "true"
					   : "false",
	       now->more);
	if (!good) {
		printf(",\"why\":\"");
		put_text(now->why);
		printf("\"");
	}
	printf("}\n");
	(void)fflush(stdout);
}

/* --- processes -------------------------------------------------------------------------------- */

static uint64_t msec_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Runs a check. Its descendants end with it. NCCL may print to stdout and stderr: both are
 * redirected to the file of complaints. */
static _Noreturn void run_step(struct checks *c, const struct step *s,
			       int complaint)
{
	const struct rlimit none = { 0, 0 };

	(void)setrlimit(RLIMIT_CORE, &none);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)dup2(complaint, STDOUT_FILENO);
	(void)dup2(complaint, STDERR_FILENO);
	s->check(c);
	(void)fflush(NULL);
	_exit(0);
}

/* True if the process has ended in time. A process in a driver call may not end even by
 * SIGKILL. */
static bool wait_for(pid_t pid, uint64_t msec, int *status)
{
	uint64_t end = msec_now() + msec;

	while (waitpid(pid, status, WNOHANG) != pid) {
		if (msec_now() > end)
			return false;
		(void)usleep(LOOK_USEC);
	}
	return true;
}

/* Adds the end of its output to the reason. */
static void add_complaint(struct checks *c, int complaint)
{
	char text[256] = "";
	off_t size = lseek(complaint, 0, SEEK_END);
	off_t at = size > 255 ? size - 255 : 0;
	ssize_t n = pread(complaint, text, sizeof(text) - 1, at);
	size_t len = strlen(c->now.why);

	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
		n--;
	if (n > 0)
		(void)snprintf(c->now.why + len, sizeof(c->now.why) - len,
			       "; %.*s", (int)n, text);
}

static void clean(struct checks *c)
{
	for (unsigned i = 0; c->place[0] && i < 2; i++) {
		char name[80];

		(void)snprintf(name, sizeof(name), "%s/%u", c->place, i);
		(void)unlink(name);
	}
	if (c->place[0])
		(void)rmdir(c->place);
	c->place[0] = '\0';
}

static uint64_t msec_left(const struct program *p, const struct step *s)
{
	uint64_t end = p->began + s->until * UINT64_C(1000), now = msec_now();

	return ck_min(end > now ? end - now : 0, p->limit);
}

static void make(struct program *p, const struct step *s)
{
	int complaint = memfd_create("complaint", MFD_CLOEXEC), status = 0;
	uint64_t msec = msec_left(p, s);
	pid_t pid;

	p->c->now = (struct check){ .state = CHECK_SILENT };
	(void)fflush(stdout);
	pid = fork();
	if (complaint < 0 || pid < 0) {
		check_fails(p->c, "no process for it");
		return;
	}
	if (pid == 0)
		run_step(p->c, s, complaint);
	if (!wait_for(pid, msec, &status)) {
		(void)kill(pid, SIGKILL);
		(void)wait_for(pid, END_MSEC, &status);
		check_fails(p->c, "it did not end in %.1f s",
			    (double)msec / 1000);
	} else if (WIFSIGNALED(status)) {
		check_fails(p->c, "it was ended by signal %d",
			    WTERMSIG(status));
	} else if (p->c->now.state == CHECK_SILENT) {
		check_fails(p->c, "exit status %d", WEXITSTATUS(status));
	}
	if (p->c->now.state == CHECK_FAILED)
		add_complaint(p->c, complaint);
	clean(p->c);
	(void)close(complaint);
}

/* --- all checks --------------------------------------------------------------------------------- */

/* Two ranks are two hosts for NCCL, connected by the loopback, since they share one GPU. Variables
 * that are set keep their values. */
static void set_environment(void)
{
	static const char *const settings[][2] = {
		{ "NCCL_SOCKET_IFNAME", "lo" }, { "NCCL_IB_DISABLE", "1" },
		{ "NCCL_MNNVL_ENABLE", "0" },	{ "NCCL_NVLS_ENABLE", "0" },
		{ "NCCL_RAS_ENABLE", "0" },	{ "NCCL_DEBUG", "WARN" },
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(settings); i++)
		(void)setenv(settings[i][0], settings[i][1], 0);
}

/* The next checks use the same library, with its settings for two ranks on one GPU. */
static void use_library(const struct checks *c)
{
	(void)setenv("CKPTFS_NCCL_LIB", c->file, 1);
	if (c->version >= 23000)
		(void)setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
}

static bool is_wanted(const struct program *p, const struct step *s)
{
	return !p->only || strcmp(p->only, s->name) == 0;
}

static int run_all(struct program *p)
{
	static const struct step device = { "device", check_device, 10 };
	const char *none = NULL;
	bool broken;

	make(p, &device);
	broken = !p->c->no_gpu && p->c->now.state != CHECK_WELL;
	if (p->c->no_gpu)
		none = "there is no GPU";
	if (broken)
		say(p, &device);
	for (size_t i = 0; i < CK_ARRAY_SIZE(steps); i++) {
		const struct step *s = &steps[i];

		if (i > 0 && !is_wanted(p, s))
			continue;
		if (i > 0 && (none || broken)) {
			p->c->now = (struct check){ 0 };
			check_skips(p->c, none ? none : "nccl_device failed");
		} else {
			make(p, s);
		}
		if (is_wanted(p, s) || p->c->now.state == CHECK_FAILED)
			say(p, s);
		if (i == 0 && p->c->now.state == CHECK_WELL)
			use_library(p->c);
		else if (i == 0 && !none)
			none = "there is no NCCL that can be used";
	}
	if (p->c->no_gpu)
		return NO_GPU;
	return p->failed ? FAILED : FINE;
}

/* --- options ---------------------------------------------------------------------------------- */

static bool is_step(const char *name)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(steps); i++)
		if (strcmp(name, steps[i].name) == 0)
			return true;
	return false;
}

/* Returns the letter of a wrong option or of --help, or 0 if all options are right. */
static int parse(struct program *p, int argc, char **argv)
{
	static const struct option options[] = {
		{ "quick", no_argument, NULL, 'q' },
		{ "only", required_argument, NULL, 'o' },
		{ "limit", required_argument, NULL, 'l' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	char *end = NULL;
	int option;

	p->limit = UINT64_MAX;
	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 'q': p->quick = true; break;
		case 'o':
			p->only = optarg;
			if (!is_step(optarg))
				return '?';
			break;
		case 'l':
			p->limit = strtoul(optarg, &end, 10) * UINT64_C(1000);
			if (end == optarg || *end || p->limit == 0)
				return '?';
			break;
		default: return option;
		}
	}
	return optind < argc ? '?' : 0;
}

int main(int argc, char **argv)
{
	const char *seed = getenv("CKPTFS_SEED");
	struct program p = { 0 };
	int wrong = parse(&p, argc, argv), status;

	if (wrong) {
		(void)fputs(usage, wrong == 'h' ? stdout : stderr);
		return wrong == 'h' ? FINE : NO_GPU;
	}
	p.c = mmap(NULL, sizeof(*p.c), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p.c == MAP_FAILED)
		return FAILED;
	p.c->rounds = p.quick ? QUICK : ROUNDS;
	p.c->seed = seed ? strtoull(seed, NULL, 0) : msec_now();
	p.began = msec_now();
	set_environment();
	status = run_all(&p);
	printf("{\"version\":1,\"check\":\"summary\",\"ok\":%s,\"passed\":%u,"
	       "\"failed\":%u,\"skipped\":%u}\n",
	       status == FINE ? "true" : "false", p.passed, p.failed,
	       p.skipped);
	return ferror(stdout) || fflush(stdout) ? FAILED : status;
}
