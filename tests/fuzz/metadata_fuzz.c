/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a `.metadata`: parsed, finished, printed, and each entry found
 * again under its stem. The data files are as large as anything may ask for
 * if the first byte of the input is even, and missing if it is odd; the rest
 * of the input is the `.metadata`. One box gets another place, and then one
 * more: that is refused, or the new bytes are the expected ones, and parsing them
 * gives the expected places, as far as the budget allows. The same pickle with a
 * FRAME before each BUILD gives the same catalog.
 */
#include "format/dcp/dcp_rewrite.h"
#include "model/catalog/catalog_edit.h"
#include "stepwise.h"
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
		.path = path,
		.size = UINT64_C(1) << 62,
		.attr = { .mode = 0100444 },
		.err = t->err,
	};

	*number = t->nfiles++;
	return ck_catalog_file_add(t->c, &file);
}

static void find_all(const struct ck_catalog *c)
{
	for (uint32_t i = 0; i < c->listing->n; i++) {
		struct ck_names n = ck_entry_names(c, i);

		if (ck_catalog_find(c, n.stem) != i)
			abort();
	}
}

static void verify(struct ck_dcp_request *w, struct ck_change_of_place *to,
		   struct ck_str bytes)
{
	int rc;

	/* With another length nothing is right. */
	to->length++;
	if (ck_dcp_verify_is(w, bytes, NULL) != -EIO)
		abort();
	to->length--;
	if (ck_dcp_verify_is(w, bytes, NULL))
		abort();
	rc = ck_dcp_verify_parsed(w, bytes, NULL);
	if (rc && (rc != -EIO || w->known->places.roomy))
		abort();
}

/* The bytes with another place for one box: the caller's; NULL if refused. */
static char *change(struct ck_dcp_request *w, struct ck_change_of_place *to,
		    struct ck_str old, size_t *len)
{
	int fd = memfd_create("new", MFD_CLOEXEC);
	int rc = ck_dcp_rewrite(w, old, fd, NULL);
	char *bytes = NULL;

	if (rc && rc != -EOPNOTSUPP)
		abort();
	if (rc == 0) {
		*len = (size_t)lseek(fd, 0, SEEK_END);
		bytes = malloc(*len);
		if (!bytes || ck_pread_full(fd, bytes, *len, 0))
			abort();
		verify(w, to, (struct ck_str){ bytes, *len });
	}
	ck_dcp_request_fini(w);
	close(fd);
	return bytes;
}

/* As a commit does it. */
static void commit(struct target *t, struct ck_dcp_known *known,
		   const struct ck_change_of_place *to)
{
	struct ck_edit edit = {
		.number = to->chunk,
		.item = { .fpos = to->fpos, .length = to->length },
	};

	if (file_add(t, to->path, &edit.item.file) ||
	    ck_catalog_edit(t->c, &edit, 1, NULL))
		abort();
	ck_dcp_known_next(known);
}

static void rewrite(struct target *t, struct ck_dcp_known *known,
		    uint8_t choice, struct ck_str old)
{
	struct ck_change_of_place to = { .path = CK_STR("__0_new.distcp"),
					 .fpos = choice,
					 .length = 1000 };
	struct ck_dcp_request w = { t->c, known, &to, 1, NULL };
	char *bytes, *more;
	size_t len, more_len;

	if (t->c->chunks.n == 0)
		return;
	to.chunk = (uint32_t)(choice / 2 % t->c->chunks.n);
	bytes = change(&w, &to, old, &len);
	if (!bytes)
		return;
	commit(t, known, &to);
	to.path = CK_STR("__1_new.distcp");
	more = change(&w, &to, (struct ck_str){ bytes, len }, &more_len);
	if (!more || more_len != len)
		abort();
	free(bytes);
	free(more);
}

/* Parsed, finished and printed. */
static int read_in(struct target *t, struct ck_str in,
		   struct ck_dcp_places *places, struct ck_buf *text,
		   struct ck_diag *d)
{
	const struct ck_dcp_numbers numbers = { file_add, t, NULL };
	int rc = ck_dcp_parse_places(t->c, in, &numbers, places, d);

	if (rc == 0)
		rc = ck_catalog_finish(t->c, d);
	if (rc == 0)
		ck_catalog_dump(t->c, text);
	return rc;
}

static bool is_short(int rc, const struct ck_diag *d)
{
	return rc && strstr(d->text, "needs more memory");
}

static bool is_same(const struct ck_buf *a, const struct ck_buf *b)
{
	return a->len == b->len &&
	       (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static bool has_same_places(const struct ck_dcp_places *a,
			    const struct ck_dcp_places *b)
{
	return a->nchunks == b->nchunks &&
	       (a->nchunks == 0 ||
		memcmp(a->chunks, b->chunks, a->nchunks * sizeof(*a->chunks)) ==
			0);
}

/* Reading objects opcode by opcode gives the same, save that it may take more memory. */
static void read_stepwise(struct ck_str in, int err, int rc,
			  const struct ck_diag *d,
			  const struct ck_dcp_places *places,
			  const struct ck_buf *text)
{
	struct target t = { .c = ck_catalog_make("dcp"), .err = err };
	struct ck_dcp_places other = { 0 };
	struct ck_buf other_text = { 0 };
	struct ck_diag why = { 0 };
	size_t len;
	char *steps = stepwise(in, &len);
	int again;

	if (!t.c)
		abort();
	again = read_in(&t, (struct ck_str){ steps, len }, &other, &other_text,
			&why);
	if (!is_short(rc, d) && !is_short(again, &why) &&
	    (again != rc || !has_same_places(places, &other) ||
	     !is_same(text, &other_text)))
		abort();
	ck_buf_fini(&other_text);
	ck_dcp_places_fini(&other);
	ck_catalog_put(t.c);
	free(steps);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target t = { .c = ck_catalog_make("dcp") };
	struct ck_str in = { (const char *)data + 1, size ? size - 1 : 0 };
	struct ck_dcp_places places = { 0 };
	struct ck_dcp_known known;
	struct ck_buf text = { 0 };
	struct ck_diag d = { 0 };
	int rc;

	if (!t.c || size == 0) {
		ck_catalog_put(t.c);
		return 0;
	}
	t.err = data[0] % 2 ? ENODATA : 0;
	rc = read_in(&t, in, &places, &text, &d);
	read_stepwise(in, t.err, rc, &d, &places, &text);
	if (rc == 0) {
		find_all(t.c);
		ck_dcp_known_make(&known, t.c, &places, in);
		rewrite(&t, &known, data[0], in);
		ck_dcp_known_fini(&known);
	}
	ck_dcp_places_fini(&places);
	ck_buf_fini(&text);
	ck_catalog_put(t.c);
	return 0;
}
