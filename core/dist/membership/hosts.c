/* SPDX-License-Identifier: MIT */
/*
 * hosts: makes and frees a ck_hosts. Processes of one host form a group; groups
 * are sorted by rank. The ck_hosts is made before the checkpoint is opened, in
 * the opening thread; its functions are in the other hosts files.
 */
#include "hosts_internal.h"

#include <errno.h>

static int read_now(struct ck_remote_reader *reader, uint32_t file, void *to,
		    size_t len, uint64_t fpos)
{
	struct ck_hosts *h =
		(struct ck_hosts *)(void *)((char *)reader -
					    offsetof(struct ck_hosts, reader));

	return ck_hosts_read(&h->requester, file, fpos, len, to, NULL);
}

void ck_hosts_let_wait(struct ck_hosts *h)
{
	h->let_wait = true;
}

/* --- hosts ---------------------------------------------------------------- */

/* Makes the groups. Processes of one host follow each other. */
static void groups_find(struct ck_hosts *h)
{
	for (uint32_t i = 0; i < h->n; i++) {
		if (!h->hosts[i].again)
			h->groups[h->ngroups++].first = i;
		h->groups[h->ngroups - 1].n++;
	}
}

/* Sorts the groups by rank, an order that is the same at all mounts. */
static void groups_sort(struct ck_hosts *h)
{
	for (uint32_t i = 1; i < h->ngroups; i++) {
		struct ck_hosts_group g = h->groups[i];
		uint32_t at = i;

		for (; at > 0 && h->hosts[g.first].rank <
					 h->hosts[h->groups[at - 1].first].rank;
		     at--)
			h->groups[at] = h->groups[at - 1];
		h->groups[at] = g;
	}
	while (h->groups[h->here].first)
		h->here++;
}

/* Prefers the host with this index among the hosts of the list. */
static void prefer(struct ck_hosts *h, size_t host)
{
	uint32_t first = 0;

	for (size_t at = 0; first < h->n; first++)
		if (!h->hosts[first].again && at++ == host)
			break;
	for (uint32_t i = 0; i < h->ngroups; i++)
		if (h->groups[i].first == first)
			h->prefer[h->nprefer++] = i;
}

static bool groups_make(struct ck_hosts *h, const struct ck_hosts_setup *o)
{
	h->groups = calloc(h->n + 1UL, sizeof(*h->groups));
	h->prefer = calloc(o->norder + 1UL, sizeof(*h->prefer));
	if (!h->groups || !h->prefer)
		return false;
	groups_find(h);
	groups_sort(h);
	for (size_t i = 0; i < o->norder; i++)
		prefer(h, o->order[i]);
	return true;
}

/* --- making --------------------------------------------------------------- */

struct ck_hosts *ck_hosts_make(const struct ck_hosts_setup *o)
{
	struct ck_hosts *h = calloc(1, sizeof(*h) + o->n * sizeof(h->hosts[0]));

	if (!h)
		return NULL;
	h->elsewhere.list = ck_hosts_list;
	h->elsewhere.begins = ck_hosts_begins;
	h->elsewhere.text = ck_hosts_text;
	h->elsewhere.metadata = ck_hosts_metadata;
	h->elsewhere.files = ck_hosts_files;
	h->elsewhere.bring = ck_hosts_fetch;
	h->elsewhere.opened = ck_hosts_opened;
	h->elsewhere.changed = ck_hosts_changed;
	h->elsewhere.host = ck_hosts_host;
	h->elsewhere.down_host = ck_hosts_down_host;
	h->elsewhere.unused = ck_hosts_unused;
	h->elsewhere.print = ck_hosts_print;
	h->elsewhere.paths = ck_hosts_paths;
	h->elsewhere.stats = o->stats;
	h->reader.read = read_now;
	h->calls = o->calls;
	h->n = o->n;
	for (uint32_t i = 0; i < o->n; i++)
		h->hosts[i] = (struct ck_hosts_host){
			.name = o->list[i].name,
			.path = o->list[i].path,
			.since = ck_msec_now(),
			.rank = o->list[i].rank,
			.again = i && strcmp(o->list[i].name,
					     o->list[i - 1].name) == 0,
			.there = !o->list[i].missing,
		};
	h->replicas = o->replicas;
	ck_remote_client_init(&h->requester,
			      &(struct ck_routes){ .calls = h->calls,
						   .files = NULL,
						   .n = 0 });
	h->requester.stats = o->stats;
	if (groups_make(h, o))
		return h;
	ck_hosts_free(h);
	return NULL;
}

void ck_hosts_free(struct ck_hosts *h)
{
	if (!h)
		return;
	ck_remote_client_fini(&h->requester);
	ck_hosts_tables_fini(&h->at);
	ck_hosts_names_fini(h);
	free(h->metadata.text);
	free(h->copies.list);
	free(h->unused.list);
	free(h->groups);
	free(h->prefer);
	free(h);
}

struct ck_remote_source *ck_hosts_elsewhere(struct ck_hosts *h)
{
	return &h->elsewhere;
}

struct ck_backend *ck_hosts_backend(struct ck_hosts *h)
{
	return &h->requester.backend;
}

int ck_hosts_rounds(struct ck_hosts *h, const struct ck_round_routes *by)
{
	return ck_remote_client_rounds(&h->requester, by);
}
