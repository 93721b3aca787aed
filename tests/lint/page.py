# SPDX-License-Identifier: MIT
"""The page of `ckptfs report` is one short script, refers to nothing outside, and shows names as text only."""
import re

FOLDER = 'mount-helpers/report/page/'
MAX_LINES, MAX_COLUMNS = 400, 100
NAMESPACE = 'http://www.w3.org/2000/svg'

# The name of the check, the file that it must find, and with which contents.
CANARIES = (
    ('page: script', FOLDER + 'script.js',
     "body.innerHTML = name;\n", "row.outerHTML = name;\n", "row.insertAdjacentHTML('beforeend', name);\n",
     "document.write(name);\n", "eval(name);\n", "new Function(name);\n", "setTimeout('go()');\n",
     "fetch('x');\n", "new XMLHttpRequest();\n", "import x from './x.js';\n", "import('x');\n", "new WebSocket(x);\n",
     "const s = '</script>';\n", "const s = '<!--';\n", "const link = 'https://example.org/';\n",
     "byId('not-in-the-page');\n", '\n' * (MAX_LINES + 1), ' ' * (MAX_COLUMNS + 1) + ';\n', "html('a', { onclick: 'x' });\n"),
    ('page: style', FOLDER + 'style.css',
     '@import "x.css";\n', 'a { background: url(x.png); }\n', '@font-face { }\n', 'a::after { content: "</style>"; }\n'),
    ('page: HTML', FOLDER + 'page.html',
     '<script src="x.js"></script>\n', '<link rel="stylesheet" href="x.css">\n', '<img src="//example.org/x.png">\n',
     '<p onclick="x()">\n', '<a href="http://example.org/">\n', '<iframe>\n'),
)

RULES = [(re.compile(pattern), why) for pattern, why in (
    (r'(?:inner|outer)HTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc', 'names must be text: use textContent'),
    (r'\beval\b|\bFunction\(|set(?:Timeout|Interval)\([\'"`]', 'no text is run as a program'),
    (r'\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|\bimport\b|\bWorker\(', 'the page loads nothing'),
    (r'\burl\(|@import|@font-face|\bsrc=|<iframe|<object|<embed|href="(?!data:,")', 'the page loads nothing'),
    (r'https?:|[\'"(=]//', 'no address of a network'),
    (r'\bon(?:click|load|error|input|change|key\w+|mouse\w+)\b *[=:]', 'listeners are added by the script'),
)]
INSIDE = (('script.js', re.compile('</script|<!--', re.I)), ('style.css', re.compile('</style|<!--', re.I)))


def faults_of(path, text):
    for number, line in enumerate(text.split('\n'), 1):
        if len(line) > MAX_COLUMNS:
            yield f'{path}:{number}: {len(line)} columns, at most {MAX_COLUMNS}'
        for rule, why in RULES:
            found = rule.search(line.replace(NAMESPACE, ''))
            if found:
                yield f'{path}:{number}: {found.group(0)}: {why}'
        for name, rule in INSIDE:
            if path.endswith(name) and rule.search(line):
                yield f'{path}:{number}: it would end its element'


def script_faults(tree, path):
    text, page = tree.text(path), tree.text(FOLDER + 'page.html')
    if text.count('\n') > MAX_LINES:
        yield f'{path}:{MAX_LINES + 1}: at most {MAX_LINES} lines'
    for name in sorted(set(re.findall(r"byId\('([^']+)'\)", text))):
        if f'id="{name}"' not in page and f"id: '{name}'" not in text:
            yield f'{path}:1: no element has the id {name}'


def faults_in(file):
    """The check of one file of the page."""
    def faults(tree):
        for path in tree.paths:
            if path == file:
                yield from faults_of(path, tree.text(path))
                if path.endswith('.js'):
                    yield from script_faults(tree, path)
    return faults


CHECKS = [(name, faults_in(path), path, contents) for name, path, *contents in CANARIES]
