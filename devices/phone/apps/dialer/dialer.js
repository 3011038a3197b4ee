const CALLS = 'content://call_log/calls', ACTIVE = 'content://com.android.dialer/active_call';
const [INCOMING, OUTGOING, MISSED] = [1, 2, 3];
const WAYS = {[INCOMING]: 'Incoming', [OUTGOING]: 'Outgoing', [MISSED]: 'Missed'};
const digits = number => number.replace(/\D/g, '').slice(-10);

const people = async () => {
  const rows = await query('content://com.android.contacts/data/phones', {sort: 'display_name COLLATE NOCASE'});
  return {rows, nameOf: number => rows.find(row => row.data1 && digits(row.data1) === digits(number))?.display_name};
};

const call = async (s, number) => {
  await remove(ACTIVE);
  await insert(ACTIVE, {number, since: now()});
  await s.open('.InCallActivity');
};

activity('.DialtactsActivity', async s => {
  const {state} = s;
  if (state.number === undefined) {
    state.number = decodeURIComponent((s.parameters.data ?? '').replace(/^tel:/, ''));
    state.tab = state.number ? 2 : 0;
  }
  const [{rows, nameOf}, calls] = await Promise.all([people(), query(CALLS, {sort: 'date DESC, _id DESC'})]);
  const tab = index => () => { state.tab = index; redraw(); };
  const drop = one => showMenu([
    {text: 'Delete', id: 'delete', tap: () => remove(CALLS, '_id = ?', [one._id])},
    {text: 'Send message', id: 'message', tap: () => view('android.intent.action.SENDTO', `smsto:${one.number}`)},
  ]);
  const log = () => calls.length === 0 ? empty('call', 'Your call log is empty') : calls.map(one => item({
    id: 'call_log', title: nameOf(one.number) ?? one.number, under: `${WAYS[one.type]}, ${dateText(one.date)}, ${timeText(one.date)}`,
    lead: avatar(nameOf(one.number) ?? ''), strong: one.type === MISSED, hold: () => drop(one), tap: () => { state.number = one.number; tab(2)(); },
    end: iconButton({icon: 'call', label: `Call ${nameOf(one.number) ?? one.number}`, id: 'call', tap: () => call(s, one.number)}),
  }));
  const contacts = () => rows.filter(row => row.data1).map(row => item({
    id: 'contact', title: row.display_name, under: row.data1, lead: avatar(row.display_name), tap: () => call(s, row.data1),
  }));
  const press = text => () => { state.number += text; redraw(); };
  const keypad = () => h('div.keypad', {},
    h('div.typed', {id: 'digits'}, state.number || ' '),
    h('div.match', {id: 'match'}, (state.number.length > 3 && nameOf(state.number)) || ' '),
    h('div.grid.pad', {}, [...'123456789*0#'].map(key => h('button.pad-key', {id: `key_${key}`, label: key, onclick: press(key), onhold: key === '0' && press('+')}, key))),
    h('div.dial', {},
      h('span'),
      h('button.dial-button', {id: 'dial', label: 'Dial', onclick: () => state.number && call(s, state.number)}, icon('call')),
      iconButton({icon: 'backspace', label: 'Backspace', id: 'backspace', tap: () => { state.number = state.number.slice(0, -1); redraw(); }})));
  return {
    title: ['Recents', 'Contacts', 'Keypad'][state.tab],
    menu: state.tab === 0 && [{text: 'Clear call history', id: 'clear', tap: async () => await confirmed('Clear call history?', 'All calls will be deleted.', 'Clear') && remove(CALLS)}],
    body: [log, contacts, keypad][state.tab](),
    bottom: [
      {icon: 'clock', text: 'Recents', on: state.tab === 0, tap: tab(0)},
      {icon: 'person', text: 'Contacts', on: state.tab === 1, tap: tab(1)},
      {icon: 'apps', text: 'Keypad', on: state.tab === 2, tap: tab(2)},
    ],
  };
});

activity('.InCallActivity', async s => {
  const given = decodeURIComponent((s.parameters.data ?? '').replace(/^tel:/, ''));
  if (given && !s.state.placed) {
    s.state.placed = true;
    await remove(ACTIVE);
    await insert(ACTIVE, {number: given, since: now()});
  }
  const [[active], {nameOf}] = await Promise.all([query(ACTIVE), people()]);
  if (!active) return {title: 'Call ended', body: empty('callEnd', 'Call ended')};
  const name = nameOf(active.number);
  const hangUp = async () => {
    await insert(CALLS, {number: active.number, name: name ?? null, date: active.since, duration: Math.round((now() - active.since) / 1000), type: OUTGOING});
    await remove(ACTIVE);
    await close();
  };
  const turn = (key, glyph, label) => h('button.in-call', {
    id: key, label, role: 'switch', 'aria-checked': String(Boolean(active[key])), onclick: () => update(ACTIVE, {[key]: active[key] ? 0 : 1}),
  }, icon(glyph));
  return {
    back: () => true,
    body: h('div.calling', {},
      h('div', {id: 'state'}, 'Calling…'),
      avatar(name ?? '', true),
      h('div.big', {id: 'contactgrid_contact_name'}, name ?? active.number),
      h('div', {id: 'number'}, name ? active.number : ''),
      h('div.in-calls', {}, turn('muted', 'minus', 'Mute'), turn('speaker', 'volume', 'Speaker')),
      h('button.dial-button.end', {id: 'incall_end_call', label: 'End call', onclick: hangUp}, icon('callEnd'))),
  };
});
