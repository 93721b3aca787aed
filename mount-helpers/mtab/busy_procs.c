/* SPDX-License-Identifier: MIT */
/*
 * busy_procs: finds the processes that keep a mount busy: from /proc it reads their open
 * files, working and root directories and mappings. Files in the mount are recognised by
 * its mount id or device number, so the mount receives no request. A child process does
 * this, with a deadline of 10 s. No state.
 */
#include "mounts.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { SHOWN = 16, HOLDERS_MSEC = 10000, KERNEL_THREAD = 0x00200000 };

enum use { FREE, HOLDS, HIDDEN };

static int open_in(int dirfd, const char *name, int flags)
{
	return openat(dirfd, name, flags | O_CLOEXEC);
}

/* Returns the number behind `key` in a file of /proc, 0 if the file lacks the key, or an
 * errno of open(2) or read(2). */
static int number_in(int dirfd, const char *name, const char *key)
{
	ck_auto_fd int fd = open_in(dirfd, name, O_RDONLY);
	char text[1024];
	const char *at;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	at = strstr(text, key);
	return at ? atoi(at + strlen(key)) : 0;
}

static bool is_forbidden(int err)
{
	return err == EACCES || err == EPERM;
}

static enum use use_by_files(int process, int mount)
{
	int fd = open_in(process, "fdinfo", O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	enum use found = FREE;
	const struct dirent *e;

	if (!dir) {
		found = is_forbidden(errno) ? HIDDEN : FREE;
		if (fd >= 0)
			close(fd);
		return found;
	}
	while (found != HOLDS && (e = readdir(dir))) {
		int number = 0;

		if (e->d_name[0] != '.')
			number = number_in(fd, e->d_name, "mnt_id:");
		if (number == mount)
			found = HOLDS;
		else if (is_forbidden(-number))
			found = HIDDEN;
	}
	closedir(dir);
	return found;
}

/* True if the link `cwd` or `root` of a process leads into the mount. */
static bool leads_there(int process, const char *name, int mount)
{
	ck_auto_fd int fd = open_in(process, name, O_PATH);
	char own[64];

	if (fd < 0)
		return false;
	snprintf(own, sizeof(own), "/proc/self/fdinfo/%d", fd);
	return number_in(AT_FDCWD, own, "mnt_id:") == mount;
}

/* A line of /proc/PID/maps: "address mode offset 00:2f inode path". */
static bool maps_file_there(int process, const struct ck_mount *m)
{
	int fd = open_in(process, "maps", O_RDONLY);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	unsigned major, minor;
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	if (fd >= 0 && !f)
		close(fd);
	while (f && !found && getline(&line, &size, f) > 0)
		found = sscanf(line, "%*s %*s %*s %x:%x", &major, &minor) ==
				2 &&
			major == m->major && minor == m->minor;
	free(line);
	if (f)
		fclose(f);
	return found;
}

/* text: /proc/PID/stat. False for zombies and kernel threads, which have no files. */
static bool has_files(const char *text)
{
	const char *at = strrchr(text, ')');
	unsigned flags = 0;
	char state = '\0';

	return at &&
	       sscanf(at + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) ==
		       2 &&
	       !strchr("ZX", state) && !(flags & KERNEL_THREAD);
}

/* comm: receives the name of a process that uses the mount. */
static enum use use_of(int process, const struct ck_mount *m,
		       struct ck_buf *comm)
{
	ck_auto_fd int stat = open_in(process, "stat", O_RDONLY);
	char text[1024];
	ssize_t n = stat < 0 ? -1 : read(stat, text, sizeof(text) - 1);
	const char *begin, *end;
	enum use found;

	if (n <= 0)
		return FREE;
	text[n] = '\0';
	if (!has_files(text))
		return FREE;
	found = use_by_files(process, m->id);
	if (found == FREE && (leads_there(process, "cwd", m->id) ||
			      leads_there(process, "root", m->id) ||
			      maps_file_there(process, m)))
		found = HOLDS;
	begin = strchr(text, '(');
	end = strrchr(text, ')');
	if (found == HOLDS && begin && end > begin)
		ck_buf_escaped(comm,
			       (struct ck_str){ begin + 1,
						(size_t)(end - begin - 1) });
	return found;
}

struct holders {
	const struct ck_mount *mount;
	struct ck_buf text;
	unsigned n, hidden;
};

static void look_at_pid(struct holders *h, int proc, const char *pid)
{
	ck_auto_fd int process = open_in(proc, pid, O_RDONLY | O_DIRECTORY);
	struct ck_buf comm = { 0 };

	if (process < 0)
		return;
	switch (use_of(process, h->mount, &comm)) {
	case HOLDS:
		if (h->n++ < SHOWN)
			ck_buf_printf(&h->text, "%s%s (%s)",
				      h->n > 1 ? ", " : "", pid,
				      comm.len ? comm.data : "");
		break;
	case HIDDEN: h->hidden++; break;
	case FREE: break;
	}
	ck_buf_fini(&comm);
}

static void print_found(const struct holders *h, struct ck_buf *out)
{
	if (h->n)
		ck_buf_printf(out, "; used by %s", h->text.data);
	if (h->n > SHOWN)
		ck_buf_printf(out, " and %u more", h->n - SHOWN);
	if (!h->n && !h->hidden)
		ck_buf_text(out, "; no process of this system uses it");
	if (h->hidden)
		ck_buf_printf(out, "; %u process%s could not be examined",
			      h->hidden, h->hidden == 1 ? "" : "es");
}

static int work(void *arg, struct ck_buf *answer)
{
	struct holders h = { .mount = arg };
	DIR *dir = opendir("/proc");
	const struct dirent *e;

	if (!dir)
		return -errno;
	while ((e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
		    atoi(e->d_name) != getpid())
			look_at_pid(&h, dirfd(dir), e->d_name);
	closedir(dir);
	print_found(&h, answer);
	ck_buf_fini(&h.text);
	return answer->err;
}

void ck_busy_procs_print(const struct ck_mounts *all, const struct ck_mount *m,
			 struct ck_buf *out)
{
	struct ck_mount copy = *m;

	for (size_t i = 0; i < all->n; i++)
		if (all->rows[i].parent == m->id && all->rows[i].id != m->id) {
			ck_buf_text(out, "; mounted in it: ");
			ck_buf_escaped(out, ck_str_from(all->rows[i].point));
		}
	/* A child process reads /proc: reading about a process that waits for
	 * the mount may block. */
	if (ck_probe(work, &copy, HOLDERS_MSEC, NULL, out))
		ck_buf_text(out, "; the processes that use it cannot be found");
}
