/* SPDX-License-Identifier: MIT */
/*
 * checkpoint: opens and closes a checkpoint. Opening detects the format, loads the first
 * catalog, and makes the caches of the checkpoint. The directory is opened once, and all its
 * files beneath that descriptor.
 *
 * One thread opens a checkpoint. Then any thread may use it, see current/. The thread that
 * closes it must be its last user.
 */
#include "ckptfs/memory.h"
#include "detect.h"
#include "format/current/blob.h"
#include "format/current/current.h"
#include "format/current/items_read.h"
#include "format/current/layout_internal.h"
#include "format/current/undone.h"
#include "format/flat/sidecar_source.h"
#include "format/item/remarks.h"
#include "format/load/load_gather.h"
#include "format/load/side_files.h"
#include "hub_cache.h"
#include "warn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Limit of open and mapped data files. The usual hard limits are 20,000 descriptors and
 * 65,530 mappings. */
enum { MAX_OPEN = 4096 };

/* Returns at most half of RLIMIT_NOFILE: reads in flight may hold more files open than the
 * cache keeps. */
static uint32_t max_open(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return MAX_OPEN;
	return (uint32_t)ck_min(limit.rlim_cur / 2, MAX_OPEN);
}

/* Makes the path of a missing directory absolute. Caller owns the text. NULL, with errno, if
 * memory is short or the current directory was removed. */
static char *absolute(const char *path)
{
	ck_auto_free char *here = *path == '/' ? strdup("") : getcwd(NULL, 0);
	char *out;

	if (!here || asprintf(&out, "%s%s%s", here, *here ? "/" : "", path) < 0)
		return NULL;
	return out;
}

/* Called if only other hosts have the directory: opens an empty, unlinked directory in its
 * place. The mode of the remote directories is unknown, so only the owner may enter. */
static int open_nowhere(struct ck_checkpoint *cp, struct ck_catalog *c,
			const char *path, struct ck_diag *d)
{
	char name[] = "/tmp/ckptfs-XXXXXX";

	cp->no_local_dir = true;
	cp->path = absolute(path);
	if (!cp->path)
		return ck_fail(d, errno, "%s", strerror(errno));
	if (!mkdtemp(name))
		return ck_fail(d, errno, "%s: %s", name, strerror(errno));
	cp->dirfd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)rmdir(name);
	if (cp->dirfd < 0)
		return ck_fail(d, errno, "%s: %s", name, strerror(errno));
	c->dir_mode = S_IFDIR | S_IRWXU;
	return 0;
}

/* Opens the directory that contains the file cp->path. Returns 0, or: -ENOTDIR if cp->path is
 * not a regular file; -ENOMEM; errors of open(2). */
static int open_above(struct ck_checkpoint *cp)
{
	char *slash = strrchr(cp->path, '/');
	ck_auto_free char *above = strndup(
		cp->path, ck_max((size_t)(slash - cp->path), (size_t)1));
	struct stat st;

	cp->file = strdup(slash + 1);
	if (!above || !cp->file)
		return -ENOMEM;
	cp->dirfd = open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (cp->dirfd < 0 ||
	    fstatat(cp->dirfd, cp->file, &st, AT_SYMLINK_NOFOLLOW))
		return -errno;
	return S_ISREG(st.st_mode) ? 0 : -ENOTDIR;
}

static int open_source(struct ck_checkpoint *cp, struct ck_catalog *c,
		       const char *path, struct ck_diag *d)
{
	struct stat st;
	int rc;

	cp->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = cp->dirfd < 0 ? -errno : 0;
	if (rc == -ENOENT && cp->elsewhere)
		return open_nowhere(cp, c, path, d);
	if (rc && (rc != -ENOTDIR || cp->elsewhere))
		return ck_fail(d, -rc, "%s", strerror(-rc));
	cp->path = realpath(path, NULL);
	if (!cp->path)
		return ck_fail(d, errno, "%s", strerror(errno));
	if (rc)
		rc = open_above(cp);
	if (rc == 0 && fstat(cp->dirfd, &st))
		rc = -errno;
	if (rc == 0)
		rc = ck_directory_mode(cp, &c->dir_mode);
	if (rc)
		return ck_fail(d, -rc, "%s", strerror(-rc));
	cp->dev = st.st_dev;
	cp->ino = st.st_ino;
	return 0;
}

/* Opens the directory of option linkroot, or without the option the blobs of a Hugging Face
 * cache, if the checkpoint is in one. */
static int open_linkroot(struct ck_checkpoint *cp, const char *path,
			 struct ck_diag *d)
{
	if (!path && !cp->elsewhere)
		cp->linkroot = ck_hub_cache_open_blobs(cp->path);
	if (!path)
		return 0;
	if (cp->elsewhere)
		return ck_fail(
			d, EINVAL,
			"option linkroot: not for a checkpoint that lies "
			"on several hosts");
	cp->linkroot = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (cp->linkroot >= 0)
		return 0;
	return ck_fail(d, errno, "linkroot=%s: %s", ck_show(ck_str_from(path)),
		       strerror(errno));
}

/* Parses the file of option rename. */
static int renames_of(const char *path, const struct ck_renames **out,
		      struct ck_diag *d)
{
	ck_auto_fd int fd = open(path,
				 O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct ck_metadata_text text = { 0 };
	int rc;

	if (fd < 0)
		return ck_fail(d, errno, "option rename: %s: %s",
			       ck_show(ck_str_from(path)), strerror(errno));
	rc = ck_metadata_text_of(fd, path, CK_RENAMES_MOST, &text, d);
	if (rc == 0) {
		rc = ck_renames_parse((struct ck_str){ text.pages, text.len },
				      out, d);
		if (rc)
			ck_diag_prefix(d, "%s", ck_show(ck_str_from(path)));
	}
	ck_metadata_text_fini(&text);
	if (rc)
		ck_diag_prefix(d, "option rename");
	return rc;
}

/* Sets the renames of the catalog. A run directory parses the file once for all its steps,
 * and passes the result in options->renames. */
static int read_renames(struct ck_catalog *c,
			const struct ck_format_options *options,
			struct ck_diag *d)
{
	const struct ck_renames *m = ck_renames_hold(options->renames);
	int rc = m || !options->rename ? 0 : renames_of(options->rename, &m, d);

	ck_catalog_rename(c, m);
	ck_renames_put(m);
	return rc;
}

/* Sets the selection of the catalog. Patterns are checked when options are parsed. */
static int set_selection(struct ck_catalog *c,
			 const struct ck_format_options *options,
			 struct ck_diag *d)
{
	const struct ck_selection *s = ck_selection_hold(options->selection);
	int rc = s ? 0
		   : ck_selection_make(options->only, options->exclude, &s, d);

	ck_catalog_select(c, s);
	ck_selection_put(s);
	return rc;
}

static int make_files(struct ck_checkpoint *cp,
		      const struct ck_format_options *options)
{
	uint32_t most = max_open();

	if (options->files_most && options->files_most < most)
		most = options->files_most;
	cp->files = ck_files_make(cp->dirfd, options->shardlinks, most);
	if (!cp->files)
		return -ENOMEM;
	ck_files_watch_ctime(cp->files);
	return cp->linkroot < 0
		       ? 0
		       : ck_files_set_linkroot(cp->files, cp->linkroot);
}

/* Looks on all hosts for metadata with a fixed name; all copies must be equal. Returns 0, or:
 * -ENOENT if no host has any; errors of ck_remote_source.metadata(). */
static int find_remote(struct ck_checkpoint *cp, const struct ck_kinds *kinds,
		       const struct ck_format_options *options,
		       struct ck_fetched_metadata *fetched,
		       const struct ck_kind **kind, struct ck_diag *d)
{
	struct ck_remote_source *e = cp->elsewhere;
	int rc = -ENOENT;

	for (size_t i = 0; i < kinds->n && rc == -ENOENT; i++) {
		const struct ck_format *format = kinds->rows[i].format;

		if (!format || !format->metadata ||
		    (options->kind && strcmp(format->name, options->kind) != 0))
			continue;
		*kind = &kinds->rows[i];
		rc = e->metadata(e, ck_str_from(format->metadata),
				 format->metadata_most, &fetched->info,
				 &fetched->pages, d);
	}
	cp->metadata_remote = fetched->pages != NULL;
	return rc;
}

/* Detects the format from the file names of all hosts together. Returns 0 or an error. */
static int find_among(struct ck_checkpoint *cp, const struct ck_kinds *kinds,
		      const struct ck_format_options *options,
		      const struct ck_kind **kind, struct ck_diag *d)
{
	const struct ck_src src = { .dirfd = cp->dirfd,
				    .elsewhere = cp->elsewhere,
				    .kind = options->kind,
				    .level = CK_RUN_LEVELS };
	int rc = ck_kind_find(kinds, &src, kind, d);

	if (rc == 0 && (*kind)->format->of_one_host)
		return ck_fail(d, EINVAL,
			       "checkpoints of kind %s are not read from "
			       "several hosts: give the directory of one step",
			       (*kind)->format->name);
	if (rc != -ENOENT)
		return rc;
	rc = ck_kind_unfinished(kinds, &src, d);
	if (rc == 0 && options->kind)
		rc = ck_kind_missing(kinds, &src, d);
	return rc ? rc
		  : ck_fail(d, ENOENT,
			    "no host has a .metadata, and all hosts together "
			    "have no other checkpoint in this directory; "
			    "expected safetensors, or files of torch.save");
}

static int find_over_hosts(struct ck_checkpoint *cp,
			   const struct ck_kinds *kinds,
			   const struct ck_format_options *options,
			   struct ck_fetched_metadata *fetched,
			   const struct ck_kind **kind, struct ck_diag *d)
{
	int rc = find_remote(cp, kinds, options, fetched, kind, d);

	return rc == -ENOENT ? find_among(cp, kinds, options, kind, d) : rc;
}

static int find_here(const struct ck_checkpoint *cp,
		     const struct ck_kinds *kinds, const char *path,
		     const struct ck_format_options *options,
		     const struct ck_kind **kind, struct ck_diag *d)
{
	const struct ck_src src = {
		.dirfd = cp->dirfd,
		.file = cp->file,
		.kind = options->kind,
		.level = CK_RUN_LEVELS -
			 (unsigned)ck_min(CK_RUN_LEVELS, options->in_runs)
	};
	int rc;

	if (src.file && !options->kind && ck_part_of_dcp(src.file))
		return ck_diagnose_file(&src, path, d);
	if (!src.file && !options->kind && ck_is_mount(cp->dirfd))
		return ck_fail(d, EBADMSG,
			       "a mount of ckptfs; give its source, which "
			       "`ckptfs mounts` lists");
	rc = ck_kind_find(kinds, &src, kind, d);
	if (rc != -ENOENT)
		return rc;
	rc = ck_kind_unfinished(kinds, &src, d);
	if (rc == 0 && options->kind)
		rc = ck_kind_missing(kinds, &src, d);
	if (rc == 0)
		rc = src.file
			     ? ck_diagnose_file(&src, path, d)
			     : ck_diagnose_directory(kinds, cp->dirfd, path, d);
	return rc;
}

static int find_kind(struct ck_checkpoint *cp, const struct ck_kinds *kinds,
		     const char *path, const struct ck_format_options *options,
		     struct ck_fetched_metadata *fetched, struct ck_diag *d)
{
	const struct ck_kind *kind = NULL;
	int rc = cp->elsewhere ? find_over_hosts(cp, kinds, options, fetched,
						 &kind, d)
			       : find_here(cp, kinds, path, options, &kind, d);

	if (rc)
		return rc;
	cp->format = kind->format;
	cp->why = kind->why;
	return 0;
}

static int describe_files(const struct ck_checkpoint *cp, struct ck_catalog *c)
{
	int rc = 0;

	for (uint32_t i = 0; i < ck_files_count(cp->files) && !rc; i++) {
		struct ck_data_file file = ck_file_described(cp, i);

		rc = ck_catalog_file_add(c, &file);
	}
	return rc;
}

static int load(struct ck_checkpoint *cp, const char *path,
		const struct ck_format_options *options,
		const struct ck_kinds *kinds,
		struct ck_fetched_metadata *fetched, struct ck_diag *d)
{
	struct ck_catalog *c = ck_catalog_make("");
	int rc;

	cp->catalog = c;
	if (!c)
		return ck_fail(d, ENOMEM, "out of memory");
	cp->elsewhere = options->elsewhere;
	cp->write = options->write;
	rc = read_renames(c, options, d);
	if (rc == 0)
		rc = set_selection(c, options, d);
	if (rc == 0)
		rc = ck_sidecar_source_check(options, d);
	if (rc == 0)
		rc = open_source(cp, c, path, d);
	if (rc == 0)
		rc = open_linkroot(cp, options->linkroot, d);
	if (rc == 0)
		rc = find_kind(cp, kinds, path, options, fetched, d);
	if (rc)
		return rc;
	c->kind = cp->format->name;
	cp->reach = (struct ck_reach){ cp->dirfd, options->shardlinks,
				       cp->linkroot };
	rc = make_files(cp, options);
	if (rc)
		return ck_fail(d, -rc, "%s", strerror(-rc));
	rc = cp->format->load(cp, c, options, fetched, d);
	if (rc == 0 && !cp->format->has_sidecar)
		rc = ck_sidecar_source_note_unread(cp, c, options,
						   "of such a checkpoint", d);
	if (rc == 0 && cp->elsewhere && ck_side_files_fetch(cp, c))
		rc = ck_fail(d, ENOMEM, "out of memory");
	if (rc == 0 && cp->elsewhere)
		rc = ck_checkpoint_gather_all(cp, c, d);
	if (rc)
		return rc;
	if (describe_files(cp, c) || ck_misplaced_note(cp, c) ||
	    ck_deepspeed_note(cp, c) || ck_subdirectories_note(cp, c) ||
	    ck_huggingface_note(cp, c))
		return ck_fail(d, ENOMEM, "out of memory");
	rc = ck_catalog_finish(c, d);
	if (rc)
		return rc;
	cp->layouts = ck_layouts_make(c);
	cp->items_read = ck_items_read_make(c);
	cp->access = ck_access_make(c);
	cp->blobs = ck_blobs_make();
	cp->undones = ck_undones_make();
	return cp->layouts && cp->items_read && cp->access && cp->blobs &&
			       cp->undones
		       ? 0
		       : ck_fail(d, ENOMEM, "out of memory");
}

int ck_checkpoint_open_as(const char *path,
			  const struct ck_format_options *options,
			  const struct ck_kinds *kinds,
			  struct ck_checkpoint **out, struct ck_diag *d)
{
	struct ck_checkpoint *cp = calloc(1, sizeof(*cp));
	struct ck_fetched_metadata fetched = { 0 };
	int rc;

	if (!cp)
		return ck_fail(d, ENOMEM, "out of memory");
	cp->dirfd = cp->linkroot = -1;
	cp->metadata_file = CK_NO_FILE;
	pthread_mutex_init(&cp->changing, NULL);
	pthread_mutex_init(&cp->lock, NULL);
	cp->remarks = ck_remarks_make();
	rc = cp->remarks ? load(cp, path, options, kinds, &fetched, d)
			 : ck_fail(d, ENOMEM, "out of memory");
	ck_pages_free(fetched.pages, (size_t)fetched.info.size);
	if (rc) {
		ck_diag_prefix(d, "%s", ck_show(ck_str_from(path)));
		ck_checkpoint_close(cp);
		return rc;
	}
	*out = cp;
	return 0;
}

int ck_checkpoint_open(const char *path,
		       const struct ck_format_options *options,
		       struct ck_checkpoint **out, struct ck_diag *d)
{
	return ck_checkpoint_open_as(path, options, &ck_kinds, out, d);
}

void ck_checkpoint_close(struct ck_checkpoint *cp)
{
	if (!cp)
		return;
	ck_layouts_free(cp->layouts);
	ck_items_read_free(cp->items_read);
	ck_blobs_free(cp->blobs);
	ck_undones_free(cp->undones);
	ck_remarks_free(cp->remarks);
	free(cp->access);
	ck_catalog_put(cp->catalog);
	ck_files_free(cp->files);
	ck_side_files_free(cp->side_files);
	if (cp->format)
		cp->format->forget(cp);
	if (cp->dirfd >= 0)
		close(cp->dirfd);
	if (cp->linkroot >= 0)
		close(cp->linkroot);
	pthread_mutex_destroy(&cp->changing);
	pthread_mutex_destroy(&cp->lock);
	free(cp->metadata_name);
	free(cp->metadata_sum);
	free(cp->file);
	free(cp->path);
	free(cp);
}

const char *ck_checkpoint_kind(const struct ck_checkpoint *cp)
{
	return cp->format->name;
}

void ck_checkpoint_log_troubles(const struct ck_checkpoint *cp)
{
	uint32_t n = 0, first = 0;

	for (uint32_t i = ck_files_count(cp->files); i > 0 && i--;)
		if (ck_files_trouble(cp->files, i) &&
		    !ck_files_is_remote(cp->files, i)) {
			first = i;
			n++;
		}
	if (n)
		ck_log("%s: %s: %s%s; asked again when it is used",
		       ck_show(ck_str_from(cp->path)),
		       ck_show(ck_files_info(cp->files, first)->path),
		       strerrordesc_np(ck_files_trouble(cp->files, first)),
		       n == 1 ? "" : ck_shown(", and %u more files", n - 1));
}
