/* SPDX-License-Identifier: MIT */
/*
 * sidecar: ckptfs-flat.json, the layout of the parameters in the flat parameters of
 * FSDP1. mount-helpers/python/ckptfs_sidecar.py writes it. A value, immutable after it
 * was read: it depends neither on the catalog nor on files, and any thread may read it.
 *
 * Source: torch/distributed/fsdp/_flat_param.py, _init_flat_param_and_metadata()
 * (order, alignment, shared parameters), torch/optim/optimizer.py, state_dict()
 * (numbers of state).
 */
#ifndef CK_SIDECAR_H
#define CK_SIDECAR_H

#include "ckptfs/model.h"
#include "syntax/json_reader.h"

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

/* Another name of a parameter. */
struct ck_sidecar_shared {
	struct ck_str fqn, name; /* name: first name of the parameter */
	uint32_t of;		 /* in ck_sidecar.params */
};

/* A flat parameter: its parameters are inside it and disjoint, in the file's order.
 * Elements between them are padding. */
struct ck_sidecar_unit {
	struct ck_str flat_param;
	struct ck_str dtype; /* as in the file; p is NULL if it is missing */
	uint64_t numel;
	uint32_t param, nparams;  /* first in ck_sidecar.params */
	uint32_t shared, nshared; /* first in ck_sidecar.shared */
};

/* The meaning of one number in an optimizer's state: a unit or a parameter. */
struct ck_sidecar_state {
	struct ck_str name;
	/* the unit, also of a parameter; CK_SIDECAR_NONE without a unit */
	uint32_t unit;
	uint32_t param; /* CK_SIDECAR_NONE for the whole unit */
};

struct ck_sidecar_optimizer {
	uint32_t state, nstates; /* first in ck_sidecar.states, by number */
};

/* Texts are in the JSON or in `texts`. Names of units are unique, and so are names of
 * parameters. */
struct ck_sidecar {
	struct ck_sidecar_unit *units;
	struct ck_sidecar_param *params;
	struct ck_sidecar_shared *shared;
	struct ck_sidecar_optimizer *optimizers;
	struct ck_sidecar_state *states;
	int64_t *shapes;
	size_t nunits, nparams, nshared, noptimizers, nstates, nshapes;
	/* number of ranks that share a flat parameter; 0 if missing */
	uint64_t world;
	/* private */
	size_t units_cap, params_cap, shared_cap, optimizers_cap, states_cap,
		shapes_cap;
	uint32_t *by_length; /* units by length of their names, then bytes */
	struct ck_sidecar_name *by_name; /* all names of parameters, sorted */
	size_t nnames;
	struct ck_arena texts;
	struct ck_json_reader *json; /* while it is being read */
};

/* Parses the text of a file, which must outlive *s. Caller calls ck_sidecar_fini() in any
 * case. Returns 0, or: -EBADMSG if it is malformed or inconsistent; -ENOMEM. */
CK_MUST_USE int ck_sidecar_read(struct ck_sidecar *s, struct ck_str text,
				struct ck_diag *d);
void ck_sidecar_fini(struct ck_sidecar *s);

/* Returns the ndim sizes of a parameter, in elements. */
static inline const int64_t *ck_sidecar_shape(const struct ck_sidecar *s,
					      const struct ck_sidecar_param *p)
{
	return s->shapes + p->shape;
}

/* --- lookup: sidecar_names.c ------------------------------------------------------ */

/* Returns the unit of an entry: the unit with the longest name that is the shown name or its end
 * behind a dot. *prefix: the rest before it, with the dot; it precedes the names of the
 * unit's parameters. NULL if there is no such unit. */
const struct ck_sidecar_unit *ck_sidecar_find(const struct ck_sidecar *s,
					      struct ck_str shown,
					      struct ck_str *prefix);
/* Returns 0 if the unit has numel elements, or: -EBADMSG with a diagnosis for a line of
 * damage; the unit must not be used then. */
CK_MUST_USE int ck_sidecar_fits(const struct ck_sidecar_unit *unit,
				struct ck_str shown, uint64_t numel,
				struct ck_diag *d);
/* Returns the meaning of a number in an optimizer's state; NULL if the sidecar lacks it. */
const struct ck_sidecar_state *ck_sidecar_state(const struct ck_sidecar *s,
						uint64_t optimizer,
						uint64_t number);

#endif
