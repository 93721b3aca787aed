/* SPDX-License-Identifier: MIT */
/*
 * component: finds a shared module, loads it with dlopen(3), and compares its
 * version with that of the program. It has no state of its own; any thread.
 */
#include "component.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { PATH_BYTES = 2048 };

static struct ck_str shown_error(void)
{
	const char *text = dlerror();

	return ck_str_from(text ? text : "no reason is known");
}

static bool fits(const struct ck_component *c, const struct ck_component_is *is)
{
	return is->version == c->version &&
	       strncmp(is->program, CK_VERSION, sizeof(is->program)) == 0;
}

static int load(const struct ck_component *c, const char *path,
		const void **out, struct ck_diag *d)
{
	struct ck_str name = ck_str_from(path);
	void *library;

	if (access(path, F_OK))
		return ck_fail(d, errno,
			       "%s is not installed: the %s; build ckptfs with "
			       "-D%s=enabled",
			       c->file, c->what, c->option);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return ck_fail(d, ELIBACC, "%s: the %s cannot be loaded: %s",
			       ck_show(name), c->what, ck_show(shown_error()));
	*out = dlsym(library, c->symbol);
	if (*out && fits(c, *out))
		return 0;
	(void)dlclose(library);
	return ck_fail(d, ELIBBAD, "%s: it is not the %s of ckptfs " CK_VERSION,
		       ck_show(name), c->what);
}

/* The path of the module in the directory of the running program. Returns 0 if
 * it exists there. */
static int beside_program(const struct ck_component *c, char out[PATH_BYTES])
{
	size_t len = strlen(c->file) + 1;
	char *end;
	ssize_t n = readlink("/proc/self/exe", out, PATH_BYTES);

	if (n <= 0 || (size_t)n + len >= PATH_BYTES)
		return -ENAMETOOLONG;
	out[n] = '\0';
	end = strrchr(out, '/');
	if (!end)
		return -ENOENT;
	memcpy(end + 1, c->file, len);
	return access(out, F_OK) ? -errno : 0;
}

static void find(const struct ck_component *c, char out[PATH_BYTES])
{
	if (beside_program(c, out))
		(void)snprintf(out, PATH_BYTES, "%s/%s", CK_PLUGIN_DIR,
			       c->file);
}

int ck_component_load(const struct ck_component *c, const char *path,
		      const void **out, struct ck_diag *d)
{
	char found[PATH_BYTES];

	if (path)
		return load(c, path, out, d);
	find(c, found);
	return load(c, found, out, d);
}
