/* SPDX-License-Identifier: MIT */
/*
 * box_fault: why a box cannot be read, as the error of the calling thread: the first fault
 * among the stored boxes that the box touches, in the words of `ckptfs check`.
 */
#include "box_read.h"

#include <errno.h>

/* Finds the first fault in the boxes of a layout. */
static bool find_fault(const struct ck_box_read *r,
		       const struct ck_layout *layout, struct ck_fault *out)
{
	for (uint32_t k = 0; k < layout->n; k++)
		if (ck_box_has_fault(r->ck->s.cp, r->ck->catalog, layout,
				     r->row, ck_layout_chunk(layout, k), out))
			return true;
	return false;
}

/* Sets the error to a fault of the tensor that is not of one box: missing elements, ranks
 * with different values. Returns false if none is known. */
static bool tensor_failed(const struct ck_box_read *r, int rc)
{
	const struct ck_catalog *c = r->ck->catalog;
	const struct ck_file_content about = { .topic = CK_FILE_KIND_TENSOR,
					       .number = r->row };
	struct ck_buf lines = { 0 };
	struct ck_fault f;
	bool found;

	if (ck_catalog_tensor_has_fault(c, ck_catalog_tensor(c, r->row), &f)) {
		(void)ck_client_fail_fault(rc, &f);
		return true;
	}
	ck_damage_print_file(ck_root_damage(r->ck->s.root), c, &about, NULL, "",
			     &lines);
	found = lines.len > 0;
	if (found)
		(void)ck_client_fail(rc, "%s: %.*s",
				     ck_show(ck_tensor_names(c, r->row).name),
				     (int)strcspn(lines.data, "\n"),
				     lines.data);
	ck_buf_fini(&lines);
	return found;
}

/* Sets the error to the damage that a read found. Returns false if it is not found again. */
static bool damage_failed(struct ck_box_read *r, int rc)
{
	const struct ck_layout *layout;
	struct ck_fault f;

	if (r->file.opened &&
	    ck_open_slice_layout(r->file.opened, 0, &layout) == 0 &&
	    find_fault(r, layout, &f)) {
		(void)ck_client_fail_fault(rc, &f);
		return true;
	}
	return tensor_failed(r, rc);
}

static int request_failed(const struct ck_box_read *r, int rc)
{
	const struct ck_tensor *t = ck_catalog_tensor(r->ck->catalog, r->row);
	const char *name =
		ck_show(ck_tensor_names(r->ck->catalog, r->row).name);
	struct ck_buf shape = { 0 };

	ck_dims_print(&shape,
		      r->part ? (const int64_t *)r->part + r->ndim : t->shape,
		      t->ndim);
	if (rc == -ERANGE)
		rc = ck_client_fail(rc,
				    "%s: the box is not within the tensor, "
				    "whose shape is %s",
				    name, shape.data ? shape.data : "");
	else
		rc = ck_client_fail(rc,
				    "%s: the box has %u dimensions, or a step "
				    "of 0; the shape of the tensor is %s",
				    name, r->box->ndim,
				    shape.data ? shape.data : "");
	ck_buf_fini(&shape);
	return rc;
}

int ck_box_read_failed(struct ck_box_read *r, int rc)
{
	const char *fqn = r->box->fqn;
	struct ck_str name;

	if (r->row == UINT32_MAX && fqn) {
		rc = ck_client_fail(rc, "%s: no tensor has this name",
				    ck_show(ck_str_from(fqn)));
		ck_client_error_fqn(ck_str_from(fqn));
		return rc;
	}
	if (r->row == UINT32_MAX && r->box->path)
		return ck_client_fail(rc, "%s: %s",
				      ck_show(ck_str_from(r->box->path)),
				      rc == -ENOTTY ? "not a file of a tensor"
						    : strerrordesc_np(-rc));
	if (r->row == UINT32_MAX)
		return ck_client_fail(rc, "there is no tensor %ju",
				      (uintmax_t)r->box->tensor);
	name = ck_tensor_names(r->ck->catalog, r->row).name;
	if (rc == -ERANGE || rc == -EINVAL)
		(void)request_failed(r, rc);
	else if (!ck_session_is_damage(-rc) || !damage_failed(r, rc))
		(void)ck_client_fail(rc, "%s: %s", ck_show(name),
				     strerrordesc_np(-rc));
	ck_client_error_fqn(name);
	return rc;
}

int ck_box_read_check(struct ck_box_read *r)
{
	const struct ck_layout *layout;
	struct ck_fault f;
	int rc;

	if (r->pieces == 0)
		return 0;
	rc = ck_open_slice_layout(r->file.opened, 0, &layout);
	if (rc == 0)
		rc = -layout->err;
	if (rc)
		return ck_box_read_failed(r, rc);
	if (find_fault(r, layout, &f))
		return ck_client_fail_fault(-f.err, &f);
	if (!layout->faulty)
		return 0;
	return ck_box_read_failed(r, layout->hole ? -layout->hole : -ENODATA);
}
