/* SPDX-License-Identifier: MIT */
/*
 * caller: permission checks as the kernel makes them, by user, group and mode. The
 * daemon makes them where the kernel cannot: where the mode that the kernel knows is
 * old, and where one name stands for bytes of another file.
 *
 * Files and directories have no access control lists in a mount. No state, no locks.
 */
#include "caller.h"
#include <stdlib.h>

void ck_caller_take(struct ck_caller *c, fuse_req_t req)
{
	const struct fuse_ctx *by = fuse_req_ctx(req);
	int n;

	*c = (struct ck_caller){ .uid = by->uid, .gid = by->gid };
	if (by->uid == 0)
		return;
	c->groups = calloc(CK_GROUPS_MOST, sizeof(*c->groups));
	n = c->groups ? fuse_req_getgroups(req, CK_GROUPS_MOST, c->groups) : 0;
	c->n = n < 0 ? 0 : n > CK_GROUPS_MOST ? CK_GROUPS_MOST : (unsigned)n;
}

void ck_caller_fini(struct ck_caller *c)
{
	free(c->groups);
	*c = (struct ck_caller){ 0 };
}

bool ck_caller_has_group(const struct ck_caller *c, gid_t gid)
{
	for (unsigned i = 0; i < c->n; i++)
		if (c->groups[i] == gid)
			return true;
	return c->gid == gid;
}

static bool has_all(mode_t mode, mode_t bits)
{
	return (mode & bits) == bits;
}

bool ck_caller_may(const struct ck_caller *c, const struct stat *shown,
		   mode_t bits)
{
	if (c->uid == 0)
		return true;
	if (c->uid == shown->st_uid)
		return has_all(shown->st_mode >> 6, bits);
	if (ck_caller_has_group(c, shown->st_gid))
		return has_all(shown->st_mode >> 3, bits);
	return has_all(shown->st_mode, bits);
}

/* Which groups he is in has to be read from /proc: only if it matters. */
bool ck_may(fuse_req_t req, const struct stat *shown, mode_t bits)
{
	const struct fuse_ctx *by = fuse_req_ctx(req);
	struct ck_caller c = { .uid = by->uid, .gid = by->gid };
	bool may;

	if (by->uid != shown->st_uid && by->gid != shown->st_gid &&
	    has_all(shown->st_mode >> 3, bits) != has_all(shown->st_mode, bits))
		ck_caller_take(&c, req);
	may = ck_caller_may(&c, shown, bits);
	ck_caller_fini(&c);
	return may;
}
