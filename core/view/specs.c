/* SPDX-License-Identifier: MIT */
/*
 * specs: an open-addressing hash table of directory names, allocated with its
 * final size, which is small. Names are added and never removed. One lock; any
 * thread.
 */
#include "specs.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

enum { SLOTS = 2 * CK_SPECS_MOST };

struct ck_specs {
	/* Atomic: */
	bool has_own; /* ck_specs_add_own() was called */

	pthread_mutex_t lock;
	/* Under lock: */
	uint32_t n;
	char *names[CK_SPECS_MOST]; /* copies; never freed before the table */
	uint16_t slots[SLOTS];	    /* 1 + number, by hash; 0 if free */
};

int ck_specs_make(struct ck_specs **out)
{
	struct ck_specs *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	*out = s;
	return 0;
}

void ck_specs_free(struct ck_specs *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->n; i++)
		free(s->names[i]);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* The slot of a name, or the free slot where it belongs. */
static uint16_t *slot_of(struct ck_specs *s, struct ck_str name)
{
	size_t i = ck_hash64(name) % SLOTS;

	while (s->slots[i] &&
	       !ck_str_eq(ck_str_from(s->names[s->slots[i] - 1]), name))
		i = (i + 1) % SLOTS;
	return &s->slots[i];
}

static int enter(struct ck_specs *s, struct ck_str name, uint16_t *slot)
{
	if (s->n == CK_SPECS_MOST)
		return -ENOSPC;
	s->names[s->n] = strndup(name.p, name.len);
	if (!s->names[s->n])
		return -ENOMEM;
	*slot = (uint16_t)++s->n;
	return 0;
}

int ck_specs_find(struct ck_specs *s, struct ck_str name, uint32_t *number)
{
	struct ck_spec spec;
	uint16_t *slot;
	int rc = 0;

	if (!ck_spec_parse(name, &spec))
		return -ENOENT;
	pthread_mutex_lock(&s->lock);
	slot = slot_of(s, name);
	if (!*slot)
		rc = enter(s, name, slot);
	if (rc == 0)
		*number = *slot - 1U;
	pthread_mutex_unlock(&s->lock);
	return rc;
}

bool ck_specs_at(struct ck_specs *s, uint32_t number, struct ck_str *name,
		 struct ck_spec *spec)
{
	bool is;

	pthread_mutex_lock(&s->lock);
	is = number < s->n;
	*name = is ? ck_str_from(s->names[number]) : (struct ck_str){ 0 };
	pthread_mutex_unlock(&s->lock);
	return is && ck_spec_parse(*name, spec);
}

/* --- the number of ranks of the source ------------------------------------------- */

static uint64_t ranks_of_mesh(const struct ck_sharding *s)
{
	uint64_t ranks = s != NULL;

	for (uint32_t i = 0; s && i < s->ndim; i++)
		if (!ck_mul(&ranks, ranks, s->dims[i].size))
			return 0;
	return ranks;
}

/* Returns 0 if the source has no ranks. */
static uint64_t ranks_of(const struct ck_catalog *c)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < c->files.n; i++) {
		uint64_t rank = ck_catalog_file(c, i)->rank;

		n = ck_max(n, rank == CK_NO_RANK ? 0 : rank + 1);
	}
	for (uint32_t i = 0; i < c->tensors.n; i++)
		if (ck_tensor_is_there(c, i))
			n = ck_max(n, ranks_of_mesh(ck_catalog_tensor(c, i)
							    ->facts->sharding));
	return n;
}

void ck_specs_add_own(struct ck_specs *s, const struct ck_catalog *c)
{
	uint32_t number;
	char name[24];

	if (__atomic_load_n(&s->has_own, __ATOMIC_ACQUIRE))
		return;
	snprintf(name, sizeof(name), "%" PRIu64, ranks_of(c));
	(void)!ck_specs_find(s, ck_str_from(name), &number);
	__atomic_store_n(&s->has_own, true, __ATOMIC_RELEASE);
}
