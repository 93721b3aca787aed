# SPDX-License-Identifier: MIT
"""Checkpoints for the tests of the page, and the data of a page."""
import json
import os
import struct

AWKWARD = ['</script><script>alert(1)</script>', '<b>bold</b>', '<!--', 'a & b &lt;', '"double" \'single\'', 'back\\slash',
           'a/b', '%41', '?q=x', '#', '#rows', 'data', 'detail', 'rows', '__proto__', 'constructor', '..', 'end.', '.begin',
           'tab\tline\nend', 'ümlaut 漢字 \U0001f600', '\u202eright to left', 'x' * 300, '${1}', '`tick`']


def safetensors(folder, tensors, name='model.safetensors'):
    """A file of float32 tensors: names with lists of values."""
    os.makedirs(folder, exist_ok=True)
    header, data = {}, b''
    for tensor, values in tensors.items():
        part = struct.pack(f'<{len(values)}f', *values)
        header[tensor] = {'dtype': 'F32', 'shape': [len(values)], 'data_offsets': [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(os.path.join(folder, name), 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + data)


def rows(folder, count):
    """A tensor that can be cut into so many rows."""
    safetensors(folder, {'rows': [0.0] * count})


def many(folder, count):
    """So many tensors, in layers of 100, with one shape in each of 7."""
    header, at = {}, 0
    for i in range(count):
        size = 1 + i % 7
        header[f'model.layers.{i // 100}.experts.{i % 100}.weight'] = {
            'dtype': 'U8', 'shape': [size], 'data_offsets': [at, at + size]}
        at += size
    os.makedirs(folder)
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + bytes(at))


def data_of(page):
    """The data of a page."""
    with open(page, encoding='utf-8', newline='') as f:
        return json.loads(f.read().split('id="data">\n', 1)[1].split('\n</script>', 1)[0])


def rectangles(layout):
    """The rectangle of each box, from the description in the manual: first dimension down, second across, each
    further one divides the columns. Numbers are shares of the map's height and width."""
    found = []
    for _, offset, size in layout['boxes']:
        lows = [o / n for o, n in zip(offset, layout['shape'])] + [0] * 2
        lengths = [s / n for s, n in zip(size, layout['shape'])] + [1] * 2
        x, width = lows[1], lengths[1]
        for low, length in zip(lows[2:], lengths[2:]):
            x, width = x + width * low, width * length
        found.append((x, lows[0], width, lengths[0]))
    return found
