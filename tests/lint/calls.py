# SPDX-License-Identifier: MIT
"""core/format: a file uses functions of its own layer and of the layers below it.

A format is called through struct ck_format and struct ck_kind (core/format/kind.h). So the
current catalog does not depend on the formats, and a format does not depend on the table
that lists it.
"""
import functools
import os
import re

HOME = 'core/format/'

# From the lowest. '' has the files of the folder itself.
LAYERS = [('item',), ('current',), ('flat', 'load'),
          ('dcp', 'ranks', 'run', 'safetensors', 'torch', 'torch_checkpointing'), ('',)]

# A run directory is a checkpoint whose steps are checkpoints: it detects and opens them.
RECURSION = {'run': {'ck_checkpoint_open', 'ck_checkpoint_close', 'ck_kind_find',
                     'ck_kind_unfinished', 'ck_kinds'}}

# The name of a check, the file that it must find, and with which contents.
CANARIES = (
    ('calls down', HOME + 'current/canary.c',
     'rc = ck_kind_find(kinds, src, &kind, d);\n',
     'rc = ck_safetensors_files_read(l);\n',
     'rc = ck_checkpoint_gather(cp, c, options, NULL, d);\n'),
    ('calls down from formats', HOME + 'dcp/canary.c',
     'rc = ck_checkpoint_open(path, options, &cp, d);\n',
     'for (i = 0; i < ck_kinds.n; i++)\n'),
    ('calls down from run', HOME + 'run/canary.c', 'rc = ck_diagnose_file(src, d);\n'),
    ('folders of core/format', HOME + 'canary/canary.c', 'int a;\n'),
)

DEFINED = (
    re.compile(r'^(?:static inline |(?!static\b))\w[^;{}()=]*?\b(ck_\w+)\([^;{}]*\)\s*\{', re.M),
    re.compile(r'^const struct \w+ (ck_\w+) = ', re.M),
)
USED = re.compile(r'(?<!struct )(?<!enum )\bck_\w+')


def layer_of(path):
    """The number of the layer of a file, and its folder."""
    folder = os.path.dirname(path[len(HOME):]).split('/')[0]
    for number, folders in enumerate(LAYERS):
        if folder in folders:
            return number, folder
    return None, folder


def bare(text):
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|#include [^\n]*',
                  lambda m: re.sub(r'[^\n]', ' ', m.group(0)), text, flags=re.S)


@functools.cache
def definitions(root):
    """Each function and table, and the file that has it."""
    where = {}
    for folder, _, files in os.walk(os.path.join(root, HOME)):
        for name in files:
            if name.endswith(('.c', '.h')):
                full = os.path.join(folder, name)
                with open(full, encoding='utf-8') as f:
                    text = bare(f.read())
                for rule in DEFINED:
                    for m in rule.finditer(text):
                        where[m.group(1)] = os.path.relpath(full, root)
    return where


def faults(tree):
    where = definitions(tree.root)
    for path in tree.ending('.c', '.h'):
        if not path.startswith(HOME):
            continue
        own, folder = layer_of(path)
        if own is None:
            yield f'{path}:1: {folder} is in no layer of tests/lint/calls.py'
            continue
        text = bare(tree.text(path))
        for m in USED.finditer(text):
            name = m.group(0)
            there = where.get(name, path)
            if layer_of(there)[0] > own and name not in RECURSION.get(folder, ()):
                line = text.count('\n', 0, m.start()) + 1
                yield f'{path}:{line}: {name} is of a higher layer ({there})'


CHECKS = [(name, faults, path, contents) for name, path, *contents in CANARIES]
