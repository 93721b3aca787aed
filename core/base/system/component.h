/* SPDX-License-Identifier: MIT */
/*
 * component: a shared module of the program that is loaded on demand, so that
 * the program is not linked to the libraries of the module. A part of base. Any
 * thread.
 */
#ifndef CKPTFS_COMPONENT_H
#define CKPTFS_COMPONENT_H

#include "ckptfs/base.h"

struct ck_component {
	const char *file; /* file name of the module */
	/* Exported struct, which begins with a ck_component_is: */
	const char *symbol;
	const char *what;   /* name in messages */
	const char *option; /* of meson, which builds it; for messages */
	uint32_t version;   /* of the exported struct */
};

struct ck_component_is {
	uint32_t version;
	char program[28]; /* CK_VERSION of the program that it is for */
};

/* Loads a module and sets *out to its exported struct. path: the file; NULL:
 * the directory of the running program, as in a build, else the installed one.
 * Returns 0, or: -ENOENT or another error of access(2) if the file cannot be
 * found; -ELIBACC if the module or a library that it needs cannot be loaded;
 * -ELIBBAD if it is of another version. A loaded module stays loaded. */
CK_MUST_USE int ck_component_load(const struct ck_component *c,
				  const char *path, const void **out,
				  struct ck_diag *d);

/* False if dlopen(library) would not find the library: it is neither in the
 * loader's cache nor in its directories. Nothing is loaded. True if that cannot
 * be determined, or if LD_LIBRARY_PATH, LD_PRELOAD or LD_AUDIT is set. */
CK_MUST_USE bool ck_loader_may_find(const char *library);

#endif
