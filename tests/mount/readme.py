#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the sessions and scripts of a README, block by block, in the current directory.

    readme.py README.md           all blocks except those that need a clean clone
    readme.py README.md --clone   only those

A block between ``` is one of these:

- lines `$ COMMAND`, each followed by the output that it must have. `...` stands
  for any text, alone on a line for any lines. A command without output must end
  with 0. All run in one bash;
- of the language python: a script. Its lines `print(...)  # TEXT` must print
  TEXT;
- a tree of names, behind `<!-- picture: ... -->`: its first column are files of
  the sample checkpoint, the second those of a mount of it.

`<!-- run: first -->` before a block: it prepares for the blocks above it, too.
`<!-- run: clean clone only -->`: it installs or builds. `<!-- not run: WHY -->`:
it is not run. Any other block is a fault.
Prints a line for each result: `ok WHAT`, `not ok WHAT`, `skip WHAT: WHY`, and
`# NOTE`.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r'(?:^<!-- *(.*?) *-->\n)?^```(\w*)\n(.*?)^```$',
                   re.M | re.S)
SAMPLE = 'tests/fixtures/sample'
CLONE = 'run: clean clone only'
FIRST = 'run: first'


class Shell:
    """One bash, so that what a command sets holds for the next."""

    def __init__(self):
        self.bash = subprocess.Popen(
            ['bash', '--norc'], stdin=subprocess.PIPE, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, command):
        """Returns the output and the exit status."""
        mark = f'--- {os.urandom(8).hex()}'
        self.bash.stdin.write(f'{{ {command}\n}} </dev/null\n'
                              f'printf "\\n{mark} %d\\n" $?\n')
        self.bash.stdin.flush()
        lines = []
        for line in self.bash.stdout:
            if line.startswith(mark):
                lines[-1] = lines[-1][:-1]  # the newline before the mark
                return ''.join(lines), int(line.split()[-1])
            lines.append(line)
        return ''.join(lines) + 'the shell is gone', -1


def result(good, what, notes=''):
    print(f'{"" if good else "not "}ok {what}', flush=True)
    if not good:
        for line in notes.splitlines()[:12]:
            print(f'# {line[:200]}')


def matches(shown, output):
    lines = [r'(?:.*\n)*' if line.strip() == '...' else
             r'.*'.join(map(re.escape, line.split('...'))) + r'\n'
             for line in shown]
    if output and not output.endswith('\n'):
        output += '\n'
    return re.fullmatch(''.join(lines), output) is not None


def commands(text):
    """[command, lines of output] of a block; None: it has something else."""
    found = []
    for line in text.splitlines():
        if line.startswith('$ '):
            found.append((line[2:], []))
        elif not found:
            return None
        else:
            found[-1][1].append(line)
    return found


def session(shell, where, found):
    for command, shown in found:
        output, status = shell.run(command)
        good = matches(shown, output) if shown else status == 0
        result(good, f'{where}: $ {command}', f'exit status {status}\n' +
               (f'expected\n{chr(10).join(shown)}\n' if shown else '') +
               f'found\n{output}')


def python(shell, where, text):
    found = 'import importlib.util as u; assert u.find_spec("torch")'
    if 'torch' in text and shell.run(f"python3 -c '{found}'")[1]:
        print(f'skip {where}: python: no PyTorch')
        return
    shown = re.findall(r'^\s*print\(.*\)  # (.*)$', text, re.M)
    with tempfile.NamedTemporaryFile('w', suffix='.py') as script:
        script.write(text)
        script.flush()
        output, status = shell.run(f'python3 {script.name}')
    result(status == 0 and matches(shown, output), f'{where}: python',
           f'exit status {status}\nexpected\n{shown}\nfound\n{output}')


def picture(shell, where, text):
    """Each line has one name of each column, or an empty first column."""
    with tempfile.TemporaryDirectory() as point:
        output, status = shell.run(
            f'build/mount-helpers/ckptfs {SAMPLE} {point}')
        found = [re.findall(r'(?:├──|└──) (\S+)', line)
                 for line in text.splitlines()]
        wrong = [name for names in found for top, name in
                 zip((point, SAMPLE), reversed(names))
                 if not os.path.exists(f'{top}/{name}')]
        shell.run(f'build/mount-helpers/ckptfs umount {point}')
    result(status == 0 and any(found) and not wrong, f'{where}: picture',
           f'{output}not there: {wrong}')


def run_block(shell, where, marker, language, text):
    if re.fullmatch(r'not run: .+', marker):
        return
    found = commands(text)
    if marker in (CLONE, FIRST) or not marker and language != 'python':
        if not found:
            result(False, f'{where}: neither commands nor a reason', text)
        session(shell, where, found or ())
    elif marker.startswith('picture: '):
        picture(shell, where, text)
    elif not marker:
        python(shell, where, text)
    else:
        result(False, f'{where}: unknown: {marker}')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('readme')
    parser.add_argument('--clone', action='store_true')
    options = parser.parse_args()
    with open(options.readme) as file:
        text = file.read()
    blocks = [(text.count('\n', 0, m.start(3)), *m.groups(''))
              for m in BLOCK.finditer(text)]
    fences = len(re.findall('^ *```', text, re.M))
    result(blocks and fences == 2 * len(blocks),
           f'{len(blocks)} blocks, {fences} fences')
    blocks.sort(key=lambda block: block[1] != FIRST)
    shell = Shell()
    for line, marker, language, block in blocks:
        if (marker == CLONE) == options.clone:
            run_block(shell, f'line {line}', marker, language, block)


sys.exit(main())
