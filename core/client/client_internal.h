/* SPDX-License-Identifier: MIT */
/*
 * client_internal: a handle of the library, its errors, and its guard against fork(2). All
 * public functions are in client*.c; they call no public function, since the guard is not
 * recursive.
 */
#ifndef CK_CLIENT_INTERNAL_H
#define CK_CLIENT_INTERNAL_H

#include "ckptfs/client.h"
#include "client_session.h"

#include <stdio.h>

/* Version node CKPTFS_1 of symbols.map has all names that begin with ckptfs_. */

/* Constant once it is open. */
struct ckptfs {
	struct ck_session s;
	const struct ck_catalog *catalog; /* held */
	/* whole tensors and objects in the order of the checkpoint */
	struct ckptfs_tensor *tensors;
	struct ckptfs_object *objects;
	uint64_t ntensors, nobjects;
	uint32_t *rows;	   /* row in the catalog of each of `tensors` */
	uint32_t *numbers; /* number of each row; UINT32_MAX: not shown */
	struct ck_arena text;
};

/* Fills the tables from the catalog. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_client_tables(struct ckptfs *ck);
void ck_client_tables_free(struct ckptfs *ck);
/* Number of the tensor with this FQN; UINT64_MAX if there is none. */
CK_MUST_USE uint64_t ck_client_find(const struct ckptfs *ck, struct ck_str fqn);

/* --- fork(2) ----------------------------------------------------------------------- */

/* Registers the guard with pthread_atfork(3), once. Returns 0, or -ENOMEM. */
CK_MUST_USE int ck_client_guard(void);
int ck_client_enter(void);
void ck_client_leave(const int *inside);

/* First declaration of each public function that takes locks: fork(2) waits until its block
 * ends. */
#define CK_CLIENT_CALL()                                                       \
	__attribute__((cleanup(ck_client_leave), unused))                      \
	const int inside = ck_client_enter()

/* --- errors of the calling thread --------------------------------------------------- */

/* Set the error of the thread and return rc, a negative errno. */
int ck_client_fail(int rc, const char *fmt, ...) CK_PRINTF(2, 3);
int ck_client_fail_diag(int rc, const struct ck_diag *d);
int ck_client_fail_fault(int rc, const struct ck_fault *f);
/* Adds the name of the entry to the error. */
void ck_client_error_fqn(struct ck_str fqn);

#endif
