# SPDX-License-Identifier: MIT
"""Cycles among the C files of the program.

A file depends on another one if it uses a function or table that the other one defines. Files
that depend on each other, directly or through others, are a knot: no file of it can be
understood or tested without the rest. tests/lint/knots.txt lists the knots that there are,
each as a block of files. A knot must lie in one of these blocks: no new one appears, and no
file is added to one. tests/lint/run --lower writes the list again when a knot became smaller.
"""
import functools
import os
import re

import calls

LIST = 'tests/lint/knots.txt'
LOWER = 'run tests/lint/run --lower'
FOLDERS = ('core/', 'fs/', 'mount-helpers/')
HEADERS = 'include/'
# Defines functions of a module that is loaded when they are called.
LOADERS = ('mount-helpers/dist_load.c', 'mount-helpers/gpu_load.c')

DEFINED = re.compile(
    r'^(?!static\b|extern\b|typedef\b)(?:\w[^;{}()=#]*?\b(ck_\w+)\([^;{}]*\)\s*\{'
    r'|\w[\w \t*]*[ *](?:\(\*const )?(ck_\w+)(?:\[[^];]*\])*(?:;|\)\([^;{}]*\) =| =\s))', re.M)
INLINE = re.compile(r'^static inline [^;{}()=]*?\b(ck_\w+)\([^;{}]*\)\s*\{(.*?)^\}'
                    r'|^#define (CK_\w+)((?:[^\n]*\\\n)*[^\n]*)', re.M | re.S)
# Not the tag of a type, and not a field.
USED = re.compile(r'(?<!struct )(?<!union )(?<!enum )(?<![.\w>])(?:ck|CK)_\w+')

# The name of a check, the file that it must find, and with which contents.
CANARIES = (
    ('cycles', 'core/base/buf.c', 'void ck_buf_fini(struct ck_buf *b)\n{\n\tck_zip_read(b);\n}\n'),
    ('cycles that grow', 'fs/session/pool.c',
     'void ck_pool_run(void)\n{\n\tck_fs_open();\n}\n'),
    ('cycles through tables', 'core/base/buf.c',
     'void ck_buf_fini(struct ck_buf *b)\n{\n\tuse(ck_reports);\n}\n',
     'void (*const ck_buf_fini[])(void) = { ck_zip_read };\n'),
    ('cycles through headers', 'core/base/buf.c',
     'void ck_buf_fini(struct ck_buf *b)\n{\n\tck_dcp_int(b);\n}\n',
     'void ck_buf_fini(struct ck_buf *b)\n{\n\tCK_TENSOR_VIEW(b);\n}\n'),
)
LIST_CANARIES = (
    ('knots listed', LIST,
     'core/base/buf.c\nfs/read.c\n',      # is not in a knot
     'core/base/canary.c\n',              # no such file
     'not a path\n', '<<<<<<< ours\n'),
)


@functools.cache
def names_of(text):
    """The names that a file defines and uses, and the uses of each inline function and macro."""
    text = calls.bare(text)
    inline = {m.group(1) or m.group(3): set(USED.findall(m.group(2) or m.group(4)))
              for m in INLINE.finditer(text)}
    defined = {m.group(1) or m.group(2) for m in DEFINED.finditer(text)}
    return defined, set(USED.findall(text)), inline


def read_files(tree):
    """The text of each C file on the disk, since a check may be given few paths."""
    for folder in FOLDERS + (HEADERS,):
        for at, _, names in os.walk(tree.full(folder)):
            for name in names:
                if name.endswith(('.c', '.h')):
                    path = os.path.relpath(os.path.join(at, name), tree.root)
                    yield path, tree.text(path)


def expanded(names, inline):
    """Names with those that inline functions and macros use."""
    todo, all_names = list(names), set(names)
    while todo:
        more = inline.get(todo.pop(), set()) - all_names
        all_names |= more
        todo += more
    return all_names


def graph_of(tree):
    """For each C file the files that it depends on, each with a name that it uses."""
    used, home, inline = {}, {}, {}
    for path, text in read_files(tree):
        defines, uses, functions = names_of(text)
        inline.update(functions)
        if path.endswith('.c'):
            used[path] = uses
            home.update(dict.fromkeys(() if path in LOADERS else defines, path))
    return {path: {home[name]: name for name in sorted(expanded(names, inline))
                   if home.get(name, path) != path} for path, names in used.items()}


def reached(graph, start):
    """The files that one depends on, each with the one before it on a shortest way."""
    before, todo = {start: None}, [start]
    for path in todo:
        for there in graph[path]:
            if there not in before:
                before[there] = path
                todo.append(there)
    return before


def finished(graph):
    """All files, each after those that it depends on but for cycles."""
    done, order = set(), []
    for start in graph:
        stack = [] if start in done else [(start, iter(graph[start]))]
        done.add(start)
        while stack:
            path, rest = stack[-1]
            there = next((p for p in rest if p not in done), None)
            if there is None:
                order.append(path)
                stack.pop()
            else:
                done.add(there)
                stack.append((there, iter(graph[there])))
    return order


def knots_of(graph):
    """The strongly connected components of two files or more."""
    back = {path: {} for path in graph}
    for path, there in graph.items():
        for other in there:
            back[other][path] = True
    left = set(graph)
    for start in reversed(finished(graph)):
        if start in left:
            part = set(reached({p: [q for q in back[p] if q in left] for p in left}, start))
            left -= part
            if len(part) > 1:
                yield frozenset(part)


def shown(graph, knot, path):
    """A shortest cycle through a file, with the names used."""
    inner = {p: {q: graph[p][q] for q in graph[p] if q in knot} for p in knot}
    before = reached(inner, path)
    at = next(p for p in before if path in inner[p])
    text = f'{path} ({inner[at][path]})'
    while at != path:
        text, at = f'{at} ({inner[before[at]][at]}) -> {text}', before[at]
    return f'{path} -> {text}'


def rows(text):
    """Each line of the list as (its number, path), and (its number, None) between blocks."""
    for number, line in enumerate(text.split('\n'), 1):
        yield number, line.strip() or None


def stored(tree):
    """The blocks of the list, without what a merge left there."""
    try:
        text = tree.text(LIST)
    except OSError:
        return []
    blocks = [set()]
    for _, path in rows(text):
        if path is None:
            blocks.append(set())
        elif re.fullmatch(r'\S+\.c', path):
            blocks[-1].add(path)
    return [block for block in blocks if block]


def faults(tree):
    """Knots that lie in no block of the list."""
    graph, known = graph_of(tree), stored(tree)
    for knot in knots_of(graph):
        if any(knot <= block for block in known):
            continue
        nearest = max(known, key=lambda block: len(block & knot), default=set())
        added = sorted(knot - nearest)
        what = 'a new cycle' if len(nearest & knot) < 2 else 'a larger knot'
        for path in added:
            yield f'{path}:1: {what}: {shown(graph, knot, path)}'


def text_of(knots):
    return '\n'.join(''.join(f'{path}\n' for path in sorted(knot)) for knot in sorted(knots, key=min))


def lowered(tree):
    """The list as it must be: each knot that lies in a block, and else the block."""
    known, there = stored(tree), list(knots_of(graph_of(tree)))
    if not os.path.exists(tree.full(LIST)):
        return text_of(there)
    good = [knot for knot in there if any(knot <= block for block in known)]
    bad = [block for block in known if any(len(block & knot) > 1 for knot in there if knot not in good)]
    return text_of(good + bad)


def list_faults(tree):
    if LIST in tree.paths and tree.text(LIST) != lowered(tree):
        yield f'{LIST}:1: a knot became smaller: {LOWER}'


def write_list(tree):
    text = lowered(tree)
    with open(tree.full(LIST), 'w', encoding='utf-8') as f:
        f.write(text)


CHECKS = [(name, faults, path, contents) for name, path, *contents in CANARIES]
CHECKS += [(name, list_faults, path, contents) for name, path, *contents in LIST_CANARIES]
