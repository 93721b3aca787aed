/* SPDX-License-Identifier: MIT */
/* safetensors_files: reads the headers of all files of a checkpoint. A file that cannot
 * be read becomes a line of damage. The state is in struct ck_safetensors_load, used by
 * one thread. */
#include "safetensors_internal.h"
#include "source/head.h"

#include <errno.h>

static int no_memory(struct ck_safetensors_load *l)
{
	return ck_fail(l->d, ENOMEM, "out of memory");
}

int ck_safetensors_file_add(struct ck_safetensors_load *l, const char *path)
{
	struct ck_safetensors_file *files =
		ck_grow(l->files, &l->files_cap, l->nfiles, 1, sizeof(*files));
	struct ck_safetensors_file *f;

	if (!files)
		return no_memory(l);
	l->files = files;
	f = &files[l->nfiles];
	*f = (struct ck_safetensors_file){ .name = strdup(path) };
	if (!f->name)
		return no_memory(l);
	l->nfiles++;
	if (ck_files_add(l->cp->files, ck_str_from(path), &f->number))
		return no_memory(l);
	return 0;
}

uint64_t ck_safetensors_rank(struct ck_str path)
{
	const char *slash = path.len ? memrchr(path.p, '/', path.len) : NULL;
	const char *name = slash ? slash + 1 : path.p;
	size_t len = path.len - (size_t)(name - path.p);
	struct ck_str prefix = CK_STR("shard-"), rest = { name, len };
	uint64_t number = 0;
	size_t i = prefix.len;

	if (!ck_str_starts(rest, prefix))
		return CK_NO_RANK;
	for (; i < len && name[i] >= '0' && name[i] <= '9'; i++)
		if (i > prefix.len + 17)
			return CK_NO_RANK;
		else
			number = number * 10 + (uint64_t)(name[i] - '0');
	rest = (struct ck_str){ name + i, len - i };
	if (i == prefix.len || number == 0 ||
	    !ck_str_starts(rest, CK_STR("-model-")))
		return CK_NO_RANK;
	return number - 1;
}

/* --- reading ------------------------------------------------------------------------ */

/* Adds a line of damage in place of the file. */
static int lose(struct ck_safetensors_load *l, struct ck_safetensors_file *f,
		const struct ck_diag *d)
{
	const struct ck_loss loss = { .file = f->number,
				      .err = d->err,
				      .what = ck_str_from(d->text) };

	return ck_catalog_loss_add(l->c, &loss) ? no_memory(l) : 0;
}

int ck_safetensors_file_open(struct ck_files *files,
			     struct ck_safetensors_file *f, struct ck_diag *d)
{
	const struct ck_file_info *info = ck_files_info(files, f->number);
	struct ck_file file;
	bool transient;
	int rc, now;

	if (info->err)
		return ck_fail(d, info->err, "%s", info->why);
	rc = ck_files_get(files, f->number, &file);
	if (rc)
		return ck_fail(d, -rc, "%s", strerrordesc_np(-rc));
	rc = ck_files_head_begin(files, &file);
	if (rc == 0) {
		rc = ck_safetensors_header_read(files, &file, 0, f, d);
		now = ck_files_head_end(files, &file, rc == 0);
		rc = rc ? rc : now;
	}
	if (rc == -ENOMEM)
		(void)ck_fail(d, ENOMEM, "out of memory");
	now = ck_files_revalidate(files, &file, &transient);
	ck_files_put(files, &file);
	return now ? ck_fail(d, -now, "%s", strerrordesc_np(-now)) : rc;
}

static int file_read(struct ck_safetensors_load *l,
		     struct ck_safetensors_file *f)
{
	struct ck_diag d = { 0 };
	int rc = ck_safetensors_file_open(l->cp->files, f, &d);

	if (ck_is_shortage(rc))
		return ck_fail(l->d, -rc, "%s: %s",
			       ck_show(ck_str_from(f->name)), strerror(-rc));
	return rc ? lose(l, f, &d) : 0;
}

int ck_safetensors_files_read(struct ck_safetensors_load *l)
{
	bool some = false;
	int rc = 0;

	for (size_t i = 0; i < l->nfiles && rc == 0; i++) {
		rc = file_read(l, &l->files[i]);
		some |= l->files[i].good;
	}
	if (rc || some || l->nfiles == 0)
		return rc;
	return ck_fail_none_usable(l->c, l->files[0].name, l->nfiles, l->d);
}
