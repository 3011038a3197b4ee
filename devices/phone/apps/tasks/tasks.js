const TASKS = 'content://org.guiagent.tasks/tasks';
const PRIORITIES = [['High', 0], ['Medium', 1], ['Low', 2], ['None', 3]];
const TINTS = ['#c5221f', '#e37400', '#1967d2', '#80868b'];

activity('.MainActivity', async s => {
  const rows = (await query(TASKS, {sort: 'importance, dueDate = 0, dueDate, _id'})).filter(task => found(s, task.title, task.notes));
  const [open_, done] = [rows.filter(task => !task.completed), rows.filter(task => task.completed)];
  const turn = task => update(TASKS, {completed: task.completed ? 0 : now()}, '_id = ?', [task._id]);
  const row = task => item({
    id: 'task', title: task.title, done: task.completed, lead: checkbox(task.completed, () => turn(task), task.title),
    under: task.dueDate ? `${task.dueDate < startOfDay(now()) && !task.completed ? 'Overdue · ' : ''}${dateText(task.dueDate)}` : '',
    end: Boolean(task.importance < 3) && h('span', {style: {color: TINTS[task.importance]}}, icon('flag', true)), tap: () => s.open('.TaskActivity', {id: task._id}),
  });
  return {
    title: 'Tasks',
    search: true,
    menu: [
      {text: s.state.all ? 'Hide completed' : 'Show completed', id: 'show_completed', tap: () => { s.state.all = !s.state.all; redraw(); }},
      {text: 'Clear completed', id: 'clear_completed', tap: () => remove(TASKS, 'completed > 0')},
    ],
    body: [
      open_.length === 0 && empty('check', 'There are no tasks here'), open_.map(row),
      (s.state.all || s.state.searching) && done.length > 0 && [header('Completed'), done.map(row)],
    ],
    fab: {icon: 'add', label: 'Create new task', tap: () => s.open('.TaskActivity')},
  };
});

activity('.TaskActivity', async s => {
  const {state, parameters: {id}} = s;
  if (!state.loaded) {
    const [task] = id ? await query(TASKS, {where: '_id = ?', args: [id]}) : [];
    Object.assign(state, {loaded: true, title: '', notes: '', importance: 2, dueDate: 0, ...task});
  }
  const save = async () => {
    const values = {title: state.title.trim(), notes: state.notes.trim(), importance: state.importance, dueDate: state.dueDate};
    if (!values.title) { toast('A task needs a title'); return; }
    if (id) await update(TASKS, values, '_id = ?', [id]); else await insert(TASKS, {...values, created: now()});
    await close();
  };
  const drop = async () => {
    if (!await confirmed('Delete task?', state.title, 'Delete')) return;
    await remove(TASKS, '_id = ?', [id]);
    await close();
  };
  return {
    title: id ? 'Edit task' : 'New task',
    up: true,
    actions: [id && {icon: 'del', label: 'Delete', id: 'delete', tap: drop}, {text: 'Save', id: 'save', tap: save}],
    body: [
      field({state, key: 'title', hint: 'Title'}),
      header('Priority'), chips(PRIORITIES.map(([label, value]) => ({label, value})), state.importance, value => { state.importance = value; redraw(); }),
      item({id: 'due', lead: 'calendar', title: state.dueDate ? format(state.dueDate, {dateStyle: 'full'}) : 'No due date', tap: async () => {
        const day = await pickDate(state.dueDate || now());
        if (day !== undefined) { state.dueDate = day; redraw(); }
      }, end: state.dueDate > 0 && iconButton({icon: 'close', label: 'Clear due date', id: 'clear_due', tap: () => { state.dueDate = 0; redraw(); }})}),
      field({state, key: 'notes', hint: 'Notes', lines: 4}),
    ],
  };
});
