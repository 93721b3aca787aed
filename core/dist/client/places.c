/* SPDX-License-Identifier: MIT */
/*
 * places: looks up the replicas of a file and sorts copy descriptors by peer.
 * The tables have no state of their own: they are the routes of a remote
 * client, and the caller holds ck_remote_client.routes_lock.
 */
#include "places.h"
#include "ckptfs/table.h"

#include <errno.h>

static size_t first_other(const struct ck_routes *w, uint32_t file)
{
	return CK_COUNT_BEFORE(w->nothers, i, w->others[i].file < file);
}

bool ck_places_find(const struct ck_routes *w, uint32_t file, uint32_t i,
		    struct ck_location *out)
{
	size_t at;

	if (i == 0) {
		if (file < w->n)
			*out = w->files[file];
		return file < w->n;
	}
	at = first_other(w, file) + i - 1;
	if (at >= w->nothers || w->others[at].file != file)
		return false;
	*out = w->others[at].at;
	return true;
}

struct ck_sorted ck_places_sorted(const struct ck_routes *w,
				  struct ck_copy_desc *m, uint32_t index,
				  uint32_t tries)
{
	struct ck_sorted to = { { UINT32_MAX, 0 }, index };

	if (!ck_places_find(w, m->file, tries, &to.at))
		return to;
	if (to.at.number == UINT32_MAX) {
		to.at.peer = UINT32_MAX;
		m->rc = -ESTALE;
	}
	return to;
}

static int sorted_cmp(const void *a, const void *b)
{
	const struct ck_sorted *x = a, *y = b;

	if (x->at.peer != y->at.peer)
		return x->at.peer < y->at.peer ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

void ck_sort(struct ck_sorted *order, size_t n)
{
	qsort(order, n, sizeof(*order), sorted_cmp);
}

size_t ck_sorted_end(const struct ck_sorted *order, size_t from, size_t n)
{
	size_t end = from + 1;

	while (end < n && order[end].at.peer == order[from].at.peer)
		end++;
	return end;
}
