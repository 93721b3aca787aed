# SPDX-License-Identifier: MIT
"""Tests do the same at every run: their seeds are fixed, and only the helpers read CKPTFS_SEED."""
import re

# These hand the variable on to other programs, too.
HELPERS = ('tests/lib/tap.h', 'tests/lib/tap.py', 'tests/mount/functions.sh', 'tests/gpu/tools/ncclcheck.c',
           'tests/mpi/run', 'tests/run')

# A shell script draws from RANDOM after this line.
SEEDED_SHELL = 'RANDOM=$(seed '

# The name of the check, the file that it must find, and with which contents.
CANARIES = ((
    'seeds', 'tests/mount/canary.py',
    '\tseed = tap_seed((uint64_t)time(NULL));\n',
    '\tconst char *text = getenv("CKPTFS_SEED");\n',
    'seed = int(os.environ.get("CKPTFS_SEED", 1))\n',
    "seed = os.environ['CKPTFS_SEED']\n",
    'seed = time.time_ns() % 10 ** 9\n',
    'seed = random.SystemRandom().randrange(9)\n',
    'lot = random.Random()\n',
    'lot = random.Random(os.urandom(8))\n',
    'random.shuffle(steps)\n',
    'random.seed()\n',
    'at=$((RANDOM % 9))\n',
    'at=$RANDOM\n',
    'seed=${CKPTFS_SEED:-1}\n',
),)

FROM_OUTSIDE = 'take the seed from tap_seed(), tap.seed() or seed of functions.sh'
RULES = [(re.compile(pattern), instead) for pattern, instead in (
    (r'\btime\(NULL\)', FROM_OUTSIDE),
    (r'getenv\("CKPTFS_SEED"\)|\benviron\b.{1,5}["\']CKPTFS_SEED\b|\$\{?CKPTFS_SEED\b', FROM_OUTSIDE),
    (r'\btime_ns\(\) %|\bSystemRandom\b', FROM_OUTSIDE),
    (r'\bRandom\(\)|\bRandom\([^)]*\burandom|\bseed\b.*\burandom', FROM_OUTSIDE),
    (r'\brandom\.seed\(\)|\$RANDOM\b|\$\{RANDOM\b|\$\(\(.*\bRANDOM\b', FROM_OUTSIDE),
)]
# Functions of the module share a generator with a seed that is not printed.
SHARED = re.compile(r'(?<![\w.])random\.(?:rand\w+|choices?|shuffle|sample|uniform|getrandbits|random)\(')
SEEDED = re.compile(r'(?<![\w.])random\.seed\([^)]')


def faults_of(path, text):
    shared = [] if SEEDED.search(text) else [(SHARED, 'use random.Random(tap.seed())')]
    if SEEDED_SHELL in text:
        text = text.replace('RANDOM', 'SEEDED')
    for number, line in enumerate(text.split('\n'), 1):
        for rule, instead in RULES + shared:
            m = rule.search(line)
            if m:
                yield f'{path}:{number}: {m.group(0)}: {instead}'


def faults(tree):
    for path in tree.paths:
        if path in HELPERS or not path.startswith('tests/') or \
                path.startswith(('tests/bench/', 'tests/fixtures/', 'tests/lint/')):
            continue
        if path.endswith(('.c', '.h', '.py', '.sh')) or tree.bytes(path)[:2] == b'#!':
            yield from faults_of(path, tree.text(path))


CHECKS = [(name, faults, path, contents) for name, path, *contents in CANARIES]
