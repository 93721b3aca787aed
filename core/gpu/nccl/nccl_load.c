/* SPDX-License-Identifier: MIT */
/*
 * nccl_load: finds and loads libnccl.so.2 with dlopen(3). State: struct
 * ck_nccl, constant once loaded. Any thread.
 */
#include "nccl_load.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARY "libnccl.so.2"
/* Below the parent directory of the bin/ of a Python; some systems have
 * lib64/. */
#define WHEELS	"/lib*/python3*/*-packages/nvidia/nccl/lib"

/* --- results and names ---------------------------------------------------- */

const char *ck_nccl_version(int version)
{
	int major = version < 10000 ? 1000 : 10000; /* since 2.9 */

	return ck_shown("%d.%d.%d", version / major, version % major / 100,
			version % 100);
}

void ck_nccl_name(const struct ck_nccl *nccl, char *out, size_t size)
{
	(void)snprintf(out, size, "%s %s", ck_nccl_version(nccl->version),
		       nccl->file);
}

ncclConfig_t ck_nccl_config(void)
{
	enum { MOST_CTAS = 4 }; /* blocks of threads */

	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	config.blocking = 0;
	config.minCTAs = 1;
	config.maxCTAs = MOST_CTAS;
	return config;
}

int ck_nccl_errno(ncclResult_t result)
{
	switch ((int)result) {
	case ncclSuccess: return 0;
	case ncclInProgress: return -EINPROGRESS;
	case ncclInvalidArgument:
	case ncclInvalidUsage: return -EINVAL;
	default: return -EIO;
	}
}

int ck_nccl_fail(const struct ck_nccl *nccl, ncclResult_t result,
		 const char *what, struct ck_diag *d)
{
	const char *last = nccl->ncclGetLastError(NULL);

	return ck_fail(d, -ck_nccl_errno(result), "%s: %s%s%s", what,
		       nccl->ncclGetErrorString(result),
		       last && *last ? ": " : "", last ? last : "");
}

/* --- one file --------------------------------------------------------------------------- */

/* Looks up a function; `function` points to a function pointer. */
static int find(const struct ck_nccl *nccl, const char *name, void *function,
		struct ck_diag *d)
{
	void *found = dlsym(nccl->library, name);

	if (!found)
		return ck_fail(d, ENOSYS, "%s has no %s", nccl->file, name);
	memcpy(function, &found, sizeof(found));
	return 0;
}

/* Called first: an old version may lack functions, too. */
static int check_version(struct ck_nccl *nccl, struct ck_diag *d)
{
	int rc = find(nccl, "ncclGetVersion", &nccl->ncclGetVersion, d);

	if (rc)
		return rc;
	if (nccl->ncclGetVersion(&nccl->version) != ncclSuccess)
		return ck_fail(d, ENOSYS, "%s does not tell its version",
			       nccl->file);
	if (nccl->version >= CK_NCCL_LEAST)
		return 0;
	return ck_fail(d, ENOSYS, "%s is NCCL %s, which is too old: from %s on",
		       nccl->file, ck_nccl_version(nccl->version),
		       ck_nccl_version(CK_NCCL_LEAST));
}

static int find_all(struct ck_nccl *nccl, struct ck_diag *d)
{
	int rc = 0;

#define FIND(name)                                                             \
	if (rc == 0)                                                           \
		rc = find(nccl, #name, &nccl->name, d);
	CK_NCCL_FUNCTIONS(FIND)
#undef FIND
	return rc;
}

/* Keeps the path of the file that the loader has found. */
static int name_file(struct ck_nccl *nccl, const char *asked, struct ck_diag *d)
{
	const struct link_map *map = NULL;

	if (dlinfo(nccl->library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0])
		asked = map->l_name;
	nccl->file = strdup(asked);
	return nccl->file ? 0 : ck_fail(d, ENOMEM, "no memory for NCCL");
}

/* Unloads the library, of which nothing was used. */
static void drop(struct ck_nccl *nccl)
{
	(void)dlclose(nccl->library);
	ck_nccl_fini(nccl);
}

static int load(struct ck_nccl *nccl, const char *file, struct ck_diag *d)
{
	bool there = strchr(file, '/') && access(file, F_OK) == 0;
	int rc;

	*nccl = (struct ck_nccl){ .library = dlopen(file,
						    RTLD_NOW | RTLD_LOCAL) };
	if (!nccl->library)
		return ck_fail(d, there ? ENOEXEC : ENOENT, "no NCCL: %s",
			       dlerror());
	rc = name_file(nccl, file, d);
	if (rc == 0)
		rc = check_version(nccl, d);
	if (rc == 0)
		rc = find_all(nccl, d);
	if (rc)
		drop(nccl);
	return rc;
}

/* The library stays loaded: threads of NCCL may still run. */
void ck_nccl_fini(struct ck_nccl *nccl)
{
	free(nccl->file);
	*nccl = (struct ck_nccl){ 0 };
}

/* --- search --------------------------------------------------------------- */

struct search {
	struct ck_nccl *nccl;
	struct ck_diag why; /* error of the first file found */
	int rc;		    /* 0 once loaded; -ENOENT while no file was found */
};

static void search_file(struct search *s, const char *file)
{
	struct ck_diag why = { 0 };
	int rc = load(s->nccl, file, &why);

	if (rc == 0 || s->rc == -ENOENT) {
		s->rc = rc;
		s->why = why;
	}
}

/* False if another user could have put the file there. */
static bool is_trusted(const char *file)
{
	struct stat st;

	return stat(file, &st) == 0 &&
	       (st.st_uid == 0 || st.st_uid == geteuid()) &&
	       !(st.st_mode & S_IWOTH);
}

/* Tries files until one can be used. pattern: glob(3), below `base`. */
static void search_pattern(struct search *s, struct ck_str base,
			   const char *pattern)
{
	struct ck_buf all = { 0 };
	glob_t found = { 0 };

	ck_buf_str(&all, base);
	ck_buf_text(&all, pattern);
	ck_buf_text(&all, "/" LIBRARY);
	if (!all.err && glob(all.data, 0, NULL, &found) == 0)
		for (size_t i = 0; s->rc && i < found.gl_pathc; i++)
			if (is_trusted(found.gl_pathv[i]))
				search_file(s, found.gl_pathv[i]);
	globfree(&found);
	ck_buf_fini(&all);
}

/* Tries the Pythons whose bin/ is on PATH, in that order. */
static void search_path(struct search *s)
{
	const char *at = secure_getenv("PATH");

	while (at && s->rc) {
		struct ck_str place = { at, strcspn(at, ":") };
		const char *next = at + place.len;
		size_t cut = place.len;

		if (cut > 0 && at[cut - 1] == '/')
			cut--;
		if (at[0] == '/' && cut >= 4 &&
		    memcmp(at + cut - 4, "/bin", 4) == 0)
			search_pattern(s, (struct ck_str){ at, cut - 4 },
				       WHEELS);
		at = *next ? next + 1 : NULL;
	}
}

/* A directory named by an environment variable, or `/` if variable is NULL, and
 * the pattern below it. */
struct place {
	const char *variable, *pattern;
};

static void search_places(struct search *s, const struct place *places,
			  size_t count)
{
	for (size_t i = 0; s->rc && i < count; i++) {
		const char *base = "", *variable = places[i].variable;

		if (variable)
			base = secure_getenv(variable);
		if (base && (!variable || base[0] == '/'))
			search_pattern(s, ck_str_from(base), places[i].pattern);
	}
}

static void search_everywhere(struct search *s)
{
	static const struct place cuda[] = {
		{ "CUDA_HOME", "/lib64" },
		{ "CUDA_HOME", "/lib" },
		{ "CUDA_PATH", "/lib64" },
		{ NULL, "/usr/local/cuda/lib64" },
		{ NULL, "/usr/local/cuda/lib" },
		{ NULL, "/usr/local/cuda/targets/*/lib" },
		{ NULL, "/opt/cuda/lib64" },
	};
	static const struct place wheels[] = {
		{ "VIRTUAL_ENV", WHEELS },
		{ "CONDA_PREFIX", "/lib" },
		{ "CONDA_PREFIX", WHEELS },
	};
	static const struct place wheels_of_system[] = {
		{ "HOME", "/.local" WHEELS },
		{ NULL, "/usr/local" WHEELS },
		{ NULL, "/usr" WHEELS },
		{ NULL, "/opt/conda" WHEELS },
	};

	search_file(s, LIBRARY);
	search_places(s, cuda, CK_ARRAY_SIZE(cuda));
	search_places(s, wheels, CK_ARRAY_SIZE(wheels));
	search_path(s);
	search_places(s, wheels_of_system, CK_ARRAY_SIZE(wheels_of_system));
}

int ck_nccl_load(struct ck_nccl *nccl, struct ck_diag *d)
{
	struct search s = { .nccl = nccl, .rc = -ENOENT };
	const char *named = secure_getenv("CKPTFS_NCCL_LIB");

	if (named && *named)
		search_file(&s, named);
	else
		search_everywhere(&s);
	if (s.rc == 0)
		return 0;
	if (s.rc == -ENOENT && !(named && *named))
		return ck_fail(d, ENOENT,
			       "%s, nor is it in CUDA's directories or a wheel "
			       "of Python's",
			       s.why.text);
	return ck_fail(d, -s.rc, "%s", s.why.text);
}
