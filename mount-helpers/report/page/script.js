// SPDX-License-Identifier: MIT
// The page of `ckptfs report`, from the JSON in #data. Names become text and attributes only.
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const { names, stats, run, alias = {}, damage = {}, optimizer = {} } = data;
const PALETTE = document.body.dataset.palette.split(/\s+/);
const ALL_ROWS = 1000, ROW_HEIGHT = 28; // at most all rows in the document; pixels, see style.css
const byId = (id) => document.getElementById(id);
/** Adds attributes, listeners (functions) and children to an element; strings become text. */
function fill(element, attributes, children = []) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}
const SVG = 'http://www.w3.org/2000/svg';
const html = (tag, given, ...inside) => fill(document.createElement(tag), given, inside);
const svg = (tag, given, ...inside) => fill(document.createElementNS(SVG, tag), given, inside);
const picture = (name, width, height, label, ...inside) => svg('svg', { class: name, role: 'img',
  viewBox: `0 0 ${width} ${height}`, 'aria-label': label }, svg('title', {}, label), ...inside);
const fact = (name, value) =>
  html('div', { 'data-card': name }, html('dt', {}, name), html('dd', {}, value));
const sum = (list) => list.reduce((total, value) => total + value, 0);
const product = (list) => list.reduce((total, value) => total * value, 1);
const tint = (k) => PALETTE[k % PALETTE.length], rounded = (v) => Math.floor(100 * v + 0.5) / 100;
const count = new Intl.NumberFormat('en-US').format;
const isRank = (holder) => typeof holder === 'number'; // else a file; null: no file has the box
const holderOf = (h) => (h === null ? 'no file' : `${isRank(h) ? 'rank' : 'file'} ${h}`);
/** Bytes with a unit, by powers of 1024. */
function size(bytes) {
  const unit = bytes >= 1024 ? Math.min(6, Math.floor(Math.log2(bytes) / 10)) : 0;
  const number = bytes / 1024 ** unit, digits = !unit || number >= 100 ? 0 : number < 10 ? 2 : 1;
  return `${number.toFixed(digits)} ${['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'][unit]}`;
}
/** A number in four digits, or a whole number in full. */
function figure(v) {
  if (v === null) return '';
  if (Number.isInteger(v) && Math.abs(v) < 1e9) return count(v);
  return Math.abs(v) < 1e-3 || Math.abs(v) >= 1e6 ? v.toExponential(3) : `${+v.toPrecision(4)}`;
}
// Facts of tensor i
const tensors = names.map((_, i) => i);
const layoutOf = (i) => data.layouts[data.layout[i]], dtypeOf = (i) => data.dtypes[data.dtype[i]];
const shapeOf = (i) => layoutOf(i).shape, elementsOf = (i) => product(shapeOf(i));
const alphabetical = (i) => data.dtypes.filter((dtype) => dtype < dtypeOf(i)).length;
const shapeText = (i) => shapeOf(i).join(' × ') || 'scalar';
const boxesOf = (i) => layoutOf(i).total ?? layoutOf(i).boxes.length;
const ownBytes = (i) => (i in alias ? 0 : data.bytes[i]);
const stemOf = (i) => data.stems?.[i] ?? names[i];
const linkOf = (i) => `#${encodeURIComponent(stemOf(i))}`;
const linkTo = (i, text = names[i]) => html('a', { href: linkOf(i) }, text);
const stat = (key, i) => stats?.[key]?.[i] ?? null;
const binsOf = (i) => [...atob(stats.bins[i] ?? '')].map((c) => c.charCodeAt(0));
/** NaN and Inf of each step; null where the step lacks the tensor. */
const nonFinite = (i) => run.norm[i].map((norm, s) =>
  (run.nan[i]?.[s] ?? 0) + (run.inf[i]?.[s] ?? 0) || (norm === null ? null : 0));
const firstStep = run ? tensors.map((i) => nonFinite(i).findIndex((n) => n > 0)) : []; // -1: none
const CURVES = { norm: (i) => run.norm[i], change: (i) => run.change[i], 'NaN + Inf': nonFinite };
const filters = { all: () => true, sharded: (i) => boxesOf(i) > 1, alias: (i) => i in alias,
  damaged: (i) => i in damage,
  'NaN or Inf': (i) => (run ? firstStep[i] >= 0 : stat('nan', i) + stat('inf', i) > 0) };
const total = sum(tensors.map(ownBytes));
const state = { query: '', module: '', dtype: null, sort: -1, focus: 0, open: null };
function showHead() {
  const { path, kind, why, ranks, objects } = data.source, steps = run?.steps.length;
  document.title = `${path.split('/').filter(Boolean).pop() ?? path} - ckptfs report`;
  const texts = { program: data.program, path, about: why ? `${kind}: ${why}` : kind };
  for (const [id, text] of Object.entries(texts)) byId(id).textContent = text;
  const elements = sum(tensors.map((i) => (i in alias ? 0 : elementsOf(i))));
  const cards = { steps: steps < run?.all ? `${steps} of ${run.all}` : steps, tensors: names.length,
    bytes: size(total), elements, dtypes: data.dtypes.length, ranks, objects };
  for (const [name, filter] of Object.entries(filters)) {
    const n = tensors.filter(filter).length;
    if (n) byId('filter').append(new Option(`${name} (${count(n)})`, name));
    if (name !== 'all') cards[name] = n;
  }
  const s = run?.steps.findIndex((_, at) => firstStep.includes(at)), i = firstStep.indexOf(s);
  if (s >= 0) cards['first NaN or Inf'] = linkTo(i, `step ${run.steps[s]}: ${names[i]}`);
  byId('cards').append(...Object.entries(cards).filter(([, value]) => value).map(([name, value]) =>
    fact(name, typeof value === 'number' ? count(value) : value)));
  const skipped = Object.entries(run?.skipped ?? {}).map(([s, w]) => `step ${s} skipped: ${w}`);
  byId('faults').append(...skipped.concat(data.faults ?? []).map((text) => html('li', {}, text)));
}
/** Lines of a list of sizes: the bar of a line is its share of the whole. */
function showList(list, whole, lines) {
  list.replaceChildren(...lines.slice(0, 500).map((line) => html('li', {}, html(
    line.act ? 'button' : 'span', { click: line.act, 'aria-pressed': line.pressed,
      style: `--tint:${line.shade};--share:${line.bytes / whole || 0};--depth:${line.depth ?? 0}` },
    html('b', { title: line.label }, line.label), html('span', {}, line.note ?? ''),
    html('span', {}, size(line.bytes))))));
}
function showDtypes() {
  const act = (d) => { state.dtype = state.dtype === d ? null : d; showDtypes(); update(); };
  showList(byId('dtypes'), total, data.dtypes.map((label, d) => {
    const list = tensors.filter((i) => data.dtype[i] === d);
    return { label, bytes: sum(list.map(ownBytes)), note: count(list.length), shade: tint(d),
      pressed: state.dtype === d, act: () => act(d) };
  }).sort((a, b) => b.bytes - a.bytes));
}
/** Lines of the bytes that each rank or file holds; weights: bytes an element of each layout. */
function holderLines(weights) {
  const held = new Map(), add = (holder, n) => held.set(holder, (held.get(holder) ?? 0) + n);
  Object.entries(weights).forEach(([l, weight]) => {
    const { boxes, copies = [] } = data.layouts[l];
    boxes.forEach(([first, , dims], b) => [first, ...(copies[b] ?? [])].forEach((holder) =>
      add(holder, weight * product(dims))));
  });
  const files = [...held.keys()].filter((holder) => !isRank(holder));
  return [...held].sort(([a], [b]) => isRank(b) - isRank(a) || (a > b ? 1 : -1))
    .map(([holder, bytes]) => ({ label: holderOf(holder), bytes,
      shade: tint(isRank(holder) ? holder : files.indexOf(holder)) }));
}
function showRanks() {
  const weights = data.layouts.map(() => 0);
  for (const i of tensors) weights[data.layout[i]] += ownBytes(i) / (elementsOf(i) || 1);
  const lines = holderLines(weights);
  byId('ranks').parentElement.hidden = lines.length < 2;
  showList(byId('ranks'), Math.max(...lines.map(({ bytes }) => bytes)), lines);
}
/** Modules and tensors below a path, '' or 'a.b.'; one that is alone is replaced by its parts. */
function partsOf(above, list) {
  const parts = new Map(), cut = (path) => path.slice(0, path.lastIndexOf('.') + 1);
  let from = list.length > 1 ? cut(names[list[0]]) : above;
  for (const i of list) while (!names[i].startsWith(from)) from = cut(from.slice(0, -1));
  if (from.length < above.length) from = above; // names that are equal
  for (const i of list) {
    const path = names[i].slice(0, names[i].indexOf('.', from.length) + 1 || undefined);
    parts.set(path, parts.get(path) ?? []).get(path).push(i);
  }
  return [...parts].map(([start, inside], k) => {
    const one = inside.length === 1, path = one ? names[inside[0]] : start;
    return { path, list: inside, bytes: sum(inside.map(ownBytes)), shade: tint(k),
      label: path.slice(above.length, one ? undefined : -1), note: one ? '' : count(inside.length),
      act: () => (one ? location.assign(linkOf(inside[0])) : zoom(path)) };
  });
}
/** Shows one module in the list, the treemap and the table: path '' is the whole checkpoint. */
function zoom(path = '') {
  state.module = path;
  state.parts = partsOf(path, tensors.filter((i) => names[i].startsWith(path)));
  byId('crumbs').replaceChildren(html('button', { click: () => zoom() }, 'all'),
    ...path.split('.').slice(0, -1).map((key, k, keys) => html('button', {
      click: () => zoom(`${keys.slice(0, k + 1).join('.')}.`) }, key)));
  const below = (part) => (state.parts.length > 8 || part.list.length === 1 ? [] :
    partsOf(part.path, part.list).map((inner) => ({ ...inner, depth: 1, shade: part.shade })));
  showList(byId('modules'), sum(state.parts.map((part) => part.bytes)),
    state.parts.flatMap((part) => [part, ...below(part)]));
  drawTreemap();
  update();
}
/** Divides a rectangle among parts, in their order: halves along the longer side, repeated. */
function divide(parts, x, y, w, h, place) {
  if (w < 1 || h < 1 || !parts.length) return null;
  if (parts.length === 1) return place(parts[0], x, y, w, h);
  const half = sum(parts.map((part) => part.bytes)) / 2;
  let k = 1, first = parts[0].bytes;
  while (k < parts.length - 1 && first + parts[k].bytes / 2 < half) first += parts[k++].bytes;
  const share = first / half / 2, right = w >= h ? w * share : 0, down = w >= h ? 0 : h * share;
  divide(parts.slice(0, k), x, y, right || w, down || h, place);
  return divide(parts.slice(k), x + right, y + down, w - right, h - down, place);
}
/** Draws the parts of the module shown, with their parts inside as far as there is room. */
function drawTreemap() {
  const { clientWidth: width, clientHeight: height } = byId('treemap'), drawn = [];
  const draw = (parts, above, ...place) => divide(parts.filter((part) => part.bytes), ...place,
    ({ path, list, bytes, label, note, act, shade: own }, x, y, w, h) => {
      const open = list.length > 1 && w > 30 && h > 34, shade = above ?? own;
      drawn.push(svg('svg', { x, y, width: w, height: h, click: act },
        svg('rect', { width: '100%', height: '100%',
          class: open ? 'module' : list.some(filters.damaged) ? 'damaged' : 'leaf',
          fill: byId('colour').value === 'dtype' && !open ? tint(data.dtype[list[0]]) : shade },
        svg('title', {}, `${path}: ${size(bytes)}, ${(100 * bytes / total).toPrecision(2)} %, ` +
          (note ? `${note} tensors` : shapeText(list[0])))),
        w > 20 && h > 14 ? svg('text', { x: 4, y: 12.5 }, label) : ''));
      if (open) draw(partsOf(path, list), shade, x + 2, y + 17, w - 4, h - 19);
    });
  draw(state.parts, null, 0, 0, width, height);
  byId('treemap').replaceChildren(...drawn);
}
function histogram(i, width, height) {
  const bins = binsOf(i), bar = width / bins.length, top = (n) => rounded(height * (1 - n / 255));
  const range = `${bins.length} bins from ${figure(stat('min', i))} to ${figure(stat('max', i))}`;
  return picture('histogram', width, height, range, svg('path', { d: bins.map((n, b) =>
    `M${b * bar} ${height}V${top(n)}h${bar - 0.5}V${height}z`).join('') }));
}
/** Values over the steps, with a gap where a step lacks the tensor; the first NaN has a circle. */
function curve(title, values, width, height) {
  const real = values.filter((v) => v !== null), most = Math.max(...real, 0);
  const least = title === 'norm' && real.length ? Math.min(...real) : 0, end = values.length - 1;
  const x = (s) => rounded(3 + (width - 6) * (end ? s / end : 0.5));
  const y = (v) => rounded(height - 3 - (height - 6) * (v - least) / (most - least || 1));
  const path = values.map((v, s) => (v === null ? '' :
    `${(values[s - 1] ?? null) === null ? 'M' : 'L'}${x(s)} ${y(v)}h0`)).join('');
  const point = ({ clientX, currentTarget: drawn }) => {
    const { left, width: w } = drawn.getBoundingClientRect();
    const s = Math.max(0, Math.round((clientX - left) / w * end)), v = figure(values[s] ?? null);
    drawn.firstChild.textContent = `step ${run.steps[s]}: ${title} ${v || 'without a value'}`;
  };
  const bad = title === 'NaN + Inf' ? values.findIndex((v) => v > 0) : -1;
  const cx = x(bad), cy = y(values[bad]), mark = bad < 0 ? [] : [svg('circle', { cx, cy, r: 2.5 }),
    svg('text', { x: Math.max(60, cx - 6), y: Math.max(12, cy - 4) }, `step ${run.steps[bad]}`)];
  const range = real.length ? `min ${figure(Math.min(...real))}, max ${figure(most)}` : 'no values';
  return fill(picture(`curve ${mark.length ? 'bad' : ''}`, width, height,
    `steps ${run.steps[0]} to ${run.steps[end]}: ${range}`, svg('path', { d: path }), ...mark),
  { pointermove: point });
}
/** The name as a link, whose front is cut off where it has no room. */
function nameCell(i) {
  const cut = names[i].lastIndexOf('.', names[i].lastIndexOf('.') - 1) + 1; // two parts stay
  const link = html('a', { href: linkOf(i), title: names[i], tabindex: -1 },
    html('span', {}, names[i].slice(0, cut)), html('span', {}, names[i].slice(cut)));
  return html('div', {}, link, ...['damaged', 'alias', 'NaN or Inf'].filter((f) => filters[f](i))
    .map((f) => html('i', { class: f.slice(0, 3), title: damage[i] }, f)));
}
function tableColumns() {
  const list = [{ title: 'name', width: 380, value: (i) => i, cell: nameCell },
    { title: 'dtype', width: 88, value: alphabetical, cell: dtypeOf },
    { title: 'shape', width: 124, value: elementsOf, cell: shapeText }];
  const add = (title, value, cell = (i) => figure(value(i))) =>
    list.push({ title, width: Math.max(94, 8 * title.length + 16), value, cell, number: true });
  const draw = (title, value, cell) => list.push({ title, width: 112, value, cell, drawn: true });
  add('size', (i) => data.bytes[i], (i) => size(data.bytes[i]));
  add('boxes', boxesOf);
  Object.entries(run ? CURVES : {}).forEach(([title, values]) =>
    draw(title, (i) => Math.max(...values(i)), (i) => curve(title, values(i), 96, 20)));
  if (run) add('first NaN', (i) => firstStep[i] + 1 || null, (i) => run.steps[firstStep[i]] ?? '');
  if (!stats) return list;
  draw('histogram', (i) => sum(binsOf(i)) || null, (i) => histogram(i, 96, 20));
  for (const key of 'nan inf min max mean std norm zeros'.split(' ')) add(key, (i) => stat(key, i));
  const states = Object.values(optimizer).flatMap(Object.keys).filter((k) => k !== 'step');
  for (const key of new Set(states)) add(`${key} norm`, (i) => stat('norm', optimizer[i]?.[key]));
  return list;
}
function sortBy(c = 0) {
  state.falling = state.sort === c ? !state.falling : c > 2 && columns[c].title !== 'first NaN';
  state.sort = c;
  const [order, sign] = state.falling ? ['descending', -1] : ['ascending', 1];
  const keys = Float64Array.from(tensors, (i) => columns[c].value(i) ?? sign * Infinity); // last
  state.order = tensors.slice().sort((a, b) => sign * (keys[a] - keys[b]) || a - b);
  byId('head').replaceChildren(...columns.map(({ title, number, width }, k) => html('th', {
    scope: 'col', class: number && 'number', style: `width:${width}px`,
    'aria-sort': k === c ? order : 'none' }, html('button', { click: () => sortBy(k) }, title))));
  update();
}
/** Applies search and filters, and shows the rows from the first one. */
function update() {
  const filter = filters[byId('filter').value];
  const words = state.query.split(/\s+/).filter(Boolean).map((word) => new RegExp(word.split('*')
    .map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&')).join('.*'), 'is'));
  state.rows = state.order.filter((i) => names[i].startsWith(state.module) &&
    (state.dtype ?? data.dtype[i]) === data.dtype[i] && filter(i) &&
    words.every((word) => word.test(names[i])));
  byId('found').textContent = `${count(state.rows.length)} of ${count(names.length)} tensors, ` +
    size(sum(state.rows.map(ownBytes)));
  byId('table').setAttribute('aria-rowcount', state.rows.length + 1);
  state.focus = byId('scroller').scrollTop = 0;
  showRows();
}
/** Puts rows into the document: all of them, or those in view if there are many. */
function showRows(focus = byId('rows').contains(document.activeElement)) {
  const { rows } = state, all = rows.length <= ALL_ROWS;
  const first = all ? 0 : Math.max(0, Math.floor(byId('scroller').scrollTop / ROW_HEIGHT) - 30);
  const end = all ? rows.length : Math.min(rows.length, first + 120);
  const gap = (n) => html('tr', { style: `height:${n * ROW_HEIGHT}px`, 'aria-hidden': true });
  if (made.size > 2 * ALL_ROWS) made.clear();
  byId('rows').replaceChildren(gap(first), ...rows.slice(first, end).map((i, r) => {
    if (!made.has(i)) {
      made.set(i, html('tr', { 'data-damage': damage[i], click: () => location.assign(linkOf(i)) },
        ...columns.map(({ cell, number }) => html('td', { class: number && 'number' }, cell(i)))));
    }
    return fill(made.get(i), { 'aria-rowindex': first + r + 2, 'aria-selected': i === state.open,
      tabindex: first + r === state.focus ? 0 : -1 });
  }), gap(rows.length - end));
  if (focus) made.get(rows[state.focus])?.focus({ preventScroll: true });
}
function moveTo(row) {
  const scroller = byId('scroller'), room = scroller.clientHeight - 2 * ROW_HEIGHT;
  state.focus = Math.max(0, Math.min(state.rows.length - 1, row));
  const top = state.focus * ROW_HEIGHT;
  scroller.scrollTop = Math.min(top, Math.max(scroller.scrollTop, top - room));
  showRows(true);
}
/** Width and height of a shard map; its geometry is that of .ckptfs/shards/<stem>.svg. */
function mapSize([down, across]) {
  if (across === undefined) return down === undefined ? [160, 80] : [320, 240];
  const ratio = down && across ? Math.min(3, Math.max(0.5, across / down)) : 1;
  return ratio >= 1.5 ? [600, Math.floor(600 / ratio + 0.5)] : [Math.floor(400 * ratio + 0.5), 400];
}
/** The rectangle of a box: dimension 0 down, 1 across, each further one divides the columns. */
function boxRectangle(shape, offset, dims, [width, height]) {
  const rect = { x: 28, y: 24, width, height };
  shape.forEach((n, k) => {
    const [start, length] = k ? ['x', 'width'] : ['y', 'height'];
    const share = (at) => Math.min(1, Math.max(0, at / n)); // boxes of damaged files may lie
    const [from, to] = n ? [share(offset[k]), share(offset[k] + dims[k])] : [0, 1];
    rect[start] += rect[length] * from;
    rect[length] *= Math.max(0, to - from);
  });
  return rect;
}
/** A rectangle for each box, in the colour of its rank or file, and a text if it has room. */
function drawBoxes({ shape, boxes, copies }, extent) {
  const files = [...new Set(boxes.map(([holder]) => holder))].filter((holder) => !isRank(holder));
  const texts = [], rects = boxes.map(([holder, offset, dims], b) => {
    const { x, y, width: w, height: h } = boxRectangle(shape, offset, dims, extent);
    const index = isRank(holder) ? holder : files.indexOf(holder);
    const text = isRank(holder) ? `${holder}` : `#${index + 1}`, others = copies?.[b] ?? [];
    if (holder !== null && w >= 7 * text.length + 6 && h >= 14) texts.push(svg('text', {
      class: 'rank', x: rounded(x + w / 2), y: rounded(y + h / 2 + 4) }, text));
    const where = others.length ? `, copies on ranks ${others.join(', ')}` : '';
    return svg('rect', { 'data-rank': holder ?? '', 'data-copies': where ? others.join() : null,
      'data-offset': offset.join(), 'data-size': dims.join(), x: rounded(x), y: rounded(y),
      width: rounded(w), height: rounded(h), fill: holder === null ? '#8884' : tint(index) },
    svg('title', {}, `${holderOf(holder)}${where}\noffset [${offset.join(', ')}]\nsize [${
      dims.join(', ')}]`));
  });
  return [...rects, ...texts];
}
/** Which rank holds which box of a tensor. */
function shardMap(i) {
  const layout = layoutOf(i), { shape, boxes, total: omitted } = layout;
  const [width, height] = mapSize(shape), last = shape.length - 1, middle = 24 + height / 2;
  const deep = boxes.some(([, , dims]) => dims.some((n, k) => k > 1 && n < shape[k]));
  const further = `, each divided by dimension${last > 2 ? `s 2 to ${last}` : ' 2'}`;
  const axes = [{ x: 12, y: middle, transform: `rotate(-90 12 ${middle})` },
    { x: 28 + width / 2, y: 16 }].slice(0, shape.length).map((place, k) => svg('text',
    { class: 'axis', ...place }, `dimension ${k}: ${shape[k]}${k && deep ? further : ''}`));
  const summary = omitted ? [svg('rect', { class: 'omitted', x: 28, y: 24, width, height }),
    svg('text', { class: 'omitted', x: 28 + width / 2, y: middle }, `${omitted} boxes`)] : [];
  return fill(picture('map', width + 32, height + 28, `Shards of ${names[i]}`, ...axes, ...summary,
    ...drawBoxes(layout, [width, height])), { 'data-fqn': names[i], 'data-dtype': dtypeOf(i),
    'data-shape': shape.join(), 'data-boxes': omitted, width: width + 32 });
}
function showDetail(i) {
  const owner = Object.keys(optimizer).find((p) => Object.values(optimizer[p]).includes(i));
  const links = [...Object.entries(optimizer[i] ?? {}), ['state of', owner],
    ['the same memory as', alias[i]]].filter(([, other]) => other !== undefined);
  const part = (title, drawn, text = drawn.getAttribute('aria-label')) =>
    html('figure', {}, html('h3', {}, title), drawn, html('figcaption', {}, text));
  const last = run ? nonFinite(i).findLastIndex((n) => n !== null) : -1; // step with the tensor
  const when = last < 0 ? '' : ` in step ${run.steps[last]}`;
  const legend = html('ul', { class: 'sizes' }), each = data.bytes[i] / (elementsOf(i) || 1);
  showList(legend, data.bytes[i], holderLines({ [data.layout[i]]: each }));
  byId('detail').replaceChildren(
    html('button', { 'aria-label': 'close', click: () => search(state.query) }, '✕'),
    html('h2', { id: 'detail-name', tabindex: -1 }, names[i]),
    html('p', { class: 'dam' }, damage[i] ?? ''),
    html('dl', {}, ...columns.slice(1).filter(({ drawn }) => !drawn)
      .map(({ title, cell }) => fact(title, cell(i)))),
    ...links.map(([text, other]) => html('p', {}, `${text} `, linkTo(other))),
    part('Shards', shardMap(i), 'Point at a box for its offset and size.'), legend,
    stat('count', i) === null ? '' : part('Values', histogram(i, 640, 120),
      stats.bins[i] ? undefined : `no finite values${when}`),
    ...Object.entries(run ? CURVES : {}).map(([title, values]) =>
      part(title, curve(title, values(i), 640, 90))));
  byId('detail-name').focus();
}
const search = (text) => location.replace(`#?q=${encodeURIComponent(text)}`);
/** Shows the address: #<stem> opens a tensor, #?q=TEXT searches. */
function followAddress() {
  const text = location.hash.slice(1), was = state.open;
  const query = text.startsWith('?') ? new URLSearchParams(text).get('q') ?? '' : null;
  const find = (is) => (query === null ? tensors.find((i) => is(stemOf(i))) ?? null : null);
  const stem = new URLSearchParams(`q=${text.replace(/[&+]/g, encodeURIComponent)}`).get('q');
  const isRaw = (s) => new URL(`#${s}`, location).hash.slice(1) === text; // as a browser writes it
  state.open = find((s) => s === stem) ?? find(isRaw);
  byId('detail').hidden = state.open === null;
  if (state.rows.includes(state.open)) state.focus = state.rows.indexOf(state.open);
  if (state.open !== null) showDetail(state.open);
  if (query === null || query === state.query) return showRows(was !== null && state.open === null);
  byId('search').value = state.query = query;
  return update();
}
function pressKey(event) {
  const { key, target } = event, field = byId('search'), inRows = byId('rows').contains(target);
  const move = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -1e9, End: 1e9 }[key];
  if (key === '/' && target !== field) field.select();
  else if (key === 'Escape' && state.open !== null) search(state.query);
  else if (target === field && ['ArrowDown', 'Enter'].includes(key)) moveTo(0);
  else if (inRows && move) moveTo(state.focus + move);
  else if (inRows && key === 'Enter') location.hash = linkOf(state.rows[state.focus]);
  else return;
  event.preventDefault();
}
const columns = tableColumns(), made = new Map(); // rows of the document, by tensor
for (const show of [showHead, showDtypes, showRanks, sortBy, zoom, followAddress]) show();
addEventListener('hashchange', followAddress);
addEventListener('keydown', pressKey);
byId('search').addEventListener('input', ({ target }) => search(target.value));
byId('filter').addEventListener('change', update);
byId('colour').addEventListener('change', drawTreemap);
byId('scroller').addEventListener('scroll', () => state.rows.length > ALL_ROWS && showRows());
new ResizeObserver(drawTreemap).observe(byId('treemap'));
addEventListener('pointermove', ({ target }) => { // what a part of a picture is, without delay
  const caption = target.closest('figure')?.querySelector('figcaption');
  const title = target.querySelector('title') ?? target.parentNode.querySelector('title');
  if (caption && title) caption.textContent = title.textContent;
});
