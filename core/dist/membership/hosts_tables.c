/* SPDX-License-Identifier: MIT */
/*
 * hosts_tables: the tables of where files are, while they are built and when
 * they replace the former ones. A table is built by one thread, then used by
 * the remote client until it is replaced. Of the opening, then of the
 * revalidating thread.
 */
#include "ckptfs/table.h"
#include "hosts_internal.h"

#include <errno.h>

int64_t ck_hosts_nsec(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int ck_hosts_tables_use(struct ck_hosts_tables *t, uint32_t file, uint32_t peer,
			uint32_t number, bool is_first)
{
	struct ck_other_place *list;

	if (is_first) {
		t->files[file] = (struct ck_location){ peer, number };
		return 0;
	}
	list = ck_grow(t->others.list, &t->others.cap, t->others.n, 1,
		       sizeof(*list));
	if (!list)
		return -ENOMEM;
	t->others.list = list;
	list[t->others.n++] = (struct ck_other_place){ file, { peer, number } };
	return 0;
}

int ck_hosts_tables_know(struct ck_hosts_tables *t,
			 const struct ck_hosts_place *p)
{
	struct ck_hosts_place *list = ck_grow(t->known.list, &t->known.cap,
					      t->known.n, 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	t->known.list = list;
	list[t->known.n++] = *p;
	return 0;
}

void ck_hosts_tables_fini(struct ck_hosts_tables *t)
{
	free(t->files);
	free(t->others.list);
	free(t->known.list);
	*t = (struct ck_hosts_tables){ 0 };
}

void ck_hosts_tables_replace(struct ck_hosts *h, struct ck_hosts_tables *t,
			     struct ck_calls *calls)
{
	const struct ck_routes routes = { .calls = calls,
					  .files = t->files,
					  .n = h->nfiles,
					  .others = t->others.list,
					  .nothers = t->others.n };

	ck_remote_client_renew(&h->requester, &routes);
	h->calls = calls;
	ck_hosts_tables_fini(&h->at);
	h->at = *t;
	*t = (struct ck_hosts_tables){ 0 };
}

size_t ck_hosts_places_of(const struct ck_hosts_places *known, uint32_t file)
{
	return CK_COUNT_BEFORE(known->n, i, known->list[i].file < file);
}
