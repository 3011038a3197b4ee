const PAGE_OF = 'content://com.android.launcher3/favorites';

const appIcon = app => h('span.app-icon', {style: {background: app.color}},
  h('img', {src: 'data:image/svg+xml,' + encodeURIComponent(app.icon), alt: ''}));

const launchable = (app, hold) => h('button.app', {
  id: 'icon', label: app.label, onclick: () => start(app.package), onhold: hold,
}, appIcon(app), h('span.app-label', {}, app.label));

const places = async () => {
  const [apps, favorites] = await Promise.all([ask('apps'), query(PAGE_OF, {sort: 'position'})]);
  const known = new Map(apps.map(app => [app.package, app]));
  const placed = favorites.filter(one => known.has(one.package)).map(one => ({...one, ...known.get(one.package)}));
  return {apps, home: placed.filter(one => !one.dock), dock: placed.filter(one => one.dock)};
};

activity('.Launcher', async s => {
  const {home, dock} = await places();
  const drawer = () => s.open('.AllAppsActivity');
  const hold = app => () => showMenu([
    {text: 'Remove', id: 'remove', tap: () => remove(PAGE_OF, '_id = ?', [app._id])},
    {text: 'App info', id: 'app_info', tap: () => start('com.android.settings', '.AppInfoActivity', `package:${app.package}`)},
  ]);
  return {
    back: () => true,
    body: h('div.home', {id: 'workspace', onswipe: direction => direction === 'up' && drawer()},
      h('div.glance', {}, h('div.glance-time', {id: 'clock'}, timeText(now())), h('div.glance-date', {id: 'date'}, dateText(now()))),
      h('div.apps', {}, home.map(app => launchable(app, hold(app)))),
      h('button.drawer-handle', {id: 'all_apps', label: 'Apps list', onclick: drawer}, icon('up')),
      h('div.dock', {id: 'hotseat'}, dock.map(app => launchable(app, hold(app))))),
  };
});

activity('.AllAppsActivity', async s => {
  const {apps, home} = await places();
  const shown = apps.filter(app => app.label.toLowerCase().includes((s.state.text ?? '').trim().toLowerCase()));
  const hold = app => () => showMenu([
    {text: 'Add to Home screen', id: 'add', tap: async () => {
      await insert(PAGE_OF, {package: app.package, dock: 0, position: home.length});
      toast(`${app.label} added`);
    }},
    {text: 'App info', id: 'app_info', tap: () => start('com.android.settings', '.AppInfoActivity', `package:${app.package}`)},
  ]);
  return {
    body: [
      h('div.drawer-search', {}, icon('search'), field({state: s.state, key: 'text', id: 'search_text', hint: 'Search apps', plain: true, kind: 'search',
        change: redraw, enter: () => shown[0] && start(shown[0].package)})),
      shown.length === 0 && empty('apps', 'No apps found'),
      h('div.apps.all', {}, shown.map(app => launchable(app, hold(app)))),
    ],
  };
});

activity('.RecentsActivity', async s => {
  const [apps, tasks] = await Promise.all([ask('apps'), ask('tasks')]);
  const known = new Map(apps.map(app => [app.package, app]));
  const shown = tasks.map(name => known.get(name)).filter(Boolean);
  return {
    title: 'Recent apps',
    up: false,
    actions: [shown.length > 0 && {text: 'Clear all', id: 'clear_all', tap: () => tasks.forEach(name => ask('dismiss', name))}],
    body: shown.length === 0 ? empty('apps', 'No recent items') : shown.map(app => h('div.task', {
      id: 'task', label: app.label, onclick: () => start(app.package), onswipe: direction => /left|right/.test(direction) && ask('dismiss', app.package),
    }, appIcon(app), h('div.task-label', {}, app.label),
    iconButton({icon: 'close', label: `Dismiss ${app.label}`, id: 'dismiss', tap: () => ask('dismiss', app.package)}))),
  };
});
