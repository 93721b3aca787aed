/* SPDX-License-Identifier: MIT */
/* numbered: the names of the files that one state dict was split into, and which of them
 * are missing. */
#include "numbered.h"
#include "model/catalog/catalog_edit.h"

#include <errno.h>

enum { DIGITS_MOST = 9 };

/* Cuts the digits at the end of *text off. False without digits, or with too many. */
static bool number_cut(struct ck_str *text, uint64_t *out, uint32_t *digits)
{
	uint64_t unit = 1;

	*out = *digits = 0;
	for (; text->len && text->p[text->len - 1] >= '0' &&
	       text->p[text->len - 1] <= '9';
	     text->len--, ++*digits, unit *= 10) {
		if (*digits == DIGITS_MOST)
			return false;
		*out += unit * (uint64_t)(text->p[text->len - 1] - '0');
	}
	return *digits > 0;
}

static bool text_cut(struct ck_str *text, struct ck_str end)
{
	if (text->len <= end.len ||
	    memcmp(text->p + text->len - end.len, end.p, end.len) != 0)
		return false;
	text->len -= end.len;
	return true;
}

bool ck_numbered_of(const char *name, const char *suffix,
		    struct ck_numbered_name *out)
{
	uint32_t digits;

	out->text = ck_str_from(name);
	return text_cut(&out->text, ck_str_from(suffix)) &&
	       number_cut(&out->text, &out->n, &out->digits) &&
	       text_cut(&out->text, CK_STR("-of-")) &&
	       number_cut(&out->text, &out->i, &digits) &&
	       text_cut(&out->text, CK_STR("-"));
}

/* --- missing files -------------------------------------------------------------------- */

/* Lines of damage about missing files. */
enum { LINES_MOST = 16 };

struct missing {
	struct ck_catalog *c;
	const char *suffix;
	uint64_t found;
};

/* Adds a line for each number between two that are there. */
static int gap_lose(struct missing *m, const struct ck_numbered_name *of,
		    uint64_t from, uint64_t to)
{
	struct ck_loss loss = { .file = CK_NO_FILE, .err = ENODATA };
	int rc = 0;

	for (uint64_t i = from; i < to && m->found < LINES_MOST && rc == 0;
	     i++) {
		loss.what = ck_str_from(ck_shown(
			"%s-%0*ju-of-%0*ju%s is missing: its tensors are not "
			"shown until it is in the directory",
			ck_show(of->text), (int)of->digits, (uintmax_t)i,
			(int)of->digits, (uintmax_t)of->n, m->suffix));
		rc = ck_catalog_loss_add(m->c, &loss);
		from++;
		m->found++;
	}
	m->found += to > from ? to - from : 0;
	return rc;
}

/* Sorts by text, then n, then i. */
static int numbered_cmp(const void *a, const void *b)
{
	const struct ck_numbered_name *x = a, *y = b;
	int order = ck_str_cmp(&x->text, &y->text);

	if (order == 0)
		order = (x->n > y->n) - (x->n < y->n);
	return order ? order : (x->i > y->i) - (x->i < y->i);
}

static bool is_same_set(const struct ck_numbered_name *x,
			const struct ck_numbered_name *y)
{
	return x->n == y->n && ck_str_eq(x->text, y->text);
}

static int sets_look(struct missing *m, const struct ck_numbered_name *all,
		     size_t n)
{
	int rc = 0;

	for (size_t k = 0; k < n && rc == 0; k++) {
		const struct ck_numbered_name *at = &all[k];
		bool first = k == 0 || !is_same_set(at, at - 1);
		bool last = k + 1 == n || !is_same_set(at, at + 1);

		rc = gap_lose(m, at, first ? 1 : at[-1].i + 1,
			      ck_min(at->i, at->n + 1));
		if (rc == 0 && last)
			rc = gap_lose(m, at, at->i + 1, at->n + 1);
	}
	return rc;
}

/* Adds one line for the files that have no line of their own. */
static int rest_lose(const struct missing *m)
{
	struct ck_loss loss = { .file = CK_NO_FILE, .err = ENODATA };

	if (m->found <= LINES_MOST)
		return 0;
	loss.what = ck_str_from(ck_shown("%ju more files are missing",
					 (uintmax_t)(m->found - LINES_MOST)));
	return ck_catalog_loss_add(m->c, &loss);
}

int ck_numbered_lose(struct ck_catalog *c, const struct ck_dir_names *names,
		     const char *suffix)
{
	struct missing m = { c, suffix, 0 };
	ck_auto_free struct ck_numbered_name *all = calloc(names->n + 1,
							   sizeof(*all));
	size_t n = 0;
	int rc;

	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < names->n; i++)
		n += ck_numbered_of(names->all[i], suffix, &all[n]);
	if (n)
		qsort(all, n, sizeof(*all), numbered_cmp);
	rc = sets_look(&m, all, n);
	return rc ? rc : rest_lose(&m);
}
