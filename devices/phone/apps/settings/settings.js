const on = (namespace, key) => setting(namespace, key) === '1';
const flip = (namespace, key) => value => put(namespace, key, value ? 1 : 0);
const flag = (namespace, key, row) => switchRow({...row, id: row.id ?? key, on: on(namespace, key), change: flip(namespace, key)});
const percent = (value, most) => `${Math.round(value / most * 100)}%`;

activity('.Settings', s => {
  const wifi = on('global', 'wifi_on') ? 'On' : 'Off';
  const rows = [
    ['wifi', 'Wi-Fi', wifi, '.WifiSettingsActivity'],
    ['plane', 'Network & internet', 'Airplane mode, mobile data', '.NetworkActivity'],
    ['bluetooth', 'Bluetooth', on('global', 'bluetooth_on') ? 'On' : 'Off', '.BluetoothSettingsActivity'],
    ['apps', 'Apps', 'All apps of this phone', '.AppListActivity'],
    ['volume', 'Sound & vibration', 'Volume, Do Not Disturb', '.SoundSettingsActivity'],
    ['brightness', 'Display', 'Dark theme, font size, brightness', '.DisplaySettingsActivity'],
    ['battery', 'Battery', '100% - Fully charged', '.BatteryActivity'],
    ['location', 'Location', on('secure', 'location_mode') || setting('secure', 'location_mode') === '3' ? 'On' : 'Off', '.LocationSettingsActivity'],
    ['clock', 'Date & time', `${dateText(now())}, ${timeText(now())}`, '.DateTimeSettingsActivity'],
    ['language', 'Languages', languageName(locale()), '.LanguageSettingsActivity'],
    ['phone', 'About phone', setting('global', 'device_name'), '.AboutPhoneActivity'],
  ];
  return {
    title: 'Settings',
    search: true,
    body: rows.filter(row => found(s, row[1], row[2])).map(([lead, title, under, name]) =>
      item({id: 'dashboard_tile', lead, title, under, tap: () => s.open(name)})),
  };
});

activity('.NetworkActivity', s => ({
  title: 'Network & internet',
  body: [
    item({lead: 'wifi', title: 'Wi-Fi', under: on('global', 'wifi_on') ? 'On' : 'Off', tap: () => s.open('.WifiSettingsActivity')}),
    flag('global', 'mobile_data', {lead: 'signal', title: 'Mobile data', under: 'Virtual carrier'}),
    flag('global', 'airplane_mode_on', {lead: 'plane', title: 'Airplane mode'}),
  ],
}));

const NETWORKS = 'content://com.android.settings/networks';

activity('.WifiSettingsActivity', async s => {
  const networks = on('global', 'wifi_on') ? await query(NETWORKS, {sort: 'connected DESC, level DESC, ssid'}) : [];
  const connect = async network => {
    if (network.secured && !network.saved && !await askText(network.ssid, {hint: 'Password', ok: 'Connect', kind: 'password'})) return;
    await update(NETWORKS, {connected: 0});
    await update(NETWORKS, {connected: 1, saved: 1}, '_id = ?', [network._id]);
  };
  const forget = network => dialog({title: network.ssid, buttons: [
    {text: 'Forget', id: 'forget', value: 'forget'}, {text: 'Disconnect', id: 'disconnect', value: 'disconnect'},
  ]}).then(what => what && update(NETWORKS, what === 'forget' ? {connected: 0, saved: 0} : {connected: 0}, '_id = ?', [network._id]));
  return {
    title: 'Wi-Fi',
    body: [
      flag('global', 'wifi_on', {lead: 'wifi', title: 'Use Wi-Fi'}),
      !on('global', 'wifi_on') && note('To see available networks, turn Wi-Fi on.'),
      networks.map(network => item({
        id: 'network', lead: 'wifi', title: network.ssid, selected: Boolean(network.connected),
        under: network.connected ? 'Connected' : network.saved ? 'Saved' : network.secured ? 'Secured' : 'Open',
        tap: () => network.connected ? forget(network) : connect(network),
      })),
    ],
  };
});

const DEVICES = 'content://com.android.settings/devices';

activity('.BluetoothSettingsActivity', async s => {
  const devices = on('global', 'bluetooth_on') ? await query(DEVICES, {sort: 'name'}) : [];
  const row = device => item({
    id: 'device', lead: 'bluetooth', title: device.name, under: device.paired ? 'Paired' : 'Available',
    tap: async () => {
      const ask_ = device.paired ? ['Forget device?', device.name, 'Forget'] : ['Pair with this device?', device.name, 'Pair'];
      if (await confirmed(...ask_)) await update(DEVICES, {paired: device.paired ? 0 : 1}, '_id = ?', [device._id]);
    },
  });
  return {
    title: 'Bluetooth',
    body: [
      flag('global', 'bluetooth_on', {lead: 'bluetooth', title: 'Use Bluetooth'}),
      devices.some(one => one.paired) && header('Saved devices'), devices.filter(one => one.paired).map(row),
      devices.some(one => !one.paired) && header('Available devices'), devices.filter(one => !one.paired).map(row),
    ],
  };
});

const FONTS = [['Small', '0.85'], ['Default', '1.0'], ['Large', '1.15'], ['Largest', '1.3']];
const TIMEOUTS = [['15 seconds', '15000'], ['30 seconds', '30000'], ['1 minute', '60000'], ['2 minutes', '120000'], ['5 minutes', '300000'], ['10 minutes', '600000'], ['30 minutes', '1800000']];
const options = pairs => pairs.map(([label, value]) => ({label, value}));
const labelOf = (pairs, value) => pairs.find(pair => pair[1] === value)?.[0] ?? value;
const choice = (namespace, key, title, lead, pairs) => item({
  id: key, lead, title, under: labelOf(pairs, setting(namespace, key)),
  tap: async () => {
    const value = await choose(title, options(pairs), setting(namespace, key));
    if (value !== undefined) await put(namespace, key, value);
  },
});

activity('.DisplaySettingsActivity', () => {
  const brightness = Number(setting('system', 'screen_brightness'));
  return {
    title: 'Display',
    body: [
      header('Brightness'),
      item({lead: 'brightness', title: 'Brightness level', under: percent(brightness, 255)}),
      h('div.item', {}, slider({id: 'brightness', label: 'Display brightness', value: brightness, min: 1, max: 255, change: value => put('system', 'screen_brightness', value)})),
      flag('system', 'screen_brightness_mode', {lead: 'brightness', title: 'Adaptive brightness'}),
      header('Appearance'),
      switchRow({id: 'dark_theme', lead: 'dark', title: 'Dark theme', on: setting('secure', 'ui_night_mode') === '2', change: value => put('secure', 'ui_night_mode', value ? 2 : 1)}),
      choice('system', 'font_scale', 'Font size', 'text', FONTS),
      flag('secure', 'night_display_activated', {lead: 'brightness', title: 'Night Light'}),
      header('Screen'),
      choice('system', 'screen_off_timeout', 'Screen timeout', 'timer', TIMEOUTS),
      flag('system', 'accelerometer_rotation', {lead: 'repeat', title: 'Auto-rotate screen'}),
    ],
  };
});

const VOLUMES = [['volume_music', 'Media volume', 15], ['volume_ring', 'Ring volume', 7], ['volume_notification', 'Notification volume', 7], ['volume_alarm', 'Alarm volume', 7]];

activity('.SoundSettingsActivity', () => ({
  title: 'Sound & vibration',
  body: [
    VOLUMES.map(([key, title, most]) => [
      item({lead: 'volume', title, under: percent(setting('system', key), most)}),
      h('div.item', {}, slider({id: key, label: title, value: Number(setting('system', key)), min: 0, max: most, change: value => put('system', key, value)})),
    ]),
    switchRow({id: 'zen_mode', lead: 'minus', title: 'Do Not Disturb', on: setting('global', 'zen_mode') !== '0', change: flip('global', 'zen_mode')}),
    flag('system', 'haptic_feedback_enabled', {lead: 'phone', title: 'Touch feedback'}),
    flag('system', 'sound_effects_enabled', {lead: 'volume', title: 'Tap sounds'}),
  ],
}));

activity('.BatteryActivity', () => ({
  title: 'Battery',
  body: [
    h('div.hero', {}, h('div.big', {id: 'level'}, '100%'), 'Fully charged'),
    flag('global', 'low_power', {lead: 'battery', title: 'Battery Saver'}),
  ],
}));

activity('.LocationSettingsActivity', () => ({
  title: 'Location',
  body: switchRow({id: 'location_mode', lead: 'location', title: 'Use location', on: setting('secure', 'location_mode') !== '0', change: value => put('secure', 'location_mode', value ? 3 : 0)}),
}));

activity('.DateTimeSettingsActivity', () => ({
  title: 'Date & time',
  body: [
    flag('global', 'auto_time', {lead: 'clock', title: 'Set time automatically'}),
    item({lead: 'calendar', title: 'Date', under: format(now(), {dateStyle: 'long'})}),
    item({lead: 'clock', title: 'Time', under: timeText(now())}),
    item({lead: 'language', title: 'Time zone', under: 'GMT+00:00'}),
    switchRow({id: 'time_12_24', lead: 'clock', title: 'Use 24-hour format', under: hour24() ? '13:00' : '1:00 PM', on: hour24(), change: value => put('system', 'time_12_24', value ? '24' : '12')}),
  ],
}));

const LANGUAGES = [['English (United States)', 'en-US'], ['English (United Kingdom)', 'en-GB'], ['Deutsch (Deutschland)', 'de-DE'], ['Español (España)', 'es-ES'], ['Français (France)', 'fr-FR'], ['Italiano (Italia)', 'it-IT'], ['Português (Brasil)', 'pt-BR']];
const languageName = value => labelOf(LANGUAGES, value);

activity('.LanguageSettingsActivity', () => ({
  title: 'Languages',
  body: [
    note('Dates and times follow the language; the apps of this phone speak English.'),
    LANGUAGES.map(([label, value]) => item({id: 'language', title: label, lead: radio(value === locale()), tap: () => put('system', 'system_locales', value)})),
  ],
}));

activity('.AppListActivity', async s => {
  const apps = await ask('apps');
  return {
    title: 'All apps',
    search: true,
    body: apps.filter(app => found(s, app.label)).map(app => item({
      id: 'app', title: app.label, under: app.package, lead: appIcon(app), tap: () => s.open('.AppInfoActivity', {data: `package:${app.package}`}),
    })),
  };
});

const appIcon = app => h('span.avatar', {style: {background: app.color}}, h('img', {width: 24, height: 24, alt: '', src: 'data:image/svg+xml,' + encodeURIComponent(app.icon)}));

activity('.AppInfoActivity', async s => {
  const app = (await ask('apps')).find(one => `package:${one.package}` === s.parameters.data);
  if (!app) return {title: 'App info', body: empty('apps', 'This app is not on the phone')};
  return {
    title: 'App info',
    body: [
      h('div.hero', {}, h('div', {style: {display: 'inline-block'}}, appIcon(app)), h('div.big', {id: 'entity_header_title'}, app.label)),
      item({title: 'Package', under: app.package}),
      item({title: 'Version', under: app.version}),
      h('div.item', {}, button({text: 'Open', id: 'open', kind: 'tonal', tap: () => start(app.package)})),
    ],
  };
});

activity('.AboutPhoneActivity', () => ({
  title: 'About phone',
  body: [
    item({id: 'device_name', title: 'Device name', under: setting('global', 'device_name'), tap: async () => {
      const name = await askText('Device name', {value: setting('global', 'device_name')});
      if (name) await put('global', 'device_name', name);
    }}),
    item({title: 'Model', under: 'Virtual phone'}),
    item({title: 'System', under: 'guiagent phone'}),
  ],
}));
