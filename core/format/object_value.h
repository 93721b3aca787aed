/* SPDX-License-Identifier: MIT */
/* object_value: an object that is a value of a larger pickle (CK_FORM_VALUE). */
#ifndef CK_OBJECT_VALUE_H
#define CK_OBJECT_VALUE_H

#include "ckptfs/format.h"

/* Appends the value of a pickle as one line of JSON. Returns 0, or errors of ck_pickle_read()
 * and ck_pickle_json(). */
CK_MUST_USE int ck_value_json(struct ck_str pickle, struct ck_buf *out,
			      struct ck_diag *d);
/* Appends an archive with the value of an object, without its gaps, see ck_object_item().
 * Appends nothing on error. Caller frees gaps->list, also after an error. Returns 0, or: the
 * err of a storage; -ENOMEM. */
CK_MUST_USE int ck_value_archive(const struct ck_object *o, struct ck_buf *out,
				 struct ck_object_gaps *gaps,
				 struct ck_diag *d);

#endif
