/* SPDX-License-Identifier: MIT */
/*
 * inherit_fds: passes descriptors to a mount process by fixed numbers, and
 * takes them there. No threads.
 */
#include "inherit_fds.h"
#include "ckptfs/launch.h"
#include "cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Order of the descriptors; the last two exist with rounds only. */
enum {
	SOCK,
	MEMORY,
	LIST,
	LIVENESS,
	FILES,
	ROUNDS_SOCK = FILES,
	ROUNDS_MEMORY,
	FILES_MOST
};

static size_t files_of(bool rounds)
{
	return rounds ? FILES_MOST : FILES;
}

enum {
	END_MSEC = 4000,      /* limit to unmount */
	LIST_MOST = 64 << 20, /* bytes */
	WORDS = 8,	      /* in addition to those of the options */
};

/* --- the rank ----------------------------------------------------------------------- */

/* Writes the list to a file, to be read from its beginning. */
static int list_make(const struct ck_rank_table *roster, uint32_t rank)
{
	ck_auto_fd int fd = memfd_create("ckptfs-ranks", MFD_CLOEXEC);
	struct ck_buf text = { 0 };
	int rc = fd < 0 ? -errno : 0, out = fd;

	ck_rank_table_list(roster, rank, &text);
	if (rc == 0)
		rc = text.err;
	if (rc == 0)
		rc = ck_pwrite_full(fd, text.data, text.len, 0);
	ck_buf_fini(&text);
	if (rc)
		return rc;
	fd = -1;
	return out;
}

static int spawn(char *const words[], char *source, char *place,
		 const int files[static FILES_MOST], struct ck_subprocess *job)
{
	static char mount[] = "mount", front[] = "-f", end[] = "--",
		    alone[] = "--" CK_INHERITED_OPTION,
		    also[] = "--" CK_INHERITED_OPTION "=" CK_INHERITED_ROUNDS;
	bool rounds = files[ROUNDS_SOCK] >= 0;
	ck_auto_free char *program = ck_subprocess_program();
	ck_auto_free char **argv = NULL;
	size_t n = 0;

	if (!program)
		return -errno;
	while (words[n])
		n++;
	argv = calloc(n + WORDS, sizeof(*argv));
	if (!argv)
		return -ENOMEM;
	argv[0] = program;
	argv[1] = mount;
	argv[2] = front;
	argv[3] = rounds ? also : alone;
	memcpy(argv + 4, words, n * sizeof(*argv));
	argv[n + 4] = end;
	argv[n + 5] = source;
	argv[n + 6] = place;
	return ck_subprocess_start_beside(argv, files, files_of(rounds), job);
}

static int hand_over(const struct ck_rank_table *roster, uint32_t rank,
		     char *const words[], char *place,
		     const struct ck_rendezvous_link *link_fds,
		     const struct ck_rendezvous_link *rounds,
		     struct ck_rank_mount *out)
{
	ck_auto_free char *source = strdup(roster->ranks[rank].path);
	ck_auto_fd int list = list_make(roster, rank), liveness = -1;
	int ends[2], rc;

	if (list < 0)
		return list;
	if (!source)
		return -ENOMEM;
	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	liveness = ends[0];
	out->liveness = ends[1];
	rc = spawn(words, source, place,
		   (const int[FILES_MOST]){ link_fds->sock, link_fds->memory,
					    list, liveness, rounds->sock,
					    rounds->memory },
		   &out->job);
	if (rc)
		ck_fd_cleanup(&out->liveness);
	return rc;
}

int ck_rank_mount_start(const struct ck_rank_table *roster, uint32_t rank,
			char *const words[], char *place, bool rounds,
			struct ck_rank_mount *out, struct ck_diag *d)
{
	struct ck_rendezvous_link other = CK_RENDEZVOUS_NO_LINK,
				  of_rounds = CK_RENDEZVOUS_NO_LINK;
	int rc = ck_rendezvous_pair(CK_CLUSTER_MEMORY, &out->link_fds, &other);

	if (rc == 0 && rounds)
		rc = ck_rendezvous_pair(CK_CLUSTER_ROUNDS, &out->rounds,
					&of_rounds);
	if (rc == 0)
		rc = hand_over(roster, rank, words, place, &other, &of_rounds,
			       out);
	ck_rendezvous_link_fini(&other);
	ck_rendezvous_link_fini(&of_rounds);
	return rc ? ck_fail(d, -rc, "the mount: %s", strerror(-rc)) : 0;
}

void ck_rank_mount_stop(struct ck_rank_mount *m)
{
	ck_fd_cleanup(&m->liveness);
	if (m->link_fds.sock >= 0)
		(void)shutdown(m->link_fds.sock, SHUT_RDWR);
}

int ck_rank_mount_end(struct ck_rank_mount *m)
{
	ck_rank_mount_stop(m);
	ck_rendezvous_link_fini(&m->link_fds);
	ck_rendezvous_link_fini(&m->rounds);
	if (m->job.ended < 0)
		return 0;
	ck_subprocess_end(&m->job, END_MSEC);
	if (m->job.status == 0)
		return 0;
	return WIFEXITED(m->job.status) ? -EIO : -ECHILD;
}

/* --- the process of the mount ------------------------------------------------------- */

/* Sets close-on-exec: children must not inherit them. */
static int keep_files(const struct ck_inherited *h)
{
	for (size_t i = 0; i < files_of(h->has_rounds); i++)
		if (fcntl(CK_SUBPROCESS_FILES + (int)i, F_SETFD, FD_CLOEXEC))
			return -errno;
	if (fcntl(CK_SUBPROCESS_FILES + LIVENESS, F_SETFL, O_NONBLOCK))
		return -errno;
	return 0;
}

static int size_of(int fd, uint64_t most, uint64_t *out)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > most)
		return -EPROTO;
	*out = (uint64_t)st.st_size;
	return 0;
}

static int read_list(struct ck_inherited *h)
{
	ck_auto_fd int fd = CK_SUBPROCESS_FILES + LIST;
	uint64_t len;
	int rc = size_of(fd, LIST_MOST, &len);

	if (rc)
		return rc;
	h->text = malloc(len + 1);
	if (!h->text)
		return -ENOMEM;
	rc = ck_pread_full(fd, h->text, len, 0);
	return rc ? rc
		  : ck_rank_table_decode_list((struct ck_str){ h->text, len },
					      &h->ranks, &h->n);
}

static int take(struct ck_inherited *h)
{
	int rc = keep_files(h);

	if (rc)
		return rc;
	h->link_fds.sock = CK_SUBPROCESS_FILES + SOCK;
	h->link_fds.memory = CK_SUBPROCESS_FILES + MEMORY;
	h->liveness = CK_SUBPROCESS_FILES + LIVENESS;
	if (h->has_rounds)
		h->rounds = (struct ck_rendezvous_link){
			CK_SUBPROCESS_FILES + ROUNDS_SOCK,
			CK_SUBPROCESS_FILES + ROUNDS_MEMORY,
			CK_CLUSTER_ROUNDS,
		};
	rc = size_of(h->link_fds.memory, CK_CLUSTER_MEMORY, &h->link_fds.size);
	return rc ? rc : read_list(h);
}

/* Ranks of a host are adjacent. */
static int name_hosts(const struct ck_inherited *h, struct ck_host_list *list,
		      struct ck_diag *d)
{
	int rc = 0;

	for (uint32_t i = 0; i < h->n && rc == 0; i++)
		if (i == 0 ||
		    strcmp(h->ranks[i].name, h->ranks[i - 1].name) != 0)
			rc = ck_host_list_add(list, h->ranks[i].name, ',', d);
	return rc;
}

int ck_inherited_take(struct ck_inherited *h, struct ck_hosts_options *options,
		      struct ck_diag *d)
{
	int rc = take(h);

	if (rc)
		return ck_fail(d, -rc,
			       "option --" CK_INHERITED_OPTION
			       ": nothing was handed over: %s",
			       strerror(-rc));
	return name_hosts(h, &options->list, d);
}

void ck_inherited_fini(struct ck_inherited *h)
{
	ck_rendezvous_link_fini(&h->link_fds);
	ck_rendezvous_link_fini(&h->rounds);
	ck_fd_cleanup(&h->liveness);
	free(h->ranks);
	free(h->text);
}
