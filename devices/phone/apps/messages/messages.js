const SMS = 'content://sms';
const [INBOX, SENT] = [1, 2];
const digits = number => /\d{3}/.test(number) ? number.replace(/\D/g, '').slice(-10) : number.trim().toLowerCase();
const when = ms => startOfDay(ms) === startOfDay(now()) ? timeText(ms) : now() - ms < 6 * DAY ? format(ms, {weekday: 'short'}) : format(ms, {month: 'short', day: 'numeric'});

const people = async () => {
  const rows = await query('content://com.android.contacts/data/phones', {sort: 'display_name COLLATE NOCASE'});
  return {rows, nameOf: number => rows.find(row => row.data1 && digits(row.data1) === digits(number))?.display_name ?? number};
};

const send = async (address, body) => insert(SMS, {address, body, date: now(), date_sent: now(), type: SENT, read: 1, seen: 1});

activity('.ConversationListActivity', async s => {
  const [messages, {nameOf}] = await Promise.all([query(SMS, {sort: 'date DESC, _id DESC'}), people()]);
  const threads = [...Map.groupBy(messages, one => digits(one.address)).values()];
  const shown = threads.filter(thread => found(s, nameOf(thread[0].address), ...thread.map(one => one.body)));
  const drop = thread => async () => await confirmed('Delete this conversation?', 'This is permanent and can’t be undone.', 'Delete')
    && remove(SMS, `_id IN (${thread.map(() => '?')})`, thread.map(one => one._id));
  const hold = thread => () => showMenu([
    {text: 'Delete', id: 'action_delete', tap: drop(thread)},
    {text: 'Mark as unread', id: 'action_unread', tap: () => update(SMS, {read: 0}, '_id = ?', [thread[0]._id])},
  ]);
  return {
    title: 'Messages',
    search: true,
    body: shown.length === 0 ? empty('message', s.state.searching ? 'No results' : 'Your conversations will appear here') : shown.map(thread => {
      const [last] = thread;
      const unread = thread.some(one => one.type === INBOX && !one.read);
      return item({
        id: 'swipeableContainer', title: nameOf(last.address), under: (last.type === SENT ? 'You: ' : '') + last.body, lead: avatar(nameOf(last.address)),
        end: [when(last.date), unread && h('i.unread', {label: 'Unread', id: 'unread'})], strong: unread, tap: () => s.open('.ConversationActivity', {address: last.address}), hold: hold(thread),
      });
    }),
    fab: {icon: 'message', label: 'Start chat', text: 'Start chat', tap: () => s.open('.NewConversationActivity')},
  };
});

activity('.NewConversationActivity', async s => {
  const {rows} = await people();
  const text = (s.state.to ?? '').trim();
  const shown = rows.filter(row => row.data1 && (row.display_name + ' ' + row.data1).toLowerCase().includes(text.toLowerCase()));
  const to = address => { close(); open('.ConversationActivity', {address, compose: true}); };
  const isNumber = /^[+\d][\d\s().-]*$/.test(text);
  return {
    title: 'New conversation',
    body: [
      field({state: s.state, key: 'to', hint: 'Type a name or phone number', id: 'recipient_text_view', change: redraw, enter: () => isNumber ? to(text) : shown.length === 1 && to(shown[0].data1)}),
      isNumber && item({id: 'send_to', lead: avatar(''), title: `Send to ${text}`, tap: () => to(text)}),
      shown.map(row => item({id: 'contact_list_entry', title: row.display_name, under: row.data1, lead: avatar(row.display_name), tap: () => to(row.data1)})),
    ],
  };
});

activity('.ConversationActivity', async s => {
  const {extras = {}, data = ''} = s.parameters;
  const address = s.parameters.address ?? decodeURIComponent((data ?? '').replace(/^sms(to)?:/, '').split('?')[0]);
  s.state.text ??= extras.sms_body ?? '';
  const [all, {nameOf}] = await Promise.all([query(SMS, {sort: 'date, _id'}), people()]);
  const thread = all.filter(one => digits(one.address) === digits(address));
  const unread = thread.filter(one => one.type === INBOX && !one.read);
  if (unread.length) await update(SMS, {read: 1, seen: 1}, `_id IN (${unread.map(() => '?')})`, unread.map(one => one._id));
  const post = async () => {
    const text = s.state.text.trim();
    if (!text) return;
    s.state.text = '';
    await send(address, text);
  };
  const hold = one => () => showMenu([
    {text: 'Copy text', id: 'copy_text', tap: async () => { await ask('copy', one.body); toast('Text copied'); }},
    {text: 'Resend', id: 'resend', tap: () => send(address, one.body)},
    {text: 'Forward', id: 'forward', tap: () => open('.ForwardActivity', {body: one.body})},
    {text: 'Delete', id: 'action_delete', tap: () => remove(SMS, '_id = ?', [one._id])},
  ]);
  const bubbles = thread.map((one, index) => [
    (index === 0 || one.date - thread[index - 1].date > HOUR) && h('div.stamp', {}, `${dateText(one.date)}, ${timeText(one.date)}`),
    h(`div.bubble${one.type === SENT ? '.mine' : ''}`, {id: 'message_text', onhold: hold(one), onclick: () => {}}, one.body),
  ]);
  s.state.count = thread.length;
  return {
    title: nameOf(address),
    up: true,
    actions: [{icon: 'call', label: 'Call', id: 'action_call', tap: () => view('android.intent.action.DIAL', `tel:${address}`)}],
    menu: [{text: 'Delete conversation', id: 'action_delete', tap: async () => {
      if (!await confirmed('Delete this conversation?', 'This is permanent and can’t be undone.', 'Delete')) return;
      await remove(SMS, `_id IN (${thread.map(() => '?')})`, thread.map(one => one._id));
      await close();
    }}],
    body: h('div.thread', {}, h('div.bubbles', {id: 'list'}, h('div.turned', {}, bubbles)),
      h('div.compose', {},
        h('div.compose-box', {}, field({state: s.state, key: 'text', id: 'compose_message_text', hint: 'Text message', plain: true, lines: 1})),
        iconButton({icon: 'send', label: 'Send SMS', id: 'send_message_button_icon', tap: post}))),
  };
});

activity('.ForwardActivity', async s => {
  const {rows} = await people();
  return {
    title: 'Forward message',
    body: rows.filter(row => row.data1).map(row => item({
      id: 'contact_list_entry', title: row.display_name, under: row.data1, lead: avatar(row.display_name),
      tap: async () => { await send(row.data1, s.parameters.body); toast('Message forwarded'); await close(); },
    })),
  };
});
