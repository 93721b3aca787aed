/* SPDX-License-Identifier: MIT */
/* metadata_case: shared by tests of dcp/rewrite.c and dcp/verify.c: a `.metadata`
 * in memory, the changes of it, and the rewritten bytes.
 */
#ifndef CK_TEST_METADATA_CASE_H
#define CK_TEST_METADATA_CASE_H

#include "format/dcp/dcp_rewrite.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

struct subject {
	struct ck_catalog *c;
	struct ck_buf old;
	struct ck_buf new;
	struct ck_change_of_place *changes;
	char (*paths)[64];
	uint32_t n;
	struct ck_dcp_known known;
	struct ck_dcp_request wish; /* of the last rewriting */
	int fd;
	struct ck_diag d;
};

static int file_add(void *ctx, struct ck_str path, uint32_t *number)
{
	struct ck_catalog *c = ctx;
	struct ck_data_file file = { .path = path, .size = UINT64_C(1) << 62 };

	for (uint32_t i = 0; i < c->files.n; i++) {
		if (ck_str_eq(ck_catalog_file(c, i)->path, path)) {
			*number = i;
			return 0;
		}
	}
	*number = c->files.n;
	return ck_catalog_file_add(c, &file);
}

static struct ck_str bytes_of(const struct ck_buf *b)
{
	return (struct ck_str){ b->data, b->len };
}

/* Takes the bytes. */
static bool subject_make(struct subject *s, struct ck_buf bytes)
{
	struct ck_dcp_places places;
	int rc;

	*s = (struct subject){ .c = ck_catalog_make("dcp"), .old = bytes };
	s->fd = memfd_create("metadata", MFD_CLOEXEC);
	rc = ck_dcp_parse_places(
		s->c, bytes_of(&bytes),
		&(struct ck_dcp_numbers){ file_add, s->c, NULL }, &places,
		&s->d);
	if (rc == 0)
		rc = ck_catalog_finish(s->c, &s->d);
	ck_dcp_known_make(&s->known, s->c, &places, bytes_of(&bytes));
	if (rc)
		printf("# not read: %s\n", s->d.text);
	s->changes = calloc(s->c->chunks.n + 1UL, sizeof(*s->changes));
	s->paths = calloc(s->c->chunks.n + 1UL, sizeof(*s->paths));
	return rc == 0;
}

static void subject_free(struct subject *s)
{
	ck_catalog_put(s->c);
	ck_dcp_request_fini(&s->wish);
	ck_dcp_known_fini(&s->known);
	ck_buf_fini(&s->old);
	ck_buf_fini(&s->new);
	free(s->changes);
	free(s->paths);
	close(s->fd);
}

static void change(struct subject *s, uint32_t chunk, unsigned generation)
{
	uint32_t i = s->n++;

	snprintf(s->paths[i], sizeof(s->paths[i]),
		 "__%u_ckptfs-%u-0123456789abcdef.distcp", chunk % 7,
		 generation);
	s->changes[i] = (struct ck_change_of_place){
		.chunk = chunk,
		.path = ck_str_from(s->paths[i]),
		.fpos = chunk % 5 ? chunk * 1000 : UINT64_C(1) << 40,
		.length = chunk + 1234,
	};
}

/* Every nth box that has an item. */
static __attribute__((noinline)) void change_some(struct subject *s,
						  uint32_t nth,
						  unsigned generation)
{
	s->n = 0;
	for (uint32_t i = nth / 2; i < s->c->chunks.n; i += nth)
		if (ck_catalog_item(s->c, i)->file != CK_NO_FILE)
			change(s, i, generation);
}

static int rewrite(struct subject *s)
{
	off_t len;
	int rc;

	ck_dcp_request_fini(&s->wish);
	s->wish = (struct ck_dcp_request){ s->c, &s->known, s->changes, s->n,
					   NULL };
	s->new.len = 0;
	if (ftruncate(s->fd, 0))
		abort();
	rc = ck_dcp_rewrite(&s->wish, bytes_of(&s->old), s->fd, &s->d);
	if (rc)
		return rc;
	len = lseek(s->fd, 0, SEEK_END);
	for (off_t i = 0; i < len; i += 2048) {
		char part[2048];
		size_t n = ck_min((uint64_t)(len - i), sizeof(part));

		if (ck_pread_full(s->fd, part, n, (uint64_t)i))
			abort();
		ck_buf_add(&s->new, part, n);
	}
	return 0;
}

static int verify_is(struct subject *s)
{
	s->wish.n = s->n;
	return ck_dcp_verify_is(&s->wish, bytes_of(&s->new), &s->d);
}

static int verify_says(struct subject *s)
{
	s->wish.n = s->n;
	return ck_dcp_verify_parsed(&s->wish, bytes_of(&s->new), &s->d);
}

/* Both verifications must return the same result. */
static int verify(struct subject *s)
{
	int rc = verify_is(s);

	eq_err(verify_says(s), rc);
	return rc;
}

static bool load(const char *path, struct ck_buf *out)
{
	char part[2048];
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	*out = (struct ck_buf){ 0 };
	if (fd < 0)
		return false;
	while ((n = read(fd, part, sizeof(part))) > 0)
		ck_buf_add(out, part, (size_t)n);
	close(fd);
	return true;
}

static void fixture(struct subject *s, const char *fixtures, const char *name)
{
	char path[512];
	struct ck_buf bytes;

	snprintf(path, sizeof(path), "%s/%s/.metadata", fixtures, name);
	if (!load(path, &bytes) || !subject_make(s, bytes))
		abort();
}

#endif
