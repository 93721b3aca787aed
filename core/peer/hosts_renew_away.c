/* SPDX-License-Identifier: MIT */
/*
 * hosts_renew_away: files that were nowhere until another job took over. No bytes of them
 * were read yet: if several hosts have one, their copies are compared before one of them is
 * chosen, as they are when a checkpoint is opened.
 */
#include "hosts_renew.h"

#include <errno.h>

/* --- what there is ----------------------------------------------------------------------- */

bool ck_renewal_is_away(const struct ck_hosts *h, uint32_t file)
{
	return ck_files_is_remote(h->set, file) &&
	       !ck_files_is_seen(h->set, file);
}

/* Files were asked for in their order. n: it was not, or not by this rank. */
static size_t index_of(const struct ck_renewal_rank *a, uint32_t file)
{
	size_t from = 0, end = a->n;

	while (a->there && from < end) {
		size_t mid = from + (end - from) / 2;

		if (a->files[mid] == file)
			return mid;
		if (a->files[mid] < file)
			from = mid + 1;
		else
			end = mid;
	}
	return a->n;
}

const struct ck_looked *ck_renewal_said_of(const struct ck_renewal *r,
					   uint32_t rank, uint32_t file)
{
	const struct ck_renewal_rank *a = &r->asked[rank];
	size_t i = index_of(a, file);

	return i < a->n ? &a->said[i] : NULL;
}

static bool is_usable(const struct ck_renewal *r, uint32_t rank, uint32_t file)
{
	const struct ck_looked *l = ck_renewal_said_of(r, rank, file);

	return l && l->seen && !l->trouble && !l->info.err &&
	       l->info.size >= ck_files_needed(r->hosts->set, file);
}

/* Of a host with several processes the first one has a copy. */
static bool is_copy(const struct ck_renewal *r, uint32_t rank, uint32_t file)
{
	return !r->hosts->hosts[rank].again && is_usable(r, rank, file);
}

/* --- comparing them --------------------------------------------------------------------- */

static void ask_digest(struct ck_renewal_rank *a, uint32_t file)
{
	size_t i = index_of(a, file);

	a->digests[a->ndigests] = (struct ck_hosts_digest){
		.number = a->said[i].number, .size = a->said[i].info.size
	};
	a->places[i] = ++a->ndigests;
}

/* Of one that has no place yet, if several ranks have it. */
static void ask_digests(struct ck_renewal *r, uint32_t file)
{
	const struct ck_hosts *h = r->hosts;
	uint32_t n = 0;

	if (!ck_renewal_is_away(h, file) || h->replicas == CK_REPLICAS_FIRST)
		return;
	for (uint32_t rank = 1; rank < h->n; rank++)
		n += is_copy(r, rank, file);
	for (uint32_t rank = 1; n > 1 && rank < h->n; rank++)
		if (is_copy(r, rank, file))
			ask_digest(&r->asked[rank], file);
}

static int digest(struct ck_hosts_task *t)
{
	const struct ck_renewal *r = t->arg;
	struct ck_renewal_rank *a = &r->asked[t->index];
	int rc = ck_hosts_digest(r->calls, t->index, t->hosts->replicas,
				 a->digests, a->ndigests);

	for (size_t i = 0; rc && i < a->ndigests; i++)
		a->digests[i].rc = rc;
	return rc;
}

/* All hosts at once, and each is asked for many at a time: they may be far. */
int ck_renewal_compare(struct ck_renewal *r)
{
	struct ck_hosts *h = r->hosts;
	ck_auto_free struct ck_hosts_task *tasks = calloc(h->n, sizeof(*tasks));

	if (!tasks)
		return -ENOMEM;
	for (uint32_t i = 0; i < h->n; i++) {
		struct ck_renewal_rank *a = &r->asked[i];

		a->digests = calloc(a->n + 1, sizeof(*a->digests));
		a->places = calloc(a->n + 1, sizeof(*a->places));
		if (!a->digests || !a->places)
			return -ENOMEM;
	}
	for (uint32_t file = 0; file < h->nfiles; file++)
		ask_digests(r, file);
	for (uint32_t i = 0; i < h->n; i++)
		tasks[i] = (struct ck_hosts_task){
			.hosts = h,
			.host = &h->hosts[i],
			.index = i,
			.arg = r,
			.wanted = r->asked[i].ndigests > 0
		};
	return ck_hosts_run(tasks, h->n, digest);
}

/* --- what is read ------------------------------------------------------------------------ */

/* NULL: it has failed, or its host has. */
static const struct ck_hosts_digest *digest_of(const struct ck_renewal *r,
					       uint32_t rank, uint32_t file)
{
	const struct ck_renewal_rank *a = &r->asked[rank];
	size_t place = a->places[index_of(a, file)];

	return place && a->digests[place - 1].rc == 0 ? &a->digests[place - 1]
						      : NULL;
}

static void add_side(const struct ck_renewal *r, uint32_t rank,
		     const struct ck_hosts_digest *d,
		     struct ck_hosts_conflict *out, unsigned side)
{
	out->of[side].host = ck_hosts_group_of(r->hosts, rank);
	out->of[side].size = d->size;
	memcpy(out->of[side].digest, d->digest, CK_COPY_DIGEST);
}

/* The other of two cannot be compared: this one is read, unless they differed before. */
static uint32_t uncompared(const struct ck_renewal *r, uint32_t rank,
			   uint32_t file, struct ck_hosts_conflict *out)
{
	const struct ck_hosts_conflict *c = ck_hosts_conflict_of(r->hosts,
								 file);

	if (!c)
		return rank;
	*out = *c;
	return r->hosts->n;
}

/* Which of two ranks is read, if they have the same; n: they have not, see *out. Of both no
 * bytes were read yet. One whose copy cannot be compared is not: that comes late. */
static uint32_t better(const struct ck_renewal *r, uint32_t one, uint32_t other,
		       uint32_t file, struct ck_hosts_conflict *out)
{
	const struct ck_hosts_digest *x = digest_of(r, one, file),
				     *y = digest_of(r, other, file);

	if (r->hosts->replicas == CK_REPLICAS_FIRST)
		return one;
	if (!y)
		return uncompared(r, one, file, out);
	if (!x)
		return uncompared(r, other, file, out);
	if (x->size == y->size &&
	    memcmp(x->digest, y->digest, CK_COPY_DIGEST) == 0)
		return one;
	*out = (struct ck_hosts_conflict){ .file = file };
	add_side(r, one, x, out, 0);
	add_side(r, other, y, out, 1);
	return r->hosts->n;
}

/* The first rank of the first host that counts where copies differ; n: none. */
static uint32_t preferred(const struct ck_renewal *r, uint32_t file)
{
	const struct ck_hosts *h = r->hosts;

	for (uint32_t i = 0; i < h->nprefer; i++) {
		uint32_t rank = h->groups[h->prefer[i]].first;

		if (is_usable(r, rank, file))
			return rank;
	}
	return h->n;
}

/* Which of them is read; n: none is preferred, and it is noted. */
static uint32_t settle(struct ck_renewal *r, const struct ck_hosts_conflict *c)
{
	uint32_t best = preferred(r, c->file);
	int rc = 0;

	if (best == r->hosts->n)
		rc = ck_hosts_conflicts_add(&r->conflicts, c);
	if (rc) /* then it is one that nobody has */
		ck_log("copies that differ: %s", strerror(-rc));
	return best;
}

/* The host is away, or cannot say now what it has. */
static bool is_unknown(const struct ck_renewal *r, uint32_t host, uint32_t file)
{
	uint32_t rank = r->hosts->groups[host].first;
	const struct ck_looked *l = ck_renewal_said_of(r, rank, file);

	return !r->asked[rank].there || (l && l->trouble);
}

/* Of a file whose copies differed in the job before: nothing says that one of them is
 * another one now. */
static bool is_unsettled(const struct ck_renewal *r,
			 const struct ck_hosts_conflict *c)
{
	return is_unknown(r, c->of[0].host, c->file) ||
	       is_unknown(r, c->of[1].host, c->file);
}

/* The first rank that has it, if all that have it have the same, as far as that can be
 * known; n: none. */
static uint32_t find_again(struct ck_renewal *r, uint32_t file)
{
	const struct ck_hosts *h = r->hosts;
	const struct ck_hosts_conflict *before = ck_hosts_conflict_of(h, file);
	struct ck_hosts_conflict c;
	uint32_t best = h->n;

	if (before && is_unsettled(r, before))
		return settle(r, before);
	for (uint32_t rank = 1; rank < h->n; rank++) {
		if (!is_copy(r, rank, file))
			continue;
		if (best == h->n)
			best = rank;
		else
			best = better(r, best, rank, file, &c);
		if (best == h->n)
			return settle(r, &c);
	}
	return best;
}

/* A file is read at one rank: what others may have of it comes late, and soon, whether it
 * was compared here or could not be. Nothing else brings it where its host is not back, for
 * when that was compared the file was nowhere. */
static void note_beside(struct ck_renewal *r, uint32_t read_at, uint32_t file)
{
	for (uint32_t rank = 1; rank < r->hosts->n; rank++) {
		const struct ck_looked *l = ck_renewal_said_of(r, rank, file);

		if (rank != read_at && l &&
		    (l->seen ? !l->info.err : l->trouble != 0))
			r->asked[rank].is_beside = true;
	}
}

int ck_renewal_place_first(struct ck_renewal *r, uint32_t file)
{
	uint32_t rank = find_again(r, file);
	struct ck_hosts_place place = { .file = file, .peer = rank };
	const struct ck_looked *l;
	int rc;

	if (rank == r->hosts->n)
		return 0;
	note_beside(r, rank, file);
	l = ck_renewal_said_of(r, rank, file);
	place.mtime = ck_hosts_nsec(l->info.mtime);
	rc = ck_hosts_tables_know(&r->at, &place);
	return rc ? rc
		  : ck_hosts_tables_use(&r->at, file, rank, l->number, true);
}
