/* SPDX-License-Identifier: MIT */
/*
 * options_reading: options that select what of a checkpoint is read and shown. They are
 * valid without a mount, too. No state.
 */
#ifndef CK_OPTIONS_READING_H
#define CK_OPTIONS_READING_H

#include "ckptfs/format.h"
#include "ckptfs/view.h"

/* Sets one option: name with its `=`, which must be known. Returns 0, or: -EINVAL; -ENOMEM. */
CK_MUST_USE int ck_option_set_reading(struct ck_format_options *format,
				      struct ck_view_options *view,
				      const char *name, const char *value,
				      struct ck_diag *d);
/* Replaces a text, which must not be empty. name: without `=`. Returns 0, or: -EINVAL;
 * -ENOMEM. */
CK_MUST_USE int ck_option_text(char **out, const char *name, const char *value,
			       struct ck_diag *d);

#endif
