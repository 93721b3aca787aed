# SPDX-License-Identifier: MIT
"""objects.py MNT ORACLE.objects.jsonl DIRECTORY: objects/ of a mount.

Each .json is the oracle's text, each .pt the bytes that .metadata names in the
data file; for files of torch.save it is a generated archive. Sizes are right before the first read, and attributes describe
the object."""
import json
import os
import pathlib
import subprocess
import sys

mnt, oracle, program, source = map(pathlib.Path, sys.argv[1:])
names = sorted(os.listdir(mnt / 'objects'))
expected = {}
for line in oracle.read_text(encoding='utf-8').splitlines():
    row = json.loads(line)
    expected[row['stem']] = row['json']
assert names == sorted(stem + suffix for stem in expected
                       for suffix in ('.json', '.pt')), names
dump = subprocess.run([program, 'dump', source], capture_output=True,
                      check=True).stdout.decode(errors='surrogateescape')
files, items = {}, {}
for line in dump.splitlines():
    words = line.split(' ')
    if words[0] == 'file':
        files[words[1]] = line.split(' ', 3)[3]
    elif words[0] == 'object':
        fields = dict(w.split('=', 1) for w in words[2:] if '=' in w)
        items[words[1]] = fields
for stem, text in expected.items():
    path = mnt / 'objects' / (stem + '.json')
    size = path.stat().st_size
    data = path.read_bytes()
    want = text if isinstance(text, str) else json.dumps(text)
    assert data.decode() == want.rstrip('\n') + '\n', (stem, data, want)
    assert size == len(data), stem
    assert os.getxattr(path, 'user.ckptfs.kind') == b'object', stem
    assert 'user.ckptfs.shape' not in os.listxattr(path), stem
    path = mnt / 'objects' / (stem + '.pt')
    size = path.stat().st_size
    data = path.read_bytes()
    assert size == len(data) and data[:4] == b'PK\3\4', stem
    item = items.get(stem)
    if item and 'transform' not in item and files[item['file']].endswith('.distcp'):
        whole = (source / files[item['file']]).read_bytes()
        begin = int(item['pos'])
        assert data == whole[begin:begin + int(item['length'])], stem
json.loads((mnt / '.ckptfs' / 'state_dict.json').read_text())
