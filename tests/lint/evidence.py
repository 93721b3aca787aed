# SPDX-License-Identifier: MIT
"""Documents that name tests: each row of tests/PROMISES.md and each statement of
tests/SECURITY.md has at least one, and it is there. fs/SEMANTICS.md has the same
numbers as tests/PROMISES.md, and a number behind each statement.

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
    'page': ('tests/page/{}.py',),
    'client': ('tests/client/{}.sh', 'tests/client/{}.py'),
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
    words = (name, name + '_test', name + '_test.c', name + '.py', name + '.sh')
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


# "| S-P7 | what is said | references |"
STATEMENT = re.compile(r'^\| (S-[A-Z])(\d+) \|.*?\|(.*)\|$', re.M)


def statements(text):
    for m in STATEMENT.finditer(text):
        yield (text.count('\n', 0, m.start()) + 1, m.group(1),
               int(m.group(2)), m.group(3))


def lines_like(text, rule):
    return len(re.findall(rule, text, re.M))


SEMANTICS, PROMISES = 'fs/SEMANTICS.md', 'tests/PROMISES.md'
# "| P7 | a short promise | references |"
PROMISE = re.compile(r'^\| (P)(\d+) \|[^|\n]*\w[^|\n]*\|(.*)\|$', re.M)
NUMBERS = re.compile(r'\((P\d+(?:,\s+P\d+)*)\)')


def line_of(text, position):
    return text.count('\n', 0, position) + 1


def promises(text):
    for m in PROMISE.finditer(text):
        yield line_of(text, m.start()), m.group(1), int(m.group(2)), m.group(3)


def cited(text):
    """Each number that a text has in parentheses, with its line."""
    for m in NUMBERS.finditer(text):
        for number in re.finditer(r'\d+', m.group(1)):
            yield line_of(text, m.start(1) + number.start()), int(number.group(0))


def number_faults(numbers, path, others, other):
    """Numbers of one file that the other file lacks."""
    for line, number in numbers:
        if number not in others:
            yield f'{path}:{line}: P{number} is not in {other}'


def promise_faults(tree, path):
    text = tree.text(path)
    rows = list(promises(text))
    # A row of another form would not be checked.
    if not rows or lines_like(text, r'^\W*P\d') != len(rows):
        yield f'{path}:1: a row is "| P<number> | ... | ... |"'
    yield from judge(tree, path, rows)
    others = {number for _, number in cited(read(tree, SEMANTICS) or '')}
    yield from number_faults([(row[0], row[2]) for row in rows], path, others, SEMANTICS)


# A paragraph, list item, heading, or row of a table.
BLOCK = re.compile(r'^(?! *$).+\n?(?:(?! *(?:[-*] |[|#]|$)).+\n?)*', re.M)
TABLE_HEAD = re.compile(r'\|.*\n\|[-|]+\n|\|[-|]+$', re.M)


def statements_of(text):
    """Blocks that state a promise, with their lines: all but headings, the first paragraph
    of a section, heads of tables, and blocks that end with a colon."""
    first = False
    for m in BLOCK.finditer(text):
        block = m.group(0).strip()
        heading = block.startswith('#')
        definition = first and not re.match(r'[-*] |\|', block)
        if not (heading or definition or block.endswith(':')
                or TABLE_HEAD.match(text, m.start())):
            yield line_of(text, m.start()), block
        first = heading


def semantics_faults(tree, path):
    text = tree.text(path)
    numbers = list(cited(text))
    others = {row[2] for row in promises(read(tree, PROMISES) or '')}
    yield from number_faults(numbers, path, others, PROMISES)
    rest = NUMBERS.sub(lambda m: re.sub(r'\S', '.', m.group(0)), text)
    for m in re.finditer(r'\bP\d', rest):
        yield f'{path}:{line_of(rest, m.start())}: write (P<number>) or (P<number>, P<number>)'
    for line, block in statements_of(text):
        if not re.search(NUMBERS.pattern + r'[.;]?(?: \|)?$', block):
            yield f'{path}:{line}: "{block[:40]}" does not end with the number of a promise'
    if not numbers:
        yield f'{path}:1: has no promise'


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
