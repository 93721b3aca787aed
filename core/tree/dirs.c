/* SPDX-License-Identifier: MIT */
/*
 * dirs: the table of directories in use, as dirs.h describes it. One lock guards the
 * table and all nodes; any thread.
 *
 * A file's node number has few bits for its version. When a version exceeds them, the
 * directory gets another number with a later base. Open files keep the older number,
 * which stays valid until the directory is dropped.
 */
#include "tree_internal.h"

#include <errno.h>

enum { SLOTS_MIN = 64 };

struct ck_dir_number {
	struct ck_dir_node *node;
	struct ck_dir_number *older; /* of the same directory */
	uint64_t base;
	uint32_t number;
	struct ck_dir_number *next; /* of the chain */
};

/* A directory. All fields but dir, parent and entry are under ck_dirs.lock. */
struct ck_dir_node {
	struct ck_dir dir;
	struct ck_dir_node *parent; /* the root's is itself */
	uint32_t entry;
	struct ck_dir_number first, *newest;
	uint64_t uses; /* of its own node, and of those in it */
	uint32_t kept; /* by directories in it */
	bool unused;   /* in the list of those that are not in use */
	struct ck_dir_node *older, *newer; /* in that list */
	struct ck_dir_node *by_place;	   /* next of the chain */
	struct ck_dir_node *peer;	   /* made before, in the same root */
	struct ck_dir_node **peer_at;	   /* what leads here */
};

/* --- roots --------------------------------------------------------------------- */

/* Adds a directory to the list of its root. The newest is first, so that each directory
 * precedes its parent. */
static void peer_add(struct ck_dir_node *node)
{
	struct ck_root *root = node->dir.root;

	if (!root)
		return;
	node->peer = root->nodes;
	node->peer_at = &root->nodes;
	if (node->peer)
		node->peer->peer_at = &node->peer;
	root->nodes = node;
}

static void peer_drop(struct ck_dir_node *node)
{
	if (!node->dir.root)
		return;
	*node->peer_at = node->peer;
	if (node->peer)
		node->peer->peer_at = node->peer_at;
}

/* Counts uses in a root, and in the roots of the run directories above it. */
static void root_use(const struct ck_dir_node *node, uint64_t n, bool more)
{
	for (struct ck_root *r = node->dir.root; r; r = r->above)
		r->uses = more ? r->uses + n : r->uses - n;
}

/* --- nodes --------------------------------------------------------------------- */

static uint32_t place_of(const struct ck_dir_node *node)
{
	return node->first.number;
}

static struct ck_dir_row row_of(const struct ck_dir_number *number)
{
	const struct ck_dir_node *node = number->node;

	return (struct ck_dir_row){ .dir = node->dir,
				    .number = number->number,
				    .place = place_of(node),
				    .parent = place_of(node->parent),
				    .entry = node->entry,
				    .base = number->base };
}

/* --- tables ------------------------------------------------------------------ */

/* Seeded, since users choose names and thereby places. */
static size_t hash_of(const struct ck_dirs *d, uint64_t key)
{
	struct ck_str bytes = { (const char *)&key, sizeof(key) };

	return (size_t)ck_hash64_seeded(bytes, d->seed) & d->mask;
}

static struct ck_dir_number **number_slot(const struct ck_dirs *d,
					  uint32_t number)
{
	return &d->by_number[hash_of(d, number)];
}

static struct ck_dir_node **place_slot(const struct ck_dirs *d, uint32_t parent,
				       uint32_t entry)
{
	return &d->by_place[hash_of(d, (uint64_t)parent << 32 | entry)];
}

static struct ck_dir_number *find(const struct ck_dirs *d, uint32_t number)
{
	struct ck_dir_number *at = *number_slot(d, number);

	while (at && at->number != number)
		at = at->next;
	return at;
}

static struct ck_dir_node *find_at(const struct ck_dirs *d,
				   const struct ck_dir_node *parent,
				   uint32_t entry)
{
	struct ck_dir_node *node = *place_slot(d, place_of(parent), entry);

	while (node && (node->parent != parent || node->entry != entry))
		node = node->by_place;
	return node;
}

static void number_add(struct ck_dirs *d, struct ck_dir_number *number)
{
	struct ck_dir_number **slot = number_slot(d, number->number);

	number->next = *slot;
	*slot = number;
}

static void number_drop(struct ck_dirs *d, struct ck_dir_number *number)
{
	struct ck_dir_number **slot = number_slot(d, number->number);

	while (*slot != number)
		slot = &(*slot)->next;
	*slot = number->next;
}

static void place_add(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node **slot = place_slot(d, place_of(node->parent),
					       node->entry);

	node->by_place = *slot;
	*slot = node;
}

static void place_drop(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node **slot = place_slot(d, place_of(node->parent),
					       node->entry);

	while (*slot != node)
		slot = &(*slot)->by_place;
	*slot = node->by_place;
}

static int slots_make(struct ck_dirs *d, size_t slots)
{
	d->by_number = calloc(slots, sizeof(struct ck_dir_number *));
	d->by_place = calloc(slots, sizeof(struct ck_dir_node *));
	d->mask = slots - 1;
	if (d->by_number && d->by_place)
		return 0;
	free(d->by_number);
	free(d->by_place);
	return -ENOMEM;
}

/* Each in the slot of old->mask goes to its new one. */
static void slot_move(struct ck_dirs *d, const struct ck_dirs *old, size_t slot)
{
	for (struct ck_dir_number *at = old->by_number[slot], *next; at;
	     at = next) {
		next = at->next;
		number_add(d, at);
	}
	for (struct ck_dir_node *at = old->by_place[slot], *next; at;
	     at = next) {
		next = at->by_place;
		place_add(d, at);
	}
}

/* As many slots as there are numbers, at least. -ENOMEM: as they were. */
static int tables_grow(struct ck_dirs *d)
{
	struct ck_dirs old = *d;

	if (d->nnumbers <= d->mask)
		return 0;
	if (slots_make(d, 2 * (old.mask + 1))) {
		*d = old;
		return -ENOMEM;
	}
	for (size_t i = 0; i <= old.mask; i++)
		slot_move(d, &old, i);
	free(old.by_number);
	free(old.by_place);
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
	return node->uses || node->kept || node->parent == node;
}

static void numbers_drop(struct ck_dirs *d, struct ck_dir_node *node)
{
	for (struct ck_dir_number *at = node->newest, *older; at; at = older) {
		older = at->older;
		number_drop(d, at);
		d->nnumbers--;
		if (at != &node->first)
			free(at);
	}
}

/* A directory that is not in use is gone. The one that it was in is the next that goes,
 * if nothing else keeps it. */
static void drop(struct ck_dirs *d, struct ck_dir_node *node)
{
	struct ck_dir_node *parent = node->parent;

	unused_drop(d, node);
	place_drop(d, node);
	peer_drop(node);
	numbers_drop(d, node);
	free(node);
	d->n--;
	parent->kept--;
	if (!is_in_use(parent))
		unused_add_oldest(d, parent);
}

/* After it gained or lost uses, or was only looked at: then it is the newest that is not
 * in use. Others may be gone then. */
static void settle(struct ck_dirs *d, struct ck_dir_node *node)
{
	unused_drop(d, node);
	if (!is_in_use(node))
		unused_add_newest(d, node);
	while (d->nunused > CK_DIRS_REMEMBERED)
		drop(d, d->oldest);
}

static void use(struct ck_dirs *d, struct ck_dir_node *node, uint64_t uses)
{
	node->uses += uses;
	root_use(node, uses, true);
	settle(d, node);
}

/* --- making -------------------------------------------------------------------- */

/* There is a number left, and room in the tables. */
static int number_check(struct ck_dirs *d)
{
	return d->next == CK_DIRS_MAX ? -ENFILE : tables_grow(d);
}

static void number_give(struct ck_dirs *d, struct ck_dir_node *node,
			struct ck_dir_number *number, uint64_t base)
{
	*number = (struct ck_dir_number){ .node = node,
					  .older = node->newest,
					  .base = base,
					  .number = d->next++ };
	node->newest = number;
	d->nnumbers++;
	number_add(d, number);
}

static int make(struct ck_dirs *d, struct ck_dir_node *parent, uint32_t entry,
		const struct ck_dir *dir, uint64_t base,
		struct ck_dir_node **out)
{
	int rc = number_check(d);
	struct ck_dir_node *node;

	if (rc)
		return rc;
	node = malloc(sizeof(*node));
	if (!node)
		return -ENOMEM;
	*node = (struct ck_dir_node){ .dir = *dir,
				      .parent = parent,
				      .entry = entry };
	number_give(d, node, &node->first, base);
	place_add(d, node);
	peer_add(node);
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
	struct ck_dir_number *parent = find(d, number);

	if (!parent)
		return -ESTALE;
	if (entry >= CK_ENTRIES_MAX)
		return -ENFILE;
	*out = find_at(d, parent->node, entry);
	return *out ? 0 : make(d, parent->node, entry, dir, base, out);
}

int ck_dirs_get(struct ck_dirs *d, uint32_t parent, uint32_t entry,
		const struct ck_dir *dir, uint64_t base, struct ck_dir_row *out)
{
	struct ck_dir_node *node;
	int rc;

	pthread_mutex_lock(&d->lock);
	rc = get(d, parent, entry, dir, base, &node);
	if (rc == 0) {
		*out = row_of(&node->first);
		use(d, node, 1);
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}

uint32_t ck_dirs_listed(struct ck_dirs *d, uint32_t parent, uint32_t entry,
			const struct ck_dir *dir, uint64_t base)
{
	struct ck_dir_number *in;
	struct ck_dir_node *node = NULL;
	uint32_t place = 0;

	pthread_mutex_lock(&d->lock);
	in = find(d, parent);
	if (in && entry < CK_ENTRIES_MAX)
		node = find_at(d, in->node, entry);
	if (!node && d->next < CK_DIRS_MAX / 2 &&
	    get(d, parent, entry, dir, base, &node))
		node = NULL;
	if (node) {
		place = place_of(node);
		use(d, node, 0);
	}
	pthread_mutex_unlock(&d->lock);
	return place;
}

static bool has_room(const struct ck_dir_number *number, uint64_t version)
{
	return version <= number->base ||
	       version - number->base < CK_VERSIONS_MAX;
}

/* One for a later generation would have the version of now and that of then be one. */
static int pick(struct ck_dirs *d, struct ck_dir_node *node, uint64_t version,
		uint64_t generation, struct ck_dir_number **out)
{
	struct ck_dir_number *at = node->newest;
	int rc;

	while (at && at->base > generation)
		at = at->older;
	*out = at;
	if (at && has_room(at, version))
		return 0;
	if (at != node->newest)
		return -EAGAIN;
	rc = number_check(d);
	if (rc)
		return rc;
	*out = malloc(sizeof(**out));
	if (!*out)
		return -ENOMEM;
	number_give(d, node, *out, generation);
	return 0;
}

int ck_dirs_renew(struct ck_dirs *d, uint32_t number, uint64_t version,
		  uint64_t generation, uint64_t uses, struct ck_dir_row *out)
{
	struct ck_dir_number *at;
	int rc;

	pthread_mutex_lock(&d->lock);
	at = find(d, number);
	rc = at ? pick(d, at->node, version, generation, &at) : -ESTALE;
	if (rc == 0) {
		*out = row_of(at);
		use(d, at->node, uses);
	}
	pthread_mutex_unlock(&d->lock);
	return rc;
}

/* --- the rest -------------------------------------------------------------------- */

bool ck_dirs_find(struct ck_dirs *d, uint32_t number, struct ck_dir_row *out)
{
	const struct ck_dir_number *at;

	pthread_mutex_lock(&d->lock);
	at = find(d, number);
	if (at)
		*out = row_of(at);
	pthread_mutex_unlock(&d->lock);
	return at;
}

void ck_dirs_use(struct ck_dirs *d, uint32_t number, uint64_t n)
{
	struct ck_dir_number *at;

	pthread_mutex_lock(&d->lock);
	at = find(d, number);
	if (at)
		use(d, at->node, n);
	pthread_mutex_unlock(&d->lock);
}

void ck_dirs_forget(struct ck_dirs *d, uint32_t number, uint64_t n)
{
	struct ck_dir_number *at;

	pthread_mutex_lock(&d->lock);
	at = find(d, number);
	if (at) {
		n = ck_min(at->node->uses, n);
		at->node->uses -= n;
		root_use(at->node, n, false);
		settle(d, at->node);
	}
	pthread_mutex_unlock(&d->lock);
}

/* Those that are copied are in use once more. */
static size_t used_copy(const struct ck_dirs *d, struct ck_dir_row *out)
{
	size_t n = 0;

	for (size_t i = 0; i <= d->mask; i++)
		for (struct ck_dir_node *node = d->by_place[i]; node;
		     node = node->by_place)
			if (node->uses || node->parent == node) {
				out[n++] = row_of(&node->first);
				node->uses++;
				root_use(node, 1, true);
			}
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

uint64_t ck_dirs_uses(struct ck_dirs *d, const struct ck_root *root)
{
	uint64_t uses;

	pthread_mutex_lock(&d->lock);
	uses = root->uses;
	pthread_mutex_unlock(&d->lock);
	return uses;
}

void ck_dirs_drop(struct ck_dirs *d, struct ck_root *root)
{
	pthread_mutex_lock(&d->lock);
	while (root->nodes)
		drop(d, root->nodes);
	pthread_mutex_unlock(&d->lock);
}

int ck_dirs_init(struct ck_dirs *d, const struct ck_dir *root, uint64_t base)
{
	struct ck_dir_node *node = calloc(1, sizeof(*node));

	*d = (struct ck_dirs){ .n = 1, .seed = ck_hash_seed() };
	if (!node || slots_make(d, SLOTS_MIN)) {
		free(node);
		return -ENOMEM;
	}
	pthread_mutex_init(&d->lock, NULL);
	node->dir = *root;
	node->parent = node;
	node->entry = CK_ENTRIES_MAX; /* no other is there */
	number_give(d, node, &node->first, base);
	place_add(d, node);
	peer_add(node);
	return 0;
}

void ck_dirs_fini(struct ck_dirs *d)
{
	for (size_t i = 0; i <= d->mask; i++)
		for (struct ck_dir_node *node = d->by_place[i], *next; node;
		     node = next) {
			next = node->by_place;
			peer_drop(node);
			root_use(node, node->uses, false);
			numbers_drop(d, node);
			free(node);
		}
	free(d->by_number);
	free(d->by_place);
	pthread_mutex_destroy(&d->lock);
}
