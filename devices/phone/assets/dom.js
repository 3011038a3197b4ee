// Elements made by calls, never from markup, and the bridge's near end.
'use strict';

// h('button.big', {id: 'save', label: 'Save', onclick: f}, 'Save'): a child is an element, a text, or nothing.
// `id` becomes the view's resource id, `label` its content description, `onhold` hears a long press.
const h = (tag, properties = {}, ...children) => {
  const [name, ...classes] = tag.split('.');
  const element = document.createElement(name || 'div');
  element.className = classes.join(' ');
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === 'id') element.dataset.id = value;
    else if (key === 'label') element.setAttribute('aria-label', value);
    else if (key === 'style') Object.assign(element.style, value);
    else if (key.startsWith('on') || key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== undefined && child !== null && child !== false));
  return element;
};

const calls = new Map();
let lastCall = 0;

class Refusal extends Error {}

// A call that this app may not make rejects with the reason.
const ask = (call, ...args) => new Promise((resolve, reject) => {
  calls.set(++lastCall, {resolve, reject});
  bridge(JSON.stringify({id: lastCall, call, arguments: args}));
});

const phone = {
  answered(id, reply) {
    const {resolve, reject} = calls.get(id);
    calls.delete(id);
    if ('error' in reply) reject(new Refusal(reply.error)); else resolve(reply.value);
  },
};

let configuration = {now: 0, flows: false, settings: {system: {}, secure: {}, global: {}}};
const setting = (namespace, key, otherwise = '') => configuration.settings[namespace][key] ?? otherwise;
const now = () => configuration.now;

const locale = () => setting('system', 'system_locales', 'en-US').split(',')[0];
const hour24 = () => setting('system', 'time_12_24', '12') === '24';
const formats = new Map();
const format = (ms, options) => {
  const key = locale() + JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat(locale(), {timeZone: 'UTC', ...options}));
  return formats.get(key).format(ms).replaceAll('\u202f', ' ');
};
const timeText = ms => format(ms, {hour: hour24() ? '2-digit' : 'numeric', minute: '2-digit', hourCycle: hour24() ? 'h23' : 'h12'});
const dateText = ms => format(ms, {weekday: 'short', month: 'short', day: 'numeric'});

const MINUTE = 60_000, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
const startOfDay = ms => ms - (ms % DAY + DAY) % DAY;

const applyTheme = () => {
  const root = document.documentElement;
  root.dataset.theme = setting('secure', 'ui_night_mode', '1') === '2' ? 'dark' : 'light';
  root.style.setProperty('--text', setting('system', 'font_scale', '1.0'));
};
