/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a file of torch.save, in either container: alone, as those of two ranks, both
 * with a sidecar of flat parameters and their optimizer, or as two pieces of a state dict. It is refused and says why, or what is shown lies within the
 * file, and each of its elements, too.
 *
 * The first byte says as which; the rest is the file.
 */
#include "ckptfs/format.h"
#include "must.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WAYS = 3 };

static const char *const names[WAYS][2] = {
	{ "x.pt", NULL },
	{ "rank_0.pt", "rank_1.pt" },
	{ "m-1-of-2.bin", "m-2-of-2.bin" },
};
static char dirs[WAYS][64];

static void dirs_remove(void)
{
	char command[256];

	for (int i = 0; i < WAYS; i++) {
		snprintf(command, sizeof(command), "rm -rf %s", dirs[i]);
		must(system(command) == 0);
	}
}

static void put(const char *dir, const char *name, const uint8_t *bytes,
		size_t len)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	must(fd >= 0 && ck_write_full(fd, bytes, len) == 0);
	close(fd);
}

static void sidecar_put(const char *dir)
{
	static uint8_t text[4096];
	int fd = open(CK_FIXTURE "/../ranks_flat_state/ckptfs-flat.json",
		      O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text));

	must(len > 0 && (size_t)len < sizeof(text));
	close(fd);
	put(dir, "ckptfs-flat.json", text, (size_t)len);
}

static void dirs_make(void)
{
	for (int i = 0; i < WAYS; i++) {
		snprintf(dirs[i], sizeof(dirs[i]), "%s/ckptfs-torch-XXXXXX",
			 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
		must(mkdtemp(dirs[i]));
		if (i < 2)
			sidecar_put(dirs[i]);
	}
	atexit(dirs_remove);
}

/* A tensor that can be read has its boxes in the tensor. */
static void look_at_boxes(const struct ck_tensor *t)
{
	for (uint32_t b = 0; b < t->nchunks && !t->err; b++) {
		const int64_t *at = ck_tensor_box(t, b);

		for (uint32_t d = 0; d < t->ndim; d++)
			must(at[d] >= 0 && at[t->ndim + d] >= 0 &&
			     at[d] <= t->shape[d] &&
			     at[t->ndim + d] <= t->shape[d] - at[d]);
	}
}

static void look_at_item(const struct ck_item *item, size_t size)
{
	/* Of one without elements the storage may be behind the end of a cut file. */
	if (item->file != CK_NO_FILE && !item->err && item->length)
		must(item->fpos <= size && item->length <= size - item->fpos);
}

static void look(const struct ck_catalog *c, size_t size)
{
	struct ck_buf text = { 0 };

	for (uint32_t i = 0; i < c->tensors.n; i++)
		look_at_boxes(ck_catalog_tensor(c, i));
	for (uint32_t i = 0; i < c->chunks.n; i++)
		look_at_item(ck_catalog_item(c, i), size);
	for (uint32_t i = 0; i < c->objects.n; i++)
		look_at_item(&ck_catalog_object(c, i)->item, size);
	for (uint32_t i = 0; i < c->nlosses; i++)
		must(c->losses[i].err && c->losses[i].what.len);
	ck_catalog_dump(c, &text);
	ck_buf_fini(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ck_format_options options = { 0 };
	struct ck_checkpoint *cp = NULL;
	struct ck_diag d = { 0 };
	unsigned way;

	if (size == 0)
		return 0;
	if (!dirs[0][0])
		dirs_make();
	way = data[0] % WAYS;
	for (int i = 0; i < 2 && names[way][i]; i++)
		put(dirs[way], names[way][i], data + 1, size - 1);
	if (ck_checkpoint_open(dirs[way], &options, &cp, &d))
		must(*d.text);
	else
		look(cp->catalog, size - 1);
	ck_checkpoint_close(cp);
	return 0;
}
