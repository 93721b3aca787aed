/* SPDX-License-Identifier: MIT */
/*
 * pickler_value: writes a value that was read from a pickle of any protocol as
 * protocol 2.
 *
 * A value with several references is written once and then referred to by its
 * memo number. So the output is not much longer than the input and means the
 * same: one list in two places stays one list. Values with opcodes of later
 * protocols are spelled as CPython spells them in protocol 2: sets, bytes and
 * bytearrays as calls, nested classes as getattr(C, "D"). But modules have the
 * names of Python 3, and keyword arguments go through copyreg.__newobj_ex__.
 *
 * A list, dict or object gets its number before its contents are written, so
 * the contents may refer to it. A tuple, call or set gets its number only when
 * it is complete. If it contains itself, through a list, it is written again
 * inside of that list, is complete there first, and the outer copy is dropped
 * (POP) in favour of the inner one, as CPython does. The writer is a stack of
 * tasks, without recursion; one thread at a time.
 */
#include "ckptfs/value.h"
#include "pickler.h"
#include "pickler_internal.h"

#include <errno.h>

enum {
	TODO_MOST = 4096, /* 256 levels, at most 9 of each */
	BATCH = 1000,	  /* items, or keys and values, for one APPENDS */
};

enum todo_kind {
	TODO_VALUE,    /* writes v */
	TODO_CHILDREN, /* writes items, and op (if any) after each BATCH */
	TODO_OP,       /* writes op */
	TODO_NUMBER,   /* v is complete: gives it its number */
	TODO_KNOWN,    /* writes name i of enum ck_known */
};

struct todo {
	enum todo_kind kind;
	uint8_t op;
	uint8_t rest; /* for NUMBER: number of tasks below for the same value */
	uint32_t i, n;
	const struct ck_pv *items;
	struct ck_pv v;
};

struct writing {
	struct ck_written to;
	const struct ck_storage_names *storages;
	size_t most; /* maximum length of the output buffer */
	uint32_t ntodo;
	struct todo *todo;	/* stack: the last task is next */
	struct ck_pv_room room; /* of the tensor that is being written */
	size_t todo_cap;
};

static int todo_add(struct writing *w, struct todo t)
{
	struct todo *todo;

	if (w->ntodo == TODO_MOST)
		return ck_written_bad(&w->to, "nested too deep");
	todo = ck_grow(w->todo, &w->todo_cap, w->ntodo, 1, sizeof(*todo));
	if (!todo)
		return ck_written_no_memory(&w->to);
	w->todo = todo;
	todo[w->ntodo++] = t;
	return 0;
}

/* Pushes tasks; the last one runs first. */
static int todo_all(struct writing *w, const struct todo *t, unsigned n)
{
	int rc = 0;

	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = todo_add(w, t[i]);
	return rc;
}

static int refuse(struct writing *w, const char *why)
{
	w->to.p->refused = why;
	return why ? ck_written_bad(&w->to, why) : 0;
}

/* v is complete. If an inner copy of v was completed before, v is dropped in
 * favour of it. */
static int number_step(struct writing *w, const struct todo *t)
{
	const struct ck_numbered *same = ck_named_find(&w->to, &t->v);

	if (!same)
		return ck_name_it(&w->to, &t->v);
	if (w->to.p->restricted)
		return refuse(w, "a tuple in it contains itself"); /* POP */
	ck_put_op(&w->to, OP_POP);
	ck_number_get(&w->to, same->number);
	w->ntodo -= t->rest; /* the inner copy is filled already */
	return 0;
}

/* --- containers and calls ---------------------------------------------------------- */

static struct todo value(struct ck_pv v)
{
	return (struct todo){ .kind = TODO_VALUE, .v = v };
}

static struct todo op(enum ck_op code)
{
	return (struct todo){ .kind = TODO_OP, .op = (uint8_t)code };
}

/* code: an opcode, or 0. */
static struct todo children(const struct ck_plist *list, unsigned code)
{
	return (struct todo){ .kind = TODO_CHILDREN,
			      .op = (uint8_t)code,
			      .items = list->items,
			      .n = list->count };
}

static struct todo number(const struct ck_pv *v, uint8_t rest)
{
	return (struct todo){ .kind = TODO_NUMBER, .v = *v, .rest = rest };
}

static int tuple_write(struct writing *w, const struct ck_pv *v)
{
	static const enum ck_op made[] = { OP_EMPTY_TUPLE, OP_TUPLE1, OP_TUPLE2,
					   OP_TUPLE3 };

	bool is_short = v->list->count < CK_ARRAY_SIZE(made);
	const struct todo all[] = {
		number(v, 0),
		op(is_short ? made[v->list->count] : OP_TUPLE),
		children(v->list, 0),
	};

	if (!is_short)
		ck_put_op(&w->to, OP_MARK);
	return todo_all(w, all, CK_ARRAY_SIZE(all));
}

static int list_write(struct writing *w, const struct ck_pv *v)
{
	bool is_dict = v->tag == CK_PV_DICT;
	int rc;

	ck_put_op(&w->to, is_dict ? OP_EMPTY_DICT : OP_EMPTY_LIST);
	rc = ck_name_it(&w->to, v);
	return rc ? rc
		  : todo_add(w, children(v->list,
					 is_dict ? OP_SETITEMS : OP_APPENDS));
}

/* set([...]), frozenset([...]). */
static int set_write(struct writing *w, const struct ck_pv *v)
{
	const struct todo all[] = {
		number(v, 0),
		op(OP_REDUCE),
		op(OP_TUPLE1),
		children(v->list, OP_APPENDS),
	};

	ck_known_write(&w->to,
		       v->tag == CK_PV_SET ? CK_KNOWN_SET : CK_KNOWN_FROZENSET);
	ck_put_op(&w->to, OP_EMPTY_LIST);
	return todo_all(w, all, CK_ARRAY_SIZE(all));
}

/* Writes the contents of an object after its creation: items, state, number. */
static int fill(struct writing *w, const struct ck_pv *v)
{
	const struct ck_pcall *call = v->call;
	const struct todo state[] = { op(OP_BUILD), value(call->state) };
	int rc = call->has_state ? todo_all(w, state, 2) : 0;

	if (rc == 0)
		rc = todo_add(w, children(&call->items, OP_SETITEMS));
	if (rc == 0)
		rc = todo_add(w, children(&call->list, OP_APPENDS));
	return rc ? rc : todo_add(w, number(v, call->has_state ? 4 : 2));
}

/* copyreg.__newobj_ex__(class, args, kwargs) */
static int named_write(struct writing *w, const struct ck_pcall *call)
{
	const struct todo all[] = {
		op(OP_REDUCE),	   op(OP_TUPLE3),	  value(call->kwargs),
		value(call->args), value(call->callable),
	};

	ck_known_write(&w->to, CK_KNOWN_NEWOBJ_EX);
	return todo_all(w, all, CK_ARRAY_SIZE(all));
}

/* copyreg._reconstructor(class, object, None) */
static int plain_write(struct writing *w, const struct ck_pcall *call)
{
	const struct ck_pv none = { .tag = CK_PV_NONE };
	const struct todo all[] = {
		op(OP_REDUCE),
		op(OP_TUPLE3),
		value(none),
		{ .kind = TODO_KNOWN, .i = CK_KNOWN_OBJECT },
		value(call->callable),
	};

	ck_known_write(&w->to, CK_KNOWN_RECONSTRUCTOR);
	return todo_all(w, all, CK_ARRAY_SIZE(all));
}

static int call_write(struct writing *w, const struct ck_pv *v)
{
	const struct ck_pcall *call = v->call;
	const struct todo made[] = {
		op(v->tag == CK_PV_NEW ? OP_NEWOBJ : OP_REDUCE),
		value(call->args),
		value(call->callable),
	};
	int rc;

	if (call->collapsed.tag != CK_PV_NONE)
		return ck_written_bad(&w->to, "a value that a reader took");
	if (call->touched)
		return ck_written_bad(&w->to, "an object whose state a call "
					      "has set");
	rc = fill(w, v);
	if (rc)
		return rc;
	if (call->kwargs.tag != CK_PV_NONE)
		return named_write(w, call);
	if (v->tag == CK_PV_NEW && v->aux)
		return plain_write(w, call);
	return todo_all(w, made, CK_ARRAY_SIZE(made));
}

/* ("storage", class, key, location, numel), with the key in the new pickle. */
static int storage_write(struct writing *w, const struct ck_pv *v)
{
	struct ck_pv id = v->list->items[0];
	struct ck_pv class_of, location;
	struct ck_str class, key;
	int64_t numel;
	int rc;

	if (!ck_storage_take(w->to.from, v, &class, &key, &numel))
		return ck_written_bad(&w->to, "a persistent id of no storage");
	if (w->storages) {
		rc = w->storages->name(w->storages->arg, &key, w->to.d);
		if (rc)
			return rc;
	}
	class_of = ck_pv_at(&id, 1);
	location = ck_pv_at(&id, 3);
	ck_put_op(&w->to, OP_MARK);
	ck_pickler_text(w->to.p, CK_STR("storage"));
	rc = ck_global_write(&w->to, &class_of);
	if (rc)
		return rc;
	ck_pickler_text(w->to.p, key);
	ck_text_write(&w->to, &location);
	ck_pickler_signed(w->to.p, numel);
	ck_put_op(&w->to, OP_TUPLE);
	ck_put_op(&w->to, OP_BINPERSID);
	return ck_name_it(&w->to, v);
}

static int room(struct writing *w)
{
	if (w->to.p->out->err)
		return ck_written_no_memory(&w->to);
	return w->to.p->out->len > w->most
		       ? ck_written_bad(&w->to, "longer than it may be")
		       : 0;
}

static int value_write(struct writing *w, const struct ck_pv *v)
{
	const struct ck_numbered *again = ck_named_find(&w->to, v);
	struct ck_pv whole;
	int rc = room(w);

	if (rc)
		return rc;
	if (again) {
		ck_number_get(&w->to, again->number);
		return 0;
	}
	if (w->to.p->restricted)
		rc = refuse(w, ck_restricted_refuses(w->to.from, v,
						     w->to.p->tensors));
	if (rc)
		return rc;
	switch (v->tag) {
	case CK_PV_TUPLE: return tuple_write(w, v);
	case CK_PV_LIST:
	case CK_PV_DICT: return list_write(w, v);
	case CK_PV_SET:
	case CK_PV_FROZENSET: return set_write(w, v);
	case CK_PV_CALL:
	case CK_PV_NEW: return call_write(w, v);
	case CK_PV_PERSID: return storage_write(w, v);
	case CK_PV_PACKED:
		whole = ck_pv_unpack(v, &w->room);
		return call_write(w, &whole);
	default: return ck_leaf_write(&w->to, v);
	}
}

/* --- stepping -------------------------------------------------------------------------- */

/* The task stays where it is until its last child is written. */
static int children_step(struct writing *w)
{
	struct todo *t = &w->todo[w->ntodo - 1];
	bool ends = t->i == t->n;

	if (t->op && t->i && (ends || t->i % BATCH == 0))
		ck_put_op(&w->to, t->op);
	if (ends) {
		w->ntodo--;
		return 0;
	}
	if (t->op && t->i % BATCH == 0)
		ck_put_op(&w->to, OP_MARK);
	return todo_add(w, value(t->items[t->i++]));
}

static int step(struct writing *w)
{
	struct todo t = w->todo[w->ntodo - 1];

	if (t.kind == TODO_CHILDREN)
		return children_step(w);
	w->ntodo--;
	switch (t.kind) {
	case TODO_VALUE: return value_write(w, &t.v);
	case TODO_NUMBER: return number_step(w, &t);
	case TODO_OP: ck_put_op(&w->to, t.op); return 0;
	case TODO_KNOWN: ck_known_write(&w->to, t.i); return 0;
	case TODO_CHILDREN: break;
	}
	return 0;
}

static int write_all(struct writing *w, const struct ck_pv *v)
{
	int rc;

	w->to.globals = calloc(w->to.from->nglobals + 1UL,
			       sizeof(*w->to.globals));
	if (!w->to.globals)
		return ck_written_no_memory(&w->to);
	rc = value_write(w, v);
	while (rc == 0 && w->ntodo)
		rc = step(w);
	return rc ? rc : room(w);
}

int ck_pickler_value(struct ck_pickler *p, const struct ck_pickle *from,
		     const struct ck_pv *v,
		     const struct ck_storage_names *storages, size_t most,
		     struct ck_diag *d)
{
	struct writing w = {
		.to = { .p = p, .from = from, .d = d, .seed = ck_hash_seed() },
		.storages = storages,
		.most = most,
	};
	bool memoize = p->memoize;
	int rc;

	p->memoize = false; /* this file decides which values get a number */
	rc = write_all(&w, v);
	p->memoize = memoize;
	free(w.to.globals);
	free(w.to.slots);
	free(w.todo);
	return rc;
}
