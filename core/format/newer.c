/* SPDX-License-Identifier: MIT */
/*
 * newer: data files that changed after their `.metadata`. A save writes the metadata
 * last, so a newer data file belongs to another save, or to a copy that was not
 * finished: nothing else shows that. Copies without times (`cp -r`) that take longer
 * than the tolerance look the same.
 */
#include "kind.h"

#include <time.h>

enum {
	TOLERANCE = 2, /* seconds: file systems round times */
	NAMES = 8,     /* shown in one line */
};

static bool is_newer(const struct ck_checkpoint *cp, const struct ck_catalog *c,
		     uint32_t file)
{
	const struct ck_file_info *info = ck_files_info(cp->files, file);
	struct timespec most = c->meta.mtime;

	most.tv_sec += TOLERANCE;
	return !ck_files_is_remote(cp->files, file) && !info->err &&
	       (info->mtime.tv_sec > most.tv_sec ||
		(info->mtime.tv_sec == most.tv_sec &&
		 info->mtime.tv_nsec > most.tv_nsec));
}

uint32_t ck_checkpoint_newer(const struct ck_checkpoint *cp,
			     const struct ck_catalog *c, uint32_t from)
{
	if (!cp->format->metadata || c->meta.mtime.tv_sec == 0)
		return CK_NO_FILE;
	while (from < c->files.n && !is_newer(cp, c, from))
		from++;
	return from < c->files.n ? from : CK_NO_FILE;
}

static const char *time_shown(time_t seconds)
{
	char text[32] = "?";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		(void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return ck_shown("%s", text);
}

void ck_checkpoint_newer_fault(const struct ck_checkpoint *cp,
			       const struct ck_catalog *c, uint32_t file,
			       struct ck_fault *out)
{
	*out = (struct ck_fault){
		.file = ck_catalog_file(c, file)->path,
		.what = CK_STR("is newer than .metadata: the save or copy may "
			       "be incomplete"),
		.expected =
			ck_shown("at most %s",
				 time_shown(c->meta.mtime.tv_sec + TOLERANCE)),
		.found = time_shown(
			ck_files_info(cp->files, file)->mtime.tv_sec),
	};
}

void ck_checkpoint_print_newer(const struct ck_checkpoint *cp,
			       const struct ck_catalog *c, struct ck_buf *out)
{
	uint32_t n = 0, file = ck_checkpoint_newer(cp, c, 0);

	for (; file != CK_NO_FILE;
	     file = ck_checkpoint_newer(cp, c, file + 1), n++) {
		if (n >= NAMES)
			continue;
		ck_buf_text(out, n ? ", " : "newer than metadata: ");
		ck_buf_escaped(out, ck_catalog_file(c, file)->path);
	}
	if (n > NAMES)
		ck_buf_printf(out, " and %u more", n - NAMES);
	if (n)
		ck_buf_text(out, "\n");
}
