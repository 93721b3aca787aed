/* SPDX-License-Identifier: MIT */
/*
 * mount: the command returns when the tree can be used, or with the reason
 * why it cannot. So it forks first; the child opens the checkpoint, mounts,
 * and, when the mount has answered, leaves the terminal and writes one byte
 * into a pipe. A child that ends without that byte has said why on the
 * stderr that both have.
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
#include <sys/wait.h>
#include <unistd.h>

struct mount {
	const char *source;
	const char *place;
	bool foreground;
	bool fake; /* parse only, as mount(8)'s -f says */
	bool beside_rank;
	struct ck_inherited handed; /* by that */
	struct ck_mount_options options;
	struct ck_cluster *cluster;
	struct ck_gpus *gpus;
	char *target;	       /* the mount point, absolute; owned */
	struct ck_shown there; /* before */
	int told;	       /* write end of the pipe; -1: nobody waits */
	const char *kind;      /* of the checkpoint */
	char record[CK_MOUNT_RECORD_NAME];
};

/* --- the child ------------------------------------------------------------ */

/* Leaves terminal, directory and stderr, then lets the parent go. Messages
 * are in the log from here on. */
static void detach(struct mount *m)
{
	ck_auto_fd int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (m->told < 0)
		return;
	setsid();
	(void)!chdir("/");
	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		dup2(null, fd);
	ck_log_detach();
	(void)!write(m->told, "", 1);
	ck_fd_cleanup(&m->told);
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

/* Arrays that were needed to read the metadata go back to the system when
 * they are freed, however many came before: glibc would raise its limit. */
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
					  m->told, &m->cluster, d);
}

/* The process that the user sees may have ended while hosts were waited for: then nobody
 * wants a mount any more. */
static int check_wanted(const struct mount *m, struct ck_diag *d)
{
	struct pollfd fd = { .fd = m->told };

	if (m->told >= 0 && poll(&fd, 1, 0) > 0)
		return ck_fail(d, ECANCELED, "nobody waits for the mount");
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
		return ck_trouble("%s: cannot be opened as log: %s",
				  ck_show(ck_str_from(log)), strerror(-rc));
	m->options.format.write = m->options.write && !m->options.ro;
	m->options.hosts.thread_init = ck_fs_thread_init(&m->options);
	rc = ck_detacher_start(m->target, &detacher, &d);
	if (rc == 0)
		rc = ck_gpus_make(&m->options, &m->gpus, &d);
	if (rc == 0)
		rc = find_hosts(m, &d);
	if (rc == 0 && m->cluster)
		m->options.remote =
			ck_hosts_mover(ck_cluster_hosts(m->cluster));
	if (rc == 0)
		rc = ck_gpus_start(m->gpus, &d);
	if (rc == 0)
		rc = ck_checkpoint_open(m->source, &m->options.format, &cp, &d);
	if (rc == 0)
		rc = ck_gpus_settle(m->gpus, &d);
	if (rc == 0)
		rc = ck_gpus_count(m->gpus, cp, &d);
	if (rc == 0)
		rc = ck_gpus_meet(m->gpus, ck_cluster_hosts(m->cluster), &d);
	if (rc == 0)
		rc = check_wanted(m, &d);
	if (rc == 0) {
		m->kind = ck_checkpoint_kind(cp);
		rc = ck_fs_serve(cp, m->target, &m->options, detacher, ready, m,
				 &d);
		ck_mount_record_remove(m->record);
	}
	ck_detacher_end(detacher);
	ck_gpus_part(m->gpus);
	ck_cluster_end(m->cluster);
	ck_gpus_end(m->gpus);
	ck_checkpoint_close(cp);
	ck_gpus_free(m->gpus);
	if (rc == 0)
		return CK_EXIT_FINE;
	ck_log("%s", d.text);
	return CK_EXIT_TROUBLE;
}

/* What the caller had open beyond the first three is his: a daemon that kept
 * it would hold his lock, or the end of his pipe, for days. */
static void close_inherited(const struct mount *m)
{
	unsigned told = (unsigned)m->told;

	if (told > 3)
		(void)close_range(3, told - 1, 0);
	(void)close_range(told + 1, ~0U, 0);
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
		return ck_trouble("mount: the daemon died of signal %d",
				  WTERMSIG(status));
	return CK_EXIT_TROUBLE;
}

/* Two mounts on one place, of which only the last shows, are a mistake. What
 * is there may be dead, and is not asked. One that something else covers does
 * not show either way. */
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
	return ck_trouble("%s: a checkpoint is mounted there; umount it first: "
			  "ckptfs umount %s",
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
		return ck_trouble("mount: no pipe: %s", strerror(errno));
	from_child = ends[0];
	m->told = ends[1];
	child = fork();
	if (child < 0)
		return ck_trouble("mount: no process: %s", strerror(errno));
	if (child == 0) {
		ck_fd_cleanup(&from_child);
		close_inherited(m);
		return serve(m);
	}
	ck_fd_cleanup(&m->told);
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

/* letters: those of getopt(3); `f` means what the caller says. */
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

/* Who says rw wants to write; but mount(8) always says it, and one of the words
 * for devices and programs with it. */
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
	ck_fd_cleanup(&m->told);
	ck_inherited_fini(&m->handed);
	ck_options_fini(&m->options);
	free(m->target);
}

static const struct mount nothing = {
	.told = -1,
	.handed = { .way = CK_RENDEZVOUS_NO_WAY,
		    .rounds = CK_RENDEZVOUS_NO_WAY,
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
