/* SPDX-License-Identifier: MIT */
/*
 * cards_spread: see cards.h. Whether what goes to memory of one device goes up by the links of
 * all of them, and from there by NCCL: if that was so much faster, or has to be.
 */
#include "cards.h"
#include "given.h"
#include "spread_probe.h"

#include <errno.h>
#include <stdio.h>

bool ck_cards_spread(struct ck_gpu *is, struct ck_gpu_spread *out)
{
	struct ck_cards *all = (struct ck_cards *)is;
	bool used = ck_cards_are_spread(all), news;

	if (all->spread && used != all->said.used) {
		all->said.used = used;
		all->said.rc = used ? 0 : -EIO;
		(void)snprintf(all->said.text, sizeof(all->said.text), "%s",
			       all->spread->nccl);
		if (!used)
			all->spread->why(all->spread, all->said.text,
					 sizeof(all->said.text));
		all->news = true;
	}
	news = all->news;
	all->news = false;
	*out = all->said;
	return news;
}

static int make_spread(struct ck_cards *all, struct ck_diag *d)
{
#ifdef CK_WITH_NCCL
	struct ck_device *devices[CK_GPUS_MOST];

	for (uint32_t i = 0; i < all->n; i++)
		devices[i] = all->list[i].device;
	return ck_nccl_spread_make(devices, all->n, &all->spread, d);
#else
	(void)all;
	return ck_fail(d, ENOSYS, "this was built without NCCL");
#endif
}

/* Both ways, to memory of the first device. Something that does not come back is an error. */
static int compare(struct ck_cards *all, const struct ck_gpu_memory *to)
{
	const struct ck_gpu_options *options = &all->options;
	struct ck_spread_probe alone, spread;
	int rc;

	all->spreads = false;
	rc = ck_spread_probe(&all->is, options, to, &alone);
	all->spreads = true;
	if (rc == 0)
		rc = ck_spread_probe(&all->is, options, to, &spread);
	if (rc)
		return rc;
	all->said.rate = (uint64_t)spread.rate;
	all->said.nsec = (uint64_t)(spread.sec * 1e9);
	all->spreads = options->spreading == CK_GPU_SPREAD ||
		       spread.rate > CK_NCCL_FASTER * alone.rate;
	return 0;
}

static int measure(struct ck_cards *all)
{
	struct ck_device *g = all->list[0].device;
	struct ck_gpu_memory to = { .file = -1 };
	int rc;

	(void)ck_device_use(g);
	rc = ck_given_allocate(g, ck_spread_probe_size(&all->options), &to);
	if (rc)
		return rc;
	rc = compare(all, &to);
	if (rc) /* it may be used still: the process ends soon */
		return -EIO;
	(void)ck_device_use(g);
	ck_given_free(g, &to);
	return 0;
}

/* Communicators take memory of the devices, and so they go if they are not used. */
void ck_cards_spread_end(struct ck_cards *all)
{
	if (all->spread)
		all->spread->end(all->spread);
	all->spread = NULL;
	all->spreads = false;
}

/* What is found of it, when there are communicators. */
static int settle(struct ck_cards *all, struct ck_diag *d)
{
	struct ck_gpu_spread *said = &all->said;
	int rc = measure(all);

	if (rc == -EIO && !*all->trouble.text)
		(void)ck_fail(&all->trouble, EIO, "nothing comes to GPU %d",
			      all->list[0].device->ordinal);
	if (rc == -EIO)
		return ck_fail(d, EIO, "%s", all->trouble.text);
	said->rc = rc;
	if (rc) {
		(void)snprintf(said->text, sizeof(said->text),
			       "there is no room to try it");
	} else if (!all->spread->is_on(all->spread)) {
		said->rc = -EIO;
		all->spread->why(all->spread, said->text, sizeof(said->text));
	}
	said->used = said->rc == 0 && all->spreads;
	if (!said->used)
		ck_cards_spread_end(all);
	return 0;
}

int ck_cards_spread_begin(struct ck_gpu *is, struct ck_diag *d)
{
	struct ck_cards *all = (struct ck_cards *)is;
	const struct ck_gpu_options *options = &all->options;
	struct ck_gpu_spread *said = &all->said;
	struct ck_diag why = { 0 };

	if (options->spreading == CK_GPU_ALONE || options->size == 0 ||
	    (all->n == 1 && options->spreading != CK_GPU_SPREAD))
		return 0;
	all->news = true;
	said->rc = all->n == 1 ? ck_fail(&why, ENODEV, "there is one GPU")
			       : make_spread(all, &why);
	(void)snprintf(said->text, sizeof(said->text), "%.*s",
		       (int)sizeof(said->text) - 1,
		       said->rc ? why.text : all->spread->nccl);
	return said->rc ? 0 : settle(all, d);
}
