/* SPDX-License-Identifier: MIT */
/* index: reads an index, which maps names of tensors to files, and chooses it among
 * several. A struct ck_index is a value, constant after it was read. */
#include "index.h"

#include <errno.h>

int ck_index_read(struct ck_checkpoint *cp, struct ck_catalog *c,
		  const char *name, const struct ck_format_options *options,
		  struct ck_index *out, struct ck_diag *d)
{
	int rc = ck_metadata_read(cp, c, name, CK_INDEX_MOST, options,
				  &out->text, d);

	if (rc)
		return rc;
	rc = ck_weight_map_parse(
		(struct ck_str){ out->text.pages, out->text.len }, &out->map,
		d);
	if (rc)
		ck_diag_prefix(d, "%s", ck_show(ck_str_from(name)));
	return rc;
}

void ck_index_fini(struct ck_index *x)
{
	ck_weight_map_fini(&x->map);
	ck_metadata_text_fini(&x->text);
}

int ck_index_lose(struct ck_catalog *c, const struct ck_weight_row *row,
		  uint32_t file, bool good, struct ck_str absent)
{
	const struct ck_loss loss = {
		.name = row->name,
		.file = file,
		.err = good ? EBADMSG : ENODATA,
		.what = good ? absent
			     : CK_STR("the index names it, its file cannot "
				      "be read"),
	};

	return ck_catalog_loss_add(c, &loss);
}

/* --- choice of an index ----------------------------------------------------------- */

int ck_index_ignore(struct ck_catalog *c, const struct ck_dir_names *found,
		    const char *single)
{
	return found->n ? ck_catalog_doubt_add(
				  c,
				  ck_shown("%s is shown, as transformers "
					   "loads it; %s beside it is not "
					   "used",
					   single,
					   ck_show(ck_str_from(found->all[0]))))
			: 0;
}

int ck_index_pick(const struct ck_dir_names *found, const char *usual,
		  const char **out, struct ck_diag *d)
{
	struct ck_buf list = { 0 };
	int rc;

	*out = found->n == 1 ? found->all[0] : NULL;
	for (size_t i = 0; i < found->n; i++)
		if (strcmp(found->all[i], usual) == 0)
			*out = found->all[i];
	if (*out || found->n == 0)
		return 0;
	for (size_t i = 0; i < found->n; i++)
		ck_buf_printf(&list, "%s%s", i ? ", " : "",
			      ck_show(ck_str_from(found->all[i])));
	rc = ck_fail(d, EBADMSG, "several indexes, and none is %s: %s", usual,
		     list.data ? list.data : "");
	ck_buf_fini(&list);
	return rc;
}
