// What can be clicked on a MiniWoB++ page, and what should be, as centres of elements. Reads the page; never acts.
(page => {
  const all = selector => [...document.querySelectorAll(selector)];
  const query = () => core.getUtterance();
  const texts = (selector, test) => all(selector).filter(e => test(e.textContent.trim()));
  const shown = e => { const b = e.getBoundingClientRect(); return b.width > 0 && b.height > 0; };
  const at = (e, fx, fy) => {
    const b = e.getBoundingClientRect();
    return [Math.floor(b.left + b.width * fx), Math.floor(b.top + b.height * fy)];
  };
  const centre = e => at(e, 0.5, 0.5);
  const hits = (e, [x, y]) => { const top = document.elementFromPoint(x, y); return e === top || e.contains(top); };
  const SPOTS = [0.5, 0.15, 0.85].flatMap(fx => [0.5, 0.15, 0.85].map(fy => [fx, fy]));
  // Of an element that another one covers but for an edge: the middle one of the pixels that are left.
  const edge = e => {
    const {left, top, right, bottom} = e.getBoundingClientRect(), seen = [];
    for (let y = Math.ceil(top); y < bottom; y++)
      for (let x = Math.ceil(left); x < right; x++) if (hits(e, [x, y])) seen.push([x, y]);
    return seen[seen.length >> 1];
  };
  const touch = e => SPOTS.map(([fx, fy]) => at(e, fx, fy)).find(p => hits(e, p)) || edge(e) || centre(e);
  const quoted = () => /"(.*)"/.exec(query())[1];
  const nth = selector => [all(selector)[parseInt(/(\d)(st|nd|rd)/.exec(query())[1]) - 1]];
  const fields = '#area input, #area textarea, #area button';
  const SHAPE_OF_TAG = {rect: 'rectangle', circle: 'circle', polygon: 'triangle'};
  const figure = () => {
    const mark = document.querySelector('#area_svg').lastElementChild;
    if (mark.tagName !== 'text') return SHAPE_OF_TAG[mark.tagName];
    return /\d/.test(mark.textContent) ? 'digit' : 'letter';
  };
  // The outline's corners are all that is dark this far from the centre of the canvas, which the page turns.
  const sides = () => {
    const {data, width} = document.querySelector('#c').getContext('2d').getImageData(0, 0, 150, 100);
    const dark = turn => {
      const [x, y] = [75 + 34.5 * Math.cos(turn), 50 + 34.5 * Math.sin(turn)].map(Math.floor);
      return data[4 * (y * width + x) + 3] > 127;
    };
    const ring = Array.from({length: 360}, (_, degree) => dark(degree * Math.PI / 180));
    const before = i => Array.from({length: 8}, (_, back) => ring.at(i - 1 - back));  // specks are no corner
    return String(ring.filter((here, i) => here && !before(i).includes(true)).length);
  };
  const midpoint = () => {
    const [a, b] = all('.black-circle').map(centre);
    return [Math.round((a[0] + b[0]) / 2), Math.round((a[1] + b[1]) / 2)];
  };
  const thenSubmit = (first, target) => document.querySelector(first) ? all('#subbtn') : target();
  const pages = {
    'click-test': () => ['#area button', all('#subbtn')],
    'click-test-2': () => ['#area button', all('#subbtn')],
    'click-test-transfer': () => ['#area button', texts('#area button', t => query().includes(t))],
    'click-button-sequence': () => ['#area button', buttonsPushed.length ? all('#subbtn2') : all('#subbtn')],
    'click-dialog': () => ['.ui-dialog button', all('.ui-dialog button')],
    'click-dialog-2': () => ['.ui-dialog button', quoted() === 'x' ? all('.ui-dialog-titlebar button')
      : texts('.ui-dialog-buttonpane button', t => t === quoted())],
    'count-sides': () => ['#form button', all('#form button').filter(e => e.dataset.sides === sides())],
    'click-button': () => [fields, texts('#area button', t => t === quoted())],
    'click-color': () => ['#area .color',
      all('#area .color').filter(e => query() === `Click on the ${e.dataset.color} colored box.`)],
    'click-collapsible': () => ['#area h3, #subbtn', all('.ui-accordion-content').some(shown) ? all('#subbtn') : all('#area h3')],
    'click-tab': () => ['#area ul a', texts('#area ul a', t => query().includes(t))],
    'click-widget': () => [fields, all(fields).filter(e => e.dataset.type === quoted())],
    'focus-text': () => [fields, all('#area input')],
    'focus-text-2': () => [fields, nth('#area input')],
    'identify-shape': () => ['#area-buttons button', all('#area-buttons button').filter(e => e.dataset.type === figure())],
    'grid-coordinate': () => ['circle.plot-point', all('circle.plot-point').filter(e => query().includes(e.id))],
    'circle-center': () => ['.black-circle, #subbtn', thenSubmit('#blue-circle', () => all('.black-circle'))],
    'find-midpoint': () => ['.black-circle, #subbtn', thenSubmit('#blue-circle', () => [midpoint()])],
  };
  const ORDINALS = ['1st', '2nd', '3rd', '4th', '5th'];
  const label = e => e.dataset.color || e.dataset.type || e.dataset.sides || (e.tagName === 'circle' ? e.id || 'circle'
    : e.tagName === 'H3' ? 'section' : e.matches('.ui-dialog-titlebar button') ? 'x'
    : e.tagName === 'INPUT' ? ORDINALS[all('#area input').indexOf(e)] + ' input' : e.textContent.trim());
  if (WOB_DONE_GLOBAL || !(page in pages)) return {candidates: [], labels: [], goal: []};
  const [selector, goal] = pages[page]();
  const point = e => Array.isArray(e) ? e : touch(e);
  const inside = ([x, y]) => x >= 0 && y >= 50 && x < innerWidth && y < innerHeight;
  const elements = all(selector).filter(e => shown(e) && inside(touch(e)));
  return {candidates: elements.map(touch), labels: elements.map(label), goal: goal.filter(e => Array.isArray(e) || shown(e)).map(point).filter(inside)};
})
