/* SPDX-License-Identifier: MIT */
/* copy_case: a copy of a fixture that a test may change, and its contents.
 */
#ifndef CK_COPY_CASE_H
#define CK_COPY_CASE_H

#include "read_case.h"
#include "shell.h"
#include "tap.h"

#include <dirent.h>

static char dir[] = "/tmp/ckptfs-commit-XXXXXX";

static const struct ck_format_options plain = { CK_BENEATH_NO_SYMLINKS,
						.write = true };

static inline struct ck_checkpoint *open_copy(void)
{
	struct ck_checkpoint *cp = NULL;
	static struct ck_diag d;

	if (ck_checkpoint_open(dir, &plain, &cp, &d))
		printf("# %s\n", d.text);
	return cp;
}

/* --- reading ---------------------------------------------------------------- */

/* All bytes of a tensor by its raw view; NULL if some cannot be had. */
static inline uint8_t *read_with(struct ck_checkpoint *cp, uint32_t tensor,
				 const struct ck_layout *layout, uint64_t *len)
{
	uint8_t *bytes;

	*len = ck_tensor_views[1]->size(cp->catalog, tensor);
	bytes = calloc(1, *len + 1);
	if (bytes && read_case(cp, tensor, layout, bytes) == 0)
		return bytes;
	free(bytes);
	return NULL;
}

static inline uint8_t *read_tensor(struct ck_checkpoint *cp, uint32_t tensor,
				   uint64_t *len)
{
	*len = 0;
	if (ck_catalog_tensor(cp->catalog, tensor)->err)
		return NULL;
	return read_with(cp, tensor, NULL, len);
}

static inline bool same(const uint8_t *a, const uint8_t *b, uint64_t len)
{
	return !a == !b && (!a || memcmp(a, b, len) == 0);
}

/* The number of tensors that differ from `want`; NULL in it: unreadable. */
static inline unsigned count_wrong(struct ck_checkpoint *cp, uint8_t **want)
{
	unsigned wrong = 0;

	for (uint32_t i = 0; i < cp->catalog->tensors.n; i++) {
		uint64_t len;
		uint8_t *now = read_tensor(cp, i, &len);

		wrong += !same(now, want[i], len);
		free(now);
	}
	return wrong;
}

static inline uint32_t tensor_named(const struct ck_catalog *c,
				    const char *name)
{
	uint32_t i = 0;

	while (!ck_str_is(ck_tensor_names(c, i).name, name))
		i++;
	return i;
}

static inline unsigned count_files(void)
{
	DIR *list = opendir(dir);
	unsigned n = 0;

	while (list && readdir(list))
		n++;
	closedir(list);
	return n;
}

#endif
