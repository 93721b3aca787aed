/* SPDX-License-Identifier: MIT */
/*
 * area_handle: open files and directories of files/. The list of them is for the end of the
 * mount, when the kernel sends no release. It is under ck_area.handles_lock; any thread.
 */
#include "area_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Returns false if there are too many. */
static bool handle_list(struct ck_area *a, struct ck_area_handle *h)
{
	bool fits;

	pthread_mutex_lock(&a->handles_lock);
	fits = a->nhandles < a->handles_most;
	if (fits) {
		a->nhandles++;
		h->next = a->handles;
		if (h->next)
			h->next->prev = h;
		a->handles = h;
	}
	pthread_mutex_unlock(&a->handles_lock);
	return fits;
}

int ck_area_handle_make(struct ck_area *a, struct ck_area_node *n, int fd,
			struct ck_area_handle **out)
{
	struct ck_area_handle *h = calloc(1, sizeof(*h));

	*out = NULL;
	if (h) {
		*h = (struct ck_area_handle){ .fd = fd, .node = n };
		/* before another thread can find it */
		ck_area_hold(&a->table, n);
		if (handle_list(a, h)) {
			*out = h;
			return 0;
		}
		ck_area_put(&a->table, n);
	}
	if (fd >= 0)
		close(fd);
	if (!h)
		return -ENOMEM;
	free(h);
	return -ENFILE;
}

int ck_area_handle_room(struct ck_area *a)
{
	bool fits;

	pthread_mutex_lock(&a->handles_lock);
	fits = a->nhandles < a->handles_most;
	pthread_mutex_unlock(&a->handles_lock);
	return fits ? 0 : -ENFILE;
}

bool ck_area_handle_writes(struct ck_area *a, const struct ck_area_node *n)
{
	const struct ck_area_handle *h;

	pthread_mutex_lock(&a->handles_lock);
	for (h = a->handles; h && (h->node != n || !h->writes);)
		h = h->next;
	pthread_mutex_unlock(&a->handles_lock);
	return h;
}

int ck_area_handle_dup(struct ck_area *a, const struct ck_area_node *n)
{
	const struct ck_area_handle *h;
	int fd = -ESTALE;

	pthread_mutex_lock(&a->handles_lock);
	for (h = a->handles; h && (h->node != n || h->fd < 0);)
		h = h->next;
	if (h)
		fd = fcntl(h->fd, F_DUPFD_CLOEXEC, 0);
	if (h && fd < 0)
		fd = -errno;
	pthread_mutex_unlock(&a->handles_lock);
	return fd;
}

static void list_free(struct ck_area_list *l)
{
	if (!l)
		return;
	pthread_mutex_destroy(&l->lock);
	free(l);
}

void ck_area_handle_free(struct ck_area *a, struct ck_area_handle *h)
{
	pthread_mutex_lock(&a->handles_lock);
	a->nhandles--;
	if (h->prev)
		h->prev->next = h->next;
	else
		a->handles = h->next;
	if (h->next)
		h->next->prev = h->prev;
	pthread_mutex_unlock(&a->handles_lock);
	list_free(h->list);
	if (h->backed)
		ck_backing_drop(a->backing, &h->node->backed,
				fuse_session_fd(a->fs->session));
	if (h->fd >= 0)
		close(h->fd);
	ck_area_put(&a->table, h->node);
	free(h);
}
