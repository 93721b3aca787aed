/* SPDX-License-Identifier: MIT */
/*
 * cp_views: which views, and which files of them, `ckptfs cp -r` copies if no PATH names
 * them. No state.
 */
#include "cli.h"
#include "cp.h"

#include <string.h>

/* Bytes of a file in hf/. */
static const uint64_t hf_file = UINT64_C(5) << 30;

int ck_cp_choose_views(struct ck_offline *u)
{
	static const char tensors[] = "full+objects";

	u->by_views = true;
	if (u->s.view.views)
		return CK_EXIT_FINE;
	u->s.view.views = strdup(tensors);
	if (!u->s.view.views)
		return ck_trouble("out of memory");
	(void)ck_trouble("cp: full and objects are copied; other directories "
			 "have the same data: a PATH or -o views= names them");
	return CK_EXIT_FINE;
}

void ck_cp_choose_hf_files(struct ck_offline *u, char **paths, int n)
{
	static const char one[] = "model.safetensors";
	bool named = false;

	for (int i = 0; i < n; i++) {
		const char *slash = strrchr(paths[i], '/');

		named |= slash && strcmp(slash + 1, one) == 0;
	}
	if (!named && u->s.view.hf_shard_size == 0)
		u->s.view.hf_shard_size = hf_file;
}
