const join = (folder, name) => folder ? `${folder}/${name}` : name;
const baseName = path => path.split('/').pop();
const parentOf = path => path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : '';
const sizeText = bytes => bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1000).toFixed(2)} kB` : `${(bytes / 1e6).toFixed(2)} MB`;
const isImage = name => name.endsWith('.svg');

activity('.files.FilesActivity', async s => {
  const {state} = s;
  state.folder ??= '';
  state.chosen ??= [];
  const {carried} = state;  // {paths, copy}: what waits to be put down somewhere
  const entries = (await ask('list', state.folder)).filter(entry => found(s, entry.name))
    .sort((a, b) => b.folder - a.folder || (state.sort === 'size' && !a.folder ? b.size - a.size : state.sort === 'date' ? b.modified - a.modified : 0));
  const into = folder => { Object.assign(state, {folder, chosen: [], searching: false}); redraw(); };
  const select = path => {
    state.chosen = state.chosen.includes(path) ? state.chosen.filter(one => one !== path) : [...state.chosen, path];
    redraw();
  };
  const leave = () => {
    if (state.chosen.length) { state.chosen = []; redraw(); return true; }
    if (!state.folder) return false;
    into(parentOf(state.folder));
    return true;
  };
  const carry = copy => () => { Object.assign(state, {carried: {paths: state.chosen, copy}, chosen: []}); redraw(); };
  const putDown = async () => {
    for (const path of carried.paths) await ask(carried.copy ? 'duplicate' : 'move', path, join(state.folder, baseName(path)));
    state.carried = null;
    snackbar(`${carried.copy ? 'Copied' : 'Moved'} ${carried.paths.length === 1 ? '1 item' : `${carried.paths.length} items`}`);
    redraw();
  };
  const drop = async () => {
    const {chosen} = state;
    const what = chosen.length === 1 ? `Delete "${baseName(chosen[0])}"?` : `Delete ${chosen.length} items?`;
    if (!await confirmed(what, 'This cannot be undone.', 'OK')) return;
    state.chosen = [];
    for (const path of chosen) await ask('delete', path);
  };
  const rename = async () => {
    const [path] = state.chosen;
    const name = await askText('Rename', {value: baseName(path)});
    if (!name || name === baseName(path)) return;
    if (name.includes('/')) { toast('A name has no /'); return; }
    state.chosen = [];
    await ask('move', path, join(parentOf(path), name));
  };
  const create = async () => {
    const name = await askText('New folder', {hint: 'Folder name'});
    if (name) await ask('makeFolder', join(state.folder, name.replaceAll('/', ' ')));
  };
  const row = entry => {
    const path = join(state.folder, entry.name);
    const go = () => entry.folder ? into(path) : s.open('.ViewActivity', {path});
    return item({
      id: 'item_root', lead: entry.folder ? 'folder' : isImage(entry.name) ? 'brightness' : 'file', title: entry.name,
      under: entry.folder ? `${entry.size} ${entry.size === 1 ? 'item' : 'items'}` : `${format(entry.modified, {dateStyle: 'medium'})}, ${sizeText(entry.size)}`,
      selected: state.chosen.includes(path), tap: state.chosen.length ? () => select(path) : go, hold: () => select(path),
    });
  };
  const sort = name => ({text: `Sort by ${name}`, id: `sort_${name}`, tap: () => { state.sort = name; redraw(); }});
  return {
    title: state.chosen.length ? `${state.chosen.length} selected` : state.folder ? baseName(state.folder) : 'Internal storage',
    selecting: state.chosen.length > 0,
    up: state.folder !== '',
    back: leave,
    search: state.chosen.length === 0,
    actions: state.chosen.length > 0 && [{icon: 'del', label: 'Delete', id: 'action_menu_delete', tap: drop}],
    menu: state.chosen.length ? [
      state.chosen.length === 1 && {text: 'Rename', id: 'action_menu_rename', tap: rename},
      {text: 'Copy to…', id: 'action_menu_copy_to', tap: carry(true)},
      {text: 'Move to…', id: 'action_menu_move_to', tap: carry(false)},
    ] : [{text: 'New folder', id: 'option_menu_create_dir', tap: create}, sort('name'), sort('date'), sort('size')],
    body: [
      h('div.crumbs', {id: 'breadcrumb'}, ['sdcard', ...state.folder.split('/').filter(Boolean)].join(' › ')),
      carried && card(h('div.item', {}, h('div.words', {}, `${carried.copy ? 'Copy' : 'Move'} ${carried.paths.length === 1 ? baseName(carried.paths[0]) : `${carried.paths.length} items`} here?`),
        button({text: 'Cancel', id: 'button2', tap: () => { state.carried = null; redraw(); }}), button({text: carried.copy ? 'Copy' : 'Move', id: 'button1', kind: 'filled', tap: putDown}))),
      entries.length === 0 ? empty('folder', 'No items') : entries.map(row),
    ],
  };
});

activity('.ViewActivity', async s => {
  const {path} = s.parameters;
  const text = await ask('read', path);
  return {
    title: baseName(path),
    padded: true,
    body: isImage(path) ? h('img.picture', {id: 'image', alt: baseName(path), label: baseName(path), src: 'data:image/svg+xml,' + encodeURIComponent(text)}) : h('div.text', {id: 'text'}, text),
  };
});
