/* SPDX-License-Identifier: MIT */
/*
 * serve: a process beside a mount, and one on each of its hosts: answers what is asked
 * of the files of SRC, and the first one passes on what the mount asks of the others.
 * A mount starts it, with the name of its door; nobody else has a use for that.
 */
#include "ckptfs/door.h"
#include "ckptfs/plugin.h"
#include "ckptfs/privileges.h"
#include "ckptfs/serve.h"
#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum {
	JOIN_MSEC = 10000, /* until all ranks are there */
	END_SECONDS = 3,   /* that a read of a file may take when all is over */
	THREADS_MOST = 8,
	OPEN_MOST = 1024,     /* files, at a time */
	SILENCE_MSEC = 25000, /* of the mount's rank, after which it is over */
	RANKS_MOST = 65536,
};

static const uint64_t memory_most = 256 << 20; /* bytes for answers */

struct serving {
	const char *door;
	const char *ranks; /* "RANK/SIZE:DIRECTORY"; NULL: there is one */
	bool mpi;	   /* they are those of an mpirun */
	struct ck_format_options format;
	struct ck_hosts_options hosts; /* ownermem is what counts */
	struct ck_door_way way;
	struct ck_serve_options options;
};

/* --- what it needs ----------------------------------------------------------------- */

static int fail(const char *what, int rc)
{
	return ck_trouble("serve: %s: %s", ck_show(ck_str_from(what)),
			  strerror(-rc));
}

/* A number and what stands behind it. */
static bool take_number(const char **text, char end, unsigned *out)
{
	unsigned long n;
	char *after;

	if (**text < '0' || **text > '9')
		return false;
	n = strtoul(*text, &after, 10);
	if (n > RANKS_MOST || *after != end)
		return false;
	*out = (unsigned)n;
	*text = after + 1;
	return true;
}

static int join_ranks(struct serving *s)
{
	const char *directory = s->ranks;
	unsigned rank, size;
	int rc;

	if (!take_number(&directory, '/', &rank) ||
	    !take_number(&directory, ':', &size) || rank >= size)
		return ck_trouble("serve: option --ranks: expected "
				  "RANK/SIZE:DIRECTORY");
	rc = ck_xport_local(directory, rank, size, JOIN_MSEC,
			    &s->options.xport);
	return rc ? fail(directory, rc) : CK_EXIT_FINE;
}

static int join_mpi(struct serving *s)
{
	struct ck_diag d = { 0 };

	if (ck_xport_mpi(&s->options.xport, &d))
		return ck_trouble("serve: %s", d.text);
	return CK_EXIT_FINE;
}

static int enter(struct serving *s)
{
	int rc;

	if (!s->door || (s->options.xport && s->options.xport->rank))
		return CK_EXIT_FINE;
	rc = ck_door_enter(s->door, &s->way);
	if (rc == -EINVAL)
		return ck_trouble("serve: option --door: not the name of one");
	if (rc)
		return fail("the mount", rc);
	s->options.link = s->way.sock;
	s->options.memory = s->way.memory;
	s->options.size = s->way.size;
	return CK_EXIT_FINE;
}

/* A host without that directory offers nothing. */
static int own(struct serving *s, const char *source)
{
	ck_auto_fd int fd = open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return CK_EXIT_FINE;
	if (fd < 0)
		return fail(source, -errno);
	s->options.owner = ck_data_owner_make(fd, s->format.shardlinks,
					      OPEN_MOST);
	return s->options.owner ? CK_EXIT_FINE : fail(source, -ENOMEM);
}

/* Signals that end it are read from a descriptor, and by no thread. */
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

/* --- serving ----------------------------------------------------------------------- */

/* A thread may be in a call that does not return, on a disk that is gone. */
static void end_anyway(int signal)
{
	(void)signal;
	_exit(CK_EXIT_FINE);
}

static void ending(void *arg)
{
	struct sigaction act = { .sa_handler = end_anyway };

	(void)arg;
	(void)sigaction(SIGALRM, &act, NULL);
	(void)alarm(END_SECONDS);
}

static int prepare(struct serving *s, const char *source)
{
	int rc = CK_EXIT_FINE;

	if (s->mpi)
		rc = join_mpi(s);
	else if (s->ranks)
		rc = join_ranks(s);
	if (rc == 0)
		rc = enter(s);
	if (rc == 0)
		rc = own(s, source);
	if (rc == 0 && ck_sigbus_install())
		rc = fail("signals", -EINVAL);
	if (rc)
		return rc;
	/* Nobody's directory is in use for as long as it serves. */
	(void)!chdir("/");
	s->options.stop = take_signals();
	return s->options.stop < 0 ? fail("signals", s->options.stop)
				   : drop_privileges(s);
}

static int serve(struct serving *s)
{
	uint32_t n = s->options.xport ? s->options.xport->size : 1;
	bool *mounts = calloc(n, sizeof(*mounts));
	int rc;

	if (!mounts)
		return fail("ended", -ENOMEM);
	mounts[0] = true;
	s->options.memory_most = s->hosts.ownermem ? s->hosts.ownermem
						   : memory_most;
	s->options.threads = (unsigned)ck_min(ck_max((uint64_t)get_nprocs(), 2),
					      THREADS_MOST);
	s->options.ending = ending;
	s->options.silence_msec = SILENCE_MSEC;
	s->options.mounts = mounts;
	rc = ck_serve_run(&s->options);
	s->options.xport = NULL;
	free(mounts);
	return rc ? fail("ended", rc) : CK_EXIT_FINE;
}

static void serving_fini(struct serving *s)
{
	if (s->options.xport)
		s->options.xport->close(s->options.xport);
	ck_data_owner_free(s->options.owner);
	ck_fd_cleanup(&s->options.stop);
	ck_fd_cleanup(&s->way.sock);
	ck_fd_cleanup(&s->way.memory);
	ck_hosts_options_fini(&s->hosts);
}

/* --- arguments --------------------------------------------------------------------- */

static int parse(struct serving *s, int argc, char **argv)
{
	static const struct option longs[] = {
		{ "door", required_argument, NULL, 'D' },
		{ "mpi", no_argument, NULL, 'M' },
		{ "ranks", required_argument, NULL, 'R' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, rc = CK_EXIT_FINE;

	while (rc == 0 && (letter = ck_getopt(argc, argv, "o:", longs)) != -1) {
		switch (letter) {
		case 'D': s->door = optarg; break;
		case 'M': s->mpi = true; break;
		case 'R': s->ranks = optarg; break;
		case 'o':
			rc = ck_parse_reading(&s->format, &s->hosts, optarg);
			break;
		default: rc = CK_EXIT_TROUBLE;
		}
	}
	if (rc == 0 &&
	    (argc - optind != 1 || (!s->door && !s->ranks && !s->mpi)))
		rc = ck_usage(argv[0]);
	return rc;
}

/* The words behind --launch: a launcher that ends with the process that has started it,
 * however that ends. Who waits for one that hangs, on a dead host, is nobody. */
static int launch(char **words)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		return fail("the launcher", -errno);
	if (getppid() == 1)
		return CK_EXIT_TROUBLE; /* it has ended meanwhile */
	execvp(words[0], words);
	return fail(words[0], -errno);
}

int ck_cmd_serve(int argc, char **argv)
{
	struct serving s = { .way = { -1, -1, 0 },
			     .options = {
				     .link = -1, .memory = -1, .stop = -1 } };
	int rc;

	if (argc > 2 && strcmp(argv[1], "--launch") == 0)
		return launch(argv + 2);
	rc = parse(&s, argc, argv);
	if (rc == 0)
		rc = prepare(&s, argv[optind]);
	if (rc == 0)
		rc = serve(&s);
	serving_fini(&s);
	/* Ending MPI would wait for all ranks, those that are dead too. */
	if (s.mpi)
		_exit(rc);
	return rc;
}
