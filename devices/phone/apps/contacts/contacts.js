const CONTACTS = 'content://com.android.contacts/contacts';
const TYPES = [['Home', 1], ['Mobile', 2], ['Work', 3], ['Other', 7]];
const typeName = value => TYPES.find(type => type[1] === value)?.[0] ?? 'Other';

const row = (s, person) => item({
  id: 'contact', title: person.display_name, lead: avatar(person.display_name), end: Boolean(person.starred) && icon('star', true),
  tap: () => s.open('.DetailActivity', {id: person._id}),
});

activity('.PeopleActivity', async s => {
  const people = (await query(CONTACTS, {sort: 'display_name COLLATE NOCASE'})).filter(person => found(s, person.display_name, person.number, person.email));
  const favorites = s.state.tab === 1;
  const shown = favorites ? people.filter(person => person.starred) : people;
  const groups = Map.groupBy(shown, person => person.display_name[0]?.toUpperCase() ?? '');
  return {
    title: 'Contacts',
    search: true,
    body: shown.length === 0 ? empty('person', s.state.searching ? 'No contacts found' : favorites ? 'No favorites yet' : 'No contacts yet')
      : [...groups].map(([letter, members]) => [header(letter), members.map(person => row(s, person))]),
    bottom: [
      {icon: 'person', text: 'Contacts', on: !favorites, tap: () => { s.state.tab = 0; redraw(); }},
      {icon: 'star', text: 'Favorites', on: favorites, tap: () => { s.state.tab = 1; redraw(); }},
    ],
    fab: {icon: 'add', label: 'Create contact', tap: () => s.open('.EditActivity')},
  };
});

activity('.DetailActivity', async s => {
  const [person] = await query(CONTACTS, {where: '_id = ?', args: [s.parameters.id]});
  if (!person) return {title: 'Contact', body: empty('person', 'This contact was deleted')};
  const drop = async () => {
    if (!await confirmed('Delete contact?', `${person.display_name} will be removed.`, 'Delete')) return;
    await remove(CONTACTS, '_id = ?', [person._id]);
    await close();
  };
  const star = () => update(CONTACTS, {starred: person.starred ? 0 : 1}, '_id = ?', [person._id]);
  return {
    title: '',
    actions: [
      {icon: 'star', solid: Boolean(person.starred), label: person.starred ? 'Remove from favorites' : 'Add to favorites', id: 'menu_star', tap: star},
      {icon: 'edit', label: 'Edit contact', id: 'menu_edit', tap: () => s.open('.EditActivity', {id: person._id})},
    ],
    menu: [{text: 'Delete', id: 'menu_delete', tap: drop}],
    body: [
      h('div.hero', {}, avatar(person.display_name, true), h('div.big', {id: 'name'}, person.display_name), person.company && h('div', {id: 'company'}, person.company)),
      card(
        person.number && item({id: 'phone', lead: 'call', title: person.number, under: typeName(person.number_type), tap: () => view('android.intent.action.DIAL', `tel:${person.number}`),
          end: iconButton({icon: 'message', label: 'Text', id: 'text', tap: () => view('android.intent.action.SENDTO', `smsto:${person.number}`)})}),
        person.email && item({id: 'email', lead: 'mail', title: person.email, under: 'Email'})),
    ],
  };
});

activity('.EditActivity', async s => {
  const {id, extras = {}} = s.parameters;
  if (!s.state.loaded) {
    const [person] = id ? await query(CONTACTS, {where: '_id = ?', args: [id]}) : [];
    const [first = '', ...last] = (person?.display_name ?? extras.name ?? '').split(' ');
    Object.assign(s.state, {
      loaded: true, first, last: last.join(' '), company: person?.company ?? extras.company ?? '', number: person?.number ?? extras.phone ?? '',
      number_type: person?.number_type ?? 2, email: person?.email ?? extras.email ?? '',
    });
  }
  const {state} = s;
  const save = async () => {
    const values = {
      display_name: `${state.first} ${state.last}`.trim() || state.number.trim() || state.email.trim(),
      number: state.number.trim(), number_type: state.number_type, email: state.email.trim(), company: state.company.trim(),
    };
    if (!values.display_name) { toast('A contact needs a name or a number'); return; }
    if (id) await update(CONTACTS, values, '_id = ?', [id]); else await insert(CONTACTS, values);
    toast('Contact saved');
    await close();
  };
  return {
    title: id ? 'Edit contact' : 'Create contact',
    up: true,
    actions: [{text: 'Save', id: 'editor_menu_save_button', tap: save}],
    body: [
      field({state, key: 'first', hint: 'First name', id: 'first_name'}),
      field({state, key: 'last', hint: 'Last name', id: 'last_name'}),
      field({state, key: 'company', hint: 'Company'}),
      field({state, key: 'number', hint: 'Phone', id: 'phone', kind: 'phone'}),
      chips(TYPES.map(([label, value]) => ({label, value})), state.number_type, value => { state.number_type = value; redraw(); }),
      field({state, key: 'email', hint: 'Email'}),
    ],
  };
});
