/* SPDX-License-Identifier: MIT */
/*
 * nccl_group: the state machine of one group of transfers. LAUNCHES: NCCL puts
 * the transfers into the stream. RUNS: the stream executes them. On failure:
 * DROPS: the communicator is aborted; DRAINS: the stream becomes empty. OVER:
 * the result is in rc. One thread, which polls.
 */
#include "nccl_group.h"

#include <errno.h>

/* limit to abort a communicator; longer means never */
enum { DROP_MSEC = 2000 };

static void over(struct ck_nccl_group *f, int rc)
{
	f->rc = rc;
	f->step = CK_NCCL_GROUP_OVER;
}

/* The device or NCCL has failed. */
static void fail(struct ck_nccl_group *f)
{
	f->broken = true;
	over(f, f->rc ? f->rc : -EIO);
}

static void drop(struct ck_nccl_group *f, int rc)
{
	f->rc = rc;
	f->step = CK_NCCL_GROUP_DROPS;
	f->since = ck_msec_now();
	ck_nccl_epochs_drop(f->epochs);
}

void ck_nccl_group_begin(struct ck_nccl_group *f, int rc)
{
	f->rc = 0;
	f->step = CK_NCCL_GROUP_LAUNCHES;
	if (rc)
		drop(f, rc);
}

void ck_nccl_group_abort(struct ck_nccl_group *f, int rc)
{
	if (f->step == CK_NCCL_GROUP_LAUNCHES || f->step == CK_NCCL_GROUP_RUNS)
		drop(f, rc);
}

/* --- steps; each returns 0 if the next one can run, or -EINPROGRESS ------- */

static int wait_for_launch(struct ck_nccl_group *f)
{
	int rc = ck_nccl_epochs_poll(f->epochs);

	if (rc == -EINPROGRESS)
		return rc;
	f->step = CK_NCCL_GROUP_RUNS;
	if (rc == 0) {
		rc = ck_nccl_comm_mark(&f->epochs->comm);
		f->broken |= rc != 0;
	}
	if (rc)
		drop(f, -EIO);
	return 0;
}

static int wait_for_transfers(struct ck_nccl_group *f)
{
	int rc = ck_nccl_comm_is_marked(&f->epochs->comm);
	/* The state is read after the mark: the stream of an aborted
	 * communicator becomes empty, too, without its transfers. */
	int state = ck_nccl_epochs_poll(f->epochs);

	f->broken |= rc && rc != -EINPROGRESS;
	if ((rc == 0 || rc == -EINPROGRESS) &&
	    (state == -EINPROGRESS || (rc && state == 0)))
		return -EINPROGRESS;
	if (rc || state) {
		drop(f, -EIO);
		return 0;
	}
	ck_nccl_epochs_rest(f->epochs);
	over(f, 0);
	return 0;
}

static int wait_for_drop(struct ck_nccl_group *f)
{
	if (!ck_nccl_epochs_is_dropped(f->epochs)) {
		if (ck_msec_now() - f->since < DROP_MSEC)
			return -EINPROGRESS;
		fail(f);
	} else if (ck_nccl_comm_mark(&f->epochs->comm)) {
		fail(f);
	} else {
		f->step = CK_NCCL_GROUP_DRAINS;
	}
	return 0;
}

static int wait_for_streams(struct ck_nccl_group *f)
{
	int rc = ck_nccl_comm_is_marked(&f->epochs->comm);

	if (rc == -EINPROGRESS && ck_msec_now() - f->since < DROP_MSEC)
		return rc;
	if (rc)
		fail(f);
	else
		over(f, f->rc);
	return 0;
}

int ck_nccl_group_advance(struct ck_nccl_group *f)
{
	static int (*const steps[])(struct ck_nccl_group * f) = {
		[CK_NCCL_GROUP_LAUNCHES] = wait_for_launch,
		[CK_NCCL_GROUP_RUNS] = wait_for_transfers,
		[CK_NCCL_GROUP_DROPS] = wait_for_drop,
		[CK_NCCL_GROUP_DRAINS] = wait_for_streams,
	};
	int rc = 0;

	while (rc == 0 && f->step != CK_NCCL_GROUP_OVER)
		rc = steps[f->step](f);
	return rc;
}
