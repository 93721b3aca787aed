/* SPDX-License-Identifier: MIT */
/*
 * attributes: prints the extended attributes of a node as JSON, in the order of
 * listxattr(2). An attribute that has no value is left out. No state.
 */
#include "attributes.h"
#include "ckptfs/json.h"
#include <errno.h>

static const char error[] = CK_XATTR_PREFIX "error";

/* *first: the object has no member yet. */
static int add(const struct ck_node *n, const char *name, bool *first,
	       struct ck_buf *out)
{
	struct ck_buf value = { 0 };
	int rc = ck_tree_xattr(n, name, NULL, &value);

	if (rc == 0) {
		ck_buf_text(out, *first ? "" : ",");
		ck_buf_json_str(out, ck_str_from(name));
		ck_buf_text(out, ":");
		ck_buf_json_str(out, (struct ck_str){ value.data, value.len });
		*first = false;
	}
	ck_buf_fini(&value);
	return rc == -ENODATA ? 0 : rc;
}

int ck_attributes_json(const struct ck_node *n, bool faults, struct ck_buf *out)
{
	struct ck_buf names = { 0 };
	bool first = true;
	int rc;

	ck_tree_xattrs(n, &names);
	rc = names.err;
	ck_buf_text(out, "{");
	for (size_t at = 0; rc == 0 && at < names.len;
	     at += strlen(names.data + at) + 1) {
		bool is_error = strcmp(names.data + at, error) == 0;

		if (!is_error || !faults)
			rc = add(n, names.data + at, &first, out);
	}
	if (rc == 0 && faults)
		rc = add(n, error, &first, out);
	ck_buf_text(out, "}");
	ck_buf_fini(&names);
	return rc ? rc : out->err;
}
