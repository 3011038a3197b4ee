// Pages on which something is dragged, or text is marked.
({all, one, text, query, bold, shown, spot, press, submit, drag, clickAt}) => {
  const box = () => {
    const [small, large] = ['#draggableSmall', '#draggableLarge'].map(e => one(e).getBoundingClientRect());
    const within = Math.abs(large.left + 15 - small.left) < 12 && Math.abs(large.top + 15 - small.top) < 12;
    const [x, y] = spot(one('#draggableSmall'));
    return within ? submit() : drag([x, y], [x + large.left + 15 - small.left, y + large.top + 15 - small.top]);
  };
  // Past the middle of the place where it shall be: a sortable list gives way when half of an item is covered.
  const into = (items, from, to) => {
    const start = spot(items[from]), end = spot(items[to]);
    return drag(start, end.map((v, i) => v + 5 * Math.sign(v - start[i])));
  };
  const place = (from, count, columns) => {
    const wanted = /Drag \S+ (.*)\.$/.exec(query())[1], last = count - 1;
    const nth = /(\d)(st|nd|rd|th) position/.exec(wanted), by = {up: -columns, down: columns, left: -1, right: 1};
    const step = /^(up|down|left|right) by one/.exec(wanted);
    if (nth) return Number(nth[1]) - 1;
    if (step) return from + by[step[1]];
    if (columns === 1) return /top/.test(wanted) ? 0 : last;
    const row = /top/.test(wanted) ? 0 : /bottom/.test(wanted) ? 2 : 1, column = /left/.test(wanted) ? 0 : /right/.test(wanted) ? 2 : 1;
    return row * columns + column;
  };
  const item = columns => {
    const items = all('#sortable li'), from = items.findIndex(e => text(e) === /Drag (\S+)/.exec(query())[1]);
    const to = place(from, items.length, columns);
    if (columns === 1) return into(items, from, to);
    // Along the row first, then along the column: the items on the way give way one by one.
    const start = spot(items[from]), end = spot(items[to]).map((v, i) => v + 5 * Math.sign(v - start[i]));
    const way = at => [0.1, 0.3, 0.5, 0.7, 0.9, 1, 1].map(t => Math.round(start[at] + t * (end[at] - start[at])));
    return [{type: 'drag', path: [start, ...way(0).map(x => [x, start[1]]), ...way(1).map(y => [end[0], y])]}];
  };
  const sort = () => {
    const items = all('#sortable li'), numbers = items.map(e => Number(text(e)));
    const wrong = numbers.findIndex((n, i) => n > Math.min(...numbers.slice(i)));
    return wrong < 0 ? submit() : into(items, numbers.indexOf(Math.min(...numbers.slice(wrong)), wrong), wrong);
  };
  const shape = e => {
    const way = {left: [-1, 0], right: [1, 0], up: [0, -1], down: [0, 1]}[/Drag the \w+ (\w+)/.exec(query())[1]];
    const now = shapes.gridCoords(e), first = e.getBBox(), [x, y] = spot(e);
    const gone = (now.x - first.x) * way[0] + (now.y - first.y) * way[1] > 0;
    return gone ? submit() : drag([x, y], [x + 15 * way[0], y + 15 * way[1]]);
  };
  // A shape hangs on the pointer by this share of its width, and the page looks at its left upper corner alone.
  const HANGS = {rect: 0.5, circle: 0.6, polygon: 0.4};
  const sortShapes = boxOf => {
    const boxes = all('#shape-container').map(e => e.getBBox()), svg = one('#area_svg').getBoundingClientRect();
    const inBox = (e, box) => (({x, y}) => x > box.x && x < box.x + box.width && y > box.y && y < box.y + box.height)(shapes.gridCoords(e));
    const move = (e, box) => drag(spot(e), [svg.left + box.x, svg.top + box.y].map(at => at + 12 + HANGS[e.tagName] * e.getBBox().width));
    const away = all('#area_svg > :not(#shape-container)').map(e => [e, boxes[boxOf(e)]]).filter(([e, box]) => box && !inBox(e, box));
    return [...away.flatMap(([e, box]) => move(e, box)), ...submit()];
  };
  const TAGS = {rectangles: 'rect', circles: 'circle', triangles: 'polygon'};
  const asked = e => {
    const what = /Drag all (\w+)/.exec(query())[1];
    return what in TAGS ? e.tagName === TAGS[what] : e.getAttribute('fill') === what;
  };
  const resize = () => {
    const [side, way] = bold(), {originalSize} = $('#tt').resizable('instance');
    const now = $('#tt')[side](), done = originalSize && (way === 'larger' ? now > originalSize[side] : now < originalSize[side]);
    if (done) return submit();
    const [x, y] = spot(one('.ui-resizable-se')), by = way === 'larger' ? 15 : -15;
    return [...drag([x, y], side === 'width' ? [x + by, y] : [x, y + by]), ...submit()];
  };
  const draw = points => one('path') ? press(one('#controls button'))
    : [{type: 'drag', path: points.map(point => point.map(Math.round))}, ...press(one('#controls button'))];
  const dot = () => {
    const svg = one('svg').getBoundingClientRect(), {left, top, width, height} = one('#circ').getBoundingClientRect();
    return {svg, x: left + width / 2, y: top + height / 2};
  };
  const ring = () => {
    const {svg, x, y} = dot(), r = Math.min(x - svg.left, svg.right - x, y - svg.top, svg.bottom - y) - 4;
    return draw(Array.from({length: 37}, (_, i) => [x + r * Math.cos(i * Math.PI / 18), y + r * Math.sin(i * Math.PI / 18)]));
  };
  const line = () => {
    const {svg, x, y} = dot(), flat = /horizontal/.test(query());
    const along = t => flat ? [svg.left + 4 + t * (svg.width - 8), y] : [x, svg.top + 4 + t * (svg.height - 8)];
    return draw(Array.from({length: 25}, (_, i) => along(i / 24)));
  };
  const plain = said => said.replace(/\s/g, '');
  const isMarked = range => plain(String(getSelection())) === plain(String(range));
  const mark = range => {
    if (scrollX) return [{type: 'scroll', x: innerWidth >> 1, y: innerHeight >> 1, dx: -scrollX}];  // by the last drag
    const lines = [...range.getClientRects()], first = lines[0], last = lines.at(-1);
    return drag([first.left + 1, first.top + first.height / 2].map(Math.floor), [last.right + 2, last.top + last.height / 2].map(Math.floor));
  };
  const rangeOf = (e, from = 0, to = e.childNodes.length) => {
    const range = document.createRange();
    range.setStart(e, from);
    range.setEnd(e, to);
    return range;
  };
  const paragraph = e => isMarked(rangeOf(e)) ? submit() : mark(rangeOf(e));
  const STYLES = {bold: 'bold', italics: 'italic', underlined: 'underline'};
  const style = () => {
    const [word, look] = bold().map(said => said.trim()), everything = word === 'everything';
    const key = STYLES[look] || 'color', value = STYLES[look] ? true : COLOR_MAP[look][0];
    const parts = editor.getContents().ops, styled = parts.filter(part => part.attributes?.[key] === value).map(part => part.insert.trim());
    if (everything ? parts[0].attributes?.[key] === value : styled.includes(word)) return submit();
    const line = one('.ql-editor p'), words = line.textContent.split(' ');
    const at = words.slice(0, words.indexOf(word)).join(' ').length + Math.sign(words.indexOf(word));
    const range = everything ? rangeOf(line) : rangeOf(line.firstChild, at, at + word.length);
    const item = one(`.ql-picker-item[data-value="${value}"]`);
    if (item && shown(item)) return press(item);
    if (!isMarked(range)) return mark(range);
    // The page sees it a moment later, with a space beside the word where the drag took one, too.
    if (!(editor.selection.savedRange?.length >= String(range).length)) return [{type: 'wait', ms: 200}];
    return press(one(key === 'color' ? '.ql-picker-label' : '.ql-' + key));
  };
  const dots = () => [one('#init-black'), one('#init-blue')].map(e => spot(e));
  const bare = (x, y) => one('#svg-grid').contains(document.elementFromPoint(x, y));  // the button lies over its edge
  const rightAngle = () => {
    if (one('#blue-circle')) return submit();
    const [[ax, ay], [bx, by]] = dots(), far = Math.hypot(ax - bx, ay - by), svg = one('#svg-grid').getBoundingClientRect();
    const points = [25, -25, 15, -15].map(d => [bx - d * (ay - by) / far, by + d * (ax - bx) / far].map(Math.round));
    return clickAt(points.find(([x, y]) => x > svg.left + 2 && x < svg.right - 2 && y > svg.top + 2 && y < svg.bottom - 2 && bare(x, y)));
  };
  // The pixel that the page itself finds best. A point at the vertex or outside of the angle is none.
  const bisector = () => {
    if (one('#blue-circle')) return submit();
    const svg = one('#svg-grid').getBoundingClientRect(), vertex = one('.init-blue').getBBox();
    const [a, b] = all('.init-black').map(e => e.getBBox()), whole = findAngle(a, b, vertex);
    const off = (x, y) => {
      const c = {x: x - 3.5, y: y - 53.5};  // where the page draws the click
      return Math.hypot(c.x - vertex.x, c.y - vertex.y) < 20 ? 360 : Math.max(findAngle(a, c, vertex), findAngle(b, c, vertex)) - whole / 2;
    };
    let best = [0, 0], least = 360;
    for (let y = Math.ceil(svg.top) + 2; y < svg.bottom - 2; y++)
      for (let x = Math.ceil(svg.left) + 2; x < svg.right - 2; x++) if (off(x, y) < least && bare(x, y)) [best, least] = [[x, y], off(x, y)];
    return [...clickAt(best), ...submit()];
  };
  return {
    'drag-box': box,
    'drag-items': () => item(1),
    'drag-items-grid': () => item(3),
    'drag-sort-numbers': sort,
    'drag-circle': () => shape(one('circle')),
    'drag-single-shape': () => shape(one('.black-shape')),
    'drag-shapes': () => sortShapes(e => asked(e) ? 0 : -1),
    'drag-shapes-2': () => sortShapes(e => asked(e) ? 0 : 1),
    'draw-circle': ring,
    'draw-line': line,
    'resize-textarea': resize,
    'highlight-text': () => paragraph(one('#randomText')),
    'highlight-text-2': () => paragraph(all('#randomText p')[Number(/(\d)(st|nd|rd)/.exec(query())[1]) - 1]),
    'text-editor': style,
    'right-angle': rightAngle,
    'bisect-angle': bisector,
  };
}
