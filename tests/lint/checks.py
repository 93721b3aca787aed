# SPDX-License-Identifier: MIT
"""The checks of tests/lint/run.

A check is a function of a Tree that yields findings, "path:line: fault". Its
canaries are small files, each with a fault that the check must find. The driver
adds them to a copy of the tree, so a check may look at other files too.
"""

import os
import re
import subprocess

import calls
import cycles
import evidence
import form
import headers
import language
import layers
import locks
import page
import seeds
import subjects

CODE_DIRS = ('core/', 'fs/', 'mount-helpers/', 'include/')
SPDX = 'SPDX-License-Identifier: MIT'


Skip = form.Skip


class Tree:
    def __init__(self, root, paths):
        self.root = root
        self.paths = paths
        self.texts, self.bares = {}, {}

    def full(self, path):
        return os.path.join(self.root, path)

    def bytes(self, path):
        with open(self.full(path), 'rb') as f:
            return f.read()

    def text(self, path):
        if path not in self.texts:
            self.texts[path] = self.bytes(path).decode('utf-8', 'replace')
        return self.texts[path]

    def bare(self, path):
        """Without comments and the inside of strings."""
        if path not in self.bares:
            self.bares[path] = without_comments(self.text(path))
        return self.bares[path]

    def ending(self, *suffixes):
        return [p for p in self.paths if p.endswith(suffixes)]

    def code(self):
        """C files of the program, not of its tests."""
        return [p for p in self.ending('.c', '.h') if p.startswith(CODE_DIRS)]


CHECKS = calls.CHECKS + cycles.CHECKS + language.CHECKS + layers.CHECKS + page.CHECKS + \
    seeds.CHECKS + subjects.CHECKS


def check(name, path, *canaries):
    """Declares a check and the file that it must find with each content."""
    def declare(function):
        CHECKS.append((name, function, path, canaries))
        return function
    return declare


def lines_of(text):
    return enumerate(text.split('\n'), 1)


def blank(match):
    """Keeps the line numbers right."""
    return re.sub(r'[^\n]', ' ', match.group(0))


def without_comments(text):
    """Comments and the inside of string literals become blanks. `//` stays,
    so that it can be found."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
                  blank, text, flags=re.S)


# --- form ------------------------------------------------------------------

@check('format', 'core/base/canary.c', f'/* {SPDX} */\nint  a ;\n')
def check_format(tree):
    yield from form.findings(tree)


@check('licence', 'core/base/canary.c', 'int a;\n')
def check_licence(tree):
    for path in tree.paths:
        head = tree.text(path)[:200].split('\n')
        if path.endswith(('.c', '.h')):
            if head[0] != f'/* {SPDX} */':
                yield f'{path}:1: the first line must be /* {SPDX} */'
        elif path.endswith(('.py', '.sh')) or head[0].startswith('#!'):
            if f'# {SPDX}' not in head[:3]:
                yield f'{path}:1: no line # {SPDX}'


@check('function length', 'core/base/canary.c',
       'int a(void)\n{\n' + '\t;\n' * 79 + '}\n')
def check_function_length(tree):
    """clang-format puts the braces of functions, and of nothing else, alone
    into column 0."""
    for path in tree.ending('.c', '.h'):
        begin = None
        for number, line in lines_of(tree.text(path)):
            if line == '{':
                begin = number
            elif line == '}' and begin is not None:
                if number - begin + 1 > 80:
                    yield (f'{path}:{begin}: a function of '
                           f'{number - begin + 1} lines, at most 80')
                begin = None


@check('file length', 'core/base/canary.h', '\n' * 301)
def check_file_length(tree):
    for path in tree.ending('.c', '.h', '.py', '.sh'):
        if path.endswith('_cases.h'):  # tables of data
            continue
        header = path.endswith('.h') and path.startswith(CODE_DIRS)
        most = 300 if header else 600
        lines = tree.bytes(path).count(b'\n')
        if lines > most:
            yield f'{path}:{lines}: {lines} lines, at most {most}'


# --- structure ---------------------------------------------------------------

# Words that a module must not use.
STRANGE_WORDS = {
    'io': r'\bck_catalog|\bck_tensor\b',    # layouts stand alone
}


@check('strange words', 'core/io/canary.c', 'struct ck_catalog;\n')
def check_strange_words(tree):
    modules = layers.layer_table(tree)['module']
    for path in tree.code():
        word = STRANGE_WORDS.get(layers.module_of(path, modules))
        if word is None:
            continue
        for n, line in enumerate(tree.text(path).split('\n'), 1):
            if re.search(word, line):
                yield f'{path}:{n}: {line.strip()}'


@check('conflict markers', 'tests/canary.py', '\n'.join(['<' * 7 + ' HEAD', '=' * 7, '>' * 7 + ' 1', '']))
def check_conflict_markers(tree):
    for path in tree.paths:
        if path.endswith(('.c', '.h', '.md', '.scd', '.py', '.sh', '.txt', 'meson.build')):
            for n, line in enumerate(tree.text(path).split('\n'), 1):
                if re.match('<{7} |>{7} ', line):
                    yield f'{path}:{n}: a marker of a merge conflict'


@check('headers alone', 'core/base/canary.h',
       'static inline size_t canary(void)\n{\n\treturn 0;\n}\n')
def check_headers(tree):
    """Each header compiles when it is the only thing included."""
    return headers.findings(tree)


@check('sources built', 'core/base/canary.c', 'int a;\n')
def check_sources_built(tree):
    """Each .c file is named in a meson.build."""
    listed = set()
    for path in tree.ending('meson.build'):
        folder = os.path.dirname(path)
        for name in re.findall(r"'([\w./-]+)'", tree.text(path)):
            for word in (name, name + '.c', name + '_test.c',
                         name + '_fuzz.c'):
                listed.add(os.path.normpath(os.path.join(folder, word)))
    for path in tree.ending('.c'):
        if path not in listed:
            yield f'{path}:1: no meson.build names it'


def manual(tree, page):
    """The text of a manual page, its escapes undone."""
    return tree.text(f'mount-helpers/man/{page}.scd').replace('\\', '')


def undocumented(tree, source, row, places):
    """Names in the rows of a table that a place does not have. places: its
    name for the message, its text, and what the name looks like there."""
    for path in tree.paths:
        if path != source:
            continue
        for number, line in lines_of(tree.text(path)):
            m = re.match(row, line)
            for where, text, form in places if m else ():
                if form.format(m.group(1)) not in text:
                    yield f'{path}:{number}: {where} does not have ' \
                          f'{m.group(1)}'


@check('options documented', 'core/options/options.c', '\t{ "canary=", set_canary },\n')
def check_options(tree):
    """Every mount option is in a manual page; one that does something also
    in what the shells complete."""
    folder = 'mount-helpers/completion/'
    pages = manual(tree, 'ckptfs.1') + manual(tree, 'mount.ckptfs.8')
    yield from undocumented(
        tree, 'core/options/options.c', r'\t(?:\{ )?"([\w-]+=?)\*?",',
        [('ckptfs(1) or mount.ckptfs(8)', pages, '*{}')])
    yield from undocumented(
        tree, 'core/options/options.c', r'\s*\{ "(\w+)=?", set_',
        [('the completion of bash', tree.text(folder + 'ckptfs.bash'), '{}'),
         ('the completion of zsh', tree.text(folder + '_ckptfs'), "'{}")])


@check('commands documented', 'mount-helpers/ckptfs.c',
       '\t{ "canary", ck_cmd_canary, "canary SRC",\n')
def check_commands(tree):
    folder = 'mount-helpers/completion/'
    yield from undocumented(
        tree, 'mount-helpers/ckptfs.c', r'\s*\{ "(\w+)", ck_cmd_',
        [('ckptfs(1)', manual(tree, 'ckptfs.1'), '\n*ckptfs {}* '),
         ('the completion of bash', tree.text(folder + 'ckptfs.bash'), '{}'),
         ('the completion of zsh', tree.text(folder + '_ckptfs'), "'{}:")])


def listed(tree, path, begin, end, word):
    """Words between two marks of a file, where the tree has it."""
    if path in tree.paths:
        text = tree.text(path).replace('\\\n', ' ')
        part = re.search(re.escape(begin) + '(.*?)' + re.escape(end), text,
                         re.S)
        yield from re.findall(word, part.group(1), re.M) if part else ['']


# Documents that repeat a table of the source: the file, and the form of a row.
BASH = 'mount-helpers/completion/ckptfs.bash'
ZSH = 'mount-helpers/completion/_ckptfs'
PAGE = 'mount-helpers/man/ckptfs.1.scd'
COPIES = [
    ('core/options/options.c', r'\{ "(\w+)=?", set_', BASH,
     ('_ckptfs_mount_options() {\n\t_ckptfs_option_words "$1" "$2"', '\n}',
      r'(?:^|\s)(\w+)\b'), '{} canary\n}}\n'),
    ('core/options/options.c', r'\{ "(\w+)=?", set_', ZSH,
     ("_values -s , 'mount option'", '\n}', r"^\s*'(\w+)\["),
     "{}\n\t'canary[x]'\n}}\n"),
    ('core/options/options.c', r'\{ "(\w+)=?", set_', PAGE,
     ('# OPTIONS', '# EXIT STATUS', r'^(?:\*\w+[^\n]*, )?\*([\w\\]+)[=*]'),
     '{}\n\n*canary*\n\tx\n\n# EXIT STATUS\n'),
    ('mount-helpers/ckptfs.c', r'\{ "(\w+)", ck_cmd_', BASH,
     ("_ckptfs_commands='", "'", r'\w+'), "{}mount canary'"),
    ('mount-helpers/ckptfs.c', r'\{ "(\w+)", ck_cmd_', ZSH,
     ('commands=(', '\n\t)', r"^\s*'(\w+):"), "{}\n\t'canary:x'\n\t)"),
    ('mount-helpers/ckptfs.c', r'\{ "(\w+)", ck_cmd_', PAGE,
     ('# COMMANDS', '# OPTIONS', r'^\*ckptfs (\w+)\*'),
     '{}\n*ckptfs canary* _SRC_\n# OPTIONS\n'),
]


def copy_check(source, row, path, marks, canary):
    @check(f'nothing but {source} in {os.path.basename(path)}', path,
           canary.format(marks[0]), 'The marks are gone.\n')
    def check_copy(tree):
        """A document must not have unknown options or commands."""
        known = re.findall(row, tree.text(source))
        for name in listed(tree, path, *marks):
            if name.replace('\\', '') not in known:
                yield f'{path}:1: {source} does not have "{name}"'


for copy in COPIES:
    copy_check(*copy)


@check('reports documented', 'core/tree/reports/reports.c',
       '\t{ "canary", print_canary, true },\n')
def check_reports(tree):
    yield from undocumented(
        tree, 'core/tree/reports/reports.c', r'\s*\{ "([\w.]+)", print_',
        [('ckptfs(5)', manual(tree, 'ckptfs.5'), '\n*.ckptfs/{}*')])


@check('attributes documented', 'core/tree/xattr.c',
       '\t{ CK_XATTR_PREFIX "canary", get_canary, NULL },\n')
def check_attributes(tree):
    yield from undocumented(
        tree, 'core/tree/xattr.c', r'\s*\{ CK_XATTR_PREFIX "(\w+)"',
        [('ckptfs(5)', manual(tree, 'ckptfs.5'), '\n*user.ckptfs.{}*')])


# Rows: a folder, exceptions, a pattern that it must not contain, and its meaning.
STRANGERS = [
    ('core/tree/', (), r'"[^"\n]*\.(?:metadata|distcp)',
     'the name of a file of a format'),
    ('core/commit/', (), r'"[^"\n]*\.(?:metadata|distcp)',
     'the name of a file of a format'),
    ('fs/', ('fs/node.c', 'fs/node_kind.c'), r'\bCK_FILE_KIND_\w+', 'what a view is about'),
    ('fs/', ('fs/node.c',), r'\bck_(?:views|tensor_view\w*|local_\w+)',
     'a view'),
    ('', ('core/dist/transport/mpi/', 'tests/mpi/'),
     r'#\s*include\s*[<"](?:.*/)?mpi(?:_internal)?\.h', 'MPI'),
]


@check('strangers', 'core/tree/tree.c', 'static const char *x = ".metadata";\n',
       'static const char *x = "__0_0.distcp";\n')
@check('strangers to commit', 'core/commit/ownership.c',
       'static const char *x = ".metadata";\n',
       'static const char *x = "__0_0.distcp";\n')
@check('strangers to MPI', 'core/dist/transport/transport_base.c', '#include <mpi.h>\n',
       '#include "mpi/mpi_internal.h"\n')
@check('strangers to fs', 'fs/read_ops.c', 'if (topic == CK_FILE_KIND_BOX)\n',
       'ck_local_size(c, 0);\n', 'ck_views[0];\n')
def check_strangers(tree):
    """Modules do not use the names of other layers."""
    for path in tree.paths:
        for room, but, pattern, fault in STRANGERS:
            if not path.startswith(room) or path.startswith(but) or \
                    not path.endswith(('.c', '.h')):
                continue
            for number, line in lines_of(tree.text(path)):
                if re.search(pattern, line):
                    yield f'{path}:{number}: {fault}'


LONG = ('word ' * 91 + '\n', '\n'.join(['word ' * 30] * 4) + '\n',
        '```\n$ true\n```\n' + 'word ' * 91 + '\n', '- ' + 'word ' * 90 + '\n')


@check('README paragraphs', 'README.md', *LONG)
def check_readme(tree):
    yield from named(tree, 'README.md', long_paragraphs)


@check('SEMANTICS paragraphs', evidence.SEMANTICS, *LONG)
def check_semantics_paragraphs(tree):
    yield from named(tree, evidence.SEMANTICS, long_paragraphs)


def long_paragraphs(tree, path):
    """Paragraphs and list items have at most 90 words; not code and tables."""
    words, first, code = 0, 0, False
    text = tree.text(path)
    for number, line in lines_of(text + '\n\n'):
        fence = line.startswith('```')
        if fence or code or line[:1] in ('', '-', '|', '#'):
            if words > 90:
                yield f'{path}:{first}: {words} words, at most 90'
            words = 0
        code ^= fence
        if not (fence or code) and line[:1] not in ('|', '#'):
            first = first if words else number
            words += len(line.split())


@check('links', 'README.md', '[x](no/such.md)\n', '[x](no.md#part)\n')
def check_links(tree):
    """Documents link to files that are there."""
    for path in tree.ending('.md'):
        for number, line in lines_of(tree.text(path)):
            for target in re.findall(r'\]\(([^):#]+)(?:#[^)]*)?\)', line):
                full = os.path.join(os.path.dirname(tree.full(path)), target)
                if not os.path.exists(full):
                    yield f'{path}:{number}: there is no {target}'


def named(tree, path, faults):
    if path in tree.paths:
        yield from faults(tree, path)


TEST = 'mount `umount-clean`: `busy`'


@check('promises have tests', evidence.PROMISES,
       '| P1 | No test. | |\n',
       f'| P1 | | {TEST} |\n',
       '| P1 | No case. | mount `umount-clean` |\n',
       '| P1 | No such test. | mount `canary`: `busy` |\n',
       '| P1 | Not run. | mount `functions`: `done_testing` |\n',
       f'| P1 | One case is not. | {TEST}, `canary` |\n',
       f'| P1 | A comment is no case. | {TEST}, `Readers at work` |\n',
       f'| P1 | One test is not. | {TEST}; unit `canary`: `busy` |\n',
       '| P1 | A part of a name. | unit `zip`: `test_wor` |\n',
       f'| P2 | Before a smaller one. | {TEST} |\n| P1 | Here. | {TEST} |\n',
       f'| P1 | Twice. | {TEST} |\n| P1 | Here. | {TEST} |\n',
       f'| P1 | Other form. | {TEST} |\n- **P2** Here. [{TEST}]\n',
       f'| P1 | Other form. | {TEST} |\n|P2 | Here. | {TEST} |\n',
       f'| P99999 | Not in the document for users. | {TEST} |\n',
       'The table is empty.\n')
def check_promises(tree):
    yield from named(tree, evidence.PROMISES, evidence.promise_faults)


@check('promises for users', evidence.SEMANTICS,
       'Not in the table (P99999).\n',
       '- One is (P1), one is not (P1, P99999).\n',
       '# Title\n\nDefinition.\n\nA paragraph (P1).\n\nA paragraph without.\n',
       '- An item (P1).\n- An item without.\n',
       '- An item (P1).\n  - An item in it without.\n',
       '- An item (P1). A sentence behind it.\n',
       '| a | b |\n|---|---|\n| a row | with (P1) |\n| a row | without |\n',
       '- Without parentheses: P1 (P2).\n',
       '- Two forms (P1; P2).\n',
       'Definition.\n')
def check_semantics(tree):
    """fs/SEMANTICS.md has the numbers of tests/PROMISES.md, one behind each statement."""
    yield from named(tree, evidence.SEMANTICS, evidence.semantics_faults)


@check('statements have tests', 'tests/SECURITY.md',
       '| S-P1 | No test. | |\n',
       '| S-P1 | No case. | mount `umount-clean` |\n',
       '| S-P1 | No such test. | unit `canary`: `test_good` |\n',
       f'| S-P1 | One case is not. | {TEST}, `canary` |\n',
       f'| S-P1 | Twice. | {TEST} |\n| S-P1 | Here. | {TEST} |\n',
       f'| S-Z2 | Too early. | {TEST} |\n| S-Z1 | Here. | {TEST} |\n',
       f'| S-P1 | Other form. | {TEST} |\n| S-P2: Here. | {TEST} |\n',
       'Nothing is said.\n')
def check_statements(tree):
    yield from named(tree, 'tests/SECURITY.md', evidence.statement_faults)


@check('features have tests', 'tests/README.md',
       '| a1 | No test. | |\n', f'| a1 | One case is not. | {TEST}, `canary` |\n',
       '| a1 | No reason. | not yet: |\n', f'| a1 | Other form. {TEST} |\n',
       'Nothing is said.\n')
def check_features(tree):
    yield from named(tree, 'tests/README.md', evidence.feature_faults)


A_LOCK = 'struct ck_batch {\n\tpthread_mutex_t lock;\n%s};\n'


@check('locks', 'core/base/canary.h',
       'static pthread_mutex_t lock;\n',
       'struct ck_canary {\n\tpthread_rwlock_t lock;\n};\n',
       A_LOCK % '\tint bare;\n',
       A_LOCK % '\t/* The lock guards it. */\n\tint no_colon;\n',
       A_LOCK % '\t/* Under clock: */\n\tint other_word;\n',
       A_LOCK % '\tint behind; /* under lock: */\n\tint bare;\n',
       A_LOCK % '\t/* Under lock: */\n\tint a; /* b\n\t\t * c */\n\n'
                '\tint behind_an_empty_line;\n',
       A_LOCK % '\t/* Under lock: */\n\tint a;\n\t/* Rest: */\n\tint b;\n')
def check_locks(tree):
    """core/LOCKS.md lists each lock; in a struct with a lock, comments name the
    guard of each field: see locks.py."""
    yield from locks.faults(tree)


@check('locks are there', 'core/LOCKS.md', '| `ck_canary.lock` | x |\n',
       '| `ck_batch.lock` | x |\n| `ck_batch.lock` | x |\n')
def check_locks_listed(tree):
    yield from named(tree, locks.LIST,
                     lambda t, _: locks.list_faults(t, CODE_DIRS))


# --- words ---------------------------------------------------------------------

# name, pattern, advice, files where it is allowed, canary
WORDS = [
    ('line comments', r'//', 'write /* */', (), '\tint a; // no\n'),
    ('unbounded strings',
     r'\b(strcpy|strcat|sprintf|vsprintf|gets|strtok|alloca)\s*\(',
     'use struct ck_buf or a bounded function', (),
     '\tstrcpy(a, b);\n'),
    ('struct typedefs', r'\btypedef\s+(struct|union|enum)\b',
     'spell out struct, union or enum', (), 'typedef struct a a;\n'),
    ('raw reads', r'(?<![>.\w])(pread|preadv|pwrite|openat|openat2)\s*\(',
     'go through ckptfs/base.h',
     # not below a checkpoint: a template, mount points, output of cp and report, /run, /proc;
     # a new name in an open directory
     ('core/base/', 'core/format/load/template_file.c', 'fs/session/mountpoint_check.c', 'fs/files/creator.c',
      'mount-helpers/offline/cp_file.c', 'mount-helpers/offline/cp_directory.c', 'mount-helpers/offline/cp_mark.c',
      'mount-helpers/report/html_file.c', 'mount-helpers/mtab/busy_procs.c', 'mount-helpers/mtab/mountpoint.c', 'mount-helpers/mtab/mount_record.c'),
     '\tpread(a, b, c, d);\n'),
    ('positions', r'\bck_pread_full\s*\([^;]*\bvpos\b',
     'a position in a view is none in a file', (),
     '\trc = ck_pread_full(fd, buf,\n\t\t\tlen, vpos);\n'),
]


def word_check(name, pattern, instead, allowed, canary):
    rule = re.compile(pattern, re.S)

    @check(name, 'fs/canary.c', canary)
    def check_words(tree):
        for path in tree.ending('.c', '.h'):
            if path.startswith(allowed + ('tests/',)):
                continue
            text = tree.bare(path)
            for m in rule.finditer(text):
                line = text.count('\n', 0, m.start()) + 1
                yield f'{path}:{line}: {" ".join(m.group(0).split())}: ' \
                      f'{instead}'


for row in WORDS:
    word_check(*row)


@check('return -1', 'fs/canary.c', 'int canary(void)\n{\n\treturn -1;\n}\n')
def check_return(tree):
    """An error is a negative errno; -1 would be EPERM. Where an index is
    returned, in an int64_t, -1 means "not found"."""
    head = re.compile(r'^\w.*\(')
    for path in tree.code():
        function = ''
        for number, line in lines_of(tree.bare(path)):
            if head.match(line):
                function = line
            if re.search(r'\breturn\s+-1\s*;', line) and \
                    not re.search(r'\bs?(int64|size)_t\b.*\(', function):
                yield f'{path}:{number}: return a negative errno'


@check('struct names', 'include/ckptfs/canary.h', 'struct canary {\n};\n')
def check_struct_names(tree):
    for path in tree.ending('.h'):
        if not path.startswith(CODE_DIRS):
            continue
        for number, line in lines_of(tree.text(path)):
            if re.match(r'struct (?!ck_|ckptfs(?:_|\b))\w+ \{', line):
                yield f'{path}:{number}: names of headers begin with ck_'


# A function with a body, or a struct with fields.
OWN = re.compile(r'^(?!static\b)(?:\w[^;{}()=]*?\b(ck_\w+)\([^;{}]*\)\s*'
                 r'|(struct ck_\w+) )\{', re.M)


@check('names twice', 'fs/canary.c',
       'int ck_canary(void)\n{\n}\n\nvoid *ck_canary(int a)\n{\n}\n',
       'struct ck_canary {\n};\n\nstruct ck_canary {\n};\n')
def check_names_twice(tree):
    """If a program and an archive have functions of the same name, the linker
    silently uses the one of the program."""
    first = {}
    for path in tree.code():
        if path in cycles.LOADERS:
            continue
        text = tree.bare(path)
        for m in OWN.finditer(text):
            name = m.group(1) or m.group(2)
            place = f'{path}:{text.count(chr(10), 0, m.end()) + 1}'
            if name in first:
                yield f'{place}: {name} is also in {first[name]}'
            else:
                first[name] = place


@check('file names twice', 'core/view/buf.c', '')
def check_file_names(tree):
    """grep, stack traces and logs name a file without its folder."""
    first = {}
    for path, _ in sorted(cycles.read_files(tree)):
        other = first.setdefault(os.path.basename(path), path)
        if other != path:
            yield f'{path}:1: {other} has the same name'


@check('strange paths', 'tests/canary.bin', 'x/' + 'home/somebody/ckpt\n')
def check_paths(tree):
    """No path of a developer's machine, in binary files too."""
    rule = re.compile(rb'/(?:work|root|home/[a-z]\w*|Users/\w+)/[\w.]')
    for path in tree.paths:
        found = rule.search(tree.bytes(path))
        if found:
            line = tree.bytes(path).count(b'\n', 0, found.start()) + 1
            yield f'{path}:{line}: {found.group(0).decode()}...: a path of ' \
                  "somebody's machine"


@check('carried PTX', 'core/gpu/driver/kernels.ptx', '// of other sources\n')
def check_carried(tree):
    """The checked-in PTX was built from the kernels in the repository."""
    done = subprocess.run(['python3', 'core/gpu/driver/ptx.py', '--check'],
                          cwd=tree.root, stderr=subprocess.DEVNULL)
    if done.returncode:
        yield 'core/gpu/driver/kernels.ptx:1: run core/gpu/driver/ptx.py'
