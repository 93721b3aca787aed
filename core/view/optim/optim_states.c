/* SPDX-License-Identifier: MIT */
/*
 * optim_states: looks up the names of parameters among the tensors of the model. Names are compared
 * without the prefixes of wrappers, as hf/ shows them. Stateless; any thread.
 */
#include "view/optim_states.h"
#include "optim.h"
#include "view/hf.h"

/* The tensors of the model, by the name that they have in hf/. */
struct model {
	const struct ck_catalog *c;
	struct ck_hf_chosen chosen;
	struct ck_table table; /* indexes in chosen.tensors */
};

static struct ck_str model_name(const void *arg, uint32_t number)
{
	const struct model *m = arg;

	return ck_hf_name(&m->chosen, m->c, m->chosen.tensors[number]);
}

static int model_make(struct model *m)
{
	const struct ck_view_options none = { 0 };
	int rc = ck_hf_choose_model(m->c, &none, &m->chosen);
	uint32_t number;

	m->table = (struct ck_table){ .key = model_name, .arg = m };
	for (uint32_t i = 0; i < m->chosen.n && rc == 0; i++)
		rc = ck_table_add(&m->table, model_name(m, i), i, &number);
	return rc;
}

static void model_fini(struct model *m)
{
	ck_table_fini(&m->table);
	ck_hf_chosen_fini(&m->chosen);
}

/* Sets *tensor to the row of a parameter. Returns 1, 0 if the model has no such tensor, or
 * -ENOMEM. */
static int model_find(const struct model *m, struct ck_str parameter,
		      uint32_t *tensor)
{
	static const struct ck_str module = { "module.", 7 };
	struct ck_buf name = { 0 };
	struct ck_str text;
	int64_t at;

	ck_name_unwrap(parameter, &name);
	if (name.err)
		return -ENOMEM;
	text = (struct ck_str){ name.data, name.len };
	at = ck_table_find(&m->table, text);
	if (at < 0 && m->chosen.module && ck_str_starts(text, module)) {
		text.p += module.len;
		text.len -= module.len;
		at = ck_table_find(&m->table, text);
	}
	ck_buf_fini(&name);
	if (at < 0)
		return 0;
	*tensor = m->chosen.tensors[at];
	return 1;
}

/* The name of a file without its suffix. */
static struct ck_str state_name(const struct ck_optim_keys *k,
				const struct ck_optim_file *file)
{
	struct ck_str name = k->names.all[file->name];
	const char *suffix = memrchr(name.p, '.', name.len);

	return (struct ck_str){ name.p,
				suffix ? (size_t)(suffix - name.p) : name.len };
}

static int key_each(const struct model *m, const struct ck_optim_keys *k,
		    const struct ck_optim_key *key,
		    int (*each)(void *arg, const struct ck_optim_state *s),
		    void *arg)
{
	struct ck_optim_state s;
	int rc = model_find(m, key->name, &s.parameter);

	if (rc <= 0)
		return rc;
	rc = 0;
	for (uint32_t i = 0; i < key->nfiles && rc == 0; i++) {
		const struct ck_optim_file *file = &k->files[key->file + i];
		struct ck_entry_id id = ck_optim_id(file->code);

		if (id.is_object)
			continue;
		s.tensor = id.i;
		s.name = state_name(k, file);
		rc = each(arg, &s);
	}
	return rc;
}

static int map_each(const struct ck_catalog *c, const struct ck_optim_map *map,
		    int (*each)(void *arg, const struct ck_optim_state *s),
		    void *arg)
{
	struct model m = { .c = c };
	int rc = model_make(&m);

	for (uint32_t i = 0; i < map->keys.n && rc == 0; i++)
		if (map->keys.all[i].has_name)
			rc = key_each(&m, &map->keys, &map->keys.all[i], each,
				      arg);
	model_fini(&m);
	return rc;
}

int ck_optim_states_each(const struct ck_catalog *c,
			 const struct ck_object_access *objects,
			 int (*each)(void *arg, const struct ck_optim_state *s),
			 void *arg)
{
	const struct ck_view_options none = { 0 };
	struct ck_texts paths = { 0 };
	struct ck_optim_found *found = NULL;
	struct ck_optim_map *map = NULL;
	int rc;

	if (!ck_optim_has_some(c))
		return 0;
	rc = ck_optim_found_make(c, objects, &found);
	if (rc == 0)
		rc = ck_optim_map_make(found, &none, &paths, &map);
	if (rc == 0)
		rc = map_each(c, map, each, arg);
	ck_optim_map_free(map);
	ck_texts_fini(&paths);
	return rc;
}
