/* SPDX-License-Identifier: MIT */
/*
 * mount: mounts a checkpoint. The command returns when the tree can be used, or after an
 * error message. Without -f it forks first:
 *
 *	child	opens the checkpoint, mounts, waits until the mount answers, detaches
 *		from terminal and stderr, writes one byte into a pipe, and serves
 *	parent	waits for that byte; the pipe closes without it if the child has failed,
 *		after the child's message on their common stderr
 *
 * The child has one thread until ck_cluster_start() and ck_fs_serve() start others. ready()
 * is called by a thread of ck_fs_serve().
 */
#include "ckptfs/fs.h"
#include "cluster.h"
#include "commands.h"
#include "gpus.h"
#include "inherit_fds.h"
#include "mounts.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct mount {
	const char *source;
	const char *place;
	bool foreground;
	bool fake;		    /* -f of mount(8): parse only */
	bool beside_rank;	    /* started by a rank of ckptfs serve */
	struct ck_inherited handed; /* descriptors from that rank */
	struct ck_mount_options options;
	struct ck_cluster *cluster;
	struct ck_gpus *gpus;
	char *target;	       /* the mount point, absolute; owned */
	struct ck_shown there; /* the mount at the target before this one */
	int ready_fd;	       /* write end of the pipe; -1: no parent waits */
	const char *kind;      /* format of the checkpoint */
	char record[CK_MOUNT_RECORD_NAME];
};

/* --- the child ------------------------------------------------------------ */

/* Detaches from terminal, working directory and stderr, then signals the parent. Later
 * messages go to the log. */
static void detach(struct mount *m)
{
	ck_auto_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (m->ready_fd < 0)
		return;
	setsid();
	(void)!chdir("/");
	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		dup2(null, fd);
	ck_log_detach();
	(void)!write(m->ready_fd, "", 1);
	ck_fd_cleanup(&m->ready_fd);
}

static void ready(uint64_t mount, void *arg)
{
	struct mount *m = arg;

	ck_mount_record_write(m->target, mount, m->kind, m->record);
	if (m->beside_rank)
		ck_log("%s: mounted", ck_show(ck_str_from(m->target)));
	detach(m);
	ck_cluster_ready(m->cluster);
}

/* A constant threshold returns the large arrays of the metadata reader to the system when
 * they are freed. By default glibc raises the threshold with each freed array. */
static void keep_memory_flat(void)
{
	(void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
}

static int find_hosts(struct mount *m, struct ck_diag *d)
{
	struct ck_mount_options *o = &m->options;

	return m->beside_rank
		       ? ck_cluster_join(&o->hosts, &m->handed, &o->format,
					 &m->cluster, d)
		       : ck_cluster_start(&o->hosts, &o->format, &m->source,
					  m->ready_fd, &m->cluster, d);
}

/* Fails with ECANCELED if the parent has ended, as by a signal, while the child waited for
 * hosts. */
static int check_wanted(const struct mount *m, struct ck_diag *d)
{
	struct pollfd fd = { .fd = m->ready_fd };

	if (m->ready_fd >= 0 && poll(&fd, 1, 0) > 0)
		return ck_fail(d, ECANCELED,
			       "not mounted: the mount command has ended");
	return 0;
}

static int serve(struct mount *m)
{
	const char *log = m->options.log;
	struct ck_detacher *detacher = NULL;
	struct ck_checkpoint *cp = NULL;
	struct ck_diag d = { 0 };
	int rc = ck_log_open(log);

	keep_memory_flat();
	if (rc)
		return ck_trouble("%s: cannot open the log: %s",
				  ck_show(ck_str_from(log)), strerror(-rc));
	m->options.format.write = m->options.write && !m->options.ro;
	m->options.hosts.thread_init = ck_fs_thread_init(&m->options);
	rc = ck_detacher_start(m->target, &detacher, &d);
	if (rc == 0 && m->options.format.write)
		rc = ck_creator_start(&m->options.creator, &d);
	if (rc == 0)
		rc = ck_backing_start(&m->options, &m->options.backing, &d);
	if (rc == 0)
		rc = ck_gpus_make(&m->options, &m->gpus, &d);
	if (rc == 0)
		rc = find_hosts(m, &d);
	if (rc == 0 && m->cluster)
		m->options.remote =
			ck_hosts_backend(ck_cluster_hosts(m->cluster));
	if (rc == 0)
		rc = ck_gpus_start(m->gpus, &d);
	if (rc == 0)
		rc = ck_checkpoint_open(m->source, &m->options.format, &cp, &d);
	if (rc == 0)
		rc = ck_gpus_settle(m->gpus, cp, ck_cluster_hosts(m->cluster),
				    &d);
	if (rc == 0)
		rc = check_wanted(m, &d);
	if (rc == 0) {
		m->kind = ck_checkpoint_kind(cp);
		rc = ck_fs_serve(cp, m->target, &m->options, detacher, ready, m,
				 &d);
		ck_mount_record_remove(m->record);
	}
	ck_detacher_end(detacher);
	ck_creator_end(m->options.creator);
	ck_backing_end(m->options.backing);
	ck_gpus_part(m->gpus);
	ck_cluster_end(m->cluster);
	ck_gpus_end(m->gpus);
	ck_checkpoint_close(cp);
	if (rc == 0)
		return CK_EXIT_FINE;
	ck_log("%s", d.text);
	return CK_EXIT_TROUBLE;
}

/* Closes the caller's descriptors beyond stderr. Otherwise the daemon would hold locks and
 * pipe ends of the caller as long as it runs. */
static void close_inherited(const struct mount *m)
{
	unsigned kept = (unsigned)m->ready_fd;

	if (kept > 3)
		(void)syscall(SYS_close_range, 3U, kept - 1, 0U);
	(void)syscall(SYS_close_range, kept + 1, ~0U, 0U);
}

/* --- the parent ----------------------------------------------------------- */

static int wait_for_mount(pid_t child, int from_child)
{
	char byte;
	ssize_t n;
	int status = 0;

	do
		n = read(from_child, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		return CK_EXIT_FINE;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		return ck_trouble("mount: signal %d killed the daemon",
				  WTERMSIG(status));
	return CK_EXIT_TROUBLE;
}

/* Refuses a mount point that already shows a checkpoint: the new mount would cover it. The
 * present mount may hang, so it receives no request. A checkpoint that another mount covers
 * is not reported. Returns the exit status. */
static int check_free(const struct mount *m)
{
	const char *name = ck_show(ck_str_from(m->place));
	const struct ck_mount *there;
	struct ck_mounts all;
	bool ours;

	if (ck_mounts_read(&all))
		return CK_EXIT_FINE;
	there = ck_mounts_shown(&all, &m->there);
	ours = there && there->ours;
	ck_mounts_fini(&all);
	if (!ours)
		return CK_EXIT_FINE;
	return ck_trouble("%s: a checkpoint is mounted there; unmount it "
			  "first: ckptfs umount %s",
			  name, name);
}

static int start(struct mount *m)
{
	ck_auto_fd int from_child = -1;
	int ends[2];
	pid_t child;

	if (check_free(m))
		return CK_EXIT_TROUBLE;
	if (m->foreground)
		return serve(m);
	if (pipe2(ends, O_CLOEXEC))
		return ck_trouble("mount: cannot create a pipe: %s",
				  strerror(errno));
	from_child = ends[0];
	m->ready_fd = ends[1];
	child = fork();
	if (child < 0)
		return ck_trouble("mount: cannot start the daemon: %s",
				  strerror(errno));
	if (child == 0) {
		ck_fd_cleanup(&from_child);
		close_inherited(m);
		return serve(m);
	}
	ck_fd_cleanup(&m->ready_fd);
	return wait_for_mount(child, from_child);
}

/* --- arguments ------------------------------------------------------------ */

static int parse_options(struct mount *m, const char *text)
{
	struct ck_diag d = { 0 };

	if (ck_options_parse(&m->options, text, &d))
		return ck_trouble("%s", d.text);
	return CK_EXIT_FINE;
}

static int parse_operands(struct mount *m, int argc, char **argv)
{
	if (argc - optind != 2)
		return ck_usage();
	m->source = argv[optind];
	m->place = argv[optind + 1];
	m->target = ck_path(m->place, &m->there);
	return m->target ? CK_EXIT_FINE : CK_EXIT_TROUBLE;
}

static int check_options(struct mount *m)
{
	struct ck_diag d = { 0 };

	if (m->beside_rank &&
	    ck_inherited_take(&m->handed, &m->options.hosts, &d))
		return ck_trouble("%s", d.text);
	if (ck_options_check(&m->options, &d))
		return ck_trouble("%s", d.text);
	return ck_check_hosts(&m->options.hosts);
}

/* letters: option letters as of getopt(3). *f: set by -f, whose meaning differs between the
 * callers. */
static int parse(struct mount *m, int argc, char **argv, const char *letters,
		 bool *f)
{
	static const struct option longs[] = {
		{ CK_INHERITED_OPTION, optional_argument, NULL, 'B' },
		{ NULL, 0, NULL, 0 },
	};
	int letter, rc = CK_EXIT_FINE;

	while (rc == 0 && (letter = ck_getopt_hosts(argc, argv, letters, longs,
						    &m->options.hosts)) != -1) {
		switch (letter) {
		case 'o': rc = parse_options(m, optarg); break;
		case 'd': rc = parse_options(m, "debug"); break;
		case 'f': *f = true; break;
		case 'B':
			m->beside_rank = true;
			m->handed.has_rounds = optarg != NULL;
			break;
		case 'n':
		case 's':
		case 'v':
		case 'N':
		case 't': break;
		default: rc = CK_EXIT_TROUBLE;
		}
	}
	if (rc == 0)
		rc = parse_operands(m, argc, argv);
	return rc ? rc : check_options(m);
}

static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = list; p; p = strchr(p, ',')) {
		p += *p == ',';
		if (strncmp(p, word, len) == 0 && (!p[len] || p[len] == ','))
			return true;
	}
	return false;
}

/* Warns if a user passed -o rw, which does not allow writing. mount(8) passes rw always,
 * together with one of the words below: then there is no warning. */
static void hint_write(const struct mount *m)
{
	static const char *const by_mount[] = { "dev", "nodev", "suid",
						"nosuid" };
	const char *given = m->options.given.data;

	if (m->options.write || m->options.ro || !given ||
	    !has_word(given, "rw"))
		return;
	for (size_t i = 0; i < CK_ARRAY_SIZE(by_mount); i++)
		if (has_word(given, by_mount[i]))
			return;
	ck_trouble("option rw: the mount is read-only; -o write allows to "
		   "replace tensors");
}

static void mount_fini(struct mount *m)
{
	ck_fd_cleanup(&m->ready_fd);
	ck_inherited_fini(&m->handed);
	ck_options_fini(&m->options);
	free(m->target);
}

static const struct mount nothing = {
	.ready_fd = -1,
	.handed = { .link_fds = CK_RENDEZVOUS_NO_LINK,
		    .rounds = CK_RENDEZVOUS_NO_LINK,
		    .liveness = -1 },
};

int ck_cmd_mount(int argc, char **argv)
{
	struct mount m = nothing;
	int rc = parse(&m, argc, argv, "o:df", &m.foreground);

	if (rc == 0) {
		hint_write(&m);
		rc = start(&m);
	}
	mount_fini(&m);
	return rc;
}

/* mount(8): `mount.ckptfs SRC MNT [-sfnv] [-N namespace] [-o ...] [-t type]`;
 * -f is "fake" there. */
int ck_cmd_mount_helper(int argc, char **argv)
{
	struct mount m = nothing;
	int rc = parse(&m, argc, argv, "o:fnsvN:t:", &m.fake);

	if (rc == 0 && !m.fake)
		rc = start(&m);
	mount_fini(&m);
	return rc;
}
