/* SPDX-License-Identifier: MIT */
/* event: see dist_internal.h. */
#include "dist_internal.h"

#include <sys/eventfd.h>

int ck_event_make(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

/* One that is full is awake. */
void ck_event_wake(int event)
{
	(void)eventfd_write(event, 1);
}

bool ck_event_drain(int event)
{
	eventfd_t count;

	return eventfd_read(event, &count) == 0;
}
