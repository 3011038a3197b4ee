// The keyboard on the screen. Its keys are typed by the phone into the field that has the focus.
const keyboard = (() => {
  const LETTERS = ['qwertyuiop', 'asdfghjkl', 'zxcvbnm'];
  const SYMBOLS = ['1234567890', '@#$_&-+()/', '*"\':;!?'];
  const NUMBERS = ['123', '456', '789', '*0#'];
  const BACKSPACE = 67, ENTER = 66, SPACE = ' ';
  const panel = h('div.keyboard', {id: 'keyboard'});
  let kind = null, shifted = false, symbols = false;

  const key = (text, tap, {id = 'key', label = text, content = text, style = ''} = {}) =>
    h(`button${style}`, {id, label, onclick: tap}, content);
  const letter = text => key(shifted ? text.toUpperCase() : text, () => {
    ask('type', shifted ? text.toUpperCase() : text);
    if (shifted) { shifted = false; draw(); }
  });
  const row = (...keys) => h('div.keys', {}, keys);
  const backspace = () => key('Delete', () => ask('key', BACKSPACE), {content: icon('backspace'), style: '.wide'});
  const enter = () => key(kind === 'search' ? 'Search' : 'Enter', () => ask('key', ENTER), {
    content: icon(kind === 'search' ? 'search' : 'enter'), style: '.wide.on',
  });

  const draw = () => {
    panel.classList.toggle('shown', Boolean(kind));
    if (!kind) panel.replaceChildren();
    else if (kind === 'number' || kind === 'phone') panel.replaceChildren(
      ...NUMBERS.map((keys, index) => row([...keys].map(letter), [backspace, () => letter('+'), () => letter('.'), enter][index]())));
    else {
      const rows = symbols ? SYMBOLS : LETTERS;
      const turn = key(symbols ? 'Letters' : 'Symbols', () => { symbols = !symbols; draw(); }, {content: symbols ? 'ABC' : '?123', style: '.wide'});
      const shift = key('Shift', () => { shifted = !shifted; draw(); }, {content: icon('shift', shifted), style: shifted ? '.wide.on' : '.wide'});
      panel.replaceChildren(
        row([...rows[0]].map(letter)), row([...rows[1]].map(letter)),
        row(symbols ? letter('%') : shift, [...rows[2]].map(letter), backspace()),
        row(turn, letter(','), key('Space', () => ask('type', SPACE), {content: 'English', style: '.space'}), letter('.'), enter()));
    }
  };

  return {
    panel,
    show(given) {
      if (given !== kind) { shifted = false; symbols = false; }
      kind = given;
      draw();
    },
  };
})();
