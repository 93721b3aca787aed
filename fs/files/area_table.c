/* SPDX-License-Identifier: MIT */
/*
 * area_table: see area_table.h. Nodes are in two hash tables, by number and by identity. A
 * node that is not used any more is freed with its reference to its parent, which may free
 * that too. Descriptors are closed after the lock is released: close(2) may wait for the
 * source.
 *
 * Names are hints: the source changes beside the mount. Each use compares the file behind
 * the name with the identity of the node.
 */
#include "area_table_internal.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { CHAINS_LEAST = 256 };

int ck_area_table_init(struct ck_area_table *t, uint64_t first,
		       unsigned fds_max)
{
	*t = (struct ck_area_table){ .first = first,
				     .next = first,
				     .seed = ck_hash_seed(),
				     .fds_max = fds_max,
				     .mask = CHAINS_LEAST - 1 };
	pthread_mutex_init(&t->lock, NULL);
	t->by_number = calloc(t->mask + 1, sizeof(struct ck_area_node *));
	t->by_id = calloc(t->mask + 1, sizeof(struct ck_area_node *));
	return t->by_number && t->by_id ? 0 : -ENOMEM;
}

static void fd_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void node_free(struct ck_area_node *n)
{
	fd_close(n->fd);
	free(n->name);
	free(n);
}

void ck_area_table_fini(struct ck_area_table *t)
{
	for (size_t i = 0; t->by_number && i <= t->mask; i++)
		for (struct ck_area_node *n = t->by_number[i], *next; n;
		     n = next) {
			next = n->next_number;
			node_free(n);
		}
	free(t->by_number);
	free(t->by_id);
	pthread_mutex_destroy(&t->lock);
}

/* --- hash tables ------------------------------------------------------------------- */

static size_t number_slot(const struct ck_area_table *t, uint64_t number)
{
	return (size_t)(number - t->first) & t->mask;
}

static size_t id_slot(const struct ck_area_table *t,
		      const struct ck_area_id *id)
{
	const uint64_t key[] = { id->top, id->dev, id->ino, id->generation,
				 id->type | (mode_t)id->covered };

	return (size_t)ck_hash64_seeded(
		       (struct ck_str){ (const char *)key, sizeof(key) },
		       t->seed) &
	       t->mask;
}

static void node_link(struct ck_area_table *t, struct ck_area_node *n)
{
	struct ck_area_node **number = &t->by_number[number_slot(t, n->number)];
	struct ck_area_node **id = &t->by_id[id_slot(t, &n->id)];

	n->next_number = *number;
	*number = n;
	n->next_id = *id;
	*id = n;
}

static void id_unlink(struct ck_area_table *t, struct ck_area_node *n)
{
	struct ck_area_node **at = &t->by_id[id_slot(t, &n->id)];

	while (*at != n)
		at = &(*at)->next_id;
	*at = n->next_id;
}

static void number_unlink(struct ck_area_table *t, struct ck_area_node *n)
{
	struct ck_area_node **at = &t->by_number[number_slot(t, n->number)];

	while (*at != n)
		at = &(*at)->next_number;
	*at = n->next_number;
}

/* Without memory the chains stay long. */
static void tables_grow(struct ck_area_table *t)
{
	struct ck_area_table old = *t;
	size_t chains = 2 * (t->mask + 1);
	struct ck_area_node **number, **id;

	if (t->n <= t->mask)
		return;
	number = calloc(chains, sizeof(struct ck_area_node *));
	id = calloc(chains, sizeof(struct ck_area_node *));
	if (!number || !id) {
		free(number);
		free(id);
		return;
	}
	t->by_number = number;
	t->by_id = id;
	t->mask = chains - 1;
	for (size_t i = 0; i <= old.mask; i++)
		for (struct ck_area_node *n = old.by_number[i], *next; n;
		     n = next) {
			next = n->next_number;
			node_link(t, n);
		}
	free(old.by_number);
	free(old.by_id);
}

/* --- descriptors that no request uses ---------------------------------------------- */

static bool is_listed(const struct ck_area_node *n)
{
	return n->fd >= 0 && n->pins == 0;
}

static void unused_add(struct ck_area_table *t, struct ck_area_node *n)
{
	n->newer = NULL;
	n->older = t->newest;
	if (t->newest)
		t->newest->newer = n;
	else
		t->oldest = n;
	t->newest = n;
	t->unused++;
}

static void unused_remove(struct ck_area_table *t, struct ck_area_node *n)
{
	if (n->newer)
		n->newer->older = n->older;
	else
		t->newest = n->older;
	if (n->older)
		n->older->newer = n->newer;
	else
		t->oldest = n->newer;
	t->unused--;
}

/* A descriptor would keep the bytes of a file that is removed. */
static bool keeps_fd(const struct ck_area_node *n)
{
	return S_ISDIR(n->id.type);
}

/* Takes a descriptor from a node without pins. */
static int fd_take(struct ck_area_table *t, struct ck_area_node *n)
{
	int fd = n->fd;

	if (fd < 0)
		return fd;
	unused_remove(t, n);
	n->fd = -1;
	t->fds--;
	return fd;
}

/* The oldest descriptor if too many are kept; or -1. */
static int fd_excess(struct ck_area_table *t)
{
	return t->unused > t->fds_max ? fd_take(t, t->oldest) : -1;
}

/* --- lifetime ---------------------------------------------------------------------- */

/* Takes nodes that are not used any more out of the tables, upwards from n, and adds them
 * to a list by next_number. Under the lock. */
void ck_area_table_take(struct ck_area_table *t, struct ck_area_node *n,
			struct ck_area_node **list)
{
	while (n && n->refs == 0 && n->lookups == 0) {
		struct ck_area_node *parent = n->parent;

		id_unlink(t, n);
		number_unlink(t, n);
		if (is_listed(n))
			unused_remove(t, n);
		if (n->fd >= 0)
			t->fds--;
		t->n--;
		n->next_number = *list;
		*list = n;
		n = parent;
		if (n)
			n->refs--;
	}
}

void ck_area_table_free(struct ck_area_node *list)
{
	for (struct ck_area_node *next; list; list = next) {
		next = list->next_number;
		node_free(list);
	}
}

/* Under the lock. */
static struct ck_area_node *number_find(const struct ck_area_table *t,
					uint64_t number)
{
	struct ck_area_node *n = t->by_number[number_slot(t, number)];

	while (n && n->number != number)
		n = n->next_number;
	return n;
}

struct ck_area_node *ck_area_get(struct ck_area_table *t, uint64_t number)
{
	struct ck_area_node *n;

	pthread_mutex_lock(&t->lock);
	n = number_find(t, number);
	if (n)
		n->refs++;
	pthread_mutex_unlock(&t->lock);
	return n;
}

void ck_area_hold(struct ck_area_table *t, struct ck_area_node *n)
{
	pthread_mutex_lock(&t->lock);
	n->refs++;
	pthread_mutex_unlock(&t->lock);
}

void ck_area_put(struct ck_area_table *t, struct ck_area_node *n)
{
	struct ck_area_node *list = NULL;

	if (!n)
		return;
	pthread_mutex_lock(&t->lock);
	n->refs--;
	ck_area_table_take(t, n, &list);
	pthread_mutex_unlock(&t->lock);
	ck_area_table_free(list);
}

void ck_area_forget(struct ck_area_table *t, uint64_t number, uint64_t n)
{
	struct ck_area_node *node, *list = NULL;

	pthread_mutex_lock(&t->lock);
	node = number_find(t, number);
	if (node) {
		node->lookups -= ck_min(node->lookups, n);
		ck_area_table_take(t, node, &list);
	}
	pthread_mutex_unlock(&t->lock);
	ck_area_table_free(list);
}

/* --- names -------------------------------------------------------------------------- */

/* Under the lock. */
static void name_drop(struct ck_area_table *t, struct ck_area_node *n,
		      struct ck_area_node **unused)
{
	struct ck_area_node *parent = n->parent;

	free(n->name);
	n->name = NULL;
	n->parent = NULL;
	if (!parent)
		return;
	parent->refs--;
	ck_area_table_take(t, parent, unused);
}

/* A directory that was moved below one that was below it: the old name of that one would
 * close a circle. Under the lock. */
static void circle_break(struct ck_area_table *t, struct ck_area_node *n,
			 struct ck_area_node *parent,
			 struct ck_area_node **unused)
{
	struct ck_area_node *at = parent;

	while (at && at->parent != n)
		at = at->parent;
	if (at)
		name_drop(t, at, unused);
}

/* The caller refers to n and parent. Under the lock. Returns 0, or -ENOMEM. */
static int name_set(struct ck_area_table *t, struct ck_area_node *n,
		    struct ck_area_node *parent, const char *name,
		    struct ck_area_node **unused)
{
	char *copy;

	if (parent == n ||
	    (n->name && n->parent == parent && strcmp(n->name, name) == 0))
		return 0;
	copy = strdup(name);
	circle_break(t, n, parent, unused);
	if (parent && copy)
		parent->refs++;
	name_drop(t, n, unused);
	if (!copy)
		return -ENOMEM;
	n->parent = parent;
	n->name = copy;
	return 0;
}

static bool is_same(const struct ck_area_id *a, const struct ck_area_id *b)
{
	return a->top == b->top && a->dev == b->dev && a->ino == b->ino &&
	       a->generation == b->generation && a->type == b->type &&
	       a->covered == b->covered;
}

/* Under the lock. */
static struct ck_area_node *id_find(const struct ck_area_table *t,
				    const struct ck_area_id *id)
{
	struct ck_area_node *n = t->by_id[id_slot(t, id)];

	while (n && !is_same(&n->id, id))
		n = n->next_id;
	return n;
}

/* Under the lock. */
static struct ck_area_node *node_make(struct ck_area_table *t,
				      const struct ck_area_id *id)
{
	struct ck_area_node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->number = t->next++;
	n->id = *id;
	n->fd = -1;
	t->n++;
	tables_grow(t);
	node_link(t, n);
	return n;
}

/* Gives a node a descriptor that is not pinned. Returns the one to close, or -1. */
static int fd_keep(struct ck_area_table *t, struct ck_area_node *n, int fd)
{
	if (fd < 0 || n->fd >= 0 || !keeps_fd(n))
		return fd;
	n->fd = fd;
	t->fds++;
	unused_add(t, n);
	return fd_excess(t);
}

int ck_area_enter(struct ck_area_table *t, struct ck_area_node *parent,
		  const char *name, const struct ck_area_id *id, int fd,
		  unsigned lookups, struct ck_area_node **out)
{
	struct ck_area_node *n, *unused = NULL;
	int rc = -ENOMEM;

	*out = NULL;
	pthread_mutex_lock(&t->lock);
	n = id_find(t, id);
	if (!n)
		n = node_make(t, id);
	if (n) {
		n->refs++;
		rc = name_set(t, n, parent, name, &unused);
	}
	if (rc == 0) {
		n->lookups += lookups;
		fd = fd_keep(t, n, fd);
		*out = n;
	} else if (n) {
		n->refs--;
		ck_area_table_take(t, n, &unused);
	}
	pthread_mutex_unlock(&t->lock);
	fd_close(fd);
	ck_area_table_free(unused);
	return rc;
}

void ck_area_renamed(struct ck_area_table *t, const struct ck_area_id *id,
		     struct ck_area_node *parent, const char *name)
{
	struct ck_area_node *n, *unused = NULL;

	pthread_mutex_lock(&t->lock);
	n = id_find(t, id);
	if (n) {
		n->refs++;
		(void)!name_set(t, n, parent, name, &unused);
		n->refs--;
		ck_area_table_take(t, n, &unused);
	}
	pthread_mutex_unlock(&t->lock);
	ck_area_table_free(unused);
}

uint64_t ck_area_top_of(const struct ck_area_node *n)
{
	return n->id.top ? n->id.top : n->number;
}

struct ck_area_id ck_area_id_covered(const struct ck_area_table *t,
				     const struct ck_area_node *parent,
				     const char *name)
{
	uint64_t hash = ck_hash64_seeded(ck_str_from(name),
					 t->seed ^ parent->number);

	return (struct ck_area_id){ .top = ck_area_top_of(parent),
				    .ino = hash,
				    .type = S_IFDIR,
				    .covered = true };
}

/* Under the lock. */
int ck_area_table_pin(struct ck_area_table *t, struct ck_area_node *n)
{
	if (is_listed(n))
		unused_remove(t, n);
	if (n->fd >= 0)
		n->pins++;
	return n->fd;
}

/* --- descriptors -------------------------------------------------------------------- */

int ck_area_fd_pin(struct ck_area_table *t, struct ck_area_node *n)
{
	int fd;

	pthread_mutex_lock(&t->lock);
	fd = ck_area_table_pin(t, n);
	pthread_mutex_unlock(&t->lock);
	return fd;
}

int ck_area_fd_give(struct ck_area_table *t, struct ck_area_node *n, int fd)
{
	int use, excess = -1;

	pthread_mutex_lock(&t->lock);
	if (n->fd >= 0) {
		excess = fd;
		if (is_listed(n))
			unused_remove(t, n);
	} else {
		n->fd = fd;
		t->fds++;
	}
	n->pins++;
	use = n->fd;
	pthread_mutex_unlock(&t->lock);
	fd_close(excess);
	return use;
}

void ck_area_fd_unpin(struct ck_area_table *t, struct ck_area_node *n)
{
	int excess = -1;

	pthread_mutex_lock(&t->lock);
	if (--n->pins == 0) {
		unused_add(t, n);
		excess = keeps_fd(n) ? fd_excess(t) : fd_take(t, n);
	}
	pthread_mutex_unlock(&t->lock);
	fd_close(excess);
}

void ck_area_counts(struct ck_area_table *t, size_t *nodes, unsigned *fds)
{
	pthread_mutex_lock(&t->lock);
	*nodes = t->n;
	*fds = t->fds;
	pthread_mutex_unlock(&t->lock);
}
