/* SPDX-License-Identifier: MIT */
/* faults: the lock, the begin of each call, and the injected faults. */
#include "standin.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckptfs/base.h"

enum { FAILS = 16 };

static const struct standin_faults none = { .devices = 1,
					    .driver = CUDA_VERSION,
					    .nccl = 22809,
					    .memory = UINT64_C(1) << 30,
					    .may_run = UINT64_MAX };
struct standin_faults standin_faults;

/* Calls that fail. */
static struct fail {
	char call[48]; /* or empty */
	uint64_t left; /* calls up to and including the failing one */
	bool since;    /* all later calls fail, too */
	CUresult code;
} fails[FAILS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_once_t begun = PTHREAD_ONCE_INIT;
static pid_t owner;	  /* a forked process has no threads */
static int communicators; /* under the lock */

void standin_lock(void)
{
	pthread_mutex_lock(&lock);
}

void standin_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

void standin_wait(void)
{
	pthread_cond_wait(&changed, &lock);
}

void standin_wake(void)
{
	pthread_cond_broadcast(&changed);
}

void standin_die(const char *call, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	dprintf(STDERR_FILENO, "standin: %s: %s\n", call, text);
	abort();
}

/* --- numbers --------------------------------------------------------------------------- */

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

uint64_t standin_seed(void)
{
	return number_of("CKPTFS_STANDIN_SEED", 1);
}

uint64_t standin_delay(void)
{
	return number_of("CKPTFS_STANDIN_DELAY_US", 20);
}

uint64_t standin_number(void)
{
	static uint64_t last;

	return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

void standin_pause(uint64_t *random, uint64_t delay)
{
	uint64_t us;
	struct timespec t;

	if (!delay)
		return;
	us = standin_random(random) % (2 * delay);
	if (standin_random(random) % 16 == 0)
		us *= 20;
	t.tv_sec = (time_t)(us / 1000000);
	t.tv_nsec = (long)(us % 1000000 * 1000);
	(void)nanosleep(&t, NULL);
}

/* splitmix64 */
CK_WRAPS uint64_t standin_random(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* --- words ------------------------------------------------------------------------------ */

static int set_number(const char *value, uint64_t most, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(value, &end, 0);
	return errno || end == value || *end || *out > most ? -EINVAL : 0;
}

static int set_devices(const char *value)
{
	uint64_t n;

	if (set_number(value, STANDIN_DEVICES, &n))
		return -EINVAL;
	standin_faults.devices = (unsigned)n;
	return 0;
}

static int set_driver(const char *value)
{
	uint64_t n;

	if (set_number(value, INT32_MAX, &n))
		return -EINVAL;
	standin_faults.driver = (int)n;
	return 0;
}

static int set_nccl(const char *value)
{
	uint64_t n;

	if (set_number(value, INT32_MAX, &n))
		return -EINVAL;
	standin_faults.nccl = (int)n;
	return 0;
}

static int set_memory(const char *value)
{
	return set_number(value, UINT64_MAX, &standin_faults.memory);
}

static int set_run(const char *value)
{
	return set_number(value, UINT64_MAX, &standin_faults.may_run);
}

static int set_lost(const char *value)
{
	return standin_code(value, &standin_faults.lost);
}

static int set_spills(const char *value)
{
	uint64_t n;

	if (set_number(value, UINT16_MAX, &n))
		return -EINVAL;
	standin_faults.spills = (unsigned)n;
	return 0;
}

/* KIND, a number of enum ck_tile_kind */
static int set_idle(const char *value)
{
	uint64_t n;

	if (set_number(value, 63, &n))
		return -EINVAL;
	standin_faults.idle |= UINT64_C(1) << n;
	return 0;
}

static int set_call(const char *value, char out[static 48])
{
	if (!*value || strlen(value) >= 48)
		return -EINVAL;
	memcpy(out, value, strlen(value) + 1);
	return 0;
}

static int set_short(const char *value)
{
	return set_call(value, standin_faults.shortened);
}

static int set_hang(const char *value)
{
	return set_call(value, standin_faults.hanging);
}

static int set_comm(const char *value)
{
	return set_number(value, UINT64_MAX, &standin_faults.communicator);
}

static int set_refuse(const char *value)
{
	standin_faults.no_fatbin |= strcmp(value, "fatbin") == 0;
	standin_faults.no_ptx |= strcmp(value, "ptx") == 0;
	return strcmp(value, "fatbin") && strcmp(value, "ptx") ? -EINVAL : 0;
}

static int set_leaks(const char *value)
{
	standin_faults.leaks_abort = strcmp(value, "abort") == 0;
	return standin_faults.leaks_abort ? 0 : -EINVAL;
}

/* CALL:N:CODE */
static int set_fail(const char *value)
{
	const char *n = strchr(value, ':');
	struct fail f = { 0 }, *free_one = fails;
	char *end;

	if (!n || n == value || (size_t)(n - value) >= sizeof(f.call))
		return -EINVAL;
	memcpy(f.call, value, (size_t)(n - value));
	f.left = strtoull(n + 1, &end, 10);
	f.since = *end == '+';
	end += f.since;
	if (f.left == 0 || *end != ':' || standin_code(end + 1, &f.code))
		return -EINVAL;
	while (free_one < fails + FAILS && free_one->call[0])
		free_one++;
	if (free_one == fails + FAILS)
		return -EINVAL;
	*free_one = f;
	return 0;
}

static int reset(const char *value)
{
	(void)value;
	standin_faults = none;
	memset(fails, 0, sizeof(fails));
	return 0;
}

static int word_set(const char *word)
{
	static const struct {
		const char *name;
		int (*set)(const char *value);
	} words[] = { { "devices=", set_devices }, { "driver=", set_driver },
		      { "memory=", set_memory },   { "lost=", set_lost },
		      { "refuse=", set_refuse },   { "leaks=", set_leaks },
		      { "run=", set_run },	   { "fail=", set_fail },
		      { "idle=", set_idle },	   { "nccl=", set_nccl },
		      { "short=", set_short },	   { "spills=", set_spills },
		      { "hang=", set_hang },	   { "comm=", set_comm },
		      { "reset", reset } };

	for (size_t i = 0; i < CK_ARRAY_SIZE(words); i++) {
		size_t len = strlen(words[i].name);

		if (strncmp(word, words[i].name, len) == 0)
			return words[i].set(word + len);
	}
	return -EINVAL;
}

static int words_set(const char *text)
{
	char word[128];

	for (;;) {
		size_t len;
		int rc;

		text += strspn(text, " \n");
		if (!*text)
			return 0;
		len = strcspn(text, " \n");
		if (len >= sizeof(word))
			return -EINVAL;
		memcpy(word, text, len);
		word[len] = '\0';
		rc = word_set(word);
		if (rc)
			return rc;
		text += len;
	}
}

static void begin(void)
{
	const char *text = getenv("CKPTFS_STANDIN");

	owner = getpid();
	standin_faults = none;
	if (text && words_set(text))
		standin_die("CKPTFS_STANDIN", "wrong words: \"%s\"", text);
}

int standin_control(const char *text)
{
	int rc;

	pthread_once(&begun, begin);
	standin_lock();
	rc = words_set(text);
	standin_wake();
	standin_unlock();
	return rc;
}

struct standin_faults standin_faults_now(void)
{
	struct standin_faults now;

	standin_lock();
	now = standin_faults;
	standin_unlock();
	return now;
}

/* --- calls ------------------------------------------------------------------------------ */

/* Compares with and without the version suffix of the name. */
static bool is_call(const char *call, const char *name)
{
	size_t len = strlen(name);

	if (strcmp(name, "*") == 0)
		return strcmp(call, "operation") != 0;
	return strncmp(call, name, len) == 0 &&
	       (!call[len] || strncmp(call + len, "_v", 2) == 0);
}

bool standin_is_short(const char *call)
{
	const struct standin_faults now = standin_faults_now();

	return now.shortened[0] && is_call(call, now.shortened);
}

static CUresult failure(const char *call)
{
	CUresult code = CUDA_SUCCESS;

	for (struct fail *f = fails; f < fails + FAILS; f++) {
		if (!f->call[0] || !is_call(call, f->call))
			continue;
		if (f->left > 1) {
			f->left--;
			continue;
		}
		code = f->code;
		if (!f->since)
			f->call[0] = '\0';
	}
	return standin_faults.lost ? standin_faults.lost : code;
}

CUresult standin_enter(const char *call, struct standin_device **current)
{
	CUresult code, why = CUDA_SUCCESS;

	pthread_once(&begun, begin);
	standin_lock();
	code = failure(call);
	if (current)
		*current = standin_current(&why);
	if (!standin_is_initialized() && strcmp(call, "cuInit") != 0)
		why = CUDA_ERROR_NOT_INITIALIZED;
	while (standin_faults.hanging[0] &&
	       is_call(call, standin_faults.hanging))
		standin_wait(); /* standin_control() may end the wait */
	standin_unlock();
	while (code == STANDIN_NEVER)
		(void)pause();
	return why ? why : code;
}

bool standin_may_run(void)
{
	uint64_t *left = &standin_faults.may_run;

	if (*left == 0)
		return false;
	*left -= *left != UINT64_MAX;
	return true;
}

bool standin_enter_operation(void)
{
	CUresult code = failure("operation");

	if (code)
		standin_faults.lost = code;
	return code == CUDA_SUCCESS;
}

/* --- leaks ------------------------------------------------------------------------------- */

void standin_communicators(struct standin_device *device, int more)
{
	standin_lock();
	communicators += more;
	if (more > 0)
		device->used += standin_faults.communicator;
	else
		device->used -= standin_faults.communicator;
	standin_unlock();
}

unsigned standin_leaks(void)
{
	const char *const what[] = { "contexts",    "streams",
				     "events",	    "modules",
				     "allocations", "communicators",
				     "handles",	    "mappings",
				     "ranges",	    "descriptors" };
	unsigned n[CK_ARRAY_SIZE(what)], all = 0;

	n[1] = standin_streams_left();
	standin_lock();
	n[0] = standin_devices_leaked();
	n[2] = standin_events_left(NULL, false);
	n[3] = standin_modules_left(NULL, false);
	n[4] = standin_memory_left(NULL, false);
	n[5] = (unsigned)communicators;
	standin_vmm_left(n + 6);
	standin_unlock();
	for (size_t i = 0; i < CK_ARRAY_SIZE(what); i++) {
		all += n[i];
		if (n[i])
			dprintf(STDERR_FILENO, "standin: %u %s left\n", n[i],
				what[i]);
	}
	return all;
}

__attribute__((destructor)) static void finish(void)
{
	bool leaks_abort;

	if (owner != getpid())
		return;
	leaks_abort = standin_leaks() && standin_faults_now().leaks_abort;
	(void)standin_streams_end(NULL);
	if (leaks_abort)
		standin_die("the end", "some objects were not released");
}
