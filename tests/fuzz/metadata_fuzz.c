/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a `.metadata`: parsed, finished, printed, and each entry found
 * again under its stem. The data files are as large as anything may ask for
 * if the first byte of the input is even, and missing if it is odd; the rest
 * of the input is the `.metadata`. One box gets another place: that is refused, or
 * is what verifying finds, or verifying says that it is not.
 */
#include "ckptfs/model.h"
#include "dcp_rewrite.h"
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct target {
	struct ck_catalog *c;
	int err;
	uint32_t nfiles;
};

static int file_add(void *ctx, struct ck_str path, uint32_t *number)
{
	struct target *t = ctx;
	struct ck_data_file file = {
		.size = UINT64_C(1) << 62,
		.attr = { .mode = 0100444 },
		.err = t->err,
	};
	int rc = ck_catalog_text_add(t->c, path, &file.path);

	if (rc)
		return rc;
	*number = t->nfiles++;
	return ck_catalog_file_add(t->c, &file);
}

static void find_all(const struct ck_catalog *c)
{
	for (uint32_t i = 0; i < c->nentries; i++) {
		const struct ck_names *n = ck_catalog_names(c, c->entries[i]);

		if (ck_catalog_find(c, ck_catalog_str(c, n->stem)) != i)
			abort();
	}
}

static int verify(struct ck_dcp_wish *w, struct ck_str bytes)
{
	struct ck_dcp_places places;
	int rc = ck_dcp_verify_says(w, bytes, &places, NULL);

	if (rc == 0)
		rc = ck_dcp_verify_is(w, bytes, &places, NULL);
	ck_dcp_places_fini(&places);
	return rc;
}

/* The bytes with another place for one box: the caller's; NULL if refused.
 * What was written is right, or is known not to be. */
static char *change(const struct ck_catalog *c, struct ck_str old,
		    struct ck_change_of_place *to, size_t *len)
{
	struct ck_dcp_wish w = { c, old, to, 1 };
	int fd = memfd_create("new", MFD_CLOEXEC), rc;
	char *bytes = NULL;

	if (ck_dcp_rewrite(&w, fd, NULL) == 0) {
		*len = (size_t)lseek(fd, 0, SEEK_END);
		bytes = malloc(*len);
		if (!bytes || ck_pread_full(fd, bytes, *len, 0))
			abort();
		rc = verify(&w, (struct ck_str){ bytes, *len });
		if (rc && rc != -EIO)
			abort();
		/* With another length nothing else is right. */
		to->length++;
		if (rc == 0 && verify(&w, (struct ck_str){ bytes, *len }) == 0)
			abort();
		to->length--;
		if (rc) {
			free(bytes);
			bytes = NULL;
		}
	}
	close(fd);
	return bytes;
}

static void rewrite(const struct ck_catalog *c, uint8_t choice,
		    struct ck_str old)
{
	struct ck_change_of_place to = { .path = CK_STR("__0_new.distcp"),
					 .fpos = choice,
					 .length = 1000 };
	size_t len;
	char *bytes;

	if (c->nchunks == 0)
		return;
	to.chunk = (uint32_t)(choice / 2 % c->nchunks);
	bytes = change(c, old, &to, &len);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target t = { .c = ck_catalog_make("dcp") };
	struct ck_buf text = { 0 };
	struct ck_diag d = { 0 };

	if (!t.c || size == 0) {
		ck_catalog_free(t.c);
		return 0;
	}
	t.err = data[0] % 2 ? ENODATA : 0;
	if (ck_dcp_parse(t.c, data + 1, size - 1, file_add, &t, &d) == 0 &&
	    ck_catalog_finish(t.c, &d) == 0) {
		find_all(t.c);
		ck_catalog_dump(t.c, &text);
		rewrite(t.c, data[0],
			(struct ck_str){ (const char *)data + 1, size - 1 });
	}
	ck_buf_fini(&text);
	ck_catalog_free(t.c);
	return 0;
}
