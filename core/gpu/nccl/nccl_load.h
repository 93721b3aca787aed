/* SPDX-License-Identifier: MIT */
/*
 * nccl_load: the functions of NCCL, found when the program runs, as those of the driver are.
 * It is looked for as CKPTFS_NCCL_LIB, on the loader's path, in CUDA's directories, and as the
 * wheel of some Python; no Python is started for that. (This is not called nccl.h, for
 * compilers would take it for NCCL's.)
 */
#ifndef CK_NCCL_LOAD_H
#define CK_NCCL_LOAD_H

#include "ckptfs/base.h"

#include <nccl.h>

/* What rounds of transfers between two ranks each need. */
#define CK_NCCL_FUNCTIONS(F)                                                   \
	F(ncclGetVersion)                                                      \
	F(ncclGetErrorString)                                                  \
	F(ncclGetLastError)                                                    \
	F(ncclGetUniqueId)                                                     \
	F(ncclCommInitRankConfig)                                              \
	F(ncclCommGetAsyncError)                                               \
	F(ncclCommFinalize)                                                    \
	F(ncclCommDestroy)                                                     \
	F(ncclCommAbort)                                                       \
	F(ncclGroupStart)                                                      \
	F(ncclGroupEnd)                                                        \
	F(ncclSend)                                                            \
	F(ncclRecv)

#define CK_NCCL_LEAST 21800 /* the oldest version that is used */

struct ck_nccl {
	void *library;
	char *file;  /* where it was found; owned */
	int version; /* as NCCL_VERSION() makes it */
#define CK_NCCL_POINTER(name) __typeof__(name) *name;
	CK_NCCL_FUNCTIONS(CK_NCCL_POINTER)
#undef CK_NCCL_POINTER
};

/* The first that will do; if CKPTFS_NCCL_LIB is set, that or none. -ENOENT: there is none;
 * -ENOEXEC: what is there cannot be loaded; -ENOSYS: it is too old, or lacks a function; -ENOMEM.
 * Why is in d, of the first file that was there if none will do. */
CK_MUST_USE int ck_nccl_load(struct ck_nccl *nccl, struct ck_diag *d);
/* The library stays loaded, since it has threads. */
void ck_nccl_fini(struct ck_nccl *nccl);
/* Such a number as text, as 2.28.9; see ck_shown(). */
const char *ck_nccl_version(int version);
/* Its version and file, as text. */
void ck_nccl_name(const struct ck_nccl *nccl, char *out, size_t size);
/* For a communicator of which no call waits, on a device that others use, too. */
ncclConfig_t ck_nccl_config(void);
/* 0; -EINPROGRESS: it is not known yet; -EINVAL: it was called in a wrong way; else -EIO. */
CK_MUST_USE int ck_nccl_errno(ncclResult_t result);
/* Fails so, with what NCCL says of it and what it complained of last. */
int ck_nccl_fail(const struct ck_nccl *nccl, ncclResult_t result,
		 const char *what, struct ck_diag *d);

#endif
