/* SPDX-License-Identifier: MIT */
/*
 * state_warn: warnings about the state dict as a whole, which `check` prints. A part of view.
 */
#ifndef CK_STATE_WARN_H
#define CK_STATE_WARN_H

#include "ckptfs/view.h"
#include "model/catalog/fault.h"

/* Calls warn() for each warning, as ck_checkpoint_warn() does: the checkpoint has no tensor of a
 * model, or optimizers have groups and none has state. Any thread. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_state_warn(const struct ck_catalog *c,
			      void (*warn)(void *arg, const struct ck_fault *f),
			      void *arg);

#endif
