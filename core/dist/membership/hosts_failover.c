/* SPDX-License-Identifier: MIT */
/*
 * hosts_failover: moves a checkpoint to a new job. Each host of the new job is
 * queried for the files that it had, and for files that no host had so far. A
 * file that is unchanged since it was first looked up there is read there
 * again.
 *
 * Replicas are compared when the checkpoint is opened, and at no other time. A
 * file that no host had then is read on the first host that has it, or on the
 * first preferred one. Other replicas of it, and replicas that appear later,
 * are ignored until the next mount.
 *
 * A renewal lives during ck_hosts_renew(), in the revalidating thread:
 * requests, replies, new tables, and then the switch to them. Before the switch
 * it changes nothing.
 */
#include "ckptfs/table.h"
#include "hosts_internal.h"

#include <errno.h>

/* The requests to one rank, and its replies. */
struct renewal_rank {
	struct ck_str *names;
	uint32_t *files;
	struct ck_name_stat *reports;
	size_t n, cap_names, cap;
	size_t of_metadata; /* 1: the last name is the metadata */
	bool there;	    /* it has replied to all requests */
	bool is_back;	    /* it was not up in the former job */
};

struct renewal {
	struct ck_hosts *hosts;
	struct ck_calls *calls;
	const bool *there; /* by rank: it takes part in the new job */
	struct renewal_rank *by_rank; /* by rank */
	struct ck_hosts_tables at;    /* the result */
};

/* --- replies -------------------------------------------------------------- */

/* Returns true if no host had the file so far. */
static bool is_down(const struct ck_hosts *h, uint32_t file)
{
	return ck_files_is_remote(h->set, file) &&
	       !ck_files_is_seen(h->set, file);
}

/* Returns the reply of a rank for a file; NULL if it was not queried or did not
 * reply. The requests are in the order of the files. */
static const struct ck_name_stat *report_of(const struct renewal *r,
					    uint32_t rank, uint32_t file)
{
	const struct renewal_rank *a = &r->by_rank[rank];
	size_t at = 0;

	if (a->there)
		at = CK_COUNT_BEFORE(a->n, i, a->files[i] < file);
	return a->there && at < a->n && a->files[at] == file ? &a->reports[at]
							     : NULL;
}

/* --- requests ------------------------------------------------------------- */

/* Sets the name behind those of the requested files. */
static int set_name(struct renewal_rank *a, struct ck_str name)
{
	struct ck_str *names = ck_grow(a->names, &a->cap_names, a->n, 1,
				       sizeof(*names));

	if (!names)
		return -ENOMEM;
	a->names = names;
	names[a->n] = name;
	return 0;
}

static int request_file(struct renewal *r, uint32_t rank, uint32_t file)
{
	struct renewal_rank *a = &r->by_rank[rank];
	uint32_t *files = ck_grow(a->files, &a->cap, a->n, 1, sizeof(*files));
	int rc;

	if (!files)
		return -ENOMEM;
	a->files = files;
	rc = set_name(a, ck_files_info(r->hosts->set, file)->path);
	if (rc == 0)
		files[a->n++] = file;
	return rc;
}

/* Asks every rank of the new job for a file that no host had. */
static int request_down(struct renewal *r, uint32_t file)
{
	int rc = 0;

	if (!is_down(r->hosts, file) ||
	    ck_files_info(r->hosts->set, file)->path.len > CK_WIRE_NAME_MAX)
		return 0;
	for (uint32_t rank = 1; rank < r->hosts->n && rc == 0; rank++)
		if (r->by_rank[rank].there)
			rc = request_file(r, rank, file);
	return rc;
}

/* --- metadata ------------------------------------------------------------- */

/* Returns true if the rank was missing or down. This host observes its own
 * files itself. */
static bool is_back(const struct renewal *r, uint32_t rank)
{
	const struct ck_hosts *h = r->hosts;

	return rank && r->there[rank] &&
	       !(h->hosts[rank].there && ck_calls_is_up(h->calls, rank));
}

/* Asks a returning rank for its metadata, which may have changed while it was
 * down. With prefer= the metadata of other hosts does not count. The name
 * follows those of the files. */
static int request_metadata(struct renewal *r, uint32_t rank)
{
	struct ck_str name = r->hosts->metadata.name;
	struct renewal_rank *a = &r->by_rank[rank];
	int rc;

	if (!a->is_back || r->hosts->nprefer || name.len == 0)
		return 0;
	rc = set_name(a, name);
	a->of_metadata = rc == 0;
	return rc;
}

/* Returns 0 if the metadata is the same as that of this checkpoint; -ESTALE if
 * it is another one; else an error. The bytes are compared, whatever the
 * modification time is. */
static int compare_metadata(const struct renewal *r, uint32_t rank,
			    const struct ck_name_stat *l)
{
	const struct ck_hosts *h = r->hosts;
	struct ck_hosts_digest d = { .number = l->number,
				     .size = l->info.size };
	int rc;

	if (l->trouble)
		return -l->trouble;
	if (l->info.err || l->info.size != h->metadata.size)
		return -ESTALE;
	rc = ck_hosts_digest(r->calls, rank, CK_REPLICAS_FULL, &d, 1);
	if (rc || d.rc)
		return rc ? rc : d.rc;
	return memcmp(d.digest, h->metadata.digest, CK_COPY_DIGEST) ? -ESTALE
								    : 0;
}

/* A returning host must have the same metadata, or no metadata. */
static int check_metadata(const struct renewal *r, uint32_t rank)
{
	const struct ck_hosts *h = r->hosts;
	const struct renewal_rank *a = &r->by_rank[rank];
	const struct ck_name_stat *l = &a->reports[a->n];
	int rc;

	if (!a->of_metadata || (!l->seen && !l->trouble) ||
	    (l->seen && ck_file_is_missing(&l->info)))
		return 0;
	rc = compare_metadata(r, rank, l);
	if (rc == -ESTALE)
		ck_log("host %s: has another %s, and is not used",
		       h->hosts[rank].name, ck_show(h->metadata.name));
	else if (rc)
		ck_log("host %s: %s: %s; it is not used", h->hosts[rank].name,
		       ck_show(h->metadata.name), strerror(-rc));
	return rc;
}

/* --- sending -------------------------------------------------------------- */

static int choose(struct renewal *r)
{
	const struct ck_hosts_places *known = &r->hosts->at.known;
	size_t k = 0;
	int rc = 0;

	for (uint32_t file = 0; file < r->hosts->nfiles && rc == 0; file++) {
		for (; k < known->n && known->list[k].file == file && rc == 0;
		     k++)
			if (r->by_rank[known->list[k].peer].there)
				rc = request_file(r, known->list[k].peer, file);
		if (rc == 0)
			rc = request_down(r, file);
	}
	for (uint32_t rank = 0; rank < r->hosts->n && rc == 0; rank++)
		rc = request_metadata(r, rank);
	return rc;
}

/* A host without the directory has no files. */
static int stat_files(struct ck_hosts_task *t)
{
	const struct renewal *r = t->arg;
	struct renewal_rank *a = &r->by_rank[t->index];
	size_t n = a->n + a->of_metadata;
	int rc;

	a->reports = calloc(n + 1, sizeof(*a->reports));
	if (!a->reports)
		return -ENOMEM;
	rc = ck_calls_stat(r->calls, t->index, t->hosts->shown, a->names, n,
			   a->reports);
	if (rc && rc != -ENODATA)
		return rc;
	if (rc == 0)
		return check_metadata(r, t->index);
	memset(a->reports, 0, (n + 1) * sizeof(*a->reports));
	return 0;
}

/* A rank that does not reply takes no part. */
static int stat_all(struct renewal *r)
{
	struct ck_hosts *h = r->hosts;
	ck_auto_free struct ck_hosts_task *tasks = calloc(h->n, sizeof(*tasks));
	int rc;

	if (!tasks)
		return -ENOMEM;
	ck_hosts_tasks_init(h, r, tasks);
	for (uint32_t i = 0; i < h->n; i++)
		tasks[i].wanted = r->by_rank[i].there;
	rc = ck_hosts_run(tasks, h->n, stat_files);
	for (uint32_t i = 0; i < h->n; i++)
		r->by_rank[i].there &= tasks[i].rc == 0;
	return rc;
}

/* --- new locations -------------------------------------------------------- */

/* Records why a file has no location: it has changed, its host is not in the
 * job, or did not reply. */
static void leave_out(struct renewal *r, const struct ck_hosts_place *p)
{
	struct ck_location *at = &r->at.files[p->file];

	const struct ck_name_stat *l = report_of(r, p->peer, p->file);

	if (l && l->seen)
		*at = (struct ck_location){ p->peer, UINT32_MAX };
	else if (!r->there[p->peer])
		*at = (struct ck_location){ p->peer, 0 };
}

/* Adds the locations of a file that a host had when the checkpoint was opened.
 * Locations that have changed, or whose host does not reply, are left out. */
static int place_again(struct renewal *r, const struct ck_hosts_place *list,
		       size_t n)
{
	bool is_first = true;
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		const struct ck_name_stat *l = report_of(r, list[i].peer,
							 list[i].file);

		rc = ck_hosts_tables_know(&r->at, &list[i]);
		if (rc || !l || !l->seen ||
		    !ck_hosts_is_same(r->hosts, list[i].file, list[i].peer,
				      &l->info))
			continue;
		rc = ck_hosts_tables_use(&r->at, list[i].file, list[i].peer,
					 l->number, is_first);
		is_first = false;
	}
	if (is_first)
		leave_out(r, &list[0]);
	return rc;
}

static bool is_usable(const struct renewal *r, uint32_t rank, uint32_t file)
{
	const struct ck_name_stat *l = report_of(r, rank, file);

	return l && l->seen && !l->trouble && !l->info.err &&
	       l->info.size >= ck_files_needed(r->hosts->set, file);
}

/* Returns the rank where a file that no host had so far is read: the first
 * preferred one that has it, else the first one. The number of ranks if no rank
 * has it. */
static uint32_t first_usable(const struct renewal *r, uint32_t file)
{
	const struct ck_hosts *h = r->hosts;
	uint32_t rank = 1;

	for (uint32_t i = 0; i < h->nprefer; i++)
		if (is_usable(r, h->groups[h->prefer[i]].first, file))
			return h->groups[h->prefer[i]].first;
	while (rank < h->n && !is_usable(r, rank, file))
		rank++;
	return rank;
}

static int place_first(struct renewal *r, uint32_t file)
{
	uint32_t rank = first_usable(r, file);
	struct ck_hosts_place place = { .file = file, .peer = rank };
	const struct ck_name_stat *l;
	int rc;

	if (rank == r->hosts->n)
		return 0;
	l = report_of(r, rank, file);
	place.mtime = ck_hosts_nsec(l->info.mtime);
	rc = ck_hosts_tables_know(&r->at, &place);
	return rc ? rc
		  : ck_hosts_tables_use(&r->at, file, rank, l->number, true);
}

static int place_all(struct renewal *r)
{
	const struct ck_location no_location = { UINT32_MAX, 0 };
	const struct ck_hosts *h = r->hosts;
	const struct ck_hosts_places *known = &h->at.known;
	size_t from = 0, end;
	int rc = 0;

	for (uint32_t file = 0; file < h->nfiles && rc == 0; file++) {
		r->at.files[file] = no_location;
		for (end = from;
		     end < known->n && known->list[end].file == file;)
			end++;
		if (end > from)
			rc = place_again(r, known->list + from, end - from);
		else if (is_down(h, file))
			rc = place_first(r, file);
		from = end;
	}
	return rc;
}

/* --- switch to the new job ------------------------------------------------ */

/* Files that were unavailable are now those at their new location. */
static void set_back_all(const struct renewal *r)
{
	const struct ck_hosts *h = r->hosts;

	for (uint32_t file = 0; file < h->nfiles; file++) {
		uint32_t rank = h->at.files[file].peer;

		if (rank < h->n && is_down(h, file))
			ck_files_set_up(h->set, file,
					&report_of(r, rank, file)->info);
	}
}

/* Replies count as a revalidation. */
static void note_all(const struct renewal *r)
{
	for (uint32_t rank = 1; rank < r->hosts->n; rank++) {
		const struct renewal_rank *a = &r->by_rank[rank];

		for (size_t i = 0; a->there && i < a->n; i++)
			if (a->reports[i].seen && !a->reports[i].trouble &&
			    !is_down(r->hosts, a->files[i]))
				ck_hosts_note(r->hosts, a->files[i], rank,
					      &a->reports[i]);
	}
}

static void take_over(struct renewal *r)
{
	struct ck_hosts *h = r->hosts;

	ck_hosts_revalidation_stop(h);
	note_all(r);
	ck_hosts_tables_replace(h, &r->at, r->calls);
	for (uint32_t i = 0; i < h->n; i++)
		h->hosts[i].there = r->by_rank[i].there;
	ck_hosts_measure_again(h);
	set_back_all(r);
	ck_hosts_note_states(h);
}

static void fini(struct renewal *r)
{
	for (uint32_t i = 0; r->by_rank && i < r->hosts->n; i++) {
		free(r->by_rank[i].names);
		free(r->by_rank[i].files);
		free(r->by_rank[i].reports);
	}
	free(r->by_rank);
	ck_hosts_tables_fini(&r->at);
}

int ck_hosts_renew(struct ck_hosts *h, struct ck_calls *calls,
		   const bool *there)
{
	struct renewal r = { .hosts = h,
			     .calls = calls,
			     .there = there,
			     .by_rank = calloc(h->n, sizeof(*r.by_rank)),
			     .at.files = calloc(h->nfiles + 1UL,
						sizeof(*r.at.files)) };
	int rc = r.by_rank && r.at.files ? 0 : -ENOMEM;

	for (uint32_t i = 0; rc == 0 && i < h->n; i++) {
		r.by_rank[i].there = there[i];
		r.by_rank[i].is_back = is_back(&r, i);
	}
	if (rc == 0)
		rc = choose(&r);
	if (rc == 0)
		rc = stat_all(&r);
	if (rc == 0 && !r.by_rank[0].there)
		rc = -EIO;
	if (rc == 0)
		rc = place_all(&r);
	if (rc == 0)
		take_over(&r);
	fini(&r);
	return rc;
}
