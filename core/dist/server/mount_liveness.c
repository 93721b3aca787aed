/* SPDX-License-Identifier: MIT */
/*
 * mount_liveness: an array with the last message of each rank, and the number
 * of mounts. One thread at a time.
 */
#include "mount_liveness.h"

#include <errno.h>

int ck_mount_liveness_init(struct ck_mount_liveness *m, uint32_t size,
			   uint32_t self, const bool *has, uint64_t now)
{
	m->list = calloc(size, sizeof(*m->list));
	if (!m->list)
		return -ENOMEM;
	m->size = size;
	m->self = self;
	m->last_check = now;
	for (uint32_t i = 0; i < size; i++) {
		m->list[i] = (struct ck_mounter){ has[i], now };
		m->left += has[i];
	}
	return 0;
}

void ck_mount_liveness_fini(struct ck_mount_liveness *m)
{
	free(m->list);
	*m = (struct ck_mount_liveness){ 0 };
}

void ck_mount_liveness_note(struct ck_mount_liveness *m, uint32_t rank,
			    uint64_t now)
{
	m->list[rank].last_message = now;
}

bool ck_mount_liveness_gone(struct ck_mount_liveness *m, uint32_t rank)
{
	bool had = m->list[rank].has;

	m->list[rank].has = false;
	m->left -= had;
	return had;
}

bool ck_mount_liveness_watch(const struct ck_mount_liveness *m)
{
	return m->left > m->list[m->self].has;
}

bool ck_mount_liveness_expire(struct ck_mount_liveness *m, uint64_t now,
			      uint64_t silence, uint64_t most)
{
	bool slept = now - m->last_check > most, gone = false;

	m->last_check = now;
	for (uint32_t i = 0; i < m->size; i++) {
		struct ck_mounter *r = &m->list[i];

		if (slept)
			r->last_message = now;
		if (i != m->self && r->has && now - r->last_message >= silence)
			gone |= ck_mount_liveness_gone(m, i);
	}
	return gone;
}
