/* SPDX-License-Identifier: MIT */
/*
 * hosts_gather: two passes over all hosts: STATs of all names, then digests of
 * files that several hosts have, and of the beginnings of longer replicas. One
 * process speaks for its host. The opening thread runs the passes; each process
 * has a thread of its own in a pass, which writes to that process's entries
 * only.
 */
#include "hosts_gather.h"

#include <errno.h>

/* --- metadata ------------------------------------------------------------- */

/* A name that is too long for a request is on this host only. */
static int names_take(const struct ck_hosts *h, struct ck_host_reports *g,
		      const struct ck_files *files)
{
	uint32_t n = ck_files_count(files);

	g->names = calloc(n + 1UL, sizeof(*g->names));
	g->numbers = calloc(n + 1UL, sizeof(*g->numbers));
	if (!g->names || !g->numbers)
		return -ENOMEM;
	for (uint32_t i = h->nfiles; i < n; i++) {
		struct ck_str path = ck_files_info(files, i)->path;

		if (path.len > CK_WIRE_NAME_MAX)
			continue;
		g->names[g->n] = path;
		g->numbers[g->n++] = i;
	}
	return 0;
}

/* -ENODATA: the host does not have the directory. */
static int query(struct ck_hosts_task *t)
{
	struct ck_host_reports *g = t->arg;
	struct ck_name_stat *reports = calloc(g->n + 1, sizeof(*reports));
	int rc = reports ? 0 : -ENOMEM;

	if (rc == 0)
		rc = ck_calls_stat(t->hosts->calls, t->index, g->shown,
				   g->names, g->n, reports);
	if (rc == 0)
		g->reports[t->index] = reports;
	else
		free(reports);
	return rc == -ENODATA ? 0 : rc;
}

static bool show_as(struct ck_host_reports *g, const struct ck_file_info *info)
{
	g->shown = (struct ck_ids){ info->uid, info->gid };
	return true;
}

/* The first usable file determines the owner: on this host, else on the first
 * other one. */
static void show_as_first(const struct ck_hosts *h, struct ck_host_reports *g,
			  const struct ck_files *files)
{
	bool is = false;

	for (size_t i = 0; i < g->n && !is; i++) {
		if (ck_host_reports_is_here(files, g->numbers[i]))
			is = show_as(g, ck_files_info(files, g->numbers[i]));
		for (uint32_t rank = 1; rank < h->n && !is; rank++)
			if (g->reports[rank] &&
			    ck_host_report_is_usable(&g->reports[rank][i]))
				is = show_as(g, &g->reports[rank][i].info);
	}
}

int ck_gather(struct ck_hosts *h, const struct ck_files *files,
	      struct ck_host_reports *g, struct ck_diag *d)
{
	ck_auto_free struct ck_hosts_task *tasks = calloc(h->n, sizeof(*tasks));
	int rc;

	g->reports = calloc(h->n, sizeof(*g->reports));
	g->copies = calloc(h->ngroups, sizeof(*g->copies));
	g->loads = calloc(h->ngroups, sizeof(*g->loads));
	g->rank_loads = calloc(h->n, sizeof(*g->rank_loads));
	g->chosen = calloc(h->ngroups, sizeof(*g->chosen));
	rc = tasks && g->reports && g->copies && g->loads && g->rank_loads &&
			     g->chosen
		     ? names_take(h, g, files)
		     : -ENOMEM;
	if (rc == 0)
		rc = ck_hosts_each(h, query, g, tasks);
	if (rc)
		return ck_fail(d, -rc, "hosts: %s", strerror(-rc));
	for (uint32_t i = 1; i < h->n; i++)
		if (h->hosts[i].there && tasks[i].rc)
			return ck_fail(d, -tasks[i].rc, "%s: %s",
				       h->hosts[i].name,
				       strerror(-tasks[i].rc));
	if (!g->is_shown)
		show_as_first(h, g, files);
	return 0;
}

void ck_host_reports_fini(struct ck_host_reports *g, const struct ck_hosts *h)
{
	for (uint32_t i = 0; g->reports && i < h->n; i++)
		free(g->reports[i]);
	for (uint32_t i = 0; g->copies && i < h->ngroups; i++)
		free(g->copies[i]);
	free(g->reports);
	free(g->copies);
	free(g->loads);
	free(g->rank_loads);
	free(g->chosen);
	free(g->names);
	free(g->numbers);
}

/* --- digests -------------------------------------------------------------- */

bool ck_host_report_is_usable(const struct ck_name_stat *l)
{
	return l->seen && !l->info.err;
}

bool ck_host_reports_is_here(const struct ck_files *files, uint32_t number)
{
	return ck_files_is_seen(files, number) &&
	       !ck_files_info(files, number)->err;
}

/* Returns the first process of a host that is up and has replied; h->n if no
 * process has. */
static uint32_t speaker(const struct ck_hosts *h,
			const struct ck_host_reports *g, uint32_t host)
{
	const struct ck_hosts_group *group = &h->groups[host];

	for (uint32_t i = group->first; i < group->first + group->n; i++)
		if (h->hosts[i].there && g->reports[i])
			return i;
	return h->n;
}

/* Sets which files a host has. For this host, the local stat counts. */
static int copies_take(struct ck_hosts *h, struct ck_host_reports *g,
		       const struct ck_files *files, uint32_t host)
{
	uint32_t rank = speaker(h, g, host);
	struct ck_file_copy *list = calloc(g->n + 1, sizeof(*list));

	g->copies[host] = list;
	for (size_t i = 0; list && i < g->n; i++) {
		if (host == h->here) {
			list[i].has = ck_host_reports_is_here(files,
							      g->numbers[i]);
			list[i].size =
				ck_files_info(files, g->numbers[i])->size;
		} else if (rank < h->n) {
			list[i].has =
				ck_host_report_is_usable(&g->reports[rank][i]);
			list[i].size = g->reports[rank][i].info.size;
		}
	}
	return list ? 0 : -ENOMEM;
}

static bool has_several(const struct ck_hosts *h,
			const struct ck_host_reports *g, size_t i)
{
	unsigned n = 0;

	for (uint32_t host = 0; host < h->ngroups; host++)
		n += g->copies[host][i].has;
	return n > 1;
}

/* Computes the digests of a host. A replica that cannot be read for its digest
 * is unread. */
static int compare_host(struct ck_hosts *h, struct ck_host_reports *g,
			uint32_t host, uint32_t rank)
{
	ck_auto_free struct ck_hosts_digest *list = calloc(g->n + 1,
							   sizeof(*list));
	struct ck_file_copy *copies = g->copies[host];
	ck_auto_free size_t *index = calloc(g->n + 1, sizeof(*index));
	size_t n = 0;
	int rc;

	if (!list || !index)
		return -ENOMEM;
	for (size_t i = 0; i < g->n; i++) {
		if (!copies[i].has || !has_several(h, g, i))
			continue;
		list[n] = (struct ck_hosts_digest){
			.number = g->reports[rank][i].number,
			.size = copies[i].size
		};
		index[n++] = i;
	}
	rc = ck_hosts_digest(h->calls, rank, h->replicas, list, n);
	for (size_t k = 0; rc == 0 && k < n; k++) {
		size_t i = index[k];

		memcpy(copies[i].digest, list[k].digest, CK_COPY_DIGEST);
		copies[i].unread = list[k].rc;
		if (list[k].rc)
			g->reports[rank][i].trouble = -list[k].rc;
	}
	return rc;
}

/* Calls work() if the task's process speaks for its host. */
static int if_speaker(const struct ck_hosts_task *t,
		      int (*work)(struct ck_hosts *h, struct ck_host_reports *g,
				  uint32_t host, uint32_t rank))
{
	for (uint32_t host = 0; host < t->hosts->ngroups; host++)
		if (speaker(t->hosts, t->arg, host) == t->index)
			return work(t->hosts, t->arg, host, t->index);
	return 0;
}

static int compare(struct ck_hosts_task *t)
{
	return if_speaker(t, compare_host);
}

uint64_t ck_host_reports_longest(const struct ck_hosts *h,
				 const struct ck_host_reports *g, size_t i)
{
	uint64_t longest = 0;

	for (uint32_t host = 0; host < h->ngroups; host++)
		if (g->copies[host][i].has && !g->copies[host][i].unread)
			longest = ck_max(longest, g->copies[host][i].size);
	return longest;
}

static bool is_longest(const struct ck_hosts *h,
		       const struct ck_host_reports *g, size_t i, uint32_t host)
{
	const struct ck_file_copy *copy = &g->copies[host][i];

	return copy->has && !copy->unread &&
	       copy->size == ck_host_reports_longest(h, g, i);
}

/* Returns true if the host has the longest replica, and no host before it has
 * an equal one: one of several equal replicas is enough. */
static bool is_first_longest(const struct ck_hosts *h,
			     const struct ck_host_reports *g, size_t i,
			     uint32_t host)
{
	if (!is_longest(h, g, i, host))
		return false;
	for (uint32_t other = 0; other < host; other++)
		if (is_longest(h, g, i, other) &&
		    memcmp(g->copies[other][i].digest,
			   g->copies[host][i].digest, CK_COPY_DIGEST) == 0)
			return false;
	return true;
}

/* Digests of longer replicas, up to the size of shorter ones on another
 * host. */
struct beginnings {
	struct ck_hosts_digest *list;
	size_t *index;
	size_t n;
};

static void beginnings_find(const struct ck_hosts *h,
			    const struct ck_host_reports *g, uint32_t host,
			    uint32_t other, uint32_t rank,
			    struct beginnings *out)
{
	const struct ck_file_copy *shorter = g->copies[other];

	out->n = 0;
	for (size_t i = 0; i < g->n; i++) {
		if (!shorter[i].has || shorter[i].unread ||
		    shorter[i].size == g->copies[host][i].size ||
		    !is_first_longest(h, g, i, host))
			continue;
		out->list[out->n] = (struct ck_hosts_digest){
			.number = g->reports[rank][i].number,
			.size = shorter[i].size,
		};
		out->index[out->n++] = i;
	}
}

/* Marks the replicas of other hosts that are the beginning of a longer one of
 * this host. */
static int compare_beginnings(struct ck_hosts *h, struct ck_host_reports *g,
			      uint32_t host, uint32_t rank)
{
	ck_auto_free struct ck_hosts_digest *list = calloc(g->n + 1,
							   sizeof(*list));
	ck_auto_free size_t *index = calloc(g->n + 1, sizeof(*index));
	struct beginnings b = { list, index, 0 };
	int rc = list && index ? 0 : -ENOMEM;

	for (uint32_t other = 0; other < h->ngroups && rc == 0; other++) {
		struct ck_file_copy *shorter = g->copies[other];

		beginnings_find(h, g, host, other, rank, &b);
		rc = ck_hosts_digest(h->calls, rank, h->replicas, b.list, b.n);
		for (size_t k = 0; k < b.n && rc == 0; k++)
			if (b.list[k].rc == 0 &&
			    memcmp(b.list[k].digest, shorter[b.index[k]].digest,
				   CK_COPY_DIGEST) == 0)
				__atomic_store_n(&shorter[b.index[k]].begins,
						 true, __ATOMIC_RELAXED);
	}
	return rc;
}

static int beginnings(struct ck_hosts_task *t)
{
	return if_speaker(t, compare_beginnings);
}

/* Returns true if there is a file whose end is needed and whose replicas have
 * different sizes. */
static bool has_short(const struct ck_hosts *h, const struct ck_host_reports *g,
		      const struct ck_files *files)
{
	for (size_t i = 0; i < g->n; i++)
		for (uint32_t host = 0;
		     host < h->ngroups &&
		     ck_files_needs_end(files, g->numbers[i]);
		     host++)
			if (g->copies[host][i].has &&
			    g->copies[host][i].size <
				    ck_host_reports_longest(h, g, i))
				return true;
	return false;
}

/* Replicas of a host that has gone down do not count, except files that this
 * host has alone. */
static void note_unread(const struct ck_hosts *h, struct ck_host_reports *g,
			uint32_t host)
{
	if (speaker(h, g, host) < h->n)
		return;
	for (size_t i = 0; i < g->n; i++)
		g->copies[host][i].unread = host != h->here ||
					    has_several(h, g, i);
}

/* Returns true if a replica cannot be opened now. Where digests are made, they
 * detect it. */
static bool is_troubled(const struct ck_hosts *h,
			const struct ck_host_reports *g,
			const struct ck_files *files, uint32_t host, size_t i)
{
	if (host == h->here)
		return ck_files_trouble(files, g->numbers[i]) != 0;
	return g->reports[speaker(h, g, host)][i].trouble != 0;
}

/* Does not use a replica that cannot be opened now if another host has one. */
static void leave_troubled(const struct ck_hosts *h, struct ck_host_reports *g,
			   const struct ck_files *files)
{
	for (uint32_t host = 0; host < h->ngroups; host++)
		for (size_t i = 0; i < g->n; i++)
			g->copies[host][i].has &= !has_several(h, g, i) ||
						  !is_troubled(h, g, files,
							       host, i);
}

/* Returns the first error of a process that is up. */
static int first_of(const struct ck_hosts *h, const struct ck_hosts_task *tasks)
{
	int rc = 0;

	for (uint32_t i = 0; i < h->n && rc == 0; i++)
		if (h->hosts[i].there)
			rc = tasks[i].rc;
	return rc;
}

int ck_gather_replicas(struct ck_hosts *h, struct ck_host_reports *g,
		       const struct ck_files *files)
{
	ck_auto_free struct ck_hosts_task *tasks = calloc(h->n, sizeof(*tasks));
	int rc = tasks ? 0 : -ENOMEM;

	for (uint32_t host = 0; host < h->ngroups && rc == 0; host++)
		rc = copies_take(h, g, files, host);
	if (rc == 0 && h->replicas == CK_REPLICAS_FIRST)
		leave_troubled(h, g, files);
	if (rc || h->replicas == CK_REPLICAS_FIRST)
		return rc;
	rc = ck_hosts_each(h, compare, g, tasks);
	if (rc == 0)
		rc = first_of(h, tasks);
	if (rc == 0 && has_short(h, g, files)) {
		rc = ck_hosts_each(h, beginnings, g, tasks);
		if (rc == 0)
			rc = first_of(h, tasks);
	}
	for (uint32_t host = 0; host < h->ngroups && rc == 0; host++)
		note_unread(h, g, host);
	for (uint32_t host = 0; host < h->ngroups && rc == 0; host++)
		for (size_t i = 0; i < g->n; i++)
			g->copies[host][i].has &= !g->copies[host][i].unread;
	return rc;
}
