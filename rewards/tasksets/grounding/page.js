// Draws an application's page from SEED: a toolbar, a side bar, and a table, cards or a form. What can be asked for
// has data-kind (text or icon) and data-say (the instruction). Nothing on it does anything.
(() => {
  let state = SEED >>> 0;
  const next = () => {  // a 32-bit counter, scrambled: the same seed draws the same page everywhere
    state = (state + 0x9e3779b9) >>> 0;
    let x = state;
    x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return ((x ^ (x >>> 15)) >>> 0) / 2 ** 32;
  };
  const below = n => Math.floor(next() * n);
  const pick = list => list[below(list.length)];
  const some = (list, n) => {
    const left = [...list], found = [];
    while (left.length && found.length < n) found.push(...left.splice(below(left.length), 1));
    return found;
  };
  const GLYPHS = {
    search: 'M16 10a6 6 0 1 1-12 0a6 6 0 1 1 12 0M14.5 14.5L21 21', add: 'M12 4v16M4 12h16',
    trash: 'M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v6M14 11v6', pencil: 'M4 20l1-5L16 4l4 4L9 19z',
    sliders: 'M3 7h9M18 7h3M3 17h3M12 17h9M18 7a3 3 0 1 1-6 0a3 3 0 1 1 6 0M12 17a3 3 0 1 1-6 0a3 3 0 1 1 6 0',
    home: 'M3 12l9-8 9 8M6 10v10h12V10', bell: 'M5 17h14l-2-3v-4a5 5 0 0 0-10 0v4zM10 20h4',
    person: 'M16 8a4 4 0 1 1-8 0a4 4 0 1 1 8 0M4 21c0-8 16-8 16 0', heart: 'M12 20C1 12 4 3 12 8c8-5 11 4 0 12z',
    star: 'M12 3l3 6 6 1-4.5 4.5 1 6.5-5.5-3-5.5 3 1-6.5L3 10l6-1z', down: 'M12 3v12M6 10l6 6 6-6M4 21h16',
    up: 'M12 16V4M6 9l6-6 6 6M4 21h16', letter: 'M3 6h18v13H3zM3 7l9 7 9-7', lock: 'M5 11h14v9H5zM8 11V7a4 4 0 0 1 8 0v4',
    month: 'M4 6h16v14H4zM4 10h16M8 3v5M16 3v5', printer: 'M7 9V3h10v6M4 9h16v8H4zM8 14h8v7H8z',
    turn: 'M19 12a7 7 0 1 1-2-5M19 3v5h-5', back: 'M9 6L4 11l5 5M4 11h10a4 4 0 0 1 0 9h-3', funnel: 'M3 5h18l-7 8v7l-4-2v-5z',
    lines: 'M4 6h16M4 12h16M4 18h16', cross: 'M5 5l14 14M19 5L5 19', clock: 'M20 12a8 8 0 1 1-16 0a8 8 0 1 1 16 0M12 7v5l4 2',
    triangle: 'M7 4l13 8-13 8z', basket: 'M3 4h3l2 11h10l3-8H7M10 19a1 1 0 1 1-2 0a1 1 0 1 1 2 0M18 19a1 1 0 1 1-2 0a1 1 0 1 1 2 0',
  };
  const USES = {
    search: 'find something', add: 'make a new entry', sliders: 'change the settings', home: 'go to the start page',
    bell: 'see the notifications', person: 'see your account', down: 'download everything', up: 'upload a file',
    letter: 'write a message', lock: 'lock the screen', month: 'choose a date', printer: 'print this page',
    turn: 'load everything again', back: 'undo the last change', funnel: 'filter what is shown', clock: 'see what was done when',
    lines: 'open the menu', triangle: 'play the recording', basket: 'look into the shopping basket',
  };
  const SECTIONS = ['Overview', 'Inbox', 'Drafts', 'Archive', 'Projects', 'Customers', 'Suppliers', 'Invoices', 'Payments',
    'Reports', 'Calendar', 'Team', 'Warehouse', 'Shipments', 'Returns', 'Discounts', 'Audit log', 'Backups', 'Help'];
  const THINGS = ['Copper kettle', 'Oak shelf', 'Desk lamp', 'Wool blanket', 'Garden chair', 'Rain barrel', 'Bread knife',
    'Tea tray', 'Wall clock', 'Linen curtain', 'Stone mortar', 'Steel ladder', 'Paper lantern', 'Cork board', 'Glass jug'];
  const PLACES = ['Lisbon', 'Oslo', 'Kyoto', 'Lima', 'Accra', 'Tallinn', 'Quito', 'Hanoi', 'Porto', 'Graz', 'Cork', 'Turin'];
  const FIELDS = ['First name', 'Last name', 'Company', 'Street', 'Postcode', 'City', 'Telephone', 'E-mail', 'Tax number', 'Reference'];
  const TICKS = ['Send a copy', 'Pay later', 'Gift wrapping', 'Call before delivery', 'Keep me signed in', 'Weekly summary'];
  const BUTTONS = ['Save draft', 'Export as CSV', 'Send', 'Discard', 'Preview', 'Duplicate', 'Next step', 'Approve all'];
  const [ink, paper, accent, line] = pick([['#222', '#fff', '#1558b0', '#ccd'], ['#e8e8e8', '#1c1f26', '#3b82c4', '#3a3f4a'],
    ['#2b2118', '#fbf6ee', '#a2471b', '#dccfbd'], ['#10302a', '#f2faf7', '#0b7a5e', '#c3ddd4'], ['#301a3c', '#faf5fd', '#7b2fa8', '#dac8e4']]);
  const unit = Math.round(13 * pick([1, 1.25, 1.5, innerWidth > 3000 ? 2 : 1]));
  const make = (tag, style, ...inside) => {
    const made = document.createElement(tag);
    made.style.cssText = style;
    made.append(...inside);
    return made;
  };
  const asked = (element, kind, say) => Object.assign(element.dataset, {kind, say}) && element;
  const glyph = (name, size = 1.4) => {
    const drawn = make('span', `display:inline-block;width:${size}em;height:${size}em;vertical-align:middle`);
    drawn.innerHTML = `<svg viewBox="0 0 24 24" width="100%" height="100%" fill="none" stroke="currentColor"
      stroke-width="2" style="display:block"><path d="${GLYPHS[name]}"/></svg>`;
    return drawn;
  };
  const icon = (name, say) => asked(make('span', 'display:inline-block;padding:.35em;cursor:pointer', glyph(name)), 'icon', say);
  const text = (said, say, style = '') => asked(make('span', `display:inline-block;cursor:pointer;${style}`, said), 'text', say);
  const button = (said, say = `press "${said}"`) =>
    text(said, say, `background:${accent};color:${paper};padding:.45em .9em;border-radius:.3em;margin:.3em`);
  const table = rows => make('div', 'flex:1;padding:1em;overflow:hidden', ...Array.from({length: rows}, (_, n) => {
    const number = `${pick(['INV', 'ORD', 'REQ'])}-${1000 + below(9000)}`, place = pick(PLACES);
    return make('div', `display:flex;align-items:center;gap:1em;border-bottom:1px solid ${line};height:2.4em`,
      make('span', 'width:7em;flex:none', text(number, `open ${number}`, `color:${accent};text-decoration:underline`)),
      make('span', 'flex:1', `${pick(THINGS)} to ${place}`), make('span', 'width:6em', `${10 + below(900)}.00`),
      icon('pencil', `edit ${number}`), icon('trash', `delete ${number}`), icon('star', `mark ${number} as important`));
  }));
  const cards = (across, down) => make('div', `flex:1;display:grid;grid-template-columns:repeat(${across},1fr);gap:1em;padding:1em;
    align-content:start;overflow:hidden`, ...some(THINGS, across * down).map(thing =>
    make('div', `border:1px solid ${line};border-radius:.5em;padding:1em`,
      make('div', `height:5em;background:linear-gradient(${below(360)}deg,${line},${accent});margin-bottom:.6em`),
      text(thing, `see the details of "${thing}"`, 'font-weight:bold'), make('div', 'margin:.3em 0', `${5 + below(200)}.90`),
      make('div', 'display:flex;align-items:center', button('Add', `put "${thing}" into the basket`),
        icon('heart', `keep "${thing}" as a favourite`), icon('search', `see a larger picture of "${thing}"`)))));
  const form = () => make('div', 'flex:1;padding:1.5em;overflow:hidden', ...some(FIELDS, 7).map(label =>
    make('div', 'display:flex;align-items:center;margin-bottom:.8em', make('span', 'width:9em', label),
      asked(make('span', `display:inline-block;width:18em;height:2em;border:1px solid ${ink}`), 'text', `enter the ${label.toLowerCase()}`))),
    ...some(TICKS, 4).map(label => {
      const square = make('span', `display:inline-block;width:1.1em;height:1.1em;border:2px solid ${ink};margin-right:.7em`);
      return make('div', 'margin-bottom:.7em;display:flex;align-items:center', asked(square, 'icon', `tick the box "${label}"`), label);
    }));
  const bar = make('div', `display:flex;align-items:center;gap:.5em;padding:.3em 1em;border-bottom:2px solid ${line};flex:none`,
    make('b', 'margin-right:1.5em', pick(['Ledger', 'Harbour', 'Orchard', 'Atlas'])),
    ...some(Object.keys(USES), 7).map(name => icon(name, USES[name])));
  const side = make('div', `width:12em;flex:none;border-right:1px solid ${line};padding:1em 0`, ...some(SECTIONS, 9).map(name =>
    make('div', 'padding:.5em 1.2em', text(name, `open the section ${name}`))));
  const high = innerHeight / unit, main = pick([() => table(Math.floor(high / 2.4) - 6),
    () => cards(Math.max(2, Math.floor(innerWidth / unit / 22)), Math.max(1, Math.floor(high / 15))), form])();
  const foot = make('div', `display:flex;padding:.4em 1em;border-top:1px solid ${line};flex:none;justify-content:${pick(['flex-start', 'flex-end'])}`,
    ...some(BUTTONS, 4).map(said => button(said)));
  document.body.style.cssText = `margin:0;height:100vh;display:flex;flex-direction:column;overflow:hidden;background:${paper};
    color:${ink};font:${unit}px sans-serif`;
  document.body.replaceChildren(bar, make('div', 'display:flex;flex:1;min-height:0', ...(next() < 0.5 ? [side, main] : [main, side])), foot);
})()
