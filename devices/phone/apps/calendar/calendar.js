const EVENTS = 'content://com.android.calendar/events', REMINDERS = 'content://com.android.calendar/reminders';
const REPEATS = [['Does not repeat', ''], ['Every day', 'FREQ=DAILY'], ['Every week', 'FREQ=WEEKLY'], ['Every month', 'FREQ=MONTHLY'], ['Every year', 'FREQ=YEARLY']];
const ALERTS = [['No reminder', -1], ['At time of event', 0], ['5 minutes before', 5], ['10 minutes before', 10], ['15 minutes before', 15], ['30 minutes before', 30], ['1 hour before', 60], ['1 day before', 1440]];
const options = pairs => pairs.map(([label, value]) => ({label, value}));
const labelOf = (pairs, value) => pairs.find(pair => pair[1] === value)?.[0] ?? String(value);
const span = event => event.allDay ? 'All day' : `${timeText(event.dtstart)} – ${timeText(event.dtend)}`;

// True when the event, or a repetition of it, begins on the day that starts at `day`.
const fallsOn = (event, day) => {
  const first = startOfDay(event.dtstart);
  if (day < first || !event.rrule) return first === day;
  const [begun, asked] = [new Date(first), new Date(day)];
  switch (event.rrule.match(/FREQ=(\w+)/)?.[1]) {
    case 'DAILY': return true;
    case 'WEEKLY': return begun.getUTCDay() === asked.getUTCDay();
    case 'MONTHLY': return begun.getUTCDate() === asked.getUTCDate();
    case 'YEARLY': return begun.getUTCDate() === asked.getUTCDate() && begun.getUTCMonth() === asked.getUTCMonth();
    default: return first === day;
  }
};

const timeOfDay = event => (event.dtstart % DAY + DAY) % DAY;

activity('.AllInOneActivity', async s => {
  const {state} = s;
  state.day ??= startOfDay(now());
  state.month ??= startOfMonth(state.day);
  const events = await query(EVENTS, {sort: 'dtstart, title'});
  const row = (event, day) => item({
    id: 'event', title: event.title || '(No title)', under: [span(event), event.eventLocation].filter(Boolean).join(' · '),
    lead: h('i.stripe'), tap: () => s.open('.EventInfoActivity', {id: event._id, day}),
  });
  const on = day => events.filter(event => fallsOn(event, day)).sort((a, b) => b.allDay - a.allDay || timeOfDay(a) - timeOfDay(b));
  const dots = new Set();
  for (let day = state.month; day < addMonths(state.month, 1); day += DAY) if (on(day).length) dots.add(day);
  const month = () => [
    monthBar(state.month, value => { state.month = value; redraw(); }),
    h('div', {style: {padding: '0 8px'}, onswipe: way => { state.month = addMonths(state.month, way === 'left' ? 1 : -1); redraw(); }},
      monthGrid({month: state.month, chosen: state.day, dots, tap: day => { state.day = day; redraw(); }})),
    header(format(state.day, {weekday: 'long', month: 'long', day: 'numeric'})),
    on(state.day).length === 0 ? note('No events') : on(state.day).map(event => row(event, state.day)),
  ];
  const agenda = () => {
    const days = Array.from({length: 45}, (_, index) => startOfDay(now()) + index * DAY).filter(day => on(day).length);
    return days.length === 0 ? empty('calendar', 'No upcoming events')
      : days.map(day => [header(format(day, {weekday: 'long', month: 'long', day: 'numeric'})), on(day).map(event => row(event, day))]);
  };
  const results = () => {
    const shown = events.filter(event => found(s, event.title, event.eventLocation, event.description));
    return shown.length === 0 ? empty('search', 'No events found') : shown.map(event => item({
      id: 'event', title: event.title || '(No title)', under: `${dateText(event.dtstart)} · ${span(event)}`, lead: h('i.stripe'), tap: () => s.open('.EventInfoActivity', {id: event._id}),
    }));
  };
  const tab = name => () => { state.view = name; redraw(); };
  return {
    title: 'Calendar',
    search: true,
    actions: [{icon: 'calendar', label: 'Go to today', id: 'action_today', tap: () => { Object.assign(state, {day: startOfDay(now()), month: startOfMonth(now())}); redraw(); }}],
    tabs: [{text: 'Month', on: state.view !== 'agenda', tap: tab('month')}, {text: 'Schedule', on: state.view === 'agenda', tap: tab('agenda')}],
    body: state.searching ? results() : state.view === 'agenda' ? agenda() : month(),
    fab: {icon: 'add', label: 'Create new event', tap: () => s.open('.EditEventActivity', {day: state.day})},
  };
});

activity('.EventInfoActivity', async s => {
  const {id} = s.parameters;
  const [[event], reminders] = await Promise.all([query(EVENTS, {where: '_id = ?', args: [id]}), query(REMINDERS, {where: 'event_id = ?', args: [id]})]);
  if (!event) return {title: 'Event', body: empty('calendar', 'This event was deleted')};
  const drop = async () => {
    if (!await confirmed('Delete event?', event.title, 'Delete')) return;
    await remove(REMINDERS, 'event_id = ?', [id]);
    await remove(EVENTS, '_id = ?', [id]);
    await close();
  };
  return {
    title: '',
    actions: [
      {icon: 'edit', label: 'Edit event', id: 'info_action_edit', tap: () => s.open('.EditEventActivity', {id})},
      {icon: 'del', label: 'Delete event', id: 'info_action_delete', tap: drop},
    ],
    body: [
      h('div.hero', {}, h('div.big', {id: 'title'}, event.title || '(No title)')),
      item({id: 'when', lead: 'clock', title: format(s.parameters.day ?? event.dtstart, {dateStyle: 'full'}), under: span(event)}),
      event.rrule && item({id: 'repeat', lead: 'repeat', title: labelOf(REPEATS, event.rrule)}),
      event.eventLocation && item({id: 'where', lead: 'location', title: event.eventLocation}),
      event.description && item({id: 'description', lead: 'text', title: event.description, wrap: true}),
      reminders.map(one => item({id: 'reminder', lead: 'notification', title: labelOf(ALERTS, one.minutes)})),
    ],
  };
});

activity('.EditEventActivity', async s => {
  const {state, parameters: {id, day, extras = {}}} = s;
  if (!state.loaded) {
    const [event] = id ? await query(EVENTS, {where: '_id = ?', args: [id]}) : [];
    const [alert] = id ? await query(REMINDERS, {where: 'event_id = ?', args: [id]}) : [];
    const hour = Math.ceil((now() + 1) / HOUR) * HOUR % DAY;
    const begin = Number(extras.beginTime) || (day ?? startOfDay(now())) + hour;
    Object.assign(state, {loaded: true, title: extras.title ?? '', eventLocation: extras.eventLocation ?? '', description: extras.description ?? '',
      dtstart: begin, dtend: Number(extras.endTime) || begin + HOUR, allDay: 0, rrule: '', ...event, minutes: alert?.minutes ?? (id ? -1 : 30)});
  }
  const moveTo = (key, value) => {
    const length = state.dtend - state.dtstart;
    state[key] = value;
    if (key === 'dtstart') state.dtend = value + length;
    redraw();
  };
  const dateRow = (key, name) => h('div.item', {},
    h('button.words', {id: `${key}_date`, label: `${name} date`, style: {textAlign: 'left'}, onclick: async () => {
      const chosen = await pickDate(state[key]);
      if (chosen !== undefined) moveTo(key, chosen + state[key] % DAY);
    }}, format(state[key], {weekday: 'short', month: 'short', day: 'numeric', year: 'numeric'})),
    !state.allDay && h('button', {id: `${key}_time`, label: `${name} time`, onclick: async () => {
      const minutes = await pickTime(state[key] % DAY / MINUTE, `${name} time`);
      if (minutes !== undefined) moveTo(key, startOfDay(state[key]) + minutes * MINUTE);
    }}, timeText(state[key])));
  const choice = (key, lead, title, pairs) => item({id: key, lead, title: labelOf(pairs, state[key]), tap: async () => {
    const value = await choose(title, options(pairs), state[key]);
    if (value !== undefined) { state[key] = value; redraw(); }
  }});
  const save = async () => {
    if (state.dtend < state.dtstart) { toast('The event cannot end before it starts'); return; }
    const values = {
      title: state.title.trim(), eventLocation: state.eventLocation.trim(), description: state.description.trim(), allDay: Number(state.allDay), rrule: state.rrule,
      dtstart: state.allDay ? startOfDay(state.dtstart) : state.dtstart, dtend: state.allDay ? startOfDay(state.dtend) + DAY : state.dtend, hasAlarm: Number(state.minutes >= 0),
    };
    let event = id;
    if (id) await update(EVENTS, values, '_id = ?', [id]); else event = await insert(EVENTS, values);
    await remove(REMINDERS, 'event_id = ?', [event]);
    if (state.minutes >= 0) await insert(REMINDERS, {event_id: event, minutes: state.minutes});
    await close();
  };
  return {
    title: id ? 'Edit event' : 'New event',
    up: true,
    actions: [{text: 'Save', id: 'action_done', tap: save}],
    body: [
      field({state, key: 'title', hint: 'Title'}),
      field({state, key: 'eventLocation', hint: 'Location', id: 'location'}),
      switchRow({id: 'is_all_day', lead: 'clock', title: 'All day', on: state.allDay, change: value => { state.allDay = value; redraw(); }}),
      dateRow('dtstart', 'Start'), dateRow('dtend', 'End'),
      choice('rrule', 'repeat', 'Repeat', REPEATS),
      choice('minutes', 'notification', 'Reminder', ALERTS),
      field({state, key: 'description', hint: 'Description', lines: 3}),
    ],
  };
});
