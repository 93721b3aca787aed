/* SPDX-License-Identifier: MIT */
/*
 * template: a directory in the layout of a hub, which the user names (hf_template=).
 * Its index assigns tensors to files; its other files are shown unchanged. A struct
 * ck_template is constant after ck_template_open(); any thread may read it.
 */
#include "ckptfs/memory.h"
#include "index.h"
#include "load_gather.h"
#include "side_files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define INDEX  ".safetensors.index.json"
#define SUFFIX ".safetensors"

static bool is_index(const char *name)
{
	return name[0] != '.' && ck_name_ends(name, INDEX);
}

/* Checks that a file of the index is a visible name in the directory, which no other
 * shown file can have. */
static int file_check(const char *file, struct ck_diag *d)
{
	if (ck_name_ends(file, SUFFIX) && !strchr(file, '/') &&
	    file[0] != '.' && strlen(file) <= NAME_MAX)
		return 0;
	return ck_fail(d, EBADMSG,
		       "weight_map: %s: is no name of a safetensors file",
		       ck_show(ck_str_from(file)));
}

static int text_read(struct ck_template *t, const char *name, struct ck_diag *d)
{
	ck_auto_fd int fd = ck_template_file(t->dirfd, name);
	struct ck_metadata_text text = { 0 };
	int rc;

	if (fd < 0)
		return ck_fail(d, -fd, "%s: %s", ck_show(ck_str_from(name)),
			       strerror(-fd));
	rc = ck_metadata_text_of(fd, name, CK_INDEX_MOST, &text, d);
	t->text = text.pages;
	t->len = text.len;
	return rc;
}

static int index_read(struct ck_template *t, const char *name,
		      struct ck_diag *d)
{
	int rc = text_read(t, name, d);

	if (rc)
		return rc;
	t->has_map = true;
	rc = ck_weight_map_parse((struct ck_str){ t->text, t->len }, &t->map,
				 d);
	for (size_t i = 0; i < t->map.nfiles && rc == 0; i++)
		rc = file_check(t->map.files[i], d);
	if (rc)
		ck_diag_prefix(d, "%s", ck_show(ck_str_from(name)));
	return rc;
}

static int index_find(struct ck_template *t, struct ck_diag *d)
{
	const struct ck_dir_want want = { is_index, SIZE_MAX, SIZE_MAX };
	struct ck_dir_names names = { 0 };
	const char *name = NULL;
	int rc = ck_dir_names_read((struct ck_directory){ .fd = t->dirfd },
				   &want, &names);

	rc = rc ? ck_fail(d, -rc, "%s", strerror(-rc))
		: ck_index_pick(&names, "model" INDEX, &name, d);
	if (rc == 0 && name)
		rc = index_read(t, name, d);
	ck_dir_names_fini(&names);
	return rc;
}

int ck_template_open(const char *path, struct ck_template *out,
		     struct ck_diag *d)
{
	int rc;

	*out = (struct ck_template){
		.dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
	};
	out->is_open = out->dirfd >= 0;
	if (!out->is_open)
		return ck_fail(d, errno, "hf_template=%s: %s",
			       ck_show(ck_str_from(path)), strerror(errno));
	out->others = (struct ck_side_files){
		.reach = { .dirfd = out->dirfd, .linkroot = -1 },
		.anywhere = true,
	};
	rc = ck_side_files_read(&out->others);
	rc = rc ? ck_fail(d, -rc, "%s", strerror(-rc)) : index_find(out, d);
	if (rc)
		ck_diag_prefix(d, "hf_template=%s", ck_show(ck_str_from(path)));
	return rc;
}

void ck_template_close(struct ck_template *t)
{
	if (!t->is_open)
		return;
	ck_side_files_fini(&t->others);
	ck_weight_map_fini(&t->map);
	if (t->text)
		ck_pages_free(t->text, t->len);
	close(t->dirfd);
	*t = (struct ck_template){ 0 };
}
