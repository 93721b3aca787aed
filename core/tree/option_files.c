/* SPDX-License-Identifier: MIT */
/*
 * option_files: reads the files that options name: placements, manifest. They are the
 * user's, and are read once, before the first view is made. No state; one thread.
 */
#include "model/place_rules.h"
#include "report/manifest.h"
#include "tree_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static int text_read(const char *path, size_t most, struct ck_buf *text,
		     struct ck_diag *d)
{
	ck_auto_fd int fd = open(path,
				 O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	int rc;

	if (fd < 0 || fstat(fd, &st))
		return ck_fail(d, errno, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return ck_fail(d, EBADMSG, "not a regular file");
	rc = ck_read_all(fd, most, text);
	if (rc == -EFBIG)
		return ck_fail(d, EFBIG, "larger than %zu bytes", most);
	return rc ? ck_fail(d, -rc, "%s", strerrordesc_np(-rc)) : 0;
}

int ck_place_rules_read(const char *path, struct ck_place_rules **out,
			struct ck_diag *d)
{
	struct ck_buf text = { 0 };
	int rc = text_read(path, CK_PLACE_RULES_MOST, &text, d);

	if (rc == 0)
		rc = ck_place_rules_parse(
			(struct ck_str){ text.data, text.len }, out, d);
	ck_buf_fini(&text);
	if (rc)
		ck_diag_prefix(d, "option placements: %s",
			       ck_show(ck_str_from(path)));
	return rc;
}

int ck_manifest_read(const char *path, struct ck_manifest **out,
		     struct ck_diag *d)
{
	struct ck_buf text = { 0 };
	int rc = text_read(path, CK_MANIFEST_MOST, &text, d);

	if (rc == 0)
		rc = ck_manifest_parse(&text, out, d);
	ck_buf_fini(&text);
	if (rc)
		ck_diag_prefix(d, "option manifest: %s",
			       ck_show(ck_str_from(path)));
	return rc;
}
