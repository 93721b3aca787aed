/* SPDX-License-Identifier: MIT */
/*
 * pickler_named: memo numbers of the pickle being written: of values with more
 * than one reference, identified by their address, and of classes. The state is
 * that of the writer.
 */
#include "pickler_internal.h"

#include <errno.h>

enum { SHORT = 4 }; /* texts of so few bytes are written again each time */

int ck_written_bad(struct ck_written *w, const char *what)
{
	return ck_fail(w->d, EBADMSG, "not written as a pickle: %s", what);
}

int ck_written_no_memory(struct ck_written *w)
{
	return ck_fail(w->d, ENOMEM, "out of memory");
}

/* --- values with a memo number ------------------------------------------------ */

/* The address that identifies a value; NULL if it is short or has one
 * reference. */
static const void *identity(const struct ck_pv *v)
{
	const struct ck_plist *list = ck_pv_list(v);
	const struct ck_pcall *call = ck_pv_any_call(v);

	if (list) /* all empty tuples share one list */
		return list->shared && (v->tag != CK_PV_TUPLE || list->count)
			       ? list
			       : NULL;
	if (call)
		return call->shared ? call : NULL;
	switch (v->tag) {
	case CK_PV_INTS: return v->kept && v->len ? v->ints : NULL;
	case CK_PV_BYTEARRAY: return v->bytes; /* mutable: keep its identity */
	case CK_PV_BYTES: return v->len ? v->bytes : NULL;
	case CK_PV_STR:
	case CK_PV_BIGINT: return v->len > SHORT ? v->bytes : NULL;
	default: return NULL;
	}
}

/* The author of a pickle knows the distances of its texts, so the seed is
 * random. */
static struct ck_numbered *slot_of(const struct ck_written *w, const void *at,
				   uint8_t tag, uint8_t aux)
{
	const uint64_t key[] = { (uint64_t)(uintptr_t)at,
				 (uint64_t)tag << 8 | aux };
	struct ck_str bytes = { (const char *)key, sizeof(key) };
	size_t mask = w->nslots - 1;
	size_t i = (size_t)ck_hash64_seeded(bytes, w->seed) & mask;

	for (; w->slots[i].at; i = (i + 1) & mask)
		if (w->slots[i].at == at && w->slots[i].tag == tag &&
		    w->slots[i].aux == aux)
			break;
	return &w->slots[i];
}

static int slots_grow(struct ck_written *w)
{
	size_t n = w->nslots;
	struct ck_numbered *before = w->slots;
	struct ck_numbered *slots = calloc(n ? 2 * n : 64, sizeof(*slots));

	if (!slots)
		return ck_written_no_memory(w);
	w->slots = slots;
	w->nslots = n ? 2 * n : 64;
	for (size_t i = 0; i < n; i++)
		if (before[i].at)
			*slot_of(w, before[i].at, before[i].tag,
				 before[i].aux) = before[i];
	free(before);
	return 0;
}

const struct ck_numbered *ck_named_find(const struct ck_written *w,
					const struct ck_pv *v)
{
	const void *at = identity(v);
	const struct ck_numbered *s;

	if (!at || !w->nslots)
		return NULL;
	s = slot_of(w, at, v->tag, v->aux);
	return s->at ? s : NULL;
}

void ck_number_get(struct ck_written *w, uint32_t number)
{
	bool is_long = number > UINT8_MAX;

	ck_put_op(w, is_long ? OP_LONG_BINGET : OP_BINGET);
	ck_put(w, number, is_long ? 4 : 1);
}

uint32_t ck_number_next(struct ck_written *w)
{
	bool is_long = w->p->memo > UINT8_MAX;

	ck_put_op(w, is_long ? OP_LONG_BINPUT : OP_BINPUT);
	ck_put(w, w->p->memo, is_long ? 4 : 1);
	return w->p->memo++;
}

/* v is on top of the stack. */
int ck_name_it(struct ck_written *w, const struct ck_pv *v)
{
	const void *at = identity(v);
	int rc = 0;

	if (!at)
		return 0;
	if (2 * w->nnamed >= w->nslots)
		rc = slots_grow(w);
	if (rc)
		return rc;
	*slot_of(w, at, v->tag, v->aux) = (struct ck_numbered){
		.at = at,
		.number = ck_number_next(w),
		.tag = v->tag,
		.aux = v->aux,
	};
	w->nnamed++;
	return 0;
}

/* --- globals --------------------------------------------------------------------- */

static struct ck_str part(struct ck_str s, size_t from, size_t to)
{
	return (struct ck_str){ s.p + from, to - from };
}

static size_t first_dot(struct ck_str s)
{
	const char *dot = s.len ? memchr(s.p, '.', s.len) : NULL;

	return dot ? (size_t)(dot - s.p) : s.len;
}

/* True if the name has another meaning in protocol 2. */
static bool is_renamed(struct ck_str module, struct ck_str name)
{
	return ck_global_rename(&module, &name, true);
}

/* True if protocol 2 can name the global, a nested one by getattr(): each name
 * on the way must be allowed, and the first one must not be renamed. */
static bool is_spelled(const struct ck_pglobal *g)
{
	struct ck_str module = part(g->full, 0, g->module_len);
	struct ck_str name = part(g->full, g->module_len + 1, g->full.len);
	struct ck_str first = part(name, 0, first_dot(name));

	if (memchr(g->full.p, '\n', g->full.len) || is_renamed(module, first) ||
	    ck_global_dangerous(module, first))
		return false;
	if (first.len == name.len)
		return true;
	if (ck_str_is(module, "builtins") && ck_str_is(first, "getattr"))
		return false;
	for (size_t at = first.len; at < name.len;) {
		struct ck_str rest = part(name, at + 1, name.len);
		struct ck_str attr = part(rest, 0, first_dot(rest));

		at += 1 + attr.len;
		if (!ck_global_is_attribute(attr) ||
		    ck_global_dangerous(module, part(name, 0, at)))
			return false;
	}
	return true;
}

static void global_text(struct ck_written *w, struct ck_str module,
			struct ck_str name)
{
	ck_put_op(w, OP_GLOBAL);
	ck_buf_str(w->p->out, module);
	ck_put(w, '\n', 1);
	ck_buf_str(w->p->out, name);
	ck_put(w, '\n', 1);
}

void ck_known_write(struct ck_written *w, enum ck_known k)
{
	static const struct {
		const char *module, *name;
	} names[] = {
		[CK_KNOWN_SET] = { "builtins", "set" },
		[CK_KNOWN_FROZENSET] = { "builtins", "frozenset" },
		[CK_KNOWN_BYTES] = { "builtins", "bytes" },
		[CK_KNOWN_ENCODE] = { "_codecs", "encode" },
		[CK_KNOWN_BYTEARRAY] = { "builtins", "bytearray" },
		[CK_KNOWN_SIZE] = { "torch", "Size" },
		[CK_KNOWN_GETATTR] = { "builtins", "getattr" },
		[CK_KNOWN_NEWOBJ_EX] = { "copyreg", "__newobj_ex__" },
		[CK_KNOWN_RECONSTRUCTOR] = { "copyreg", "_reconstructor" },
		[CK_KNOWN_OBJECT] = { "builtins", "object" },
	};

	if (w->known[k]) {
		ck_number_get(w, w->known[k] - 1);
		return;
	}
	global_text(w, ck_str_from(names[k].module),
		    ck_str_from(names[k].name));
	w->known[k] = ck_number_next(w) + 1;
}

/* getattr(getattr(A, "B"), "C"): functions first, then each pair is
 * complete. */
static void global_nested(struct ck_written *w, struct ck_str module,
			  struct ck_str name)
{
	size_t at = first_dot(name);

	for (size_t i = at; i < name.len; i++)
		if (name.p[i] == '.')
			ck_known_write(w, CK_KNOWN_GETATTR);
	global_text(w, module, part(name, 0, at));
	while (at < name.len) {
		struct ck_str rest = part(name, at + 1, name.len);
		struct ck_str attr = part(rest, 0, first_dot(rest));

		ck_put_op(w, OP_BINUNICODE);
		ck_put(w, attr.len, 4);
		ck_buf_str(w->p->out, attr);
		ck_put_op(w, OP_TUPLE2);
		ck_put_op(w, OP_REDUCE);
		at += 1 + attr.len;
	}
}

int ck_global_write(struct ck_written *w, const struct ck_pv *v)
{
	const struct ck_pglobal *g = &w->from->globals[v->i];
	uint32_t *number = &w->globals[v->i];

	if (*number) {
		ck_number_get(w, *number - 1);
		return 0;
	}
	if (!is_spelled(g))
		return ck_fail(w->d, EBADMSG,
			       "not written as a pickle: %s has no name in "
			       "protocol 2",
			       ck_show(g->full));
	global_nested(w, part(g->full, 0, g->module_len),
		      part(g->full, g->module_len + 1, g->full.len));
	*number = ck_number_next(w) + 1;
	return 0;
}
