/* SPDX-License-Identifier: MIT */
/* mounters: see mounters.h. */
#include "mounters.h"

#include <errno.h>

int ck_mounters_init(struct ck_mounters *m, uint32_t size, uint32_t self,
		     const bool *has, uint64_t now)
{
	m->list = calloc(size, sizeof(*m->list));
	if (!m->list)
		return -ENOMEM;
	m->size = size;
	m->self = self;
	m->looked = now;
	for (uint32_t i = 0; i < size; i++) {
		m->list[i] = (struct ck_mounter){ has[i], now };
		m->left += has[i];
	}
	return 0;
}

void ck_mounters_fini(struct ck_mounters *m)
{
	free(m->list);
	*m = (struct ck_mounters){ 0 };
}

void ck_mounters_heard(struct ck_mounters *m, uint32_t rank, uint64_t now)
{
	m->list[rank].heard = now;
}

bool ck_mounters_gone(struct ck_mounters *m, uint32_t rank)
{
	bool had = m->list[rank].has;

	m->list[rank].has = false;
	m->left -= had;
	return had;
}

bool ck_mounters_watch(const struct ck_mounters *m)
{
	return m->left > m->list[m->self].has;
}

bool ck_mounters_look(struct ck_mounters *m, uint64_t now, uint64_t silence,
		      uint64_t most)
{
	bool slept = now - m->looked > most, gone = false;

	m->looked = now;
	for (uint32_t i = 0; i < m->size; i++) {
		struct ck_mounter *r = &m->list[i];

		if (slept)
			r->heard = now;
		if (i != m->self && r->has && now - r->heard >= silence)
			gone |= ck_mounters_gone(m, i);
	}
	return gone;
}
