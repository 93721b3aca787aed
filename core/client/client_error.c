/* SPDX-License-Identifier: MIT */
/*
 * client_error: the last error of each thread. Its memory is freed when the thread ends.
 */
#include "ckptfs/memory.h"
#include "client_internal.h"

struct kept {
	struct ckptfs_error shown;
	struct ck_buf text, fqn, file, expected, found;
};

static void kept_fini(void *arg)
{
	struct kept *k = arg;

	ck_buf_fini(&k->text);
	ck_buf_fini(&k->fqn);
	ck_buf_fini(&k->file);
	ck_buf_fini(&k->expected);
	ck_buf_fini(&k->found);
}

/* The memory of the thread; NULL if out of memory. */
static struct kept *kept(void)
{
	static _Thread_local struct kept *k;

	if (!k)
		k = ck_thread_keep(sizeof(*k), kept_fini);
	return k;
}

static const char *text_of(const struct ck_buf *b)
{
	return b->data && b->len ? b->data : "";
}

static void buf_set(struct ck_buf *b, struct ck_str s)
{
	b->len = 0;
	b->err = 0;
	ck_buf_str(b, s);
}

/* Replaces the error of the thread by one with only an errno. */
static struct kept *begin(int rc)
{
	struct kept *k = kept();

	if (!k)
		return NULL;
	k->shown.err = -rc;
	buf_set(&k->text, CK_STR(""));
	buf_set(&k->fqn, CK_STR(""));
	buf_set(&k->file, CK_STR(""));
	buf_set(&k->expected, CK_STR(""));
	buf_set(&k->found, CK_STR(""));
	return k;
}

int ck_client_fail(int rc, const char *fmt, ...)
{
	struct ck_diag d = { 0 };
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(d.text, sizeof(d.text), fmt, args);
	va_end(args);
	return ck_client_fail_diag(rc, &d);
}

int ck_client_fail_diag(int rc, const struct ck_diag *d)
{
	struct kept *k = begin(rc);

	if (k) {
		buf_set(&k->text, ck_str_from(d->text));
		buf_set(&k->expected, ck_str_from(d->expected));
		buf_set(&k->found, ck_str_from(d->found));
	}
	return rc;
}

int ck_client_fail_fault(int rc, const struct ck_fault *f)
{
	struct kept *k = begin(rc);

	if (k) {
		ck_fault_print(f, true, &k->text);
		buf_set(&k->fqn, f->name);
		buf_set(&k->file, f->file);
		buf_set(&k->expected,
			ck_str_from(f->expected ? f->expected : ""));
		buf_set(&k->found, ck_str_from(f->found ? f->found : ""));
	}
	return rc;
}

void ck_client_error_fqn(struct ck_str fqn)
{
	struct kept *k = kept();

	if (k)
		buf_set(&k->fqn, fqn);
}

const struct ckptfs_error *ckptfs_last_error(void)
{
	static const struct ckptfs_error no_memory = { ENOMEM, "out of memory",
						       "",     "",
						       "",     "" };
	struct kept *k = kept();

	if (!k || k->text.err)
		return &no_memory;
	k->shown.text = text_of(&k->text);
	k->shown.fqn = text_of(&k->fqn);
	k->shown.file = text_of(&k->file);
	k->shown.expected = text_of(&k->expected);
	k->shown.found = text_of(&k->found);
	return &k->shown;
}
