/* SPDX-License-Identifier: MIT */
/*
 * step_figures: figures of all tensors of one step of a run, and how far they are from those of an
 * older step, in one pass over both. The main thread; the steps are read by several.
 */
#ifndef CKPTFS_STEP_FIGURES_H
#define CKPTFS_STEP_FIGURES_H

#include "run_steps.h"
#include "values/value_change.h"

/* A tensor of the step. */
struct ck_step_figure {
	/* Its shown name: of the catalog of its part, which has `tensor`. */
	struct ck_str name;
	size_t part;
	uint32_t tensor;
	int err; /* 0, or the positive errno of reading it; then no figure is valid */
	/* The figure that has the values of the same memory, in this step and the older one;
	 * SIZE_MAX: its own. */
	size_t same;
	/* The older step has the name with this dtype and shape: the change is from there. */
	bool is_compared;
	struct ck_value_change values;
	/* Private: part and tensor of the older step, if is_compared; the pass has ended for it. */
	size_t older_part;
	uint32_t older_tensor;
	bool is_read;
};

/* Zero-initialise. */
struct ck_step_figures {
	struct ck_step_figure
		*all; /* owned; those of a part in the order of the catalog */
	size_t n;
};

struct ck_step_figures_options {
	void (*progress)(void *arg, uint64_t bytes);
	void *arg;
};

/* Computes the figures of a step. older: NULL if there is none. A tensor that cannot be read in the
 * older step is read alone. Returns 0, or: shortages of this process. Caller calls
 * ck_step_figures_fini() in any case, before the steps are closed. */
CK_MUST_USE int ck_step_figures_compute(const struct ck_run_step *step,
					const struct ck_run_step *older,
					const struct ck_step_figures_options *o,
					struct ck_step_figures *out);
void ck_step_figures_fini(struct ck_step_figures *f);

#endif
