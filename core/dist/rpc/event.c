/* SPDX-License-Identifier: MIT */
/*
 * event: a wake-up flag that poll(2) can wait for, made of an eventfd. Any
 * thread may set it; the thread that waits clears it.
 */
#include "dist/dist_internal.h"

#include <sys/eventfd.h>

int ck_event_make(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

/* A full counter is ignored: the descriptor is readable already. */
void ck_event_wake(int event)
{
	(void)eventfd_write(event, 1);
}

bool ck_event_drain(int event)
{
	eventfd_t count;

	return eventfd_read(event, &count) == 0;
}
