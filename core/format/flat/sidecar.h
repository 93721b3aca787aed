/* SPDX-License-Identifier: MIT */
/*
 * sidecar: ckptfs-flat.json, which says what parameters the flat parameters of FSDP1 are
 * made of; mount-helpers/python/ckptfs_sidecar.py writes it. A value: it knows neither
 * catalog nor files.
 *
 * Source: torch/distributed/fsdp/_flat_param.py, _init_flat_param_and_metadata() (order,
 * alignment, what is shared), torch/optim/optimizer.py, state_dict() (numbers of state).
 */
#ifndef CK_FORMAT_SIDECAR_H
#define CK_FORMAT_SIDECAR_H

#include "ckptfs/json_reader.h"
#include "ckptfs/model.h"

enum {
	CK_SIDECAR_MOST = 100000000, /* bytes */
	CK_SIDECAR_PARAMS = 1000000, /* parameters, and names that share one */
	CK_SIDECAR_NONE = UINT32_MAX,
};

/* Elements [offset, offset + numel) of its unit. */
struct ck_sidecar_param {
	struct ck_str fqn;
	uint64_t offset, numel;
	uint32_t ndim;	/* at most CK_MAX_DIMS */
	uint32_t shape; /* first of ndim in ck_sidecar.shapes */
};

/* A further name of a parameter. */
struct ck_sidecar_shared {
	struct ck_str fqn, name; /* name: of the other */
	uint32_t of;		 /* in ck_sidecar.params */
};

/* A flat parameter: its parameters are inside it and disjoint, in the file's order. What
 * is in none is padding. */
struct ck_sidecar_unit {
	struct ck_str flat_param;
	struct ck_str dtype; /* as spelled; p is NULL: not said */
	uint64_t numel;
	uint32_t param, nparams;  /* first in ck_sidecar.params */
	uint32_t shared, nshared; /* first in ck_sidecar.shared */
};

/* What an optimizer has under a number: a unit, or a parameter. */
struct ck_sidecar_state {
	struct ck_str name;
	uint32_t
		unit; /* also of the parameter; CK_SIDECAR_NONE: it is in none */
	uint32_t param; /* CK_SIDECAR_NONE: it is the unit */
};

struct ck_sidecar_optimizer {
	uint32_t state, nstates; /* first in ck_sidecar.states, by number */
};

/* Texts lie in the JSON, or in `texts`. All names of units differ, and so do all of
 * parameters. */
struct ck_sidecar {
	struct ck_sidecar_unit *units;
	struct ck_sidecar_param *params;
	struct ck_sidecar_shared *shared;
	struct ck_sidecar_optimizer *optimizers;
	struct ck_sidecar_state *states;
	int64_t *shapes;
	size_t nunits, nparams, nshared, noptimizers, nstates, nshapes;
	uint64_t world; /* 0: not said */
	/* private */
	size_t units_cap, params_cap, shared_cap, optimizers_cap, states_cap,
		shapes_cap;
	uint32_t *
		by_length; /* units, sorted by length of their names, then bytes */
	struct ck_sidecar_name *by_name; /* of parameters and those that share
					  * them, sorted */
	size_t nnames;
	struct ck_arena texts;
	struct ck_json_reader *json; /* while it is read */
};

/* text: the whole file, which outlives it. -EBADMSG: it is refused, and the diagnosis
 * says why; -ENOMEM. fini in any case. */
CK_MUST_USE int ck_sidecar_read(struct ck_sidecar *s, struct ck_str text,
				struct ck_diag *d);
void ck_sidecar_fini(struct ck_sidecar *s);

static inline const int64_t *ck_sidecar_shape(const struct ck_sidecar *s,
					      const struct ck_sidecar_param *p)
{
	return s->shapes + p->shape;
}

/* --- what an entry is: names.c ---------------------------------------------------- */

/* The unit that an entry is which is shown under this name: its own name is that, or
 * what is behind a dot of it, the longest such. *prefix: what stands before, with the dot;
 * it is put before the names of the unit's parameters. NULL: none. */
const struct ck_sidecar_unit *ck_sidecar_find(const struct ck_sidecar *s,
					      struct ck_str shown,
					      struct ck_str *prefix);
/* Is the unit about a tensor of so many elements, which is shown under this name?
 * -EBADMSG, and the diagnosis is a line of damage: it is not used. */
CK_MUST_USE int ck_sidecar_fits(const struct ck_sidecar_unit *unit,
				struct ck_str shown, uint64_t numel,
				struct ck_diag *d);
/* What an optimizer has under a number; NULL: nothing is said. */
const struct ck_sidecar_state *ck_sidecar_state(const struct ck_sidecar *s,
						uint64_t optimizer,
						uint64_t number);

#endif
