// Pages with something to find first: mail, results, contacts, files.
({all, one, text, query, bold, shown, press, fill}) => {
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
  const inboxes = ['delete', 'forward', 'forward-nl', 'important', 'noscroll', 'reply', 'star-reply'];
  return {
    ...Object.fromEntries(inboxes.map(kind => ['email-inbox-' + kind, mail])),
    'search-engine': search,
    'phone-book': contact,
    'navigate-tree': file,
  };
}
