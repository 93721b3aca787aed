# SPDX-License-Identifier: MIT
"""Subjects of commits: "area: verb object", at most 60 characters, in the imperative.

The commits since FIRST are checked. A clone without FIRST, as a shallow one, has no check. Only
the form can be checked: that a reader understands the subject without the diff is up to the
author.
"""
import re
import subprocess

import form
import language

FIRST = '7fae45cdecc8'
MOST = 60

# Landed before the check.
EXCEPTIONS = {
    'findings: consolidation writes 0 for scalars',
    'findings: HuggingFaceStorageReader loads an old save',
    'findings: HuggingFaceStorageWriter mixes in objects',
}

SUBJECT = re.compile(r'([\w./+-]+(?:, [\w./+-]+)*): ([a-z][a-z-]*),? (\S.*[^.\s])')
# Words that begin a sentence that is not an order.
NO_VERB = re.compile(
    r"an?|the|this|that|these|those|it|its|they|their|we|you|he|she|his|her|all|any|both|each|every|few|many"
    r'|more|most|no|not|none|nobody|some|several|one|two|three|four|of|in|on|at|by|for|from|to|with|without'
    r'|as|if|when|where|while|what|which|who|whoever|whose|why|how|there|here|now|only|also|and|or|but'
    r'|new|old|better|fewer|less|first|last'
    r'|is|are|was|were|be|has|had|does|did|can|may|must|will|would|should'
    r'|\w+ing|\w+[^e]ed|\w+[^su]s')
# Verbs that look like a participle or a plural.
VERBS = {'alias', 'bias', 'bring', 'embed', 'ping', 'ring', 'shed', 'string', 'swing'}

PLANTED = '.subjects'
CANARIES = (
    ('commit subjects', PLANTED,
     'no area\n', 'core: short\n', 'core: Read files\n', 'core: read files.\n', 'core:read a file\n',
     'core: the hash of a slice wraps\n', 'core: files are read\n', 'core: reads files\n',
     'core: fixed a leak\n', 'core: reading files in parallel\n', 'peer: what comes late is dropped\n',
     'core: let nobody wait for a lock\n', f'core: read {"x" * 50}\n'),
)


def fault_of(subject):
    """Why a subject is not in the form, or None."""
    m = SUBJECT.fullmatch(subject)
    if not m:
        return 'not "area: verb object"'
    if len(subject) > MOST:
        return f'{len(subject)} characters, at most {MOST}'
    if m.group(2) not in VERBS and NO_VERB.fullmatch(m.group(2)):
        return f'"{m.group(2)}" is not a verb in the imperative'
    private = language.PRIVATE.search(subject)
    if private:
        return f'private word "{private.group(0)}"'
    return None


def git(tree, *arguments):
    return subprocess.run(['git', '-c', f'safe.directory={tree.root}', *arguments], cwd=tree.root,
                          capture_output=True, text=True)


def subjects(tree):
    """Each commit and its subject, or those that a canary plants."""
    if PLANTED in tree.paths:
        for line in tree.text(PLANTED).splitlines():
            yield f'{PLANTED}:1', line
        return
    if git(tree, 'merge-base', '--is-ancestor', FIRST, 'HEAD').returncode:
        raise form.Skip(f'commit {FIRST} is not in this clone')
    log = git(tree, 'log', '--no-merges', '--format=%h %s', f'{FIRST}..HEAD')
    for line in log.stdout.splitlines():
        yield line.split(' ', 1)


def faults(tree):
    for commit, subject in subjects(tree):
        fault = None if subject in EXCEPTIONS else fault_of(subject)
        if fault:
            yield f'{commit}: {subject}: {fault}'


CHECKS = [(name, faults, path, contents) for name, path, *contents in CANARIES]
