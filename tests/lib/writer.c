/* SPDX-License-Identifier: MIT */
/*
 * writer: what core/format writes, for tests in Python.
 *
 *	writer item DTYPE FPOS [SIZE...] <elements >archive
 *	writer metadata DIRECTORY NTH GENERATION OUT
 *
 * The second gives every NTH box of a checkpoint that has an item another
 * place, verifies the new metadata in OUT, and prints a line for each: fqn
 * (escaped), offsets, path, offset, length, separated by tabs.
 */
#include "format/rewrite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static uint32_t crc32_of(const char *p, size_t len)
{
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < len; i++) {
		crc ^= (uint8_t)p[i];
		for (int k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

static int read_stdin(struct ck_buf *out)
{
	char part[1024];
	size_t n;

	while ((n = fread(part, 1, sizeof(part), stdin)) > 0)
		ck_buf_add(out, part, n);
	return out->err;
}

static int item(int argc, char **argv)
{
	int64_t size[CK_MAX_DIMS];
	struct ck_item_form f;
	struct ck_buf data = { 0 };
	int rc;

	for (int i = 4; i < argc && i < 4 + CK_MAX_DIMS; i++)
		size[i - 4] = strtoll(argv[i], NULL, 10);
	rc = ck_item_form_make(&f, ck_dtype_by_name(ck_str_from(argv[2])),
			       (uint32_t)(argc - 4), size,
			       strtoull(argv[3], NULL, 10));
	if (rc == 0)
		rc = read_stdin(&data);
	if (rc == 0 && data.len != f.data_len)
		rc = -EINVAL;
	if (rc == 0) {
		ck_item_form_crc(&f, crc32_of(data.data, data.len));
		fwrite(f.head.data, 1, f.head.len, stdout);
		fwrite(data.data, 1, data.len, stdout);
		fwrite(f.tail.data, 1, f.tail.len, stdout);
	}
	ck_item_form_fini(&f);
	ck_buf_fini(&data);
	if (rc)
		fprintf(stderr, "%s\n", strerror(-rc));
	return rc ? 1 : 0;
}

/* --- metadata -------------------------------------------------------------- */

static void describe(struct ck_buf *out, const struct ck_tensor *t, uint32_t i)
{
	ck_buf_escaped(out, t->entry.key);
	ck_buf_text(out, "\t");
	ck_dims_print(out, ck_tensor_box(t, i), t->ndim);
}

static uint32_t changes_make(const struct ck_catalog *c, char **argv,
			     struct ck_change_of_place *changes,
			     struct ck_buf *text, char (*paths)[64])
{
	uint32_t nth = (uint32_t)atoi(argv[3]), n = 0;

	for (uint32_t i = 0; i < c->tensors.n; i++) {
		const struct ck_tensor *t = ck_catalog_tensor(c, i);

		for (uint32_t k = 0; k < t->nchunks; k++) {
			uint32_t chunk = t->chunk + k;
			struct ck_change_of_place *to = &changes[n];

			if (chunk % nth ||
			    ck_catalog_item(c, chunk)->file == CK_NO_FILE)
				continue;
			snprintf(paths[n], sizeof(paths[n]),
				 "__%u_ckptfs-%s.distcp", chunk % 3, argv[4]);
			*to = (struct ck_change_of_place){
				.chunk = chunk,
				.path = ck_str_from(paths[n]),
				.fpos = chunk % 2 ? chunk : UINT64_C(1) << 33,
				.length = 1000 + chunk,
			};
			n++;
			describe(text, t, k);
			ck_buf_printf(text, "\t%s\t%" PRIu64 "\t%" PRIu64 "\n",
				      to->path.p, to->fpos, to->length);
		}
	}
	return n;
}

static int metadata(char **argv)
{
	struct ck_format_options options = { .write = true };
	struct ck_checkpoint *cp = NULL;
	struct ck_diag d = { 0 };
	struct ck_buf text = { 0 };
	struct ck_change_of_place *changes;
	char(*paths)[64];
	uint32_t n;
	int fd, rc;

	if (ck_checkpoint_open(argv[2], &options, &cp, &d)) {
		fprintf(stderr, "%s\n", d.text);
		return 1;
	}
	changes = calloc(cp->catalog->chunks.n + 1UL, sizeof(*changes));
	paths = calloc(cp->catalog->chunks.n + 1UL, sizeof(*paths));
	fd = open(argv[5], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	n = changes_make(cp->catalog, argv, changes, &text, paths);
	rc = ck_metadata_write(cp, changes, n, fd, &d);
	if (rc == 0 && text.len)
		fwrite(text.data, 1, text.len, stdout);
	if (rc)
		fprintf(stderr, "%s\n", d.text);
	close(fd);
	free(changes);
	free(paths);
	ck_buf_fini(&text);
	ck_checkpoint_close(cp);
	return rc ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc >= 4 && strcmp(argv[1], "item") == 0)
		return item(argc, argv);
	if (argc == 6 && strcmp(argv[1], "metadata") == 0)
		return metadata(argv);
	fprintf(stderr, "usage: writer item|metadata ...\n");
	return 2;
}
