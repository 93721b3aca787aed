/* SPDX-License-Identifier: MIT */
/*
 * client_paths: directories, attributes and bytes of the files of a tree, by path. Each call
 * finds its path again and keeps nothing.
 */
#include "client_internal.h"

#include <errno.h>
#include <sys/stat.h>

/* A node that a path names, in use. */
struct named {
	struct ckptfs *ck;
	const char *path;
	struct ck_node node;
};

static void error_name(const struct named *n)
{
	const struct ck_catalog *c = n->ck->catalog;
	const struct ck_file_content *about = &n->node.about;

	if (n->node.dir.root != n->ck->s.root)
		return;
	if (about->topic == CK_FILE_KIND_OBJECT)
		ck_client_error_fqn(ck_object_names(c, about->number).name);
	else if (about->topic == CK_FILE_KIND_TENSOR ||
		 about->topic == CK_FILE_KIND_BOX ||
		 about->topic == CK_FILE_KIND_PART)
		ck_client_error_fqn(ck_tensor_names(c, about->number).name);
}

/* Sets the error of the thread; returns rc. */
static int failed(const struct named *n, int rc)
{
	const char *path = ck_show(ck_str_from(n->path));
	struct ck_buf why = { 0 };

	if (ck_session_is_damage(-rc))
		ck_session_fault(&n->node, &why);
	rc = ck_client_fail(rc, "%s: %s%s%s", path, strerrordesc_np(-rc),
			    why.len ? "; " : "", why.len ? why.data : "");
	ck_buf_fini(&why);
	error_name(n);
	return rc;
}

/* Caller calls named_end(), unless an error is returned. */
static int named_find(struct ckptfs *ck, const char *path, bool follow,
		      struct named *out)
{
	int rc;

	*out = (struct named){ .ck = ck, .path = path };
	rc = ck_session_find(&ck->s, path, follow, &out->node);
	return rc ? ck_client_fail(rc, "%s: %s", ck_show(ck_str_from(path)),
				   strerrordesc_np(-rc))
		  : 0;
}

static void named_end(const struct named *n)
{
	ck_tree_forget(n->ck->s.tree, n->node.number, 1);
}

/* --- directories ---------------------------------------------------------------------- */

struct list {
	struct ckptfs_list shown; /* must be first */
	struct ckptfs_entry *all;
	size_t cap;
	struct ck_arena text;
};

static uint32_t type_of(const struct ck_node *n)
{
	return n->about.type == CK_TYPE_DIR    ? S_IFDIR
	       : n->about.type == CK_TYPE_LINK ? S_IFLNK
					       : S_IFREG;
}

static int list_add(void *arg, struct ck_node *n, const char *name)
{
	struct list *l = arg;
	struct ck_str copy = ck_arena_copy(&l->text, ck_str_from(name));
	struct ckptfs_entry *all = ck_grow(l->all, &l->cap, l->shown.n, 1,
					   sizeof(*all));

	if (all)
		l->all = all;
	if (!all || !copy.p)
		return -ENOMEM;
	all[l->shown.n++] = (struct ckptfs_entry){ copy.p, type_of(n) };
	return 0;
}

static int list(struct ckptfs *ck, const char *path, struct list *out)
{
	struct named n;
	int rc = named_find(ck, path, true, &n);

	if (rc)
		return rc;
	rc = n.node.about.type == CK_TYPE_DIR ? 0 : -ENOTDIR;
	if (rc == 0)
		rc = ck_session_each(&ck->s, n.node.number, list_add, out);
	if (rc)
		rc = failed(&n, rc);
	named_end(&n);
	return rc;
}

int ckptfs_list(struct ckptfs *ck, const char *path, struct ckptfs_list **out)
{
	CK_CLIENT_CALL();
	struct list *l = calloc(1, sizeof(*l));
	int rc = l ? list(ck, path, l)
		   : ck_client_fail(-ENOMEM, "out of memory");

	*out = NULL;
	if (rc) {
		ckptfs_list_free(l ? &l->shown : NULL);
		return rc;
	}
	l->shown.entries = l->all;
	*out = &l->shown;
	return 0;
}

void ckptfs_list_free(struct ckptfs_list *shown)
{
	struct list *l = (struct list *)shown;

	if (!l)
		return;
	free(l->all);
	ck_arena_fini(&l->text);
	free(l);
}

/* --- attributes ----------------------------------------------------------------------- */

int ckptfs_stat(struct ckptfs *ck, const char *path, struct ckptfs_stat *out)
{
	CK_CLIENT_CALL();
	struct ck_node_stat st;
	struct named n;
	int rc = named_find(ck, path, false, &n);

	*out = (struct ckptfs_stat){ 0 };
	if (rc)
		return rc;
	rc = ck_tree_stat(&n.node, &st);
	if (rc == 0)
		*out = (struct ckptfs_stat){
			.number = st.number,
			.size = st.size,
			.mode = st.mode,
			.uid = st.uid,
			.gid = st.gid,
			.mtime = st.mtime.tv_sec,
			.mtime_nsec = (uint32_t)st.mtime.tv_nsec,
		};
	else
		rc = failed(&n, rc);
	named_end(&n);
	return rc;
}

/* Gives the caller `value`, as getxattr(2) does. */
static int64_t give(const struct named *n, const struct ck_buf *value, void *to,
		    size_t size)
{
	if (value->err)
		return failed(n, value->err);
	if (size && value->len > size)
		return failed(n, -ERANGE);
	if (size && value->len)
		memcpy(to, value->data, value->len);
	return (int64_t)value->len;
}

int64_t ckptfs_getxattr(struct ckptfs *ck, const char *path, const char *name,
			void *value, size_t size)
{
	CK_CLIENT_CALL();
	struct ck_buf got = { 0 };
	struct named n;
	int64_t rc = named_find(ck, path, false, &n);

	if (rc)
		return rc;
	rc = ck_tree_xattr(&n.node, name, NULL, &got);
	if (rc == -ENODATA)
		(void)ck_client_fail(-ENODATA, "%s: no attribute %s",
				     ck_show(ck_str_from(path)),
				     ck_show(ck_str_from(name)));
	else
		rc = rc ? failed(&n, (int)rc) : give(&n, &got, value, size);
	ck_buf_fini(&got);
	named_end(&n);
	return rc;
}

int64_t ckptfs_listxattr(struct ckptfs *ck, const char *path, void *names,
			 size_t size)
{
	CK_CLIENT_CALL();
	struct ck_buf got = { 0 };
	struct named n;
	int64_t rc = named_find(ck, path, false, &n);

	if (rc)
		return rc;
	ck_tree_xattrs(&n.node, &got);
	rc = give(&n, &got, names, size);
	ck_buf_fini(&got);
	named_end(&n);
	return rc;
}

/* --- bytes ------------------------------------------------------------------------------ */

static int64_t read_range(struct named *n, void *to, size_t len,
			  uint64_t offset)
{
	struct ck_tree_file f;
	uint64_t size;
	int rc = ck_session_file(&n->ck->s, &n->node, &f);

	size = ck_session_size(&f);
	len = offset < size ? ck_min(len, size - offset) : 0;
	if (rc == 0)
		rc = len || f.err ? ck_session_read(&f, offset, len, to) : 0;
	ck_session_count(&f, len, rc);
	ck_tree_file_close(&f);
	return rc ? failed(n, rc) : (int64_t)len;
}

int64_t ckptfs_read(struct ckptfs *ck, const char *path, void *to, size_t len,
		    uint64_t offset)
{
	CK_CLIENT_CALL();
	struct named n;
	int64_t rc = named_find(ck, path, true, &n);

	if (rc)
		return rc;
	rc = read_range(&n, to, len, offset);
	named_end(&n);
	return rc;
}

/* --- tensors of a file ------------------------------------------------------------------ */

/* Stores the tensors of a slice. Returns their number. */
static uint64_t parts_of(const struct ckptfs *ck, const struct ck_slice *slice,
			 struct ckptfs_part *parts, uint64_t most)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < slice->nparts; i++) {
		struct ck_part part = ck_slice_part(slice, i);

		if (part.kind != CK_PART_BOX ||
		    ck->numbers[part.number] == UINT32_MAX)
			continue;
		if (n < most)
			parts[n] = (struct ckptfs_part){
				.tensor = ck->numbers[part.number],
				.begin = ck_slice_begin(slice, i),
				.size = ck_slice_part_len(slice, i),
			};
		n++;
	}
	return n;
}

int64_t ckptfs_parts(struct ckptfs *ck, const char *path,
		     struct ckptfs_part *parts, uint64_t most)
{
	CK_CLIENT_CALL();
	struct ck_slice *slice = NULL;
	struct named n;
	int64_t rc = named_find(ck, path, true, &n);

	if (rc)
		return rc;
	if (n.node.about.type != CK_TYPE_FILE || n.node.dir.root != ck->s.root)
		rc = -ENOTTY;
	else
		rc = ck_tree_slice(ck->catalog, &n.node, &slice);
	if (rc == 0)
		rc = (int64_t)parts_of(ck, slice, parts, most);
	else
		rc = failed(&n, (int)rc);
	ck_slice_free(slice);
	named_end(&n);
	return rc;
}
