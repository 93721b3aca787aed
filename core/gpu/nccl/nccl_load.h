/* SPDX-License-Identifier: MIT */
/*
 * nccl_load: the functions of NCCL, loaded at run time. The library is searched
 * in this order: CKPTFS_NCCL_LIB, the loader's path, directories of CUDA,
 * wheels of Python. Python itself is not started. (The name nccl.h is taken by
 * NCCL.)
 */
#ifndef CK_NCCL_LOAD_H
#define CK_NCCL_LOAD_H

#include "ckptfs/base.h"

#include <nccl.h>

/* The functions that rounds need. */
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

#define CK_NCCL_LEAST 21800 /* the oldest supported version */

struct ck_nccl {
	void *library;
	char *file;  /* where it was found; owned */
	int version; /* as NCCL_VERSION() encodes it */
#define CK_NCCL_POINTER(name) __typeof__(name) *name;
	CK_NCCL_FUNCTIONS(CK_NCCL_POINTER)
#undef CK_NCCL_POINTER
};

/* Loads the first usable file; if CKPTFS_NCCL_LIB is set, only that. Returns 0,
 * or: -ENOENT if there is no file; -ENOEXEC if it cannot be loaded; -ENOSYS if
 * it is too old or lacks a function; -ENOMEM. d has the reason for the first
 * file found. */
CK_MUST_USE int ck_nccl_load(struct ck_nccl *nccl, struct ck_diag *d);
/* Frees *nccl. The library stays loaded, because it has threads. */
void ck_nccl_fini(struct ck_nccl *nccl);
/* A version number as text, such as 2.28.9; see ck_shown(). */
const char *ck_nccl_version(int version);
/* Writes version and file as text, truncated to `size` bytes. */
void ck_nccl_name(const struct ck_nccl *nccl, char *out, size_t size);
/* The configuration of a non-blocking communicator that uses few blocks of the
 * device. */
ncclConfig_t ck_nccl_config(void);
/* Returns 0, or: -EINPROGRESS if the result is not known yet; -EINVAL if the
 * call was invalid; -EIO for all other errors. */
CK_MUST_USE int ck_nccl_errno(ncclResult_t result);
/* Fails with NCCL's text for the result and its last error. Returns
 * ck_nccl_errno(result). */
int ck_nccl_fail(const struct ck_nccl *nccl, ncclResult_t result,
		 const char *what, struct ck_diag *d);

#endif
