/* SPDX-License-Identifier: MIT */
/*
 * owner_calls: messages from other hosts are data, and cause no system call beyond a short
 * list. The file server answers every input of its fuzz corpus, and the remote client parses
 * every input of its own, in a process under a seccomp filter. The filter permits the file
 * server to open, stat and read files, and the client to allocate memory.
 *
 *	owner_calls_test OWNER-CORPUS ANSWER-CORPUS
 */
#include "../fuzz/small_dir.h"
#include "tap.h"
#include "wire_case.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

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

enum { INPUTS = 500, INPUT_MOST = 64 << 10, CALLS = 40 };

static struct ck_str inputs[INPUTS];
static size_t ninputs;

/* --- a process under a seccomp filter ---------------------------------------------------- */

static const unsigned memory_calls[] = { SYS_mmap,	SYS_munmap, SYS_mremap,
					 SYS_brk,	SYS_futex,  SYS_madvise,
					 SYS_exit_group };
static const unsigned file_calls[] = {
	SYS_openat2,	SYS_close,    SYS_fcntl,     SYS_fstat,
	SYS_newfstatat, SYS_getxattr, SYS_fgetxattr, SYS_getdents64,
	SYS_lseek,	SYS_pread64,  SYS_lgetxattr,
};

static size_t allow(struct sock_filter *rules, size_t n, const unsigned *calls,
		    size_t ncalls)
{
	for (size_t i = 0; i < ncalls; i++) {
		rules[n++] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
		rules[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							  SECCOMP_RET_ALLOW);
	}
	return n;
}

/* Permits openat(2) relative to the directory only; all other calls kill the process. */
static const struct sock_filter last[] = {
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		 offsetof(struct seccomp_data, args[2])),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_RDONLY | O_CLOEXEC | O_DIRECTORY,
		 0, 1),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static int close_down(bool files)
{
	struct sock_filter rules[2 * CALLS] = { BPF_STMT(
		BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)) };
	struct sock_fprog program = { .filter = rules };
	size_t n = allow(rules, 1, memory_calls, CK_ARRAY_SIZE(memory_calls));

	if (files)
		n = allow(rules, n, file_calls, CK_ARRAY_SIZE(file_calls));
	for (size_t i = files ? 0 : CK_ARRAY_SIZE(last) - 1;
	     i < CK_ARRAY_SIZE(last); i++)
		rules[n++] = last[i];
	program.len = (unsigned short)n;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) ? -errno
								    : 0;
}

/* Runs body in a process under the filter and returns its wait status. */
static int closed(void (*body)(void), bool files)
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		if (close_down(files))
			_exit(77);
		body();
		_exit(0);
	}
	waitpid(child, &status, 0);
	return status;
}

/* --- messages ----------------------------------------------------------------------------- */

static void answer_all(struct ck_str input)
{
	struct ck_cur c = ck_cur_make(input.p, input.len);
	struct ck_message m = { .payload = { NULL, 0 } };
	struct ck_answer a;
	struct ck_str head;

	while (ck_cur_bytes(&c, CK_WIRE_HEAD, &head) &&
	       ck_wire_head_get((const uint8_t *)head.p, &m.head) == 0 &&
	       ck_cur_bytes(&c, m.head.body, &m.body)) {
		if (ck_file_server_answer(dir.owner, &m, &a) == 0)
			ck_answer_fini(&a);
	}
}

static void answer_inputs(void)
{
	for (size_t i = 0; i < ninputs; i++)
		answer_all(inputs[i]);
}

/* Parses an input as an answer. Its first byte is skipped: it selects the request in the
 * fuzz target. */
static void take(struct ck_str input)
{
	static const struct ck_str asked[] = { { "a", 1 }, { "b", 1 } };
	struct ck_name_stat looked[2];
	struct ck_page page;
	struct ck_message m;
	struct ck_query a;
	uint64_t read;
	size_t n;
	int rc = -EPROTO;

	if (input.len == 0 || wire_split(input.p + 1, input.len - 1, &m) ||
	    ck_query_stat(&a, (struct ck_ids){ 0, 0 }, asked, 2, &n))
		return;
	a.head.type = m.head.type;
	a.head.id = m.head.id;
	a.head.epoch = m.head.epoch;
	switch (m.head.type) {
	case CK_WIRE_LIST: rc = ck_reply_list(&a, &m, &page); break;
	case CK_WIRE_STAT: rc = ck_reply_stat(&a, &m, looked); break;
	case CK_WIRE_READ: rc = ck_reply_read(&a, &m, &read); break;
	default: rc = take_ping(&a, &m); break;
	}
	must(rc <= 0);
	ck_query_fini(&a);
}

static void take_inputs(void)
{
	for (size_t i = 0; i < ninputs; i++)
		take(inputs[i]);
}

/* --- canaries ----------------------------------------------------------------------------- */

static void start_a_program(void)
{
	(void)execl("/bin/true", "true", NULL);
}

static void open_a_socket(void)
{
	(void)syscall(SYS_socket, 1, 1, 0);
}

static void open_a_file(void)
{
	must(ck_open_beneath(dir.fd, CK_STR("f0"), O_RDONLY,
			     CK_BENEATH_NO_SYMLINKS) >= 0);
}

static bool is_killed(void (*body)(void), bool files)
{
	int status = closed(body, files);

	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

/* --- inputs ------------------------------------------------------------------------------- */

static void add_file(const char *directory, const char *name)
{
	char path[1024], *bytes = malloc(INPUT_MOST);
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	f = fopen(path, "rb");
	if (!f || !bytes || ninputs == INPUTS)
		abort();
	inputs[ninputs++] = (struct ck_str){ bytes,
					     fread(bytes, 1, INPUT_MOST, f) };
	fclose(f);
}

static void read_inputs(const char *directory)
{
	DIR *d = opendir(directory);
	const struct dirent *entry;

	ninputs = 0;
	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.')
			add_file(directory, entry->d_name);
	if (d)
		closedir(d);
	ok(ninputs > 10);
}

static unsigned names_count(void)
{
	DIR *d = opendir(dir.path);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

int main(int argc, char **argv)
{
	unsigned before;

	if (argc != 3)
		return 2;
	if (SANITIZED) {
		printf("1..0 # SKIP a sanitizer makes calls of its own\n");
		return 0;
	}
	owner_renew();
	before = names_count();
	/* The filter must be effective before it is used for the inputs. */
	ok(is_killed(start_a_program, true));
	ok(is_killed(open_a_socket, true));
	ok(is_killed(open_a_file, false));
	eq_i64(closed(open_a_file, true), 0);
	read_inputs(argv[1]);
	eq_i64(closed(answer_inputs, true), 0);
	eq_u64(names_count(), before);
	read_inputs(argv[2]);
	eq_i64(closed(take_inputs, false), 0);
	return tap_done();
}
