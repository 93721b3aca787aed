/* SPDX-License-Identifier: MIT */
/* sidecar_source: finds and reads the sidecar of a checkpoint. A sidecar that
 * cannot be used becomes a line of damage or a doubt, and the load continues
 * without it. Used by the thread of the load. */
#include "sidecar_source.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* Reads the text of an open file. Takes fd. name: for messages. */
static int text_take(int fd, const char *name, struct ck_metadata_text *out,
		     struct ck_diag *d)
{
	ck_auto_fd int own = fd;
	struct stat st;

	if (fstat(own, &st))
		return ck_fail(d, errno, "%s: %s", name, strerror(errno));
	if (!S_ISREG(st.st_mode) || st.st_size > CK_SIDECAR_MOST)
		return ck_fail(d, EBADMSG,
			       "%s: no regular file of at most %d bytes", name,
			       CK_SIDECAR_MOST);
	return ck_metadata_text_read(own, &st, name, CK_SIDECAR_MOST, out, d);
}

/* Reads the sidecar in the directory of the checkpoint, of any host, with the same
 * rules for links as other files. Returns 1, 0 if there is no such file, or a negative
 * errno. */
static int found(const struct ck_checkpoint *cp, struct ck_metadata_text *out,
		 struct ck_diag *d)
{
	int rc = cp->file ? -ENOENT
			  : ck_metadata_read_other(cp, CK_FLAT_SIDECAR,
						   CK_SIDECAR_MOST, out, d);

	if (rc == -ENOENT)
		return 0;
	return rc ? rc : 1;
}

/* Returns the name of the sidecar for messages. */
static const char *name_of(const struct ck_format_options *options)
{
	return options->sidecar
		       ? ck_shown("sidecar=%s",
				  ck_show(ck_str_from(options->sidecar)))
		       : CK_FLAT_SIDECAR;
}

/* Reads the file of option sidecar=. */
static int named(const struct ck_format_options *options,
		 struct ck_metadata_text *out, struct ck_diag *d)
{
	int fd = open(options->sidecar, OPEN_FLAGS);

	return fd < 0 ? ck_fail(d, errno, "%s: %s", name_of(options),
				strerror(errno))
		      : text_take(fd, name_of(options), out, d);
}

/* True for a transient error. Sidecars that differ between hosts (ESTALE) stay different. */
static bool is_passing(const struct ck_checkpoint *cp, int rc)
{
	return ck_is_shortage(rc) || rc == -EINTR || rc == -EAGAIN ||
	       rc == -ETIMEDOUT || (rc == -ESTALE && !cp->elsewhere);
}

/* Continues without the sidecar. A malformed one is a line of damage. One that cannot be read
 * is a doubt: the caller may lack a permission. Returns 0, or: -ENOMEM. */
static int refuse(struct ck_catalog *c, struct ck_sidecar_source *source,
		  int err, const struct ck_diag *why, struct ck_diag *d)
{
	const struct ck_loss loss = { .file = CK_NO_FILE,
				      .err = EBADMSG,
				      .what = ck_str_from(why->text) };
	int rc;

	ck_sidecar_fini(&source->is);
	source->is = (struct ck_sidecar){ 0 };
	rc = err == -EBADMSG || err == -ESTALE
		     ? ck_catalog_loss_add(c, &loss)
		     : ck_catalog_doubt_add(
			       c, ck_shown("sidecar: %s; flat parameters are "
					   "shown as they were saved",
					   why->text));
	return rc ? ck_fail(d, ENOMEM, "out of memory") : 0;
}

static int parse(struct ck_sidecar_source *source, const char *name,
		 struct ck_diag *d)
{
	int rc = ck_sidecar_read(
		&source->is,
		(struct ck_str){ source->text.pages, source->text.len }, d);

	source->len = source->text.len;
	if (rc)
		ck_diag_prefix(d, "%s", name);
	return rc;
}

int ck_sidecar_source_read(const struct ck_checkpoint *cp, struct ck_catalog *c,
			   const struct ck_format_options *options,
			   struct ck_sidecar_source *out, struct ck_diag *d)
{
	struct ck_diag why = { 0 };
	int rc;

	if (options->sidecar) {
		rc = named(options, &out->text, d);
		if (rc)
			return rc;
		rc = 1;
	} else {
		rc = found(cp, &out->text, &why);
	}
	if (rc > 0)
		rc = parse(out, name_of(options), &why);
	if (is_passing(cp, rc))
		return ck_fail(d, -rc, "%s: %s", name_of(options),
			       strerror(-rc));
	return rc < 0 ? refuse(c, out, rc, &why, d) : 0;
}

int ck_sidecar_source_note_unread(const struct ck_checkpoint *cp,
				  struct ck_catalog *c,
				  const struct ck_format_options *options,
				  const char *when, struct ck_diag *d)
{
	bool here = !cp->file && faccessat(cp->dirfd, CK_FLAT_SIDECAR, F_OK,
					   AT_SYMLINK_NOFOLLOW) == 0;

	if (!options->sidecar && !here)
		return 0;
	return ck_catalog_doubt_add(
		       c, ck_shown("sidecar: %s is not read %s: flat "
				   "parameters are shown as they were saved",
				   name_of(options), when))
		       ? ck_fail(d, ENOMEM, "out of memory")
		       : 0;
}

void ck_sidecar_source_fini(struct ck_sidecar_source *source)
{
	ck_sidecar_fini(&source->is);
	ck_metadata_text_fini(&source->text);
}

int ck_sidecar_source_check(const struct ck_format_options *options,
			    struct ck_diag *d)
{
	struct ck_metadata_text text = { 0 };
	int rc = options->sidecar ? named(options, &text, d) : 0;

	ck_metadata_text_fini(&text);
	return rc;
}
