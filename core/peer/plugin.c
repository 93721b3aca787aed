/* SPDX-License-Identifier: MIT */
/* Loads the MPI transport: see plugin.h. */
#include "plugin_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define PLUGIN "ckptfs-mpi.so"

enum { PATH_BYTES = 2048 };

static struct ck_str shown_error(void)
{
	const char *text = dlerror();

	return ck_str_from(text ? text : "no reason is known");
}

static bool fits(const struct ck_xport_plugin *p)
{
	return p->version == CK_XPORT_PLUGIN_VERSION &&
	       strncmp(p->program, CK_VERSION, sizeof(p->program)) == 0;
}

/* What is loaded stays: MPI has threads, and cannot be ended. */
int ck_plugin_open(const char *path, struct ck_xport **out, struct ck_diag *d)
{
	struct ck_str name = ck_str_from(path);
	const struct ck_xport_plugin *p;
	void *library;

	if (access(path, F_OK))
		return ck_fail(d, errno, "%s: there is no MPI transport: %s",
			       ck_show(name), strerror(errno));
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return ck_fail(d, ELIBACC,
			       "%s: the MPI transport cannot be loaded: %s",
			       ck_show(name), ck_show(shown_error()));
	p = dlsym(library, CK_XPORT_PLUGIN_NAME);
	if (p && fits(p))
		return p->open(out, d);
	(void)dlclose(library);
	return ck_fail(d, ELIBBAD,
		       "%s: it is not the MPI transport of ckptfs " CK_VERSION,
		       ck_show(name));
}

/* Beside the running program, where a build has it. */
static int beside_program(char out[PATH_BYTES])
{
	char *end;
	ssize_t n = readlink("/proc/self/exe", out, PATH_BYTES);

	if (n <= 0 || n + (ssize_t)sizeof(PLUGIN) >= PATH_BYTES)
		return -ENAMETOOLONG;
	out[n] = '\0';
	end = strrchr(out, '/');
	if (!end)
		return -ENOENT;
	memcpy(end + 1, PLUGIN, sizeof(PLUGIN));
	return access(out, F_OK) ? -errno : 0;
}

int ck_xport_mpi(struct ck_xport **out, struct ck_diag *d)
{
	char path[PATH_BYTES];

	if (beside_program(path) == 0)
		return ck_plugin_open(path, out, d);
	return ck_plugin_open(CK_PLUGIN_DIR "/" PLUGIN, out, d);
}
