/* SPDX-License-Identifier: MIT */
/*
 * status_json: converts the text of .ckptfs/status to one JSON object. The conversion is by
 * form, so a line that a later version adds is converted, too. Lines are `name: value`;
 * indented lines belong to the line before them; lines of hosts are rows of a table. No
 * state.
 */
#include "ckptfs/json.h"
#include "mount_report.h"

/* Fields whose value is a list, and its separator. */
static const struct {
	const char *name, *between;
} lists[] = {
	{ "not shown", ", " },
	{ "options", "," },
	{ "prefixed", ", " },
	{ "scratch", ", " },
};

/* Fields that are lists of indented lines, also if there are no such lines. */
static const char *const indented[] = { "unknown classes", "steps not shown" };

static const char host_word[] = "host ";

/* --- pieces ----------------------------------------------------------------- */

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes the %XX escapes of the text. */
static void add_string(struct ck_buf *out, struct ck_str s)
{
	struct ck_buf bytes = { 0 };

	for (size_t i = 0; i < s.len; i++) {
		bool coded = s.p[i] == '%' && i + 2 < s.len &&
			     hex_value(s.p[i + 1]) >= 0 &&
			     hex_value(s.p[i + 2]) >= 0;
		char byte = s.p[i];

		if (coded) {
			byte = (char)(hex_value(s.p[i + 1]) * 16 +
				      hex_value(s.p[i + 2]));
			i += 2;
		}
		ck_buf_add(&bytes, &byte, 1);
	}
	if (bytes.err)
		out->err = bytes.err;
	ck_buf_json_str(out, (struct ck_str){ bytes.data ? bytes.data : "",
					      bytes.len });
	ck_buf_fini(&bytes);
}

static size_t digits(struct ck_str s)
{
	size_t n = 0;

	while (n < s.len && s.p[n] >= '0' && s.p[n] <= '9')
		n++;
	return n > 1 && s.p[0] == '0' ? 0 : n;
}

static struct ck_str cut(struct ck_str s, size_t from, size_t to)
{
	return (struct ck_str){ s.p + from, to - from };
}

/* Removes the end of "a, b and 3 more" from " and" on. */
static struct ck_str without_more(struct ck_str s)
{
	static const char and[] = " and ", more[] = " more";
	size_t end, i;

	if (s.len < sizeof(more) ||
	    memcmp(s.p + s.len - (sizeof(more) - 1), more, sizeof(more) - 1))
		return s;
	end = s.len - (sizeof(more) - 1);
	for (i = end; i > 0 && s.p[i - 1] >= '0' && s.p[i - 1] <= '9'; i--)
		;
	if (i == end || i < sizeof(and) - 1 ||
	    memcmp(s.p + i - (sizeof(and) - 1), and, sizeof(and) - 1))
		return s;
	return cut(s, 0, i - (sizeof(and) - 1));
}

/* --- values ------------------------------------------------------------------- */

static void add_list(struct ck_buf *out, struct ck_str value,
		     const char *between)
{
	size_t step = strlen(between);

	value = without_more(value);
	for (bool more = value.len > 0; more;) {
		const char *at = memmem(value.p, value.len, between, step);
		size_t len = at ? (size_t)(at - value.p) : value.len;

		more = at != NULL;
		add_string(out, cut(value, 0, len));
		ck_buf_text(out, more ? "," : "");
		value = cut(value, more ? len + step : len, value.len);
	}
}

/* A number may be followed by "; " and a remark, which JSON omits. */
static void add_value(struct ck_buf *out, struct ck_str value)
{
	size_t n = digits(value);

	if (n && (n == value.len || value.p[n] == ';'))
		ck_buf_str(out, cut(value, 0, n));
	else
		add_string(out, value);
}

static void add_name(struct ck_buf *out, struct ck_str name)
{
	struct ck_buf key = { 0 };

	ck_buf_escaped(&key, name);
	for (size_t i = 0; i < key.len; i++)
		if (key.data[i] == ' ')
			key.data[i] = '_';
	if (key.err)
		out->err = key.err;
	ck_buf_text(out, ",\n");
	ck_buf_json_str(out, (struct ck_str){ key.data, key.len });
	ck_buf_text(out, ":");
	ck_buf_fini(&key);
}

static bool is_indented(const struct ck_cur *at)
{
	return ck_cur_left(at) > 2 && at->p[0] == ' ' && at->p[1] == ' ';
}

static bool has_indented(struct ck_str name, const struct ck_cur *rest)
{
	for (size_t i = 0; i < CK_ARRAY_SIZE(indented); i++)
		if (ck_str_is(name, indented[i]))
			return true;
	return is_indented(rest);
}

/* True for "  and 3 more", the last line of a shortened list. */
static bool is_rest(struct ck_str line)
{
	return line.len > 2 && without_more(cut(line, 1, line.len)).len == 0;
}

static void add_indented(struct ck_buf *out, struct ck_cur *at)
{
	bool first = true;
	struct ck_str line;

	ck_buf_text(out, "[");
	while (is_indented(at) && ck_cur_line(at, &line)) {
		if (is_rest(line))
			continue;
		ck_buf_text(out, first ? "" : ",");
		add_string(out, cut(line, 2, line.len));
		first = false;
	}
	ck_buf_text(out, "]");
}

/* --- lines -------------------------------------------------------------------- */

/* "dcp (why)" becomes two members, `kind` and `why`. */
static void add_kind(struct ck_buf *out, struct ck_str value)
{
	bool ends = value.len > 3 && value.p[value.len - 1] == ')';
	const char *open = ends ? memmem(value.p, value.len - 1, " (", 2)
				: NULL;
	size_t len = open ? (size_t)(open - value.p) : value.len;

	add_string(out, cut(value, 0, len));
	if (!open)
		return;
	add_name(out, CK_STR("why"));
	add_string(out, cut(value, len + 2, value.len - 1));
}

static void add_line(struct ck_buf *out, struct ck_str name,
		     struct ck_str value, struct ck_cur *rest)
{
	add_name(out, name);
	for (size_t i = 0; i < CK_ARRAY_SIZE(lists); i++) {
		if (!ck_str_is(name, lists[i].name))
			continue;
		ck_buf_text(out, "[");
		add_list(out, value, lists[i].between);
		ck_buf_text(out, "]");
		return;
	}
	if (has_indented(name, rest))
		add_indented(out, rest);
	else if (ck_str_is(name, "kind"))
		add_kind(out, value);
	else
		add_value(out, value);
}

/* "host NAME STATE SECONDS FILES BYTES PATH" */
static bool is_host(struct ck_str line)
{
	return line.len > sizeof(host_word) - 1 &&
	       memcmp(line.p, host_word, sizeof(host_word) - 1) == 0;
}

static struct ck_str next_word(struct ck_str *rest)
{
	const char *space = memchr(rest->p, ' ', rest->len);
	size_t n = space ? (size_t)(space - rest->p) : rest->len;
	struct ck_str word = cut(*rest, 0, n);

	*rest = cut(*rest, space ? n + 1 : n, rest->len);
	return word;
}

static void add_host(struct ck_buf *out, struct ck_str line)
{
	static const char *const numbers[] = { "seconds", "files", "bytes" };
	struct ck_str rest = cut(line, sizeof(host_word) - 1, line.len);

	ck_buf_text(out, "{\"name\":");
	add_string(out, next_word(&rest));
	ck_buf_text(out, ",\"state\":");
	add_string(out, next_word(&rest));
	for (size_t i = 0; i < CK_ARRAY_SIZE(numbers); i++) {
		ck_buf_printf(out, ",\"%s\":", numbers[i]);
		add_value(out, next_word(&rest));
	}
	ck_buf_text(out, ",\"path\":");
	add_string(out, rest);
	ck_buf_text(out, "}");
}

/* Converts this line and the lines of hosts that follow it. */
static void add_hosts(struct ck_buf *out, struct ck_str line,
		      struct ck_cur *rest)
{
	struct ck_cur next;

	ck_buf_text(out, ",\n\"hosts\":[");
	add_host(out, line);
	for (next = *rest; ck_cur_line(&next, &line) && is_host(line);
	     *rest = next) {
		ck_buf_text(out, ",");
		add_host(out, line);
	}
	ck_buf_text(out, "]");
}

void ck_status_json(const struct ck_buf *status, struct ck_buf *out)
{
	struct ck_cur at = ck_cur_make(status->data, status->len);
	struct ck_str line;

	ck_buf_text(out, "{\"version\":1");
	while (ck_cur_line(&at, &line)) {
		const char *colon = memmem(line.p, line.len, ": ", 2);

		if (is_host(line))
			add_hosts(out, line, &at);
		else if (colon)
			add_line(out, cut(line, 0, (size_t)(colon - line.p)),
				 cut(line, (size_t)(colon - line.p) + 2,
				     line.len),
				 &at);
	}
	ck_buf_text(out, "}\n");
}
