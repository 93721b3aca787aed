/* SPDX-License-Identifier: MIT */
/*
 * transform: undoes the stream transforms of a DCP item. A descriptor is
 * "name[@domain]/version". torch looks up the part before the '/'; its only transform
 * accepts any minor version of 1 (torch/distributed/checkpoint/_extension.py;
 * filesystem.py applies them in the order of the metadata).
 *
 * The output buffer doubles up to the limit of the caller, whatever size a frame
 * declares. Stateless; any thread.
 */
#include "item.h"

#include <errno.h>
#include <inttypes.h>
#include <zstd.h>

enum { FIRST_OUTPUT = 64 * 1024 };

struct output {
	uint8_t *bytes; /* owned */
	size_t len, cap;
	uint64_t limit;
};

/* Makes room for at least one byte, up to one byte more than the limit, so that the
 * decoder can report the end of a frame at the limit. */
static int output_grow(struct output *out, struct ck_diag *d)
{
	uint64_t cap = out->cap ? out->cap : FIRST_OUTPUT / 2;
	uint8_t *bytes;

	if (out->len < out->cap)
		return 0;
	cap = ck_min(cap * 2, out->limit + 1);
	bytes = realloc(out->bytes, cap);
	if (!bytes)
		return ck_fail(d, ENOMEM, "out of memory");
	out->bytes = bytes;
	out->cap = cap;
	return 0;
}

/* One step of the decoder. *left is 0 when a frame is complete. */
static int zstd_step(ZSTD_DStream *z, ZSTD_inBuffer *in, struct output *out,
		     size_t *left, struct ck_diag *d)
{
	ZSTD_outBuffer to = { out->bytes, out->cap, out->len };
	size_t pos = in->pos;

	*left = ZSTD_decompressStream(z, &to, in);
	if (ZSTD_isError(*left))
		return ck_fail(d, EBADMSG, "%s at byte %zu",
			       ZSTD_getErrorName(*left), in->pos);
	if (in->pos == pos && to.pos == out->len && *left)
		return ck_fail(d, EBADMSG, "cut short after %zu bytes",
			       in->size);
	out->len = to.pos;
	if (out->len > out->limit)
		return ck_fail(d, EBADMSG, "longer than %" PRIu64 " bytes",
			       out->limit);
	return 0;
}

/* Decodes any number of frames; the last one must be complete. */
static int zstd_all(ZSTD_DStream *z, ZSTD_inBuffer *in, struct output *out,
		    struct ck_diag *d)
{
	size_t left = 1;

	while (left || in->pos < in->size) {
		int rc = output_grow(out, d);

		if (rc < 0)
			return rc;
		rc = zstd_step(z, in, out, &left, d);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int zstd_undo(struct ck_str in, struct output *out, struct ck_diag *d)
{
	ZSTD_inBuffer from = { in.p, in.len, 0 };
	ZSTD_DStream *z = ZSTD_createDStream();
	int rc;

	if (!z)
		return ck_fail(d, ENOMEM, "out of memory");
	rc = zstd_all(z, &from, out, d);
	ZSTD_freeDStream(z);
	if (rc < 0)
		ck_diag_prefix(d, "stream.zstd");
	return rc;
}

/* Cuts s at the first `sep`, and returns the part before it. Without a `sep` the rest
 * is empty. */
static struct ck_str part_take(struct ck_str *s, char sep)
{
	const char *at = s->len ? memchr(s->p, sep, s->len) : NULL;
	struct ck_str part = *s;

	if (!at) {
		*s = (struct ck_str){ s->p + s->len, 0 };
		return part;
	}
	part.len = (size_t)(at - s->p);
	*s = (struct ck_str){ at + 1, s->len - part.len - 1 };
	return part;
}

static int one_undo(struct ck_str descriptor, struct ck_str in,
		    struct output *out, struct ck_diag *d)
{
	struct ck_str version = descriptor;
	struct ck_str name = part_take(&version, '/');
	struct ck_str major = part_take(&version, '.');

	if (!ck_str_is(name, "stream.zstd") || !ck_str_is(major, "1"))
		return ck_fail(d, EBADMSG, "unknown stream transform %s",
			       ck_show(descriptor));
	return zstd_undo(in, out, d);
}

int ck_transform_undo(struct ck_str descriptors, struct ck_str in,
		      uint64_t limit, void **out, size_t *len,
		      struct ck_diag *d)
{
	/* owner of `in`, after the first transform */
	ck_auto_free void *from = NULL;
	bool more;

	do {
		struct output next = { .limit = ck_min(limit, SIZE_MAX / 4) };
		int rc;

		more = descriptors.len &&
		       memchr(descriptors.p, ',', descriptors.len);
		rc = one_undo(part_take(&descriptors, ','), in, &next, d);

		if (rc < 0) {
			free(next.bytes);
			return rc;
		}
		free(from);
		from = next.bytes;
		in = (struct ck_str){ from, next.len };
	} while (more);
	*len = in.len;
	*out = ck_steal(&from);
	return 0;
}
