const LISTS = 'content://org.guiagent.shopping/lists', ITEMS = 'content://org.guiagent.shopping/items';

activity('.MainActivity', async s => {
  const [lists, items] = await Promise.all([query(LISTS, {sort: '_id'}), query(ITEMS)]);
  const rename = async list => {
    const name = await askText('Rename list', {value: list.name});
    if (name) await update(LISTS, {name}, '_id = ?', [list._id]);
  };
  const drop = async list => {
    if (!await confirmed('Delete list?', `${list.name} and its items will be deleted.`, 'Delete')) return;
    await remove(ITEMS, 'list_id = ?', [list._id]);
    await remove(LISTS, '_id = ?', [list._id]);
  };
  const hold = list => () => showMenu([{text: 'Rename', id: 'rename', tap: () => rename(list)}, {text: 'Delete', id: 'delete', tap: () => drop(list)}]);
  return {
    title: 'Shopping lists',
    body: lists.length === 0 ? empty('cart', 'No lists yet') : lists.map(list => {
      const own = items.filter(one => one.list_id === list._id);
      return item({id: 'list', lead: 'cart', title: list.name, under: `${own.filter(one => one.checked).length} of ${own.length} in the cart`,
        tap: () => s.open('.ListActivity', {id: list._id}), hold: hold(list), end: icon('chevron')});
    }),
    fab: {icon: 'add', label: 'New list', text: 'New list', tap: async () => {
      const name = await askText('New list', {hint: 'Name', ok: 'Create'});
      if (name) await insert(LISTS, {name});
    }},
  };
});

activity('.ListActivity', async s => {
  const {id} = s.parameters;
  const {state} = s;
  const [[list], items] = await Promise.all([query(LISTS, {where: '_id = ?', args: [id]}), query(ITEMS, {where: 'list_id = ?', args: [id], sort: 'checked, _id'})]);
  if (!list) return {title: 'List', body: empty('cart', 'This list was deleted')};
  const add = async () => {
    const name = (state.name ?? '').trim();
    if (!name) return;
    state.name = '';
    await insert(ITEMS, {list_id: id, name});
  };
  const change = (one, values) => update(ITEMS, values, '_id = ?', [one._id]);
  const row = one => item({
    id: 'item', title: one.name, done: one.checked, lead: checkbox(one.checked, () => change(one, {checked: one.checked ? 0 : 1}), one.name),
    tap: () => s.open('.ItemActivity', {id: one._id}),
    end: [
      iconButton({icon: 'minus', label: `Less ${one.name}`, id: 'less', small: true, disabled: one.quantity <= 1, tap: () => change(one, {quantity: one.quantity - 1})}),
      h('span.quantity', {id: 'quantity'}, `${one.quantity}${one.unit ? ` ${one.unit}` : ''}`),
      iconButton({icon: 'add', label: `More ${one.name}`, id: 'more_of', small: true, tap: () => change(one, {quantity: one.quantity + 1})}),
    ],
    hold: () => showMenu([{text: 'Delete', id: 'delete', tap: async () => {
      await remove(ITEMS, '_id = ?', [one._id]);
      const {_id, ...values} = one;
      snackbar(`${one.name} deleted`, {text: 'Undo', tap: () => insert(ITEMS, values)});
    }}]),
  });
  return {
    title: list.name,
    menu: [
      {text: 'Delete checked items', id: 'delete_checked', tap: () => remove(ITEMS, 'list_id = ? AND checked = 1', [id])},
      {text: 'Uncheck all', id: 'uncheck', tap: () => update(ITEMS, {checked: 0}, 'list_id = ?', [id])},
    ],
    body: [
      h('div.add-row', {}, field({state, key: 'name', id: 'new_item', hint: 'Add an item', enter: add}), iconButton({icon: 'add', label: 'Add', id: 'add', tap: add})),
      items.length === 0 ? empty('cart', 'Nothing on this list') : items.map(row),
    ],
  };
});

activity('.ItemActivity', async s => {
  const {state, parameters: {id}} = s;
  if (!state.loaded) {
    const [one] = await query(ITEMS, {where: '_id = ?', args: [id]});
    if (!one) return {title: 'Item', body: empty('cart', 'This item was deleted')};
    Object.assign(state, {loaded: true, ...one, quantity: String(one.quantity)});
  }
  const save = async () => {
    const quantity = Number(state.quantity);
    if (!state.name.trim() || !Number.isInteger(quantity) || quantity < 1) { toast('An item needs a name and a whole quantity'); return; }
    await update(ITEMS, {name: state.name.trim(), quantity, unit: state.unit.trim()}, '_id = ?', [id]);
    await close();
  };
  return {
    title: 'Edit item',
    actions: [
      {icon: 'del', label: 'Delete', id: 'delete', tap: async () => { await remove(ITEMS, '_id = ?', [id]); await close(); }},
      {text: 'Save', id: 'save', tap: save},
    ],
    body: [field({state, key: 'name', hint: 'Name'}), field({state, key: 'quantity', hint: 'Quantity', kind: 'number'}), field({state, key: 'unit', hint: 'Unit'})],
  };
});
