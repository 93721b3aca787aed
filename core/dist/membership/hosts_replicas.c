/* SPDX-License-Identifier: MIT */
/*
 * hosts_replicas: files with several replicas. The replicas form one file. Its
 * modification time is the newest one, and it has changed when all replicas
 * have. A user may read it only if every replica permits it. Revalidation
 * updates the replicas, in the connection's thread or the revalidating one.
 */
#include "ckptfs/table.h"
#include "hosts_internal.h"

#include <errno.h>

mode_t ck_hosts_closed(const struct ck_file_access *access, struct ck_ids shown)
{
	struct ck_ids of = { access->uid, access->gid };

	return 0444 &
	       ~(ck_rights_as(access->mode, of, shown) & ~access->closed);
}

struct ck_file_access ck_hosts_access(const struct ck_file_info *info)
{
	return (struct ck_file_access){ .mode = info->mode,
					.uid = info->uid,
					.gid = info->gid,
					.closed = info->closed };
}

int ck_hosts_copies_add(struct ck_hosts_copies *copies, uint32_t file,
			uint32_t peer, struct ck_file_access access)
{
	struct ck_hosts_copy *list = ck_grow(copies->list, &copies->cap,
					     copies->n, 1, sizeof(*list));

	if (!list)
		return -ENOMEM;
	copies->list = list;
	list[copies->n++] = (struct ck_hosts_copy){ .file = file,
						    .peer = peer,
						    .access = access };
	return 0;
}

struct ck_hosts_copy *ck_hosts_copies_of(const struct ck_hosts *h,
					 uint32_t file, size_t *n)
{
	const struct ck_hosts_copies *copies = &h->copies;
	size_t from = CK_COUNT_BEFORE(copies->n, i,
				      copies->list[i].file < file);
	size_t end = from;

	while (end < copies->n && copies->list[end].file == file)
		end++;
	*n = end - from;
	return end > from ? &copies->list[from] : NULL;
}

static bool all_have_changed(const struct ck_hosts_copy *list, size_t n)
{
	size_t i = 0;

	while (i < n && list[i].changed)
		i++;
	return i == n;
}

static mode_t closed_by(const struct ck_hosts_copy *list, size_t n,
			struct ck_ids shown)
{
	mode_t closed = 0;

	for (size_t i = 0; i < n; i++)
		closed |= ck_hosts_closed(&list[i].access, shown);
	return closed;
}

/* Updates the file from its replicas. The first replica has the mode and the
 * owner; the others remove r bits. */
static void note_together(const struct ck_hosts *h, uint32_t file,
			  const struct ck_hosts_copy *list, size_t n)
{
	const struct ck_file_access *first = &list[0].access;
	struct ck_file_info info = {
		.mode = first->mode,
		.uid = first->uid,
		.gid = first->gid,
		.closed = first->closed | closed_by(list + 1, n - 1, h->shown)
	};

	if (!ck_files_is_remote(h->set, file)) {
		ck_files_note_others(h->set, file,
				     closed_by(list, n, h->shown));
		return;
	}
	ck_files_note_changed(h->set, file, all_have_changed(list, n));
	ck_files_note_access(h->set, file, &info);
}

bool ck_hosts_note_copy(struct ck_hosts *h, uint32_t file, uint32_t peer,
			const struct ck_name_stat *l)
{
	struct ck_hosts_copy *list;
	size_t n;

	list = ck_hosts_copies_of(h, file, &n);
	for (size_t i = 0; i < n; i++) {
		if (list[i].peer != peer)
			continue;
		list[i].changed = l->trouble != 0;
		if (l->trouble == 0)
			list[i].access = ck_hosts_access(&l->info);
		note_together(h, file, list, n);
	}
	return n > 0;
}
