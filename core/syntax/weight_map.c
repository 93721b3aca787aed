/* SPDX-License-Identifier: MIT */
/*
 * weight_map: parses the index of a model that is split into several files. The
 * map borrows names from the text, or owns those with escapes; it is constant
 * once parsed.
 */
#include "weight_map.h"
#include "ckptfs/table.h"

#include <errno.h>

static int no_memory(struct ck_weight_map *l)
{
	return ck_fail(l->json.d, ENOMEM, "out of memory");
}

static struct ck_str path_of(const void *arg, uint32_t i)
{
	const struct ck_weight_map *l = arg;

	return ck_str_from(l->files[i]);
}

/* The number of the file with a path; a new path is added. */
static int file_of(struct ck_weight_map *l, struct ck_table *t,
		   struct ck_str path, uint32_t *out)
{
	uint32_t n = (uint32_t)l->nfiles;
	char **files = ck_grow(l->files, &l->files_cap, n, 1, sizeof(*files));

	if (!files)
		return no_memory(l);
	l->files = files;
	files[n] = strndup(path.p, path.len);
	if (!files[n] || ck_table_add(t, path, n, out)) {
		free(files[n]);
		return no_memory(l);
	}
	if (*out == n)
		l->nfiles++;
	else
		free(files[n]);
	return 0;
}

static int row_add(struct ck_weight_map *l, struct ck_table *p,
		   const struct ck_json_value *v)
{
	struct ck_weight_row *rows;
	uint32_t file = 0;
	int rc;

	if (v->type != CK_JSON_STRING || memchr(v->text.p, '\0', v->text.len))
		return ck_json_refuse(&l->json, v,
				      "weight_map: the name of no file");
	rc = file_of(l, p, v->text, &file);
	if (rc)
		return rc;
	rows = ck_grow(l->rows, &l->rows_cap, l->nrows, 1, sizeof(*rows));
	if (!rows)
		return no_memory(l);
	l->rows = rows;
	rows[l->nrows++] = (struct ck_weight_row){ v->key, file };
	return 0;
}

static int rows_take(struct ck_weight_map *l, struct ck_table *p,
		     const struct ck_json_value *of)
{
	struct ck_json_value v;
	int rc;

	if (of->type != CK_JSON_OBJECT)
		return ck_json_refuse(&l->json, of,
				      "weight_map that is no object");
	for (;;) {
		rc = ck_json_next(&l->json, &v);
		if (rc || v.type == CK_JSON_END)
			return rc;
		rc = row_add(l, p, &v);
		if (rc)
			return rc;
	}
}

static int parse(struct ck_weight_map *l, struct ck_table *p)
{
	struct ck_json_value v;
	bool found = false;
	int rc = ck_json_next(&l->json, &v);

	if (rc == 0 && v.type != CK_JSON_OBJECT)
		return ck_json_refuse(&l->json, &v, "no object");
	while (rc == 0) {
		rc = ck_json_next(&l->json, &v);
		if (rc || v.type == CK_JSON_END)
			break;
		if (ck_str_is(v.key, "weight_map")) {
			found = true;
			rc = rows_take(l, p, &v);
		} else {
			rc = ck_json_skip(&l->json, &v);
		}
	}
	if (rc == 0)
		rc = ck_json_next(&l->json, &v);
	if (rc == 0 && !found)
		rc = ck_fail(l->json.d, EBADMSG, "it has no weight_map");
	return rc;
}

int ck_weight_map_parse(struct ck_str text, struct ck_weight_map *out,
			struct ck_diag *d)
{
	struct ck_table paths = { .key = path_of, .arg = out };
	int rc;

	ck_json_reader_init(&out->json, text, d);
	rc = parse(out, &paths);
	ck_table_fini(&paths);
	return rc;
}

void ck_weight_map_fini(struct ck_weight_map *map)
{
	ck_json_reader_fini(&map->json);
	for (size_t i = 0; i < map->nfiles; i++)
		free(map->files[i]);
	free(map->files);
	free(map->rows);
}
