# SPDX-License-Identifier: MIT
"""The table of modules in layers.txt: which module a file belongs to, and which headers it
may include."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def layer_table():
    modules, uses, only, shares = {}, {}, {}, {}
    with open(os.path.join(HERE, 'layers.txt')) as f:
        for line in f:
            words = line.split('#')[0].split()
            if words:
                table = {'module': modules, 'uses': uses, 'only': only,
                         'shares': shares}
                table[words[0]][words[1]] = words[2:]
    return modules, uses, only, shares


def module_of(path, modules):
    for name, places in modules.items():
        if any(path == p or path.startswith(p + '/') for p in places):
            return name
    return None


def include_fault(tree, path, name, header, table):
    """Why the file `path` of module `name` may not include "header"."""
    modules, uses, _, shares = table
    if header.startswith('ckptfs/'):
        target = module_of('include/' + header, modules)
        if target is None:
            return f'{header} belongs to no module'
        if target != name and target not in uses[name]:
            return f'{name} must not know {target} ({header})'
        return None
    for folder in folders_of(tree, path, name, modules, uses, shares):
        found = os.path.normpath(os.path.join(folder, header))
        if not os.path.exists(tree.full(found)):
            continue
        target = module_of(found, modules)
        if target == name or target in shares and target in uses[name]:
            return None
    return f'{header} is no header of {name}'


def folders_of(tree, path, name, modules, uses, shares):
    """Where private headers are searched: beside the file, in its module and in modules
    that share theirs."""
    yield os.path.dirname(path)
    for module in (name, *(m for m in uses[name] if m in shares)):
        for place in modules[module]:
            if not os.path.isdir(tree.full(place)):
                yield os.path.dirname(place)
                continue
            for at, _, _ in os.walk(tree.full(place)):
                yield os.path.relpath(at, tree.root)
