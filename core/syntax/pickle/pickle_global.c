/* SPDX-License-Identifier: MIT */
/*
 * pickle_global: names of classes and functions in pickles. A name is interned
 * once, in the spelling of Python 3, and compared with the closed list of names
 * that an attack needs and a checkpoint does not. Nothing is ever imported. The
 * state is that of the pickle.
 */
#include "pickle_internal.h"

#include <errno.h>

static const char *const dangerous_modules[] = {
	"os",	  "posix",	"nt",	     "subprocess", "pty",
	"sys",	  "runpy",	"importlib", "socket",	   "shutil",
	"ctypes", "_ctypes",	"code",	     "codeop",	   "pdb",
	"bdb",	  "webbrowser", "pickle",    "_pickle",	   "marshal",
};

static const char *const dangerous_builtins[] = {
	"eval",	      "exec",	 "execfile", "compile", "open",	   "input",
	"__import__", "globals", "locals",   "vars",	"setattr", "delattr",
};

static bool listed(struct ck_str s, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ck_str_is(s, list[i]))
			return true;
	return false;
}

static bool is_dangerous_module(struct ck_str s)
{
	return listed(s, dangerous_modules, CK_ARRAY_SIZE(dangerous_modules));
}

/* The text before the first dot; *rest becomes the text after it. */
static struct ck_str first_component(struct ck_str s, struct ck_str *rest)
{
	const char *dot = s.len ? memchr(s.p, '.', s.len) : NULL;
	size_t len = dot ? (size_t)(dot - s.p) : s.len;
	size_t skip = dot ? len + 1 : len;

	*rest = (struct ck_str){ s.p + skip, s.len - skip };
	return (struct ck_str){ s.p, len };
}

/* True if a component other than the last is a dangerous module. */
static bool passes_through(struct ck_str name)
{
	struct ck_str rest = name;

	while (rest.len && memchr(rest.p, '.', rest.len))
		if (is_dangerous_module(first_component(rest, &rest)))
			return true;
	return false;
}

bool ck_global_dangerous(struct ck_str module, struct ck_str name)
{
	struct ck_str rest;

	if (is_dangerous_module(first_component(module, &rest)) ||
	    passes_through(name))
		return true;
	if (ck_str_is(module, "builtins") || ck_str_is(module, "__builtin__"))
		return listed(name, dangerous_builtins,
			      CK_ARRAY_SIZE(dangerous_builtins));
	if (ck_str_is(module, "io") || ck_str_is(module, "_io") ||
	    ck_str_is(module, "codecs"))
		return ck_str_is(name, "open");
	return false;
}

/* "module.name" in Python 3 spelling, in the arena. */
static struct ck_str full_name(struct ck_vm *vm, struct ck_str module,
			       struct ck_str name, size_t *module_len)
{
	size_t len;
	char *text;

	(void)ck_global_rename(&module, &name, vm->is_python2);
	len = module.len + 1 + name.len;
	text = ck_vm_alloc(vm, len);
	if (!text)
		return (struct ck_str){ NULL, 0 };
	memcpy(text, module.p, module.len);
	text[module.len] = '.';
	if (name.len)
		memcpy(text + module.len + 1, name.p, name.len);
	*module_len = module.len;
	return (struct ck_str){ text, len };
}

static int add_global(struct ck_vm *vm, struct ck_pglobal g)
{
	struct ck_pickle *p = vm->out;

	if (p->nglobals >= CK_MAX_GLOBALS)
		return ck_vm_bad(vm, "too many different globals");
	if (p->nglobals == p->globals_cap) {
		uint32_t cap = p->globals_cap ? p->globals_cap * 2 : 32;
		void *grown = realloc(p->globals, cap * sizeof(*p->globals));

		if (!grown)
			return ck_fail(vm->d, ENOMEM, "pickle: out of memory");
		p->globals = grown;
		p->globals_cap = cap;
	}
	p->globals[p->nglobals++] = g;
	return 0;
}

static int intern(struct ck_vm *vm, struct ck_pglobal g, uint32_t *number)
{
	size_t i = ck_hash64_seeded(g.full, vm->hash_seed) % CK_GLOBAL_SLOTS;
	int rc;

	for (; vm->global_slots[i]; i = (i + 1) % CK_GLOBAL_SLOTS) {
		*number = vm->global_slots[i] - 1U;
		if (ck_str_eq(vm->out->globals[*number].full, g.full))
			return 0;
	}
	rc = add_global(vm, g);
	if (rc)
		return rc;
	vm->global_slots[i] = (uint16_t)vm->out->nglobals;
	*number = vm->out->nglobals - 1;
	return 0;
}

static int refuse(struct ck_vm *vm, struct ck_str module, struct ck_str name)
{
	vm->out->dangerous = true;
	return ck_fail(vm->d, EBADMSG,
		       "pickle: dangerous global %s.%s: refused",
		       ck_show(module), ck_show(name));
}

int ck_vm_global(struct ck_vm *vm, struct ck_str module, struct ck_str name,
		 struct ck_pv *out)
{
	uint32_t number;
	size_t module_len;
	struct ck_str full;
	int rc;

	if (ck_global_dangerous(module, name))
		return refuse(vm, module, name);
	full = full_name(vm, module, name, &module_len);
	if (!full.p)
		return -ENOMEM;
	if (ck_global_dangerous((struct ck_str){ full.p, module_len },
				(struct ck_str){ full.p + module_len + 1,
						 full.len - module_len - 1 }))
		return refuse(vm, module, name);
	rc = intern(vm, (struct ck_pglobal){ full, module_len }, &number);
	if (rc)
		return rc;
	if (vm->getattr < 0 && ck_str_is(full, "builtins.getattr"))
		vm->getattr = number;
	if (vm->size_class < 0 && ck_str_is(full, "torch.Size"))
		vm->size_class = number;
	if (vm->rebuild < 0 &&
	    ck_str_is(full, "torch._utils._rebuild_tensor_v2"))
		vm->rebuild = number;
	vm->getattr_pushed += number == vm->getattr;
	*out = (struct ck_pv){ .tag = CK_PV_GLOBAL, .i = number };
	return 0;
}

static bool is_identifier(struct ck_str s)
{
	for (size_t i = 0; i < s.len; i++) {
		char c = s.p[i];
		bool letter = (c >= 'a' && c <= 'z') ||
			      (c >= 'A' && c <= 'Z') || c == '_' || c < 0;

		if (!letter && (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return s.len > 0;
}

bool ck_global_is_attribute(struct ck_str name)
{
	return is_identifier(name) && !ck_str_starts(name, CK_STR("__"));
}

int ck_vm_getattr(struct ck_vm *vm, const struct ck_pv *args, struct ck_pv *out)
{
	struct ck_pv class, attr;
	struct ck_pglobal g;
	struct ck_str name;
	struct ck_str of;
	ck_auto_free char *dotted = NULL;

	if (ck_pv_count(args) != 2)
		return ck_vm_bad(vm, "dangerous use of builtins.getattr");
	class = ck_pv_at(args, 0);
	attr = ck_pv_at(args, 1);
	if (class.tag != CK_PV_GLOBAL || class.i == vm->getattr ||
	    !ck_pv_str(&attr, &name) || !ck_global_is_attribute(name))
		return ck_vm_bad(vm, "dangerous use of builtins.getattr");
	vm->getattr_used++;
	g = vm->out->globals[class.i];
	of = (struct ck_str){ g.full.p + g.module_len + 1,
			      g.full.len - g.module_len - 1 };
	dotted = malloc(of.len + 1 + name.len);
	if (!dotted)
		return -ENOMEM;
	memcpy(dotted, of.p, of.len);
	dotted[of.len] = '.';
	memcpy(dotted + of.len + 1, name.p, name.len);
	return ck_vm_global(vm, (struct ck_str){ g.full.p, g.module_len },
			    (struct ck_str){ dotted, of.len + 1 + name.len },
			    out);
}
