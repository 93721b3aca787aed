/* SPDX-License-Identifier: MIT */
/*
 * safetensors: the format of a safetensors file, or of a directory with such files, as
 * transformers and HuggingFaceStorageWriter of torch.distributed.checkpoint write them.
 * Torch files beside them are shown, too. The load runs in one thread. The state that
 * remains, cp->own, is constant: the size of each header, and the state of torch files.
 */
#include "format/load/load_gather.h"
#include "format/load/numbered.h"
#include "format/torch/torch_beside.h"
#include "safetensors_internal.h"
#include "safetensors_kind.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX "safetensors"
#define INDEX  ".safetensors.index.json"
#define MODEL  "model.safetensors"

/* --- names in a directory --------------------------------------------------------- */

static bool is_index(const char *name)
{
	return ck_name_ends(name, INDEX);
}

static bool is_tensors(const char *name)
{
	return ck_name_ends(name, "." SUFFIX);
}

/* --- the kind ------------------------------------------------------------------------ */

/* True for a file that begins with a length that fits into it, and an object. */
static int begins_so(const struct ck_src *src, struct ck_diag *d)
{
	ck_auto_fd int fd = ck_open_beneath(src->dirfd, ck_str_from(src->file),
					    O_RDONLY | O_NONBLOCK | O_NOCTTY,
					    CK_BENEATH_SYMLINKS);
	uint8_t head[CK_SAFETENSORS_BEGIN + 1];
	struct stat st;
	uint64_t len;

	if (fd < 0)
		return ck_fail(d, -fd, "%s", strerror(-fd));
	if (fstat(fd, &st))
		return ck_fail(d, errno, "%s", strerror(errno));
	if (st.st_size < (off_t)sizeof(head) ||
	    ck_pread_full(fd, head, sizeof(head), 0))
		return 0;
	memcpy(&len, head, sizeof(len));
	return len <= (uint64_t)st.st_size - CK_SAFETENSORS_BEGIN &&
	       head[CK_SAFETENSORS_BEGIN] &&
	       strchr(" \t\n\r{", head[CK_SAFETENSORS_BEGIN]);
}

int ck_safetensors_is_file(const struct ck_src *src, struct ck_diag *d)
{
	return src->file ? begins_so(src, d) : 0;
}

int ck_safetensors_has_index(const struct ck_src *src, struct ck_diag *d)
{
	return ck_src_has_name(src, is_index, d);
}

int ck_safetensors_has_files(const struct ck_src *src, struct ck_diag *d)
{
	return ck_src_has_name(src, is_tensors, d);
}

/* --- loading ------------------------------------------------------------------------- */

/* Sorts names with a rank by rank, and before other names. */
static int metadata_cmp(const void *a, const void *b)
{
	uint64_t x = ck_safetensors_rank(ck_str_from(*(char *const *)a));
	uint64_t y = ck_safetensors_rank(ck_str_from(*(char *const *)b));

	return x != y ? (x < y ? -1 : 1)
		      : ck_str_natural_cmp(ck_str_from(*(char *const *)a),
					   ck_str_from(*(char *const *)b));
}

static int load_index(struct ck_safetensors_load *l, const char *name,
		      const struct ck_format_options *options)
{
	int rc = ck_index_read(l->cp, l->c, name, options, &l->index, l->d);

	l->has_index = true;
	for (size_t i = 0; i < l->index.map.nfiles && rc == 0; i++)
		rc = ck_safetensors_file_add(l, l->index.map.files[i]);
	return rc;
}

/* Adds lines of damage for missing files of a directory. Names of ranks are left out: a
 * rank writes a file only if it has tensors for it. */
static int missing_lose(struct ck_safetensors_load *l,
			const struct ck_dir_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		if (ck_safetensors_rank(ck_str_from(names->all[i])) !=
		    CK_NO_RANK)
			return 0;
	return l->cp->file || ck_numbered_lose(l->c, names, "." SUFFIX) == 0
		       ? 0
		       : ck_fail(l->d, ENOMEM, "out of memory");
}

static int load_files(struct ck_safetensors_load *l, struct ck_dir_names *names,
		      const struct ck_format_options *options)
{
	int rc = missing_lose(l, names);

	if (rc)
		return rc;
	if (names->n)
		qsort(names->all, names->n, sizeof(*names->all), metadata_cmp);
	rc = ck_metadata_open_first(l->cp, l->c, names, options, l->d);
	if (rc)
		return rc;
	ck_dir_names_sort(names);
	for (size_t i = 0; i < names->n && rc == 0; i++)
		rc = ck_safetensors_file_add(l, names->all[i]);
	return rc;
}

/* Lists the one file, or those of the directory; MODEL alone, if it exists, as
 * transformers does. */
static int names_find(const struct ck_checkpoint *cp, struct ck_dir_names *out)
{
	const struct ck_dir_want want = { is_tensors, SIZE_MAX, SIZE_MAX };
	int rc;

	if (cp->file)
		return ck_dir_names_add(out, cp->file);
	rc = ck_dir_names_read(ck_checkpoint_dir(cp), &want, out);
	for (size_t i = 0; rc == 0 && i < out->n; i++)
		if (strcmp(out->all[i], MODEL) == 0) {
			ck_dir_names_fini(out);
			return ck_dir_names_add(out, MODEL);
		}
	return rc;
}

static bool is_model_alone(const struct ck_dir_names *names)
{
	return names->n == 1 && strcmp(names->all[0], MODEL) == 0;
}

static int choose(struct ck_safetensors_load *l,
		  const struct ck_dir_names *indexes,
		  struct ck_dir_names *names,
		  const struct ck_format_options *options)
{
	const char *index = NULL;
	int rc = 0;

	if (!is_model_alone(names))
		rc = ck_index_pick(indexes, "model" INDEX, &index, l->d);
	else if (ck_index_ignore(l->c, indexes, MODEL))
		rc = ck_fail(l->d, ENOMEM, "out of memory");
	if (rc)
		return rc;
	return index ? load_index(l, index, options)
		     : load_files(l, names, options);
}

static int load_names(struct ck_safetensors_load *l,
		      const struct ck_format_options *options)
{
	const struct ck_dir_want want = { is_index, SIZE_MAX, SIZE_MAX };
	struct ck_dir_names indexes = { 0 }, names = { 0 };
	int rc = names_find(l->cp, &names);

	l->c->is_model = true;
	if (rc == 0 && !l->cp->file)
		rc = ck_dir_names_read(ck_checkpoint_dir(l->cp), &want,
				       &indexes);
	rc = rc ? ck_fail(l->d, -rc, "%s", strerror(-rc))
		: choose(l, &indexes, &names, options);
	ck_dir_names_fini(&indexes);
	ck_dir_names_fini(&names);
	return rc;
}

static void load_fini(struct ck_safetensors_load *l)
{
	for (size_t i = 0; i < l->nfiles; i++)
		ck_safetensors_file_fini(&l->files[i]);
	free(l->files);
	ck_index_fini(&l->index);
}

/* --- __metadata__, for the status ------------------------------------------------- */

enum { FILES_SHOWN = 16, TEXT_MOST = 1000 };

static int pair_cmp(const void *a, const void *b)
{
	const struct ck_safetensors_note *x = a, *y = b;

	return ck_str_natural_cmp(x->key, y->key);
}

/* Prints the pairs of a header, except for the locations of shards. Sorted, because the
 * library writes them in a varying order. */
static void pairs_print(struct ck_safetensors *h, struct ck_buf *out)
{
	size_t i = 0;

	if (h->nnotes)
		qsort(h->notes, h->nnotes, sizeof(*h->notes), pair_cmp);
	for (; i < h->nnotes && out->len < TEXT_MOST; i++) {
		if (ck_str_is(h->notes[i].key, "DCP_SHARDING_INFO"))
			continue;
		ck_buf_printf(out, "%s%s = %s", out->len ? ", " : "",
			      ck_show(h->notes[i].key),
			      ck_show(h->notes[i].value));
	}
	if (i < h->nnotes)
		ck_buf_text(out, ", ...");
}

static bool is_same_text(const struct ck_buf *a, const struct ck_buf *b)
{
	return a->len == b->len &&
	       (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static int note_add(const struct ck_safetensors_load *l, const char *file,
		    const struct ck_buf *text)
{
	struct ck_buf line = { 0 };
	int rc;

	ck_buf_text(&line, "metadata");
	if (file)
		ck_buf_printf(&line, " of %s", ck_show(ck_str_from(file)));
	ck_buf_text(&line, ": ");
	ck_buf_add(&line, text->data, text->len);
	rc = line.err ? line.err : ck_catalog_note_add(l->c, line.data);
	ck_buf_fini(&line);
	return rc;
}

/* Adds a note for each file with other pairs, or one note if all are equal. texts: one
 * for each file. */
static int notes_of(const struct ck_safetensors_load *l,
		    const struct ck_buf *texts)
{
	size_t some = 0;
	bool same = true;
	int rc = 0;

	for (size_t i = 0; i < l->nfiles; i++) {
		some += texts[i].len > 0;
		same &= is_same_text(&texts[0], &texts[i]);
	}
	if (same)
		return some ? note_add(l, NULL, &texts[0]) : 0;
	for (size_t i = 0, shown = 0;
	     i < l->nfiles && shown < FILES_SHOWN && rc == 0; i++)
		if (texts[i].len) {
			rc = note_add(l, l->files[i].name, &texts[i]);
			shown++;
		}
	if (rc == 0 && some > FILES_SHOWN)
		rc = ck_catalog_note_add(l->c,
					 ck_shown("files with other metadata: "
						  "%zu more",
						  some - FILES_SHOWN));
	return rc;
}

static int notes_add(const struct ck_safetensors_load *l)
{
	struct ck_buf *texts = calloc(l->nfiles + 1, sizeof(*texts));
	int rc = texts ? 0 : -ENOMEM;

	for (size_t i = 0; texts && i < l->nfiles; i++)
		if (l->files[i].good)
			pairs_print(&l->files[i].header, &texts[i]);
	if (texts)
		rc = notes_of(l, texts);
	for (size_t i = 0; texts && i < l->nfiles; i++)
		ck_buf_fini(&texts[i]);
	free(texts);
	return rc ? ck_fail(l->d, ENOMEM, "out of memory") : 0;
}

/* --- the state -------------------------------------------------------------------- */

/* cp->own. All bytes of a torch file are in use, also those between storages. */
struct own {
	struct ck_torch_state *beside; /* torch files */
	size_t n;
	/* of the header, or of a torch file, by number in cp->files */
	uint64_t bytes[];
};

static int own_keep(struct ck_safetensors_load *l, struct ck_torch_load *beside)
{
	size_t n = ck_files_count(l->cp->files);
	struct own *own = calloc(1, sizeof(*own) + n * sizeof(own->bytes[0]));

	l->cp->own = own;
	if (!own)
		return ck_fail(l->d, ENOMEM, "out of memory");
	own->n = n;
	for (size_t i = 0; i < l->nfiles; i++)
		if (l->files[i].good)
			own->bytes[l->files[i].number] = l->files[i].data;
	for (size_t i = 0; i < beside->nfiles; i++) {
		uint32_t file = beside->files[i].number;

		own->bytes[file] = ck_files_info(l->cp->files, file)->size;
	}
	return ck_torch_state_add(beside, &own->beside);
}

static uint64_t head(const struct ck_checkpoint *cp, uint32_t file)
{
	const struct own *own = cp->own;

	return file < own->n ? own->bytes[file] : 0;
}

/* Only torch files have sums. */
static struct ck_sum *sum(const struct ck_checkpoint *cp,
			  const struct ck_item *item)
{
	const struct own *own = cp->own;

	return ck_torch_state_sum(own->beside, item);
}

static struct ck_sum *pickle_sum(const struct ck_checkpoint *cp, uint32_t file)
{
	const struct own *own = cp->own;

	return ck_torch_state_pickle_sum(own->beside, file);
}

static bool record(const struct ck_checkpoint *cp, uint32_t file, size_t i,
		   struct ck_item *out)
{
	const struct own *own = cp->own;

	return ck_torch_state_record(own->beside, file, i, out);
}

static uint64_t rank(const struct ck_checkpoint *cp, uint32_t file)
{
	return ck_safetensors_rank(ck_files_info(cp->files, file)->path);
}

/* Loads the files of l, and the torch files beside them. */
static int load_all(struct ck_safetensors_load *l,
		    struct ck_torch_load **beside,
		    const struct ck_format_options *options)
{
	int rc = load_names(l, options);

	if (rc == 0)
		rc = ck_torch_beside_find(l->cp, l->c, beside, l->d);
	if (rc == 0)
		rc = ck_checkpoint_gather(l->cp, l->c, options, rank, l->d);
	if (rc == 0)
		rc = ck_safetensors_files_read(l);
	if (rc == 0)
		rc = ck_safetensors_tensors_add(l);
	if (rc == 0)
		rc = ck_consolidated_note(l);
	if (rc == 0)
		rc = notes_add(l);
	if (rc == 0)
		rc = ck_torch_beside_add(*beside);
	return rc ? rc : own_keep(l, *beside);
}

static int load(struct ck_checkpoint *cp, struct ck_catalog *c,
		const struct ck_format_options *options,
		const struct ck_fetched_metadata *fetched, struct ck_diag *d)
{
	struct ck_safetensors_load l = { .cp = cp, .c = c, .d = d };
	struct ck_torch_load *beside = NULL;
	int rc = load_all(&l, &beside, options);

	(void)fetched;
	load_fini(&l);
	ck_torch_beside_free(beside);
	return rc;
}

static bool is_part(const char *name)
{
	return ck_name_ends(name, "." SUFFIX) || ck_name_ends(name, INDEX);
}

static void forget(struct ck_checkpoint *cp)
{
	struct own *own = cp->own;

	if (own)
		ck_torch_state_free(own->beside);
	free(own);
}

const struct ck_format ck_format_safetensors = {
	.name = "safetensors",
	.suffix = "." SUFFIX,
	.is_part = is_part,
	.rank = rank,
	.head = head,
	.sum = sum,
	.pickle_sum = pickle_sum,
	.record = record,
	.load = load,
	.forget = forget,
	.is_sure = true,
};
