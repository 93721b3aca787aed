/* SPDX-License-Identifier: MIT */
/* pickler_json: writes pickles of protocol 2 of values that are not in a pickle. Stateless; any
 * thread. */
#ifndef CK_PICKLER_JSON_H
#define CK_PICKLER_JSON_H

#include "ckptfs/base.h"

/* Appends a pickle of the value of a JSON text, as Python's json reads it: NaN, Infinity and
 * -Infinity are numbers. Returns 0, or: -EBADMSG if the text is malformed; -ENOMEM. */
CK_MUST_USE int ck_pickle_of_json(struct ck_str text, struct ck_buf *out,
				  struct ck_diag *d);
/* Appends a pickle of a bytes object. Returns 0, or: -EBADMSG if it is too long; -ENOMEM. */
CK_MUST_USE int ck_pickle_of_bytes(struct ck_str bytes, struct ck_buf *out,
				   struct ck_diag *d);

#endif
