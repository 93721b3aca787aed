/* SPDX-License-Identifier: MIT */
/*
 * launch: the command line and the environment of mpirun. A struct ck_words
 * collects the words; its first error stays and fails the result. Pure
 * functions of the options, except for searches in PATH. The preflight is in
 * launch_preflight.c.
 */
#include "ckptfs/launch.h"

#include "launch_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- words ---------------------------------------------------------------- */

void ck_words_add(struct ck_words *w, struct ck_str word)
{
	char **grown;

	if (w->err)
		return;
	grown = ck_grow(w->words, &w->cap, w->n, 2, sizeof(*grown));
	if (grown) {
		w->words = grown;
		w->words[w->n] = strndup(word.p, word.len);
		w->words[w->n + 1] = NULL;
	}
	if (grown && w->words[w->n])
		w->n++;
	else
		w->err = -ENOMEM;
}

void ck_words_text(struct ck_words *w, const char *text)
{
	ck_words_add(w, ck_str_from(text));
}

/* Splits a text at spaces, as mpirun does for an agent. */
void ck_words_split(struct ck_words *w, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, " ");

		if (len)
			ck_words_add(w, (struct ck_str){ text, len });
		text += len + (text[len] == ' ');
	}
}

char **ck_words_take(struct ck_words *w)
{
	char **words = w->words;

	if (w->err) {
		ck_launch_words_free(words);
		words = NULL;
	}
	*w = (struct ck_words){ 0 };
	return words;
}

void ck_launch_words_free(char **words)
{
	for (char **word = words; word && *word; word++)
		free(*word);
	free(words);
}

/* --- programs ------------------------------------------------------------- */

static bool is_program(struct ck_str directory, const char *name)
{
	ck_auto_free char *path = NULL;
	struct stat st;

	/* An empty directory is the working directory. */
	if (asprintf(&path, "%.*s%s%s", (int)directory.len, directory.p,
		     directory.len ? "/" : "", name) < 0) {
		path = NULL;
		return false;
	}
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	       faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

static bool is_in_path(const char *name)
{
	const char *path = getenv("PATH");

	while (path) {
		size_t len = strcspn(path, ":");

		if (is_program((struct ck_str){ path, len }, name))
			return true;
		path = path[len] ? path + len + 1 : NULL;
	}
	return false;
}

/* Returns true if the first word of the agent is a program. mpirun does nothing
 * without one. */
static bool is_agent(const char *agent)
{
	ck_auto_free char *name = strndup(agent, strcspn(agent, " "));

	if (!name || !*name)
		return true; /* a later step reports it */
	return strchr(name, '/') ? access(name, X_OK) == 0 : is_in_path(name);
}

int ck_launch_find(const char *agent, struct ck_diag *d)
{
	if (!is_in_path("mpirun"))
		return ck_fail(
			d, ENOENT,
			"mpirun: not found; the package openmpi-bin has it");
	if (agent && !is_agent(agent))
		return ck_fail(d, ENOENT, "option agent: %s: not found",
			       ck_show(ck_str_from(agent)));
	if (!agent && !is_in_path("ssh"))
		return ck_fail(d, ENOENT,
			       "ssh: not found; the package openssh-client "
			       "has it, or option agent names another program");
	return 0;
}

/* --- options of mpirun ---------------------------------------------------- */

/* Options for all hosts. mpirun treats a command with one host and with many
 * alike; a failed host must not end the others. Without binding, since every
 * process would be bound to the same core. */
static void add_general(struct ck_words *w, const char *agent)
{
	static const char *const before[] = {
		"mpirun",    "--allow-run-as-root",
		"--bind-to", "none",
		"--mca",     "plm",
		"rsh",
	};
	static const char *const after[] = {
		"--mca",
		"orte_enable_recovery",
		"1",
		"--mca",
		"orte_abort_on_non_zero_status",
		"0",
		/* Otherwise the agent gets the name up to its first dot
		 * only. */
		"--mca",
		"orte_keep_fqdn_hostnames",
		"1",
		/* Otherwise, above 64 hosts, some hosts start others, which the
		 * agent may not reach from there. */
		"--mca",
		"plm_rsh_no_tree_spawn",
		"1",
		/* The launch daemon of a disconnected host ends after 23 s,
		 * with its processes. That must be before they end by
		 * themselves: a connection with unacknowledged bytes is not
		 * probed, and the daemon would stay for hours. */
		"--mca",
		"oob_tcp_keepalive_time",
		"8",
		"--mca",
		"oob_tcp_keepalive_intvl",
		"3",
		"--mca",
		"oob_tcp_keepalive_probes",
		"5",
		/* A daemon may start before the network of its host is up. It
		 * tries again after a second, but no longer than the job is
		 * waited for. Otherwise the job hangs until it times out. */
		"--mca",
		"oob_tcp_retry_delay",
		"1",
		"--mca",
		"oob_tcp_max_recon_attempts",
		"2",
	};

	for (size_t i = 0; i < CK_ARRAY_SIZE(before); i++)
		ck_words_text(w, before[i]);
	ck_words_text(w, "--mca");
	ck_words_text(w, "plm_rsh_agent");
	ck_words_text(w, agent ? agent : "ssh");
	for (size_t i = 0; i < CK_ARRAY_SIZE(after); i++)
		ck_words_text(w, after[i]);
}

/* Returns true if mpirun and a shell keep the path as one word. */
static bool is_plain(const char *program)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789/._-+,:@";

	return !program[strspn(program, plain)];
}

/* Starts the launch daemon of other hosts by ckptfs, see CK_LAUNCH_SHELTER. */
static void add_daemon(struct ck_words *w, const char *program)
{
	if (!is_plain(program))
		return;
	ck_words_text(w, "--mca");
	ck_words_text(w, "orte_launch_agent");
	ck_words_text(
		w, ck_shown("%s serve " CK_LAUNCH_SHELTER " orted", program));
}

static void add_net(struct ck_words *w, const char *net)
{
	static const char *const names[] = { "btl_tcp_if_include",
					     "oob_tcp_if_include" };
	ck_auto_free char *list = strdup(net);

	if (!list) {
		w->err = -ENOMEM;
		return;
	}
	for (char *p = list; *p; p++)
		if (*p == '+')
			*p = ',';
	for (size_t i = 0; i < CK_ARRAY_SIZE(names); i++) {
		ck_words_text(w, "--mca");
		ck_words_text(w, names[i]);
		ck_words_text(w, list);
	}
}

/* Adds the options for reading files, as -o takes them. */
static void add_reading(struct ck_words *w,
			const struct ck_launch_options *options)
{
	struct ck_buf text = { 0 };

	if (options->shardlinks)
		ck_buf_text(&text, "shardlinks=beneath");
	if (options->ownermem)
		ck_buf_printf(&text, "%sownermem=%" PRIu64, text.len ? "," : "",
			      options->ownermem);
	if (options->nccl && options->net)
		ck_buf_printf(&text, "%snet=%s", text.len ? "," : "",
			      options->net);
	if (options->nccl && options->timeout)
		ck_buf_printf(&text, "%stimeout=%u", text.len ? "," : "",
			      options->timeout);
	if (text.len) {
		ck_words_text(w, "-o");
		ck_words_text(w, text.data);
	}
	if (text.err)
		w->err = text.err;
	ck_buf_fini(&text);
}

static bool starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* User settings for NCCL hold on all hosts, except the ones that identify a
 * host. */
static bool is_for_nccl(const char *variable)
{
	return (starts(variable, "NCCL_") &&
		!starts(variable, "NCCL_HOSTID=")) ||
	       starts(variable, "CKPTFS_NCCL_LIB=");
}

static void add_variables(struct ck_words *w)
{
	for (char *const *variable = environ; *variable; variable++) {
		if (!is_for_nccl(*variable))
			continue;
		ck_words_text(w, "-x");
		ck_words_add(w, (struct ck_str){ *variable,
						 strcspn(*variable, "=") });
	}
}

/* Adds a host and its program. This host has a name that needs neither a
 * resolver nor the agent. The working directory is the root, so that no other
 * file system is kept busy. */
static void add_host(struct ck_words *w,
		     const struct ck_launch_options *options, size_t i)
{
	const struct ck_host *host = &options->hosts->hosts[i];
	const char *ranks = ck_shown("%" PRIu32, host->ranks);
	ck_auto_free char *place = NULL;

	if (asprintf(&place, "%s:%s", i ? host->name : "localhost", ranks) <
	    0) {
		place = NULL;
		w->err = -ENOMEM;
		return;
	}
	ck_words_text(w, "-H");
	ck_words_text(w, place);
	ck_words_text(w, "-n");
	ck_words_text(w, ranks);
	ck_words_text(w, "--wdir");
	ck_words_text(w, "/");
	if (options->nccl)
		add_variables(w);
	ck_words_text(w, options->program);
	ck_words_text(w, "serve");
	ck_words_text(w, "--mpi");
	if (options->nccl) {
		ck_words_text(w, "--nccl");
		ck_words_text(w, options->nccl);
	}
	if (i == 0) {
		ck_words_text(w, "--door");
		ck_words_text(w, options->door);
	}
	add_reading(w, options);
	ck_words_text(w, host->path);
}

char **ck_launch_argv(const struct ck_launch_options *options,
		      const bool *there)
{
	struct ck_words w = { 0 };

	add_general(&w, options->agent);
	add_daemon(&w, options->program);
	if (options->net)
		add_net(&w, options->net);
	for (size_t i = 0; i < options->hosts->n; i++) {
		if (!there[i])
			continue;
		if (i)
			ck_words_text(&w, ":");
		add_host(&w, options, i);
	}
	return ck_words_take(&w);
}

/* --- its environment ------------------------------------------------------ */

/* OMPI_MCA_ variables may be the user's; in a rank they belong to its job. */
static bool is_kept(const char *variable, bool is_rank)
{
	static const char *const of_jobs[] = { "SLURM_", "PBS_", "LSB_",
					       "PMIX_", "OMPI_" };

	if (starts(variable, "OMPI_MCA_"))
		return !is_rank;
	for (size_t i = 0; i < CK_ARRAY_SIZE(of_jobs); i++)
		if (starts(variable, of_jobs[i]))
			return false;
	return true;
}

char **ck_launch_environment(char *const from[])
{
	struct ck_words w = { 0 };
	bool is_rank = false;

	for (size_t i = 0; from[i]; i++)
		is_rank |= starts(from[i], "OMPI_COMM_WORLD_RANK=");
	for (size_t i = 0; from[i]; i++)
		if (is_kept(from[i], is_rank))
			ck_words_text(&w, from[i]);
	if (w.n == 0 && !w.err) { /* an empty environment has its NULL, too */
		w.words = calloc(1, sizeof(*w.words));
		w.err = w.words ? 0 : -ENOMEM;
	}
	return ck_words_take(&w);
}
