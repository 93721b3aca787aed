/* SPDX-License-Identifier: MIT */
/*
 * hosts_files: assigns each data file to hosts when the checkpoint is opened. A
 * file of this host is read here. Of other hosts the one with the least bytes
 * to serve is read first; the others are for failover (replica_select.h). All
 * of it runs in the opening thread.
 */
#include "hosts_gather.h"

#include <errno.h>
#include <stdio.h>

/* --- choosing ------------------------------------------------------------- */

/* Returns true if no process of the host is up. */
static bool is_away(const struct ck_hosts *h, uint32_t host)
{
	const struct ck_hosts_group *group = &h->groups[host];

	for (uint32_t i = group->first; i < group->first + group->n; i++)
		if (h->hosts[i].there)
			return false;
	return true;
}

static bool is_any_away(const struct ck_hosts *h)
{
	for (uint32_t host = 0; host < h->ngroups; host++)
		if (is_away(h, host))
			return true;
	return false;
}

/* Returns the most useful report of other hosts about a file that cannot be
 * used: a file that cannot be opened now, else an object that is not a data
 * file. NULL if no host has anything. */
static const struct ck_name_stat *fault_of(const struct ck_hosts *h,
					   const struct ck_host_reports *g,
					   size_t i)
{
	const struct ck_name_stat *fault = NULL;

	for (uint32_t rank = 1; rank < h->n; rank++) {
		const struct ck_name_stat *l = g->reports[rank]
						       ? &g->reports[rank][i]
						       : NULL;

		if (l && l->trouble)
			return l;
		if (l && !fault && !ck_file_is_missing(&l->info))
			fault = l;
	}
	return fault;
}

/* Records the fault of an unusable file: the fault at some host, or that a host
 * that is down may have it. Otherwise the fault of this host stays. */
static void settle_fault(const struct ck_hosts *h,
			 const struct ck_host_reports *g, size_t i,
			 struct ck_files *files)
{
	uint32_t number = g->numbers[i];
	const struct ck_name_stat *l = fault_of(h, g, i);
	struct ck_file_info fault = { 0 };

	if (l && l->trouble) {
		fault.err = l->trouble;
	} else if (is_any_away(h)) {
		ck_files_set_down(files, number);
		return;
	} else {
		if (!l || !ck_files_is_seen(files, number) ||
		    !ck_file_is_missing(ck_files_info(files, number)))
			return;
		fault = l->info;
	}
	ck_files_set_remote(files, number, &fault);
}

static const char *show_copy(const struct ck_hosts *h,
			     const struct ck_host_reports *g, size_t i,
			     uint32_t host)
{
	const struct ck_file_copy *copy = &g->copies[host][i];
	char hex[2 * CK_COPY_DIGEST + 1];

	for (unsigned k = 0; k < CK_COPY_DIGEST; k++)
		snprintf(hex + 2UL * k, 3, "%02x", copy->digest[k]);
	return ck_shown(
		"%s has %ju bytes, XXH3-128 %s%s",
		h->hosts[h->groups[host].first].name, (uintmax_t)copy->size,
		h->replicas == CK_REPLICAS_FULL ? "" : "of a sample ", hex);
}

static const char *show_difference(const struct ck_hosts *h,
				   const struct ck_host_reports *g, size_t i,
				   const struct ck_replica_choice *c)
{
	return ck_shown("%s: %s; %s", ck_file_why_differs(),
			show_copy(h, g, i, c->one),
			show_copy(h, g, i, c->other));
}

/* --- locations ------------------------------------------------------------ */

static bool has_copy(const struct ck_hosts *h, const struct ck_host_reports *g,
		     uint32_t rank, size_t i, uint64_t size)
{
	const struct ck_name_stat *l = g->reports[rank] ? &g->reports[rank][i]
							: NULL;

	return l && h->hosts[rank].there && ck_host_report_is_usable(l) &&
	       l->info.size == size;
}

/* Returns the process of a host with the least bytes to serve; h->n if no
 * process can. */
static uint32_t rank_of(const struct ck_hosts *h,
			const struct ck_host_reports *g, uint32_t host,
			size_t i)
{
	const struct ck_hosts_group *group = &h->groups[host];
	uint64_t size = g->copies[host][i].size;
	uint32_t best = h->n;

	for (uint32_t r = group->first; r < group->first + group->n; r++)
		if (has_copy(h, g, r, i, size) &&
		    (best == h->n || g->rank_loads[r] < g->rank_loads[best]))
			best = r;
	return best;
}

/* Adds a location for this job and for later ones. */
static int add_place(struct ck_hosts *h, const struct ck_host_reports *g,
		     size_t i, uint32_t rank, bool is_first)
{
	const struct ck_name_stat *l = &g->reports[rank][i];
	const struct ck_hosts_place place = { g->numbers[i], rank,
					      ck_hosts_nsec(l->info.mtime) };
	int rc = ck_hosts_tables_know(&h->at, &place);

	return rc ? rc
		  : ck_hosts_tables_use(&h->at, place.file, rank, l->number,
					is_first);
}

/* Adds the locations of all processes of a host, the best one first. is_first:
 * the best one is the file's first location. */
static int add_places(struct ck_hosts *h, const struct ck_host_reports *g,
		      size_t i, uint32_t host, bool is_first)
{
	const struct ck_hosts_group *group = &h->groups[host];
	uint32_t best = rank_of(h, g, host, i);
	int rc;

	if (best == h->n)
		return 0;
	rc = add_place(h, g, i, best, is_first);
	for (uint32_t r = group->first; r < group->first + group->n && rc == 0;
	     r++)
		if (r != best && has_copy(h, g, r, i, g->copies[host][i].size))
			rc = add_place(h, g, i, r, false);
	return rc;
}

/* --- all of one file ------------------------------------------------------ */

/* Joins the replicas in use into *info: the r bits that they remove, and their
 * newest time. */
static int join_copies(struct ck_hosts *h, const struct ck_host_reports *g,
		       size_t i, uint32_t n, struct ck_file_info *info)
{
	bool first_is_here = g->chosen[0] == h->here;
	int rc = 0;

	for (uint32_t k = 0; k < n && rc == 0; k++) {
		uint32_t rank = rank_of(h, g, g->chosen[k], i);
		const struct ck_file_info *reports;
		struct ck_file_access access;

		if (rank == h->n || (k == 0 && first_is_here))
			continue;
		reports = &g->reports[rank][i].info;
		access = ck_hosts_access(reports);
		info->mtime = ck_time_newest(info->mtime, reports->mtime);
		if (k > 0)
			info->closed |= ck_hosts_closed(&access, g->shown);
		if (n > 1)
			rc = ck_hosts_copies_add(&h->copies, g->numbers[i],
						 rank, access);
	}
	return rc;
}

/* A file of this host is read here, whatever others have, until it fails. */
static int use_here(struct ck_hosts *h, const struct ck_host_reports *g,
		    size_t i, uint32_t n, struct ck_files *files)
{
	struct ck_file_info others = { 0 };
	int rc = join_copies(h, g, i, n, &others);

	if (rc || n == 1)
		return rc;
	for (uint32_t k = 1; k < n && rc == 0; k++)
		rc = add_places(h, g, i, g->chosen[k], k == 1);
	if (rc)
		return rc;
	ck_files_set_copied(files, g->numbers[i]);
	ck_files_set_newest(files, g->numbers[i], others.mtime);
	ck_files_note_others(files, g->numbers[i], others.closed);
	return 0;
}

static int use_remote(struct ck_hosts *h, const struct ck_host_reports *g,
		      size_t i, uint32_t n, struct ck_files *files)
{
	uint32_t rank = rank_of(h, g, g->chosen[0], i);
	struct ck_file_info info = g->reports[rank][i].info;
	int rc = join_copies(h, g, i, n, &info);

	for (uint32_t k = 0; k < n && rc == 0; k++)
		rc = add_places(h, g, i, g->chosen[k], k == 0);
	if (rc == 0)
		ck_files_set_remote(files, g->numbers[i], &info);
	return rc;
}

static int use(struct ck_hosts *h, struct ck_host_reports *g, size_t i,
	       const struct ck_replica_choice *c, struct ck_files *files)
{
	uint64_t size = g->copies[c->server][i].size;
	uint32_t rank = rank_of(h, g, c->server, i);
	int rc;

	rc = g->chosen[0] == h->here ? use_here(h, g, i, c->n, files)
				     : use_remote(h, g, i, c->n, files);
	g->loads[c->server] += size;
	if (rank < h->n)
		g->rank_loads[rank] += size;
	return rc;
}

/* Returns a positive errno if the host cannot read its replica now; 0 if it
 * can, as far as is known. */
static int why_unread(const struct ck_hosts *h, const struct ck_host_reports *g,
		      size_t i, uint32_t host, const struct ck_files *files)
{
	const struct ck_hosts_group *group = &h->groups[host];
	int err = 0;

	if (host == h->here)
		err = ck_files_trouble(files, g->numbers[i]);
	for (uint32_t r = group->first; r < group->first + group->n && !err;
	     r++)
		if (g->reports[r])
			err = g->reports[r][i].trouble;
	return err;
}

static bool is_chosen(const struct ck_host_reports *g, uint32_t n,
		      uint32_t host)
{
	for (uint32_t k = 0; k < n; k++)
		if (g->chosen[k] == host)
			return true;
	return false;
}

/* Records replicas that are not used. */
static int note_unused(struct ck_hosts *h, const struct ck_host_reports *g,
		       size_t i, const struct ck_replica_query *asked,
		       uint32_t n, const struct ck_files *files)
{
	for (uint32_t host = 0; host < h->ngroups; host++) {
		const struct ck_file_copy *copy = &asked->copies[host];
		int err = why_unread(h, g, i, host, files);
		struct ck_hosts_unused_copy *list;

		if (is_chosen(g, n, host) || (!copy->has && !err))
			continue;
		list = ck_grow(h->unused.list, &h->unused.cap, h->unused.n, 1,
			       sizeof(*list));
		if (!list)
			return -ENOMEM;
		h->unused.list = list;
		list[h->unused.n++] = (struct ck_hosts_unused_copy){
			.file = g->numbers[i],
			.host = host,
			.err = err,
			.size = copy->size,
			.needed = asked->needed,
		};
	}
	return 0;
}

/* Records that replicas differ. If the end of the file is needed, one replica
 * is read until the checkpoint is open: it determines which tensors are
 * errors. */
static void set_differs(struct ck_hosts *h, const struct ck_host_reports *g,
			size_t i, const struct ck_replica_choice *c,
			struct ck_files *files)
{
	const char *how = show_difference(h, g, i, c);
	uint32_t file = g->numbers[i], rank = rank_of(h, g, c->one, i);
	const struct ck_name_stat *l;

	if (!ck_files_needs_end(files, file)) {
		ck_files_set_differs(files, file, how);
		return;
	}
	if (c->one != h->here && rank < h->n) {
		l = &g->reports[rank][i];
		h->at.files[file] = (struct ck_location){ rank, l->number };
		ck_files_set_remote(files, file, &l->info);
	}
	ck_files_note_differs(files, file, how);
}

static void note_short(struct ck_host_reports *g, size_t i)
{
	if (g->too_short++ == 0)
		g->first_short = i;
}

/* Returns the bytes of a file that must exist. If its end is needed, those of
 * the longest replica, provided that the others are its beginning; else 0. */
static uint64_t needed(const struct ck_hosts *h,
		       const struct ck_host_reports *g, size_t i,
		       const struct ck_files *files)
{
	uint64_t longest = ck_host_reports_longest(h, g, i);

	if (!ck_files_needs_end(files, g->numbers[i]))
		return ck_files_needed(files, g->numbers[i]);
	for (uint32_t host = 0; host < h->ngroups; host++) {
		const struct ck_file_copy *copy = &g->copies[host][i];

		if (copy->has && copy->size < longest && !copy->begins &&
		    h->replicas != CK_REPLICAS_FIRST)
			return 0;
	}
	return longest;
}

static int settle(struct ck_hosts *h, struct ck_host_reports *g, size_t i,
		  struct ck_file_copy *copies, struct ck_files *files)
{
	const struct ck_replica_query asked = {
		.copies = copies,
		.n = h->ngroups,
		.here = h->here,
		.prefer = h->prefer,
		.nprefer = h->nprefer,
		.needed = needed(h, g, i, files),
		.compared = h->replicas != CK_REPLICAS_FIRST,
		.loads = g->loads,
	};
	struct ck_replica_choice c;
	int rc;

	for (uint32_t host = 0; host < h->ngroups; host++) {
		copies[host] = g->copies[host][i];
		copies[host].has &= host == h->here ||
				    rank_of(h, g, host, i) < h->n;
	}
	ck_replica_select(&asked, &c, g->chosen);
	if (c.too_short < h->ngroups)
		note_short(g, i);
	switch (c.outcome) {
	case CK_COPIES_FINE:
		rc = use(h, g, i, &c, files);
		return rc ? rc : note_unused(h, g, i, &asked, c.n, files);
	case CK_COPIES_DIFFER: set_differs(h, g, i, &c, files); break;
	case CK_COPIES_NONE:
		if (!ck_host_reports_is_here(files, g->numbers[i]))
			settle_fault(h, g, i, files);
		break;
	}
	return 0;
}

static void log_short(const struct ck_host_reports *g,
		      const struct ck_files *files)
{
	if (g->too_short)
		ck_log("%s: a copy that ends before its items do is not "
		       "used%s",
		       ck_show(ck_files_info(files, g->numbers[g->first_short])
				       ->path),
		       g->too_short == 1 ? ""
					 : ck_shown(", and %zu more files",
						    g->too_short - 1));
}

/* Extends the table to files that were added since. */
static int room_make(struct ck_hosts *h, const struct ck_files *files)
{
	uint32_t n = ck_files_count(files);
	struct ck_location *list = realloc(h->at.files,
					   (n + 1UL) * sizeof(*list));

	if (!list)
		return -ENOMEM;
	memset(list + h->nfiles, 0, (n + 1UL - h->nfiles) * sizeof(*list));
	h->at.files = list;
	h->nfiles = n;
	return 0;
}

static int settle_all(struct ck_hosts *h, struct ck_host_reports *g,
		      struct ck_files *files)
{
	ck_auto_free struct ck_file_copy *copies = calloc(h->ngroups,
							  sizeof(*copies));
	int rc = copies ? ck_gather_replicas(h, g, files) : -ENOMEM;

	if (rc == 0)
		rc = room_make(h, files);
	for (size_t i = 0; rc == 0 && i < g->n; i++)
		rc = settle(h, g, i, copies, files);
	if (rc == 0)
		log_short(g, files);
	return rc;
}

/* Uses the tables without a lock: only the opening thread reads yet. */
static void use_all(struct ck_hosts *h, struct ck_files *files)
{
	h->requester.routes.files = h->at.files;
	h->requester.routes.n = h->nfiles;
	h->requester.routes.others = h->at.others.list;
	h->requester.routes.nothers = h->at.others.n;
	ck_files_set_stats(files, h->elsewhere.stats);
	ck_files_set_reader(files, &h->reader);
}

int ck_hosts_files(struct ck_remote_source *e, struct ck_files *files,
		   const struct ck_ids *shown, struct ck_diag *d)
{
	struct ck_hosts *h = (struct ck_hosts *)e;
	struct ck_host_reports g = { .is_shown = shown != NULL };
	int rc;

	if (shown)
		g.shown = *shown;
	rc = ck_gather(h, files, &g, d);

	if (rc == 0) {
		rc = settle_all(h, &g, files);
		if (rc)
			ck_fail(d, -rc, "hosts: %s", strerror(-rc));
	}
	ck_host_reports_fini(&g, h);
	if (rc)
		return rc;
	h->shown = g.shown;
	use_all(h, files);
	return 0;
}

int ck_hosts_opened(struct ck_remote_source *e, struct ck_files *files,
		    bool *partly)
{
	struct ck_hosts *h = (struct ck_hosts *)e;

	for (uint32_t i = 0; i < h->nfiles; i++)
		if (ck_files_differs(files, i))
			ck_files_set_differs(files, i,
					     ck_files_differs(files, i));
	h->set = files;
	*partly = h->names.known && is_any_away(h);
	ck_hosts_note_states(h);
	if (!h->let_wait)
		ck_files_set_reader(files, NULL);
	return ck_hosts_revalidation_make(h);
}
