/* SPDX-License-Identifier: MIT */
/*
 * objects_test: compares the JSON text of each non-tensor entry of all fixtures with
 * Python's text of the saved value (NAME.objects.jsonl), byte for byte. It also
 * compares the nested state dict (NAME.state_dict.json).
 *
 *	objects_test FIXTURES
 */
#include "ckptfs/format.h"
#include "ckptfs/report.h"
#include "object_item.h"
#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t object_of(const struct ck_catalog *c, const char *stem)
{
	int64_t entry = ck_catalog_find(c, ck_str_from(stem));

	if (entry < 0 || !c->listing->entries[entry].is_object)
		return -1;
	return c->listing->entries[entry].i;
}

static void check_line(struct ck_checkpoint *cp, const char *fixture,
		       const json_t *line)
{
	const char *stem = json_string_value(json_object_get(line, "stem"));
	const json_t *json = json_object_get(line, "json");
	int64_t object = object_of(cp->catalog, stem);
	struct ck_buf out = { 0 }, item = { 0 };
	struct ck_diag d = { 0 };

	printf("# %s: %s\n", fixture, stem);
	if (!ok(object >= 0))
		return;
	eq_err(ck_object_json(cp, (uint32_t)object, &out, &d), 0);
	if (d.err)
		printf("# %s\n", d.text);
	eq_mem(out.data, out.len, json_string_value(json),
	       json_string_length(json));
	eq_err(object_item(cp, (uint32_t)object, &item, NULL), 0);
	ok(item.len > 4 && memcmp(item.data, "PK\3\4", 4) == 0);
	ck_buf_fini(&item);
	ck_buf_fini(&out);
}

static void check_objects(struct ck_checkpoint *cp, const char *fixture,
			  const char *path)
{
	FILE *f = fopen(path, "r");
	size_t lines = 0, room = 0;
	char *text = NULL;

	while (f && getline(&text, &room, f) > 0) {
		json_t *line = json_loads(text, JSON_ALLOW_NUL, NULL);

		check_line(cp, fixture, line);
		json_decref(line);
		lines++;
	}
	eq_u64(lines, cp->catalog->objects.n);
	free(text);
	if (f)
		fclose(f);
}

static void check_state_dict(const struct ck_checkpoint *cp, const char *path)
{
	FILE *f = fopen(path, "r");
	struct ck_buf out = { 0 };
	size_t room = 0;
	char *text = NULL;
	ssize_t len;

	if (!ok(f != NULL))
		return;
	len = getline(&text, &room, f);
	ck_report_state_dict(cp->catalog, &out);
	eq_mem(out.data, out.len, text, len < 0 ? 0 : (size_t)len);
	ck_buf_fini(&out);
	free(text);
	fclose(f);
}

static void check_fixture(const char *dir, const char *name)
{
	static const struct ck_format_options options;
	struct ck_checkpoint *cp = NULL;
	struct ck_diag d = { 0 };
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	eq_err(ck_checkpoint_open(path, &options, &cp, &d), 0);
	if (!cp) {
		printf("# %s\n", d.text);
		return;
	}
	snprintf(path, sizeof(path), "%s/%s.objects.jsonl", dir, name);
	check_objects(cp, name, path);
	snprintf(path, sizeof(path), "%s/%s.state_dict.json", dir, name);
	check_state_dict(cp, path);
	ck_checkpoint_close(cp);
}

static bool is_fixture(const char *dir, const char *name)
{
	char path[512];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s/.metadata", dir, name);
	return name[0] != '.' && strncmp(name, "should-fail-", 12) != 0 &&
	       stat(path, &st) == 0;
}

/* --- damaged files ----------------------------------------------------------- */

static char damaged[] = "/tmp/ckptfs-objects-XXXXXX";

static void copy_file(const char *from, const char *name)
{
	static char bytes[65536];
	char path[512];
	ssize_t len;
	int in, out;

	snprintf(path, sizeof(path), "%s/plain/%s", from, name);
	in = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/%s", damaged, name);
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	len = in < 0 ? -1 : read(in, bytes, sizeof(bytes));
	if (out < 0 || len <= 0 || len == sizeof(bytes) ||
	    ck_write_full(out, bytes, (size_t)len))
		abort();
	close(in);
	close(out);
}

/* Opens a copy of the fixture `plain`, whose one entry is a step. */
static struct ck_checkpoint *copy_open(const char *from)
{
	static const struct ck_format_options options;
	struct ck_checkpoint *cp = NULL;

	copy_file(from, ".metadata");
	copy_file(from, "__0_0.distcp");
	eq_err(ck_checkpoint_open(damaged, &options, &cp, NULL), 0);
	return cp;
}

static const char *data_path(void)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/__0_0.distcp", damaged);
	return path;
}

/* All three functions must fail without appending text. place: result of the lookup, which
 * does not read the file. */
static void check_error(struct ck_checkpoint *cp, int place, int want)
{
	struct ck_buf out = { 0 };
	struct ck_object_place where;
	struct ck_diag d = { 0 };

	ck_buf_text(&out, "before");
	eq_err(ck_object_place(cp, 0, &where), place);
	eq_err(ck_object_json(cp, 0, &out, &d), want);
	eq_i64(d.err, -want);
	ok(strstr(d.text, "step: ") == d.text);
	eq_text(out.data, "before");
	eq_err(object_item(cp, 0, &out, NULL), want == -EBADMSG ? 0 : want);
	ck_buf_fini(&out);
}

static void damage(uint64_t fpos, const char *bytes)
{
	int fd = open(data_path(), O_WRONLY | O_CLOEXEC);

	if (fd < 0 || pwrite(fd, bytes, strlen(bytes), (off_t)fpos) !=
			      (ssize_t)strlen(bytes))
		abort();
	close(fd);
}

static void check_damage(const char *from)
{
	struct ck_checkpoint *cp = copy_open(from);
	struct ck_object_place where = { 0 };

	eq_err(ck_object_place(cp, 0, &where), 1);
	eq_u64(where.file, 0);
	unlink(data_path());
	check_error(cp, 1, -ESTALE);
	ck_checkpoint_close(cp);

	cp = copy_open(from);
	if (truncate(data_path(), (off_t)where.fpos + 100))
		abort();
	check_error(cp, 1, -ESTALE);
	ck_checkpoint_close(cp);
}

/* Damage that exists when the checkpoint is opened. */
static void check_damage_before(const char *from)
{
	static const struct ck_format_options options;
	struct ck_checkpoint *cp = copy_open(from);
	struct ck_object_place where = { 0 };

	eq_err(ck_object_place(cp, 0, &where), 1);
	ck_checkpoint_close(cp);
	damage(where.fpos, "XX");
	eq_err(ck_checkpoint_open(damaged, &options, &cp, NULL), 0);
	check_error(cp, 1, -EBADMSG);
	ck_checkpoint_close(cp);

	if (truncate(data_path(), (off_t)(where.fpos + where.length) - 1))
		abort();
	eq_err(ck_checkpoint_open(damaged, &options, &cp, NULL), 0);
	check_error(cp, -ENODATA, -ENODATA);
	ck_checkpoint_close(cp);

	unlink(data_path());
	eq_err(ck_checkpoint_open(damaged, &options, &cp, NULL), 0);
	check_error(cp, -ENODATA, -ENODATA);
	ck_checkpoint_close(cp);
}

static void check_faults(const char *from)
{
	char path[512];

	if (!mkdtemp(damaged))
		abort();
	check_damage(from);
	check_damage_before(from);
	snprintf(path, sizeof(path), "%s/.metadata", damaged);
	unlink(path);
	rmdir(damaged);
}

int main(int argc, char **argv)
{
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (is_fixture(argv[1], entry->d_name))
			check_fixture(argv[1], entry->d_name);
	if (dir) {
		closedir(dir);
		check_faults(argv[1]);
	}
	ok(tap_count > 0);
	return tap_done();
}
