/* SPDX-License-Identifier: MIT */
/* ncclcheck_alone: checks the version of NCCL, and transfers of one rank to itself. */
#include "ncclcheck.h"
#include "ncclcheck_use.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

/* --- version and device --------------------------------------------------------------------- */

/* A library that is too old, or lacks a function, is skipped, as on a mount; a library that cannot
 * be loaded is a failure. */
void check_version(struct checks *c)
{
	struct ck_diag d = { 0 };
	struct ck_nccl nccl;
	int rc = ck_nccl_load(&nccl, &d);

	if (rc == -ENOENT || rc == -ENOSYS) {
		check_skips(c, d.text);
		return;
	}
	if (rc) {
		check_fails(c, "%s", d.text);
		return;
	}
	if (nccl.file[0] != '/' || strlen(nccl.file) >= sizeof(c->file)) {
		check_fails(c, "%s: it has no absolute path", nccl.file);
		return;
	}
	c->version = nccl.version;
	(void)snprintf(c->file, sizeof(c->file), "%s", nccl.file);
	check_adds(c, ",\"nccl\":\"%s\",\"file\":\"",
		   ck_nccl_version(nccl.version));
	for (const char *at = nccl.file; *at; at++)
		check_adds(c, "%s%c", *at == '"' || *at == '\\' ? "\\" : "",
			   *at >= ' ' && *at <= '~' ? *at : '?');
	check_adds(c, "\"");
	check_well(c);
}

void check_device(struct checks *c)
{
	struct ck_diag d = { 0 };
	struct ck_cuda cuda;
	int n = 0, rc = ck_cuda_load(&cuda, &d);

	if (rc == 0)
		rc = ck_device_count(&cuda, &n, &d);
	c->no_gpu = rc == -ENOENT || rc == -ENODEV || (rc == 0 && n == 0);
	if (rc || n == 0)
		check_fails(c, "%s", rc ? d.text : "no device");
	else
		check_well(c);
}

/* --- transfers to itself ------------------------------------------------------------------------ */

static CK_WRAPS void fill(uint8_t *bytes, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * UINT64_C(6364136223846793005) + 1;
		bytes[i] = (uint8_t)(seed >> 33);
	}
}

struct self {
	struct use u;
	CUdeviceptr from, to;
	uint8_t *sent, *came; /* pinned */
};

enum { SELF_MOST = 16 << 20 };

/* True if all calls of the driver succeeded. */
static bool self_open(struct checks *c, struct self *s)
{
	const struct ck_cuda *cuda = &s->u.cuda;

	return use_good(c, &s->u, cuda->cuMemAlloc(&s->from, SELF_MOST)) &&
	       use_good(c, &s->u, cuda->cuMemAlloc(&s->to, SELF_MOST)) &&
	       use_good(
		       c, &s->u,
		       cuda->cuMemHostAlloc((void **)&s->sent, SELF_MOST, 0)) &&
	       use_good(c, &s->u,
			cuda->cuMemHostAlloc((void **)&s->came, SELF_MOST, 0));
}

static bool self_put(struct checks *c, struct self *s, size_t n)
{
	const struct ck_cuda *cuda = &s->u.cuda;

	return use_good(c, &s->u,
			cuda->cuMemsetD8Async(s->to, 0x5a, n, s->u.stream)) &&
	       use_good(c, &s->u,
			cuda->cuMemcpyHtoDAsync(s->from, s->sent, n,
						s->u.stream));
}

static bool self_get(struct checks *c, struct self *s, size_t n)
{
	const struct ck_cuda *cuda = &s->u.cuda;

	return use_good(c, &s->u,
			cuda->cuMemcpyDtoHAsync(s->came, s->to, n,
						s->u.stream)) &&
	       use_good(c, &s->u, cuda->cuStreamSynchronize(s->u.stream));
}

static bool self_try(struct checks *c, struct self *s, size_t n)
{
	fill(s->sent, n, c->seed + n);
	memset(s->came, 0xa5, n);
	if (!self_put(c, s, n) ||
	    !use_exchange(c, &s->u, 0, s->from, s->to, n) || !self_get(c, s, n))
		return false;
	if (memcmp(s->sent, s->came, n) == 0)
		return true;
	check_fails(c, "%zu bytes: other ones came", n);
	return false;
}

void check_self(struct checks *c)
{
	static const size_t sizes[] = { 1,     15,     4096,	16383,
					65536, 100001, 1048579, SELF_MOST };
	struct self s = { 0 };
	ncclUniqueId id;
	uint64_t sum = 0;

	if (!use_open(c, &s.u) || !self_open(c, &s) ||
	    !use_nccl(c, &s.u, s.u.nccl.ncclGetUniqueId(&id), "an identity") ||
	    !use_comm(c, &s.u, &id, 1, 0, ck_nccl_config()))
		return;
	for (size_t i = 0; i < CK_ARRAY_SIZE(sizes); i++) {
		if (!self_try(c, &s, sizes[i]))
			return;
		sum += sizes[i];
	}
	check_adds(c, ",\"transfers\":%zu,\"bytes\":%llu", CK_ARRAY_SIZE(sizes),
		   (unsigned long long)sum);
	if (use_end(c, &s.u))
		check_well(c);
}
