/* SPDX-License-Identifier: MIT */
/*
 * What wakes a thread that waits: it stays awake until it was drained, and nobody waits
 * for it to be.
 */
#include "dist/dist_internal.h"
#include "tap.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static bool is_awake(int event)
{
	struct pollfd fd = { .fd = event, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

int main(void)
{
	int event = ck_event_make();

	ok(event >= 0 && !is_awake(event));
	ok(!ck_event_drain(event));
	ck_event_wake(event);
	ck_event_wake(event);
	ok(is_awake(event));
	ok(ck_event_drain(event));
	ok(!is_awake(event) && !ck_event_drain(event));
	/* As often as can be counted. */
	ok(eventfd_write(event, UINT64_MAX - 1) == 0);
	ck_event_wake(event);
	ok(ck_event_drain(event) && !is_awake(event));
	close(event);
	return tap_done();
}
