/* SPDX-License-Identifier: MIT */
/*
 * note: lines for the user about views. They go to the log, and to the function that a
 * command without a mount sets. No state; any thread.
 */
#include "ckptfs/view.h"

void ck_view_note(const struct ck_view_options *o, const char *line)
{
	ck_log("%s", line);
	if (o && o->note)
		o->note(line);
}
