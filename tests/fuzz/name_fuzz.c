/* SPDX-License-Identifier: MIT */
/*
 * name: any bytes as a name: its stem is a legal file name and decodes to the name, unless it was
 * cut. As a stem: refused, or the decoded name has this stem. As a key: unwrapping it twice has
 * the same result as once.
 */
#include "ckptfs/model.h"
#include "must.h"
#include "name_decode.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ck_str str_of(const struct ck_buf *b)
{
	return (struct ck_str){ b->data, b->len };
}

static void as_name(struct ck_str name)
{
	struct ck_buf stem = { 0 }, back = { 0 };
	int rc;

	ck_name_stem(name, 1, &stem);
	must(stem.err == 0 && stem.len > 0 && stem.len <= 200);
	must(stem.data[0] != '.' && !memchr(stem.data, '/', stem.len));
	must(!memchr(stem.data, '\0', stem.len));
	must(ck_utf8_valid(str_of(&stem)));
	rc = name_decode(str_of(&stem), &back);
	if (ck_str_starts(str_of(&stem), CK_STR("%~")))
		must(rc == -ENOENT && name.len > 66);
	else
		must(rc == 0 && ck_str_eq(str_of(&back), name));
	ck_buf_fini(&stem);
	ck_buf_fini(&back);
}

static void as_stem(struct ck_str stem)
{
	struct ck_buf name = { 0 }, again = { 0 };

	if (name_decode(stem, &name) == 0) {
		ck_name_stem(str_of(&name), 1, &again);
		must(ck_str_eq(str_of(&again), stem));
	} else {
		must(name.len == 0);
	}
	ck_buf_fini(&name);
	ck_buf_fini(&again);
}

static void as_key(struct ck_str key)
{
	struct ck_buf once = { 0 }, twice = { 0 };

	ck_name_unwrap(key, &once);
	ck_name_unwrap(str_of(&once), &twice);
	must(once.len <= key.len);
	must(ck_str_eq(str_of(&once), str_of(&twice)));
	ck_buf_fini(&once);
	ck_buf_fini(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ck_str bytes = { (const char *)data, size };

	as_name(bytes);
	as_stem(bytes);
	as_key(bytes);
	return 0;
}
