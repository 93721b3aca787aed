/* SPDX-License-Identifier: MIT */
/*
 * optim_states: the tensors that optimizers keep for parameters, as optim/ shows them by-name. A
 * part of view.
 */
#ifndef CK_OPTIM_STATES_H
#define CK_OPTIM_STATES_H

#include "ckptfs/view.h"

/* A tensor of the state of an optimizer. */
struct ck_optim_state {
	uint32_t parameter; /* row of the tensor of the model */
	uint32_t tensor;    /* row of the tensor of the state */
	struct ck_str name; /* such as "exp_avg"; valid during the call */
};

/* Calls each() for each tensor of state whose parameter is a tensor of the model; in the order of
 * the checkpoint. Reads the lists of parameters in groups; a damaged list counts as absent. Any
 * thread. Returns 0, or: -ENOMEM; a transient error of reading; an error of each(). */
CK_MUST_USE int ck_optim_states_each(
	const struct ck_catalog *c, const struct ck_object_access *objects,
	int (*each)(void *arg, const struct ck_optim_state *s), void *arg);

#endif
