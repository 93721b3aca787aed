/* SPDX-License-Identifier: MIT */
/* torch_beside: finds and adds the torch files beside a checkpoint. The state is in struct
 * ck_torch_load. */
#include "torch_beside.h"
#include "format/load/numbered.h"

#include <errno.h>

/* Adds a file, unless the checkpoint has it already. */
static int file_add(struct ck_torch_load *l, const char *name, uint32_t before)
{
	uint32_t number;

	if (ck_numbered_of(name, ".bin", &(struct ck_numbered_name){ 0 }))
		return 0;
	if (ck_files_add(l->cp->files, ck_str_from(name), &number))
		return ck_fail(l->d, ENOMEM, "out of memory");
	return number < before ? 0 : ck_torch_file_add(l, name);
}

static int files_add(struct ck_torch_load *l)
{
	uint32_t before = ck_files_count(l->cp->files);
	struct ck_dir_names names = { 0 };
	int rc = ck_torch_names_find(ck_checkpoint_dir(l->cp), ck_torch_is_name,
				     false, &names);

	if (rc)
		rc = ck_fail(l->d, -rc, "%s", strerror(-rc));
	for (size_t i = 0; i < names.n && rc == 0; i++)
		rc = file_add(l, names.all[i], before);
	ck_dir_names_fini(&names);
	return rc;
}

int ck_torch_beside_find(struct ck_checkpoint *cp, struct ck_catalog *c,
			 struct ck_torch_load **out, struct ck_diag *d)
{
	struct ck_torch_load *l = calloc(1, sizeof(*l));

	*out = l;
	if (!l)
		return ck_fail(d, ENOMEM, "out of memory");
	l->cp = cp;
	l->c = c;
	l->d = d;
	return cp->file ? 0 : files_add(l);
}

void ck_torch_beside_free(struct ck_torch_load *l)
{
	if (l)
		ck_torch_load_fini(l);
	free(l);
}

int ck_torch_beside_add(struct ck_torch_load *l)
{
	struct ck_catalog *c = l->c;
	bool some = false;
	int rc;

	l->beside = true;
	c->beside = c->tensors.n;
	c->beside_loss = (uint32_t)c->nlosses;
	rc = ck_torch_files_try(l, &some);
	if (rc == 0 && some)
		rc = ck_torch_names_reserve(l);
	if (rc == 0 && some)
		rc = ck_torch_entries_add(l);
	c->nbeside = c->tensors.n - c->beside;
	c->nbeside_losses = (uint32_t)c->nlosses - c->beside_loss;
	return rc;
}
