# SPDX-License-Identifier: MIT
"""Locks: core/LOCKS.md lists each lock, and comments name the guard of each field of
a struct that contains a lock.

The rule: in such a struct every field except the locks stands below a comment
that ends in a colon, without an empty line between. The comment names a lock of
the struct, a lock of the list, or the words constant, atomic, one thread, or locks
itself. Example:

    /* Under lock: */
    struct job *first, **last;
"""

import os
import re

LIST = 'core/LOCKS.md'
ROW = re.compile(r'^\| `([\w.]+)` \|')
LOCK = re.compile(r'\bpthread_(?:mutex|rwlock|spinlock)_t\s+(\w+)')
STRUCT = re.compile(r'^struct (\w+) \{\n(.*?)^\}', re.M | re.S)
WORDS = ('constant', 'atomic', 'one thread', 'locks itself')


def without_comments(text):
    return re.sub(r'/\*.*?\*/', lambda m: re.sub(r'[^\n]', ' ', m.group(0)),
                  text, flags=re.S)


def locks_of(path, text):
    """Each lock of a file, as (its name in the list, its line). The name begins with the
    name of the struct, or of the file for a lock outside of a struct."""
    text = without_comments(text)
    structs = [(m.start(), m.end(), m.group(1)) for m in STRUCT.finditer(text)]
    for m in LOCK.finditer(text):
        home = next((name for begin, end, name in structs
                     if begin < m.start() < end), os.path.basename(path))
        yield f'{home}.{m.group(1)}', text.count('\n', 0, m.start()) + 1


def rows(text):
    """Each lock of the list, and its line."""
    for number, line in enumerate(text.split('\n'), 1):
        m = ROW.match(line)
        if m:
            yield m.group(1), number


def fields(body):
    """Each declaration of a struct, as (its line number from 0, the line, the
    comment above it that ends in a colon, or '')."""
    head, comment, own = '', '', False
    for number, line in enumerate(body.split('\n')):
        text = line.strip()
        if not comment and not text:
            head = ''
        if not comment and text and not text.startswith('/*'):
            yield number, text, head
        if not comment:
            own = text.startswith('/*')
            text = text[text.find('/*'):] if '/*' in text else ''
        comment += ' ' + text if text else ''
        if comment.endswith('*/'):
            if own and comment.rstrip('*/ ').endswith(':'):
                head = comment
            comment = ''


def names_guard(comment, names):
    """Joins the lines of a comment: a line break may separate the words."""
    comment = re.sub(r'[\s*]+', ' ', comment.lower())
    return any(re.search(rf'\b{re.escape(n)}\b', comment) for n in names)


def field_faults(path, text, listed):
    for m in STRUCT.finditer(text):
        own = LOCK.findall(without_comments(m.group(2)))
        first = text.count('\n', 0, m.start()) + 2
        for number, line, head in fields(m.group(2)) if own else ():
            if not LOCK.match(line) and \
                    not names_guard(head, [*own, *listed, *WORDS]):
                yield f'{path}:{first + number}: no comment above it, as ' \
                      f'"Under {own[0]}:", says what guards it'


def faults(tree):
    """In the code."""
    listed = [name for name, _ in rows(tree.text(LIST))]
    for path in tree.code():
        text = tree.text(path)
        for name, line in locks_of(path, text):
            if name not in listed:
                yield f'{path}:{line}: {LIST} does not have {name}'
        yield from field_faults(path, text, listed)


def code_below(tree, folders):
    for folder in folders:
        for at, _, names in os.walk(tree.full(folder)):
            for name in names:
                if name.endswith(('.c', '.h')):
                    yield os.path.join(at, name)


def list_faults(tree, folders):
    """Rows of the list without a lock in the code, and repeated rows."""
    known = {name for path in code_below(tree, folders)
             for name, _ in locks_of(path, tree.text(path))}
    seen = set()
    for name, line in rows(tree.text(LIST)):
        if name not in known:
            yield f'{LIST}:{line}: there is no lock {name}'
        if name in seen:
            yield f'{LIST}:{line}: {name} is there twice'
        seen.add(name)
