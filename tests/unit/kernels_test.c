/* SPDX-License-Identifier: MIT */
/* kernels: what is embedded is what a driver takes, and has all kernels by name. */
#include "gpu/driver/kernels.h"
#include "gpu/driver/tiles.h"
#include "tap.h"

static void test_ptx(void)
{
	const char *text = (const char *)ck_kernels_ptx.bytes;

	eq_u64(strlen(text), ck_kernels_ptx.len);
	ok(strstr(text, "\n.version 7.0\n.target sm_80\n") != NULL);
	for (unsigned kind = 0; kind < CK_TILE_KINDS; kind++) {
		char entry[64];

		(void)snprintf(entry, sizeof(entry), ".visible .entry %s(",
			       ck_tile_kernel((enum ck_tile_kind)kind));
		ok(strstr(text, entry) != NULL);
	}
}

/* Source of the magic number: fatbinary_section.h of the toolkit, and nvcc's output. */
static void test_fatbin(void)
{
	uint32_t magic;

	if (ck_kernels_fatbin.len == 0) {
		ok(!BUILT_WITH_NVCC);
		return;
	}
	ok(ck_kernels_fatbin.len > 10000);
	memcpy(&magic, ck_kernels_fatbin.bytes, sizeof(magic));
	eq_u64(magic, 0xba55ed50);
	for (unsigned kind = 0; kind < CK_TILE_KINDS; kind++) {
		const char *name = ck_tile_kernel((enum ck_tile_kind)kind);

		ok(memmem(ck_kernels_fatbin.bytes, ck_kernels_fatbin.len, name,
			  strlen(name)) != NULL);
	}
}

int main(void)
{
	test_ptx();
	test_fatbin();
	return tap_done();
}
