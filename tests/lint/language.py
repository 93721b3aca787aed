# SPDX-License-Identifier: MIT
"""Plain technical English: counts private words in prose, file by file.

Prose is the comments and string literals of C files, the comments and docstrings of Python,
the comments of shell and meson files, Markdown, and manual pages. Code, quoted values,
string literals of one word and Python's None do not count.

A file may have one private word per 1,000 words; a README, a manual page and SEMANTICS.md half
of one. Two are always allowed. tests/lint/language.txt lists the files that have more, with their
number of private words, which may only go down. tests/lint/run --lower writes the list again when
a number went down. It also resolves a merge conflict in the list: it drops the conflict markers
and takes the lower number.
"""
import collections
import functools
import os
import re

LIST = 'tests/lint/language.txt'
LOWER = 'run tests/lint/run --lower'
FOLDERS = ('core/', 'fs/', 'include/', 'mount-helpers/', 'tests/')
ALWAYS = 2

PRIVATE = re.compile(
    r"(?<![\w=/|.'-])(?:[Nn]obody|[Ss]omebody|anew|told|tells?|said|says?|[Ww]hoever"
    r"|none(?![=/|'-]|[.:]\w)|(?:(?<=[.:;!?]\s)|(?<=\A))None)(?!\w)"
    r'|\b[Ww]hat\s+(?:is|was|has|comes|came|it|they|all|one|others|lies|needs|can|may|fails'
    r'|dies|became|becomes)\b')
WORD = re.compile(r'\S*[A-Za-z]\S*')

LITERAL = r'"(?:\\.|[^"\\\n])*"'
C_PROSE = re.compile(rf"(/\*.*?\*/|//[^\n]*)|({LITERAL}(?:\s*{LITERAL})*)|'(?:\\.|[^'\\\n])+'", re.S)
PYTHON_PROSE = re.compile(
    r'(?<![\w"\'])[rbfRBF]{,2}("""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\')'
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(\#[^\n]*(?:\n[ \t]*\#[^\n]*)*)', re.S)
SHELL_PROSE = re.compile(r'(?:^|(?<=[ \t]))(#(?!!)[^\n]*(?:\n[ \t]*#[^\n]*)*)', re.M)

# Blanked in all prose: quoted values and code.
QUOTED = re.compile(r'`[^`]{1,200}`|"[^"\n]{1,60}"|(?<!\w)\'[^\'\n]{1,60}\'(?!\w)'
                    r'|SPDX-License-Identifier: MIT')
MARKDOWN_CODE = re.compile(r'^[ \t]*```.*?^[ \t]*```|(?:(?<=\n\n)|(?<=\A))(?:(?: {4}|\t)[^\n]*\n|\n(?= {4}|\t))+'
                           r'|\]\([^)\s]*\)', re.M | re.S)
PAGE_CODE = re.compile(r'^[ \t]*```.*?^[ \t]*```|^;[^\n]*|\*[^*\n]+\*|(?<!\w)_[^_\n]+_(?!\w)', re.M | re.S)

THREE = 'Nobody was told, and none comes.'
# The name of a check, the file that it must find, and with which contents.
CANARIES = (
    ('language', 'core/base/canary.c',
     f'/* {THREE} */\n', 'int a; /* x\n\t* what\n\t* is, what\n\t* was. */\n/* None. */\n',
     'say("%s: what "\n\t"is", "a file was told", "it says no");\n'),
    ('language grows worse', 'core/LOCKS.md', 500 * f'{THREE}\n'),
    ('language of shell', 'tests/mount/canary.sh', f'#!/bin/sh\n# {THREE}\n',
     'a=$#  # none told\nb=1 # somebody\n'),
    ('language of Python', 'tests/torch/canary.py', f'"""{THREE}"""\n',
     'def a():\n    """It says\n    what is.\n    """\n    # None: whoever\n    return a  # anew\n'),
    ('language of Markdown', 'fs/canary.md', f'# Title\n\n{THREE}\n', f'- x\n\n    code\n\n- {THREE}\n'),
    ('language of README', 'README.md', 'word ' * 5000 + THREE + '\n'),
    ('language of manual pages', 'mount-helpers/canary.1.scd',
     f'*-o*\n\t{THREE}\n', 'word ' * 5000 + THREE + '\n'),
)
LIST_CANARIES = (
    ('language listed', LIST,
     'core/base/canary.c 3\n',            # no such file
     'core/LOCKS.md 99999\n',             # has fewer now
     'tests/lint/language.py 3\n',        # is below its ceiling
     'core/README.md\n', '<<<<<<< ours\n'),
)


def blank(match):
    return re.sub(r'[^\n]', ' ', match.group(0))


def text_of_literal(text):
    """Joined literals, without their values; blank if fewer than two words are left."""
    text = re.sub(r'"(\s*)"', r'\1', text[1:-1])
    text = re.sub(r'\\"(.{,60}?)\\"', blank, text)
    text = re.sub(r'\\[nt]|%[-+#0-9.*]*[hljtz]*[a-zA-Z]', ' ', text)
    return text if len(WORD.findall(text)) > 1 else ''


def prose_of_c(text):
    for m in C_PROSE.finditer(text):
        if m.group(1):
            yield m.start(), re.sub(r'\n[ \t]*\*(?!/)', '\n', m.group(1)).strip('/* ')
        elif m.group(2):
            yield m.start(), text_of_literal(m.group(2))


def prose_of_python(text):
    for m in PYTHON_PROSE.finditer(text):
        begin = text.rfind('\n', 0, m.start()) + 1
        if m.group(2):
            yield m.start(), re.sub(r'(?m)^[ \t]*#', '', m.group(2))
        elif m.group(1) and not text[begin:m.start()].strip():
            yield m.start(), m.group(1).strip('"\'')


def prose_of_shell(text):
    for m in SHELL_PROSE.finditer(text):
        yield m.start(), re.sub(r'(?m)^[ \t]*#', '', m.group(1))


def prose_of_markdown(text):
    yield 0, MARKDOWN_CODE.sub(blank, text)


def prose_of_page(text):
    yield 0, PAGE_CODE.sub(blank, text.replace('\\_', '-'))


READERS = ((('.c', '.h', '.cu'), prose_of_c), (('.py',), prose_of_python),
           (('.md',), prose_of_markdown), (('.scd',), prose_of_page),
           (('.sh', '.bash', 'meson.build'), prose_of_shell))


def reader_of(tree, path):
    """The function that finds the prose of a file, or None."""
    if not path.startswith(FOLDERS) and path != 'README.md':
        return None
    for endings, reader in READERS:
        if path.endswith(endings):
            return reader
    name = os.path.basename(path)
    if '.' in name or path.startswith(('tests/fixtures/', 'tests/fuzz/corpus/')):
        return None
    head = tree.bytes(path)[:80].split(b'\n')[0]
    return (None if not head.startswith(b'#!') else
            prose_of_python if b'python' in head else prose_of_shell)


@functools.cache
def measure(text, reader):
    """The number of words in the prose of a text, and each private word with its line."""
    words, private = 0, []
    for start, prose in reader(text):
        prose = QUOTED.sub(blank, prose)
        words += len(WORD.findall(prose))
        for m in PRIVATE.finditer(prose):
            if m.group(0) != 'None' or reader != prose_of_python:
                line = text.count('\n', 0, start) + prose.count('\n', 0, m.start()) + 1
                private.append((line, ' '.join(m.group(0).split())))
    return words, private


def measures(tree, paths):
    """Each file of these that has prose: its path, words, and private words."""
    for path in paths:
        reader = reader_of(tree, path)
        if reader:
            yield path, *measure(tree.text(path), reader)


def ceiling(path, words):
    strict = path.endswith('.scd') or os.path.basename(path) in ('README.md', 'SEMANTICS.md')
    return max(ALWAYS, words / (2000 if strict else 1000))


def rows(text):
    """Each line of the list as (its number, path, private words), and a line of another form as
    (its number, the line, None)."""
    for number, line in enumerate(text.split('\n'), 1):
        m = re.fullmatch(r'(\S+) (\d+)', line)
        if m:
            yield number, m.group(1), int(m.group(2))
        elif line and not line.startswith('# '):
            yield number, line, None


def read_list(tree):
    try:
        return tree.text(LIST)
    except OSError:
        return ''


def stored(tree):
    """The list: for each path its lowest number."""
    most = {}
    for _, path, value in rows(read_list(tree)):
        if value is not None:
            most[path] = min(value, most.get(path, value))
    return most


def faults(tree):
    """Files with more private words than their ceiling, or than the list allows."""
    most = stored(tree)
    for path, words, private in measures(tree, tree.paths):
        limit = max(ceiling(path, words), most.get(path, 0))
        if len(private) > limit:
            some = ', '.join(f'{line}: {word}' for line, word in private[:8])
            yield (f'{path}:{private[0][0]}: {len(private)} private words in {words} words, '
                   f'at most {int(limit)}; at lines {some}')


def lowered(tree):
    """The list as it must be: no file above its number is added."""
    most, now = stored(tree), {}
    there = [p for p in most if os.path.isfile(tree.full(p))]
    paths = there if os.path.exists(tree.full(LIST)) else tree.paths
    for path, words, private in measures(tree, paths):
        if len(private) > ceiling(path, words):
            now[path] = min(len(private), most.get(path, len(private)))
    return now


def list_faults(tree):
    """Lines of the list that are not as --lower leaves them."""
    most, before = lowered(tree), ('', '')
    for number, name, value in rows(tree.text(LIST) if LIST in tree.paths else ''):
        fault = (f'"{name}" is not a path and a number' if value is None else
                 f'{name} is out of order' if key(name) <= before else
                 f'{name} does not belong into the list any more' if name not in most else
                 f'{name} has {most[name]} private words now' if most[name] < value else None)
        if fault:
            yield f'{LIST}:{number}: {fault}: {LOWER}'
        before = key(name)


def key(path):
    """Sorts by folder. A heading stands between two folders, so that changes of two people in
    two folders are merged without a conflict."""
    return os.path.dirname(path), path


def write_list(tree):
    most, folder = lowered(tree), None
    with open(tree.full(LIST), 'w', encoding='utf-8') as f:
        for path in sorted(most, key=key):
            if os.path.dirname(path) != folder:
                folder = os.path.dirname(path)
                f.write(f'# {folder or "."}\n')
            f.write(f'{path} {most[path]}\n')


def report(tree):
    """Figures by folder, and of the whole."""
    sums = collections.defaultdict(lambda: [0, 0, 0, 0])
    for path, words, private in measures(tree, tree.paths):
        over = len(private) > ceiling(path, words)
        for name in (os.path.dirname(path) or '.', 'all'):
            sums[name] = [a + b for a, b in zip(sums[name], (1, over, words, len(private)))]
    print(f'{"folder":32} files above  words private per 1,000')
    for name, (files, over, words, private) in sorted(sums.items(), key=lambda i: (i[0] == 'all', i[0])):
        print(f'{name:32} {files:5} {over:5} {words:6} {private:7} {1000 * private / max(1, words):9.1f}')


CHECKS = [(name, faults, path, contents) for name, path, *contents in CANARIES]
CHECKS += [(name, list_faults, path, contents) for name, path, *contents in LIST_CANARIES]
