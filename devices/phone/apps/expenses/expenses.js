const EXPENSES = 'content://org.guiagent.expenses/expense';
const INCOME = 2;
const CATEGORIES = [[1, 'Others'], [2, 'Income'], [3, 'Food'], [4, 'Housing'], [5, 'Social'], [6, 'Entertainment'], [7, 'Transportation'], [8, 'Clothes'], [9, 'Health care'], [10, 'Education'], [11, 'Donation']];
const categoryName = id => CATEGORIES.find(one => one[0] === id)?.[1] ?? 'Others';
const money = cents => `${cents < 0 ? '−' : ''}$${(Math.abs(cents) / 100).toFixed(2)}`;
const signed = one => one.category === INCOME ? one.amount : -one.amount;

activity('.MainActivity', async s => {
  const rows = (await query(EXPENSES, {sort: 'created_date DESC, expense_id DESC'})).filter(one => found(s, one.name, one.note, categoryName(one.category)));
  const month = rows.filter(one => startOfMonth(one.created_date) === startOfMonth(now()));
  const total = wanted => month.filter(one => (one.category === INCOME) === wanted).reduce((sum, one) => sum + one.amount, 0);
  const days = Map.groupBy(rows, one => startOfDay(one.created_date));
  return {
    title: 'Expenses',
    search: true,
    body: [
      !s.state.searching && card(h('div.totals', {},
        h('div', {}, h('div.hint', {}, format(now(), {month: 'long'}) + ' spent'), h('div.sum', {id: 'spent'}, money(total(false)))),
        h('div', {}, h('div.hint', {}, 'Income'), h('div.sum.good', {id: 'income'}, money(total(true)))))),
      rows.length === 0 ? empty('receipt', 'No expenses') : [...days].map(([day, own]) => [header(dateText(day)), own.map(one => item({
        id: 'expense', title: one.name, under: [categoryName(one.category), one.note].filter(Boolean).join(' · '), lead: avatar(categoryName(one.category)),
        end: h(`span.amount${one.category === INCOME ? '.good' : ''}`, {id: 'amount'}, money(signed(one))), tap: () => s.open('.EditActivity', {id: one.expense_id}),
      }))]),
    ],
    fab: {icon: 'add', label: 'Add expense', tap: () => s.open('.EditActivity')},
  };
});

activity('.EditActivity', async s => {
  const {state, parameters: {id}} = s;
  if (!state.loaded) {
    const [one] = id ? await query(EXPENSES, {where: 'expense_id = ?', args: [id]}) : [];
    Object.assign(state, {loaded: true, name: '', category: 1, note: '', created_date: now(), ...one, amount: one ? (one.amount / 100).toFixed(2) : ''});
  }
  const save = async () => {
    const match = state.amount.trim().match(/^(\d+)(?:[.,](\d{1,2}))?$/);
    if (!state.name.trim() || !match) { toast('An expense needs a name and an amount'); return; }
    const amount = Number(match[1]) * 100 + Number((match[2] ?? '').padEnd(2, '0'));
    const values = {name: state.name.trim(), amount, category: state.category, note: state.note.trim(), created_date: state.created_date, modified_date: now()};
    if (id) await update(EXPENSES, values, 'expense_id = ?', [id]); else await insert(EXPENSES, values);
    await close();
  };
  const drop = async () => {
    if (!await confirmed('Delete expense?', state.name, 'Delete')) return;
    await remove(EXPENSES, 'expense_id = ?', [id]);
    await close();
  };
  return {
    title: id ? 'Edit expense' : 'Add expense',
    up: true,
    actions: [id && {icon: 'del', label: 'Delete', id: 'delete', tap: drop}, {text: 'Save', id: 'save', tap: save}],
    body: [
      field({state, key: 'name', hint: 'Name'}),
      field({state, key: 'amount', hint: 'Amount', kind: 'number'}),
      chips(CATEGORIES.map(([value, label]) => ({label, value})), state.category, value => { state.category = value; redraw(); }),
      item({id: 'date', lead: 'calendar', title: format(state.created_date, {dateStyle: 'long'}), tap: async () => {
        const day = await pickDate(state.created_date);
        if (day !== undefined) { state.created_date = day + state.created_date % DAY; redraw(); }
      }}),
      field({state, key: 'note', hint: 'Note'}),
    ],
  };
});
