/* SPDX-License-Identifier: MIT */
/*
 * cli: messages, standard output and limits of the process, for all commands. The only
 * state is the usage line of the command that runs: main() sets it before any thread
 * starts.
 */
#include "cli.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct {
	const char *command, *line;
} usage = { "", "CMD" };

int ck_trouble(const char *fmt, ...)
{
	char text[1200];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(stderr, "ckptfs: %s\n", text);
	return CK_EXIT_TROUBLE;
}

void ck_usage_set(const char *command, const char *line)
{
	usage.command = command;
	usage.line = line;
}

int ck_usage(void)
{
	return ck_trouble("usage: ckptfs %s; ckptfs help %s describes it",
			  usage.line, usage.command);
}

int ck_print(struct ck_buf *out)
{
	int rc = out->err;

	if (rc == 0)
		rc = ck_write_full(STDOUT_FILENO, out->data, out->len);
	ck_buf_fini(out);
	if (rc)
		return ck_trouble("standard output: %s", strerror(-rc));
	return CK_EXIT_FINE;
}

int ck_print_lines(struct ck_str text)
{
	struct ck_buf out = { 0 };

	ck_buf_plain_lines(&out, text);
	return ck_print(&out);
}

/* U+0080 to U+009F (two bytes in UTF-8) and U+007F are control characters for a
 * terminal. JSON has them only within strings, where the escape means the same. */
int ck_print_json(struct ck_buf *json)
{
	struct ck_buf out = { .err = json->err };

	for (size_t i = 0; i < json->len; i++) {
		const uint8_t *p = (const uint8_t *)json->data + i;
		bool two = *p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0;

		if (two || *p == 0x7f)
			ck_buf_printf(&out, "\\u%04x", p[two]);
		else
			ck_buf_add(&out, p, 1);
		i += two;
	}
	ck_buf_fini(json);
	return ck_print(&out);
}

void ck_raise_nofile(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}
