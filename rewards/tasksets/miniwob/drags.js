// Pages on which something is dragged, or text is marked.
({all, one, text, query, spot, submit, drag, clickAt}) => {
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
    return into(items, from, place(from, items.length, columns));
  };
  const sort = () => {
    const items = all('#sortable li'), numbers = items.map(e => Number(text(e)));
    const wrong = numbers.findIndex((n, i) => n > Math.min(...numbers.slice(i)));
    return wrong < 0 ? submit() : into(items, numbers.indexOf(Math.min(...numbers.slice(wrong)), wrong), wrong);
  };
  const circle = () => {
    const way = {left: [-1, 0], right: [1, 0], up: [0, -1], down: [0, 1]}[/circle (\w+)/.exec(query())[1]];
    const e = one('circle'), now = shapes.gridCoords(e), first = e.getBBox(), [x, y] = spot(e);
    const gone = (now.x - first.x) * way[0] + (now.y - first.y) * way[1] > 0;
    return gone ? submit() : drag([x, y], [x + 15 * way[0], y + 15 * way[1]]);
  };
  const mark = paragraph => {
    const range = document.createRange(), plain = said => said.replace(/\s/g, '');
    if (plain(String(getSelection())) === plain(paragraph.textContent)) return submit();
    range.selectNodeContents(paragraph);
    const lines = [...range.getClientRects()], first = lines[0], last = lines.at(-1);
    return drag([first.left + 1, first.top + first.height / 2].map(Math.floor), [last.right + 2, last.top + last.height / 2].map(Math.floor));
  };
  const dots = () => [one('#init-black'), one('#init-blue')].map(e => spot(e));
  const rightAngle = () => {
    if (one('#blue-circle')) return submit();
    const [[ax, ay], [bx, by]] = dots(), far = Math.hypot(ax - bx, ay - by), svg = one('#svg-grid').getBoundingClientRect();
    const points = [25, -25, 15, -15].map(d => [bx - d * (ay - by) / far, by + d * (ax - bx) / far].map(Math.round));
    return clickAt(points.find(([x, y]) => x > svg.left + 2 && x < svg.right - 2 && y > svg.top + 2 && y < svg.bottom - 2));
  };
  return {
    'drag-box': box,
    'drag-items': () => item(1),
    'drag-items-grid': () => item(3),
    'drag-sort-numbers': sort,
    'drag-circle': circle,
    'highlight-text': () => mark(one('#randomText')),
    'highlight-text-2': () => mark(all('#randomText p')[Number(/(\d)(st|nd|rd)/.exec(query())[1]) - 1]),
    'right-angle': rightAngle,
  };
}
