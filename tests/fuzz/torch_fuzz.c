/* SPDX-License-Identifier: MIT */
/*
 * torch: any bytes as a file of torch.save, in either container: alone, as the files of two ranks,
 * both with a sidecar of flat parameters and their optimizer, or as two pieces of a state dict.
 * The checkpoint is refused with a reason, or all shown tensors and elements lie within the file.
 *
 * The first byte selects one of these forms; the rest is the file.
 */
#include "look_catalog.h"

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
	for (int i = 0; i < WAYS; i++)
		dir_remove(dirs[i]);
}

static void sidecar_put(const char *dir)
{
	static uint8_t text[4096];
	int fd = open(CK_FIXTURE "/../ranks_flat_state/ckptfs-flat.json",
		      O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text));

	must(len > 0 && (size_t)len < sizeof(text));
	close(fd);
	put_bytes(dir, "ckptfs-flat.json", text, (size_t)len);
}

static void dirs_make(void)
{
	for (int i = 0; i < WAYS; i++) {
		dir_make(dirs[i], "torch");
		if (i < 2)
			sidecar_put(dirs[i]);
	}
	atexit(dirs_remove);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned way;

	if (size == 0)
		return 0;
	if (!dirs[0][0])
		dirs_make();
	way = data[0] % WAYS;
	for (int i = 0; i < 2 && names[way][i]; i++)
		put_bytes(dirs[way], names[way][i], data + 1, size - 1);
	open_and_look(dirs[way], size - 1);
	return 0;
}
