/* SPDX-License-Identifier: MIT */
/* hostlist: parses the hosts of a mount from options and files, and the paths of the
 * checkpoint on them. A struct ck_host_list is filled by one thread, then completed by
 * hostlist_settle.c. */
#include "hostlist_internal.h"

#include <errno.h>
#include <stdio.h>
#include <strings.h>

enum {
	FILE_MOST = 1 << 20, /* bytes of a file of hosts */
	WHERE_SIZE = 512,    /* bytes of the location in a message */
};

/* --- pieces ------------------------------------------------------------------------- */

bool ck_host_piece(struct ck_str *rest, char separator, struct ck_str *piece)
{
	const char *end;

	if (!rest->p)
		return false;
	end = memchr(rest->p, separator, rest->len);
	*piece = *rest;
	if (!end) {
		*rest = (struct ck_str){ NULL, 0 };
		return true;
	}
	piece->len = (size_t)(end - rest->p);
	rest->p = end + 1;
	rest->len -= piece->len + 1;
	return true;
}

static bool is_one_of(char c, char first, char last)
{
	return c >= first && c <= last;
}

/* isalnum(3) depends on the locale. */
static bool is_name_char(char c)
{
	return is_one_of(c, 'a', 'z') || is_one_of(c, 'A', 'Z') ||
	       is_one_of(c, '0', '9') || c == '.' || c == '-';
}

int ck_host_name_check(struct ck_str name, const char *where, struct ck_diag *d)
{
	size_t good = 0;

	if (name.len == 0)
		return ck_fail(d, EINVAL, "%s: a name of a host is empty",
			       where);
	while (good < name.len && is_name_char(name.p[good]))
		good++;
	if (good < name.len || name.p[0] == '-')
		return ck_fail(d, EINVAL,
			       "%s: %s is no name of a host: expected letters, "
			       "digits, . and -, and no - at the beginning",
			       where, ck_show(name));
	if (name.len > CK_HOST_NAME_MOST)
		return ck_fail(d, EINVAL,
			       "%s: %s is no name of a host: it has more than "
			       "%d bytes",
			       where, ck_show(name), CK_HOST_NAME_MOST);
	return 0;
}

bool ck_host_is_named(const struct ck_host *host, struct ck_str name)
{
	return strlen(host->name) == name.len &&
	       strncasecmp(host->name, name.p, name.len) == 0;
}

static int out_of_memory(struct ck_diag *d)
{
	return ck_fail(d, ENOMEM, "out of memory");
}

/* --- hosts -------------------------------------------------------------------------- */

/* Parses a number of ranks. piece: for the message. */
static int ranks_of(struct ck_str text, struct ck_str piece, const char *where,
		    uint32_t *out, struct ck_diag *d)
{
	uint32_t n = 0;
	size_t i = 0;

	for (; i < text.len && is_one_of(text.p[i], '0', '9') && n < 100; i++)
		n = n * 10 + (uint32_t)(text.p[i] - '0');
	if (i < text.len || n < 1 || n > CK_HOST_RANKS_MOST)
		return ck_fail(d, EINVAL,
			       "%s: %s: expected a number of processes from 1 "
			       "to %d",
			       where, ck_show(piece), CK_HOST_RANKS_MOST);
	*out = n;
	return 0;
}

static int append(struct ck_host_list *list, struct ck_str name, uint32_t ranks,
		  struct ck_diag *d)
{
	struct ck_host *grown = ck_grow(list->hosts, &list->cap, list->n, 1,
					sizeof(*grown));
	struct ck_host host = { .ranks = ranks };

	if (!grown)
		return out_of_memory(d);
	list->hosts = grown;
	host.name = strndup(name.p, name.len);
	if (!host.name)
		return out_of_memory(d);
	list->hosts[list->n++] = host;
	return 0;
}

/* Adds one host, NAME[:N]. */
static int add_one(struct ck_host_list *list, struct ck_str piece,
		   const char *where, struct ck_diag *d)
{
	struct ck_str rest = piece, name;
	uint32_t ranks = 1;
	int rc;

	(void)ck_host_piece(&rest, ':', &name);
	rc = ck_host_name_check(name, where, d);
	if (rc == 0 && rest.p)
		rc = ranks_of(rest, piece, where, &ranks, d);
	if (rc)
		return rc;
	for (size_t i = 0; i < list->n; i++)
		if (ck_host_is_named(&list->hosts[i], name))
			return ck_fail(d, EINVAL, "%s: %s is named twice",
				       where, ck_show(name));
	if (list->n == CK_HOST_LIST_MOST)
		return ck_fail(d, EINVAL, "%s: more than %d hosts", where,
			       CK_HOST_LIST_MOST);
	return append(list, name, ranks, d);
}

int ck_host_list_add(struct ck_host_list *list, const char *text,
		     char separator, struct ck_diag *d)
{
	struct ck_str rest = ck_str_from(text), piece;
	int rc = 0;

	if (!*text)
		return ck_fail(d, EINVAL, "option hosts: names no host");
	while (rc == 0 && ck_host_piece(&rest, separator, &piece))
		rc = add_one(list, piece, "option hosts", d);
	return rc;
}

/* --- files of hosts ----------------------------------------------------------------- */

static struct ck_str trimmed(struct ck_str line)
{
	const char *note = line.len ? memchr(line.p, '#', line.len) : NULL;

	if (note)
		line.len = (size_t)(note - line.p);
	while (line.len && strchr(" \t\r", line.p[line.len - 1]) &&
	       line.p[line.len - 1])
		line.len--;
	while (line.len && (line.p[0] == ' ' || line.p[0] == '\t')) {
		line.p++;
		line.len--;
	}
	return line;
}

static int add_lines(struct ck_host_list *list, struct ck_str text,
		     const char *file, struct ck_diag *d)
{
	size_t number = 0, before = list->n;
	char where[WHERE_SIZE];
	struct ck_str line;
	int rc = 0;

	while (rc == 0 && ck_host_piece(&text, '\n', &line)) {
		number++;
		line = trimmed(line);
		if (line.len == 0)
			continue;
		(void)snprintf(where, sizeof(where),
			       "option hostfile: %s: line %zu",
			       ck_show(ck_str_from(file)), number);
		rc = add_one(list, line, where, d);
	}
	if (rc == 0 && list->n == before)
		rc = ck_fail(d, EINVAL, "option hostfile: %s: names no host",
			     ck_show(ck_str_from(file)));
	return rc;
}

/* Reads a file or a pipe. */
static int read_file(const char *file, struct ck_buf *out)
{
	FILE *stream = fopen(file, "re");
	char step[1024];
	size_t n;
	int err = 0;

	if (!stream)
		return -errno;
	while (out->len <= FILE_MOST &&
	       (n = fread(step, 1, sizeof(step), stream)) > 0)
		ck_buf_add(out, step, n);
	if (ferror(stream))
		err = -errno;
	(void)fclose(stream);
	if (!err && out->len > FILE_MOST)
		err = -EFBIG;
	return err ? err : out->err;
}

int ck_host_list_read(struct ck_host_list *list, const char *file,
		      struct ck_diag *d)
{
	struct ck_buf text = { 0 };
	int rc = read_file(file, &text);

	if (rc)
		rc = ck_fail(d, -rc, "option hostfile: %s: %s",
			     ck_show(ck_str_from(file)), strerror(-rc));
	else
		rc = add_lines(
			list,
			(struct ck_str){ text.len ? text.data : "", text.len },
			file, d);
	ck_buf_fini(&text);
	return rc;
}

/* --- paths -------------------------------------------------------------------------- */

static int add_map(struct ck_host_list *list, struct ck_str name,
		   struct ck_str path, struct ck_diag *d)
{
	struct ck_host *grown = ck_grow(list->maps, &list->maps_cap,
					list->nmaps, 1, sizeof(*grown));
	struct ck_host *map;

	if (!grown)
		return out_of_memory(d);
	list->maps = grown;
	map = &list->maps[list->nmaps++];
	*map = (struct ck_host){ .name = strndup(name.p, name.len),
				 .path = strndup(path.p, path.len) };
	return map->name && map->path ? 0 : out_of_memory(d);
}

static int map_one(struct ck_host_list *list, struct ck_str text,
		   struct ck_diag *d)
{
	struct ck_str path = text, name;
	int rc;

	(void)ck_host_piece(&path, '=', &name);
	if (!path.p)
		return ck_fail(d, EINVAL, "option map: %s: expected HOST=PATH",
			       ck_show(text));
	rc = ck_host_name_check(name, "option map", d);
	if (rc)
		return rc;
	if (path.len == 0 || path.p[0] != '/')
		return ck_fail(d, EINVAL,
			       "option map: %s: %s is no absolute path",
			       ck_show(name), ck_show(path));
	for (size_t i = 0; i < list->nmaps; i++)
		if (ck_host_is_named(&list->maps[i], name))
			return ck_fail(d, EINVAL,
				       "option map: %s is named twice",
				       ck_show(name));
	return add_map(list, name, path, d);
}

int ck_host_list_map(struct ck_host_list *list, const char *text,
		     struct ck_diag *d)
{
	return map_one(list, ck_str_from(text), d);
}

/* Takes the text before the next `+` that has no `\` before it. False at the end. */
static bool next_map(const char **text, struct ck_buf *map)
{
	const char *p = *text;

	map->len = 0;
	for (; *p && *p != '+'; p++) {
		if (p[0] == '\\' && (p[1] == '+' || p[1] == '\\'))
			p++;
		ck_buf_add(map, p, 1);
	}
	*text = p + 1;
	return *p != '\0';
}

int ck_host_list_map_all(struct ck_host_list *list, const char *text,
			 struct ck_diag *d)
{
	struct ck_buf map = { 0 };
	bool more = true;
	int rc = 0;

	while (rc == 0 && more) {
		more = next_map(&text, &map);
		rc = map.err ? out_of_memory(d)
			     : map_one(list,
				       (struct ck_str){ map.len ? map.data : "",
							map.len },
				       d);
	}
	ck_buf_fini(&map);
	return rc;
}

/* --- the end ------------------------------------------------------------------------ */

void ck_host_fini(struct ck_host *host)
{
	free(host->name);
	free(host->path);
}

void ck_host_list_fini(struct ck_host_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		ck_host_fini(&list->hosts[i]);
	for (size_t i = 0; i < list->nmaps; i++)
		ck_host_fini(&list->maps[i]);
	free(list->hosts);
	free(list->maps);
	*list = (struct ck_host_list){ 0 };
}
