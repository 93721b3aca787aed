/* SPDX-License-Identifier: MIT */
/*
 * area_way: names of nodes of files/: the way from a directory that has a descriptor, see
 * area_table.h. All functions lock ck_area_table.lock; any thread.
 */
#include "area_table_internal.h"

#include <errno.h>
#include <string.h>

/* Finds the node from which the way begins, and what it needs. Under the lock. */
static int way_measure(const struct ck_area_node *n, struct ck_area_way *w,
		       size_t *bytes)
{
	const struct ck_area_node *at = n;

	for (*bytes = 0; at && at->fd < 0; at = at->parent) {
		if (!at->name)
			return -ESTALE;
		*bytes += strlen(at->name) + 1;
		w->n++;
	}
	*bytes += w->n * sizeof(*w->steps);
	return 0;
}

/* Fills the steps from n upwards. Returns the node above them. Under the lock. */
static struct ck_area_node *way_fill(struct ck_area_node *n,
				     struct ck_area_way *w)
{
	char *text = (char *)(w->steps + w->n);

	for (size_t i = w->n; i > 0; i--, n = n->parent) {
		n->refs++;
		w->steps[i - 1] = (struct ck_area_step){ n, text };
		text = stpcpy(text, n->name) + 1;
	}
	return n;
}

int ck_area_way_find(struct ck_area_table *t, struct ck_area_node *n,
		     struct ck_area_way *out)
{
	size_t bytes;
	int rc;

	*out = (struct ck_area_way){ .fd = -1 };
	pthread_mutex_lock(&t->lock);
	rc = way_measure(n, out, &bytes);
	if (rc == 0 && bytes) {
		out->steps = malloc(bytes);
		rc = out->steps ? 0 : -ENOMEM;
	}
	if (rc == 0)
		out->above = way_fill(n, out);
	else
		out->n = 0;
	if (out->above) {
		out->above->refs++;
		out->fd = ck_area_table_pin(t, out->above);
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

void ck_area_way_fini(struct ck_area_table *t, struct ck_area_way *w)
{
	struct ck_area_node *unused = NULL;

	pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < w->n; i++) {
		w->steps[i].node->refs--;
		ck_area_table_take(t, w->steps[i].node, &unused);
	}
	if (w->above) {
		w->above->refs--;
		ck_area_table_take(t, w->above, &unused);
	}
	pthread_mutex_unlock(&t->lock);
	ck_area_table_free(unused);
	free(w->steps);
}

/* Names of nodes below a top are at most that long, see ck_area_lookup(). */
static void name_copy(char to[static CK_AREA_NAME_BYTES], const char *name)
{
	size_t len = strnlen(name, CK_AREA_NAME_BYTES - 1);

	memcpy(to, name, len);
	to[len] = '\0';
}

int ck_area_name_of(struct ck_area_table *t, const struct ck_area_node *n,
		    struct ck_area_node **parent,
		    char name[static CK_AREA_NAME_BYTES])
{
	int rc = n->id.top ? 0 : -EINVAL;

	*parent = NULL;
	pthread_mutex_lock(&t->lock);
	if (rc == 0 && !n->name)
		rc = -ESTALE;
	if (rc == 0) {
		*parent = n->parent;
		n->parent->refs++;
		name_copy(name, n->name);
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

int ck_area_first_name(struct ck_area_table *t, const struct ck_area_node *n,
		       char name[static CK_AREA_NAME_BYTES])
{
	int rc = 0;

	name[0] = '\0';
	pthread_mutex_lock(&t->lock);
	while (n->id.top && n->name && n->parent->id.top)
		n = n->parent;
	if (n->id.top && n->name)
		name_copy(name, n->name);
	else if (n->id.top)
		rc = -ESTALE;
	pthread_mutex_unlock(&t->lock);
	return rc;
}
