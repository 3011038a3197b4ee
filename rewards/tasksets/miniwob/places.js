// Pages with something to find first: mail, results, contacts, files.
({all, one, text, query, bold, shown, spot, press, fill, wheelTo, pickDate}) => {
  const TASKS = [['reply', /reply to them/], ['forward', /forward that/], ['delete', /trash/], ['star', /star icon/]];
  const asked = () => {
    const said = core.getUtterance();
    if (typeof said !== 'string') return {task: 'forward', ...said.fields};
    const [by, second] = bold();
    return {task: TASKS.find(([, pattern]) => pattern.test(said))[0], by, to: second, message: second};
  };
  const mail = () => {
    const {task, by, to, message} = asked();
    if (one('#reply')) return [...fill(one('#reply-text'), message), ...press(one('#send-reply'))];
    if (one('#forward')) return [...fill(one('#forward .forward-sender'), to), ...press(one('#send-forward'))];
    const icon = {delete: '.trash', star: '.star'}[task];
    if (one('#email')) return press(one('#email ' + (icon || `.email-${task}`)));
    const row = all('#main .email-thread').find(e => text(one('.email-sender', e)) === by);
    return press(one(icon || '.email-sender', row));
  };
  const turnTo = label => press(all('#pagination .page-item').filter(shown).map(e => one('a', e)).find(e => text(e) === label));
  const search = () => {
    const [name, position] = bold(), place = parseInt(position) - 1, first = one('#page-content a');
    const typed = fill(one('#search-text'), name);
    if (typed.length || !first || first.dataset.result === '-1') return [...typed, ...press(one('#search'))];
    const found = one(`#page-content a[data-result="${place}"]`);
    return found ? press(found) : turnTo(String(Math.floor(place / 3) + 1));
  };
  const contact = () => {
    const [, name, what] = /Find (.*) in the contact book and click on their (\w+)/.exec(query());
    return text(one('#contact .name')) === name ? press(one(`#contact a.${what}`)) : turnTo('>');
  };
  const file = () => {
    const found = all('#tree span').filter(e => text(e) === /named "(.*)"/.exec(query())[1]);
    const visible = found.find(shown);
    if (visible) return press(visible);
    const folders = all('#tree li').filter(e => e.contains(found[0])).map(e => one(':scope > span', e)).filter(shown);
    return press(folders.at(-1));
  };
  // The keys of ACTIONS are the classes of a post's buttons; "more" opens those that are not shown.
  const posts = (user, label) => {
    const kind = Object.keys(ACTIONS).find(name => ACTIONS[name] === label);
    return all('.media').filter(e => text(one('.username', e)) === user).map(e => one('.' + kind, e));
  };
  const post = () => {
    const [button] = posts(...bold());
    return press(shown(button) ? button : one('.more', button.closest('.media')));
  };
  const allPosts = () => {
    const [label, ...rest] = bold(), buttons = posts(rest.at(-1), label).slice(0, rest.length > 1 ? Number(rest[0]) : undefined);
    return [...buttons.filter(e => !e.matches('.active')).flatMap(e => press(e)), ...press(one('#submitRow button'))];
  };
  const order = () => {
    const items = all('.food-item'), named = /of each item: (.*)/.exec(query()), kind = /Order (\d) items that are (\S+)/.exec(query());
    const first = items.find(e => all('.types img', e).some(picture => picture.alt === kind?.[2]));
    const wanted = e => named ? Number(named[1].split(', ').includes(text(one('.item-name', e)))) : e === first ? Number(kind[1]) : 0;
    const missing = items.flatMap(e => Array(wanted(e) - Number(e.dataset.quantity)).fill(one('.add', e)));
    return [...missing.flatMap(e => press(e)), ...press(one('#submit-order button'))];
  };
  const meeting = () => {
    const [, size, unit, name, from] = /Create a (\S+) (hour|min)s? event named "(.*)", between (\w+)/.exec(query());
    if (one('#create-event')) return [...fill(one('#event-name'), name), ...press(one('#create-event .create'))];
    const halves = size / (unit === 'hour' ? 0.5 : 30), first = 2 * CALENDAR_TIMES.indexOf(from.toLowerCase());
    // An event lies where its times are, which need not be over the half-hours that were dragged over: fonts move those.
    const area = one('#area'), topOf = i => 20.42 * i + 4, taken = all('.event').map(e => [e.offsetTop, e.offsetTop + e.offsetHeight]);
    const free = i => !taken.some(([top, bottom]) => top < topOf(i + 1) && bottom > topOf(i));
    const runs = Array.from({length: 9 - halves}, (_, i) => Array.from({length: halves}, (_, j) => first + i + j));
    const run = runs.find(run => run.every(free)) || runs[0];
    const bare = e => Array.from({length: 40}, (_, i) => spot(e, i / 40)).find(([x, y]) => document.elementFromPoint(x, y) === e);
    const cells = [run[0], run.at(-1)].map(i => one('#hh-' + i)), [start, end] = cells.map(bare);
    if (!start || !end) return wheelTo(cells[0]);
    const {left, top} = area.getBoundingClientRect(), made = [left + 80, Math.round(top + topOf(run[0]) + 8 - area.scrollTop)];
    return [{type: 'drag', path: [start, [start[0], start[1] + 1], end, made, [made[0], made[1] + 1]]}];
  };
  const flight = () => {
    const [wanted, from, to, date] = bold(), results = all('.flight');
    if (results.length) {
      const by = wanted === 'cheapest' ? e => Number(one('.flight-price', e).dataset.price) : e => Number(one('.time-duration', e).dataset.duration);
      return press(one('.flight-price', results.reduce((a, b) => by(b) < by(a) ? b : a)));
    }
    const offered = all('.ui-autocomplete li').find(e => shown(e) && all('.flight-input').some(field => field.value === text(e)));
    if (offered) return press(offered);
    const named = place => DOMESTIC_FLIGHTS.find(name => name.replace(/(\s\()|(\))/g, '_').split('_').includes(place));
    const typed = [['#flight-from', from], ['#flight-to', to]].flatMap(([field, place]) => fill(one(field), named(place)));
    return typed.length ? typed : one('#datepicker').value === date ? press(one('#search')) : pickDate(date);
  };
  const inboxes = ['delete', 'forward', 'forward-nl', 'important', 'noscroll', 'reply', 'star-reply', 'nl-turk', 'forward-nl-turk'];
  return {
    ...Object.fromEntries(inboxes.map(kind => ['email-inbox-' + kind, mail])),
    'email-inbox': mail,
    'social-media': post,
    'social-media-all': allPosts,
    'social-media-some': allPosts,
    'order-food': order,
    'daily-calendar': meeting,
    'book-flight': flight,
    'book-flight-nodelay': flight,
    'search-engine': search,
    'phone-book': contact,
    'navigate-tree': file,
  };
}
