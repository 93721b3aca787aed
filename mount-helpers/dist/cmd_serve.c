/* SPDX-License-Identifier: MIT */
/*
 * cmd_serve: one rank of a job: serves the files of SRC, and forwards requests
 * of a mount on the same host to other ranks. Either a mount has started the
 * job with --mpi; then the first rank gets the name of the mount's rendezvous
 * socket. Or an external launcher has, and the ranks start the mounts. A single
 * process needs no transport.
 *
 * Threads: the messaging thread of ck_serve_run(), its workers, and those of
 * MPI.
 */
#include "arguments.h"
#include "base/system/privileges.h"
#include "ckptfs/launch.h"
#include "cli.h"
#include "dist.h"
#include "dist/launch/rendezvous.h"
#include "dist/server/serve.h"
#include "dist/transport/mpi_load.h"
#include "mpi_tmpdir.h"
#include "rank_rounds.h"
#include "serve_rank.h"
#include "spawn_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum {
	END_SECONDS = 3, /* limit of a pending read at the end */
	THREADS_MOST = 8,
	OPEN_MOST = 1024,     /* files at a time */
	SILENCE_MSEC = 25000, /* until a silent rank's mount counts as gone */
	ROUND_SECONDS = 30,   /* default limit of an NCCL round */
};

static const uint64_t memory_most = 256 << 20; /* bytes for replies */

struct serving {
	const char *door;
	bool mpi;  /* ranks of mpirun; otherwise a single process */
	bool user; /* started by an external launcher */
	struct ck_serve_rank launched;
	struct ck_rendezvous_link link_fds;
	const char *nccl; /* GPUs for rounds; NULL if there are no rounds */
	struct ck_rank_rounds rounds;
	struct ck_serve_options options;
};

/* --- resources ------------------------------------------------------------ */

static int fail(const char *what, int rc)
{
	return ck_trouble("serve: %s: %s", ck_show(ck_str_from(what)),
			  strerror(-rc));
}

static int join_mpi(struct serving *s)
{
	struct ck_diag d = { 0 };

	ck_mpi_tmpdir_enter();
	if (ck_transport_mpi(&s->options.xport, &d))
		return ck_trouble("serve: %s", d.text);
	return CK_EXIT_FINE;
}

static int enter(struct serving *s)
{
	int rc;

	if (!s->door || (s->options.xport && s->options.xport->rank))
		return CK_EXIT_FINE;
	rc = ck_rendezvous_enter(s->door, &s->link_fds);
	if (rc == -EINVAL)
		return ck_trouble("serve: option --door: not the name of one");
	if (rc)
		return fail("the mount", rc);
	s->options.link = s->link_fds.sock;
	s->options.memory = s->link_fds.memory;
	s->options.size = s->link_fds.size;
	/* The mount runs the process for rounds, and passes this link on to
	 * it. */
	rc = s->nccl ? ck_rendezvous_enter(s->door, &s->rounds.link_fds) : 0;
	return rc ? fail("the mount", rc) : CK_EXIT_FINE;
}

/* Must be called before MPI starts, and before descriptors exist that a child
 * must not inherit. Without rounds this rank serves all the same. */
static void rounds_start(struct serving *s)
{
	struct ck_diag d = { 0 };

	if (s->nccl && !s->door && !s->launched.place &&
	    ck_rank_rounds_start(&s->rounds, s->nccl,
				 s->launched.options.hosts.net, &d))
		(void)ck_trouble("serve: no rounds by NCCL: %s", d.text);
}

static void use_rounds(struct serving *s)
{
	const struct ck_rank_mount *mount = &s->launched.mount;
	const struct ck_rendezvous_link *link_fds =
		mount->rounds.sock >= 0 ? &mount->rounds : &s->rounds.link_fds;
	uint32_t timeout = s->launched.options.hosts.timeout;

	s->options.rounds = (struct ck_serve_rounds){
		.link = link_fds->sock,
		.memory = link_fds->memory,
		.size = link_fds->size,
		.msec = (timeout ? timeout : ROUND_SECONDS) * 1000,
		.used = s->nccl != NULL,
		.allowed = s->user, /* each rank has its own options */
	};
}

/* A host without the directory serves no files. */
static int own(struct serving *s, const char *source)
{
	ck_auto_fd int fd = open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return CK_EXIT_FINE;
	if (fd < 0)
		return fail(source, -errno);
	s->options.owner = ck_file_server_make(
		fd, s->launched.options.format.shardlinks, OPEN_MOST);
	return s->options.owner ? CK_EXIT_FINE : fail(source, -ENOMEM);
}

/* Signals that end the process are read from a signalfd. They are blocked first
 * of all, so that threads of MPI have them blocked, too. */
static int take_signals(void)
{
	sigset_t ending;
	int fd;

	sigemptyset(&ending);
	sigaddset(&ending, SIGTERM);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGHUP);
	if (pthread_sigmask(SIG_BLOCK, &ending, NULL))
		return -EINVAL;
	fd = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static int drop_privileges(const struct serving *s)
{
	enum ck_sockets sockets = s->mpi ? CK_SOCKETS_ALL : CK_SOCKETS_NONE;
	struct ck_diag d = { 0 };

	if (geteuid() == 0 && ck_privileges_drop(CK_ROLE_READER, sockets, &d))
		return ck_trouble("serve: %s", d.text);
	return CK_EXIT_FINE;
}

/* --- serving -------------------------------------------------------------- */

/* A thread may hang in a system call, on a failed disk. */
static void end_anyway(int signal)
{
	(void)signal;
	_exit(CK_EXIT_FINE);
}

static void ending(void *arg)
{
	struct sigaction act = { .sa_handler = end_anyway };
	struct serving *s = arg;

	ck_rank_mount_stop(&s->launched.mount);
	(void)sigaction(SIGALRM, &act, NULL);
	(void)alarm(END_SECONDS);
}

/* Keeps freed memory for replies: writing to fresh pages takes as long as
 * copying. Must be called before threads exist. */
static void keep_memory(void)
{
	enum { LARGEST = 32 << 20, KEPT = 64 << 20 }; /* bytes */

	(void)mallopt(M_MMAP_THRESHOLD, LARGEST);
	(void)mallopt(M_TRIM_THRESHOLD, KEPT);
	(void)mallopt(M_ARENA_MAX, 1);
}

static int prepare(struct serving *s, const char *source)
{
	int rc = CK_EXIT_FINE;

	keep_memory();
	s->options.stop = take_signals();
	rounds_start(s);
	if (s->options.stop < 0)
		rc = fail("signals", s->options.stop);
	else if (s->mpi)
		rc = join_mpi(s);
	if (rc == 0 && s->user)
		rc = ck_serve_rank_meet(&s->launched, source, &s->options);
	if (rc == 0)
		rc = enter(s);
	if (rc == 0)
		rc = own(s, source);
	if (rc == 0 && ck_sigbus_install())
		rc = fail("signals", -EINVAL);
	if (rc)
		return rc;
	/* Does not keep a directory busy. */
	(void)!chdir("/");
	return drop_privileges(s);
}

/* Without a launcher the only mount is beside the first rank. */
static int one_mount(struct serving *s)
{
	uint32_t n = s->options.xport ? s->options.xport->size : 1;
	bool *mounts = calloc(n, sizeof(*mounts));

	if (!mounts)
		return fail("ended", -ENOMEM);
	mounts[0] = true;
	s->options.mounts = s->launched.mounts = mounts;
	return CK_EXIT_FINE;
}

static int serve(struct serving *s)
{
	uint64_t memory = s->launched.options.hosts.ownermem;
	int rc;

	s->options.memory_most = memory ? memory : memory_most;
	s->options.threads = (unsigned)ck_min(ck_max((uint64_t)get_nprocs(), 2),
					      THREADS_MOST);
	s->options.ending = ending;
	s->options.arg = s;
	s->options.silence_msec = SILENCE_MSEC;
	use_rounds(s);
	rc = ck_serve_run(&s->options);
	s->options.xport = NULL;
	(void)alarm(0);
	return rc ? fail("ended", rc) : CK_EXIT_FINE;
}

static void serving_fini(struct serving *s)
{
	if (s->options.xport)
		s->options.xport->close(s->options.xport);
	ck_file_server_free(s->options.owner);
	ck_fd_cleanup(&s->options.stop);
	ck_rendezvous_link_fini(&s->link_fds);
	ck_rank_rounds_end(&s->rounds);
	ck_serve_rank_fini(&s->launched);
}

/* --- arguments ------------------------------------------------------------ */

static int take_letter(struct serving *s, int letter)
{
	struct ck_serve_rank *l = &s->launched;

	switch (letter) {
	case 'D': s->door = optarg; break;
	case 'M': s->mpi = true; break;
	case 'n': s->nccl = optarg; break;
	case 'm': l->place = optarg; break;
	case 's': l->survive = true; break;
	case 'o': l->texts[l->ntexts++] = optarg; break;
	default: return CK_EXIT_TROUBLE;
	}
	return CK_EXIT_FINE;
}

/* Arguments of a process that a mount has started. */
static int parse_reading(struct ck_serve_rank *l)
{
	int rc = CK_EXIT_FINE;

	for (size_t i = 0; i < l->ntexts && rc == 0; i++)
		rc = ck_parse_reading(&l->options.format, &l->options.hosts,
				      NULL, l->texts[i]);
	return rc;
}

static int parse(struct serving *s, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "door", required_argument, NULL, 'D' },
		{ "mpi", no_argument, NULL, 'M' },
		{ "nccl", required_argument, NULL, 'n' },
		{ "mount", required_argument, NULL, 'm' },
		{ "survive", no_argument, NULL, 's' },
		{ NULL, 0, NULL, 0 },
	};
	struct ck_serve_rank *l = &s->launched;
	int letter, rc = CK_EXIT_FINE;

	l->texts = calloc((size_t)argc, sizeof(*l->texts));
	if (!l->texts)
		return fail("arguments", -ENOMEM);
	while (rc == 0 && (letter = ck_getopt_hosts(argc, argv, "o:", longs,
						    &l->options.hosts)) != -1)
		rc = take_letter(s, letter);
	if (rc)
		return rc;
	s->user = !s->door && !s->mpi;
	s->mpi |= s->user;
	if (argc - optind != 1 || (!s->user && (l->place || l->survive)) ||
	    (s->user && s->nccl))
		return ck_usage();
	rc = s->user ? ck_serve_rank_parse(l) : parse_reading(l);
	if (s->user)
		s->nccl = l->options.hosts.nccl;
	return rc;
}

static int run(struct serving *s, const char *source)
{
	int rc = prepare(s, source), ended;

	if (rc == 0 && !s->user)
		rc = one_mount(s);
	if (rc == 0)
		rc = serve(s);
	ended = ck_serve_rank_end(&s->launched);
	return rc ? rc : ended;
}

/* Runs the words behind --launch: a launcher that is killed when its parent
 * ends. A launcher may hang on a dead host. */
static int launch(char **words)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		return fail("the launcher", -errno);
	if (getppid() == 1)
		return CK_EXIT_TROUBLE; /* the parent has ended meanwhile */
	execvp(words[0], words);
	return fail(words[0], -errno);
}

/* Prints what would prevent a job on this host. */
static int tell_self(const char *net)
{
	struct ck_buf output = { 0 };
	int rc;

	ck_launch_self(net, &output);
	rc = output.err || (output.len && fputs(output.data, stdout) < 0);
	ck_buf_fini(&output);
	return rc || fflush(stdout) ? fail("standard output", -EIO)
				    : CK_EXIT_FINE;
}

int ck_cmd_serve(int argc, char **argv)
{
	struct serving s = {
		.link_fds = CK_RENDEZVOUS_NO_LINK,
		.rounds = CK_RANK_NO_ROUNDS,
		.launched = { .mount = { .link_fds = CK_RENDEZVOUS_NO_LINK,
					 .rounds = CK_RENDEZVOUS_NO_LINK,
					 .liveness = -1,
					 .job = { .ended = -1,
						  .errors = -1 } } },
		.options = { .link = -1,
			     .memory = -1,
			     .rounds = { .link = -1, .memory = -1 },
			     .stop = -1 }
	};
	int rc;

	if (argc > 2 && strcmp(argv[1], "--launch") == 0)
		return launch(argv + 2);
	if (argc > 2 && strcmp(argv[1], CK_LAUNCH_SHELTER) == 0)
		return ck_mpi_tmpdir_run(argv + 2);
	if (argc > 2 && strcmp(argv[1], CK_SPAWN_HELPER_WORD) == 0)
		return ck_spawn_helper_run(argv + 2);
	if (argc == 3 && strcmp(argv[1], CK_LAUNCH_SELF) == 0)
		return tell_self(argv[2]);
	rc = parse(&s, argc, argv);
	if (rc == 0)
		rc = run(&s, argv[optind]);
	serving_fini(&s);
	/* MPI_Finalize() would wait for all ranks, dead ones included. */
	if (s.mpi)
		_exit(rc);
	return rc;
}
