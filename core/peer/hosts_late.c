/* SPDX-License-Identifier: MIT */
/*
 * hosts_late: copies that come late. A host that takes part again, or for the first time,
 * may have files that are read on others already. When the job has taken over they are
 * compared with those, as copies are when a checkpoint is opened, some at a time, and
 * those that are equal become further copies: from then on a file is read where least is
 * to be served, and on any other host if that fails.
 *
 * A copy that differs is refused, and named in the log and in `damage`. It is no conflict,
 * which would make the file an error: readers have bytes of it, and it can still be said
 * which ones they have. Nor is it used where its host is preferred, for who has read one
 * half of a file would get the other of another one. The next mount decides anew.
 *
 * What fails meanwhile says nothing of a copy: it is compared again after a pause.
 *
 * All is done by the thread that hears. Of a host with several processes the first one is
 * asked.
 */
#include "hosts_late.h"

#include <errno.h>

enum {
	AT_ONCE = 256,		 /* files */
	BYTES_AT_ONCE = 1 << 30, /* if all of them are compared */
	/* Milliseconds from one try to the next, twice as many each time: */
	PAUSE_FIRST = 2000,
	PAUSE_MOST = 5 * 60 * 1000,
};

/* Digests of some of the files, which one rank is asked for. */
struct ck_late_batch {
	size_t n;
	struct ck_hosts_digest list[AT_ONCE];
	uint32_t place
		[AT_ONCE]; /* by file: 1 more than in the list; 0: it is not */
};

void ck_hosts_late_drop(struct ck_hosts *h)
{
	struct ck_hosts_late *late = ck_steal(&h->late);

	for (uint32_t i = 0; late && i < h->n; i++) {
		free(late->of[i].said);
		free(late->of[i].verdicts);
	}
	if (late) {
		free(late->names);
		free(late->files);
		free(late->batches);
		free(late->refused.list);
	}
	free(late);
}

void ck_hosts_late_anew(struct ck_hosts *h)
{
	ck_hosts_late_drop(h);
	h->late_due = ck_msec_now();
	h->late_pause = 0;
}

/* It is tried again, though no other job takes over. */
static void put_off(struct ck_hosts *h)
{
	h->late_pause = h->late_pause ? ck_min(2 * h->late_pause, PAUSE_MOST)
				      : PAUSE_FIRST;
	h->late_due = ck_msec_now() + h->late_pause;
}

/* --- asking --------------------------------------------------------------------------- */

static bool is_late(const struct ck_hosts *h, uint32_t rank)
{
	const struct ck_hosts_host *host = &h->hosts[rank];

	return rank && host->uncompared && host->there && !host->again &&
	       ck_hosts_group_of(h, rank) != h->here;
}

static bool is_any_late(const struct ck_hosts *h)
{
	for (uint32_t rank = 1; rank < h->n; rank++)
		if (is_late(h, rank))
			return true;
	return false;
}

/* It is read somewhere, or was. */
static bool is_candidate(const struct ck_hosts *h, uint32_t file)
{
	const struct ck_file_info *info = ck_files_info(h->set, file);

	return ck_files_is_seen(h->set, file) && !info->err &&
	       info->path.len <= CK_WIRE_NAME_MAX;
}

static int names_take(const struct ck_hosts *h, struct ck_hosts_late *late)
{
	late->names = calloc(h->nfiles + 1UL, sizeof(*late->names));
	late->files = calloc(h->nfiles + 1UL, sizeof(*late->files));
	late->batches = calloc(h->n, sizeof(*late->batches));
	if (!late->names || !late->files || !late->batches)
		return -ENOMEM;
	for (uint32_t file = 0; file < h->nfiles; file++) {
		if (!is_candidate(h, file))
			continue;
		late->names[late->n] = ck_files_info(h->set, file)->path;
		late->files[late->n++] = file;
	}
	return 0;
}

static int look(struct ck_hosts_task *t)
{
	struct ck_hosts_late *late = t->arg;
	struct ck_late_rank *of = &late->of[t->index];
	int rc;

	of->said = calloc(late->n + 1, sizeof(*of->said));
	of->verdicts = calloc(late->n + 1, sizeof(*of->verdicts));
	if (!of->said || !of->verdicts)
		return -ENOMEM;
	rc = ck_calls_look(t->hosts->calls, t->index, t->hosts->shown,
			   late->names, late->n, of->said);
	return rc == -ENODATA ? 0 : rc; /* it does not have the directory */
}

/* Those that are late, and this host: what is here is compared with what they have. */
static int look_at_all(struct ck_hosts *h, struct ck_hosts_late *late)
{
	ck_auto_free struct ck_hosts_task *tasks = calloc(h->n, sizeof(*tasks));
	int rc;

	if (!tasks)
		return -ENOMEM;
	for (uint32_t i = 0; i < h->n; i++) {
		late->of[i].is_late = is_late(h, i);
		tasks[i] = (struct ck_hosts_task){
			.hosts = h,
			.host = &h->hosts[i],
			.index = i,
			.arg = late,
			.wanted = i == 0 || late->of[i].is_late
		};
	}
	rc = ck_hosts_run(tasks, h->n, look);
	for (uint32_t i = 0; i < h->n; i++)
		if (tasks[i].rc)
			free(ck_steal(&late->of[i].said));
	return rc;
}

static int begin(struct ck_hosts *h)
{
	int rc;

	h->late = calloc(1, sizeof(*h->late) + h->n * sizeof(h->late->of[0]));
	if (!h->late)
		return -ENOMEM;
	rc = names_take(h, h->late);
	return rc ? rc : look_at_all(h, h->late);
}

/* --- comparing -------------------------------------------------------------------------- */

/* Among its places, or not used since the checkpoint was opened. */
static bool is_known(const struct ck_hosts *h, uint32_t rank, uint32_t file)
{
	const struct ck_hosts_places *known = &h->at.known;
	const struct ck_hosts_unused *unused = &h->shared.unused;
	uint32_t host = ck_hosts_group_of(h, rank);

	for (size_t i = ck_hosts_places_of(known, file);
	     i < known->n && known->list[i].file == file; i++)
		if (ck_hosts_group_of(h, known->list[i].peer) == host)
			return true;
	for (size_t i = 0; i < unused->n; i++)
		if (!unused->list[i].late && unused->list[i].file == file &&
		    unused->list[i].host == host)
			return true;
	return false;
}

/* Who is asked for the digest of the copy that is read. n: nobody can be now. */
static struct ck_whereabouts reference(const struct ck_hosts *h, size_t i)
{
	const struct ck_whereabouts nobody = { h->n, 0 };
	uint32_t file = h->late->files[i];
	struct ck_whereabouts at = h->at.files[file];
	const struct ck_looked *l;

	if (ck_files_is_remote(h->set, file))
		return at.peer < h->n && at.number != UINT32_MAX &&
				       h->hosts[at.peer].there
			       ? at
			       : nobody;
	l = h->late->of[0].said ? &h->late->of[0].said[i] : NULL;
	if (!l || !l->seen || l->trouble || l->info.err ||
	    l->info.size != ck_files_info(h->set, file)->size ||
	    ck_hosts_nsec(l->info.mtime) !=
		    ck_hosts_nsec(ck_files_info(h->set, file)->mtime))
		return nobody;
	return (struct ck_whereabouts){ 0, l->number };
}

/* Where it is another file by now, nothing is like it any more. */
static bool has_changed(const struct ck_hosts *h, uint32_t file)
{
	return ck_files_is_remote(h->set, file) &&
	       h->at.files[file].number == UINT32_MAX;
}

static enum ck_late_verdict first_verdict(const struct ck_hosts *h,
					  uint32_t rank, size_t i)
{
	const struct ck_looked *l = &h->late->of[rank].said[i];
	uint32_t file = h->late->files[i];

	if (l->seen ? l->info.err != 0 : !l->trouble)
		return CK_LATE_NONE;
	if (is_known(h, rank, file))
		return CK_LATE_NONE;
	if (has_changed(h, file))
		return CK_LATE_UNKNOWN;
	if (!l->seen || l->trouble)
		return CK_LATE_AGAIN;
	if (l->info.size != ck_files_info(h->set, file)->size)
		return CK_LATE_DIFFERS;
	return h->replicas == CK_REPLICAS_FIRST ? CK_LATE_EQUAL
						: CK_LATE_COMPARE;
}

static void ask_for(struct ck_late_batch *b, size_t k, uint32_t number,
		    uint64_t size)
{
	if (b->place[k])
		return;
	b->list[b->n] = (struct ck_hosts_digest){ .number = number,
						  .size = size };
	b->place[k] = (uint32_t)++b->n;
}

/* What is to be asked of a file, the k-th of the batches. */
static void ask_about(const struct ck_hosts *h, size_t i, size_t k)
{
	struct ck_hosts_late *late = h->late;
	uint64_t size = ck_files_info(h->set, late->files[i])->size;
	struct ck_whereabouts with = reference(h, i);

	for (uint32_t rank = 1; rank < h->n; rank++) {
		struct ck_late_rank *of = &late->of[rank];
		enum ck_late_verdict v;

		if (!of->is_late || !of->said)
			continue;
		v = first_verdict(h, rank, i);
		if (v == CK_LATE_COMPARE && with.peer == h->n)
			v = CK_LATE_UNKNOWN;
		of->verdicts[i] = (uint8_t)v;
		if (v != CK_LATE_COMPARE)
			continue;
		ask_for(&late->batches[rank], k, of->said[i].number, size);
		ask_for(&late->batches[with.peer], k, with.number, size);
	}
}

static int digest(struct ck_hosts_task *t)
{
	struct ck_late_batch *b =
		&((struct ck_hosts_late *)t->arg)->batches[t->index];
	int rc = ck_hosts_digest(t->hosts->calls, t->index, t->hosts->replicas,
				 b->list, b->n);

	for (size_t i = 0; rc && i < b->n; i++)
		b->list[i].rc = rc;
	return rc;
}

static int digest_all(struct ck_hosts *h)
{
	ck_auto_free struct ck_hosts_task *tasks = calloc(h->n, sizeof(*tasks));

	if (!tasks)
		return -ENOMEM;
	for (uint32_t i = 0; i < h->n; i++)
		tasks[i] = (struct ck_hosts_task){
			.hosts = h,
			.host = &h->hosts[i],
			.index = i,
			.arg = h->late,
			.wanted = h->late->batches[i].n > 0
		};
	return ck_hosts_run(tasks, h->n, digest);
}

/* NULL: there is none. */
static const struct ck_hosts_digest *digest_of(const struct ck_late_batch *b,
					       size_t k)
{
	const struct ck_hosts_digest *d = b->place[k]
						  ? &b->list[b->place[k] - 1]
						  : NULL;

	return d && d->rc == 0 ? d : NULL;
}

/* Digests that are not there were not compared: sizes differ. */
static int refuse(struct ck_hosts *h, uint32_t rank, uint32_t other, size_t i,
		  size_t k)
{
	struct ck_hosts_late *late = h->late;
	const struct ck_hosts_digest *x = digest_of(&late->batches[rank], k),
				     *y = digest_of(&late->batches[other], k);
	struct ck_hosts_unused_copy *list =
		ck_grow(late->refused.list, &late->refused.cap, late->refused.n,
			1, sizeof(*list));
	struct ck_hosts_unused_copy *copy;

	if (!list)
		return -ENOMEM;
	late->refused.list = list;
	copy = &list[late->refused.n++];
	*copy = (struct ck_hosts_unused_copy){
		.file = late->files[i],
		.host = ck_hosts_group_of(h, rank),
		.size = late->of[rank].said[i].info.size,
		.late = true,
		.other = ck_hosts_group_of(h, other),
		.other_size = ck_files_info(h->set, late->files[i])->size,
	};
	if (x && y) {
		memcpy(copy->digest, x->digest, CK_COPY_DIGEST);
		memcpy(copy->other_digest, y->digest, CK_COPY_DIGEST);
	}
	return 0;
}

static enum ck_late_verdict last_verdict(const struct ck_hosts_late *late,
					 uint32_t rank, uint32_t other,
					 size_t k)
{
	const struct ck_hosts_digest *x = digest_of(&late->batches[rank], k),
				     *y = digest_of(&late->batches[other], k);

	if (!x || !y)
		return CK_LATE_AGAIN;
	return memcmp(x->digest, y->digest, CK_COPY_DIGEST) ? CK_LATE_DIFFERS
							    : CK_LATE_EQUAL;
}

/* Whose copy others are compared with; if that is down, by its size. */
static uint32_t holder(const struct ck_hosts *h, size_t i)
{
	const struct ck_hosts_places *known = &h->at.known;
	uint32_t file = h->late->files[i], peer = reference(h, i).peer;
	size_t first = ck_hosts_places_of(known, file);

	if (peer < h->n || !ck_files_is_remote(h->set, file))
		return peer < h->n ? peer : 0;
	return first < known->n ? known->list[first].peer : 0;
}

static int judge(struct ck_hosts *h, size_t i, size_t k)
{
	struct ck_hosts_late *late = h->late;
	uint32_t other = holder(h, i);
	int rc = 0;

	for (uint32_t rank = 1; rank < h->n && rc == 0; rank++) {
		struct ck_late_rank *of = &late->of[rank];

		if (!of->is_late || !of->said)
			continue;
		if (of->verdicts[i] == CK_LATE_COMPARE)
			of->verdicts[i] = (uint8_t)last_verdict(late, rank,
								other, k);
		if (of->verdicts[i] == CK_LATE_DIFFERS)
			rc = refuse(h, rank, other, i, k);
	}
	return rc;
}

/* Some more files. */
static int compare_some(struct ck_hosts *h)
{
	struct ck_hosts_late *late = h->late;
	size_t from = late->next, k = 0;
	uint64_t bytes = 0;
	int rc;

	memset(late->batches, 0, h->n * sizeof(*late->batches));
	for (; late->next < late->n && k < AT_ONCE && bytes < BYTES_AT_ONCE;
	     k++) {
		ask_about(h, late->next, k);
		if (h->replicas == CK_REPLICAS_FULL)
			bytes += ck_files_info(h->set, late->files[late->next])
					 ->size;
		late->next++;
	}
	rc = digest_all(h);
	for (k = 0; from + k < late->next && rc == 0; k++)
		rc = judge(h, from + k, k);
	return rc;
}

/* Whether a host has not said all that it was asked. */
static bool is_open(const struct ck_hosts *h)
{
	if (!h->late->of[0].said)
		return true;
	for (uint32_t rank = 1; rank < h->n; rank++) {
		const struct ck_late_rank *of = &h->late->of[rank];

		if (of->is_late && !of->said)
			return true;
		for (size_t i = 0; of->is_late && i < h->late->n; i++)
			if (of->verdicts[i] == CK_LATE_AGAIN)
				return true;
	}
	return false;
}

/* The next step. */
static int step(struct ck_hosts *h)
{
	int rc;

	if (!h->late)
		return begin(h);
	if (h->late->next < h->late->n)
		return compare_some(h);
	rc = ck_hosts_late_settle(h);
	if (rc == 0 && is_open(h))
		put_off(h);
	ck_hosts_late_drop(h);
	return rc;
}

/* After each time that another job has taken over, and again where something failed. */
static bool is_due(struct ck_hosts *h)
{
	bool due = h->late_due && ck_msec_now() >= h->late_due;

	if (due)
		h->late_due = 0;
	return due;
}

bool ck_hosts_compare(struct ck_hosts *h)
{
	int rc;

	if (!h->late && (!is_due(h) || !is_any_late(h)))
		return false;
	rc = step(h);
	if (rc) {
		ck_log("hosts: copies that came late: %s", strerror(-rc));
		ck_hosts_late_drop(h);
		put_off(h);
	}
	return h->late != NULL;
}
