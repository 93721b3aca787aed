/* SPDX-License-Identifier: MIT */
/*
 * hf: the contents of the view hf/, in three steps, each of which uses the previous
 * one: which tensors it has, under which names (hf_choose.c); into which files they go
 * (hf_plan.c); the bytes of a file (hf_file.c). A plan is counted and constant, except
 * for facts under its lock; any thread.
 */
#ifndef CK_HF_H
#define CK_HF_H

#include "model/sections.h"
#include "view_internal.h"

#include <pthread.h>

/* --- hf_choose.c -------------------------------------------------------------------- */

/* The chosen tensors, and the prefix of their names. */
struct ck_hf_chosen {
	/* names begin with it and a dot; "" if they have no common prefix */
	char *root;
	bool by_path; /* keys begin with it; they are shown without "module." */
	bool module;  /* behind it, all names begin with "module." */
	uint32_t *tensors; /* in the order of the checkpoint */
	uint32_t n;
	/* names and reasons; texts of the catalog, or of a template */
	struct ck_left_outs left_out;
};

/* Chooses the tensors. Texts are valid as long as the listing of the catalog. Caller
 * must call ck_hf_chosen_fini(), also after an error. Returns 0, or: -ENOMEM. */
CK_MUST_USE int ck_hf_choose(const struct ck_catalog *c,
			     const struct ck_view_options *o,
			     struct ck_hf_chosen *out);
void ck_hf_chosen_fini(struct ck_hf_chosen *chosen);
/* Chooses the same tensors and those that safetensors cannot represent: all of the
 * model. */
CK_MUST_USE int ck_hf_choose_model(const struct ck_catalog *c,
				   const struct ck_view_options *o,
				   struct ck_hf_chosen *out);
/* Reason for a name that only a template has. */
extern const char ck_hf_only_template[];
/* Returns the name of a tensor in hf/: a part of its shown name. */
struct ck_str ck_hf_name(const struct ck_hf_chosen *chosen,
			 const struct ck_catalog *c, uint32_t tensor);
/* True if ck_hf_choose() would choose any tensor. Allocates no memory. */
bool ck_hf_has_some(const struct ck_catalog *c,
		    const struct ck_view_options *o);
/* Appends the first eight different parts before the first dot in names of tensors, with
 * commas, and "..." if there are more. */
void ck_hf_print_tops(const struct ck_catalog *c, struct ck_buf *out);

/* --- hf_file.c ---------------------------------------------------------------------- */

/* Returns the bytes of an element of a chosen tensor. An element of float4_e2m1fn_x2 is one byte
 * with two values, see ck_hf_values(). */
uint64_t ck_hf_width(const struct ck_catalog *c, uint32_t tensor);
/* Returns the number of values of a chosen tensor, as the file counts them. */
uint64_t ck_hf_values(const struct ck_catalog *c, uint32_t tensor);
/* Makes a file of these tensors, in this order. Widths must descend, so that each
 * tensor is aligned. Takes `tensors`, also after an error; holds c. Caller owns *out.
 * Returns 0, or: -ENOMEM; -EOVERFLOW. */
CK_MUST_USE int ck_hf_file_make(const struct ck_catalog *c,
				const struct ck_hf_chosen *chosen,
				uint32_t *tensors, uint32_t n,
				struct ck_sections **out);

/* --- hf_plan.c ---------------------------------------------------------------------- */

struct ck_hf_file {
	char *name;
	uint32_t number; /* number of its name in the directory, see hf.c */
	const uint32_t *tensors; /* n, in the order of the file */
	uint32_t n;
	uint64_t bytes;		      /* of the tensors */
	struct ck_sections *sections; /* NULL for the index */
	char *text;		      /* the index; else NULL */
	/* Under the lock of the plan; of the catalog `seen`: */
	struct ck_view_facts facts;
};

/* The files of one listing, which several generations of the catalog may have.
 * Constant, except for the fields under lock. */
struct ck_hf_plan {
	/* Constant, the base but for its count: */
	struct ck_view_plan base;
	struct ck_hf_chosen chosen;
	struct ck_hf_file *files; /* in the order shown */
	uint32_t nfiles;

	pthread_mutex_t lock;
	/* Under lock: */
	const struct ck_catalog *seen;
};

/* Makes a plan, where `current` is the current one, or NULL. Caller must call
 * ck_view_plan_put(). Returns 0, or: -ENOMEM; -EOVERFLOW. */
CK_MUST_USE int ck_hf_plan_make(const struct ck_catalog *c,
				const struct ck_view_options *o,
				const struct ck_view_plan *current,
				struct ck_hf_plan **out);
/* Sets *out to the facts of a file in a catalog: kind, mode, mtime, version and
 * size. */
void ck_hf_plan_about(struct ck_hf_plan *p, const struct ck_catalog *c,
		      uint32_t file, struct ck_file_content *out);

#endif
