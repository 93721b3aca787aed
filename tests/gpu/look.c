/* SPDX-License-Identifier: MIT */
/*
 * look: loads the driver and opens one of its devices, for tests/gpu/driver.
 *
 *	look ORDINAL
 *
 * Prints a line for each step, and the reason of a failure. Exit status: its errno, or 0.
 */
#include "gpu/driver/cuda_device.h"

#include <dlfcn.h>
#include <stdio.h>

static int fail(int rc, const struct ck_diag *d)
{
	printf("failed %s\n", d->text);
	return -rc;
}

static int look(const struct ck_cuda *cuda, int ordinal)
{
	struct ck_diag d = { 0 };
	struct ck_device *g;
	int count, rc = ck_device_count(cuda, &count, &d);

	if (rc)
		return fail(rc, &d);
	printf("devices %d\n", count);
	rc = ck_device_open(cuda, ordinal, &g, &d);
	if (rc)
		return fail(rc, &d);
	printf("device %s %s ", g->name, g->compiled_here ? "ptx" : "fatbin");
	for (size_t i = 0; i < sizeof(g->uuid.bytes); i++)
		printf("%02x", (unsigned char)g->uuid.bytes[i]);
	printf("\n");
	ck_device_close(g);
	return 0;
}

/* Prints the fake driver's number of leaked objects. */
static void count_leaks(const struct ck_cuda *cuda)
{
	unsigned (*leaks)(void);
	void *found = dlsym(cuda->library, "standin_leaks");

	if (!found)
		return;
	memcpy(&leaks, &found, sizeof(leaks));
	printf("leaks %u\n", leaks());
}

int main(int argc, char **argv)
{
	struct ck_diag d = { 0 };
	struct ck_cuda cuda;
	int rc = ck_cuda_load(&cuda, &d);

	if (rc)
		return fail(rc, &d);
	printf("driver %d\n", cuda.version);
	rc = look(&cuda, argc > 1 ? atoi(argv[1]) : 0);
	count_leaks(&cuda);
	return rc;
}
