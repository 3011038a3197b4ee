const RECIPES = 'content://org.guiagent.recipes/recipes';

activity('.MainActivity', async s => {
  const rows = (await query(RECIPES, {sort: 'title COLLATE NOCASE'})).filter(one => found(s, one.title, one.description, one.ingredients) && (!s.state.favorites || one.favorite));
  return {
    title: 'Recipes',
    search: true,
    tabs: [
      {text: 'All recipes', on: !s.state.favorites, tap: () => { s.state.favorites = false; redraw(); }},
      {text: 'Favorites', on: s.state.favorites, tap: () => { s.state.favorites = true; redraw(); }},
    ],
    body: rows.length === 0 ? empty('heart', 'No recipes') : rows.map(one => item({
      id: 'card_text_view', title: one.title, under: one.description, lead: avatar(one.title), end: Boolean(one.favorite) && icon('heart', true),
      tap: () => s.open('.RecipeActivity', {id: one.recipeId}),
    })),
    fab: {icon: 'add', label: 'New recipe', tap: () => s.open('.EditActivity')},
  };
});

activity('.RecipeActivity', async s => {
  const {id} = s.parameters;
  const [one] = await query(RECIPES, {where: 'recipeId = ?', args: [id]});
  if (!one) return {title: 'Recipe', body: empty('heart', 'This recipe was deleted')};
  const drop = async () => {
    if (!await confirmed('Delete recipe?', one.title, 'Delete')) return;
    await remove(RECIPES, 'recipeId = ?', [id]);
    await close();
  };
  const part = (name, text) => text && [header(name), h('div.recipe-text', {id: name.toLowerCase()}, text)];
  return {
    title: one.title,
    actions: [
      {icon: 'heart', solid: Boolean(one.favorite), label: one.favorite ? 'Remove from favorites' : 'Add to favorites', id: 'favorite', tap: () => update(RECIPES, {favorite: one.favorite ? 0 : 1}, 'recipeId = ?', [id])},
      {icon: 'edit', label: 'Edit', id: 'edit', tap: () => s.open('.EditActivity', {id})},
    ],
    menu: [{text: 'Delete', id: 'delete', tap: drop}],
    body: [
      one.description && h('div.recipe-text', {id: 'description'}, one.description),
      item({lead: 'person', title: one.servings || 'Servings not given'}), item({lead: 'clock', title: one.preparationTime || 'Time not given'}),
      part('Ingredients', one.ingredients), part('Directions', one.directions), part('Source', one.source),
    ],
  };
});

const FIELDS = ['title', 'description', 'servings', 'preparationTime', 'source', 'ingredients', 'directions'];

activity('.EditActivity', async s => {
  const {state, parameters: {id}} = s;
  if (!state.loaded) {
    const [one] = id ? await query(RECIPES, {where: 'recipeId = ?', args: [id]}) : [];
    Object.assign(state, {loaded: true}, Object.fromEntries(FIELDS.map(name => [name, one?.[name] ?? ''])));
  }
  const save = async () => {
    const values = Object.fromEntries(FIELDS.map(name => [name, state[name].trim()]));
    if (!values.title) { toast('A recipe needs a title'); return; }
    if (id) await update(RECIPES, values, 'recipeId = ?', [id]); else await insert(RECIPES, values);
    await close();
  };
  return {
    title: id ? 'Edit recipe' : 'New recipe',
    up: true,
    actions: [{text: 'Save', id: 'save', tap: save}],
    body: [
      field({state, key: 'title', hint: 'Title'}), field({state, key: 'description', hint: 'Description'}), field({state, key: 'servings', hint: 'Servings'}),
      field({state, key: 'preparationTime', hint: 'Preparation time', id: 'preparation_time'}), field({state, key: 'source', hint: 'Source'}),
      field({state, key: 'ingredients', hint: 'Ingredients', lines: 4}), field({state, key: 'directions', hint: 'Directions', lines: 4}),
    ],
  };
});
