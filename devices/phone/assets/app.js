// An app's screens: a stack of activities, each drawn anew from the phone's state whenever that changes.

const activities = new Map();

// `draw(s)` returns, or promises, what the screen shows:
//   {title, body, actions, menu, tabs, bottom, fab, search, selecting, up, back, padded}
// `s.parameters` is JSON that came with the start; `s.state` is the screen's own and lasts while it is open.
const activity = (name, draw) => activities.set(name, draw);

const query = (uri, {columns, where, args, sort} = {}) => ask('query', uri, {columns, where, args, sort});
const insert = (uri, values) => ask('insert', uri, values);
const update = (uri, values, where, args) => ask('update', uri, values, {where, args});
const remove = (uri, where, args) => ask('remove', uri, {where, args});
const put = (namespace, key, value) => ask('put', namespace, key, String(value));
const start = (package_, name = null, data = null, extras = {}) => ask('start', package_, name, data, extras);
const view = (action, data) => ask('view', action, data);

let stack = [];
let drawing = 0;
let keyboardFor = null;
const root = h('div', {style: {height: '100%'}});

const entry = (name, parameters = {}) => ({name, parameters, state: {}, kept: null, open, close, redraw});

const report = () => ask('screens', stack.map(one => [one.name, one.parameters]));

const open = (name, parameters = {}) => {
  keep();
  stack.push(entry(name, parameters));
  return moved();
};

const close = () => {
  if (stack.length === 1) return ask('finish');
  stack.pop();
  return moved();
};

const moved = () => {
  while (overlays.length) closeOverlay();
  document.querySelector('.snackbar')?.remove();
  report();
  return redraw();
};

const redraw = async () => {
  const mine = ++drawing, top = stack.at(-1);
  const drawn = await activities.get(top.name)(top);
  if (mine !== drawing) return;  // something newer is on its way
  if (shown === top) keep();
  shown = top;
  Object.assign(top, {back: drawn.back, selecting: drawn.selecting});
  root.replaceChildren(layout(drawn, top));
  restore(top);
  reportKeyboard();
};
let shown = null;

const layout = (drawn, top) => {
  const up = drawn.up ?? stack.length > 1;
  return h(`div.screen${drawn.fab ? '.has-fab' : ''}${drawn.bottom ? '.with-bottom' : ''}`, {},
    drawn.title !== undefined && (top.state.searching && !drawn.selecting ? searchBar(top) : bar(drawn, up, top)),
    drawn.tabs && h('div.tabs', {role: 'tablist'}, drawn.tabs.map(tab => h('div.tab', {
      id: 'tab', role: 'tab', 'aria-selected': String(Boolean(tab.on)), onclick: tab.tap,
    }, tab.text))),
    h(`div.body${drawn.padded ? '.padded' : ''}`, {id: 'body'}, drawn.body),
    drawn.bottom && h('div.bottom', {}, drawn.bottom.map(spot => h('div.spot', {
      id: 'spot', role: 'tab', 'aria-selected': String(Boolean(spot.on)), onclick: spot.tap,
    }, icon(spot.icon), h('span', {}, spot.text)))),
    drawn.fab && h('button.fab', {id: 'fab', label: drawn.fab.label, onclick: drawn.fab.tap}, icon(drawn.fab.icon), drawn.fab.text));
};

const bar = (drawn, up, top) => h(`div.bar${up || drawn.selecting ? '.up' : ''}${drawn.selecting ? '.selecting' : ''}`, {},
  drawn.selecting ? iconButton({icon: 'close', label: 'Done', id: 'cancel', tap: phone.back})
    : up && iconButton({icon: 'back', label: 'Navigate up', id: 'up', tap: phone.back}),
  h('div.title', {id: 'action_bar_title'}, drawn.title),
  drawn.search && iconButton({icon: 'search', label: 'Search', id: 'search', tap: () => {
    Object.assign(top.state, {searching: true, query: ''});
    top.focus = 'search_text';
    redraw();
  }}),
  (drawn.actions || []).filter(Boolean).map(one => one.text
    ? button({text: one.text, id: one.id, tap: one.tap, disabled: one.disabled}) : iconButton(one)),
  drawn.menu && drawn.menu.length > 0 && iconButton({icon: 'more', label: 'More options', id: 'more', tap: () => showMenu(drawn.menu)}));

const searchBar = top => h('div.bar.up', {},
  iconButton({icon: 'back', label: 'Navigate up', id: 'up', tap: phone.back}),
  field({state: top.state, key: 'query', id: 'search_text', hint: 'Search', plain: true, kind: 'search', change: redraw, enter: hideKeyboard}),
  top.state.query !== '' && iconButton({icon: 'close', label: 'Clear', id: 'clear', tap: () => { top.state.query = ''; top.focus = 'search_text'; redraw(); }}));

// True for a row that the search asks for.
const found = (s, ...texts) => !s.state.searching || texts.some(text => String(text ?? '').toLowerCase().includes(s.state.query.trim().toLowerCase()));

const named = id => id && document.querySelector(`[data-id="${CSS.escape(id)}"]`);

const keep = () => {
  if (!shown) return;
  const active = document.activeElement;
  const within = root.contains(active) && active.matches('input, textarea');
  shown.kept = {
    scroll: root.querySelector('.body')?.scrollTop ?? 0,
    focus: within ? {id: active.dataset.id, from: active.selectionStart, to: active.selectionEnd} : null,
  };
};

const restore = top => {
  const body = root.querySelector('.body');
  if (top.kept && body) body.scrollTop = top.kept.scroll;
  const focus = top.kept?.focus;
  const field = named(top.focus ?? focus?.id);
  if (field && !overlays.length) {
    field.focus({preventScroll: true});
    if (focus?.id === field.dataset.id) field.setSelectionRange(focus.from, focus.to);
  }
  top.focus = undefined;
};

// -- the keyboard ---------------------------------------------------------------------------------------------

const focused = () => document.activeElement?.matches('input, textarea') ? document.activeElement : null;

const reportKeyboard = (again = false) => {
  const field = focused();
  const kind = field ? field.dataset.kind ?? 'text' : null;
  if (field === keyboardFor && !again) return;
  if (!field && !keyboardFor) return;
  const anew = !(field && keyboardFor && field.dataset.id === keyboardFor.dataset.id) || again;
  keyboardFor = field;
  if (anew) ask('keyboard', kind);
};

const hideKeyboard = () => { focused()?.blur(); };

document.addEventListener('focusin', () => reportKeyboard());
document.addEventListener('focusout', () => queueMicrotask(reportKeyboard));
document.addEventListener('tapped', () => reportKeyboard(true));
addEventListener('resize', () => focused()?.scrollIntoView({block: 'nearest'}));
document.addEventListener('keydown', event => {
  const field = event.target;
  if (event.key !== 'Enter' || !field.matches?.('input')) return;
  event.preventDefault();
  if (field.onenter) { field.onenter(); return; }
  const fields = [...document.querySelectorAll('input, textarea')];
  const next = fields[fields.indexOf(field) + 1];
  if (next) next.focus(); else hideKeyboard();
});

// -- what the phone calls ---------------------------------------------------------------------------------------

Object.assign(phone, {
  configure(given) {
    configuration = given;
    applyTheme();
    if (stack.length) redraw();
  },
  start(name, parameters, given) {
    configuration = given;
    applyTheme();
    open(name, parameters);
  },
  home(given) {
    configuration = given;
    applyTheme();
    stack = [entry(stack[0].name)];
    moved();
  },
  back() {
    if (closeOverlay()) return true;
    const top = stack.at(-1);
    if (top.state.searching && !top.selecting) {
      top.state.searching = false;
      redraw();
      return true;
    }
    if (top.back?.()) return true;
    if (stack.length === 1) return false;
    close();
    return true;
  },
  selected() {
    const field = focused();
    return field ? field.value.slice(field.selectionStart, field.selectionEnd) : String(getSelection());
  },
});

// What an app was refused is for its user to read, not the end of the app.
addEventListener('unhandledrejection', event => {
  if (event.reason instanceof Refusal) { event.preventDefault(); toast(event.reason.message); }
});

document.body.append(root);
queueMicrotask(async () => {  // once the app's own scripts, which follow this one, have named its activities
  const {configuration: given, screens} = await ask('ready');
  configuration = given;
  applyTheme();
  stack = screens.filter(([name]) => activities.has(name)).map(([name, parameters]) => entry(name, parameters));
  redraw();
});
