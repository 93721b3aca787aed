/* SPDX-License-Identifier: MIT */
/*
 * shard: the files that staged boxes lie in, one for each rank that had them.
 * A file has no name until its commit, so that whatever ends before leaves
 * nothing; its size is known from the beginning, so that a full disk is told
 * to the program that writes and not to the commit.
 */
#include "commit_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <sys/xattr.h>
#include <unistd.h>

enum {
	RANKS_MAX = 64, /* files of one commit; for more ranks, one file */
	NAME_TRIES = 8,
};

#define ACL "system.posix_acl_access"

/* --- planning -------------------------------------------------------------- */

static uint64_t rank_of(const struct ck_catalog *c, uint32_t chunk)
{
	uint32_t file = c->chunks[chunk].file;
	uint64_t rank;

	if (file >= c->nfiles ||
	    !ck_name_rank(ck_catalog_str(c, c->files[file].path), &rank))
		return CK_NO_RANK;
	return rank;
}

/* The shard of a rank; nshards where there is none yet. */
static uint32_t shard_find(const struct ck_shards *s, uint64_t rank)
{
	uint32_t i = 0;

	while (i < s->nshards && s->shards[i].rank != rank)
		i++;
	return i;
}

static void shard_add(struct ck_shards *s, uint64_t rank)
{
	s->shards[s->nshards++] = (struct ck_shard){ .target = { .fd = -1 },
						     .rank = rank };
}

/* A shard for each rank; one for all if some box has no rank, or there are
 * too many. */
static void choose_shards(const struct ck_catalog *c, struct ck_shards *s)
{
	for (uint32_t i = 0; i < s->ncuts; i++) {
		uint64_t rank = rank_of(c, s->cuts[i].chunk);
		uint32_t shard = shard_find(s, rank);

		if (rank == CK_NO_RANK || shard == RANKS_MAX) {
			s->nshards = 0;
			shard_add(s, CK_NO_RANK);
			for (i = 0; i < s->ncuts; i++)
				s->cuts[i].shard = 0;
			return;
		}
		if (shard == s->nshards)
			shard_add(s, rank);
		s->cuts[i].shard = shard;
	}
}

static int cut_make(const struct ck_catalog *c, const struct ck_tensor *t,
		    struct ck_shards *s, struct ck_cut *cut)
{
	struct ck_shard *shard = &s->shards[cut->shard];
	const int64_t *box = ck_catalog_box(c, t, cut->chunk - t->chunk);
	int rc;

	cut->fpos = shard->target.size;
	rc = ck_item_form_make(&cut->form, t->dtype, t->ndim, box + t->ndim,
			       cut->fpos);
	if (rc)
		return rc;
	shard->target.size += cut->form.head.len + cut->form.data_len +
			      cut->form.tail.len;
	return shard->target.size > INT64_MAX ? -EFBIG : 0;
}

static int cuts_make(const struct ck_writer *w, uint32_t tensor, uint32_t first,
		     uint32_t n, struct ck_shards *s)
{
	const struct ck_catalog *c = w->cp->catalog;
	const struct ck_tensor *t = &c->tensors[tensor];
	int rc = 0;

	s->cuts = calloc(n + 1UL, sizeof(*s->cuts));
	s->shards = calloc(RANKS_MAX + 1UL, sizeof(*s->shards));
	if (!s->cuts || !s->shards)
		return -ENOMEM;
	for (uint32_t i = first; i < first + n; i++)
		if (!ck_catalog_box_is_empty(c, t, i))
			s->cuts[s->ncuts++].chunk = t->chunk + i;
	ck_checkpoint_lock(w->cp);
	choose_shards(c, s);
	ck_checkpoint_unlock(w->cp);
	for (uint32_t i = 0; i < s->ncuts && !rc; i++)
		rc = cut_make(c, t, s, &s->cuts[i]);
	return rc;
}

int ck_shards_plan(const struct ck_writer *w, uint32_t tensor, uint32_t first,
		   uint32_t n, struct ck_shards *out, struct ck_diag *d)
{
	int rc;

	*out = (struct ck_shards){ 0 };
	rc = cuts_make(w, tensor, first, n, out);
	if (rc) {
		ck_shards_fini(out);
		return ck_fail(d, -rc, "cannot be stored: %s", strerror(-rc));
	}
	return 0;
}

/* --- files ----------------------------------------------------------------- */

int ck_file_make(const struct ck_writer *w, int *fd, struct ck_diag *d)
{
	*fd = ck_open_unnamed(w->dirfd);
	if (*fd >= 0)
		return 0;
	if (*fd == -EISDIR || *fd == -EOPNOTSUPP)
		return ck_fail(d, EOPNOTSUPP,
			       "%s: its file system has no files without name",
			       ck_show(ck_str_from(w->cp->path)));
	return ck_fail(d, -*fd, "%s: no new file: %s",
		       ck_show(ck_str_from(w->cp->path)), strerror(-*fd));
}

static int shard_make(const struct ck_writer *w, struct ck_shard *shard,
		      struct ck_diag *d)
{
	struct ck_target *t = &shard->target;
	int rc = ck_file_make(w, &t->fd, d);

	if (rc)
		return rc;
	if (fallocate(t->fd, 0, 0, (off_t)t->size) == 0)
		return 0;
	/* Some file systems cannot promise room. */
	if (errno == EOPNOTSUPP && ftruncate(t->fd, (off_t)t->size) == 0)
		return 0;
	return ck_fail(d, errno, "no room for %ju bytes in %s: %s",
		       (uintmax_t)t->size, ck_show(ck_str_from(w->cp->path)),
		       strerror(errno));
}

int ck_shards_make(const struct ck_writer *w, struct ck_shards *s,
		   struct ck_diag *d)
{
	for (uint32_t i = 0; i < s->nshards; i++) {
		int rc = shard_make(w, &s->shards[i], d);

		if (rc) {
			ck_shards_close(s);
			return rc;
		}
	}
	return 0;
}

void ck_shards_close(struct ck_shards *s)
{
	for (uint32_t i = 0; i < s->nshards; i++) {
		struct ck_target *t = &s->shards[i].target;

		ck_target_unmap(t);
		if (t->fd >= 0)
			close(t->fd);
		t->fd = -1;
		s->shards[i].name[0] = '\0';
	}
}

void ck_shards_fini(struct ck_shards *s)
{
	ck_shards_close(s);
	for (uint32_t i = 0; i < s->ncuts; i++)
		ck_item_form_fini(&s->cuts[i].form);
	free(s->cuts);
	free(s->shards);
	*s = (struct ck_shards){ 0 };
}

/* --- owner, group, mode, ACL ------------------------------------------------ */

/* An unnamed file may have got an ACL from its directory. */
static int copy_acl(const struct ck_writer *w, int fd)
{
	ck_auto_fd int from = ck_open_beneath(w->dirfd, CK_STR(".metadata"),
					      O_RDONLY, CK_BENEATH_SYMLINKS);
	ck_auto_free void *acl = malloc(XATTR_SIZE_MAX);
	ssize_t n;

	if (from < 0 || !acl)
		return from < 0 ? from : -ENOMEM;
	n = fgetxattr(from, ACL, acl, XATTR_SIZE_MAX);
	if (n < 0 && errno != ENODATA && errno != EOPNOTSUPP)
		return -errno;
	if (n >= 0)
		return fsetxattr(fd, ACL, acl, (size_t)n, 0) ? -errno : 0;
	if (fremovexattr(fd, ACL) && errno != ENODATA && errno != EOPNOTSUPP)
		return -errno;
	return 0;
}

int ck_file_own(const struct ck_writer *w, int fd, struct ck_diag *d)
{
	const struct stat *want = &w->cp->metadata;
	struct stat st;
	int rc;

	if (fstat(fd, &st))
		return ck_fail(d, errno, "a new file: %s", strerror(errno));
	if ((st.st_uid != want->st_uid || st.st_gid != want->st_gid) &&
	    fchown(fd, want->st_uid, want->st_gid))
		return ck_fail(d, errno,
			       "a new file cannot have the owner and group of "
			       ".metadata, %u and %u: %s",
			       want->st_uid, want->st_gid, strerror(errno));
	if (fchmod(fd, want->st_mode & 0777))
		return ck_fail(d, errno, "a new file: %s", strerror(errno));
	rc = copy_acl(w, fd);
	return rc ? ck_fail(d, -rc, "the ACL of .metadata: %s", strerror(-rc))
		  : 0;
}

/* --- sealing ----------------------------------------------------------------- */

static int cut_seal(struct ck_shards *s, struct ck_cut *cut)
{
	struct ck_item_form *form = &cut->form;
	int fd = s->shards[cut->shard].target.fd;
	uint64_t data = cut->fpos + form->head.len;
	int rc = ck_item_form_sum(form, fd, data);

	if (rc == 0)
		rc = ck_pwrite_full(fd, form->head.data, form->head.len,
				    cut->fpos);
	if (rc == 0)
		rc = ck_pwrite_full(fd, form->tail.data, form->tail.len,
				    data + form->data_len);
	return rc;
}

int ck_shards_seal(const struct ck_writer *w, struct ck_shards *s,
		   struct ck_diag *d)
{
	int rc = 0;

	for (uint32_t i = 0; i < s->nshards; i++)
		ck_target_unmap(&s->shards[i].target);
	for (uint32_t i = 0; i < s->ncuts && !rc; i++)
		rc = cut_seal(s, &s->cuts[i]);
	if (rc)
		return ck_fail(d, -rc, "a new data file: %s", strerror(-rc));
	for (uint32_t i = 0; i < s->nshards && !rc; i++)
		rc = ck_file_own(w, s->shards[i].target.fd, d);
	return rc;
}

int ck_shards_sync(struct ck_shards *s, struct ck_diag *d)
{
	for (uint32_t i = 0; i < s->nshards; i++)
		if (fsync(s->shards[i].target.fd))
			return ck_fail(d, errno, "a new data file: fsync: %s",
				       strerror(errno));
	return 0;
}

/* --- names --------------------------------------------------------------------- */

int ck_file_link(const struct ck_writer *w, int fd, const char *name,
		 struct ck_diag *d)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, path, w->dirfd, name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	return ck_fail(d, errno, "%s: %s", name, strerror(errno));
}

static int shard_link(const struct ck_writer *w, uint64_t generation,
		      struct ck_shard *shard, struct ck_diag *d)
{
	char rank[24] = "";
	char hex[17], name[sizeof(shard->name)];
	int rc = -EEXIST;

	if (shard->rank != CK_NO_RANK)
		snprintf(rank, sizeof(rank), "%ju_", (uintmax_t)shard->rank);
	for (int i = 0; i < NAME_TRIES && rc == -EEXIST; i++) {
		rc = ck_random_hex(hex);
		if (rc)
			return ck_fail(d, -rc, "no random number");
		snprintf(name, sizeof(name), "__%.19sckptfs-%ju-%s.distcp",
			 rank, (uintmax_t)generation, hex);
		rc = ck_file_link(w, shard->target.fd, name, d);
	}
	if (rc == 0)
		memcpy(shard->name, name, sizeof(name));
	return rc;
}

int ck_shards_link(const struct ck_writer *w, uint64_t generation,
		   struct ck_shards *s, struct ck_diag *d)
{
	for (uint32_t i = 0; i < s->nshards; i++) {
		int rc = shard_link(w, generation, &s->shards[i], d);

		if (rc)
			return rc;
	}
	return 0;
}

void ck_shards_unlink(const struct ck_writer *w, struct ck_shards *s)
{
	for (uint32_t i = 0; i < s->nshards; i++) {
		if (s->shards[i].name[0])
			(void)unlinkat(w->dirfd, s->shards[i].name, 0);
		s->shards[i].name[0] = '\0';
	}
}
