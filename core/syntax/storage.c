/* SPDX-License-Identifier: MIT */
/*
 * storage: parses the persistent ids by which a pickle of torch.save refers to
 * the bytes of a tensor. The id ('storage', class, key, location, numel) gives
 * the record, data/<key>, its dtype and its number of elements. Only the last
 * component of the class counts, as in torch. Before torch 1.6 the id had a
 * sixth part. No state; any thread.
 */
#include "ckptfs/value.h"

bool ck_storage_take(const struct ck_pickle *p, const struct ck_pv *v,
		     struct ck_str *class, struct ck_str *key, int64_t *numel)
{
	uint32_t parts = p->old_persids ? 6 : 5;
	struct ck_pv id, part[6];
	struct ck_str tag, location;

	if (v->tag != CK_PV_PERSID)
		return false;
	id = v->list->items[0];
	if (id.tag != CK_PV_TUPLE || ck_pv_count(&id) != parts)
		return false;
	for (uint32_t i = 0; i < parts; i++)
		part[i] = ck_pv_at(&id, i);
	/* The sixth part: the storage that this one is a view of. */
	if (part[1].tag != CK_PV_GLOBAL ||
	    (parts == 6 && part[5].tag != CK_PV_NONE))
		return false;
	*class = ck_pickle_global(p, &part[1]);
	return ck_pv_str(&part[0], &tag) && ck_str_is(tag, "storage") &&
	       ck_pv_str(&part[2], key) && ck_pv_str(&part[3], &location) &&
	       ck_pv_int(&part[4], numel) && *numel >= 0;
}

bool ck_storage_is_untyped(struct ck_str class)
{
	static const char name[] = ".UntypedStorage";
	size_t len = sizeof(name) - 1;

	return class.len > len &&
	       memcmp(class.p + class.len - len, name, len) == 0;
}
