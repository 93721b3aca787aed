/* SPDX-License-Identifier: MIT */
/*
 * ckptfs-gpucheck [--quick] [--only=PART] [--cases=N]: main program of the GPU checks: options,
 * lines of results, and the checks of driver and device. Exit status 0: all checks passed; 1: a
 * check failed; 2: there is no GPU.
 */
#include "gpucheck.h"
#include "gpu/driver/kernels.h"

#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <time.h>

enum { FINE, FAILED, NO_GPU };

static const char usage[] =
	"usage: ckptfs-gpucheck [--quick] [--only=PART] [--cases=N]\n"
	"Checks this machine's GPUs: one JSON object a line. PART: device, tiles,\n"
	"speed. N: copies to compare, at least.\n";

/* --- lines ----------------------------------------------------------------------------------- */

static void put(const struct ck_gpucheck *c, const char *check, const char *ok,
		const char *more)
{
	printf("{\"version\":1,\"check\":\"%s\",\"ok\":%s", check, ok);
	if (c->device)
		printf(",\"device\":%d", c->device->ordinal);
	printf("%s}\n", more);
	(void)fflush(stdout);
}

void ck_gpucheck_say(struct ck_gpucheck *c, const char *check, bool ok,
		     const char *more)
{
	*(ok ? &c->passed : &c->failed) += 1;
	put(c, check, ok ? "true" : "false", more);
}

void ck_gpucheck_rate(struct ck_gpucheck *c, const char *check, double gbps,
		      const char *ref, double ref_gbps)
{
	char more[256];

	(void)snprintf(more, sizeof(more), ",\"gbps\":%.4g", gbps);
	if (ref && ref_gbps > 0)
		(void)snprintf(more, sizeof(more),
			       ",\"gbps\":%.4g,\"ref\":\"%s\","
			       "\"ref_gbps\":%.4g,\"ratio\":%.4g",
			       gbps, ref, ref_gbps, gbps / ref_gbps);
	ck_gpucheck_say(c, check, gbps > 0, more);
}

/* Appends the text of a message as JSON, without unprintable characters. */
static void put_text(struct ck_buf *to, const char *text)
{
	for (; *text; text++) {
		char one[2] = { *text, '\0' };

		if (*text == '"' || *text == '\\')
			ck_buf_text(to, "\\");
		ck_buf_text(to, *text >= ' ' && *text <= '~' ? one : "?");
	}
}

static void put_why(struct ck_gpucheck *c, const char *check, const char *ok,
		    const char *why)
{
	struct ck_buf more = { 0 };

	ck_buf_text(&more, ",\"why\":\"");
	put_text(&more, why);
	ck_buf_text(&more, "\"");
	put(c, check, ok, more.err ? "" : more.data);
	ck_buf_fini(&more);
}

void ck_gpucheck_fail(struct ck_gpucheck *c, const char *check, const char *why)
{
	c->failed++;
	put_why(c, check, "false", why);
}

void ck_gpucheck_skip(struct ck_gpucheck *c, const char *check, const char *why)
{
	c->skipped++;
	put_why(c, check, "null", why);
}

/* --- devices ------------------------------------------------------------------------------------ */

double ck_gpucheck_seconds(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void say_device(struct ck_gpucheck *c, double took)
{
	const struct ck_device *g = c->device;
	size_t free_bytes = 0, total = 0;
	struct ck_buf more = { 0 };

	(void)g->cuda->cuMemGetInfo(&free_bytes, &total);
	ck_buf_text(&more, ",\"name\":\"");
	put_text(&more, g->name);
	ck_buf_text(&more, "\",\"uuid\":\"");
	for (size_t i = 0; i < sizeof(g->uuid.bytes); i++)
		ck_buf_printf(&more, "%02x", (unsigned char)g->uuid.bytes[i]);
	ck_buf_printf(&more,
		      "\",\"free_bytes\":%zu,\"bytes\":%zu,\"kernels\":\"%s\","
		      "\"seconds\":%.3f",
		      free_bytes, total, g->compiled_here ? "ptx" : "fatbin",
		      took);
	ck_gpucheck_say(c, "device", true, more.err ? "" : more.data);
	ck_buf_fini(&more);
}

/* Stores the largest local memory of a thread among the kernels. Only this program queries that.
 * False if the driver has no value. */
static bool find_spills(const struct ck_cuda *cuda, CUmodule module, int *most)
{
	CUresult (*ask)(int *value, CUfunction_attribute what, CUfunction f);
	void *found = dlsym(cuda->library, "cuFuncGetAttribute");

	memcpy(&ask, &found, sizeof(found));
	*most = 0;
	for (unsigned kind = 0; found && kind < CK_TILE_KINDS; kind++) {
		CUfunction f;
		int n;

		if (cuda->cuModuleGetFunction(
			    &f, module,
			    ck_tile_kernel((enum ck_tile_kind)kind)) ||
		    ask(&n, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, f))
			return false;
		*most = n > *most ? n : *most;
	}
	return found;
}

static void check_spills(struct ck_gpucheck *c, CUmodule module,
			 const char *check, double took)
{
	char more[96];
	int spills;

	if (!find_spills(c->device->cuda, module, &spills)) {
		ck_gpucheck_skip(c, check, "the driver does not say");
		return;
	}
	(void)snprintf(more, sizeof(more), ",\"local_bytes\":%d", spills);
	if (took > 0)
		(void)snprintf(more, sizeof(more),
			       ",\"local_bytes\":%d,\"seconds\":%.3f", spills,
			       took);
	ck_gpucheck_say(c, check, spills == 0, more);
}

/* Compiles the PTX by the driver, even if the fatbin has machine code for the device. */
static void check_ptx(struct ck_gpucheck *c)
{
	const struct ck_cuda *cuda = c->device->cuda;
	double from = ck_gpucheck_seconds();
	CUmodule module;
	CUresult rc = cuda->cuModuleLoadData(&module, ck_kernels_ptx.bytes);

	if (rc != CUDA_SUCCESS) {
		ck_gpucheck_fail(c, "ptx", ck_cuda_error(cuda, rc));
		return;
	}
	check_spills(c, module, "ptx", ck_gpucheck_seconds() - from);
	(void)cuda->cuModuleUnload(module);
}

static void check_device(struct ck_gpucheck *c, const struct ck_cuda *cuda,
			 int ordinal)
{
	double from = ck_gpucheck_seconds();
	struct ck_diag d = { 0 };

	if (ck_device_open(cuda, ordinal, &c->device, &d)) {
		ck_gpucheck_fail(c, "device", d.text);
		return;
	}
	say_device(c, ck_gpucheck_seconds() - from);
	if (c->parts & CK_GPUCHECK_DEVICE) {
		check_spills(c, c->device->module, "kernels", 0);
		check_ptx(c);
	}
	if (c->parts & CK_GPUCHECK_TILES)
		ck_gpucheck_tiles(c);
	if (c->parts & CK_GPUCHECK_SPEED)
		ck_gpucheck_speed(c);
	ck_device_close(c->device);
	c->device = NULL;
}

static int check_all(struct ck_gpucheck *c)
{
	struct ck_diag d = { 0 };
	struct ck_cuda cuda;
	char more[64];
	int n = 0, rc = ck_cuda_load(&cuda, &d);

	if (rc == 0)
		rc = ck_device_count(&cuda, &n, &d);
	if (rc || n == 0) {
		ck_gpucheck_fail(c, "driver", rc ? d.text : "no device");
		return NO_GPU;
	}
	(void)snprintf(more, sizeof(more), ",\"driver\":%d,\"devices\":%d",
		       cuda.version, n);
	ck_gpucheck_say(c, "driver", true, more);
	for (int i = 0; i < n; i++)
		check_device(c, &cuda, i);
	return c->failed ? FAILED : FINE;
}

/* The bit of a part, or 0 for an unknown name. */
static unsigned part_of(const char *name)
{
	static const char *const parts[] = { "device", "tiles", "speed" };

	for (unsigned i = 0; i < CK_ARRAY_SIZE(parts); i++)
		if (strcmp(name, parts[i]) == 0)
			return 1u << i;
	return 0;
}

/* Returns the letter of a wrong option or of --help, or 0 if all options are right. */
static int parse(struct ck_gpucheck *c, int argc, char **argv)
{
	static const struct option options[] = {
		{ "quick", no_argument, NULL, 'q' },
		{ "only", required_argument, NULL, 'o' },
		{ "cases", required_argument, NULL, 'c' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	char *end = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (option) {
		case 'q': c->quick = true; break;
		case 'o':
			c->parts |= part_of(optarg);
			if (!part_of(optarg))
				return '?';
			break;
		case 'c':
			c->cases = strtoull(optarg, &end, 10);
			if (end == optarg || *end)
				return '?';
			break;
		default: return option;
		}
	}
	if (!c->parts)
		c->parts = CK_GPUCHECK_ALL;
	return optind < argc ? '?' : 0;
}

int main(int argc, char **argv)
{
	struct ck_gpucheck c = { 0 };
	int wrong = parse(&c, argc, argv), status;

	if (wrong) {
		(void)fputs(usage, wrong == 'h' ? stdout : stderr);
		return wrong == 'h' ? FINE : NO_GPU;
	}
	status = check_all(&c);
	printf("{\"version\":1,\"check\":\"summary\",\"ok\":%s,\"passed\":%u,"
	       "\"failed\":%u,\"skipped\":%u}\n",
	       status == FINE ? "true" : "false", c.passed, c.failed,
	       c.skipped);
	return ferror(stdout) || fflush(stdout) ? FAILED : status;
}
