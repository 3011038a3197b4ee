// The system's own part of the screen: status bar, shade, frames of the apps, keyboard, navigation bar, toast.
(() => {
  const HOME = 3, BACK = 4, RECENTS = 187;
  const TILES = [
    {title: 'Wi-Fi', icon: 'wifi', id: 'wifi', namespace: 'global', key: 'wifi_on', values: ['0', '1']},
    {title: 'Bluetooth', icon: 'bluetooth', id: 'bluetooth', namespace: 'global', key: 'bluetooth_on', values: ['0', '1']},
    {title: 'Airplane mode', icon: 'plane', id: 'airplane', namespace: 'global', key: 'airplane_mode_on', values: ['0', '1']},
    {title: 'Do Not Disturb', icon: 'minus', id: 'dnd', namespace: 'global', key: 'zen_mode', values: ['0', '1']},
    {title: 'Dark theme', icon: 'dark', id: 'dark', namespace: 'secure', key: 'ui_night_mode', values: ['1', '2']},
    {title: 'Auto-rotate', icon: 'repeat', id: 'rotate', namespace: 'system', key: 'accelerometer_rotation', values: ['0', '1']},
  ];
  const status = h('div.status', {id: 'status_bar', onswipe: direction => direction === 'down' && phone.shade(true)});
  const apps = h('div.apps');
  const frames = new Map();
  let toast = null, shade = null;

  const navigate = (id, label, name, code) => h('button', {id, label, onclick: () => ask('key', code)}, icon(name));
  const navigation = h('div.navigation', {},
    navigate('back', 'Back', 'navBack', BACK), navigate('home', 'Home', 'home', HOME), navigate('recent_apps', 'Overview', 'navRecents', RECENTS));

  const on = (namespace, key) => setting(namespace, key) === '1';
  const sign = (name, label) => {
    const drawn = icon(name, name === 'signal');
    drawn.setAttribute('aria-label', label);
    drawn.dataset.id = name;
    return drawn;
  };
  const drawStatus = () => {
    const airplane = on('global', 'airplane_mode_on');
    status.replaceChildren(...[
      h('div.time', {id: 'clock'}, timeText(now())),
      setting('global', 'zen_mode', '0') !== '0' && sign('minus', 'Do Not Disturb'),
      on('global', 'bluetooth_on') && sign('bluetooth', 'Bluetooth on'),
      on('global', 'wifi_on') && sign('wifi', 'Wi-Fi connected'),
      airplane ? sign('plane', 'Airplane mode') : sign('signal', 'Phone signal full'),
      sign('battery', 'Battery charged, 100 percent'),
    ].filter(Boolean));
  };

  const drawShade = () => {
    shade.replaceChildren(h('div.panel', {id: 'quick_settings_panel', onclick: () => {}, onswipe: direction => direction === 'up' && phone.shade(false)},
      h('div.date', {id: 'date'}, dateText(now())),
      h('div.tiles', {}, TILES.map(tile => {
        const value = setting(tile.namespace, tile.key, tile.values[0]);
        return h('button.tile', {
          id: tile.id, role: 'switch', 'aria-checked': String(value === tile.values[1]),
          onclick: () => ask('put', tile.namespace, tile.key, tile.values[value === tile.values[1] ? 0 : 1]),
        }, icon(tile.icon), tile.title);
      }))));
  };

  Object.assign(phone, {
    configure(given) {
      configuration = given;
      applyTheme();
      document.documentElement.style.setProperty('--text', 1);  // the bars keep their size
      drawStatus();
      if (shade) drawShade();
    },
    openFrame(name, text) {
      const frame = h('iframe', {name});
      frame.setAttribute('sandbox', 'allow-scripts');
      frame.srcdoc = text;
      frames.set(name, frame);
      apps.append(frame);
    },
    showFrame(name, given) {
      for (const [other, frame] of frames) frame.className = other === name ? 'front' : '';
      keyboard.show(null);
      phone.shade(false);
      phone.configure(given);
    },
    closeFrame(name) {
      frames.get(name).remove();
      frames.delete(name);
    },
    keyboard(kind) { keyboard.show(kind); },
    shade(open) {
      shade?.remove();
      shade = open ? h('div.shade', {id: 'shade', label: 'Close', onclick: () => phone.shade(false)}) : null;
      if (!shade) return;
      drawShade();
      document.body.append(shade);
    },
    back() {
      const open = Boolean(shade);
      phone.shade(false);
      return open;
    },
    toast(text) {
      toast?.remove();
      toast = text ? h('div.toast', {id: 'message'}, text) : null;
      if (toast) document.body.append(toast);
    },
    power(isOn) {
      document.querySelector('.off')?.remove();
      if (!isOn) document.body.append(h('div.off'));
    },
    restart() {
      phone.shade(false);
      phone.toast(null);
      phone.power(true);
      keyboard.show(null);
    },
    appTop: () => apps.getBoundingClientRect().top,
    showsApp: () => !shade,
  });

  document.body.append(status, apps, keyboard.panel, navigation);
})();
