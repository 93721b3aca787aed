/* SPDX-License-Identifier: MIT */
/*
 * hf: what hf/ consists of, in three steps, each of which knows the one before: which
 * tensors it has and by which names (hf_choose.c), into which files they go (hf_plan.c),
 * and what the bytes of a file are (hf_file.c).
 */
#ifndef CK_HF_H
#define CK_HF_H

#include "ckptfs/sections.h"
#include "ckptfs/view.h"

#include <pthread.h>

/* --- hf_choose.c -------------------------------------------------------------------- */

/* Which tensors, and how their names begin. */
struct ck_hf_chosen {
	char *root;	   /* names begin with it and a dot; "": with neither */
	bool by_path;	   /* keys do, which are shown without "module." */
	bool module;	   /* and then, all of them, with "module." */
	uint32_t *tensors; /* in the checkpoint's order */
	uint32_t n;
	struct ck_left_out
		*left_out; /* texts of the catalog, or of a template */
	uint32_t nleft_out;
	size_t left_cap; /* private */
};

/* -ENOMEM; *out is the caller's in any case. Texts are good as long as the listing of the
 * catalog. */
CK_MUST_USE int ck_hf_choose(const struct ck_catalog *c,
			     const struct ck_view_options *o,
			     struct ck_hf_chosen *out);
void ck_hf_chosen_fini(struct ck_hf_chosen *chosen);
CK_MUST_USE int ck_hf_leave_out(struct ck_hf_chosen *chosen, struct ck_str name,
				const char *why);
/* Why a name that only a template has is left out. */
extern const char ck_hf_only_template[];
/* What the tensor is called in hf/: a part of its shown name. */
struct ck_str ck_hf_name(const struct ck_hf_chosen *chosen,
			 const struct ck_catalog *c, uint32_t tensor);
/* Whether ck_hf_choose() would find any, which takes no memory. */
bool ck_hf_has_some(const struct ck_catalog *c,
		    const struct ck_view_options *o);
/* Appends the parts before the first dot of the names of tensors, the first eight. */
void ck_hf_print_tops(const struct ck_catalog *c, struct ck_buf *out);

/* --- hf_file.c ---------------------------------------------------------------------- */

/* Bytes of an element, or of two of float4_e2m1fn_x2. Of chosen tensors. */
uint64_t ck_hf_width(const struct ck_catalog *c, uint32_t tensor);
/* The product of the shape that the file has of a chosen tensor. */
uint64_t ck_hf_values(const struct ck_catalog *c, uint32_t tensor);
/* A file of these tensors, in this order, which is the one that makes each aligned: widths
 * descend. Takes the tensors in any case; holds c. -ENOMEM, -EOVERFLOW. */
CK_MUST_USE int ck_hf_file_make(const struct ck_catalog *c,
				const struct ck_hf_chosen *chosen,
				uint32_t *tensors, uint32_t n,
				struct ck_sections **out);

/* --- hf_plan.c ---------------------------------------------------------------------- */

struct ck_hf_file {
	char *name;
	uint32_t number;	 /* of its name in the directory, see hf.c */
	const uint32_t *tensors; /* n, in the file's order */
	uint32_t n;
	uint64_t bytes;		      /* of the tensors */
	struct ck_sections *sections; /* NULL of the index */
	char *text;		      /* of the index */
	/* Under the lock of the plan, of the catalog `seen`: */
	mode_t mode;
	struct timespec mtime;
	uint64_t version;
};

/* Of one listing, whatever generation has it. Constant, but for what is said. */
struct ck_hf_plan {
	/* Atomic: */
	unsigned refs;
	/* Constant: */
	const struct ck_catalog *c;
	struct ck_hf_chosen chosen;
	struct ck_hf_file *files; /* in the order shown */
	uint32_t nfiles;
	uint64_t born; /* no file is of an earlier version */

	pthread_mutex_t lock;
	/* Under lock: */
	const struct ck_catalog *seen;
};

/* -ENOMEM; -EOVERFLOW. */
CK_MUST_USE int ck_hf_plan_make(const struct ck_catalog *c,
				const struct ck_view_options *o, uint64_t born,
				struct ck_hf_plan **out);
void ck_hf_plan_put(struct ck_hf_plan *p); /* NULL is allowed */
/* Mode, time and version that a file has in a catalog. */
void ck_hf_plan_about(struct ck_hf_plan *p, const struct ck_catalog *c,
		      uint32_t file, struct ck_file_content *out);

#endif
