/* SPDX-License-Identifier: MIT */
/*
 * mpi_tmpdir: makes, locks and removes the directories of MPI. A lock on a
 * directory shows that it is in use; unlocked ones of this user are removed by
 * sweep(). No threads.
 */
#include "mpi_tmpdir.h"
#include "ckptfs/launch.h"
#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	LONGEST = 64, /* bytes of $TMPDIR: MPI's socket paths are long */
	OPEN_MOST = 8,
	NOT_FOUND = 127, /* exit status as a shell uses it */
};

static const char prefix[] = "ckptfs-mpi.";
static const char memory[] = "/dev/shm", variable[] = "CKPTFS_SHELTER";

/* --- directories ---------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *at)
{
	(void)st;
	(void)at;
	(void)(type == FTW_DP ? rmdir(path) : unlink(path));
	return 0;
}

/* Only this user can write there. */
static void remove_all(const char *path)
{
	(void)nftw(path, remove_one, OPEN_MOST,
		   FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Locks a directory. Returns the descriptor to keep open, or -EBUSY if the
 * directory is in use, belongs to another user, or cannot be opened. */
static int lock(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st, now;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
	    flock(fd, LOCK_EX | LOCK_NB) == 0 && lstat(path, &now) == 0 &&
	    now.st_ino == st.st_ino && now.st_dev == st.st_dev)
		return fd;
	if (fd >= 0)
		close(fd);
	return -EBUSY;
}

/* Removes directories of processes that were killed. */
static void sweep(const char *where)
{
	DIR *dir = opendir(where);
	struct dirent *e;

	while (dir && (e = readdir(dir))) {
		ck_auto_free char *path = NULL;
		ck_auto_fd int fd = -1;

		if (strncmp(e->d_name, prefix, sizeof(prefix) - 1) != 0 ||
		    asprintf(&path, "%s/%s", where, e->d_name) < 0)
			continue;
		fd = lock(path);
		if (fd >= 0)
			remove_all(path);
	}
	if (dir)
		closedir(dir);
}

static char *make(const char *where, int *fd)
{
	char *path;

	*fd = -1;
	sweep(where);
	if (asprintf(&path, "%s/%sXXXXXX", where, prefix) < 0)
		return NULL;
	if (mkdtemp(path)) {
		*fd = lock(path);
		if (*fd >= 0)
			return path;
		remove_all(path);
	}
	free(path);
	return NULL;
}

void ck_mpi_tmpdir_make(struct ck_mpi_tmpdir *s)
{
	const char *given = getenv("TMPDIR");
	bool good = given && *given == '/' && strlen(given) <= LONGEST;

	*s = (struct ck_mpi_tmpdir){ .locks = { -1, -1 } };
	if (good)
		s->places[0] = make(given, &s->locks[0]);
	if (!s->places[0])
		s->places[0] = make("/tmp", &s->locks[0]);
	s->places[1] = make(memory, &s->locks[1]);
	if (s->places[0])
		(void)setenv("TMPDIR", s->places[0], 1);
	(void)setenv(variable, s->places[1] ? s->places[1] : "", 1);
}

void ck_mpi_tmpdir_end(struct ck_mpi_tmpdir *s)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(s->places); i++) {
		if (s->places[i])
			remove_all(s->places[i]);
		ck_fd_cleanup(&s->locks[i]);
		free(s->places[i]);
		s->places[i] = NULL;
	}
}

/* mpirun would pass the variable on to hosts without such a directory. */
void ck_mpi_tmpdir_enter(void)
{
	const char *place = getenv(variable);

	if (place && *place)
		(void)setenv("OMPI_MCA_btl_vader_backing_directory", place, 0);
}

/* --- the process on a host ------------------------------------------------ */

static pid_t start(char **words)
{
	pid_t child = fork();

	if (child)
		return child;
	execvp(words[0], words);
	fprintf(stderr, "ckptfs: %s: %s\n", ck_show(ck_str_from(words[0])),
		strerror(errno));
	_exit(NOT_FOUND);
}

/* Reports the exit status to the parent. */
static void print_line(int status, int report)
{
	char number = (char)(WIFEXITED(status) ? WEXITSTATUS(status)
					       : 128 + WTERMSIG(status));
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)!write(report, &number, 1);
	close(report);
	(void)setsid();
	for (int fd = 0; null >= 0 && fd <= 2; fd++)
		(void)dup2(null, fd);
}

/* A launch daemon exits at once and leaves a child as daemon. This process is
 * the subreaper, so that all orphans become its children. */
static void wait_for_all(pid_t first, int report)
{
	int status;
	pid_t ended;

	for (;;) {
		ended = wait(&status);
		if (ended < 0 && errno != EINTR)
			return;
		if (ended == first)
			print_line(status, report);
	}
}

static void watch(char **words, int report)
{
	static const int ignored[] = { SIGHUP, SIGINT, SIGTERM };
	struct ck_mpi_tmpdir s;
	pid_t first;

	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void)!chdir("/");
	ck_mpi_tmpdir_make(&s);
	first = start(words);
	for (size_t i = 0; i < CK_ARRAY_SIZE(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	if (first > 0)
		wait_for_all(first, report);
	ck_mpi_tmpdir_end(&s);
	_exit(CK_EXIT_FINE);
}

int ck_mpi_tmpdir_run(char **words)
{
	char status = CK_EXIT_TROUBLE;
	pid_t child;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return ck_trouble("serve: %s", strerror(errno));
	child = fork();
	if (child == 0) {
		close(ends[0]);
		watch(words, ends[1]);
	}
	close(ends[1]);
	if (child < 0 || read(ends[0], &status, 1) != 1)
		status = CK_EXIT_TROUBLE;
	close(ends[0]);
	return (unsigned char)status;
}
