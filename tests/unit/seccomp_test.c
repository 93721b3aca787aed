/* SPDX-License-Identifier: MIT */
/*
 * S-P1: a pickle is data. Every pickle of the test tables and of the fuzz
 * corpora, the dangerous ones first of all, is read in a process that may do
 * nothing but take memory, write to the log and end: any other system call
 * kills it. mremap, madvise and getrandom, which realloc, the page allocator
 * and the hash seed may ask for, are answered ENOSYS.
 *
 *	seccomp_test DIRECTORY...	of fuzz corpora
 */
#include "ckptfs/pickle.h"
#include "dcp_parse.h"
#include "model/catalog/catalog_edit.h"
#include "tap.h"

#include "dcp_cases.h"
#include "pickle_cases.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||     \
	__has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum { INPUTS = 2000 };

struct input {
	struct ck_str name;
	const void *bytes;
	size_t len;
};

static struct input inputs[INPUTS];
static size_t ninputs;

static void add_input(const char *name, const void *bytes, size_t len)
{
	if (ninputs < INPUTS)
		inputs[ninputs++] = (struct input){ ck_str_from(name), bytes,
						    len };
}

static int no_file(void *ctx, struct ck_str path, uint32_t *number)
{
	(void)ctx, (void)path;
	*number = 0;
	return 0;
}

static void read_both(const struct input *in)
{
	struct ck_catalog *c = ck_catalog_make("dcp");
	struct ck_diag d = { 0 };
	struct ck_pickle p;
	int rc = ck_pickle_read(&p, in->bytes, in->len, NULL, &d);

	if (rc == 0)
		ck_pickle_fini(&p);
	else
		ck_log("%s", d.text);
	rc = dcp_parse(c, in->bytes, in->len, no_file, NULL, &d);
	if (rc == 0)
		rc = ck_catalog_finish(c, &d);
	if (rc)
		ck_log("%s", d.text);
	ck_catalog_put(c);
}

#define LOAD(field)                                                            \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(action) BPF_STMT(BPF_RET | BPF_K, action)
#define IF_CALL(number, action)                                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##number, 0, 1), ANSWER(action)

static int close_down(void)
{
	struct sock_filter rules[] = {
		LOAD(nr),
		IF_CALL(read, SECCOMP_RET_ALLOW),
		IF_CALL(pread64, SECCOMP_RET_ALLOW),
		IF_CALL(mmap, SECCOMP_RET_ALLOW),
		IF_CALL(munmap, SECCOMP_RET_ALLOW),
		IF_CALL(brk, SECCOMP_RET_ALLOW),
		IF_CALL(futex, SECCOMP_RET_ALLOW),
		IF_CALL(exit, SECCOMP_RET_ALLOW),
		IF_CALL(exit_group, SECCOMP_RET_ALLOW),
		IF_CALL(mremap, SECCOMP_RET_ERRNO | ENOSYS),
		IF_CALL(madvise, SECCOMP_RET_ERRNO | ENOSYS),
		IF_CALL(getrandom, SECCOMP_RET_ERRNO | ENOSYS),
		/* write(2), to the log only */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 1, 0),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, STDERR_FILENO, 0, 1),
		ANSWER(SECCOMP_RET_ALLOW),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { CK_ARRAY_SIZE(rules), rules };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno
								    : 0;
}

/* Runs body in a closed process; its wait status. */
static int closed(void (*body)(void))
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, STDERR_FILENO);
		if (close_down())
			_exit(77);
		body();
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status;
}

static void read_all(void)
{
	for (size_t i = 0; i < ninputs; i++)
		read_both(&inputs[i]);
}

static void open_a_file(void)
{
	(void)!open("/dev/null", O_RDONLY);
}

static void add_file(const char *dir, const char *name)
{
	enum { MOST = 1 << 20 };

	char path[1024];
	char *bytes = malloc(MOST);
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	if (!f || !bytes)
		abort();
	add_input(strdup(path), bytes, fread(bytes, 1, MOST, f));
	fclose(f);
	/* metadata_fuzz has a byte before the pickle */
	if (strstr(dir, "metadata") && inputs[ninputs - 1].len) {
		inputs[ninputs - 1].bytes = bytes + 1;
		inputs[ninputs - 1].len--;
	}
}

static void add_directory(const char *dir)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;
	size_t before = ninputs;

	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.')
			add_file(dir, entry->d_name);
	if (d)
		closedir(d);
	ok(ninputs > before);
}

int main(int argc, char **argv)
{
	int status;

	if (SANITIZED) {
		printf("1..0 # SKIP a sanitizer makes calls of its own\n");
		return 0;
	}
	for (size_t i = 0; i < CK_ARRAY_SIZE(bad_pickles); i++)
		add_input(bad_pickles[i].name, bad_pickles[i].bytes,
			  bad_pickles[i].len);
	for (size_t i = 0; i < CK_ARRAY_SIZE(good_pickles); i++)
		add_input(good_pickles[i].name, good_pickles[i].bytes,
			  good_pickles[i].len);
	for (size_t i = 0; i < CK_ARRAY_SIZE(dcp_cases); i++)
		add_input(dcp_cases[i].name, dcp_cases[i].bytes,
			  dcp_cases[i].len);
	for (int i = 1; i < argc; i++)
		add_directory(argv[i]);
	ok(ninputs < INPUTS);
	/* the filter does its work, then the reader needs no more */
	status = closed(open_a_file);
	ok(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	eq_i64(closed(read_all), 0);
	printf("# %zu inputs\n", ninputs);
	return tap_done();
}
