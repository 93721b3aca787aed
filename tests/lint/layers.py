# SPDX-License-Identifier: MIT
"""The table of modules in layers.txt: which module a file belongs to, and which headers it
may include."""
import os
import re

LIST = 'tests/lint/layers.txt'


def layer_table(tree):
    """The rows of each kind: for each name the words behind it."""
    table = {kind: {} for kind in ('module', 'exports', 'uses', 'only', 'shares')}
    for line in tree.text(LIST).split('\n'):
        words = line.split('#')[0].split()
        if words:
            table[words[0]].setdefault(words[1], []).extend(words[2:])
    return table


def module_of(path, modules):
    for name, places in modules.items():
        if any(path == p or path.startswith(p + '/') for p in places):
            return name
    return None


def include_fault(tree, path, name, header, table):
    """Why the file `path` of module `name` may not include "header"."""
    modules, uses, shares = table['module'], table['uses'][name], table['shares']
    found = place_of(tree, path, header, folders_of(tree, name, table))
    if found is None:
        return f'{header} is no header of {name}'
    if path.startswith('core/') and found not in (
            'include/' + header, 'core/' + header, os.path.join(os.path.dirname(path), os.path.basename(header))):
        return f'{header} is of another folder: include it by its path from core'
    target = module_of(found, modules)
    if target is None:
        return f'{header} belongs to no module'
    if target != name and target not in uses:
        return f'{name} must not know {target} ({header})'
    public = found.startswith('include/') or target in shares
    if target != name and not public and header not in table['exports'].get(target, ()):
        return f'{header} is private to {target}'
    return None


def place_of(tree, path, header, folders):
    """The path of an included header, or None."""
    for folder in (os.path.dirname(path), 'include', 'core', *folders):
        found = os.path.normpath(os.path.join(folder, header))
        if os.path.isfile(tree.full(found)):
            return found
    return None


def folders_of(tree, name, table):
    """The folders of a module, and of those that share their headers with it."""
    for module in (name, *(m for m in table['uses'][name] if m in table['shares'])):
        for place in table['module'][module]:
            if not os.path.isdir(tree.full(place)):
                yield os.path.dirname(place)
                continue
            for at, _, _ in os.walk(tree.full(place)):
                yield os.path.relpath(at, tree.root)


def export_faults(tree, table):
    """Exported headers that do not exist, or that lie in another module."""
    for name, exported in table['exports'].items():
        for header in exported:
            path = 'core/' + header
            if not os.path.isfile(tree.full(path)):
                yield f'there is no {path}'
            elif module_of(path, table['module']) != name:
                yield f'{header} is no header of {name}'


INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^">]+)[">]', re.M)

# The name of a check, the file that it must find, and with which contents.
CANARIES = (
    ('layers', 'core/view/canary.c', '#include "ckptfs/io.h"\n', '#include "cli.h"\n',
     '#include "copied.h"\n', '#include "syntax/pow10.h"\n', '#include "io/segments.h"\n',
     '#include "../base/bits.h"\n'),
)
LIST_CANARIES = (
    ('exported headers', LIST, 'module base core/base\nexports base base/canary.h\n',
     'module base core/base\nexports base syntax/pow10.h\n'),
)


def faults(tree):
    table = layer_table(tree)
    modules, only = table['module'], table['only']
    for path in tree.code():
        name = module_of(path, modules)
        if name is None:
            yield f'{path}:1: belongs to no module of layers.txt'
            continue
        text = tree.text(path)
        for m in INCLUDE.finditer(text):
            if m.group(1) == '"':
                fault = include_fault(tree, path, name, m.group(2), table)
            else:
                allowed = only.get(m.group(2), only.get(os.path.basename(m.group(2)), [name]))
                fault = (None if name in allowed else
                         f'{name} must not include {m.group(2)}')
            if fault:
                line = text.count('\n', 0, m.start()) + 1
                yield f'{path}:{line}: {fault}'


def list_faults(tree):
    if LIST in tree.paths:
        for fault in export_faults(tree, layer_table(tree)):
            yield f'{LIST}:1: {fault}'


CHECKS = [(name, faults, path, contents) for name, path, *contents in CANARIES]
CHECKS += [(name, list_faults, path, contents) for name, path, *contents in LIST_CANARIES]
