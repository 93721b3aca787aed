/* SPDX-License-Identifier: MIT */
/* view_example: the view of view_example.c. */
#ifndef CK_VIEW_EXAMPLE_H
#define CK_VIEW_EXAMPLE_H

#include "ckptfs/view.h"

extern const struct ck_tensor_view view_example;

#endif
