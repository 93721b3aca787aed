/* SPDX-License-Identifier: MIT */
/* hosts_gather: see hosts_gather.h. */
#include "hosts_gather.h"

#include <errno.h>

/* --- asking ----------------------------------------------------------------------------- */

/* A name that is longer than may be asked for is nowhere else. */
static int names_take(struct ck_gathered *g, const struct ck_files *files)
{
	uint32_t n = ck_files_count(files);

	g->names = calloc(n + 1UL, sizeof(*g->names));
	g->numbers = calloc(n + 1UL, sizeof(*g->numbers));
	if (!g->names || !g->numbers)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		struct ck_str path = ck_files_info(files, i)->path;

		if (path.len > CK_WIRE_NAME_MAX)
			continue;
		g->names[g->n] = path;
		g->numbers[g->n++] = i;
	}
	return 0;
}

/* -ENODATA: it does not have the directory. */
static int ask(struct ck_hosts_task *t)
{
	struct ck_gathered *g = t->arg;
	struct ck_looked *said = calloc(g->n + 1, sizeof(*said));
	int rc = said ? 0 : -ENOMEM;

	if (rc == 0)
		rc = ck_calls_look(t->hosts->calls, t->index, g->shown,
				   g->names, g->n, said);
	if (rc == 0)
		g->said[t->index] = said;
	else
		free(said);
	return rc == -ENODATA ? 0 : rc;
}

int ck_gather(struct ck_hosts *h, const struct ck_files *files,
	      struct ck_gathered *g, struct ck_diag *d)
{
	ck_auto_free struct ck_hosts_task *tasks = calloc(h->n, sizeof(*tasks));
	int rc;

	g->said = calloc(h->n, sizeof(*g->said));
	g->copies = calloc(h->ngroups, sizeof(*g->copies));
	g->loads = calloc(h->ngroups, sizeof(*g->loads));
	g->rank_loads = calloc(h->n, sizeof(*g->rank_loads));
	g->chosen = calloc(h->ngroups, sizeof(*g->chosen));
	rc = tasks && g->said && g->copies && g->loads && g->rank_loads &&
			     g->chosen
		     ? names_take(g, files)
		     : -ENOMEM;
	if (rc == 0)
		rc = ck_hosts_each(h, ask, g, tasks);
	if (rc)
		return ck_fail(d, -rc, "hosts: %s", strerror(-rc));
	for (uint32_t i = 1; i < h->n; i++)
		if (h->hosts[i].there && tasks[i].rc)
			return ck_fail(d, -tasks[i].rc, "%s: %s",
				       h->hosts[i].name,
				       strerror(-tasks[i].rc));
	return 0;
}

void ck_gathered_fini(struct ck_gathered *g, const struct ck_hosts *h)
{
	for (uint32_t i = 0; g->said && i < h->n; i++)
		free(g->said[i]);
	for (uint32_t i = 0; g->copies && i < h->ngroups; i++)
		free(g->copies[i]);
	free(g->said);
	free(g->copies);
	free(g->loads);
	free(g->rank_loads);
	free(g->chosen);
	free(g->names);
	free(g->numbers);
}

/* --- comparing ---------------------------------------------------------------------------- */

bool ck_gathered_is_usable(const struct ck_looked *l)
{
	return l->seen && !l->info.err;
}

bool ck_gathered_is_here(const struct ck_files *files, uint32_t number)
{
	return ck_files_is_seen(files, number) &&
	       !ck_files_info(files, number)->err;
}

/* The rank that speaks for a host; n: none of them has said anything. */
static uint32_t speaker(const struct ck_hosts *h, const struct ck_gathered *g,
			uint32_t host)
{
	const struct ck_hosts_group *group = &h->groups[host];

	for (uint32_t i = group->first; i < group->first + group->n; i++)
		if (h->hosts[i].there && g->said[i])
			return i;
	return h->n;
}

/* Of this host counts what was seen. */
static int copies_take(struct ck_hosts *h, struct ck_gathered *g,
		       const struct ck_files *files, uint32_t host)
{
	uint32_t rank = speaker(h, g, host);
	struct ck_file_copy *list = calloc(g->n + 1, sizeof(*list));

	g->copies[host] = list;
	for (size_t i = 0; list && i < g->n; i++) {
		if (host == h->here) {
			list[i].has = ck_gathered_is_here(files, g->numbers[i]);
			list[i].size =
				ck_files_info(files, g->numbers[i])->size;
		} else if (rank < h->n) {
			list[i].has = ck_gathered_is_usable(&g->said[rank][i]);
			list[i].size = g->said[rank][i].info.size;
		}
	}
	return list ? 0 : -ENOMEM;
}

static bool has_several(const struct ck_hosts *h, const struct ck_gathered *g,
			size_t i)
{
	unsigned n = 0;

	for (uint32_t host = 0; host < h->ngroups; host++)
		n += g->copies[host][i].has;
	return n > 1;
}

/* One that cannot be read where its digest should be made is none. */
static int compare_host(struct ck_hosts *h, struct ck_gathered *g,
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
			.number = g->said[rank][i].number,
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
			g->said[rank][i].trouble = -list[k].rc;
	}
	return rc;
}

static int compare(struct ck_hosts_task *t)
{
	struct ck_gathered *g = t->arg;
	struct ck_hosts *h = t->hosts;

	for (uint32_t host = 0; host < h->ngroups; host++)
		if (speaker(h, g, host) == t->index)
			return compare_host(h, g, host, t->index);
	return 0;
}

/* Of a host that is gone by now nothing counts, but for what can be read without it. */
static void note_unread(const struct ck_hosts *h, struct ck_gathered *g,
			uint32_t host)
{
	if (speaker(h, g, host) < h->n)
		return;
	for (size_t i = 0; i < g->n; i++)
		g->copies[host][i].unread = host != h->here ||
					    has_several(h, g, i);
}

/* Where digests are made, one that cannot be opened is found by that. */
static bool is_troubled(const struct ck_hosts *h, const struct ck_gathered *g,
			const struct ck_files *files, uint32_t host, size_t i)
{
	if (host == h->here)
		return ck_files_trouble(files, g->numbers[i]) != 0;
	return g->said[speaker(h, g, host)][i].trouble != 0;
}

/* A copy that cannot be opened now is not used where there is another. */
static void leave_troubled(const struct ck_hosts *h, struct ck_gathered *g,
			   const struct ck_files *files)
{
	for (uint32_t host = 0; host < h->ngroups; host++)
		for (size_t i = 0; i < g->n; i++)
			g->copies[host][i].has &= !has_several(h, g, i) ||
						  !is_troubled(h, g, files,
							       host, i);
}

int ck_gather_copies(struct ck_hosts *h, struct ck_gathered *g,
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
	for (uint32_t i = 0; i < h->n && rc == 0; i++)
		if (h->hosts[i].there)
			rc = tasks[i].rc;
	for (uint32_t host = 0; host < h->ngroups && rc == 0; host++)
		note_unread(h, g, host);
	for (uint32_t host = 0; host < h->ngroups && rc == 0; host++)
		for (size_t i = 0; i < g->n; i++)
			g->copies[host][i].has &= !g->copies[host][i].unread;
	return rc;
}
