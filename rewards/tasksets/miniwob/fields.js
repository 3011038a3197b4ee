// Pages whose answer is typed, or set with a slider or a spinner.
({all, one, text, query, bold, press, submit, fill, fillParts, tick, slide, shown, scrollTo}) => {
  const enter = (wanted, field = one('#tt, #answer-input, #math-answer')) => [...fill(field, wanted), ...submit()];
  const quoted = () => /"(.*)"/.exec(query())[1];
  const login = () => one('#popup') ? press(one('#popup-cancel'))
    : (([, user, password]) => [...fill(one('#username'), user), ...fill(one('#password'), password), ...submit()])(
      /username "(.*)" and the password "(.*)" into/.exec(query()));
  const password = () => [...fill(one('#password'), quoted()), ...fill(one('#verify'), quoted()), ...submit()];
  const cased = () => enter(/upper case/.test(query()) ? quoted().toUpperCase() : quoted().toLowerCase());
  const date = () => {
    const [, month, day, year] = /(\d+)\/(\d+)\/(\d+)/.exec(query());
    return [...fillParts(one('#tt'), `${year}-${month}-${day}`, month + day + year), ...submit()];
  };
  const time = () => {
    const [, hour, minute, half] = /(\d+):(\d+)\s*([AP]M)/.exec(query());
    const two = number => String(number).padStart(2, '0');
    const value = `${two(hour % 12 + (half === 'PM' ? 12 : 0))}:${minute}`;
    return [...fillParts(one('#tt'), value, two(hour) + minute + half), ...submit()];
  };
  const COUNT = {'+': (a, b) => a + b, '-': (a, b) => a - b, 'x': (a, b) => a * b};
  const arithmetic = () => {
    const [a, sign, b] = text(one('#math-problem')).split(' ');
    return enter(String(COUNT[sign](Number(a), Number(b))));
  };
  const algebra = () => {
    const [a, sign, b, , sum] = text(one('#math-problem')).split(' ');
    return enter(String(a === 'x' ? (sign === '+' ? sum - b : Number(sum) + Number(b)) : (sign === '+' ? sum - a : a - sum)));
  };
  const nthWord = () => enter(text(one('#area p')).split(/\s+/)[parseInt(/(\d+)(st|nd|rd|th)/.exec(query())[1]) - 1]
    .replace(/[^a-zA-Z]/g, ''));
  const table = () => Object.fromEntries(all('#tab tr').map(row => all('td', row).map(text)));
  const labelled = () => [...['1', '2'].flatMap(n => fill(one('#tt' + n), table()[text(one('#ll' + n)).slice(0, -1)])), ...submit()];
  const film = () => {
    const [genre, director, year] = bold();
    const wanted = {genre, director, year, released: year};
    const row = field => text(field.closest('tr, p, .row, .field, .ui-entry'));
    const typed = all('#area input').flatMap(e => fill(e, wanted[/genre|director|year|released/i.exec(row(e))[0].toLowerCase()]));
    return [...typed, ...press(one('#area button, #area .final, #area .ui-submit'))];
  };
  const completed = () => {
    const [start, end = ''] = bold(), field = one('#tags');
    const wanted = ui_utils.COUNTRIES.find(e => e.startsWith(start) && e.endsWith(end));
    if (field.value === wanted) return submit();
    const offered = all('.ui-autocomplete li').find(e => text(e) === wanted);
    if (offered && shown(offered)) return press(offered);
    return field.value === start ? [{type: 'wait', ms: 400}] : fill(field, start);
  };
  const spin = () => {
    const left = parseInt(/Select (-?\d+)/.exec(query())[1]) - parseInt(one('#spinner').value);
    const button = one(left > 0 ? '.ui-spinner-up' : '.ui-spinner-down');
    return [...Array(Math.abs(left)).fill(0).flatMap(() => press(button)), ...submit()];
  };
  const ordinal = word => parseInt(new RegExp(`(\\d)(st|nd|rd) ${word}`).exec(query())[1]) - 1;
  const slideAndTick = () => [...slide(one('#slider'), parseInt(/Select (-?\d+)/.exec(query())[1])),
    ...tick(all('#area input')[ordinal('checkbox')]), ...submit()];
  const radioAndType = () => [...tick(all('#area input[type=radio]')[ordinal('radio')]),
    ...fill(all('#area input[type=text]')[ordinal('textbox')], quoted()), ...submit()];
  const sliders = () => [...JSON.parse(/\[.*\]/.exec(query())[0]).flatMap((n, i) => slide(one(`#slider-${i + 1}`), n)), ...submit()];
  const guess = () => {
    const said = all('#feedback div').find(shown), number = one('span', said);
    const next = !number ? 5 : Number(text(number)) + (said.id === 'lower' ? -1 : 1);
    return enter(String(next));
  };
  const command = () => {
    const ending = /extension (\.\S+)/.exec(query());
    const file = currentFiles.find(name => ending ? name.endsWith(ending[1]) : !name.includes('.'));
    const rest = [{type: 'type', text: `rm ${file}`, submit: true}];
    return document.activeElement === one('#terminal-target') ? rest : [...press(one('#terminal')), ...rest];
  };
  const lastWord = () => enter(one('#text-area').value.split(/\s/).at(-1).replace('.', ''), one('#answer-input'));
  const scrolled = () => [...scrollTo(one('#text-area'), /to the bottom/.test(query())), ...submit()];
  const sign = () => {
    const name = /the name "(.*)" then press "(.*)"/.exec(query());
    if (!name) return press(one('#cancel'));
    if (one('#name').disabled) return scrollTo(one('#text-area'), true);
    return [...fill(one('#name'), name[1]), ...press(one(name[2] === 'Agree' ? '#agree' : '#cancel'))];
  };
  // The picker stands open over the button until something else is clicked.
  const colour = hex => {
    const typed = fill(one('#col'), hex.slice(1).toUpperCase());
    return typed.length || !one('.jscolor-active') ? [...typed, ...submit()] : press(one('#query'));
  };
  const hexOf = rgb => '#' + rgb.match(/\d+/g).map(part => Number(part).toString(16).padStart(2, '0')).join('');
  return {
    'enter-text': () => enter(quoted()),
    'enter-text-2': cased,
    'enter-text-dynamic': () => enter(quoted()),
    'enter-password': password,
    'login-user': login,
    'login-user-popup': login,
    'text-transform': () => enter(text(one('#captcha'))),
    'enter-date': date,
    'enter-time': time,
    'simple-arithmetic': arithmetic,
    'simple-algebra': algebra,
    'visual-addition': () => enter(String(all('.addition-block').length)),
    'find-word': nthWord,
    'copy-paste': () => enter(one('#to-copy').value),
    'copy-paste-2': () => enter(one(`#text-${/(\d)(st|nd|rd)/.exec(query())[1]}`).value),
    'read-table': () => enter(table()[bold()[0]]),
    'read-table-2': labelled,
    'multi-layouts': film,
    'multi-orderings': film,
    'use-autocomplete': completed,
    'use-autocomplete-nodelay': completed,
    'use-spinner': spin,
    'use-slider': () => [...slide(one('#slider'), parseInt(/Select (-?\d+)/.exec(query())[1])), ...submit()],
    'use-slider-2': sliders,
    'form-sequence': slideAndTick,
    'form-sequence-2': radioAndType,
    'scroll-text': lastWord,
    'scroll-text-2': scrolled,
    'sign-agreement': sign,
    'use-colorwheel': () => colour(ui_utils.colorNameToHex(/Select (\w+) with/.exec(query())[1])),
    'use-colorwheel-2': () => colour(hexOf(one('.cc').style.backgroundColor)),
    'guess-number': guess,
    'terminal': command,
  };
}
