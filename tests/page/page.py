#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The page of `ckptfs report` in a headless Chromium: page.py CKPTFS ROOT.

Pages of fixtures, of damage, of awkward names, of a run and of 100,000 tensors are opened, searched, sorted and
operated by keyboard and mouse. The console must stay empty, and the page must load nothing.
"""
import itertools
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'lib')]
import browser  # noqa: E402
import sources  # noqa: E402
import tap  # noqa: E402

CKPTFS, ROOT = sys.argv[1:]
FIXTURES = os.path.join(ROOT, 'tests', 'fixtures')
T = tap.Tap()

NAMES = "[...document.querySelectorAll('#rows a')].map((a) => a.textContent)"
ROWS = """[...document.querySelectorAll('#rows tr[aria-rowindex]')].map((row) =>
    Object.fromEntries([...row.cells].map((cell, c) => [columns[c].title, cell.textContent])))"""
RECTS = """[...document.querySelectorAll('#detail svg[data-fqn] rect')].map((rect) => ({...rect.dataset,
    x: +rect.getAttribute('x'), y: +rect.getAttribute('y'), width: +rect.getAttribute('width'),
    height: +rect.getAttribute('height'), title: rect.textContent}))"""
FOCUS = "document.activeElement.closest('tr')?.querySelector('a').textContent ?? document.activeElement.id"
HEADING = "document.getElementById('detail').hidden ? null : document.getElementById('detail-name').textContent"


def report(work, name, source, *options):
    """Writes a page. Returns its path and its data."""
    path = os.path.join(work, f'{name}.html')
    subprocess.run([CKPTFS, 'report', '-o', path, *options, source], check=True)
    return path, sources.data_of(path)


def quiet(b, what):
    """The console is empty, and only the page itself was loaded."""
    loaded = [url for url in b.requests if not url.startswith(('file:', 'data:', 'about:'))]
    T.check(not b.messages and not loaded, f'{what}: an empty console, nothing loaded', b.messages, loaded)
    b.messages.clear()
    b.requests.clear()


def set_address(b, address):
    b.run(f'location.hash = {json.dumps(address)}')
    b.settle()


def click(b, selector):
    x, y = b.run(f"""(() => {{ const element = document.querySelector({json.dumps(selector)});
        element.scrollIntoView({{block: 'center'}});
        const {{left, top, width, height}} = element.getBoundingClientRect();
        return [left + Math.min(width / 2, 8), top + Math.min(height / 2, 8)]; }})()""")
    b.mouse(x, y, click=True)


def test_canary(b, path):
    script = "console.warn('canary'); setTimeout(() => { throw new Error('canary'); }); fetch('http://canary.invalid').catch(() => 0)"
    b.run(script)  # in about:blank
    b.settle()
    T.check(len(b.messages) >= 2 and 'http://canary.invalid/' in b.requests, 'canary: messages and requests are seen',
            b.messages, b.requests)
    b.requests.clear()
    b.open(path)
    b.run(script)
    b.settle()
    T.check('http://canary.invalid/' not in b.requests and 'Content Security Policy' in str(b.messages),
            'the page itself forbids requests', b.messages, b.requests)
    b.messages.clear()
    b.requests.clear()


def test_table(b, path, data):
    """Rows, search, sort, filters of a small checkpoint."""
    b.open(path)
    T.check(b.run(NAMES) == data['names'], 'every tensor has a row, in natural order')
    cards = b.run("Object.fromEntries([...document.querySelectorAll('#cards div')].map((d) => "
                  "[d.firstChild.textContent, d.lastChild.textContent]))")
    T.check(cards['tensors'] == str(len(data['names'])) and cards['ranks'] == str(data['source']['ranks']), 'totals', cards)
    set_address(b, '?q=LAYERS.1*w2 exp_avg')
    T.check(b.run(NAMES) == [n for n in data['names'] if 'layers.1.' in n and 'w2' in n and 'exp_avg' in n],
            '#?q= searches: words and *, without case', b.run(NAMES))
    T.check(b.run("document.getElementById('search').value") == 'LAYERS.1*w2 exp_avg', '#?q= is in the field')
    set_address(b, '?q=')
    sizes = dict(zip(data['names'], data['bytes']))
    click(b, 'th:nth-child(4) button')
    found = b.run(NAMES)
    T.check([sizes[n] for n in found] == sorted(sizes.values(), reverse=True), 'sorted by size, largest first')
    click(b, 'th:nth-child(4) button')
    T.check([sizes[n] for n in b.run(NAMES)] == sorted(sizes.values()), 'sorted by size, smallest first')
    T.check(b.run("[...document.querySelectorAll('th')].map((th) => th.ariaSort).join()").startswith(
        'none,none,none,ascending,none'), 'aria-sort')
    for c in range(b.run('columns.length')):
        click(b, f'th:nth-child({c + 1}) button')
        T.check(sorted(b.run(NAMES)) == sorted(data['names']), f'sorted by column {c + 1}: the same rows')
    click(b, 'th button')
    T.check(b.run(NAMES) == data['names'], 'sorted by name')
    quiet(b, 'table')


def test_values(b, data):
    """Figures of --values, also those of the optimizer beside the parameter."""
    set_address(b, '?q=model.output.weight')
    row = next(r for r in b.run(ROWS) if r['name'].startswith('model.output.weight'))
    i = data['names'].index('model.output.weight')
    wanted = {key: data['stats'][key][i] for key in ('min', 'max', 'mean', 'std', 'norm')}
    for key, state in data['optimizer'][str(i)].items():
        if key != 'step':
            wanted[f'{key} norm'] = data['stats']['norm'][state]
    wrong = [(key, row[key], value) for key, value in wanted.items() if abs(float(row[key]) - value) > 1e-3 * abs(value)]
    T.check(not wrong and len(wanted) == 7, 'statistics, and norms of both moments beside the parameter', wrong)
    bars = b.run("document.querySelector('#rows .histogram path').getAttribute('d').split('M').length - 1")
    T.check(bars == 32, 'a histogram of 32 bins', bars)
    quiet(b, 'values')


def test_keyboard(b, data):
    set_address(b, '?q=')
    b.run('document.activeElement.blur()')
    b.key('/')
    T.check(b.run(FOCUS) == 'search', '/ moves the focus to the search')
    b.type('norm.weight')
    found = [n for n in data['names'] if 'norm.weight' in n]
    T.check(b.run(NAMES) == found and b.run('location.hash') == '#?q=norm.weight', 'typed words search')
    b.key('ArrowDown')
    b.key('ArrowDown')
    T.check(b.run(FOCUS) == found[1], 'arrows move along the rows', b.run(FOCUS))
    b.key('End')
    T.check(b.run(FOCUS) == found[-1], 'End', b.run(FOCUS))
    b.key('Home')
    b.key('Enter')
    T.check(b.run(HEADING) == found[0] and b.run(FOCUS) == 'detail-name', 'Enter opens a tensor', b.run(HEADING))
    b.key('Escape')
    T.check(b.run(HEADING) is None and b.run(FOCUS) == found[0], 'Escape closes it, and the focus returns to its row',
            b.run(HEADING), b.run(FOCUS))
    T.check(b.run(NAMES) == found, 'the search stays')
    quiet(b, 'keyboard')


def test_treemap(b, data):
    set_address(b, '?q=')
    shown = b.run("""[...document.querySelectorAll('#treemap > svg')].map((part) => ({
        title: part.querySelector('title').textContent,
        area: part.width.baseVal.value * part.height.baseVal.value}))""")
    modules = {part['title'].split(':')[0]: part['area'] for part in shown}
    size = {top: sum(n for name, n in zip(data['names'], data['bytes']) if name.startswith(top)) for top in ('model.', 'optim.')}
    ratio = modules['model.'] / modules['optim.'] / (size['model.'] / size['optim.'])
    T.check(abs(ratio - 1) < 0.01, 'areas of the treemap are in proportion to bytes', modules, size)
    click(b, '#treemap > svg')
    T.check(b.run(NAMES) == [n for n in data['names'] if n.startswith('model.')], 'a click shows one module')
    click(b, '#crumbs button')
    T.check(b.run(NAMES) == data['names'], 'and back')
    quiet(b, 'treemap')


def map_faults(b, layout):
    """Differences of the map that is open from its layout."""
    width, height = b.run("(({width, height}) => [width - 32, height - 28])(document.querySelector("
                          "'#detail svg[data-fqn]').viewBox.baseVal)")
    found = b.run(RECTS)
    faults = [] if len(found) == len(layout['boxes']) else [f'{len(found)} rectangles, {len(layout["boxes"])} boxes']
    for rect, (rank, offset, size), (x, y, w, h) in zip(found, layout['boxes'], sources.rectangles(layout)):
        wanted = [28 + width * x, 24 + height * y, width * w, height * h]
        if (rect['rank'], rect['offset'], rect['size']) != (str(rank), ','.join(map(str, offset)), ','.join(map(str, size))):
            faults.append(f'{rect}: expected rank {rank}, {offset}, {size}')
        if max(abs(a - rect[k]) for a, k in zip(wanted, ('x', 'y', 'width', 'height'))) > 0.02:
            faults.append(f'{rect}: expected {wanted}')
    if abs(sum(r['width'] * r['height'] for r in found) - width * height) > 0.01 * width * height:
        faults.append('the rectangles do not fill the map')
    return faults


def same_as_file(b, source, stem):
    """Differences of the map that is open from that in .ckptfs/shards."""
    text = subprocess.run([CKPTFS, 'cat', source, f'.ckptfs/shards/{stem}.svg'], check=True, capture_output=True).stdout
    root = xml.etree.ElementTree.fromstring(text)
    keys = ('data-rank', 'data-copies', 'data-offset', 'data-size', 'x', 'y', 'width', 'height', 'fill', 'class', 'transform')
    wanted = [[element.tag.split('}')[1], *map(element.get, keys), ''.join(element.itertext())]
              for element in root if element.tag.endswith('}rect') or element.get('class')]
    found = b.run(f"[...document.querySelectorAll('#detail svg[data-fqn] > :is(rect, text)')].map((e) => [e.localName, "
                  f"...{json.dumps(keys)}.map((key) => e.getAttribute(key)), e.textContent])")
    return [f'{one}, in the file {other}' for one, other in itertools.zip_longest(found, wanted) if one != other]


def test_maps(b, work):
    """Shard maps of cuts in one to three dimensions, of FSDP x TP, of copies and of files."""
    for fixture, name in (('tp_fsdp2_uneven', 'model.row5.weight'), ('mesh2d', 'columns_rows'), ('mesh3d', 'cube'),
                          ('sample', 'model.norm.weight'), ('ranks_shards_8', 'state.blocks'), ('alone_4', 'copied'),
                          ('hub_index', 'in a file')):
        path, data = report(work, fixture, os.path.join(FIXTURES, fixture))
        if name == 'copied':
            name = next(n for n, at in zip(data['names'], data['layout']) if any(data['layouts'][at].get('copies', [])))
        elif name == 'in a file':
            name = next(n for n, at in zip(data['names'], data['layout']) if isinstance(data['layouts'][at]['boxes'][0][0], str))
        layout = data['layouts'][data['layout'][data['names'].index(name)]]
        b.open(f'{path}#{name}')
        b.settle()
        T.check(b.run(HEADING) == name, f'{fixture}: #{name} opens it', b.run(HEADING))
        faults = map_faults(b, layout)
        T.check(not faults, f'{fixture}: the rectangles of {name} are its boxes', *faults)
        T.check(b.run("document.querySelector('#detail svg[data-fqn]').dataset.fqn") == name, f'{fixture}: data-fqn')
        copies = [','.join(map(str, c)) for c in layout.get('copies', [])]
        T.check([r.get('copies', '') for r in b.run(RECTS)] == (copies or [''] * len(layout['boxes'])) and
                all(', '.join(c.split(',')) in r['title'] for c, r in zip(copies, b.run(RECTS))),
                f'{fixture}: {len(copies)} copies are listed', copies, b.run(RECTS))
        other = same_as_file(b, os.path.join(FIXTURES, fixture), name)
        T.check(not other, f'{fixture}: the map is that of .ckptfs/shards', *other)
        quiet(b, fixture)
    T.check(b.run("document.querySelectorAll('#rows rect').length") == 0, 'no map is drawn before its tensor is opened')


def test_many_boxes(b, work):
    sources.rows(os.path.join(work, 'rows'), 300)
    subprocess.run([CKPTFS, 'cp', '-r', os.path.join(work, 'rows'), 'dcp/300', os.path.join(work, 'boxes')], check=True,
                   capture_output=True)
    path, _ = report(work, 'boxes', os.path.join(work, 'boxes'))
    b.open(f'{path}#rows')
    b.settle()
    shown = b.run("(({dataset, textContent}) => [dataset.boxes, textContent])(document.querySelector('#detail svg[data-fqn]'))")
    T.check(shown[0] == '300' and '300 boxes' in shown[1] and not b.run(f'{RECTS}.filter((r) => r.rank)'),
            'more than 256 boxes: their number', shown)
    quiet(b, 'more than 256 boxes')


def test_damage(b, work):
    path, data = report(work, 'bad', os.path.join(FIXTURES, 'tp_fsdp2_bad'), '--values')
    b.open(path)
    marked = b.run("Object.fromEntries([...document.querySelectorAll('tr[data-damage]')].map((row) => "
                   "[row.querySelector('a').textContent, row.dataset.damage]))")
    T.check(marked == {data['names'][int(i)]: text for i, text in data['damage'].items()} and marked, 'damaged rows', marked)
    T.check(b.run("getComputedStyle(document.querySelector('tr[data-damage] td')).backgroundColor !== "
                  "getComputedStyle(document.querySelector('tr:not([data-damage]) td')).backgroundColor"), 'they have a colour')
    b.run("document.getElementById('filter').value = 'damaged';"
          "document.getElementById('filter').dispatchEvent(new Event('change'))")
    T.check(b.run(NAMES) == list(marked), 'the filter damaged')
    click(b, '#rows a')
    T.check(next(iter(marked.values())) in b.run("document.querySelector('#detail').textContent"), 'the damage of one that is open')
    quiet(b, 'damage')


def test_awkward(b, work):
    sources.safetensors(os.path.join(work, 'awkward'), {name: [1.0] for name in sources.AWKWARD})
    path, data = report(work, 'awkward', os.path.join(work, 'awkward'), '--values')
    b.open(path)
    T.check(b.run(NAMES) == data['names'] and sorted(data['names']) == sorted(sources.AWKWARD), 'awkward names are text')
    T.check(b.run("document.querySelectorAll('b b, #rows b, script').length") == 2, 'no element is made of a name')
    for i, name in enumerate(data['names']):
        b.run(f"document.querySelectorAll('#rows a')[{i}].click()")
        b.settle()
        T.check(b.run(HEADING) == name and b.run("document.querySelector('#detail svg').dataset.fqn") == name,
                f'a click opens {ascii(name[:30])}', b.run(HEADING), b.run('location.hash'))
        b.open(path + b.run('location.hash'))
        T.check(b.run(HEADING) == name, 'its address opens it again', b.run(HEADING), b.run('location.hash'))
        stem = data['stems'].get(str(i), name)
        if not stem.startswith('?'):  # is a search
            b.open(path)
            set_address(b, f'#{stem}')
            T.check(b.run(HEADING) == name, f'#{ascii(stem[:30])} opens it', b.run(HEADING), b.run('location.hash'))
    quiet(b, 'awkward names')


def test_deep(b, work):
    """Two tensors below 5,000 modules, and links in which another program escaped other characters."""
    deep = ['m.' * 5000 + name for name in ('weight', 'bias')]
    sources.safetensors(os.path.join(work, 'deep'), {name: [1.0] for name in [*deep, 'layers.0/1.weight', '..a', 'a+b&c']})
    path, data = report(work, 'deep', os.path.join(work, 'deep'))
    b.open(path)
    T.check(b.run(NAMES) == data['names'], 'names with many parts')
    for link, name in (('layers%2E0%252F1.weight', 'layers.0/1.weight'), ('a+b&c', 'a+b&c'), ('%61%2bb%26c', 'a+b&c'), ('%2E.a', '..a')):
        set_address(b, f'#{link}')
        T.check(b.run(HEADING) == name, f'#{link} opens {name}', b.run(HEADING), b.run('location.hash'))
    quiet(b, 'names with many parts')


def test_not_finite(b, work):
    sources.safetensors(os.path.join(work, 'nan'), {'good': [1.0, 2.0], 'bad': [1.0, float('nan'), float('inf')],
                                                    'worse': [float('-inf')]})
    path, _ = report(work, 'nan', os.path.join(work, 'nan'), '--values')
    b.open(path)
    b.run("document.getElementById('filter').value = 'NaN or Inf';"
          "document.getElementById('filter').dispatchEvent(new Event('change'))")
    rows = {row['name']: (row['nan'], row['inf']) for row in b.run(ROWS)}
    T.check([v for _, v in sorted(rows.items())] == [('1', '1'), ('0', '1')], 'the filter NaN or Inf', rows)
    quiet(b, 'NaN and Inf')


def test_huge(b, work, count=100000):
    """Everything stays within a second; the limit is three, for a busy machine."""
    sources.many(os.path.join(work, 'many'), count)
    path, data = report(work, 'many', os.path.join(work, 'many'), '--values')
    b.open(path)

    def timed(what, script):
        seconds = b.run(f'(() => {{ const begin = performance.now(); {script}; document.body.offsetHeight;'
                        'return (performance.now() - begin) / 1000; })()')
        b.settle()
        T.check(seconds < 3, f'{count} tensors: {what} within 3 s', seconds)
        print(f'# {what}: {seconds:.3f} s')

    T.check(len(b.run(NAMES)) < 200, f'{count} tensors: only rows near the view are in the document')
    timed('search', "location.hash = '?q=layers.777 experts.77.'; followAddress()")
    T.check(b.run(NAMES) == ['model.layers.777.experts.77.weight'], f'{count} tensors: search')
    timed('the end of a search', "location.hash = '?q='; followAddress()")
    for column in ('size', 'shape', 'name'):
        timed(f'sort by {column}', f"sortBy(columns.findIndex((c) => c.title === '{column}'))")
    T.check(b.run(NAMES)[:3] == data['names'][:3], f'{count} tensors: order')
    timed('one module', "zoom('model.layers.5.')")
    T.check(b.run('state.rows.length') == 100, f'{count} tensors: one module')
    timed('all modules', 'zoom()')
    b.run('moveTo(0)')
    b.key('End')
    T.check(b.run(FOCUS) == data['names'][-1], f'{count} tensors: the last row', b.run(FOCUS))
    b.run("document.getElementById('scroller').scrollTop = 28 * 50000")
    b.settle()
    top = b.run("(() => { const {left, bottom} = document.querySelector('th').getBoundingClientRect();"
                "return document.elementFromPoint(left + 30, bottom + 40).closest('tr').querySelector('a').textContent; })()")
    T.check(abs(data['names'].index(top) - 50000) < 3, f'{count} tensors: scrolled', top)
    set_address(b, data['names'][77777])
    T.check(b.run(HEADING) == data['names'][77777], f'{count} tensors: one is opened')
    quiet(b, f'{count} tensors')


def test_run(b, work):
    """Curves of a run, with a step that has no tensor, NaN from a step on, and a step that cannot be opened."""
    run = os.path.join(work, 'run')
    for step in (100, 200, 300, 400):
        tensors = {f'layer.{i}.weight': [i + step / 100, 1.0, 2.0] for i in range(8)}
        if step >= 300:
            tensors['layer.5.weight'] = [float('nan')] * (step // 100) + [1.0]
        if step == 400:
            tensors['layer.2.weight'] = [float('inf')]
        if step == 300:
            del tensors['layer.3.weight']
        sources.safetensors(os.path.join(run, f'step-{step}'), tensors)
    subprocess.run(['cp', '-r', os.path.join(FIXTURES, 'sample'), os.path.join(run, 'step-250')], check=True)
    with open(os.path.join(run, 'step-250', '.metadata'), 'wb') as f:
        f.write(b'\x80\x02<rubbish>.')
    path, data = report(work, 'run', run, '--values')
    b.open(path)
    T.check(b.run(NAMES) == [f'layer.{i}.weight' for i in range(8)], 'run: a row for each tensor')
    T.check(data['run']['skipped'] and all(f'step {step} skipped: {text}' in b.run("document.getElementById('faults').textContent")
                                           for step, text in data['run']['skipped'].items()), 'run: skipped steps')
    curves = b.run("[...document.querySelectorAll('#rows tr[aria-rowindex]')].map((row) => "
                   "[...row.querySelectorAll('.curve path')].map((p) => p.getAttribute('d').split('M').length - 1))")
    T.check(len(curves) == 8 and curves[0] == [1, 1, 1] and curves[3][0] == 2, 'run: a gap where a tensor is absent', curves)
    heights = b.run("document.querySelector('#rows .curve path').getAttribute('d').match(/ [\\d.]+/g).map(Number)")
    T.check(len(heights) == 4 and heights == sorted(heights, reverse=True), 'run: a norm that grows', heights)
    first = b.run("columns.findIndex((c) => c.title === 'first NaN') + 1")
    click(b, f'th:nth-child({first}) button')
    row = b.run(ROWS)[0]
    T.check(row['name'].startswith('layer.5.weight') and row['first NaN'] == '300', 'run: sorted by the first NaN', row)
    T.check(b.run(f"document.querySelectorAll('th')[{first - 1}].ariaSort") == 'ascending', 'run: ascending at the first click')
    T.check([r['first NaN'] for r in b.run(ROWS)[1:]] == ['400'] + [''] * 6, 'run: the next has it one step later, no other')
    card = b.run("document.querySelector('#cards [data-card=\"first NaN or Inf\"] dd').textContent")
    T.check(card == 'step 300: layer.5.weight', 'run: a card has the first step with NaN, and the tensor', card)
    click(b, '#cards [data-card="first NaN or Inf"] a')
    T.check(b.run(HEADING) == 'layer.5.weight', 'run: the card opens it', b.run(HEADING))
    mark = b.run("(({cx, cy, nextSibling}) => [cx.baseVal.value, cy.baseVal.value, nextSibling.textContent])"
                 "(document.querySelector('#detail .curve circle'))")
    T.check(abs(mark[0] - (3 + 634 * 2 / 3)) < 0.01 and 3 < mark[1] < 87 and mark[2] == 'step 300',
            'run: a circle marks the first NaN, with its step', mark)
    T.check(b.run("[...document.querySelectorAll('#rows tr[aria-rowindex]')].map((row) => row.querySelectorAll('circle').length)")
            == [1, 1] + [0] * 6, 'run: circles in the two rows with NaN')
    text = b.run("[...document.querySelectorAll('#detail figcaption')].at(-1).textContent")
    T.check(text == 'steps 100 to 400: min 0, max 4', 'run: the caption has the steps, minimum and maximum', text)
    set_address(b, 'layer.5.weight')
    x, y = b.run("""(() => { const curve = document.querySelector('#detail .curve.bad');
        curve.scrollIntoView({block: 'center'}); const {left, top, width} = curve.getBoundingClientRect();
        return [left + width * 0.66, top + 10]; })()""")
    b.mouse(x, y)
    text = b.run("[...document.querySelectorAll('#detail .curve title')].at(-1).textContent")
    T.check(text == 'step 300: NaN + Inf 3', 'run: a point has its step', text)
    T.check(b.run("document.querySelector('#detail figure:last-child figcaption').textContent") == text, 'and its caption')
    set_address(b, 'layer.2.weight')
    text = b.run("document.querySelector('#detail').textContent")
    T.check('no finite values in step 400' in text, 'run: the newest step has no finite values', text)
    quiet(b, 'run')


def test_schemes(work, path):
    found = []
    for dark in (False, True):
        with browser.Browser(width=400, height=800, dark=dark) as b:
            b.open(path)
            found.append(b.run('[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]'))
            T.check(b.run('document.documentElement.scrollWidth') <= 400, f'400 pixels wide: nothing is cut off, dark: {dark}')
            quiet(b, f'400 pixels, dark: {dark}')
    T.check(found[0][0] != found[1][0] and found[0][1] != found[1][1], 'dark and light', found)


def main():
    if not browser.find():
        T.skip('the page', 'there is no Chromium')
        return T.finish()
    with tempfile.TemporaryDirectory() as work:
        path, data = report(work, 'sample', os.path.join(FIXTURES, 'sample'), '--values')
        with browser.Browser() as b:
            test_canary(b, path)
            test_table(b, path, data)
            test_values(b, data)
            test_keyboard(b, data)
            test_treemap(b, data)
            test_maps(b, work)
            test_many_boxes(b, work)
            test_damage(b, work)
            test_awkward(b, work)
            test_deep(b, work)
            test_not_finite(b, work)
            test_run(b, work)
            test_huge(b, work)
        test_schemes(work, path)
    return T.finish()


sys.exit(main())
