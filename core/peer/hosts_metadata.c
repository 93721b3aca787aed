/* SPDX-License-Identifier: MIT */
/*
 * hosts_metadata: every host that has a metadata file has to have the same one. It is
 * this host's if it has one, else that of the first that does.
 */
#include "ckptfs/memory.h"
#include "hosts_internal.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

enum { DIGEST = 16 }; /* bytes */

/* What a host has. */
struct copy {
	bool has;
	struct ck_looked looked;
	uint8_t digest[DIGEST]; /* of the digests of its parts */
};

struct copies {
	struct ck_str name;
	uint32_t n; /* hosts that have one */
	struct copy list[];
};

/* --- who has one -------------------------------------------------------------------- */

static int look(struct ck_hosts_task *t)
{
	struct copies *all = t->arg;
	struct copy *copy = &all->list[t->index];
	int rc;

	if (t->host->again)
		return 0;
	rc = ck_calls_look(t->hosts->calls, t->host->rank,
			   (struct ck_ids){ 0, 0 }, &all->name, 1,
			   &copy->looked);
	if (rc == -ENODATA)
		return 0; /* it does not have the directory */
	copy->has = rc == 0 && copy->looked.seen && !copy->looked.info.err;
	if (rc == 0 && !copy->has && copy->looked.trouble)
		rc = -copy->looked.trouble;
	return rc;
}

static int take_digest(const struct ck_ask *a, const struct ck_message *m,
		       void *digest)
{
	return ck_take_digest(a, m, digest);
}

static int digest_part(struct ck_hosts_task *t, struct ck_wire_run part,
		       struct ck_hasher *sum)
{
	uint8_t digest[DIGEST];
	struct ck_ask a;
	int rc = ck_ask_digest(&a, &part, 1);

	if (rc)
		return rc;
	rc = ck_calls_wait(t->hosts->calls, t->host->rank, &a, take_digest,
			   digest);
	ck_ask_fini(&a);
	if (rc == 0)
		ck_hasher_add(sum, (struct ck_str){ (char *)digest, DIGEST });
	return rc;
}

static int digest(struct ck_hosts_task *t)
{
	struct copy *copy = &((struct copies *)t->arg)->list[t->index];
	uint64_t size = copy->looked.info.size;
	struct ck_hasher *sum = ck_hasher_make(0);
	int rc = sum ? 0 : -ENOMEM;

	for (uint64_t at = 0; copy->has && rc == 0 && at < size;
	     at += CK_WIRE_DIGEST_MAX)
		rc = digest_part(
			t,
			(struct ck_wire_run){
				copy->looked.number, at,
				ck_min(size - at, CK_WIRE_DIGEST_MAX) },
			sum);
	if (rc == 0)
		ck_hasher_sum128(sum, copy->digest);
	ck_hasher_free(sum);
	return rc;
}

/* One of a host that is gone by now does not count; that it cannot be told of another
 * whether it has one, does. */
static int look_at_all(struct ck_hosts *h, struct copies *all,
		       struct ck_hosts_task *tasks,
		       int (*run)(struct ck_hosts_task *t), struct ck_diag *d)
{
	int rc = ck_hosts_each(h, 0, run, all, tasks);

	if (rc)
		return ck_fail(d, -rc, "hosts: %s", strerror(-rc));
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

/* --- whether they are the same --------------------------------------------------------- */

static bool is_same(const struct copy *a, const struct copy *b)
{
	return a->looked.info.size == b->looked.info.size &&
	       memcmp(a->digest, b->digest, DIGEST) == 0;
}

static const char *show_copy(const struct ck_hosts *h, const struct copies *all,
			     uint32_t i)
{
	const struct ck_file_info *info = &all->list[i].looked.info;
	char time[32] = "?";
	struct tm tm;

	if (gmtime_r(&info->mtime.tv_sec, &tm))
		(void)strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return ck_shown("%s has %ju bytes of %s", h->hosts[i].name,
			(uintmax_t)info->size, time);
}

static uint32_t first_that_has(const struct copies *all, uint32_t n)
{
	uint32_t i = 0;

	while (i < n && !all->list[i].has)
		i++;
	return i;
}

static int compare(struct ck_hosts *h, const struct copies *all, uint32_t first,
		   struct ck_diag *d)
{
	for (uint32_t i = first + 1; i < h->n; i++)
		if (all->list[i].has &&
		    !is_same(&all->list[first], &all->list[i]))
			return ck_fail(
				d, ESTALE, "%.*s differs between hosts: %s, %s",
				(int)all->name.len, all->name.p,
				show_copy(h, all, first), show_copy(h, all, i));
	return 0;
}

/* --- bringing it ------------------------------------------------------------------------ */

/* All bytes of a file of a peer, in pages. */
static int bring(struct ck_hosts *h, struct ck_whereabouts where, uint64_t size,
		 void **pages)
{
	struct ck_requester requester;
	int rc;

	*pages = ck_pages_alloc((size_t)size);
	if (!*pages)
		return -ENOMEM;
	ck_requester_init(&requester, h->calls, &where, 1);
	rc = ck_hosts_bring(&requester, 0, 0, size, *pages);
	ck_requester_fini(&requester);
	if (rc) {
		ck_pages_free(*pages, (size_t)size);
		*pages = NULL;
	}
	return rc;
}

static int take(struct ck_hosts *h, const struct copies *all, uint32_t i,
		struct ck_file_info *said, void **pages, struct ck_diag *d)
{
	const struct copy *copy = &all->list[i];
	int rc;

	*said = copy->looked.info;
	if (i == 0)
		return 0;
	h->metadata.name = all->name;
	h->metadata.rank = h->hosts[i].rank;
	h->metadata.access = (struct ck_file_access){ .mode = said->mode,
						      .uid = said->uid,
						      .gid = said->gid };
	rc = bring(h,
		   (struct ck_whereabouts){ h->hosts[i].rank,
					    copy->looked.number },
		   said->size, pages);
	if (rc)
		return ck_fail(d, -rc, "%s: %.*s: %s", h->hosts[i].name,
			       (int)all->name.len, all->name.p, strerror(-rc));
	return 0;
}

/* --- all of it ---------------------------------------------------------------------------- */

static int choose(struct ck_hosts *h, struct copies *all,
		  struct ck_hosts_task *tasks, struct ck_file_info *said,
		  void **pages, struct ck_diag *d)
{
	int rc = look_at_all(h, all, tasks, look, d);
	uint32_t first;

	if (rc == 0 && all->n > 1)
		rc = look_at_all(h, all, tasks, digest, d);
	if (rc)
		return rc;
	first = first_that_has(all, h->n);
	if (first == h->n)
		return ck_fail(d, ENOENT, "no host has a %.*s",
			       (int)all->name.len, all->name.p);
	rc = compare(h, all, first, d);
	return rc ? rc : take(h, all, first, said, pages, d);
}

int ck_hosts_changed(struct ck_elsewhere *e, struct ck_file_access *now)
{
	const struct ck_hosts *h = (struct ck_hosts *)e;

	if (__atomic_load_n(&h->metadata.changed, __ATOMIC_RELAXED))
		return 1;
	*now = ck_file_access_noted(&h->metadata.access);
	return 0;
}

int ck_hosts_metadata(struct ck_elsewhere *e, struct ck_str name,
		      struct ck_file_info *said, void **pages,
		      struct ck_diag *d)
{
	struct ck_hosts *h = (struct ck_hosts *)e;
	ck_auto_free struct copies *all =
		calloc(1, sizeof(*all) + h->n * sizeof(all->list[0]));
	ck_auto_free struct ck_hosts_task *tasks = calloc(h->n, sizeof(*tasks));

	if (!all || !tasks)
		return ck_fail(d, ENOMEM, "out of memory");
	all->name = name;
	return choose(h, all, tasks, said, pages, d);
}
