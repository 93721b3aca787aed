/* SPDX-License-Identifier: MIT */
/*
 * hosts_late_place: copies that came late, and were compared, are used: tables of where
 * files are, and of what is known of their copies, are made anew.
 */
#include "hosts_late.h"

#include <errno.h>

struct placing {
	struct ck_hosts *hosts;
	struct ck_hosts_tables at;
	struct ck_hosts_copies copies;
	struct ck_hosts_unused unused;
	uint64_t *loads; /* by group: bytes that it has to serve */
	uint32_t *list;	 /* ranks of one file, in their order, n */
	uint32_t n;
};

/* Whether a place that is known is used in this job, and with which number. */
static bool is_used(struct ck_hosts *h, uint32_t file, uint32_t rank,
		    uint32_t *number)
{
	struct ck_whereabouts at;

	if (!h->hosts[rank].there)
		return false;
	for (uint32_t i = 0; ck_requester_place(&h->requester, file, i, &at);
	     i++) {
		*number = at.number;
		if (at.peer == rank && at.number != UINT32_MAX)
			return true;
	}
	return false;
}

/* Before those of hosts that have more to serve. */
static void insert(struct placing *p, uint32_t rank)
{
	const struct ck_hosts *h = p->hosts;
	uint64_t load = p->loads[ck_hosts_group_of(h, rank)];
	uint32_t at = p->n++;

	for (; at > 0 && load < p->loads[ck_hosts_group_of(h, p->list[at - 1])];
	     at--)
		p->list[at] = p->list[at - 1];
	p->list[at] = rank;
}

/* The rest is as it is when a checkpoint is opened: whose load a file is follows from who
 * has it, and not from who asks. */
static void add_load(struct placing *p, uint32_t file, bool is_here)
{
	const struct ck_hosts *h = p->hosts;
	uint32_t best = is_here ? h->here : h->ngroups;

	for (uint32_t i = 0; i < p->n; i++) {
		uint32_t host = ck_hosts_group_of(h, p->list[i]);

		if (h->hosts[p->list[i]].there &&
		    (best == h->ngroups || p->loads[host] < p->loads[best]))
			best = host;
	}
	if (best < h->ngroups)
		p->loads[best] += ck_files_info(h->set, file)->size;
}

static const struct ck_looked *said_of(const struct ck_hosts *h, uint32_t rank,
				       size_t i)
{
	return &h->late->of[rank].said[i];
}

static bool is_new(const struct ck_hosts *h, uint32_t rank, size_t i)
{
	const struct ck_late_rank *of = &h->late->of[rank];

	return of->is_late && of->said && of->verdicts[i] == CK_LATE_EQUAL;
}

/* Its place in the list of places, or, i < late->n, what was said of it. */
static int emit(struct placing *p, uint32_t file,
		const struct ck_hosts_place *k, uint32_t rank, size_t i,
		bool *is_first)
{
	struct ck_hosts *h = p->hosts;
	struct ck_hosts_place place = { .file = file, .peer = rank };
	uint32_t number = 0;
	bool used = true;
	int rc;

	if (k) {
		place.mtime = k->mtime;
		used = is_used(h, file, rank, &number);
	} else {
		place.mtime = ck_hosts_nsec(said_of(h, rank, i)->info.mtime);
		number = said_of(h, rank, i)->number;
	}
	rc = ck_hosts_tables_know(&p->at, &place);
	if (rc || !used)
		return rc;
	rc = ck_hosts_tables_use(&p->at, file, rank, number, *is_first);
	*is_first = false;
	return rc;
}

static int emit_all(struct placing *p, uint32_t file,
		    const struct ck_hosts_place *known, size_t nknown, size_t i)
{
	bool is_first = true;
	int rc = 0;

	p->at.files[file] = p->hosts->at.files[file]; /* if nobody is there */
	for (uint32_t m = 0; m < p->n && rc == 0; m++) {
		const struct ck_hosts_place *k = NULL;

		for (size_t j = 0; j < nknown && !k; j++)
			if (known[j].peer == p->list[m])
				k = &known[j];
		rc = emit(p, file, k, p->list[m], i, &is_first);
	}
	return rc;
}

/* What is known of those that there were. One that was alone had no need of it. */
static int keep_copies(struct placing *p, uint32_t file, uint32_t alone,
		       bool more)
{
	struct ck_hosts *h = p->hosts;
	struct ck_hosts_copies *copies = &p->copies;
	size_t n;
	const struct ck_hosts_copy *list = ck_hosts_copies_of(h, file, &n);
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = ck_hosts_copies_add(copies, file, list[i].peer,
					 list[i].access);
		if (rc == 0)
			copies->list[copies->n - 1].changed = list[i].changed;
	}
	if (n == 0 && more && ck_files_is_remote(h->set, file) && alone < h->n)
		rc = ck_hosts_copies_add(
			copies, file, alone,
			ck_file_access_noted(ck_files_access(h->set, file)));
	return rc;
}

/* i: of the file among the candidates; the number of these: it is none. */
static int place(struct placing *p, uint32_t file,
		 const struct ck_hosts_place *known, size_t nknown, size_t i)
{
	struct ck_hosts *h = p->hosts;
	bool is_there = i < h->late->n, more = false;
	int rc;

	p->n = 0;
	for (size_t k = 0; k < nknown; k++)
		p->list[p->n++] = known[k].peer;
	for (uint32_t rank = 1; is_there && rank < h->n; rank++)
		more |= is_new(h, rank, i);
	rc = keep_copies(p, file, nknown ? known[0].peer : h->n, more);
	for (uint32_t rank = 1; more && rank < h->n && rc == 0; rank++) {
		if (!is_new(h, rank, i))
			continue;
		insert(p, rank);
		rc = ck_hosts_copies_add(
			&p->copies, file, rank,
			ck_hosts_access(&said_of(h, rank, i)->info));
	}
	add_load(p, file, !ck_files_is_remote(h->set, file) && is_there);
	return rc ? rc : emit_all(p, file, known, nknown, i);
}

static int place_all(struct placing *p)
{
	const struct ck_hosts *h = p->hosts;
	const struct ck_hosts_places *known = &h->at.known;
	size_t from = 0, end, i = 0;
	int rc = 0;

	for (uint32_t file = 0; file < h->nfiles && rc == 0; file++) {
		bool is_there = i < h->late->n && h->late->files[i] == file;

		for (end = from;
		     end < known->n && known->list[end].file == file;)
			end++;
		rc = place(p, file, known->list + from, end - from,
			   is_there ? i : h->late->n);
		from = end;
		i += is_there;
	}
	return rc;
}

static bool was_compared(const struct ck_hosts *h, uint32_t host)
{
	uint32_t rank = h->groups[host].first;

	return h->late->of[rank].is_late && h->late->of[rank].said;
}

/* What hosts were refused before that were compared again does not count any more. */
static int place_unused(struct placing *p)
{
	const struct ck_hosts *h = p->hosts;
	const struct ck_hosts_unused *before = &h->shared.unused,
				     *now = &h->late->refused;
	struct ck_hosts_unused *out = &p->unused;

	out->cap = before->n + now->n;
	out->list = calloc(out->cap + 1, sizeof(*out->list));
	if (!out->list)
		return -ENOMEM;
	for (size_t i = 0; i < before->n; i++)
		if (!before->list[i].late ||
		    !was_compared(h, before->list[i].host))
			out->list[out->n++] = before->list[i];
	for (size_t i = 0; i < now->n; i++)
		out->list[out->n++] = now->list[i];
	return 0;
}

static void placing_fini(struct placing *p)
{
	ck_hosts_tables_fini(&p->at);
	free(p->copies.list);
	free(p->unused.list);
	free(p->loads);
	free(p->list);
}

static int placing_make(struct ck_hosts *h, struct placing *p)
{
	int rc;

	*p = (struct placing){ .hosts = h };
	p->at.files = calloc(h->nfiles + 1UL, sizeof(*p->at.files));
	p->loads = calloc(h->ngroups, sizeof(*p->loads));
	p->list = calloc(h->n, sizeof(*p->list));
	rc = p->at.files && p->loads && p->list ? 0 : -ENOMEM;
	if (rc == 0)
		rc = place_all(p);
	return rc ? rc : place_unused(p);
}

/* The first of a host, and how many more. */
static void log_refused(const struct ck_hosts *h, uint32_t host)
{
	const struct ck_hosts_unused *refused = &h->late->refused;
	const struct ck_hosts_unused_copy *first = NULL;
	size_t n = 0;

	for (size_t i = 0; i < refused->n; i++) {
		if (refused->list[i].host != host)
			continue;
		first = first ? first : &refused->list[i];
		n++;
	}
	if (first)
		ck_log("host %s: its copy of %s differs from that of host %s, "
		       "and is not used%s",
		       h->hosts[h->groups[host].first].name,
		       ck_show(ck_files_info(h->set, first->file)->path),
		       h->hosts[h->groups[first->other].first].name,
		       n == 1 ? ""
			      : ck_shown(", nor are those of %zu more files",
					 n - 1));
}

/* Who may read the file is what all copies say. A time that is newer than that which the
 * file has been shown with is not taken over: it would say that the file has changed. */
static void show_new(struct ck_hosts *h, uint32_t rank, size_t i)
{
	uint32_t file = h->late->files[i];

	ck_hosts_note(h, file, rank, said_of(h, rank, i));
	if (!ck_files_is_remote(h->set, file))
		ck_files_set_copied(h->set, file);
}

/* What is known so far goes with what was put together. */
static void share(struct ck_hosts_shared *s, struct placing *p)
{
	const struct ck_hosts_copies copies = s->copies;
	const struct ck_hosts_unused unused = s->unused;

	pthread_mutex_lock(&s->lock);
	s->copies = p->copies;
	s->unused = p->unused;
	pthread_mutex_unlock(&s->lock);
	p->copies = copies;
	p->unused = unused;
}

static void publish(struct ck_hosts *h, struct placing *p)
{
	ck_hosts_hearing_stop(h);
	share(&h->shared, p);
	ck_hosts_tables_replace(h, &p->at, h->calls);
	for (uint32_t rank = 1; rank < h->n; rank++)
		for (size_t i = 0; i < h->late->n; i++)
			if (is_new(h, rank, i))
				show_new(h, rank, i);
	for (uint32_t host = 0; host < h->ngroups; host++)
		log_refused(h, host);
}

/* Of whom nothing is left to be known. */
static bool is_settled(const struct ck_hosts *h, uint32_t rank)
{
	const struct ck_late_rank *of = &h->late->of[rank];

	for (size_t i = 0; of->said && i < h->late->n; i++)
		if (of->verdicts[i] == CK_LATE_UNKNOWN ||
		    of->verdicts[i] == CK_LATE_AGAIN)
			return false;
	return of->is_late && of->said;
}

static bool is_any_new(const struct ck_hosts *h)
{
	for (uint32_t rank = 1; rank < h->n; rank++)
		for (size_t i = 0; i < h->late->n; i++)
			if (is_new(h, rank, i))
				return true;
	return false;
}

static bool is_same_copy(const struct ck_hosts_unused_copy *a,
			 const struct ck_hosts_unused_copy *b)
{
	return a->file == b->file && a->host == b->host && a->size == b->size &&
	       a->other == b->other && a->other_size == b->other_size &&
	       memcmp(a->digest, b->digest, CK_COPY_DIGEST) == 0 &&
	       memcmp(a->other_digest, b->other_digest, CK_COPY_DIGEST) == 0;
}

/* The same copies were refused when these hosts were compared before. */
static bool is_told(const struct ck_hosts *h)
{
	const struct ck_hosts_unused *before = &h->shared.unused,
				     *now = &h->late->refused;
	size_t n = 0;

	for (size_t i = 0; i < before->n; i++) {
		if (!before->list[i].late ||
		    !was_compared(h, before->list[i].host))
			continue;
		if (n == now->n ||
		    !is_same_copy(&before->list[i], &now->list[n]))
			return false;
		n++;
	}
	return n == now->n;
}

/* Nothing is replaced where there is nothing new. */
int ck_hosts_late_settle(struct ck_hosts *h)
{
	struct placing p;
	int rc = 0;

	if (is_any_new(h) || !is_told(h)) {
		rc = placing_make(h, &p);
		if (rc == 0)
			publish(h, &p);
		placing_fini(&p);
	}
	for (uint32_t rank = 1; rank < h->n && rc == 0; rank++)
		h->hosts[rank].uncompared &= !is_settled(h, rank);
	return rc;
}
