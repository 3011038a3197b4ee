const ROOT = 'Documents/Notes';
const join = (folder, name) => folder ? `${folder}/${name}` : name;
const baseName = path => path.split('/').pop();
const plain = name => name.replaceAll('/', ' ').trim();

// Every note below `folder`, by its path, with its text.
const everything = async folder => (await Promise.all((await ask('list', folder)).map(async entry => {
  const path = join(folder, entry.name);
  return entry.folder ? everything(path) : [{...entry, path, text: await ask('read', path)}];
}))).flat();

const folders = async (folder = ROOT) => [folder, ...(await Promise.all((await ask('list', folder)).filter(one => one.folder).map(one => folders(join(folder, one.name))))).flat()];

const removed = async paths => {
  const text = paths.length === 1 ? baseName(paths[0]) : `${paths.length} items`;
  if (!await confirmed('Confirm delete', text, 'Delete')) return false;
  for (const path of paths) await ask('delete', path);
  return true;
};

activity('.MainActivity', async s => {
  const {state} = s;
  state.folder ??= ROOT;
  state.chosen ??= [];
  const entries = state.searching && state.query ? (await everything(ROOT)).filter(one => found(s, one.name, one.text)) : await ask('list', state.folder);
  const pathOf = entry => entry.path ?? join(state.folder, entry.name);
  const select = path => {
    state.chosen = state.chosen.includes(path) ? state.chosen.filter(one => one !== path) : [...state.chosen, path];
    redraw();
  };
  const into = folder => { state.folder = folder; state.chosen = []; redraw(); };
  const leave = () => {
    if (state.chosen.length) { state.chosen = []; redraw(); return true; }
    if (state.folder === ROOT) return false;
    into(state.folder.slice(0, state.folder.lastIndexOf('/')));
    return true;
  };
  const create = () => showMenu([
    {text: 'New note', id: 'new_file', tap: async () => {
      const name = plain(await askText('New note', {hint: 'Name', ok: 'Create'}) ?? '');
      if (!name) return;
      const path = join(state.folder, /\.\w+$/.test(name) ? name : `${name}.md`);
      if ((await ask('list', state.folder)).some(one => one.name === baseName(path))) { toast(`${baseName(path)} already exists`); return; }
      await ask('write', path, '');
      await s.open('.DocumentActivity', {path, write: true});
    }},
    {text: 'New folder', id: 'new_folder', tap: async () => {
      const name = plain(await askText('New folder', {hint: 'Name', ok: 'Create'}) ?? '');
      if (name) await ask('makeFolder', join(state.folder, name));
    }},
  ]);
  const rename = async () => {
    const [path] = state.chosen;
    const name = plain(await askText('Rename', {value: baseName(path)}) ?? '');
    if (!name || name === baseName(path)) return;
    state.chosen = [];
    await ask('move', path, join(path.slice(0, path.lastIndexOf('/')), name));
  };
  const move = async () => {
    const to = await choose('Move to', (await folders()).map(one => ({label: one === ROOT ? 'Notes' : one.slice(ROOT.length + 1), value: one})));
    if (to === undefined) return;
    for (const path of state.chosen) await ask('move', path, join(to, baseName(path)));
    state.chosen = [];
    redraw();
  };
  const row = entry => {
    const path = pathOf(entry);
    const go = () => entry.folder ? into(path) : s.open('.DocumentActivity', {path});
    return item({
      id: 'note', lead: entry.folder ? 'folder' : 'note', title: entry.name, under: entry.folder ? 'Folder' : format(entry.modified, {dateStyle: 'medium', timeStyle: 'short'}),
      selected: state.chosen.includes(path), tap: state.chosen.length ? () => select(path) : go, hold: () => select(path),
    });
  };
  return {
    title: state.chosen.length ? `${state.chosen.length} selected` : state.folder === ROOT ? 'Notes' : baseName(state.folder),
    selecting: state.chosen.length > 0,
    up: state.folder !== ROOT,
    back: leave,
    search: state.chosen.length === 0,
    actions: state.chosen.length > 0 && [
      state.chosen.length === 1 && {icon: 'edit', label: 'Rename', id: 'action_rename', tap: rename},
      {icon: 'folder', label: 'Move', id: 'action_move', tap: move},
      {icon: 'del', label: 'Delete', id: 'action_delete', tap: async () => { if (await removed(state.chosen)) { state.chosen = []; redraw(); } }},
    ],
    body: entries.length === 0 ? empty('note', state.searching ? 'No notes found' : 'No notes here') : entries.map(row),
    fab: !state.chosen.length && {icon: 'add', label: 'Create a new note or folder', tap: create},
  };
});

activity('.DocumentActivity', async s => {
  const {path} = s.parameters;
  const {state} = s;
  if (state.text === undefined) {
    state.text = state.saved = await ask('read', path);
    if (s.parameters.write) s.focus = 'editor';
  }
  const save = async () => {
    if (state.text === state.saved) return;
    await ask('write', path, state.text);
    state.saved = state.text;
  };
  return {
    title: baseName(path).replace(/\.(md|txt)$/, ''),
    up: true,
    back: () => { save(); return false; },
    actions: [{icon: 'check', label: 'Save', id: 'action_save', tap: async () => { await save(); toast('Saved'); }}],
    menu: [
      {text: 'Delete', id: 'action_delete', tap: async () => { if (await removed([path])) { state.text = state.saved; await close(); } }},
    ],
    body: field({state, key: 'text', id: 'editor', hint: 'Write here', plain: true, lines: 12}),
  };
});
