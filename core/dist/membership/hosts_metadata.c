/* SPDX-License-Identifier: MIT */
/*
 * hosts_metadata: finds the metadata file. All hosts that have one must have
 * the same one, unless prefer= selects a host. The file of this host is used if
 * it has one, else that of the first host that does. All of it runs in the
 * opening thread; a host that goes down meanwhile is left out, and the search
 * starts again.
 */
#include "ckptfs/memory.h"
#include "hosts_internal.h"

#include <errno.h>
#include <stdio.h>

/* The metadata file of a process. */
struct copy {
	bool has;
	struct ck_name_stat stat;
	uint8_t digest[CK_COPY_DIGEST];
};

struct copies {
	struct ck_str name;
	uint64_t most;	/* maximum size in bytes */
	uint32_t n;	/* processes that have one */
	uint32_t first; /* the process whose file is used */
	mode_t closed;	/* mode bits that the other replicas remove */
	struct copy list[];
};

/* --- replicas ------------------------------------------------------------- */

static int look(struct ck_hosts_task *t)
{
	struct copies *all = t->arg;
	struct copy *copy = &all->list[t->index];
	int rc;

	rc = ck_calls_stat(t->hosts->calls, t->index, (struct ck_ids){ 0, 0 },
			   &all->name, 1, &copy->stat);
	if (rc == -ENODATA)
		return 0; /* the host does not have the directory */
	copy->has = rc == 0 && copy->stat.seen && !copy->stat.info.err &&
		    copy->stat.info.size <= all->most;
	if (rc == 0 && !copy->has && copy->stat.trouble)
		rc = -copy->stat.trouble;
	return rc;
}

static int digest(struct ck_hosts_task *t)
{
	struct copy *copy = &((struct copies *)t->arg)->list[t->index];
	struct ck_hosts_digest file = { .number = copy->stat.number,
					.size = copy->stat.info.size };
	int rc;

	if (!copy->has)
		return 0;
	rc = ck_hosts_digest(t->hosts->calls, t->index, CK_REPLICAS_FULL, &file,
			     1);
	memcpy(copy->digest, file.digest, CK_COPY_DIGEST);
	return rc ? rc : file.rc;
}

/* The first process has ended, by which all others are reached. */
static int fail_alone(const struct ck_hosts *h, struct ck_diag *d)
{
	return ck_fail(d, EIO, "%s: its process has ended", h->hosts[0].name);
}

/* Runs a pass over all processes. Files of a process that went down do not
 * count; an error of one that is up fails the pass. */
static int look_at_all(struct ck_hosts *h, struct copies *all,
		       struct ck_hosts_task *tasks,
		       int (*run)(struct ck_hosts_task *t), struct ck_diag *d)
{
	int rc = ck_hosts_each(h, run, all, tasks);

	if (rc)
		return ck_fail(d, -rc, "hosts: %s", strerror(-rc));
	if (!h->hosts[0].there)
		return fail_alone(h, d);
	all->n = 0;
	for (uint32_t i = 0; i < h->n; i++) {
		struct copy *copy = &all->list[i];

		copy->has = copy->has && h->hosts[i].there;
		all->n += copy->has;
		if (h->hosts[i].there && tasks[i].rc)
			return ck_fail(d, -tasks[i].rc, "%s: %.*s: %s",
				       h->hosts[i].name, (int)all->name.len,
				       all->name.p, strerror(-tasks[i].rc));
	}
	return 0;
}

/* Returns the process that speaks for a host: the first one that is up. */
static uint32_t speaker(const struct ck_hosts *h, uint32_t host)
{
	const struct ck_hosts_group *g = &h->groups[host];
	uint32_t i = g->first;

	while (i + 1 < g->first + g->n && !h->hosts[i].there)
		i++;
	return i;
}

/* An object that cannot be the metadata is an error, as it is on a single
 * host. */
static int check_copy(const struct ck_hosts *h, const struct copies *all,
		      uint32_t i, struct ck_diag *d)
{
	const struct ck_file_info *info = &all->list[i].stat.info;
	const char *host = h->hosts[i].name;

	if (!h->hosts[i].there || ck_file_is_missing(info))
		return 0;
	if (info->err)
		return ck_fail(d, EBADMSG, "%s: %.*s: %s", host,
			       (int)all->name.len, all->name.p,
			       info->why ? info->why : strerror(info->err));
	if (info->size > all->most)
		return ck_fail(d, EBADMSG,
			       "%s: %.*s: %ju bytes, expected at most %ju",
			       host, (int)all->name.len, all->name.p,
			       (uintmax_t)info->size, (uintmax_t)all->most);
	return 0;
}

/* Checks all replicas; with prefer= only those up to the host that is used. */
static int check_copies(const struct ck_hosts *h, const struct copies *all,
			struct ck_diag *d)
{
	int rc = 0;

	for (uint32_t k = 0; k < h->nprefer; k++) {
		uint32_t rank = speaker(h, h->prefer[k]);

		rc = check_copy(h, all, rank, d);
		if (rc || all->list[rank].has)
			return rc;
	}
	for (uint32_t i = 0; i < h->n && rc == 0; i++)
		rc = check_copy(h, all, i, d);
	return rc;
}

/* --- choice --------------------------------------------------------------- */

static const char *show_copy(const struct ck_hosts *h, const struct copies *all,
			     uint32_t i)
{
	const struct ck_file_info *info = &all->list[i].stat.info;
	return ck_shown("%s has %ju bytes of %s", h->hosts[i].name,
			(uintmax_t)info->size,
			ck_hosts_time(info->mtime.tv_sec));
}

static int differ(const struct ck_hosts *h, const struct copies *all,
		  const struct ck_replica_choice *c, struct ck_diag *d)
{
	return ck_fail(d, ESTALE, "%.*s differs between hosts: %s, %s",
		       (int)all->name.len, all->name.p,
		       show_copy(h, all, speaker(h, c->one)),
		       show_copy(h, all, speaker(h, c->other)));
}

/* Compares the replicas. list: the hosts whose replicas are used. */
static int compare(const struct ck_hosts *h, const struct copies *all,
		   struct ck_replica_choice *c, uint32_t *list,
		   struct ck_diag *d)
{
	ck_auto_free struct ck_file_copy *copies = calloc(h->ngroups,
							  sizeof(*copies));
	ck_auto_free uint64_t *loads = calloc(h->ngroups, sizeof(*loads));
	const struct ck_replica_query asked = {
		.copies = copies,
		.n = h->ngroups,
		.here = h->here,
		.prefer = h->prefer,
		.nprefer = h->nprefer,
		.compared = true,
		.loads = loads,
	};

	if (!copies || !loads)
		return ck_fail(d, ENOMEM, "out of memory");
	for (uint32_t i = 0; i < h->ngroups; i++) {
		const struct copy *copy = &all->list[speaker(h, i)];

		copies[i].has = copy->has;
		copies[i].size = copy->stat.info.size;
		memcpy(copies[i].digest, copy->digest, CK_COPY_DIGEST);
	}
	ck_replica_select(&asked, c, list);
	switch (c->outcome) {
	case CK_COPIES_FINE: return 0;
	case CK_COPIES_DIFFER: return differ(h, all, c, d);
	case CK_COPIES_NONE: break;
	}
	return ck_fail(d, ENOENT, "no host has a %.*s", (int)all->name.len,
		       all->name.p);
}

/* Joins the other replicas into *result. Returns the mode bits that they
 * remove. */
static mode_t join_copies(const struct ck_hosts *h, const struct copies *all,
			  const struct ck_replica_choice *c,
			  const uint32_t *list, struct ck_file_info *result)
{
	const struct ck_ids shown = { result->uid, result->gid };
	mode_t closed = 0;

	for (uint32_t k = 1; k < c->n; k++) {
		uint32_t rank = speaker(h, list[k]);
		const struct ck_file_info *info = &all->list[rank].stat.info;
		const struct ck_ids of = { info->uid, info->gid };

		result->mtime = ck_time_newest(result->mtime, info->mtime);
		closed |= 0777 & ~ck_rights_as(info->mode, of, shown);
	}
	result->mode &= ~closed;
	return closed;
}

/* --- reading -------------------------------------------------------------- */

/* Reads a whole file of a peer into new pages, which the caller owns. */
static int read_remote(struct ck_hosts *h, struct ck_location where,
		       uint64_t size, void **pages)
{
	struct ck_remote_client requester;
	int rc;

	*pages = ck_pages_alloc((size_t)size);
	if (!*pages)
		return -ENOMEM;
	ck_remote_client_init(&requester,
			      &(struct ck_routes){ .calls = h->calls,
						   .files = &where,
						   .n = 1 });
	rc = ck_hosts_read(&requester, 0, 0, size, *pages, NULL);
	ck_remote_client_fini(&requester);
	if (rc) {
		ck_pages_free(*pages, (size_t)size);
		*pages = NULL;
	}
	return rc;
}

/* Records the metadata for revalidation. */
static int note(struct ck_hosts *h, const struct copies *all,
		const struct ck_file_info *result)
{
	const struct copy *copy = &all->list[all->first];
	char *text = strndup(all->name.p, all->name.len);

	if (!text)
		return -ENOMEM;
	free(h->metadata.text);
	h->metadata.text = text;
	h->metadata.name = ck_str_from(text);
	h->metadata.size = result->size;
	h->metadata.mtime = copy->stat.info.mtime;
	memcpy(h->metadata.digest, copy->digest, CK_COPY_DIGEST);
	h->metadata.peer = all->first;
	h->metadata.access = (struct ck_file_access){ .mode = result->mode,
						      .uid = result->uid,
						      .gid = result->gid };
	h->elsewhere.metadata_closed = all->closed;
	return 0;
}

/* Reads the metadata of process i; not if it is on this host. */
static int take(struct ck_hosts *h, const struct copies *all, uint32_t i,
		struct ck_file_info *result, void **pages, struct ck_diag *d)
{
	const struct copy *copy = &all->list[i];
	int rc;

	if (i == 0)
		return 0;
	rc = read_remote(h, (struct ck_location){ i, copy->stat.number },
			 result->size, pages);
	h->hosts[i].there = ck_calls_is_up(h->calls, i);
	if (rc)
		return ck_fail(d, -rc, "%s: %.*s: %s", h->hosts[i].name,
			       (int)all->name.len, all->name.p, strerror(-rc));
	return 0;
}

/* --- search --------------------------------------------------------------- */

static int choose(struct ck_hosts *h, struct copies *all,
		  struct ck_hosts_task *tasks, struct ck_file_info *result,
		  void **pages, struct ck_diag *d)
{
	ck_auto_free uint32_t *list = calloc(h->ngroups, sizeof(*list));
	struct ck_replica_choice c;
	int rc = list ? look_at_all(h, all, tasks, look, d)
		      : ck_fail(d, ENOMEM, "out of memory");

	if (rc == 0)
		rc = check_copies(h, all, d);
	/* Also a single one: hosts that return later must have the same. */
	if (rc == 0 && all->n > 0)
		rc = look_at_all(h, all, tasks, digest, d);
	if (rc == 0)
		rc = compare(h, all, &c, list, d);
	if (rc)
		return rc;
	all->first = speaker(h, list[0]);
	*result = all->list[all->first].stat.info;
	all->closed = join_copies(h, all, &c, list, result);
	return take(h, all, all->first, result, pages, d);
}

int ck_hosts_changed(struct ck_remote_source *e, struct ck_file_access *now)
{
	const struct ck_hosts *h = (struct ck_hosts *)e;

	if (__atomic_load_n(&h->metadata.changed, __ATOMIC_RELAXED))
		return 1;
	*now = ck_file_access_noted(&h->metadata.access);
	return 0;
}

static int find(struct ck_remote_source *e, struct ck_str name, uint64_t most,
		bool is_metadata, struct ck_file_info *result, void **pages,
		struct ck_diag *d)
{
	struct ck_hosts *h = (struct ck_hosts *)e;
	ck_auto_free struct copies *all =
		calloc(1, sizeof(*all) + h->n * sizeof(all->list[0]));
	ck_auto_free struct ck_hosts_task *tasks = calloc(h->n, sizeof(*tasks));
	uint32_t there;
	int rc;

	if (!all || !tasks)
		return ck_fail(d, ENOMEM, "out of memory");
	all->name = name;
	all->most = most;
	/* Again without a process that went down before it could send its
	 * file. */
	do {
		there = ck_hosts_count_up(h);
		memset(all->list, 0, h->n * sizeof(all->list[0]));
		rc = choose(h, all, tasks, result, pages, d);
	} while (rc && h->hosts[0].there && ck_hosts_count_up(h) < there);
	if (rc == 0 && is_metadata)
		rc = note(h, all, result) ? ck_fail(d, ENOMEM, "out of memory")
					  : 0;
	return rc;
}

int ck_hosts_text(struct ck_remote_source *e, struct ck_str name, uint64_t most,
		  struct ck_file_info *result, void **pages, struct ck_diag *d)
{
	return find(e, name, most, false, result, pages, d);
}

int ck_hosts_metadata(struct ck_remote_source *e, struct ck_str name,
		      uint64_t most, struct ck_file_info *result, void **pages,
		      struct ck_diag *d)
{
	return find(e, name, most, true, result, pages, d);
}
