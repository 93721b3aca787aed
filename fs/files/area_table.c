/* SPDX-License-Identifier: MIT */
/*
 * area_table: see area_table.h. Nodes are in two hash tables: by number, and by parent and
 * name as long as the name leads to their file. A node that is not used any more is freed
 * with its reference to its parent, which may free that too. Descriptors are closed after
 * the lock is released: close(2) may wait for the source.
 */
#include "area_table.h"

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
	t->by_name = calloc(t->mask + 1, sizeof(struct ck_area_node *));
	return t->by_number && t->by_name ? 0 : -ENOMEM;
}

void ck_area_table_fini(struct ck_area_table *t)
{
	for (size_t i = 0; t->by_number && i <= t->mask; i++)
		for (struct ck_area_node *n = t->by_number[i], *next; n;
		     n = next) {
			next = n->next_number;
			if (n->fd >= 0)
				close(n->fd);
			free(n);
		}
	free(t->by_number);
	free(t->by_name);
	pthread_mutex_destroy(&t->lock);
}

/* --- hash tables ------------------------------------------------------------------- */

static size_t number_slot(const struct ck_area_table *t, uint64_t number)
{
	return (size_t)(number - t->first) & t->mask;
}

static size_t name_slot(const struct ck_area_table *t,
			const struct ck_area_node *parent, const char *name)
{
	uint64_t seed = t->seed ^ (parent ? parent->number : 0);

	return (size_t)ck_hash64_seeded(ck_str_from(name), seed) & t->mask;
}

static void node_link(struct ck_area_table *t, struct ck_area_node *n)
{
	struct ck_area_node **number = &t->by_number[number_slot(t, n->number)];
	struct ck_area_node **name =
		&t->by_name[name_slot(t, n->parent, n->name)];

	n->next_number = *number;
	*number = n;
	if (!n->has_name)
		return;
	n->next_name = *name;
	*name = n;
}

static void name_unlink(struct ck_area_table *t, struct ck_area_node *n)
{
	struct ck_area_node **at =
		&t->by_name[name_slot(t, n->parent, n->name)];

	if (!n->has_name)
		return;
	while (*at != n)
		at = &(*at)->next_name;
	*at = n->next_name;
	n->has_name = false;
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
	struct ck_area_node **number, **name;

	if (t->n <= t->mask)
		return;
	number = calloc(chains, sizeof(struct ck_area_node *));
	name = calloc(chains, sizeof(struct ck_area_node *));
	if (!number || !name) {
		free(number);
		free(name);
		return;
	}
	t->by_number = number;
	t->by_name = name;
	t->mask = chains - 1;
	for (size_t i = 0; i <= old.mask; i++)
		for (struct ck_area_node *n = old.by_number[i], *next; n;
		     n = next) {
			next = n->next_number;
			node_link(t, n);
		}
	free(old.by_number);
	free(old.by_name);
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

static void fd_close(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* --- lifetime ---------------------------------------------------------------------- */

/* Takes nodes that are not used any more out of the tables, upwards from n; as a list by
 * next_number. Under the lock. */
static struct ck_area_node *unused_take(struct ck_area_table *t,
					struct ck_area_node *n)
{
	struct ck_area_node *list = NULL;

	while (n && n->refs == 0 && n->lookups == 0) {
		struct ck_area_node *parent = n->parent;

		name_unlink(t, n);
		number_unlink(t, n);
		if (is_listed(n))
			unused_remove(t, n);
		if (n->fd >= 0)
			t->fds--;
		t->n--;
		n->next_number = list;
		list = n;
		n = parent;
		if (n)
			n->refs--;
	}
	return list;
}

static void nodes_free(struct ck_area_node *list)
{
	for (struct ck_area_node *next; list; list = next) {
		next = list->next_number;
		fd_close(list->fd);
		free(list);
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
	struct ck_area_node *list;

	if (!n)
		return;
	pthread_mutex_lock(&t->lock);
	n->refs--;
	list = unused_take(t, n);
	pthread_mutex_unlock(&t->lock);
	nodes_free(list);
}

void ck_area_forget(struct ck_area_table *t, uint64_t number, uint64_t n)
{
	struct ck_area_node *node, *list = NULL;

	pthread_mutex_lock(&t->lock);
	node = number_find(t, number);
	if (node) {
		node->lookups -= ck_min(node->lookups, n);
		list = unused_take(t, node);
	}
	pthread_mutex_unlock(&t->lock);
	nodes_free(list);
}

/* --- names -------------------------------------------------------------------------- */

static bool is_same(const struct ck_area_id *a, const struct ck_area_id *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->type == b->type &&
	       a->covered == b->covered;
}

/* Under the lock. */
static struct ck_area_node *name_find(const struct ck_area_table *t,
				      const struct ck_area_node *parent,
				      const char *name)
{
	struct ck_area_node *n = t->by_name[name_slot(t, parent, name)];

	while (n && (n->parent != parent || strcmp(n->name, name) != 0))
		n = n->next_name;
	return n;
}

/* Under the lock. */
static struct ck_area_node *node_make(struct ck_area_table *t,
				      struct ck_area_node *parent,
				      const char *name,
				      const struct ck_area_id *id)
{
	size_t len = strlen(name) + 1;
	struct ck_area_node *n = calloc(1, sizeof(*n) + len);

	if (!n)
		return NULL;
	n->number = t->next++;
	n->parent = parent;
	n->id = *id;
	n->fd = -1;
	n->has_name = true;
	memcpy(n->name, name, len);
	if (parent)
		parent->refs++;
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
	struct ck_area_node *n;

	pthread_mutex_lock(&t->lock);
	n = name_find(t, parent, name);
	if (n && !is_same(&n->id, id)) {
		name_unlink(t, n);
		n = NULL;
	}
	if (!n)
		n = node_make(t, parent, name, id);
	if (n) {
		n->refs++;
		n->lookups += lookups;
		fd = fd_keep(t, n, fd);
	}
	pthread_mutex_unlock(&t->lock);
	fd_close(fd);
	*out = n;
	return n ? 0 : -ENOMEM;
}

/* --- descriptors -------------------------------------------------------------------- */

int ck_area_fd_pin(struct ck_area_table *t, struct ck_area_node *n)
{
	int fd;

	pthread_mutex_lock(&t->lock);
	fd = n->fd;
	if (is_listed(n))
		unused_remove(t, n);
	if (fd >= 0)
		n->pins++;
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

/* --- open files --------------------------------------------------------------------- */

static bool is_at(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* A file that changed within the last seconds may change again within one tick of the
 * clock of its file system. */
static bool is_settled(const struct stat *st)
{
	enum { SECONDS = 2 };
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return st->st_ctim.tv_sec < now.tv_sec - SECONDS;
}

bool ck_area_note_open(struct ck_area_table *t, struct ck_area_node *n,
		       const struct stat *st)
{
	const struct ck_area_opened now = { .mtime = st->st_mtim,
					    .ctime = st->st_ctim,
					    .size = st->st_size,
					    .known = is_settled(st) };
	bool same;

	pthread_mutex_lock(&t->lock);
	same = n->opened.known && now.known && now.size == n->opened.size &&
	       is_at(now.mtime, n->opened.mtime) &&
	       is_at(now.ctime, n->opened.ctime);
	n->opened = now;
	pthread_mutex_unlock(&t->lock);
	return same;
}

void ck_area_counts(struct ck_area_table *t, size_t *nodes, unsigned *fds)
{
	pthread_mutex_lock(&t->lock);
	*nodes = t->n;
	*fds = t->fds;
	pthread_mutex_unlock(&t->lock);
}
