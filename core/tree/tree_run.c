/* SPDX-License-Identifier: MIT */
/*
 * tree_run: the root of a run directory. A step becomes a checkpoint with a root of its own
 * when it is looked up first, and is forgotten when it is long not in use: of those that
 * are not, the last ones are kept. One that was removed or replaced is no step any more,
 * and is kept for as long as something of it is in use.
 */
#include "format/run/run.h"
#include "tree_internal.h"

#include <errno.h>

enum {
	KEPT = 16, /* steps that are not in use */
	CONTROL = CK_ENTRIES_MAX -
		  1, /* the entry of .ckptfs/, and its position */
	NAMES_MSEC = 1000,
};

struct made_step {
	struct made_step *next; /* looked up before */
	uint32_t id;
	uint64_t changes; /* of its directory, when it was opened */
	unsigned pins;	  /* lookups at work */
	struct ck_checkpoint *cp;
	struct ck_root *root;
};

struct ck_made {
	/* Constant: */
	struct ck_root *root;
	struct ck_rundir *run;
	const struct ck_view *const *views;
	size_t nviews;
	struct ck_dirs *dirs; /* of the tree */

	pthread_mutex_t lock;
	/* Under lock: */
	struct made_step *first; /* the one that was looked up last */
};

int ck_made_make(struct ck_root *root, const struct ck_view *const *views,
		 size_t nviews, struct ck_made **out)
{
	struct ck_made *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	m->root = root;
	m->run = ck_checkpoint_run(root->cp);
	m->views = views;
	m->nviews = nviews;
	pthread_mutex_init(&m->lock, NULL);
	*out = m;
	return 0;
}

static void step_free(struct made_step *s)
{
	ck_root_free(s->root);
	ck_checkpoint_close(s->cp);
	free(s);
}

void ck_made_free(struct ck_made *m)
{
	if (!m)
		return;
	for (struct made_step *s = m->first, *next; s; s = next) {
		next = s->next;
		step_free(s);
	}
	pthread_mutex_destroy(&m->lock);
	free(m);
}

void ck_made_begin(struct ck_made *m, struct ck_dirs *dirs)
{
	m->dirs = dirs;
}

/* --- forgetting ------------------------------------------------------------------- */

/* The directories of a step, and of those below it, are in no table any more. */
static void dirs_drop(struct ck_made *m, struct ck_root *root)
{
	if (root->made) {
		pthread_mutex_lock(&root->made->lock);
		for (struct made_step *s = root->made->first; s; s = s->next)
			dirs_drop(m, s->root);
		pthread_mutex_unlock(&root->made->lock);
	}
	ck_dirs_drop(m->dirs, root);
}

static bool is_unused(struct ck_made *m, const struct made_step *s)
{
	return s->pins == 0 && ck_dirs_uses(m->dirs, s->root) == 0;
}

/* Those that are in use neither, and are gone or older than the newest ones; as a list.
 * Under m->lock. */
static struct made_step *unused_take(struct ck_made *m)
{
	struct made_step *out = NULL;
	unsigned kept = 0;

	for (struct made_step **at = &m->first, *s; (s = *at);) {
		bool gone = __atomic_load_n(&s->root->gone, __ATOMIC_ACQUIRE);

		if (!is_unused(m, s) || (!gone && ++kept <= KEPT)) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		dirs_drop(m, s->root);
		s->next = out;
		out = s;
	}
	return out;
}

static void steps_free(struct made_step *list)
{
	for (struct made_step *next; list; list = next) {
		next = list->next;
		step_free(list);
	}
}

/* Which of those that were made are still there. A directory that was changed may have
 * other metadata. Under m->lock. */
static void made_judge(struct ck_made *m, const struct ck_steps *steps)
{
	for (struct made_step *s = m->first; s; s = s->next) {
		const struct ck_step *now = ck_steps_at(steps, s->id);
		bool gone = !now;

		if (now && now->changes != s->changes && !s->root->made) {
			gone = ck_checkpoint_same(s->cp, NULL) == -ESTALE;
			if (gone)
				ck_run_renew(m->run, s->id);
		}
		if (gone)
			__atomic_store_n(&s->root->gone, true,
					 __ATOMIC_RELEASE);
		else
			s->changes = now->changes;
	}
}

/* The names as they are now. */
static int steps_get(struct ck_made *m, const struct ck_steps **out)
{
	struct made_step *unused;
	int rc = ck_run_steps(m->run, out);

	if (rc)
		return rc;
	pthread_mutex_lock(&m->lock);
	made_judge(m, *out);
	unused = unused_take(m);
	pthread_mutex_unlock(&m->lock);
	steps_free(unused);
	return 0;
}

bool ck_root_is_gone(struct ck_root *r)
{
	const struct ck_steps *steps;

	for (; r->above; r = r->above) {
		if (steps_get(r->above->made, &steps) == 0)
			ck_steps_put(steps);
		if (__atomic_load_n(&r->gone, __ATOMIC_ACQUIRE))
			return true;
	}
	return false;
}

/* --- making ------------------------------------------------------------------------ */

/* Pins it. Under m->lock. NULL: it was not made. */
static struct made_step *made_find(struct ck_made *m, uint32_t id)
{
	for (struct made_step **at = &m->first, *s; (s = *at); at = &s->next)
		if (s->id == id &&
		    !__atomic_load_n(&s->root->gone, __ATOMIC_ACQUIRE)) {
			*at = s->next;
			s->next = m->first;
			m->first = s;
			s->pins++;
			return s;
		}
	return NULL;
}

static int step_make(struct ck_made *m, const struct ck_step *step,
		     struct made_step **out)
{
	struct made_step *s = calloc(1, sizeof(*s));
	struct ck_diag d = { 0 };
	int rc = s ? ck_run_open(m->run, step, &s->cp, &d) : -ENOMEM;

	if (rc == 0) {
		/* What counts is the mount's. */
		ck_files_set_stats(s->cp->files,
				   ck_files_stats(m->root->cp->files));
		rc = ck_root_make(s->cp, m->views, m->nviews, m->root->options,
				  &s->root);
	}
	if (rc == 0) {
		s->root->above = m->root;
		s->id = step->id;
		s->changes = step->changes;
		if (s->root->made)
			ck_made_begin(s->root->made, m->dirs);
		*out = s;
		return 0;
	}
	if (d.text[0] && rc != -EAGAIN)
		ck_log("%s", d.text);
	if (s)
		ck_checkpoint_close(s->cp);
	free(s);
	return rc;
}

/* Another lookup may have made it meanwhile. */
static struct made_step *made_add(struct ck_made *m, struct made_step *s)
{
	struct made_step *there;

	pthread_mutex_lock(&m->lock);
	there = made_find(m, s->id);
	if (!there) {
		s->next = m->first;
		s->pins = 1;
		m->first = s;
	}
	pthread_mutex_unlock(&m->lock);
	if (there)
		step_free(s);
	return there ? there : s;
}

static int step_get(struct ck_made *m, const struct ck_step *step,
		    struct made_step **out)
{
	struct made_step *s;
	int rc = 0;

	pthread_mutex_lock(&m->lock);
	s = made_find(m, step->id);
	pthread_mutex_unlock(&m->lock);
	if (!s) {
		rc = step_make(m, step, &s);
		if (rc == 0)
			s = made_add(m, s);
	}
	*out = s;
	return rc;
}

void ck_made_entered(struct ck_root *step)
{
	struct ck_made *m = step->above->made;

	pthread_mutex_lock(&m->lock);
	for (struct made_step *s = m->first; s; s = s->next)
		if (s->root == step)
			s->pins--;
	pthread_mutex_unlock(&m->lock);
}

/* --- the view ----------------------------------------------------------------------- */

static struct ck_made *made_of(const struct ck_dir *dir)
{
	return dir->root->made;
}

static void control_set(const struct ck_dir *dir, struct ck_child *out)
{
	const struct ck_root *r = dir->root;

	*out = (struct ck_child){ .type = CK_TYPE_DIR,
				  .entry = CONTROL,
				  .dir = { .view = r->views[0],
					   .state = r->states[0],
					   .root = dir->root } };
}

static int step_child(struct ck_made *m, const struct ck_step *step,
		      struct ck_child *out)
{
	struct made_step *s;
	int rc;

	out->entry = step->id;
	out->type = step->is_link ? CK_TYPE_LINK : CK_TYPE_DIR;
	if (step->is_link)
		return 0;
	rc = step_get(m, step, &s);
	if (rc)
		return rc;
	out->dir = ck_root_dir(s->root);
	out->step = s->root;
	return 0;
}

static int run_lookup(const struct ck_catalog *c, const struct ck_dir *dir,
		      struct ck_str name, struct ck_child *out)
{
	enum { TRIES = 3 };
	struct ck_made *m = made_of(dir);
	const struct ck_steps *steps;
	const struct ck_step *step;
	int rc = -EAGAIN;

	(void)c;
	if (ck_str_is(name, dir->root->views[0]->top)) {
		control_set(dir, out);
		return 0;
	}
	for (int i = 0; i < TRIES && rc == -EAGAIN; i++) {
		rc = steps_get(m, &steps);
		if (rc)
			break;
		step = ck_steps_find(steps, name);
		rc = step ? step_child(m, step, out) : -ENOENT;
		ck_steps_put(steps);
	}
	return rc == -EAGAIN ? -ENOENT : rc;
}

static int run_next(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint64_t *at, struct ck_child *out)
{
	const struct ck_steps *steps;
	uint32_t i = 0;
	int rc;

	(void)c;
	if (*at > CONTROL)
		return -ENOENT;
	rc = steps_get(made_of(dir), &steps);
	if (rc)
		return rc;
	while (i < steps->nshown && steps->all[i].id < *at)
		i++;
	if (i < steps->nshown) {
		*at = steps->all[i].id;
		*out = (struct ck_child){ .type = steps->all[i].is_link
							  ? CK_TYPE_LINK
							  : CK_TYPE_DIR,
					  .entry = steps->all[i].id };
	} else {
		*at = CONTROL;
		control_set(dir, out);
	}
	ck_steps_put(steps);
	return 0;
}

static void run_name(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_buf *out)
{
	const struct ck_steps *steps;
	const struct ck_step *step;

	(void)c;
	if (entry == CONTROL) {
		ck_buf_text(out, dir->root->views[0]->top);
		return;
	}
	if (ck_run_steps(made_of(dir)->run, &steps)) {
		out->err = -ENOMEM;
		return;
	}
	step = ck_steps_at(steps, entry);
	ck_buf_text(out, step ? step->stem : "");
	ck_steps_put(steps);
}

/* Files that are no directories are links. Appends where one leads. */
static int run_link(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_buf *target)
{
	const struct ck_steps *steps;
	const struct ck_step *step;
	int rc = steps_get(made_of(dir), &steps);

	(void)c;
	if (rc)
		return rc;
	step = ck_steps_at(steps, entry);
	if (step && step->is_link)
		ck_buf_text(target, step->target);
	else
		rc = -ENOENT;
	ck_steps_put(steps);
	return rc;
}

static int run_stat(const struct ck_catalog *c, const struct ck_dir *dir,
		    uint32_t entry, struct ck_file_content *out)
{
	struct ck_buf target = { 0 };
	int rc = run_link(c, dir, entry, &target);

	*out = (struct ck_file_content){ .type = CK_TYPE_LINK,
					 .topic = CK_FILE_KIND_CHECKPOINT,
					 .live = true,
					 .size = target.len };
	ck_buf_fini(&target);
	return rc;
}

static int run_slice(const struct ck_catalog *c, const struct ck_dir *dir,
		     uint32_t entry, struct ck_slice **out)
{
	(void)c, (void)dir, (void)entry, (void)out;
	return -ENOENT;
}

static const struct ck_view view_run = {
	.top = "",
	.lookup = run_lookup,
	.next = run_next,
	.name = run_name,
	.stat = run_stat,
	.slice = run_slice,
	.link = run_link,
};

struct ck_dir ck_made_dir(struct ck_root *r)
{
	return (struct ck_dir){ .view = &view_run,
				.state = r,
				.root = r,
				.names_msec = NAMES_MSEC };
}

/* --- reports ------------------------------------------------------------------------ */

uint64_t ck_made_count(const struct ck_root *r)
{
	const struct ck_steps *steps;
	uint64_t n = 2;

	if (ck_run_steps(r->made->run, &steps))
		return n;
	n += steps->nshown;
	ck_steps_put(steps);
	return n;
}

void ck_made_status(const struct ck_root *r, struct ck_buf *out)
{
	const struct ck_steps *steps;

	if (ck_run_steps(r->made->run, &steps))
		return;
	ck_buf_printf(out, "steps: %u\nsteps not shown: %u\n",
		      steps->nshown - steps->nlinks, steps->n - steps->nshown);
	for (uint32_t i = steps->nshown; i < steps->n; i++) {
		ck_buf_text(out, "  ");
		ck_buf_escaped(out, ck_str_from(steps->all[i].name));
		ck_buf_printf(out, ": %s\n", steps->all[i].why);
	}
	ck_steps_put(steps);
}

static bool is_damaged(const struct ck_root *r)
{
	ck_auto_catalog *c = ck_checkpoint_catalog(r->cp);
	bool damaged = c->nlosses > 0;

	for (uint32_t i = 0; i < c->tensors.n && !damaged; i++)
		damaged = ck_damage_is_known(r->damage, i);
	return damaged;
}

void ck_made_damage(const struct ck_root *r, struct ck_buf *out)
{
	struct ck_made *m = r->made;
	const struct ck_steps *steps;

	if (steps_get(m, &steps))
		return;
	pthread_mutex_lock(&m->lock);
	for (const struct made_step *s = m->first; s; s = s->next) {
		const struct ck_step *step = ck_steps_at(steps, s->id);

		if (step && is_damaged(s->root))
			ck_buf_printf(out, "%s: see %s/.ckptfs/damage\n",
				      step->stem, step->stem);
	}
	pthread_mutex_unlock(&m->lock);
	ck_steps_put(steps);
}
