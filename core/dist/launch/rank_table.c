/* SPDX-License-Identifier: MIT */
/*
 * rank_table: encodes, decodes and validates the records of ranks. A record has
 * texts, each with its NUL, then zeros:
 *
 *	"ckptfs" VERSION HOST MACHINE "mount" or "" PATH
 *
 * The first two are the same in all versions. A table is empty, then read by
 * ck_rank_table_read() and constant. One thread.
 */
#include "rank_table.h"

#include "source/hostlist.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

static const char program[] = "ckptfs", wanted[] = "mount";

/* --- encoding ------------------------------------------------------------- */

int ck_rank_table_encode(const struct ck_rank_table_rank *rank,
			 uint8_t out[static CK_RANK_TABLE_RECORD])
{
	const char *const texts[] = { program,
				      rank->version,
				      rank->host,
				      rank->machine,
				      rank->wants ? wanted : "",
				      rank->path };
	size_t at = 0;

	memset(out, 0, CK_RANK_TABLE_RECORD);
	for (size_t i = 0; i < CK_ARRAY_SIZE(texts); i++) {
		size_t len = strlen(texts[i]) + 1;

		if (len > CK_RANK_TABLE_RECORD - at)
			return -ENAMETOOLONG;
		memcpy(out + at, texts[i], len);
		at += len;
	}
	return 0;
}

/* Reads the boot ID. Empty if the kernel does not provide it. */
static void machine_read(char out[static 64])
{
	ck_auto_fd int fd = open("/proc/sys/kernel/random/boot_id",
				 O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, out, 63);

	out[n > 0 ? n : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

int ck_rank_table_encode_own(const char *source, bool wants,
			     uint8_t out[static CK_RANK_TABLE_RECORD],
			     struct ck_diag *d)
{
	char host[HOST_NAME_MAX + 1] = "", machine[64];
	ck_auto_free char *path = ck_host_absolute(source);
	struct ck_rank_table_rank own = { .host = host,
					  .machine = machine,
					  .path = path,
					  .version = CK_VERSION,
					  .wants = wants };
	int rc;

	if (!path)
		return ck_fail(d, errno, "%s: %s", ck_show(ck_str_from(source)),
			       strerror(errno));
	if (gethostname(host, sizeof(host) - 1))
		return ck_fail(d, errno, "this host has no name: %s",
			       strerror(errno));
	rc = ck_host_name_check(ck_str_from(host), "this host", d);
	if (rc)
		return rc;
	machine_read(machine);
	rc = ck_rank_table_encode(&own, out);
	return rc ? ck_fail(d, -rc, "%s: %s", ck_show(ck_str_from(path)),
			    strerror(-rc))
		  : 0;
}

/* --- decoding ------------------------------------------------------------- */

/* Returns the next text of *rest and moves *rest behind its NUL. NULL if there
 * is no NUL. */
static const char *take(struct ck_str *rest)
{
	const char *text = rest->p;
	size_t len = strnlen(text, rest->len);

	if (len == rest->len)
		return NULL;
	rest->p += len + 1;
	rest->len -= len + 1;
	return text;
}

/* Decodes a record; of another version only the version. Returns false if it is
 * invalid. */
static bool read_rank(const uint8_t *records, struct ck_rank_table_rank *out)
{
	struct ck_str rest = { (const char *)records, CK_RANK_TABLE_RECORD };
	const char *first = take(&rest), *wants;

	if (!first || strcmp(first, program) != 0)
		return false;
	out->version = take(&rest);
	if (!out->version || strcmp(out->version, CK_VERSION) != 0)
		return out->version != NULL;
	out->host = take(&rest);
	out->machine = take(&rest);
	wants = take(&rest);
	out->path = take(&rest);
	if (!out->path || out->path[0] != '/' ||
	    ck_host_name_check(ck_str_from(out->host), "", NULL))
		return false;
	out->wants = strcmp(wants, wanted) == 0;
	return out->wants || !*wants;
}

static int check_versions(const struct ck_rank_table *r, struct ck_diag *d)
{
	const char *first = r->ranks[0].version;

	for (uint32_t i = 1; i < r->n; i++)
		if (strcmp(r->ranks[i].version, first) != 0)
			return ck_fail(
				d, EINVAL,
				"rank 0 is ckptfs %s, rank %" PRIu32
				" is ckptfs %s; all have to be the same",
				ck_show(ck_str_from(first)), i,
				ck_show(ck_str_from(r->ranks[i].version)));
	return 0;
}

static bool is_same_host(const struct ck_rank_table_rank *a,
			 const struct ck_rank_table_rank *b)
{
	return strcmp(a->host, b->host) == 0;
}

static uint32_t first_of_host(const struct ck_rank_table *r, uint32_t rank)
{
	uint32_t i = 0;

	while (!is_same_host(&r->ranks[i], &r->ranks[rank]))
		i++;
	return i;
}

/* Checks a rank against the first rank of its host. */
static int check_pair(const struct ck_rank_table_rank *first,
		      const struct ck_rank_table_rank *other, struct ck_diag *d)
{
	if (strcmp(first->machine, other->machine) != 0)
		return ck_fail(d, EINVAL, "two hosts have the name %s",
			       first->host);
	if (strcmp(first->path, other->path) != 0)
		return ck_fail(d, EINVAL,
			       "the ranks of %s have to serve one directory: "
			       "%s is not %s",
			       first->host, ck_show(ck_str_from(other->path)),
			       ck_show(ck_str_from(first->path)));
	return 0;
}

/* Gives the mount of each host to the first of its ranks that requests one. */
static int settle(struct ck_rank_table *r, struct ck_diag *d)
{
	uint32_t mounts = 0;
	int rc = 0;

	for (uint32_t i = 0; i < r->n && rc == 0; i++) {
		struct ck_rank_table_rank *rank = &r->ranks[i];
		uint32_t first = first_of_host(r, i), k = first;

		while (k < i && !(r->ranks[k].mounts &&
				  is_same_host(&r->ranks[k], rank)))
			k++;
		rank->mounts = rank->wants && k == i;
		mounts += rank->mounts;
		rc = check_pair(&r->ranks[first], rank, d);
	}
	if (rc == 0 && mounts == 0)
		return ck_fail(d, EINVAL,
			       "no rank has --mount: nobody would read what is "
			       "served");
	return rc;
}

int ck_rank_table_read(const uint8_t *records, uint32_t n,
		       struct ck_rank_table *out, struct ck_diag *d)
{
	int rc;

	out->ranks = calloc(n, sizeof(*out->ranks));
	if (!out->ranks)
		return ck_fail(d, ENOMEM, "out of memory");
	out->n = n;
	for (uint32_t i = 0; i < n; i++)
		if (!read_rank(records + (size_t)i * CK_RANK_TABLE_RECORD,
			       &out->ranks[i]))
			return ck_fail(d, EPROTO,
				       "rank %" PRIu32 " is no ckptfs", i);
	rc = check_versions(out, d);
	return rc ? rc : settle(out, d);
}

void ck_rank_table_fini(struct ck_rank_table *r)
{
	free(r->ranks);
	*r = (struct ck_rank_table){ 0 };
}

/* --- for the process of a mount ------------------------------------------- */

static void list_rank(const struct ck_rank_table *r, uint32_t rank,
		      struct ck_buf *out)
{
	const struct ck_rank_table_rank *one = &r->ranks[rank];

	ck_buf_u32(out, rank);
	ck_buf_add(out, one->host, strlen(one->host) + 1);
	ck_buf_add(out, one->path, strlen(one->path) + 1);
}

/* Lists all ranks of one host except `but`, from the first one on. */
static void list_host(const struct ck_rank_table *r, uint32_t first,
		      uint32_t but, struct ck_buf *out)
{
	for (uint32_t i = first; i < r->n; i++)
		if (i != but && is_same_host(&r->ranks[i], &r->ranks[first]))
			list_rank(r, i, out);
}

void ck_rank_table_list(const struct ck_rank_table *r, uint32_t rank,
			struct ck_buf *out)
{
	uint32_t own = first_of_host(r, rank);

	ck_buf_u32(out, r->n);
	list_rank(r, rank, out);
	list_host(r, own, rank, out);
	for (uint32_t i = 0; i < r->n; i++)
		if (i != own && first_of_host(r, i) == i)
			list_host(r, i, UINT32_MAX, out);
}

static bool take_rank(struct ck_str *rest, struct ck_host_rank *out)
{
	struct ck_cur number = ck_cur_make(rest->p, rest->len);

	if (!ck_cur_u32(&number, &out->rank))
		return false;
	rest->p = (const char *)number.p;
	rest->len = ck_cur_left(&number);
	out->name = take(rest);
	out->path = out->name ? take(rest) : NULL;
	return out->path && out->path[0] == '/' &&
	       !ck_host_name_check(ck_str_from(out->name), "", NULL);
}

int ck_rank_table_decode_list(struct ck_str text, struct ck_host_rank **out,
			      uint32_t *n)
{
	struct ck_cur c = ck_cur_make(text.p, text.len);
	struct ck_host_rank *list;
	struct ck_str rest;
	uint32_t i = 0;

	if (!ck_cur_u32(&c, n) || *n == 0 || *n > ck_cur_left(&c) ||
	    !ck_cur_bytes(&c, ck_cur_left(&c), &rest))
		return -EPROTO;
	list = calloc(*n, sizeof(*list));
	if (!list)
		return -ENOMEM;
	while (i < *n && take_rank(&rest, &list[i]) && list[i].rank < *n)
		i++;
	if (i < *n || rest.len) {
		free(list);
		return -EPROTO;
	}
	*out = list;
	return 0;
}
