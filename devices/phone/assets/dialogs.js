// What lies over a screen: dialogs, menus, a snackbar. Each dialog is a promise of what was chosen.

const overlays = [];

const overlay = (panel, {clear = false, resolve}) => {
  const layer = h(clear ? 'div.overlay.clear' : 'div.overlay', {onclick: () => close()}, panel);
  panel.onclick ??= () => {};  // a press beside its buttons does not fall through to the layer
  const close = answer => {
    if (!layer.isConnected) return;
    overlays.splice(overlays.indexOf(close), 1);
    layer.remove();
    reportKeyboard();
    resolve(answer);
  };
  overlays.push(close);
  document.body.append(layer);
  return close;
};

const closeOverlay = () => {
  const close = overlays.at(-1);
  close?.();
  return Boolean(close);
};

// `buttons` are {text, id, value}; `value` may be a function, asked when its button is pressed.
const dialog = ({title, text, body, buttons = [], id = 'dialog'}) => new Promise(resolve => {
  const inside = h('div.inside', {}, body);
  const panel = h('div.dialog', {id},
    title && h('div.heading', {id: 'alertTitle'}, title), text && h('div.said', {id: 'message'}, text), inside,
    buttons.length > 0 && h('div.buttons', {}, buttons.map(one => button({
      text: one.text, id: one.id, tap: () => close(typeof one.value === 'function' ? one.value() : one.value),
    }))));
  const close = overlay(panel, {resolve});
  panel.choose = close;
});

const confirmed = async (title, text, ok = 'OK') => await dialog({
  title, text, buttons: [{text: 'Cancel', id: 'button2', value: false}, {text: ok, id: 'button1', value: true}],
}) ?? false;

// The text that was typed, or undefined.
const askText = (title, {value = '', hint = '', ok = 'OK', kind = 'text'} = {}) => {
  const state = {text: value};
  const typed = () => state.text.trim() || undefined;
  const box = field({state, key: 'text', id: 'edit', hint: hint || title, kind, enter: () => closeOverlayWith(typed())});
  const answer = dialog({title, body: box, buttons: [{text: 'Cancel', id: 'button2'}, {text: ok, id: 'button1', value: typed}]});
  box.querySelector('input').focus();
  return answer;
};

const closeOverlayWith = answer => overlays.at(-1)?.(answer);

// One of {label, value}, as radio buttons.
const choose = (title, options, current) => dialog({
  title, buttons: [{text: 'Cancel', id: 'button2'}],
  body: options.map(({label, value, under}) => item({
    id: 'option', title: label, under, lead: radio(value === current), tap: () => closeOverlayWith(value),
  })),
});

// Entries are {text, tap, id}.
const showMenu = entries => new Promise(resolve => {
  const panel = h('div.menu', {id: 'menu'}, entries.filter(Boolean).map(entry => h('button.entry', {
    id: entry.id, onclick: () => { close(); entry.tap(); },
  }, entry.text)));
  const close = overlay(panel, {clear: true, resolve});
});

// Stays until the next press anywhere.
const snackbar = (text, action) => {
  document.querySelector('.snackbar')?.remove();
  const bar = h('div.snackbar', {id: 'snackbar'}, h('div.said', {id: 'snackbar_text'}, text),
    action && button({text: action.text, id: 'snackbar_action', tap: () => { bar.remove(); action.tap(); }}));
  document.body.append(bar);
};
document.addEventListener('pressed', event => {
  const bar = document.querySelector('.snackbar');
  if (bar && !bar.contains(event.detail)) bar.remove();
});

const toast = text => ask('toast', text);
