/* SPDX-License-Identifier: MIT */
/*
 * hosts: the program, but for what starts hosts: every checkpoint that is opened for
 * reading lies on those that CKPTFS_HOSTS names, SRC being the directory of the first.
 * Each is a process of this program, started without a launcher. Its transport is
 * xport_local instead of MPI: no plugin is loaded.
 *
 *	CKPTFS_HOSTS	HOST=DIRECTORY:HOST=DIRECTORY..., in the order of ranks. Those of
 *			a host follow each other. HOST= is missing: no process.
 *	CKPTFS_HOSTS_PREFER	The number of the host whose copies count.
 *	CKPTFS_HOSTS_LATE	What a shell does when all files are known.
 *	CKPTFS_HOSTS_FIRST	Copies are not compared.
 *	CKPTFS_HOSTS_RANK	RANK/SIZE:DIRECTORY: set here for such a process.
 *	CKPTFS_HOSTS_END	RANK:SIGNAL:MICROSECONDS: sends a signal to a rank after the
 *			start of the opening; "late": when all files are known.
 *
 * The program reports processes that end with an error on stderr.
 */
#include "ckptfs/hosts.h"
#include "cluster.h"
#include "dist/launch/rendezvous.h"
#include "dist/launch/subprocess.h"
#include "dist/rpc/link.h"
#include "dist/transport/mpi_load.h"
#include "xport_local.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MOST = 16, MEMORY = 96 << 20, JOIN_MSEC = 60000 };

static struct ck_cluster {
	struct ck_host_rank list[RANKS_MOST];
	char *dirs[RANKS_MOST];
	uint32_t numbers[RANKS_MOST];	       /* in the job */
	struct ck_subprocess jobs[RANKS_MOST]; /* by rank */
	char *names; /* what list and dirs point into */
	uint32_t n, ranks;
	char mesh[32];
	pthread_t sender;
	bool sends;
	struct ck_link *link;
	struct ck_hosts *hosts;
	/* As of the ck_remote_source. */
	int (*opened)(struct ck_remote_source *e, struct ck_files *files,
		      bool *partly);
} job;

static void die(const char *what, int rc)
{
	fprintf(stderr, "hosts: %s: %s\n", what, strerror(-rc));
	abort();
}

/* --- what there is ------------------------------------------------------------------- */

static void names_read(void)
{
	const char *hosts = getenv("CKPTFS_HOSTS");
	char *save = NULL;

	job.names = strdup(hosts ? hosts : "");
	if (!job.names || !hosts)
		die("CKPTFS_HOSTS", -EINVAL);
	for (char *one = strtok_r(job.names, ":", &save); one;
	     one = strtok_r(NULL, ":", &save)) {
		char *dir = strchr(one, '=');

		if (!dir || job.n == RANKS_MOST)
			die(one, -EINVAL);
		*dir++ = '\0';
		job.dirs[job.n] = dir;
		job.list[job.n].name = one;
		job.list[job.n].path = dir;
		job.list[job.n].missing = *dir == '\0';
		job.list[job.n].rank = job.n;
		job.numbers[job.n] = *dir ? job.ranks++ : CK_LINK_NO_RANK;
		job.n++;
	}
}

/* --- processes ------------------------------------------------------------------------ */

static const char variable[] = "CKPTFS_HOSTS_RANK";

/* In place of that of core/dist/transport/mpi_load.c. */
int ck_transport_mpi(struct ck_transport **out, struct ck_diag *d)
{
	const char *where = getenv(variable);
	uint32_t rank, size;
	int len = 0, rc;

	if (!where || sscanf(where, "%u/%u:%n", &rank, &size, &len) != 2 ||
	    !len)
		return ck_fail(d, EINVAL, "%s is not set", variable);
	rc = ck_transport_local(where + len, rank, size, JOIN_MSEC, out);
	return rc ? ck_fail(d, -rc, "%s: %s", where, strerror(-rc)) : 0;
}

static void rank_start(const struct ck_rendezvous *at, uint32_t i,
		       enum ck_beneath how)
{
	static char program[] = "/proc/self/exe", serve[] = "serve",
		    mpi[] = "--mpi", door[] = "--door", option[] = "-o",
		    beneath[] = "shardlinks=beneath";
	char where[sizeof(job.mesh) + 32], name[CK_RENDEZVOUS_NAME];
	char *argv[] = { program,
			 serve,
			 mpi,
			 door,
			 name,
			 job.dirs[i],
			 how == CK_BENEATH_SYMLINKS ? option : NULL,
			 beneath,
			 NULL };
	uint32_t rank = job.numbers[i];
	int rc;

	snprintf(where, sizeof(where), "%u/%u:%s", rank, job.ranks, job.mesh);
	snprintf(name, sizeof(name), "%s", at->name);
	rc = setenv(variable, where, true)
		     ? -errno
		     : ck_subprocess_start(argv, NULL, &job.jobs[rank]);
	if (rc)
		die(program, rc);
}

static void ranks_start(const struct ck_hosts_options *options,
			enum ck_beneath how)
{
	struct ck_link_options o = { .calls = { .npeers = job.n,
						.ping_msec = 500,
						.silence_msec = 3000,
						.timeout_msec = 30000,
						.window = 16 << 20 },
				     .ranks = job.numbers,
				     .thread_init = options->thread_init };
	struct ck_rendezvous_link way;
	struct ck_rendezvous at;
	int rc = ck_rendezvous_open(&at);

	snprintf(job.mesh, sizeof(job.mesh), "/tmp/ckptfs-hosts-XXXXXX");
	if (rc || !mkdtemp(job.mesh))
		die("a door", rc ? rc : -errno);
	for (uint32_t i = 0; i < job.n; i++)
		if (!job.list[i].missing)
			rank_start(&at, i, how);
	rc = ck_rendezvous_wait(&at, MEMORY, job.jobs[0].ended, 20000, &way);
	if (rc)
		die("the first rank", rc);
	ck_rendezvous_close(&at);
	o.sock = way.sock;
	o.memory = way.memory;
	o.size = way.size;
	rc = ck_link_make(&o, &job.link);
	if (rc)
		die("a link", rc);
}

/* Each has joined the others: who is killed before takes them with it. */
static void ranks_wait(void)
{
	const struct ck_str name = CK_STR("of no file");

	for (uint32_t i = 0; i < job.ranks; i++) {
		struct ck_name_stat replies;
		int rc = ck_calls_stat(ck_link_calls(job.link), i,
				       (struct ck_ids){ 0, 0 }, &name, 1,
				       &replies);

		if (rc && rc != -ENODATA)
			die("a rank", rc);
	}
}

struct signal {
	unsigned rank, usec;
	int number;
};

static void *signal_send(void *arg)
{
	const struct signal *s = arg;

	usleep(s->usec);
	(void)kill(job.jobs[s->rank].process, s->number);
	return NULL;
}

/* The one that is to be sent, in a time; or now, if it is to be late and it is so. */
static void rank_signal(bool late)
{
	static struct signal sent;
	struct signal s = { 0 };
	const char *at = getenv("CKPTFS_HOSTS_END");
	int len = 0;

	if (!at || sscanf(at, "%u:%d:%n", &s.rank, &s.number, &len) != 2 ||
	    !len || s.rank >= job.ranks)
		return;
	if (late != (strcmp(at + len, "late") == 0))
		return;
	s.usec = (unsigned)strtoul(at + len, NULL, 10);
	sent = s;
	if (s.usec == 0)
		signal_send(&sent);
	else if (ck_thread_start(&job.sender, signal_send, &sent))
		die("a thread", -EAGAIN);
	job.sends = s.usec > 0;
}

static void ranks_end(void)
{
	if (job.sends)
		pthread_join(job.sender, NULL);
	for (uint32_t i = 0; i < job.ranks; i++) {
		struct ck_buf replies = { 0 };

		/* The first one ends by itself; a launcher ends the others. */
		(void)kill(job.jobs[i].process, SIGCONT);
		if (i)
			(void)kill(job.jobs[i].process, SIGTERM);
		ck_subprocess_read(&job.jobs[i], &replies);
		ck_subprocess_end(&job.jobs[i], 5000);
		if (WIFEXITED(job.jobs[i].status) && job.jobs[i].status)
			fprintf(stderr, "rank %u ended with %d: %.*s\n", i,
				WEXITSTATUS(job.jobs[i].status),
				(int)replies.len,
				replies.data ? replies.data : "");
		ck_buf_fini(&replies);
	}
	(void)rmdir(job.mesh);
}

/* --- the cluster ---------------------------------------------------------------------- */

static int opened(struct ck_remote_source *e, struct ck_files *set,
		  bool *partly)
{
	const char *late = getenv("CKPTFS_HOSTS_LATE");
	int rc = job.opened(e, set, partly);

	rank_signal(true);
	if (late && system(late))
		die(late, -EINVAL);
	return rc;
}

static void hosts_make(void)
{
	const char *prefer = getenv("CKPTFS_HOSTS_PREFER");
	const size_t order[] = { prefer ? strtoul(prefer, NULL, 10) : 0 };

	job.hosts = ck_hosts_make(&(struct ck_hosts_setup){
		.calls = ck_link_calls(job.link),
		.list = job.list,
		.n = job.n,
		.order = order,
		.norder = prefer ? 1 : 0,
		.replicas = getenv("CKPTFS_HOSTS_FIRST") ? CK_REPLICAS_FIRST
							 : CK_REPLICAS_SAMPLE,
	});
	if (!job.hosts)
		die("hosts", -ENOMEM);
}

int ck_cluster_start(struct ck_hosts_options *options,
		     struct ck_format_options *format, const char **source,
		     int wanted, struct ck_cluster **out, struct ck_diag *d)
{
	(void)source, (void)wanted, (void)d;
	*out = NULL;
	if (format->write || !getenv("CKPTFS_HOSTS"))
		return 0;
	names_read();
	ranks_start(options, format->shardlinks);
	ranks_wait();
	rank_signal(false);
	hosts_make();
	format->elsewhere = ck_hosts_elsewhere(job.hosts);
	job.opened = format->elsewhere->opened;
	format->elsewhere->opened = opened;
	*out = &job;
	return 0;
}

int ck_cluster_join(struct ck_hosts_options *options,
		    struct ck_inherited *handed,
		    struct ck_format_options *format, struct ck_cluster **out,
		    struct ck_diag *d)
{
	(void)options, (void)handed, (void)format, (void)out;
	return ck_fail(d, ENOSYS, "hosts of this program are its own");
}

struct ck_hosts *ck_cluster_hosts(struct ck_cluster *c)
{
	return c ? c->hosts : NULL;
}

void ck_cluster_ready(struct ck_cluster *c)
{
	(void)c;
}

void ck_cluster_end(struct ck_cluster *c)
{
	if (!c)
		return;
	ck_hosts_revalidate_end(c->hosts);
	ck_link_free(c->link);
	ranks_end();
	ck_hosts_free(c->hosts);
	free(c->names);
	memset(c, 0, sizeof(*c));
}
