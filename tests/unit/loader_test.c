/* SPDX-License-Identifier: MIT */
/* What the loader of programs would find, without loading it. */
#include "base/system/component.h"
#include "tap.h"

#include <dlfcn.h>
#include <stdlib.h>

static const char *const told[] = { "LD_LIBRARY_PATH", "LD_PRELOAD",
				    "LD_AUDIT" };

/* It has to agree with the loader itself, but that it may say yes. */
static void test_names(void)
{
	static const struct {
		const char *name;
		bool there;
	} rows[] = { { "libc.so.6", true },
		     { "libdl.so.2", true },
		     { "c.so.66", false },
		     { "libckptfs-none.so.1", false } };

	for (size_t i = 0; i < CK_ARRAY_SIZE(rows); i++) {
		printf("# %s\n", rows[i].name);
		ok(ck_loader_may_find(rows[i].name) == rows[i].there);
		ok(rows[i].there || !dlopen(rows[i].name, RTLD_LAZY));
	}
}

static void test_told(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(told); i++) {
		ok(setenv(told[i], "/nowhere", true) == 0);
		ok(ck_loader_may_find("libckptfs-none.so.1"));
		ok(setenv(told[i], "", true) == 0);
		ok(!ck_loader_may_find("libckptfs-none.so.1"));
		(void)unsetenv(told[i]);
	}
}

int main(void)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(told); i++)
		(void)unsetenv(told[i]);
	test_names();
	test_told();
	return tap_done();
}
