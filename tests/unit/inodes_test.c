/* SPDX-License-Identifier: MIT */
/*
 * The inode table of files/: names of one file share a node, a name is followed to the nearest
 * directory with a descriptor, directories that are moved below each other make no circle, and
 * a node that is not used any more is freed.
 */
#include "files/area_table.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { FIRST = 1000, FDS = 4 };

static struct ck_area_id id_of(const struct ck_area_node *top, ino_t ino,
			       mode_t type)
{
	return (struct ck_area_id){
		.top = top ? top->number : 0, .dev = 1, .ino = ino, .type = type
	};
}

/* Enters a name; the node has one more reference and one more lookup. */
static struct ck_area_node *enter(struct ck_area_table *t,
				  struct ck_area_node *parent, const char *name,
				  const struct ck_area_id *id)
{
	struct ck_area_node *n;

	eq_err(ck_area_enter(t, parent, name, id, -1, 1, &n), 0);
	return n;
}

/* The way to a node as a text: the number of the node above, and the names. */
static const char *way_text(struct ck_area_table *t, struct ck_area_node *n)
{
	static char text[200];
	struct ck_area_way w;
	int rc = ck_area_way_find(t, n, &w);
	size_t at = 0;

	if (rc)
		return strerrorname_np(-rc);
	at += (size_t)snprintf(text, sizeof(text), "%d",
			       w.above ? (int)w.above->number : 0);
	for (size_t i = 0; i < w.n; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, " %s",
				       w.steps[i].name);
	if (w.above)
		ck_area_fd_unpin(t, w.above);
	ck_area_way_fini(t, &w);
	return text;
}

static void leave(struct ck_area_table *t, struct ck_area_node *n)
{
	uint64_t number = n->number;

	ck_area_put(t, n);
	ck_area_forget(t, number, 1);
}

static size_t nodes_of(struct ck_area_table *t)
{
	size_t nodes;
	unsigned fds;

	ck_area_counts(t, &nodes, &fds);
	return nodes;
}

static void test_names(void)
{
	struct ck_area_id top_id = id_of(NULL, 1, S_IFDIR);
	struct ck_area_node *top, *a, *b, *same, *parent;
	struct ck_area_id id, file;
	struct ck_area_table t;
	char name[CK_AREA_NAME_BYTES];

	eq_err(ck_area_table_init(&t, FIRST, FDS), 0);
	top = enter(&t, NULL, ".", &top_id);
	id = id_of(top, 2, S_IFDIR);
	a = enter(&t, top, "a", &id);
	file = id_of(top, 3, S_IFREG);
	b = enter(&t, a, "b", &file);
	eq_text(way_text(&t, b), "0 . a b");

	same = enter(&t, top, "link", &file);
	eq_u64(same->number, b->number);
	eq_text(way_text(&t, b), "0 . link");
	ck_area_renamed(&t, &file, a, "again");
	eq_text(way_text(&t, b), "0 . a again");
	eq_err(ck_area_first_name(&t, b, name), 0);
	eq_text(name, "a");
	eq_err(ck_area_name_of(&t, b, &parent, name), 0);
	eq_text(name, "again");
	eq_u64(parent->number, a->number);
	ck_area_put(&t, parent);
	eq_err(ck_area_name_of(&t, top, &parent, name), -EINVAL);

	ck_area_fd_unpin(&t, (ck_area_fd_give(&t, a, open("/", O_PATH)), a));
	eq_text(way_text(&t, b), "1001 again");
	eq_u64(nodes_of(&t), 3);
	leave(&t, same);
	leave(&t, a);
	eq_u64(nodes_of(&t), 3);
	leave(&t, b);
	eq_u64(nodes_of(&t), 1);
	leave(&t, top);
	eq_u64(nodes_of(&t), 0);
	ck_area_table_fini(&t);
}

/* Two directories that are moved below each other beside the mount: one of the old names is
 * lost. */
static void test_circle(void)
{
	struct ck_area_id top_id = id_of(NULL, 1, S_IFDIR), a_id, b_id;
	struct ck_area_node *top, *a, *b, *again;
	struct ck_area_table t;

	eq_err(ck_area_table_init(&t, FIRST, FDS), 0);
	top = enter(&t, NULL, ".", &top_id);
	a_id = id_of(top, 2, S_IFDIR);
	b_id = id_of(top, 3, S_IFDIR);
	a = enter(&t, top, "a", &a_id);
	b = enter(&t, a, "b", &b_id);
	again = enter(&t, b, "a", &a_id);
	eq_text(way_text(&t, a), "ESTALE");
	ck_area_renamed(&t, &b_id, top, "b");
	eq_text(way_text(&t, a), "0 . b a");
	ck_area_renamed(&t, &a_id, a, "itself");
	eq_text(way_text(&t, a), "0 . b a");
	leave(&t, again);
	leave(&t, a);
	leave(&t, b);
	leave(&t, top);
	eq_u64(nodes_of(&t), 0);
	ck_area_table_fini(&t);
}

/* Tops have nodes of their own for the same files, and covered directories for each name. */
static void test_tops(void)
{
	struct ck_area_id ids[] = { id_of(NULL, 1, S_IFDIR),
				    id_of(NULL, 2, S_IFDIR) };
	struct ck_area_node *tops[2], *of[2], *covered[2];
	struct ck_area_table t;

	eq_err(ck_area_table_init(&t, FIRST, FDS), 0);
	for (int i = 0; i < 2; i++) {
		struct ck_area_id id, hidden;

		tops[i] = enter(&t, NULL, i ? "step" : ".", &ids[i]);
		id = id_of(tops[i], 9, S_IFDIR);
		of[i] = enter(&t, tops[i], "x", &id);
		hidden = ck_area_id_covered(&t, tops[0], i ? "m" : "n");
		covered[i] = enter(&t, tops[0], i ? "m" : "n", &hidden);
	}
	ok(of[0] != of[1]);
	ok(covered[0] != covered[1]);
	eq_u64(ck_area_top_of(of[1]), tops[1]->number);
	for (int i = 0; i < 2; i++) {
		leave(&t, of[i]);
		leave(&t, covered[i]);
	}
	leave(&t, tops[0]);
	leave(&t, tops[1]);
	eq_u64(nodes_of(&t), 0);
	ck_area_table_fini(&t);
}

/* Directories and names at random; each lookup is forgotten at the end. */
static void test_random(unsigned steps)
{
	enum { FILES = 12 };
	struct ck_area_id top_id = id_of(NULL, 1, S_IFDIR);
	struct ck_area_node *top, *n[FILES] = { NULL };
	struct ck_area_table t;
	unsigned random = 1;

	eq_err(ck_area_table_init(&t, FIRST, FDS), 0);
	top = enter(&t, NULL, ".", &top_id);
	for (unsigned i = 0; i < steps; i++) {
		unsigned k, p;
		struct ck_area_id id;
		char name[8];

		random = random * 1103515245 + 12345;
		k = random >> 16 & 0xff;
		p = k / FILES % FILES;
		k %= FILES;
		id = id_of(top, 10 + k, S_IFDIR);
		snprintf(name, sizeof(name), "%u", random >> 28);
		if (n[k] && random >> 30 == 0) {
			leave(&t, n[k]);
			n[k] = NULL;
		} else if (n[k] && n[p]) {
			ck_area_renamed(&t, &id, n[p], name);
			(void)way_text(&t, n[k]);
		} else if (!n[k]) {
			n[k] = enter(&t, n[p] ? n[p] : top, name, &id);
		} else {
			ck_area_fd_give(&t, n[k], open("/", O_PATH));
			ck_area_fd_unpin(&t, n[k]);
		}
	}
	for (unsigned k = 0; k < FILES; k++)
		if (n[k])
			leave(&t, n[k]);
	eq_u64(nodes_of(&t), 1);
	leave(&t, top);
	eq_u64(nodes_of(&t), 0);
	ck_area_table_fini(&t);
}

int main(void)
{
	test_names();
	test_circle();
	test_tops();
	test_random(20000);
	return tap_done();
}
