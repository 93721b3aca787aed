# SPDX-License-Identifier: MIT
"""Documents that name tests: each promise of fs/SEMANTICS.md and each
statement of tests/SECURITY.md has at least one, and it is there.

A reference is the kind of test, its name, and its cases, as in

    unit `pickle`: `test_good`, `no stop`; mount `umount-clean`: `busy`

The test must be one that meson.build runs, and each case must stand in it,
or in the tables and helpers that it names, outside of comments.
"""

import os
import re

KINDS = {
    'unit': ('tests/unit/{}_test.c',),
    'mount': ('tests/mount/{}.sh',),
    'damage': ('tests/damage/{}_test.c',),
    'golden': ('tests/golden/{}_test.c', 'tests/golden/{}.py'),
    'fuzz': ('tests/fuzz/{}_fuzz.c',),
    'torch': ('tests/torch/{}.py',),
    'crash': ('tests/crash/{}_test.py',),
    'dist': ('tests/dist/{}.py',),
    'gpu': ('tests/gpu/{}', 'tests/gpu/{}_test.c'),
    'mpi': ('tests/mpi/{}.c',),
}
REFERENCE = re.compile(r'\b(%s) `([\w-]+)`' % '|'.join(KINDS))


def read(tree, path):
    try:
        return tree.text(path)
    except OSError:
        return None


def helpers(tree, path, text):
    """Tables, models and programs that a test names."""
    folder = os.path.dirname(path)
    for name in re.findall(r'#include "(\w+_(?:cases?|model)\.h|\w+\.inc)"', text):
        yield f'{folder}/{name}'
    for name in re.findall(r'\$HERE/([\w./-]+\.py)', text):
        yield os.path.normpath(f'{folder}/{name}')
    yield from re.findall(r'\btests/[\w/-]+\.py\b', text)


def without_comments(path, text):
    if path.endswith(('.c', '.h')):
        return re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    return re.sub(r'^[ \t]*#.*$', '', text, flags=re.M)


def is_run(tree, path, name):
    listed = read(tree, os.path.dirname(path) + '/meson.build') or ''
    words = (name, name + '_test', name + '_test.c', name + '.py')
    return any(f"'{word}'" in listed for word in words)


def texts_of(tree, kind, name):
    """What a case of this test may stand in; None: there is no such test."""
    for form in KINDS[kind]:
        path = form.format(name)
        text = read(tree, path)
        if text is not None and is_run(tree, path, name):
            rest = [(p, read(tree, p) or '')
                    for p in helpers(tree, path, text)]
            return [without_comments(*pair) for pair in [(path, text)] + rest]
    return None


def stands_in(case, texts):
    left = r'(?<!\w)' if case[:1].isalnum() else ''
    right = r'(?!\w)' if case[-1:].isalnum() else ''
    rule = re.compile(left + re.escape(case) + right)
    return any(rule.search(text) for text in texts)


def reference_faults(tree, text):
    """What is wrong with one reference."""
    found = REFERENCE.search(text)
    if not found:
        return [f'names no test: "{text}"']
    texts = texts_of(tree, *found.groups())
    if texts is None:
        return [f'there is no test {found.group(0)} that is run']
    cases = re.findall('`([^`]+)`', text[found.end():])
    if not cases:
        return [f'names no case of {found.group(0)}']
    return [f'{found.group(0)} has no case `{case}`' for case in cases
            if not stands_in(case, texts)]


def evidence_faults(tree, text):
    text = ' '.join(text.split())
    if not text:
        return ['names no test']
    return [fault for part in text.split(';')
            for fault in reference_faults(tree, part.strip())]


def order_faults(rows):
    """rows: (line, letters, number). The numbers of each letter ascend; the number of a
    row that was removed stays free."""
    last = {}
    for line, letters, number in rows:
        if number <= last.get(letters, 0):
            yield line, f'{letters}{number} follows {letters}{last[letters]}'
        last[letters] = number


def judge(tree, path, rows):
    """rows: (line, letters, number, text of the references)."""
    rows = list(rows)
    for line, fault in order_faults([row[:3] for row in rows]):
        yield f'{path}:{line}: {fault}'
    for line, letters, number, text in rows:
        for fault in evidence_faults(tree, text):
            yield f'{path}:{line}: {letters}{number}: {fault}'


# "- **P7** What is promised. [references]", over several lines.
PROMISE = re.compile(r'^- \*\*(P)(\d+)\*\*((?:(?!\n- |\n\n|\n#).)*)',
                     re.M | re.S)


def promises(text):
    for m in PROMISE.finditer(text):
        end = re.search(r'\[([^][]*)\]\s*\Z', m.group(3))
        yield (text.count('\n', 0, m.start()) + 1, m.group(1),
               int(m.group(2)), end.group(1) if end else '')


# "| S-P7 | what is said | references |"
STATEMENT = re.compile(r'^\| (S-[A-Z])(\d+) \|.*?\|(.*)\|$', re.M)


def statements(text):
    for m in STATEMENT.finditer(text):
        yield (text.count('\n', 0, m.start()) + 1, m.group(1),
               int(m.group(2)), m.group(3))


def lines_like(text, rule):
    return len(re.findall(rule, text, re.M))


def promise_faults(tree, path):
    text = tree.text(path)
    rows = list(promises(text))
    # What looks like a promise and is none would be passed over.
    if not rows or lines_like(text, r'\*\*P\d') != len(rows):
        yield f'{path}:1: a promise begins "- **P<number>** "'
    yield from judge(tree, path, rows)


def statement_faults(tree, path):
    text = tree.text(path)
    rows = list(statements(text))
    if not rows or lines_like(text, r'^\| *S-') != len(rows):
        yield f'{path}:1: a row is "| S-<letter><number> | ... | ... |"'
    yield from judge(tree, path, rows)


# "| a7 | what PyTorch does | references |", or a reason why there is no test.
FEATURE = re.compile(r'^\| ([a-e]\d+) \|[^|]*\|(.*)\|$', re.M)


def feature_faults(tree, path):
    text = tree.text(path)
    rows = list(FEATURE.finditer(text))
    if not rows or lines_like(text, r'^\| *[a-e]\d') != len(rows):
        yield f'{path}:1: a row is "| <letter><number> | ... | ... |"'
    for m in rows:
        line, tests = text.count('\n', 0, m.start()) + 1, m.group(2).strip()
        if not re.match(r'(does not apply|not yet): \w', tests):
            for fault in evidence_faults(tree, tests):
                yield f'{path}:{line}: {m.group(1)}: {fault}'
