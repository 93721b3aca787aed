/* SPDX-License-Identifier: MIT */
/*
 * torch_beside: torch files in the directory of a checkpoint of another format, or of
 * pieces of one state dict. They are the state of the job that saved the model:
 * `optimizer.pt`, `scheduler.pt`. Each is shown below its name without the last extension.
 * Used by the thread of the load.
 */
#ifndef CK_TORCH_BESIDE_H
#define CK_TORCH_BESIDE_H

#include "entries.h"

/* Adds the torch files of the directory to a new load and to cp->files, except for files
 * that the checkpoint has already, and for pieces, which are of another model. Adds no
 * files to a checkpoint of one file. Must be called before ck_checkpoint_gather(). Caller
 * must call ck_torch_beside_free(), also after an error. Returns 0, or: -ENOMEM; errors of
 * ck_torch_names_find(). */
CK_MUST_USE int ck_torch_beside_find(struct ck_checkpoint *cp,
				     struct ck_catalog *c,
				     struct ck_torch_load **out,
				     struct ck_diag *d);
/* Does nothing for NULL. */
void ck_torch_beside_free(struct ck_torch_load *l);
/* Reads the files of l and adds their entries. Entries that the catalog has keep their
 * names; an entry with such a key gets the suffix `~<n>`. A file that cannot be read or is dangerous becomes a line of damage. Returns
 * 0, or: -ENOMEM; transient errors of files. */
CK_MUST_USE int ck_torch_beside_add(struct ck_torch_load *l);

#endif
