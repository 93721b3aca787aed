/* SPDX-License-Identifier: MIT */
/* dirs: see dirs.h. */
#include "dirs.h"

#include <errno.h>

enum { SLOTS_MIN = 64 };

struct ck_dir_node {
	struct ck_dir_row row; /* constant */
	/* Under ck_dirs.lock: */
	struct ck_dir_node *successor; /* NULL, or what came in its place */
	uint64_t uses;		       /* of its own node, and of those in it */
	uint32_t kept; /* by directories whose parent or successor it is */
	bool unused;   /* in the list of those that are not in use */
	struct ck_dir_node *older, *newer;	  /* in that list */
	struct ck_dir_node *by_number, *by_place; /* next of the chain */
};

/* --- tables ------------------------------------------------------------------ */

/* Users choose names, and so places. */
static size_t hash_of(const struct ck_dirs *d, uint64_t key)
{
	struct ck_str bytes = { (const char *)&key, sizeof(key) };

	return (size_t)ck_hash64_seeded(bytes, d->seed);
}

static struct ck_dir_node **number_slot(const struct ck_dirs *d,
					uint32_t number)
{
	return &d->by_number.slots[hash_of(d, number) & d->by_number.mask];
}

/* The place of a parent stays what it is when the parent has another number. */
static struct ck_dir_node **place_slot(const struct ck_dirs *d, uint32_t parent,
				       uint32_t entry)
{
	uint64_t key = (uint64_t)parent << 32 | entry;

	return &d->by_place.slots[hash_of(d, key) & d->by_place.mask];
}

static struct ck_dir_node *find(const struct ck_dirs *d, uint32_t number)
{
	struct ck_dir_node *node = *number_slot(d, number);

	while (node && node->row.number != number)
		node = node->by_number;
	return node;
}

/* The one that is there now, below the place of a parent. */
static struct ck_dir_node *find_at(const struct ck_dirs *d, uint32_t parent,
				   uint32_t entry)
{
	struct ck_dir_node *node = *place_slot(d, parent, entry);

	while (node &&
	       (node->row.parent_place != parent || node->row.entry != entry))
		node = node->by_place;
	return node;
}

static void number_add(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node **slot = number_slot(d, node->row.number);

	node->by_number = *slot;
	*slot = node;
}

static void number_drop(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node **slot = number_slot(d, node->row.number);

	while (*slot != node)
		slot = &(*slot)->by_number;
	*slot = node->by_number;
}

static void place_add(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node **slot = place_slot(d, node->row.parent_place,
					       node->row.entry);

	node->by_place = *slot;
	*slot = node;
}

static void place_drop(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node **slot = place_slot(d, node->row.parent_place,
					       node->row.entry);

	while (*slot != node)
		slot = &(*slot)->by_place;
	*slot = node->by_place;
}

static int table_make(struct ck_dir_table *t, size_t slots)
{
	t->slots = calloc(slots, sizeof(struct ck_dir_node *));
	t->mask = slots - 1;
	return t->slots ? 0 : -ENOMEM;
}

/* As many slots as there are directories, at least. -ENOMEM: as they were. */
static int tables_grow(struct ck_dirs *d)
{
	struct ck_dirs old = *d;
	size_t slots = 2 * (old.by_number.mask + 1);

	if (d->n <= old.by_number.mask)
		return 0;
	if (table_make(&d->by_number, slots) ||
	    table_make(&d->by_place, slots)) {
		free(d->by_number.slots);
		d->by_number = old.by_number;
		d->by_place = old.by_place;
		return -ENOMEM;
	}
	for (size_t i = 0; i <= old.by_number.mask; i++)
		for (struct ck_dir_node *node = old.by_number.slots[i], *next;
		     node; node = next) {
			next = node->by_number;
			number_add(d, node);
			if (!node->successor)
				place_add(d, node);
		}
	free(old.by_number.slots);
	free(old.by_place.slots);
	return 0;
}

/* --- in use or not ------------------------------------------------------------ */

static void unused_add_newest(struct ck_dirs *d, struct ck_dir_node *node)
{
	node->unused = true;
	node->newer = NULL;
	node->older = d->newest;
	*(d->newest ? &d->newest->newer : &d->oldest) = node;
	d->newest = node;
	d->nunused++;
}

static void unused_add_oldest(struct ck_dirs *d, struct ck_dir_node *node)
{
	node->unused = true;
	node->older = NULL;
	node->newer = d->oldest;
	*(d->oldest ? &d->oldest->older : &d->newest) = node;
	d->oldest = node;
	d->nunused++;
}

static void unused_drop(struct ck_dirs *d, struct ck_dir_node *node)
{
	if (!node->unused)
		return;
	node->unused = false;
	*(node->older ? &node->older->newer : &d->oldest) = node->newer;
	*(node->newer ? &node->newer->older : &d->newest) = node->older;
	d->nunused--;
}

static bool is_in_use(const struct ck_dir_node *node)
{
	return node->uses || node->kept || node->row.number == 0;
}

/* One that was kept by what is gone is the next that goes. */
static void unkeep(struct ck_dirs *d, struct ck_dir_node *node)
{
	node->kept--;
	if (!is_in_use(node))
		unused_add_oldest(d, node);
}

/* A directory that is not in use is gone. */
static void drop(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node *parent = find(d, node->row.parent);
	struct ck_dir_node *successor = node->successor;

	unused_drop(d, node);
	number_drop(d, node);
	if (!successor)
		place_drop(d, node);
	free(node);
	d->n--;
	unkeep(d, parent);
	if (successor)
		unkeep(d, successor);
}

/* What is in nobody's place any more is not remembered, and of others not too many. */
static void evict(struct ck_dirs *d)
{
	while (d->oldest &&
	       (d->oldest->successor || d->nunused > CK_DIRS_REMEMBERED))
		drop(d, d->oldest);
}

/* After it lost a use, or was only looked at: then it is the newest once more. */
static void settle(struct ck_dirs *d, struct ck_dir_node *node)
{
	if (is_in_use(node))
		return;
	unused_drop(d, node);
	if (node->successor)
		unused_add_oldest(d, node);
	else
		unused_add_newest(d, node);
	evict(d);
}

static void use(struct ck_dirs *d, struct ck_dir_node *node, uint64_t uses)
{
	node->uses += uses;
	if (is_in_use(node))
		unused_drop(d, node);
	else
		settle(d, node);
}

/* What is in the place of a directory now; it stays as long as that one. Those that
 * were in between are let go. */
static struct ck_dir_node *present(struct ck_dirs *d, struct ck_dir_node *node)
{
	while (node->successor && node->successor->successor) {
		struct ck_dir_node *between = node->successor;

		node->successor = between->successor;
		node->successor->kept++;
		unkeep(d, between);
		evict(d);
	}
	return node->successor ? node->successor : node;
}

/* --- making -------------------------------------------------------------------- */

static int make(struct ck_dirs *d, struct ck_dir_node *parent,
		const struct ck_dir_row *row, struct ck_dir_node **out)
{
	struct ck_dir_node *node;

	if (d->next == CK_DIRS_MAX || row->entry >= CK_ENTRIES_MAX)
		return -ENFILE;
	if (tables_grow(d))
		return -ENOMEM;
	node = malloc(sizeof(*node));
	if (!node)
		return -ENOMEM;
	*node = (struct ck_dir_node){ .row = *row };
	node->row.number = d->next++;
	number_add(d, node);
	place_add(d, node);
	d->n++;
	parent->kept++;
	unused_drop(d, parent);
	*out = node;
	return 0;
}

static int get(struct ck_dirs *d, uint32_t number, uint32_t entry,
	       const struct ck_dir *dir, uint64_t base,
	       struct ck_dir_node **out)
{
	struct ck_dir_node *parent = find(d, number);
	struct ck_dir_row row = { .dir = *dir, .entry = entry, .base = base };
	int rc;

	if (!parent)
		return -ESTALE;
	parent = present(d, parent);
	*out = find_at(d, parent->row.place, entry);
	if (*out)
		return 0;
	row.parent = parent->row.number;
	row.parent_place = parent->row.place;
	rc = make(d, parent, &row, out);
	if (rc == 0)
		(*out)->row.place = (*out)->row.number;
	return rc;
}

int ck_dirs_get(struct ck_dirs *d, uint32_t parent, uint32_t entry,
		const struct ck_dir *dir, uint64_t base, struct ck_dir_row *out)
{
	struct ck_dir_node *node;
	int rc;

	pthread_mutex_lock(&d->lock);
	rc = get(d, parent, entry, dir, base, &node);
	if (rc == 0) {
		*out = node->row;
		use(d, node, 1);
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}

/* Of nobody who would give it back. */
static bool may_list(const struct ck_dirs *d)
{
	return d->next < CK_DIRS_MAX / 2;
}

uint32_t ck_dirs_listed(struct ck_dirs *d, uint32_t parent, uint32_t entry,
			const struct ck_dir *dir, uint64_t base)
{
	struct ck_dir_node *node;
	uint32_t number = 0;

	pthread_mutex_lock(&d->lock);
	node = find(d, parent);
	node = node ? find_at(d, node->row.place, entry) : NULL;
	if (!node && may_list(d) && get(d, parent, entry, dir, base, &node))
		node = NULL;
	if (node) {
		number = node->row.number;
		use(d, node, 0);
	}
	pthread_mutex_unlock(&d->lock);
	return number;
}

static bool has_room(const struct ck_dir_node *node, uint64_t version)
{
	return version <= node->row.base ||
	       version - node->row.base < CK_VERSIONS_MAX;
}

/* Another one is in its place from now on, as long as this one is there. */
static int replace(struct ck_dirs *d, struct ck_dir_node *node, uint64_t base,
		   struct ck_dir_node **out)
{
	struct ck_dir_node *parent = present(d, find(d, node->row.parent));
	struct ck_dir_row row = node->row;
	int rc;

	if (row.number == 0)
		return -ENFILE; /* the root's number is fixed */
	row.parent = parent->row.number;
	row.base = base;
	rc = make(d, parent, &row, out);
	if (rc)
		return rc;
	place_drop(d, node);
	node->successor = *out;
	(*out)->kept++;
	/* It is nobody's yet, and must not go with the old one. */
	(*out)->uses++;
	settle(d, node);
	(*out)->uses--;
	return 0;
}

static int renew(struct ck_dirs *d, uint32_t number, uint64_t version,
		 uint64_t base, struct ck_dir_node **out)
{
	struct ck_dir_node *node = find(d, number);

	if (!node)
		return -ESTALE;
	*out = present(d, node);
	return has_room(*out, version) ? 0 : replace(d, *out, base, out);
}

int ck_dirs_renew(struct ck_dirs *d, uint32_t number, uint64_t version,
		  uint64_t base, uint64_t uses, struct ck_dir_row *out)
{
	struct ck_dir_node *node;
	int rc;

	pthread_mutex_lock(&d->lock);
	rc = renew(d, number, version, base, &node);
	if (rc == 0) {
		*out = node->row;
		use(d, node, uses);
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}

/* --- the rest -------------------------------------------------------------------- */

bool ck_dirs_find(struct ck_dirs *d, uint32_t number, struct ck_dir_row *out)
{
	const struct ck_dir_node *node;

	pthread_mutex_lock(&d->lock);
	node = find(d, number);
	if (node)
		*out = node->row;
	pthread_mutex_unlock(&d->lock);
	return node;
}

bool ck_dirs_parent(struct ck_dirs *d, uint32_t number, uint32_t *out)
{
	const struct ck_dir_node *node;

	pthread_mutex_lock(&d->lock);
	node = find(d, number);
	if (node)
		*out = present(d, find(d, node->row.parent))->row.number;
	pthread_mutex_unlock(&d->lock);
	return node;
}

void ck_dirs_use(struct ck_dirs *d, uint32_t number, uint64_t n)
{
	struct ck_dir_node *node;

	pthread_mutex_lock(&d->lock);
	node = find(d, number);
	if (node)
		use(d, node, n);
	pthread_mutex_unlock(&d->lock);
}

static size_t used_copy(const struct ck_dirs *d, struct ck_dir_row *out)
{
	size_t n = 0;

	for (size_t i = 0; i <= d->by_number.mask; i++)
		for (const struct ck_dir_node *node = d->by_number.slots[i];
		     node; node = node->by_number)
			if (node->uses || node->row.number == 0)
				out[n++] = node->row;
	return n;
}

int ck_dirs_used(struct ck_dirs *d, struct ck_dir_row **out, size_t *n)
{
	pthread_mutex_lock(&d->lock);
	*out = calloc(d->n, sizeof(**out));
	*n = *out ? used_copy(d, *out) : 0;
	pthread_mutex_unlock(&d->lock);
	return *out ? 0 : -ENOMEM;
}

void ck_dirs_forget(struct ck_dirs *d, uint32_t number, uint64_t n)
{
	struct ck_dir_node *node;

	pthread_mutex_lock(&d->lock);
	node = find(d, number);
	if (node) {
		node->uses -= ck_min(node->uses, n);
		settle(d, node);
	}
	pthread_mutex_unlock(&d->lock);
}

int ck_dirs_init(struct ck_dirs *d, const struct ck_dir *root, uint64_t base)
{
	struct ck_dir_node *node = calloc(1, sizeof(*node));

	*d = (struct ck_dirs){ .next = 1, .n = 1, .seed = ck_hash_seed() };
	if (!node || table_make(&d->by_number, SLOTS_MIN) ||
	    table_make(&d->by_place, SLOTS_MIN)) {
		free(d->by_number.slots);
		free(node);
		return -ENOMEM;
	}
	pthread_mutex_init(&d->lock, NULL);
	node->row = (struct ck_dir_row){
		.dir = *root,
		.entry = CK_ENTRIES_MAX, /* no other is there */
		.base = base,
	};
	number_add(d, node);
	place_add(d, node);
	return 0;
}

void ck_dirs_fini(struct ck_dirs *d)
{
	for (size_t i = 0; d->by_number.slots && i <= d->by_number.mask; i++)
		for (struct ck_dir_node *node = d->by_number.slots[i], *next;
		     node; node = next) {
			next = node->by_number;
			free(node);
		}
	free(d->by_number.slots);
	free(d->by_place.slots);
	pthread_mutex_destroy(&d->lock);
}
