/* SPDX-License-Identifier: MIT */
/*
 * component: a file of its own that belongs to the program and is loaded when it is needed, so
 * that the program is not linked with what that needs. A part of base.
 */
#ifndef CKPTFS_COMPONENT_H
#define CKPTFS_COMPONENT_H

#include "ckptfs/base.h"

struct ck_component {
	const char *file; /* its name */
	const char *
		symbol; /* that it exports: a struct that begins with a ck_component_is */
	const char *what; /* for a person */
	uint32_t version; /* of that struct */
};

struct ck_component_is {
	uint32_t version;
	char program[28]; /* CK_VERSION of the program that it is for */
};

/* What it exports. path: the file; NULL: beside the running program, where a build has it,
 * or else where it is installed. -ENOENT: there is none; -ELIBACC: it, or what it needs,
 * cannot be loaded; -ELIBBAD: it is another version's. What is loaded stays. */
CK_MUST_USE int ck_component_load(const struct ck_component *c,
				  const char *path, const void **out,
				  struct ck_diag *d);

/* False: dlopen() of that name in a program of ours would find nothing, as far as that can be
 * told without loading it. Whoever tells the loader something by its environment is not
 * judged: true. */
CK_MUST_USE bool ck_loader_may_find(const char *library);

#endif
