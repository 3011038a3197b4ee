const ALARMS = 'content://com.android.deskclock/alarm_templates', TIMERS = 'content://com.android.deskclock/timers';
const WATCH = 'content://com.android.deskclock/stopwatch', LAPS = 'content://com.android.deskclock/laps', CITIES = 'content://com.android.deskclock/selected_cities';
const LETTERS = ['M', 'T', 'W', 'T', 'F', 'S', 'S'], NAMES = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];
const FULL_NAMES = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'];
const clockText = (hour, minutes) => timeText((hour * 60 + minutes) * MINUTE);
const pad = number => String(number).padStart(2, '0');
const spent = one => one.spent + (one.running ? now() - one.since : 0);

const repeatText = alarm => {
  if (!alarm.daysofweek) return 'Once';
  if (alarm.daysofweek === 127) return 'Every day';
  return NAMES.filter((_, day) => alarm.daysofweek & 1 << day).join(', ');
};

activity('.DeskClock', async s => {
  s.state.tab ??= s.parameters.extras?.tab ?? 0;
  const tabs = [['alarm', 'Alarm', alarms], ['clock', 'Clock', cities], ['timer', 'Timer', timers], ['reset', 'Stopwatch', stopwatch]];
  const [, title, draw] = tabs[s.state.tab];
  return {
    title,
    ...await draw(s),
    bottom: tabs.map(([name, text], index) => ({icon: name, text, on: s.state.tab === index, tap: () => { s.state.tab = index; redraw(); }})),
  };
});

const alarms = async s => {
  const rows = await query(ALARMS, {sort: 'hour, minutes'});
  const change = (alarm, values) => update(ALARMS, values, '_id = ?', [alarm._id]);
  const retime = async alarm => {
    const minutes = await pickTime(alarm.hour * 60 + alarm.minutes);
    if (minutes !== undefined) await change(alarm, {hour: Math.floor(minutes / 60), minutes: minutes % 60, enabled: 1});
  };
  const create = async () => {
    const minutes = await pickTime(8 * 60);
    if (minutes === undefined) return;
    s.state.open = await insert(ALARMS, {hour: Math.floor(minutes / 60), minutes: minutes % 60});
    snackbar(`Alarm set for ${clockText(Math.floor(minutes / 60), minutes % 60)}`);
  };
  const more = alarm => [
    h('div.days', {}, LETTERS.map((letter, day) => h('button.day-button', {
      id: `day_button_${day}`, label: FULL_NAMES[day], role: 'checkbox', 'aria-checked': String(Boolean(alarm.daysofweek & 1 << day)),
      onclick: () => change(alarm, {daysofweek: alarm.daysofweek ^ 1 << day}),
    }, letter))),
    item({id: 'edit_label', lead: 'edit', title: alarm.label || 'Add label', tap: async () => {
      const label = await askText('Label', {value: alarm.label});
      if (label !== undefined) await change(alarm, {label});
    }}),
    switchRow({id: 'vibrate_onoff', lead: 'phone', title: 'Vibrate', on: alarm.vibrate, change: value => change(alarm, {vibrate: Number(value)})}),
    item({id: 'delete', lead: 'del', title: 'Delete', tap: async () => {
      await remove(ALARMS, '_id = ?', [alarm._id]);
      const {_id, ...values} = alarm;
      snackbar('Alarm deleted', {text: 'Undo', tap: () => insert(ALARMS, values)});
    }}),
  ];
  return {
    body: rows.length === 0 ? empty('alarm', 'No alarms') : rows.map(alarm => card(
      h('div.alarm', {id: 'alarm', label: `${clockText(alarm.hour, alarm.minutes)} ${alarm.label}`.trim()},
        h('div.words', {},
          alarm.label && h('div.alarm-label', {id: 'label'}, alarm.label),
          h(`div.digital${alarm.enabled ? '.on' : ''}`, {id: 'digital_clock', onclick: () => retime(alarm)}, clockText(alarm.hour, alarm.minutes)),
          h('div', {id: 'days_of_week'}, repeatText(alarm))),
        toggle(alarm.enabled, () => change(alarm, {enabled: alarm.enabled ? 0 : 1}), 'onoff'),
        iconButton({icon: s.state.open === alarm._id ? 'up' : 'down', label: s.state.open === alarm._id ? 'Collapse alarm' : 'Expand alarm', id: 'arrow', small: true,
          tap: () => { s.state.open = s.state.open === alarm._id ? null : alarm._id; redraw(); }})),
      s.state.open === alarm._id && more(alarm))),
    fab: {icon: 'add', label: 'Add alarm', tap: create},
  };
};

const ZONES = [['Auckland', 'Pacific/Auckland'], ['Berlin', 'Europe/Berlin'], ['Buenos Aires', 'America/Argentina/Buenos_Aires'], ['Cairo', 'Africa/Cairo'], ['Chicago', 'America/Chicago'],
  ['Delhi', 'Asia/Kolkata'], ['Hong Kong', 'Asia/Hong_Kong'], ['Lagos', 'Africa/Lagos'], ['London', 'Europe/London'], ['Los Angeles', 'America/Los_Angeles'], ['Madrid', 'Europe/Madrid'],
  ['Nairobi', 'Africa/Nairobi'], ['New York', 'America/New_York'], ['Paris', 'Europe/Paris'], ['Rome', 'Europe/Rome'], ['Sao Paulo', 'America/Sao_Paulo'], ['Seoul', 'Asia/Seoul'],
  ['Singapore', 'Asia/Singapore'], ['Sydney', 'Australia/Sydney'], ['Tokyo', 'Asia/Tokyo']];
const zoneOf = new Map(ZONES);

const cities = async s => {
  const rows = await query(CITIES, {sort: 'city'});
  const row = one => item({
    id: 'city', title: one.city, under: format(now(), {timeZone: zoneOf.get(one.city), weekday: 'short'}),
    end: h('span.big-time', {id: 'city_time'}, format(now(), {timeZone: zoneOf.get(one.city), hour: 'numeric', minute: '2-digit', hourCycle: hour24() ? 'h23' : 'h12'})),
    hold: () => showMenu([{text: 'Remove', id: 'remove', tap: () => remove(CITIES, '_id = ?', [one._id])}]), tap: () => {},
  });
  return {
    body: [h('div.hero', {}, h('div.huge', {id: 'digital_clock'}, timeText(now())), h('div', {id: 'date'}, dateText(now()))), rows.map(row)],
    fab: {icon: 'add', label: 'Add city', tap: () => s.open('.CitySelectionActivity')},
  };
};

activity('.CitySelectionActivity', async s => {
  const chosen = new Map((await query(CITIES)).map(one => [one.city, one._id]));
  const turn = city => chosen.has(city) ? remove(CITIES, '_id = ?', [chosen.get(city)]) : insert(CITIES, {city});
  return {
    title: 'Cities',
    search: true,
    body: ZONES.filter(([city]) => found(s, city)).map(([city]) => item({id: 'city', title: city, tap: () => turn(city), end: checkbox(chosen.has(city), () => turn(city), city)})),
  };
});

const timerText = ms => {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return hours ? `${hours}:${pad(minutes)}:${pad(seconds % 60)}` : `${minutes}:${pad(seconds % 60)}`;
};

const timers = async s => {
  const rows = await query(TIMERS, {sort: '_id DESC'});
  const change = (timer, values) => update(TIMERS, values, '_id = ?', [timer._id]);
  if (rows.length === 0 || s.state.adding) return timerEntry(s, rows.length > 0);
  return {
    body: rows.map(timer => card(h('div.timer', {id: 'timer'},
      h('div.timer-label', {id: 'timer_label', onclick: async () => {
        const label = await askText('Label', {value: timer.label});
        if (label !== undefined) await change(timer, {label});
      }}, timer.label || `${timerText(timer.length)} timer`),
      h('div.huge', {id: 'timer_time_text'}, timerText(timer.length - spent(timer))),
      h('div.timer-buttons', {},
        button({text: '+ 1:00', id: 'reset_add', kind: 'tonal', tap: () => change(timer, {length: timer.length + MINUTE})}),
        iconButton({icon: timer.running ? 'pause' : 'play', label: timer.running ? 'Pause' : 'Start', id: 'play_pause',
          tap: () => change(timer, timer.running ? {running: 0, spent: spent(timer)} : {running: 1, since: now()})}),
        iconButton({icon: 'reset', label: 'Reset', id: 'reset', tap: () => change(timer, {running: 0, spent: 0})}),
        iconButton({icon: 'del', label: 'Delete', id: 'delete', tap: () => remove(TIMERS, '_id = ?', [timer._id])}))))),
    fab: {icon: 'add', label: 'Add timer', tap: () => { Object.assign(s.state, {adding: true, typed: ''}); redraw(); }},
  };
};

// Digits fill hhmmss from the right, as they are typed.
const timerEntry = (s, cancel) => {
  const typed = (s.state.typed ?? '').padStart(6, '0');
  const [hours, minutes, seconds] = [0, 2, 4].map(index => Number(typed.slice(index, index + 2)));
  const length = ((hours * 60 + minutes) * 60 + seconds) * 1000;
  const press = text => () => { s.state.typed = ((s.state.typed ?? '') + text).replace(/^0+/, '').slice(-6); redraw(); };
  return {
    body: h('div.entry-pad', {},
      h('div.huge', {id: 'timer_setup_time'}, `${pad(hours)}h ${pad(minutes)}m ${pad(seconds)}s`),
      h('div.grid.timer-pad', {}, ['1', '2', '3', '4', '5', '6', '7', '8', '9', '00', '0'].map(key => h('button.round', {id: `timer_setup_digit_${key}`, onclick: press(key)}, key)),
        h('button.round', {id: 'timer_setup_delete', label: 'Delete', onclick: () => { s.state.typed = (s.state.typed ?? '').slice(0, -1); redraw(); }}, icon('backspace'))),
      h('div.buttons', {}, cancel && button({text: 'Cancel', id: 'cancel', tap: () => { s.state.adding = false; redraw(); }}),
        button({text: 'Start', id: 'fab', kind: 'filled', disabled: length === 0, tap: async () => {
          Object.assign(s.state, {adding: false, typed: ''});
          await insert(TIMERS, {length, running: 1, since: now()});
        }}))),
  };
};

const watchText = ms => `${pad(Math.floor(ms / MINUTE))}:${pad(Math.floor(ms / 1000) % 60)}.${pad(Math.floor(ms / 10) % 100)}`;

const stopwatch = async () => {
  const [[watch], laps] = await Promise.all([query(WATCH), query(LAPS, {sort: '_id DESC'})]);
  const total = spent(watch);
  return {
    body: [
      h('div.hero', {}, h('div.huge', {id: 'stopwatch_time_text'}, watchText(total))),
      h('div.timer-buttons', {},
        button({text: 'Reset', id: 'sw_left_button', disabled: total === 0 && !watch.running, tap: async () => { await update(WATCH, {running: 0, spent: 0}); await remove(LAPS); }}),
        button({text: watch.running ? 'Pause' : total ? 'Resume' : 'Start', id: 'fab', kind: 'filled',
          tap: () => update(WATCH, watch.running ? {running: 0, spent: total} : {running: 1, since: now()})}),
        button({text: 'Lap', id: 'sw_right_button', disabled: !watch.running, tap: () => insert(LAPS, {total})})),
      laps.map((lap, index) => item({id: 'lap', title: `# ${laps.length - index}`, end: watchText(lap.total)})),
    ],
  };
};
