/* SPDX-License-Identifier: MIT */
/*
 * spawn_helper: the mount's side, which encodes the launch options as words,
 * and the helper's, which decodes them and forks supervisors. One thread each.
 */
#include "spawn_helper.h"
#include "cli.h"
#include "job_supervisor.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	END_MSEC = 1000, /* limit to end by itself */
	OPTIONS = 7,	 /* words before those of hosts */
	OF_HOST = 3,	 /* words per host */
};

/* --- the mount ---------------------------------------------------------------------- */

static const char *or_empty(const char *text)
{
	return text ? text : "";
}

/* Encodes the options as ck_spawn_helper_run() decodes them. numbers: the
 * option numbers, then those of hosts. */
static void put_words(const struct ck_launch_options *launch, char *numbers,
		      char **words)
{
	const struct ck_host_list *hosts = launch->hosts;
	const char *of_all[OPTIONS] = {
		or_empty(launch->agent), launch->program,
		or_empty(launch->net),	 launch->shardlinks ? "links" : "",
		or_empty(launch->nccl),	 NULL
	};

	for (size_t i = 0; i < OPTIONS; i++)
		words[i] = (char *)(uintptr_t)of_all[i];
	words[OPTIONS - 2] = numbers;
	numbers += strlen(numbers) + 1;
	words[OPTIONS - 1] = numbers;
	for (size_t i = 0; i < hosts->n; i++) {
		char **word = words + OPTIONS + OF_HOST * i;

		numbers += strlen(numbers) + 1;
		word[0] = hosts->hosts[i].name;
		word[1] = numbers;
		word[2] = hosts->hosts[i].path;
	}
}

static void put_numbers(const struct ck_launch_options *launch,
			struct ck_buf *out)
{
	const struct ck_host_list *hosts = launch->hosts;

	ck_buf_printf(out, "%" PRIu64, launch->ownermem);
	ck_buf_add(out, "", 1);
	ck_buf_printf(out, "%u", launch->timeout);
	ck_buf_add(out, "", 1);
	for (size_t i = 0; i < hosts->n; i++) {
		ck_buf_printf(out, "%" PRIu32, hosts->hosts[i].ranks);
		ck_buf_add(out, "", 1);
	}
}

int ck_spawn_helper_make(const struct ck_launch_options *launch,
			 struct ck_spawn_helper *out)
{
	static char serve[] = "serve", jobs[] = CK_SPAWN_HELPER_WORD;
	ck_auto_free char *program = ck_subprocess_program();
	struct ck_buf numbers = { 0 };
	ck_auto_free char **words = calloc(
		3 + OPTIONS + OF_HOST * launch->hosts->n + 1, sizeof(*words));
	int rc;

	put_numbers(launch, &numbers);
	if (!program || !words || numbers.err) {
		ck_buf_fini(&numbers);
		return program ? -ENOMEM : -errno;
	}
	words[0] = program;
	words[1] = serve;
	words[2] = jobs;
	put_words(launch, numbers.data, words + 3);
	rc = ck_control_msg_job(words, &out->sock, &out->job);
	ck_buf_fini(&numbers);
	return rc;
}

void ck_spawn_helper_end(struct ck_spawn_helper *s)
{
	ck_fd_cleanup(&s->sock);
	if (s->job.ended >= 0)
		ck_subprocess_end(&s->job, END_MSEC);
}

int ck_spawn_helper_begin(struct ck_spawn_helper *s, const uint8_t *how,
			  size_t n, int ask_msec, int *keeper)
{
	int ends[2] = { -1, -1 }, rc = ck_control_msg_sockets(ends);
	const struct ck_control_msg note = { .kind = CK_CONTROL_MSG_START,
					     .err = (uint32_t)ask_msec,
					     .bytes = { (const char *)how, n },
					     .files = { ends[1], -1 } };

	if (rc)
		return rc;
	rc = ck_control_msg_send(s->sock, &note, true);
	close(ends[1]);
	if (rc)
		close(ends[0]);
	else
		*keeper = ends[0];
	return rc;
}

/* --- the process -------------------------------------------------------------------- */

static char *or_none(char *word)
{
	return *word ? word : NULL;
}

static int take_hosts(char **words, size_t n, struct ck_host_list *hosts)
{
	hosts->hosts = calloc(n + 1, sizeof(*hosts->hosts));
	if (!hosts->hosts)
		return -ENOMEM;
	hosts->n = n;
	for (size_t i = 0; i < n; i++, words += OF_HOST)
		hosts->hosts[i] = (struct ck_host){
			.name = words[0],
			.ranks = (uint32_t)strtoul(words[1], NULL, 10),
			.path = words[2],
		};
	return 0;
}

/* Called in a child of the helper. */
static void keep(const struct ck_launch_options *launch,
		 const struct ck_control_msg *note, int sock)
{
	pid_t child = fork();

	if (child)
		return; /* the closed socket reports the failure */
	(void)signal(SIGCHLD, SIG_DFL);
	(void)setsid();
	close(sock);
	ck_job_supervisor_run(launch, note);
}

int ck_spawn_helper_run(char **words)
{
	enum { SOCK = CK_SUBPROCESS_FILES };

	struct ck_host_list hosts = { 0 };
	struct ck_launch_options launch = { .hosts = &hosts };
	ck_auto_free char *room = malloc(CK_CONTROL_MSG_MOST);
	struct ck_control_msg note;
	size_t n = 0;

	while (words[n])
		n++;
	if (n < OPTIONS + OF_HOST || (n - OPTIONS) % OF_HOST || !room ||
	    ck_subprocess_settle() || signal(SIGCHLD, SIG_IGN) == SIG_ERR)
		return CK_EXIT_TROUBLE;
	launch.agent = or_none(words[0]);
	launch.program = words[1];
	launch.net = or_none(words[2]);
	launch.shardlinks = *words[3];
	launch.nccl = or_none(words[4]);
	launch.ownermem = strtoull(words[5], NULL, 10);
	launch.timeout = (unsigned)strtoul(words[6], NULL, 10);
	if (take_hosts(words + OPTIONS, (n - OPTIONS) / OF_HOST, &hosts))
		return CK_EXIT_TROUBLE;
	while (ck_control_msg_take(SOCK, &note, room) == 0) {
		if (note.kind == CK_CONTROL_MSG_START &&
		    note.bytes.len == hosts.n && note.files[0] >= 0)
			keep(&launch, &note, SOCK);
		ck_control_msg_close(&note);
	}
	free(hosts.hosts);
	return CK_EXIT_FINE;
}
