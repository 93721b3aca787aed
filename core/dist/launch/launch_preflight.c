/* SPDX-License-Identifier: MIT */
/*
 * launch_preflight: queries hosts before a job, and after a failed one. A shell
 * on each host prints two versions and reasons why the host cannot take part;
 * after a failed job it starts the launch daemon. All hosts are queried in
 * parallel with one deadline, so that ten hosts that are down cost no more than
 * one.
 *
 * A host is started, then ended in time or killed at the deadline; its output
 * is parsed afterwards. All of it runs in the calling thread.
 */
#include "ckptfs/launch.h"
#include "launch_internal.h"
#include "subprocess.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

enum {
	ASK_MSEC = 10000,
	OUTPUT_MOST = 64 << 10, /* bytes of a host's output; more is dropped */
};

/* A host that is queried. */
struct probe {
	struct ck_subprocess job;
	struct ck_buf output;
	int err;      /* its command could not be started */
	bool started; /* its command runs, or has run */
	bool ended;   /* its command has exited in time */
	/* Versions, borrowed from `output`; empty: not found. */
	struct ck_str mpirun, program;
	struct ck_str lacks; /* the same: why it cannot take part */
	struct ck_str is;    /* the same: its identity */
};

struct asking {
	const struct ck_launch_options *options;
	const bool *wanted;    /* by host; NULL: all are queried */
	struct ck_buf command; /* for a shell on the host */
	struct probe *hosts;   /* options->hosts->n */
	/* Two for each host: its pidfd and its output; then `stop`. */
	struct pollfd *fds;
	int msec;
};

/* --- starting ------------------------------------------------------------- */

/* Quotes a text as one word for a shell. */
static void add_quoted(struct ck_buf *out, const char *text)
{
	ck_buf_text(out, "'");
	for (; *text; text++) {
		if (*text == '\'')
			ck_buf_text(out, "'\\''");
		else
			ck_buf_add(out, text, 1);
	}
	ck_buf_text(out, "'");
}

/* Starts the launch daemon as mpirun does; with -h it prints its usage and
 * exits. */
static int make_try(const struct ck_launch_options *options, struct ck_buf *out)
{
	add_quoted(out, options->program);
	ck_buf_text(out, " serve " CK_LAUNCH_SHELTER " orted -h 1>&2");
	return out->err;
}

/* The query. Only standard error of a subprocess is read. */
static int make_command(const struct ck_launch_options *options,
			struct ck_buf *out)
{
	ck_buf_text(out, "exec 1>&2; mpirun --version && ");
	add_quoted(out, options->program);
	ck_buf_text(out, " --version && ");
	add_quoted(out, options->program);
	ck_buf_text(out, " serve " CK_LAUNCH_SELF " ");
	add_quoted(out, options->net ? options->net : "");
	return out->err;
}

static char **words_for(const struct asking *a, size_t i)
{
	const char *agent = a->options->agent;
	struct ck_words w = { 0 };

	if (i == 0) {
		ck_words_text(&w, "sh");
		ck_words_text(&w, "-c");
	} else {
		ck_words_split(&w, agent ? agent : "ssh");
		ck_words_text(&w, a->options->hosts->hosts[i].name);
	}
	ck_words_text(&w, a->command.data);
	return ck_words_take(&w);
}

static void start(struct asking *a, size_t i)
{
	struct probe *host = &a->hosts[i];
	char **words;

	a->fds[2 * i] = a->fds[2 * i + 1] = (struct pollfd){ .fd = -1 };
	if (a->wanted && !a->wanted[i])
		return;
	words = words_for(a, i);
	host->err = words ? ck_subprocess_start(words, NULL, &host->job)
			  : -ENOMEM;
	host->started = host->err == 0;
	ck_launch_words_free(words);
	a->fds[2 * i] = (struct pollfd){ .fd = host->started ? host->job.ended
							     : -1,
					 .events = POLLIN };
	a->fds[2 * i + 1] = (struct pollfd){
		.fd = host->started ? host->job.errors : -1, .events = POLLIN
	};
}

/* --- waiting -------------------------------------------------------------- */

static void read_output(struct probe *host)
{
	ck_subprocess_read(&host->job, &host->output);
	if (host->output.len > OUTPUT_MOST)
		host->output.len = OUTPUT_MOST;
}

/* Reads output and detects exit. Returns true if the host's command still
 * runs. */
static bool look_after(struct asking *a, size_t i)
{
	struct pollfd *ended = &a->fds[2 * i], *output = ended + 1;
	struct probe *host = &a->hosts[i];

	if (ended->fd < 0)
		return false;
	if (output->fd >= 0 && output->revents) {
		read_output(host);
		if (!(output->revents & POLLIN))
			output->fd = -1; /* the command has closed it */
	}
	if (!ended->revents)
		return true;
	read_output(host);
	host->ended = true;
	ended->fd = output->fd = -1;
	return false;
}

static void wait_for_all(struct asking *a)
{
	uint64_t end = ck_msec_now() + (uint64_t)a->msec, now;
	size_t n = a->options->hosts->n, waiting = n;
	struct pollfd *stop = &a->fds[2 * n];

	*stop = (struct pollfd){ .fd = a->options->stop ? a->options->stop : -1,
				 .events = POLLIN };
	while (waiting && !stop->revents && (now = ck_msec_now()) < end) {
		if (poll(a->fds, 2 * n + 1, (int)(end - now)) < 0)
			continue;
		waiting = 0;
		for (size_t i = 0; i < n; i++)
			waiting += look_after(a, i);
	}
}

/* Ends all commands. Those that hang get SIGTERM first, all together, since
 * each may take its time. A command leads a process group, which has the
 * agent's own programs. */
static void end_all(struct asking *a)
{
	size_t n = a->options->hosts->n;

	for (size_t i = 0; i < n; i++)
		if (a->hosts[i].started && !a->hosts[i].ended)
			(void)kill(-a->hosts[i].job.process, SIGTERM);
	for (size_t i = 0; i < n; i++)
		if (a->hosts[i].started)
			ck_subprocess_end(&a->hosts[i].job, 0);
}

/* --- versions ------------------------------------------------------------- */

static struct ck_str next_line(struct ck_str *rest)
{
	const char *end = memchr(rest->p, '\n', rest->len);
	struct ck_str line = *rest;

	if (end)
		line.len = (size_t)(end - rest->p);
	rest->p += line.len + (end != NULL);
	rest->len -= line.len + (end != NULL);
	while (line.len && line.p[line.len - 1] == '\r')
		line.len--;
	return line;
}

static struct ck_str output_of(const struct probe *host)
{
	return (struct ck_str){ host->output.len ? host->output.data : "",
				host->output.len };
}

static void take_behind(struct ck_str line, struct ck_str with,
			struct ck_str *out)
{
	if (ck_str_starts(line, with))
		*out = (struct ck_str){ line.p + with.len,
					line.len - with.len };
}

/* Parses the output. Only the first line of each program has its version; an
 * agent may print lines before. */
static void find_versions(struct probe *host)
{
	struct ck_str rest = output_of(host), line;

	while (rest.len) {
		line = next_line(&rest);
		if (!host->mpirun.len &&
		    ck_str_starts(line, CK_STR("mpirun (")))
			host->mpirun = line;
		if (host->mpirun.len && !host->program.len &&
		    ck_str_starts(line, CK_STR("ckptfs ")))
			host->program = line;
		take_behind(line, CK_STR(CK_LAUNCH_LACKS), &host->lacks);
		take_behind(line, CK_STR(CK_LAUNCH_IS), &host->is);
	}
}

static bool has_versions(const struct probe *host)
{
	return host->ended && host->mpirun.len && host->program.len;
}

static bool has_answered(const struct probe *host)
{
	return has_versions(host) && WIFEXITED(host->job.status) &&
	       WEXITSTATUS(host->job.status) == 0;
}

/* True if the host has another version of mpirun or ckptfs. Such a version may
 * not know the other queries, so its exit status does not count. */
static bool differs(const struct probe *host, const struct probe *other)
{
	return has_versions(host) &&
	       !(ck_str_eq(host->mpirun, other->mpirun) &&
		 ck_str_eq(host->program, other->program));
}

/* --- reasons -------------------------------------------------------------- */

/* Returns the last line of the output that is not empty. */
static const char *last_words(const struct probe *host)
{
	struct ck_str rest = output_of(host), line, last = { "", 0 };

	while (rest.len) {
		line = next_line(&rest);
		if (line.len)
			last = line;
	}
	return last.len ? ck_show(last) : "no output";
}

static void add_why(struct ck_buf *out, const struct probe *host, int msec)
{
	int status = host->job.status;

	if (host->lacks.len)
		ck_buf_text(out, ck_show(host->lacks));
	else if (host->err)
		ck_buf_printf(out, "it cannot be asked: %s",
			      strerror(-host->err));
	else if (!host->ended)
		ck_buf_printf(out, "did not answer in %g s", msec / 1000.0);
	else if (WIFSIGNALED(status))
		ck_buf_printf(out, "ended by signal %d: %s", WTERMSIG(status),
			      last_words(host));
	else if (WEXITSTATUS(status))
		ck_buf_printf(out, "exit status %d: %s", WEXITSTATUS(status),
			      last_words(host));
	else
		ck_buf_printf(out, "it did not name its versions: %s",
			      last_words(host));
}

static void add_versions(struct ck_buf *out, const struct probe *host)
{
	ck_buf_printf(out, "%s and %s", ck_show(host->mpirun),
		      ck_show(host->program));
}

/* Returns true if the host can take part; else appends a line about it. */
static bool can_take_part(const struct asking *a, size_t i,
			  struct ck_buf *lines)
{
	const struct probe *host = &a->hosts[i], *here = &a->hosts[0];
	bool other = differs(host, here);

	if (has_answered(host) && !other && !host->lacks.len)
		return true;
	ck_buf_printf(lines,
		      "host %s: missing: ", a->options->hosts->hosts[i].name);
	if (other) {
		ck_buf_text(lines, "it has ");
		add_versions(lines, host);
		ck_buf_text(lines, ", this host has ");
		add_versions(lines, here);
	} else {
		add_why(lines, host, a->msec);
	}
	ck_buf_text(lines, "\n");
	return false;
}

static int fail_here(const struct asking *a, struct ck_diag *d)
{
	const struct probe *here = &a->hosts[0];
	struct ck_buf why = { 0 };
	int rc;

	add_why(&why, here, a->msec);
	rc = why.err ? ck_fail(d, ENOMEM, "out of memory")
		     : ck_fail(d, EPROTO, "this host %s: %s",
			       here->lacks.len
				       ? "cannot take part"
				       : "does not tell its versions of mpirun "
					 "and ckptfs",
			       why.data);
	ck_buf_fini(&why);
	return rc;
}

/* Checks that no host occurs under two names: its files would be served twice,
 * and mpirun rejects it. */
static int check_names(const struct asking *a, const bool *there,
		       struct ck_diag *d)
{
	const struct ck_host *hosts = a->options->hosts->hosts;

	for (size_t i = 0; i < a->options->hosts->n; i++)
		for (size_t j = 0; j < i; j++)
			if (there[i] && there[j] && a->hosts[i].is.len &&
			    ck_str_eq(a->hosts[i].is, a->hosts[j].is))
				return ck_fail(
					d, EINVAL,
					"option hosts: %s and %s are one host",
					ck_show(ck_str_from(hosts[j].name)),
					ck_show(ck_str_from(hosts[i].name)));
	return 0;
}

/* --- queries -------------------------------------------------------------- */

static int judge(const struct asking *a, bool *there, struct ck_buf *lines,
		 struct ck_diag *d)
{
	if (a->fds[2 * a->options->hosts->n].revents)
		return ck_fail(d, ECANCELED,
			       "the start of the job was cancelled");
	if (!has_answered(&a->hosts[0]) || a->hosts[0].lacks.len)
		return fail_here(a, d);
	for (size_t i = 0; i < a->options->hosts->n; i++)
		there[i] = can_take_part(a, i, lines);
	return lines->err ? ck_fail(d, ENOMEM, "out of memory")
			  : check_names(a, there, d);
}

static void fini(struct asking *a)
{
	for (size_t i = 0; a->hosts && i < a->options->hosts->n; i++)
		ck_buf_fini(&a->hosts[i].output);
	ck_buf_fini(&a->command);
	free(a->hosts);
	free(a->fds);
}

static void query(struct asking *a)
{
	size_t n = a->options->hosts->n;

	for (size_t i = 0; i < n; i++)
		start(a, i);
	wait_for_all(a);
	end_all(a);
	for (size_t i = 0; i < n; i++)
		find_versions(&a->hosts[i]);
}

int ck_launch_preflight(const struct ck_launch_options *options, bool *there,
			struct ck_buf *lines, struct ck_diag *d)
{
	size_t n = options->hosts->n;
	struct asking a = {
		.options = options,
		.hosts = calloc(n, sizeof(*a.hosts)),
		.fds = calloc(2 * n + 1, sizeof(*a.fds)),
		.msec = options->ask_msec ? options->ask_msec : ASK_MSEC,
	};
	int rc;

	if (!a.hosts || !a.fds || make_command(options, &a.command)) {
		rc = ck_fail(d, ENOMEM, "out of memory");
	} else {
		query(&a);
		rc = judge(&a, there, lines, d);
	}
	fini(&a);
	return rc;
}

/* Source: the usage of orted of Open MPI 4.1. */
static bool has_started(const struct probe *host)
{
	static const char used[] = "Usage: orted";
	struct ck_str output = output_of(host);

	return host->ended &&
	       memmem(output.p, output.len, used, sizeof(used) - 1) != NULL;
}

/* Returns true if the daemon could be started; else appends a line about the
 * host. */
static bool can_start(const struct asking *a, size_t i, struct ck_buf *lines)
{
	const struct probe *host = &a->hosts[i];

	if (has_started(host))
		return true;
	ck_buf_printf(lines, "host %s: missing: nothing can be started there: ",
		      a->options->hosts->hosts[i].name);
	add_why(lines, host, a->msec);
	ck_buf_text(lines, "\n");
	return false;
}

int ck_launch_try(const struct ck_launch_options *options, bool *there,
		  struct ck_buf *lines)
{
	size_t n = options->hosts->n;
	struct asking a = {
		.options = options,
		.wanted = there,
		.hosts = calloc(n, sizeof(*a.hosts)),
		.fds = calloc(2 * n + 1, sizeof(*a.fds)),
		.msec = options->ask_msec ? options->ask_msec : ASK_MSEC,
	};
	int rc = 0;

	if (!a.hosts || !a.fds || make_try(options, &a.command)) {
		rc = -ENOMEM;
	} else {
		query(&a);
		if (a.fds[2 * n].revents)
			rc = -ECANCELED;
		for (size_t i = 1; i < n && rc == 0 && has_started(&a.hosts[0]);
		     i++)
			there[i] = there[i] && can_start(&a, i, lines);
	}
	fini(&a);
	return rc;
}
