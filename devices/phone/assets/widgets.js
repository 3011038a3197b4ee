// The parts that screens are made of. Each takes one object; `tap` and `hold` are what a finger does to it.

const iconButton = ({icon: name, label, id, tap, solid, disabled, small}) =>
  h(small ? 'button.icon-button.small' : 'button.icon-button', {id, label, onclick: tap, 'aria-disabled': disabled && 'true'}, icon(name, solid));

const button = ({text, id, tap, kind = '', disabled}) =>
  h(`button.button${kind && '.' + kind}`, {id, onclick: tap, 'aria-disabled': disabled && 'true'}, text);

const item = ({id, title, under, lead, end, tap, hold, selected, strong, done, wrap, disabled}) =>
  h(`div.item${under ? '.tall' : ''}${strong ? '.strong' : ''}`,
    {id, role: 'listitem', onclick: tap, onhold: hold, 'aria-selected': selected && 'true', 'aria-disabled': disabled && 'true'},
    typeof lead === 'string' ? icon(lead) : lead,
    h('div.words', {},
      h(`div.name${done ? '.done' : ''}${wrap ? '.wrap' : ''}`, {id: 'title'}, title),
      under && h(`div.under${wrap ? '.wrap' : ''}`, {id: 'summary'}, under)),
    end && h('div.end', {}, end));

const header = text => h('div.header', {}, text);
const card = (...children) => h('div.card', {}, children);
const note = text => h('div.note', {}, text);
const empty = (name, text) => h('div.empty', {}, icon(name), h('div', {id: 'empty'}, text));

const HUES = ['#1967d2', '#188038', '#c5221f', '#9334e6', '#e37400', '#007b83', '#a50e6c', '#5f6368'];
const hueOf = text => HUES[[...text].reduce((sum, letter) => sum + letter.codePointAt(0), 0) % HUES.length];
const avatar = (text, big = false) => {
  const name = text.trim();
  const shown = /^\p{L}/u.test(name) ? [...name][0].toUpperCase() : null;
  return h(`div.avatar${big ? '.big' : ''}`, {style: {background: hueOf(name)}, ariaHidden: 'true'}, shown ?? icon('person'));
};

const toggle = (on, tap, id = 'switch') => h('div.switch', {id, role: 'switch', 'aria-checked': String(Boolean(on)), onclick: tap});
const checkbox = (on, tap, label) => h('div.box', {id: 'checkbox', role: 'checkbox', label, 'aria-checked': String(Boolean(on)), onclick: tap}, icon('check'));
const radio = on => h('div.radio', {id: 'radio', role: 'radio', 'aria-checked': String(Boolean(on))});

const switchRow = ({id, title, under, lead, on, change, disabled}) => {
  const tap = () => change(!on);
  return item({id, title, under, lead, disabled, tap, end: toggle(on, tap)});
};

// A text field bound to `state[key]`; `enter` is what the keyboard's action key does, else it goes to the next.
const field = ({state, key, hint, id = key, kind = 'text', lines = 0, enter, change, plain}) => {
  const input = h(lines ? 'textarea' : 'input', {
    id, value: state[key] ?? '', placeholder: plain ? hint : undefined, label: plain ? undefined : hint,
    rows: lines || undefined, spellcheck: false, autocomplete: 'off', onenter: enter,
    type: lines ? undefined : kind === 'password' ? 'password' : 'text',
    oninput: () => { state[key] = input.value; change?.(input.value); },
  });
  input.dataset.kind = kind;
  if (plain) input.classList.add('plain');
  return plain ? input : h('label.field', {}, h('div.hint', {}, hint), input);
};

const slider = ({id, label, value, min, max, change}) => {
  const filled = h('div.filled'), knob = h('div.knob');
  let now = value;
  const place = () => {
    const part = (now - min) / (max - min) * 100;
    filled.style.width = `${part}%`;
    knob.style.left = `calc(${part}% - ${part / 25}px)`;
  };
  const bar = h('div.slider', {
    id, label, role: 'slider', 'aria-valuenow': String(value),
    onslide: x => {
      const box = bar.getBoundingClientRect();
      now = Math.round(min + Math.min(Math.max((x - box.left) / box.width, 0), 1) * (max - min));
      place();
    },
    onslid: () => change(now),
  }, h('div.track'), filled, knob);
  place();
  return bar;
};

const chips = (options, chosen, tap) => h('div.chips', {role: 'group'}, options.map(({label, value, id}) =>
  h('button.chip', {id: id ?? 'chip', 'aria-selected': String(value === chosen), onclick: () => tap(value)}, label)));

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];

// A month's days as buttons; `dots` are the days (ms at midnight) with something on them.
const monthGrid = ({month, chosen, dots = new Set(), tap}) => {
  const first = new Date(month).getUTCDay();
  const date = new Date(month);
  const count = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  const days = Array.from({length: count}, (_, index) => month + index * DAY);
  return h('div.grid.month', {id: 'month'},
    DAYS.map(day => h('div.weekday', {ariaHidden: 'true'}, day[0])),
    Array.from({length: first}, () => h('div')),
    days.map(day => h(`button.day${day === startOfDay(now()) ? '.today' : ''}`, {
      id: 'day', label: format(day, {dateStyle: 'full'}) + (dots.has(day) ? ', has events' : ''),
      'aria-selected': String(day === chosen), onclick: () => tap(day),
    }, String(new Date(day).getUTCDate()), dots.has(day) && h('i.dot'))));
};

const startOfMonth = ms => { const date = new Date(ms); return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1); };
const addMonths = (ms, count) => { const date = new Date(ms); return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + count, 1); };
const monthBar = (month, turn) => h('div.month-bar', {},
  h('div.name', {id: 'month_name'}, format(month, {month: 'long', year: 'numeric'})),
  iconButton({icon: 'chevronLeft', label: 'Previous month', id: 'previous', tap: () => turn(addMonths(month, -1))}),
  iconButton({icon: 'chevron', label: 'Next month', id: 'next', tap: () => turn(addMonths(month, 1))}));
