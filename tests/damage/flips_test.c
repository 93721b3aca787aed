/* SPDX-License-Identifier: MIT */
/*
 * A small checkpoint of PyTorch, cut at every byte and with every bit flipped,
 * one at a time. A mount must serve an error or the saved bytes, unless
 * `check --full` reports the damage. Safetensors and files of torch.save before 1.6
 * have no checksums: a flipped bit of their data changes that bit of one tensor only,
 * and the tensors before a cut must be readable.
 *
 *	flips_test DIRECTORY [FILE]	only that file of it is changed
 *
 * CKPTFS_FLIPS: every n-th byte is changed, default 17; in `tests/run --all` 1.
 */
#include "read_case.h"
#include "tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES_MAX = 16 };

struct file {
	char name[64];
	uint8_t *bytes;
	size_t len;
	int fd; /* of the copy */
};

struct truth {
	char *name;	/* of a tensor, with its dtype and shape */
	uint8_t *bytes; /* of all elements */
	uint64_t len;
	uint64_t begin, end; /* in its file, if it is one piece of one */
};

/* The result of one change. */
struct outcome {
	bool refused, reported, explained;
	unsigned readable; /* tensors whose bytes are all readable */
	unsigned wrong;	   /* tensors with changed bytes under their name */
	unsigned bits;	   /* changed bits of these */
	unsigned missing;  /* names without a tensor */
};

static char dir[] = "/tmp/ckptfs-flips-XXXXXX";
static struct file files[FILES_MAX];
static size_t nfiles;
static struct truth *truths;
static size_t ntruths;
static size_t step; /* distance between two changed bytes */

/* --- files ---------------------------------------------------------------- */

static void write_file(const struct file *f)
{
	if (ftruncate(f->fd, 0) || ck_write_full(f->fd, f->bytes, f->len))
		abort();
	lseek(f->fd, 0, SEEK_SET);
}

static void read_file(const char *from, const char *name)
{
	struct file *f = &files[nfiles++];
	struct stat st;
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", from, name);
	snprintf(f->name, sizeof(f->name), "%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st))
		abort();
	f->len = (size_t)st.st_size;
	f->bytes = malloc(f->len + 1);
	if (!f->bytes || ck_pread_full(fd, f->bytes, f->len, 0))
		abort();
	close(fd);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (f->fd < 0)
		abort();
	write_file(f);
}

static void read_files(const char *from)
{
	DIR *d = opendir(from);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (strcmp(e->d_name, ".") != 0 &&
		    strcmp(e->d_name, "..") != 0 && nfiles < FILES_MAX)
			read_file(from, e->d_name);
	if (!d || nfiles == 0)
		abort();
	closedir(d);
}

/* --- contents of a mount ------------------------------------------------------ */

static char *name_of(const struct ck_catalog *c, const struct ck_tensor *t)
{
	struct ck_buf b = { 0 };

	ck_buf_escaped(&b, ck_tensor_names(c, t->entry.number).name);
	ck_buf_text(&b, " ");
	ck_buf_escaped(&b, t->facts->dtype_name);
	ck_dims_print(&b, t->shape, t->ndim);
	return b.data;
}

/* All bytes of a tensor. The caller owns `*out`. */
static int read_tensor(struct ck_checkpoint *cp, uint32_t tensor, uint8_t **out,
		       uint64_t *len)
{
	const struct ck_tensor_view *raw = ck_tensor_views[1];
	int rc = -ck_catalog_tensor(cp->catalog, tensor)->err;

	if (rc)
		return rc;
	*len = raw->size(cp->catalog, tensor);
	*out = calloc(1, *len + 1);
	rc = read_case(cp, tensor, NULL, *out);
	if (rc)
		free(*out);
	return rc;
}

static unsigned bits_between(const uint8_t *a, const uint8_t *b, uint64_t len)
{
	unsigned n = 0;

	for (uint64_t i = 0; i < len; i++)
		n += (unsigned)__builtin_popcount(a[i] ^ b[i]);
	return n;
}

static void compare(struct ck_checkpoint *cp, uint32_t tensor,
		    const struct truth *truth, struct outcome *out)
{
	uint8_t *bytes;
	uint64_t len;

	if (read_tensor(cp, tensor, &bytes, &len))
		return;
	out->readable++;
	if (len != truth->len)
		abort(); /* of the same shape and dtype */
	if (memcmp(bytes, truth->bytes, len) != 0) {
		out->wrong++;
		out->bits += bits_between(bytes, truth->bytes, len);
	}
	free(bytes);
}

static void look_at_tensors(struct ck_checkpoint *cp, struct outcome *out)
{
	const struct ck_catalog *c = cp->catalog;

	out->missing = (unsigned)ntruths;
	for (uint32_t i = 0; i < c->tensors.n; i++) {
		char *name = name_of(c, ck_catalog_tensor(c, i));

		for (size_t k = 0; k < ntruths; k++) {
			if (strcmp(name, truths[k].name) != 0)
				continue;
			out->missing--;
			compare(cp, i, &truths[k], out);
		}
		free(name);
	}
}

/* Opens the directory as it is now. */
static struct outcome look(void)
{
	static const struct ck_format_options options = { 0 };
	static const struct ck_check_options all = { .full = true,
						     .threads = 1 };
	struct ck_checkpoint *cp = NULL;
	struct ck_findings findings;
	struct outcome out = { 0 };
	struct ck_diag d = { 0 };

	if (ck_checkpoint_open(dir, &options, &cp, &d)) {
		out.refused = true;
		out.explained = *d.text != '\0';
		return out;
	}
	look_at_tensors(cp, &out);
	if (ck_checkpoint_check(cp, &all, &findings, &d))
		abort();
	out.reported = findings.n > 0;
	ck_findings_fini(&findings);
	ck_checkpoint_close(cp);
	return out;
}

static void place(const struct ck_catalog *c, uint32_t tensor,
		  struct truth *truth)
{
	const struct ck_tensor *t = ck_catalog_tensor(c, tensor);
	const struct ck_item *item;

	if (t->nchunks != 1)
		return;
	item = ck_catalog_item(c, t->chunk);
	truth->begin = item->fpos;
	truth->end = item->fpos + item->length;
}

static void remember(void)
{
	static const struct ck_format_options options = { 0 };
	struct ck_checkpoint *cp = NULL;

	if (ck_checkpoint_open(dir, &options, &cp, NULL))
		abort();
	ntruths = cp->catalog->tensors.n;
	truths = calloc(ntruths + 1, sizeof(*truths));
	for (uint32_t i = 0; truths && i < ntruths; i++) {
		truths[i].name = name_of(cp->catalog,
					 ck_catalog_tensor(cp->catalog, i));
		if (read_tensor(cp, i, &truths[i].bytes, &truths[i].len))
			abort();
		place(cp->catalog, i, &truths[i]);
	}
	ck_checkpoint_close(cp);
}

/* --- the tests ---------------------------------------------------------------- */

static bool is_metadata(const struct file *f)
{
	return strcmp(f->name, ".metadata") == 0;
}

static void test_unchanged(void)
{
	struct outcome got = look();

	ok(ntruths > 0);
	ok(!got.refused && !got.reported && !got.wrong && !got.missing);
	eq_u64(got.readable, ntruths);
}

/* Canary: wrong bytes are detected. */
static void test_wrong_is_seen(void)
{
	struct outcome got;

	truths[0].bytes[0] ^= 4;
	got = look();
	truths[0].bytes[0] ^= 4;
	eq_u64(got.wrong, 1);
	eq_u64(got.bits, 1);
}

static bool is_legacy(const struct file *f)
{
	return f->len >= 5 && memcmp(f->bytes, "\x80\2\x8a\nl", 5) == 0;
}

static bool is_safetensors(const struct file *f)
{
	return strstr(f->name, ".safetensors");
}

/* The offset of the data in a file without checksums; for torch.save it includes the length of
 * the first storage. 0 if the file has checksums. */
static uint64_t storages_of(const struct file *f)
{
	uint64_t first = 0;

	if (!is_legacy(f) && !is_safetensors(f))
		return 0;
	for (size_t i = 0; i < ntruths; i++)
		if (first == 0 || truths[i].begin < first)
			first = truths[i].begin;
	return is_legacy(f) ? first - sizeof(first) : first;
}

/* The number of tensors that a file cut at `len` contains. */
static unsigned held(const struct file *f, size_t len)
{
	unsigned n = 0;

	for (size_t i = 0; len >= storages_of(f) && i < ntruths; i++)
		n += truths[i].end <= len;
	return n;
}

/* Each length shorter than the file: the damage is reported, and no wrong bytes are served. */
static void test_cut(const struct file *f)
{
	unsigned silent = 0, wrong = 0, lost = 0, unexplained = 0;

	for (size_t len = f->len; len > 0;) {
		struct outcome got;

		len -= len < step ? len : step;

		if (ftruncate(f->fd, (off_t)len))
			abort();
		got = look();
		silent += !got.refused && !got.reported;
		wrong += got.wrong;
		unexplained += got.refused && !got.explained;
		if (storages_of(f))
			lost += got.readable != held(f, len);
	}
	write_file(f);
	printf("# %s cut at each %zu-th of %zu bytes\n", f->name, step, f->len);
	eq_u64(silent, 0);
	eq_u64(wrong, 0);
	eq_u64(lost, 0);
	eq_u64(unexplained, 0);
}

struct tally {
	unsigned refused, reported, silent, payload, missing, bad;
};

/* A shard: at most one bit of the data is wrong, and the damage is reported. A change without
 * a report has no effect. */
static bool shard_is_fine(const struct outcome *got)
{
	if (got->missing || got->wrong > 1)
		return false;
	return got->reported || !got->wrong;
}

/* .metadata: no wrong bytes are served under a tensor's name. */
static bool metadata_is_fine(const struct outcome *got)
{
	return got->refused || got->reported || !got->wrong;
}

/* A single archive: it is refused if it has no tensor. */
static bool archive_is_fine(const struct outcome *got)
{
	return got->refused ? got->explained
			    : got->reported || (!got->wrong && !got->missing);
}

/* Storages without checksums: a flipped bit of data changes that bit; one of a length loses
 * tensors. */
static bool storage_is_fine(const struct file *f, size_t at,
			    const struct outcome *got)
{
	bool data = false;

	for (size_t i = 0; i < ntruths; i++)
		data |= truths[i].begin <= at && at < truths[i].end;
	/* Changes of a pickle are not detectable; valid JSON has other names. */
	if (at < storages_of(f))
		return is_legacy(f) || !got->wrong;
	if (got->refused || got->missing)
		return false;
	return data ? got->wrong && got->bits == got->wrong
		    : !got->wrong && got->reported;
}

static bool is_fine(const struct file *f, size_t at, const struct outcome *got)
{
	if (is_metadata(f))
		return metadata_is_fine(got);
	if (storages_of(f))
		return storage_is_fine(f, at, got);
	return strstr(f->name, ".pt") ? archive_is_fine(got)
				      : shard_is_fine(got);
}

static void flip(struct file *f, size_t at, unsigned bit, struct tally *t)
{
	uint8_t other = (uint8_t)(f->bytes[at] ^ (1U << bit));
	struct outcome got;
	bool fine;

	if (pwrite(f->fd, &other, 1, (off_t)at) != 1)
		abort();
	got = look();
	if (pwrite(f->fd, &f->bytes[at], 1, (off_t)at) != 1)
		abort();
	fine = is_fine(f, at, &got);
	t->refused += got.refused;
	t->reported += got.reported;
	t->payload += got.wrong && got.bits == 1;
	t->silent += !got.refused && !got.reported;
	t->bad += !fine;
	if (!fine)
		printf("# %s byte %zu bit %u: %u tensors wrong in %u bits, "
		       "%u missing, %s\n",
		       f->name, at, bit, got.wrong, got.bits, got.missing,
		       got.reported ? "reported" : "not reported");
	/* Not detectable: a changed name is another tensor. */
	if (!got.refused && !got.reported && got.missing) {
		t->missing++;
		printf("# %s byte %zu bit %u: %u tensors have another name\n",
		       f->name, at, bit, got.missing);
	}
}

static void test_flips(struct file *f)
{
	struct tally t = { 0 };

	for (size_t at = 0; at < f->len; at += step)
		for (unsigned bit = 0; bit < 8; bit++)
			flip(f, at, bit, &t);
	printf("# %s: of %zu bits %u refused, %u reported, %u of them bits of "
	       "data; %u change nothing that is shown, but %u a name\n",
	       f->name, (f->len + step - 1) / step * 8, t.refused, t.reported,
	       t.payload, t.silent, t.missing);
	eq_u64(t.bad, 0);
}

static void clean_up(void)
{
	int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (uint32_t i = 0; i < nfiles; i++) {
		unlinkat(dirfd, files[i].name, 0);
		close(files[i].fd);
		free(files[i].bytes);
	}
	for (size_t i = 0; i < ntruths; i++) {
		free(truths[i].name);
		free(truths[i].bytes);
	}
	free(truths);
	close(dirfd);
	rmdir(dir);
}

int main(int argc, char **argv)
{
	if (argc != 2 && argc != 3)
		return 2;
	ck_log_detach();
	step = tap_cases("CKPTFS_FLIPS", 17, 1);
	if (!mkdtemp(dir))
		return 2;
	read_files(argv[1]);
	remember();
	test_unchanged();
	test_wrong_is_seen();
	for (uint32_t i = 0; i < nfiles; i++) {
		if (argc == 3 && strcmp(files[i].name, argv[2]) != 0)
			continue;
		test_cut(&files[i]);
		test_flips(&files[i]);
	}
	clean_up();
	return tap_done();
}
