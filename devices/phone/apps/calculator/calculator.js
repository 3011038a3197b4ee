const HISTORY = 'content://com.android.calculator2/history';
const SIGNS = {'+': [1, (a, b) => a + b], '−': [1, (a, b) => a - b], '×': [2, (a, b) => a * b], '÷': [2, (a, b) => a / b], '^': [3, (a, b) => a ** b]};

// The value of a formula, by precedence climbing; undefined where it is not one.
const evaluate = formula => {
  const tokens = formula.match(/\d+\.?\d*|\.\d+|[-+−×÷^%()√]/g) ?? [];
  if (tokens.join('') !== formula) return undefined;
  let at = 0;
  const atom = () => {
    const token = tokens[at++];
    let number;
    if (token === '−') number = -binary(2);
    else if (token === '√') number = Math.sqrt(atom());
    else if (token === '(') { number = binary(1); if (tokens[at] === ')') at += 1; }
    else number = /^[\d.]/.test(token ?? '') ? Number(token) : NaN;
    while (tokens[at] === '%') { number /= 100; at += 1; }
    return number;
  };
  const binary = least => {
    let left = atom();
    while (SIGNS[tokens[at]]?.[0] >= least) {
      const [rank, apply] = SIGNS[tokens[at++]];
      left = apply(left, binary(rank === 3 ? rank : rank + 1));
    }
    return left;
  };
  const number = binary(1);
  return at === tokens.length && !Number.isNaN(number) ? number : undefined;
};

const shown = number => Number.isFinite(number) ? String(Number(number.toPrecision(12))).replace('-', '−') : '∞';
const KEYS = ['C', '( )', '%', '÷', '7', '8', '9', '×', '4', '5', '6', '−', '1', '2', '3', '+', '√', '0', '.', '='];
const NAMES = {'C': 'clr', '( )': 'parens', '%': 'op_pct', '÷': 'op_div', '×': 'op_mul', '−': 'op_sub', '+': 'op_add', '√': 'op_sqrt', '.': 'dec_point', '=': 'eq'};
const LABELS = {'C': 'clear', '( )': 'parentheses', '%': 'percent', '÷': 'divide', '×': 'multiply', '−': 'minus', '+': 'plus', '√': 'square root', '.': 'point', '=': 'equals'};

activity('.Calculator', async s => {
  const {state} = s;
  state.formula ??= '';
  const opens = [...state.formula].filter(one => one === '(').length - [...state.formula].filter(one => one === ')').length;
  const result = evaluate(state.formula + ')'.repeat(Math.max(opens, 0)));
  const press = async key => {
    if (key === 'C') Object.assign(state, {formula: '', done: false});
    else if (key === '=') {
      if (result === undefined) { if (state.formula) toast('This is no complete formula'); return; }
      await insert(HISTORY, {formula: state.formula, result: shown(result)});
      Object.assign(state, {formula: shown(result), done: true});
    } else {
      const fresh = state.done && /[\d.√(]/.test(key);
      const sign = key === '( )' ? (opens > 0 && /[\d.)%]$/.test(state.formula) ? ')' : '(') : key;
      state.formula = ((fresh ? '' : state.formula) + sign).slice(0, 60);
      state.done = false;
    }
    redraw();
  };
  return {
    title: 'Calculator',
    menu: [{text: 'History', id: 'menu_history', tap: () => s.open('.HistoryActivity')}],
    body: h('div.calculator', {},
      h('div.formula', {id: 'formula'}, state.formula || '0'),
      h('div.preview', {id: 'result_preview'}, !state.done && result !== undefined && shown(result) !== state.formula ? shown(result) : ' '),
      h('div.delete-row', {}, iconButton({icon: 'backspace', label: 'delete', id: 'del', tap: () => { Object.assign(state, {formula: state.formula.slice(0, -1), done: false}); redraw(); }})),
      h('div.grid.calculator-keys', {}, KEYS.map(key => h(`button.calculator-key${/\d|\./.test(key) ? '' : key === '=' ? '.equals' : '.sign'}`, {
        id: NAMES[key] ?? `digit_${key}`, label: LABELS[key] ?? key, onclick: () => press(key),
      }, key)))),
  };
});

activity('.HistoryActivity', async () => {
  const rows = await query(HISTORY, {sort: '_id DESC'});
  return {
    title: 'History',
    menu: [{text: 'Clear', id: 'menu_clear_history', tap: () => remove(HISTORY)}],
    body: rows.length === 0 ? empty('clock', 'No history') : rows.map(row => item({id: 'history', title: row.formula, under: `= ${row.result}`})),
  };
});
