/* SPDX-License-Identifier: MIT */
/*
 * options_gpu: the options of GPUs: gpu=, gather=, nccl=, pinned= and
 * gpucache=. No state, no locks.
 */
#include "options.h"

#include <errno.h>
#include <stdio.h>

static int refuse(const char *name, const char *value, const char *expected,
		  struct ck_diag *d)
{
	return ck_fail(d, EINVAL, "option %s%s: expected %s", name,
		       ck_show(ck_str_from(value)), expected);
}

/* Takes the next number of a list, of at most four digits. */
static bool take_device(const char **text, uint32_t *out)
{
	size_t digits = strspn(*text, "0123456789");

	if (digits == 0 || digits > 4)
		return false;
	*out = (uint32_t)strtoul(*text, NULL, 10);
	*text += digits;
	return true;
}

static bool has(const struct ck_gpu_choice *c, uint32_t device)
{
	for (uint32_t i = 0; i < c->n; i++)
		if (c->devices[i] == device)
			return true;
	return false;
}

static int set_gpu(struct ck_gpu_choice *c, const char *value,
		   struct ck_diag *d)
{
	static const char expected[] = "off, auto, or numbers, as 0+1";
	const char *p = value;
	uint32_t device;

	c->used = strcmp(value, "off") != 0;
	c->n = 0;
	if (!c->used || strcmp(value, "auto") == 0)
		return 0;
	do {
		if (!take_device(&p, &device) || has(c, device) ||
		    c->n == CK_GPUS_GIVEN_MOST)
			return refuse("gpu=", value, expected, d);
		c->devices[c->n++] = device;
	} while (*p == '+' && *++p);
	return *p || p[-1] == '+' ? refuse("gpu=", value, expected, d) : 0;
}

/* Index of the value in `words`, or -EINVAL. */
static int word_of(const char *name, const char *const words[static 2],
		   const char *value, struct ck_diag *d)
{
	char expected[64];

	for (int i = 0; i < 2; i++)
		if (strcmp(value, words[i]) == 0)
			return i;
	(void)snprintf(expected, sizeof(expected), "%s or %s", words[0],
		       words[1]);
	return refuse(name, value, expected, d);
}

static int set_gather(struct ck_gpu_choice *c, const char *value,
		      struct ck_diag *d)
{
	static const char *const words[] = {
		[CK_GATHER_HOST] = "host",
		[CK_GATHER_GPU] = "gpu",
	};

	int word = word_of("gather=", words, value, d);

	if (word < 0)
		return word;
	c->gather = (enum ck_gather_where)word;
	return 0;
}

static int set_nccl(struct ck_gpu_choice *c, const char *value,
		    struct ck_diag *d)
{
	static const char *const words[] = {
		[CK_NCCL_OFF] = "off",
		[CK_NCCL_FORCE] = "force",
	};

	int word = word_of("nccl=", words, value, d);

	if (word < 0)
		return word;
	c->nccl = (enum ck_nccl_use)word;
	return 0;
}

static int set_pinned(struct ck_gpu_choice *c, const char *value,
		      struct ck_diag *d)
{
	const uint64_t least = UINT64_C(16) << 20, most = UINT64_C(8) << 30;

	if (!ck_size_parse(value, &c->pinned) || c->pinned < least ||
	    c->pinned > most)
		return refuse("pinned=", value, "a size from 16M to 8G", d);
	return 0;
}

static int set_cache(struct ck_gpu_choice *c, const char *value,
		     struct ck_diag *d)
{
	if (!ck_size_parse(value, &c->cache) || c->cache > UINT64_C(1024) << 30)
		return refuse("gpucache=", value, "a size up to 1024G", d);
	c->cache_given = true;
	return 0;
}

int ck_gpu_choice_set(struct ck_gpu_choice *c, const char *name,
		      const char *value, struct ck_diag *d)
{
	if (strcmp(name, "gpu=") == 0)
		return set_gpu(c, value, d);
	if (strcmp(name, "gather=") == 0)
		return set_gather(c, value, d);
	if (strcmp(name, "nccl=") == 0)
		return set_nccl(c, value, d);
	if (strcmp(name, "gpucache=") == 0)
		return set_cache(c, value, d);
	return set_pinned(c, value, d);
}

bool ck_gpu_choice_has_rounds(const struct ck_gpu_choice *c)
{
	return c->used && c->nccl == CK_NCCL_FORCE;
}

void ck_gpu_choice_text(const struct ck_gpu_choice *c,
			char out[static CK_GPUS_TEXT])
{
	size_t at = 0;

	(void)snprintf(out, CK_GPUS_TEXT, "auto");
	for (uint32_t i = 0; i < c->n && at < CK_GPUS_TEXT; i++) {
		int n = snprintf(out + at, CK_GPUS_TEXT - at, "%s%u",
				 i ? "+" : "", c->devices[i]);

		at += n < 0 ? 0 : (size_t)n;
	}
}

int ck_gpu_choice_check(const struct ck_gpu_choice *c, struct ck_diag *d)
{
	if (c->used)
		return 0;
	if (c->gather == CK_GATHER_GPU || c->nccl == CK_NCCL_FORCE)
		return ck_fail(d, EINVAL,
			       "option %s: only with gpu=auto or gpu=N",
			       c->gather == CK_GATHER_GPU ? "gather=gpu"
							  : "nccl=force");
	if (c->pinned || c->cache_given)
		return ck_fail(d, EINVAL,
			       "option %s: only with gpu=auto or gpu=N",
			       c->pinned ? "pinned" : "gpucache");
	return 0;
}
