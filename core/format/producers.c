/* SPDX-License-Identifier: MIT */
/*
 * producers: directories of programs whose checkpoints are not read, known by names of files
 * in them.
 *
 * Source: Orbax 0.12.8, orbax/checkpoint/_src/metadata/checkpoint.py, and the driver OCDBT of
 * TensorStore.
 */
#include "warn.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has(int dirfd, const char *name)
{
	return faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* --- Orbax --------------------------------------------------------------------------- */

bool ck_orbax_print(int dirfd, struct ck_buf *names)
{
	static const char *const marks[] = { "_CHECKPOINT_METADATA",
					     "manifest.ocdbt", "_METADATA" };
	bool some = false;

	if (!has(dirfd, marks[0]) && !has(dirfd, marks[1]))
		return false;
	for (size_t i = 0; i < CK_ARRAY_SIZE(marks); i++) {
		if (!has(dirfd, marks[i]))
			continue;
		ck_buf_text(names, some ? ", " : "");
		ck_buf_text(names, marks[i]);
		some = true;
	}
	return true;
}
