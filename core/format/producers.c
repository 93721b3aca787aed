/* SPDX-License-Identifier: MIT */
/*
 * producers: recognises directories of DeepSpeed and Orbax by the names of files in them.
 * Checkpoints of Orbax are not read; those of DeepSpeed only in part. Stateless.
 *
 * Source: DeepSpeed 0.19.8, deepspeed/runtime/engine.py (save_checkpoint); Orbax 0.12.8,
 * orbax/checkpoint/_src/metadata/checkpoint.py and the driver OCDBT of TensorStore.
 */
#include "format/run/run.h"
#include "warn.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MOST = 1024 };

static bool has(int dirfd, const char *name)
{
	return faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* --- DeepSpeed ---------------------------------------------------------------------- */

/* Reads at most TEXT_MOST bytes of a regular file, and removes white space at their end.
 * Returns the number of bytes, or -1 if it is 0 or the file cannot be read. */
static ssize_t text_read(int dirfd, const char *name, char text[TEXT_MOST])
{
	ck_auto_fd int fd = ck_open_beneath(dirfd, ck_str_from(name),
					    O_RDONLY | O_NONBLOCK | O_NOCTTY,
					    CK_BENEATH_NO_SYMLINKS);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -1;
	n = read(fd, text, TEXT_MOST);
	while (n > 0 && strchr(" \t\r\n", text[n - 1]))
		n--;
	return n > 0 ? n : -1;
}

char *ck_deepspeed_latest(int dirfd)
{
	char text[TEXT_MOST];
	ssize_t n;

	if (!has(dirfd, "zero_to_fp32.py"))
		return NULL;
	n = text_read(dirfd, "latest", text);
	return n > 0 ? strndup(text, (size_t)n) : NULL;
}

/* True if the run directory shows a step of this name. run may be NULL. */
static bool is_step(struct ck_rundir *run, const char *name)
{
	const struct ck_steps *steps;
	bool found = false;

	if (!run || ck_run_steps(run, &steps))
		return false;
	for (uint32_t i = 0; i < steps->nshown && !found; i++)
		found = strcmp(steps->all[i].name, name) == 0;
	ck_steps_put(steps);
	return found;
}

int ck_deepspeed_note(const struct ck_checkpoint *cp, struct ck_catalog *c)
{
	ck_auto_free char *latest = NULL;

	if (cp->file || cp->elsewhere)
		return 0;
	latest = ck_deepspeed_latest(cp->dirfd);
	if (!latest)
		return 0;
	return ck_catalog_doubt_add(
		c, ck_shown("DeepSpeed: latest names %s, %s",
			    ck_show(ck_str_from(latest)),
			    is_step(ck_checkpoint_run(cp), latest)
				    ? "which is one of these checkpoints; "
				      "slices of ZeRO in it are not put "
				      "together, zero_to_fp32.py does that"
				    : "which is not shown here; give that "
				      "directory"));
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
