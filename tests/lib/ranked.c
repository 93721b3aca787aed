/* SPDX-License-Identifier: MIT */
/* ranked: prints the ranks in files of torch.save, as read by core/format/ranks. Standard
 * input has a path on each line. Standard output gets a line of JSON for each: rank and
 * world of the file, and for each entry of its dict the ck_rank_part or an error.
 */
#include "ckptfs/value.h"
#include "format/item/item.h"
#include "format/ranks/ranks.h"

#include <inttypes.h>
#include <stdio.h>

struct file {
	FILE *f;
	struct ck_zip zip;
	struct ck_zip_source src;
	struct ck_pickle p;
	void *bytes;
	struct ck_arena arena;
	struct ck_rank_seen seen;
	struct ck_rank_answer answer;
};

static int read_file(void *ctx, void *buf, size_t len, uint64_t ipos)
{
	struct file *f = ctx;

	return fseek(f->f, (long)ipos, SEEK_SET) ||
			       fread(buf, 1, len, f->f) != len
		       ? -ENODATA
		       : 0;
}

static int read_storage(void *ctx, struct ck_str key, void *buf, size_t len,
			uint64_t at, struct ck_diag *d)
{
	struct file *f = ctx;
	const struct ck_zip_record *r;
	char name[64];
	int rc;

	snprintf(name, sizeof(name), "data/%.*s", (int)key.len, key.p);
	r = ck_zip_find(&f->zip, ck_str_from(name));
	if (!r || at > r->len || len > r->len - at)
		return ck_fail(d, ENODATA, "no such bytes");
	rc = read_file(f, buf, len, r->ipos + at);
	return rc ? ck_fail(d, -rc, "cannot be read") : 0;
}

static void numbers(const int64_t *n, size_t count)
{
	putchar('[');
	for (size_t i = 0; i < count; i++)
		printf("%s%" PRId64, i ? "," : "", n[i]);
	putchar(']');
}

static void number(uint64_t n)
{
	if (n == CK_NO_RANK)
		fputs("null", stdout);
	else
		printf("%" PRIu64, n);
}

static void sharding(const struct ck_sharding *s)
{
	struct ck_buf out = { 0 };

	for (uint32_t i = 0; s && i < s->ndim; i++) {
		ck_buf_text(&out, i ? "," : "");
		ck_buf_str(&out, s->dims[i].name);
		ck_buf_printf(&out, "=%" PRIu64 ":", s->dims[i].size);
		ck_placement_print(&out, &s->dims[i].placement);
	}
	printf(",\"sharding\":\"%s\"", out.data ? out.data : "");
	ck_buf_fini(&out);
}

/* The call that builds the local tensor: (storage, offset, size, ...). */
static int check(const struct file *f, const struct ck_rank_part *part,
		 const struct ck_rank_piece *piece, struct ck_diag *d)
{
	struct ck_pv_room room;
	const struct ck_pv tensor = ck_pv_unpack(&piece->tensor, &room);
	const struct ck_pcall *call =
		ck_pv_call(&f->p, &tensor, "torch._utils._rebuild_tensor_v2");
	int64_t size[CK_MAX_DIMS];
	struct ck_str class, key;
	struct ck_pv v, storage;
	int64_t numel;

	if (!call)
		return ck_fail(d, EBADMSG, "no plain tensor");
	storage = ck_pv_at(&call->args, 0);
	v = ck_pv_at(&call->args, 2);
	if (!ck_storage_take(&f->p, &storage, &class, &key, &numel) ||
	    ck_pv_count(&v) > CK_MAX_DIMS)
		return ck_fail(d, EBADMSG, "no plain tensor");
	for (uint32_t i = 0; i < ck_pv_count(&v); i++) {
		struct ck_pv item = ck_pv_at(&v, i);

		if (!ck_pv_int(&item, &size[i]))
			return ck_fail(d, EBADMSG, "no plain tensor");
	}
	return ck_rank_piece_check(
		part, piece,
		ck_str_from(ck_dtype_at(ck_dtype_by_storage(class))->name),
		ck_pv_count(&v), size, d);
}

static void part_print(const struct file *f, const struct ck_rank_part *part)
{
	printf("{\"kind\":\"%s\",\"dtype\":\"%.*s\",\"shape\":",
	       ck_tensor_kind_name(part->kind), (int)part->dtype.len,
	       part->dtype.p);
	numbers(part->shape, part->ndim);
	fputs(",\"rank\":", stdout);
	number(part->answer.rank);
	printf(",\"ranks\":%" PRIu64 ",\"world\":%" PRIu64
	       ",\"partial\":%d,\"outside\":%d",
	       part->answer.ranks, part->answer.world, part->fault != NULL,
	       part->outside);
	sharding(part->sharding);
	fputs(",\"pieces\":[", stdout);
	for (uint32_t i = 0; i < part->npieces; i++) {
		const struct ck_rank_piece *piece = &part->pieces[i];
		int rc = check(f, part, piece, NULL);

		printf("%s{\"check\":%d,\"size\":", i ? "," : "", rc);
		numbers(piece->size, part->ndim);
		fputs(",\"boxes\":", stdout);
		numbers(piece->boxes, (size_t)piece->nboxes * 3 * part->ndim);
		printf(",\"nboxes\":%u}", piece->nboxes);
	}
	fputs("]}", stdout);
}

static void entry_print(struct file *f, const struct ck_pv *v)
{
	struct ck_rank_storages storages = { f, read_storage, false, &f->seen };
	static struct ck_diag d;
	struct ck_rank_part part;
	int rc = ck_rank_part_read(&f->p, v, &storages, &f->arena, &part, &d);

	if (rc < 0)
		printf("{\"rc\":%d,\"why\":\"%s\"}", rc, d.text);
	else if (rc == 0)
		fputs("null", stdout);
	else
		part_print(f, &part);
	if (rc > 0)
		ck_rank_answer_join(&f->answer, &part.answer);
}

static void entries_print(struct file *f)
{
	const struct ck_plist *list = ck_pv_list(&f->p.root);
	const char *comma = "";

	for (uint32_t i = 0; list && i + 1 < list->count; i += 2) {
		struct ck_str key;

		if (!ck_pv_str(&list->items[i], &key))
			continue;
		printf("%s\"%.*s\":", comma, (int)key.len, key.p);
		entry_print(f, &list->items[i + 1]);
		comma = ",";
	}
}

static int file_print(struct file *f, const char *path, struct ck_diag *d)
{
	size_t len;
	long end;
	int rc;

	f->f = fopen(path, "rb");
	if (!f->f || fseek(f->f, 0, SEEK_END))
		return ck_fail(d, ENOENT, "cannot be opened");
	end = ftell(f->f);
	f->src = (struct ck_zip_source){ f, read_file, (uint64_t)end };
	rc = ck_zip_read(&f->src, &f->zip, d);
	if (rc == 0)
		rc = ck_item_pickle(&f->zip, CK_PICKLE_MAX, &f->p, &f->bytes,
				    &len, d);
	if (rc)
		return rc;
	f->answer = (struct ck_rank_answer){ CK_NO_RANK, 0, 0 };
	fputs("{\"entries\":{", stdout);
	entries_print(f);
	fputs("},\"rank\":", stdout);
	number(f->answer.rank);
	printf(",\"world\":%" PRIu64 "}\n", f->answer.world);
	return 0;
}

static void path_print(const char *path)
{
	struct file f = { 0 };
	struct ck_diag d = { 0 };

	if (file_print(&f, path, &d))
		printf("{\"why\":\"%s\"}\n", d.text);
	ck_pickle_fini(&f.p);
	ck_zip_fini(&f.zip);
	ck_arena_fini(&f.arena);
	free(f.bytes);
	if (f.f)
		fclose(f.f);
}

int main(void)
{
	static char line[4096];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		path_print(line);
	}
	return fflush(stdout) ? 1 : 0;
}
