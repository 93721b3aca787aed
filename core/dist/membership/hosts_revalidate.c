/* SPDX-License-Identifier: MIT */
/*
 * hosts_revalidate: revalidates files of other hosts: whether they have
 * changed, and who may read them. Each call of ck_hosts_revalidate() sends one
 * STAT per process for some of its files; the next call continues with the
 * files that follow. A process has at most one request in flight. The
 * revalidating thread sends and never blocks; the connection's thread applies
 * replies.
 */
#include "hosts_internal.h"

#include <errno.h>
#include <semaphore.h>

enum { AT_ONCE = 64 }; /* files in a request */

/* The request to one process. */
struct question {
	struct ck_call call; /* first */
	struct ck_hosts *hosts;
	struct ck_str names[AT_ONCE];
	/* Numbers in the ck_files; METADATA: the metadata file. */
	uint32_t numbers[AT_ONCE];
	struct ck_name_stat reports[AT_ONCE];
	size_t n;
	uint32_t next; /* the next file to be sent */
	sem_t free;    /* 1: no request is in flight */
};

enum { METADATA = UINT32_MAX };

struct ck_hosts_revalidation {
	uint32_t n;
	uint32_t here;		/* the next file of this host */
	struct question list[]; /* by process */
};

/* --- replies -------------------------------------------------------------- */

/* Applies a reply for metadata on another host. */
static void note_metadata(struct ck_hosts *h, const struct ck_name_stat *l)
{
	const mode_t closed = h->elsewhere.metadata_closed;
	const struct ck_file_access now = { .mode = l->info.mode & ~closed,
					    .uid = l->info.uid,
					    .gid = l->info.gid };

	const bool is_same = l->info.size == h->metadata.size &&
			     ck_hosts_nsec(l->info.mtime) ==
				     ck_hosts_nsec(h->metadata.mtime);

	__atomic_store_n(&h->metadata.changed, l->trouble == ESTALE || !is_same,
			 __ATOMIC_RELAXED);
	if (l->trouble == 0)
		ck_file_access_copy(&h->metadata.access, &now);
}

/* A transient error changes nothing. */
static void note(struct ck_hosts *h, uint32_t number, uint32_t peer,
		 const struct ck_name_stat *l)
{
	if (!l->seen || l->info.err || (l->trouble && l->trouble != ESTALE))
		return;
	if (number == METADATA)
		note_metadata(h, l);
	else
		ck_hosts_note(h, number, peer, l);
}

bool ck_hosts_is_same(const struct ck_hosts *h, uint32_t file, uint32_t peer,
		      const struct ck_file_info *reports)
{
	const struct ck_hosts_places *known = &h->at.known;

	for (size_t i = ck_hosts_places_of(known, file);
	     i < known->n && known->list[i].file == file; i++)
		if (known->list[i].peer == peer)
			return reports->err == 0 &&
			       reports->size ==
				       ck_files_info(h->set, file)->size &&
			       ck_hosts_nsec(reports->mtime) ==
				       known->list[i].mtime;
	return false;
}

void ck_hosts_note(struct ck_hosts *h, uint32_t file, uint32_t peer,
		   const struct ck_name_stat *reports)
{
	struct ck_name_stat l = *reports;

	if (!ck_hosts_is_same(h, file, peer, &l.info))
		l.trouble = ESTALE;
	if (ck_hosts_note_copy(h, file, peer, &l))
		return;
	ck_files_note_changed(h->set, file, l.trouble == ESTALE);
	if (l.trouble == 0)
		ck_files_note_access(h->set, file, &l.info);
}

static int call_done(struct ck_call *c, const struct ck_message *m, int rc)
{
	struct question *q = (struct question *)c;

	if (m)
		rc = ck_reply_stat(&c->query, m, q->reports);
	for (size_t i = 0; rc == 0 && i < q->n; i++)
		note(q->hosts, q->numbers[i], c->peer, &q->reports[i]);
	ck_query_fini(&c->query);
	sem_post(&q->free);
	return m ? rc : 0;
}

/* --- requests ------------------------------------------------------------- */

static void add(struct question *q, struct ck_str name, uint32_t number)
{
	q->names[q->n] = name;
	q->numbers[q->n++] = number;
}

/* Returns true if the process is the one that revalidates the file. */
static bool is_asked(const struct ck_hosts *h, uint32_t file, uint32_t rank)
{
	const struct ck_hosts_copy *list;
	size_t n;

	if (ck_files_info(h->set, file)->err || !ck_files_is_seen(h->set, file))
		return false;
	list = ck_hosts_copies_of(h, file, &n);
	for (size_t i = 0; i < n; i++)
		if (list[i].peer == rank)
			return true;
	return n == 0 && h->at.files[file].peer == rank &&
	       ck_files_is_remote(h->set, file);
}

/* Adds the next files of a process to its request. */
static void choose(struct ck_hosts *h, struct question *q, uint32_t rank)
{
	q->n = 0;
	if (h->metadata.peer && h->metadata.peer == rank)
		add(q, h->metadata.name, METADATA);
	for (uint32_t i = 0; i < h->nfiles && q->n < AT_ONCE; i++) {
		uint32_t number = q->next++ % h->nfiles;

		if (is_asked(h, number, rank))
			add(q, ck_files_info(h->set, number)->path, number);
	}
}

static void query(struct ck_hosts *h, struct question *q, uint32_t rank)
{
	size_t taken;

	choose(h, q, rank);
	if (q->n == 0 ||
	    ck_query_stat(&q->call.query, h->shown, q->names, q->n, &taken)) {
		sem_post(&q->free);
		return;
	}
	q->n = taken;
	q->hosts = h;
	q->call.peer = rank;
	q->call.done = call_done;
	ck_calls_send(h->calls, &q->call);
}

/* Stats files of this host that no other host has: data read together with
 * remote data may be read for long without a stat of them. */
static void stat_local(struct ck_hosts *h, uint32_t *next)
{
	for (uint32_t i = 0; i < AT_ONCE && i < h->nfiles; i++) {
		uint32_t number = (*next)++ % h->nfiles;
		size_t copies;

		(void)ck_hosts_copies_of(h, number, &copies);
		if (copies == 0 && !ck_files_is_remote(h->set, number))
			(void)!ck_files_check(h->set, number, NULL);
	}
}

void ck_hosts_revalidate(struct ck_hosts *h)
{
	struct ck_hosts_revalidation *g = __atomic_load_n(&h->revalidation,
							  __ATOMIC_ACQUIRE);

	if (!g)
		return; /* the checkpoint is being opened */
	ck_hosts_note_states(h);
	stat_local(h, &g->here);
	for (uint32_t i = 0; i < g->n; i++)
		if (h->hosts[i].there && ck_calls_is_up(h->calls, i) &&
		    sem_trywait(&g->list[i].free) == 0)
			query(h, &g->list[i], i);
}

/* --- beginning and end ---------------------------------------------------- */

int ck_hosts_revalidation_make(struct ck_hosts *h)
{
	struct ck_hosts_revalidation *g =
		calloc(1, sizeof(*g) + h->n * sizeof(g->list[0]));

	if (!g)
		return -ENOMEM;
	g->n = h->n;
	for (uint32_t i = 0; i < g->n; i++)
		sem_init(&g->list[i].free, 0, 1);
	__atomic_store_n(&h->revalidation, g, __ATOMIC_RELEASE);
	return 0;
}

static void wait_for(struct ck_hosts *h, struct question *q)
{
	while (sem_trywait(&q->free)) {
		ck_calls_drop(h->calls, &q->call);
		if (sem_wait(&q->free) == 0)
			break;
	}
}

void ck_hosts_revalidation_stop(struct ck_hosts *h)
{
	for (uint32_t i = 0; i < h->revalidation->n; i++) {
		wait_for(h, &h->revalidation->list[i]);
		sem_post(&h->revalidation->list[i].free);
	}
}

void ck_hosts_revalidate_end(struct ck_hosts *h)
{
	struct ck_hosts_revalidation *g = h->revalidation;

	if (!g)
		return;
	for (uint32_t i = 0; i < g->n; i++) {
		wait_for(h, &g->list[i]);
		sem_destroy(&g->list[i].free);
	}
	free(g);
	h->revalidation = NULL;
}
