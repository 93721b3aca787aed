/* SPDX-License-Identifier: MIT */
/*
 * hosts_conflicts: files that were away when the checkpoint was opened, of which hosts
 * that have come since have copies that are not the same. No bytes of them were read yet,
 * so that it is a conflict as at the open: an error, unless one of the hosts is preferred.
 * It is looked at again when another job takes over, and is settled when the copies are the
 * same; that one of the hosts goes away settles nothing.
 */
#include "hosts_conflicts.h"

#include <errno.h>
#include <stdio.h>

int ck_hosts_conflicts_add(struct ck_hosts_conflicts *to,
			   const struct ck_hosts_conflict *c)
{
	struct ck_hosts_conflict *list = ck_grow(to->list, &to->cap, to->n, 1,
						 sizeof(*list));

	if (!list)
		return -ENOMEM;
	to->list = list;
	list[to->n++] = *c;
	return 0;
}

const struct ck_hosts_conflict *ck_hosts_conflict_of(const struct ck_hosts *h,
						     uint32_t file)
{
	const struct ck_hosts_conflicts *all =
		__atomic_load_n(&h->conflicts, __ATOMIC_ACQUIRE);

	size_t from = 0, end = all ? all->n : 0;

	while (from < end) {
		size_t mid = from + (end - from) / 2;

		if (all->list[mid].file < file)
			from = mid + 1;
		else
			end = mid;
	}
	return all && from < all->n && all->list[from].file == file
		       ? &all->list[from]
		       : NULL;
}

/* Field by field: there is padding between them. */
static bool is_same(const struct ck_hosts_conflict *a,
		    const struct ck_hosts_conflict *b)
{
	bool is = a->file == b->file;

	for (unsigned i = 0; i < 2; i++)
		is &= a->of[i].host == b->of[i].host &&
		      a->of[i].size == b->of[i].size &&
		      memcmp(a->of[i].digest, b->of[i].digest,
			     CK_COPY_DIGEST) == 0;
	return is;
}

static bool are_same(const struct ck_hosts_conflicts *a,
		     const struct ck_hosts_conflicts *b)
{
	size_t n = a ? a->n : 0, i = 0;

	while (i < n && n == b->n && is_same(&a->list[i], &b->list[i]))
		i++;
	return n == b->n && i == n;
}

void ck_hosts_conflicts_replace(struct ck_hosts *h,
				struct ck_hosts_conflicts *by)
{
	struct ck_hosts_conflicts *next;

	if (are_same(h->conflicts, by))
		return;
	next = calloc(1, sizeof(*next));
	if (!next)
		return; /* the next job tries again */
	next->list = ck_steal(&by->list);
	next->n = by->n;
	next->before = h->conflicts;
	__atomic_store_n(&h->conflicts, next, __ATOMIC_RELEASE);
	for (size_t i = 0; i < next->n; i++)
		ck_log("%s: its file %s",
		       ck_show(ck_files_info(h->set, next->list[i].file)->path),
		       ck_hosts_conflict_show(h, &next->list[i]));
}

void ck_hosts_conflicts_free(struct ck_hosts_conflicts *c)
{
	while (c) {
		struct ck_hosts_conflicts *before = c->before;

		free(c->list);
		free(c);
		c = before;
	}
}

const char *ck_hosts_copy_show(const struct ck_hosts *h, uint32_t group,
			       uint64_t size, const uint8_t *digest)
{
	char hex[2 * CK_COPY_DIGEST + 1];

	for (unsigned k = 0; k < CK_COPY_DIGEST; k++)
		snprintf(hex + 2UL * k, 3, "%02x", digest[k]);
	return ck_shown("%s has %ju bytes, XXH3-128 %s%s",
			h->hosts[h->groups[group].first].name, (uintmax_t)size,
			h->replicas == CK_REPLICAS_FULL ? "" : "of a sample ",
			hex);
}

const char *ck_hosts_conflict_show(const struct ck_hosts *h,
				   const struct ck_hosts_conflict *c)
{
	return ck_shown("%s: %s; %s", ck_file_why_differs(),
			ck_hosts_copy_show(h, c->of[0].host, c->of[0].size,
					   c->of[0].digest),
			ck_hosts_copy_show(h, c->of[1].host, c->of[1].size,
					   c->of[1].digest));
}
