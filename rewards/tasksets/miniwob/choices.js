// Pages on which something is chosen: boxes, lists, dates, menus, tabs, drawn shapes, numbers.
({all, one, text, query, shown, press, submit, tick, choose, hover, pickDate}) => {
  const between = (before, after) => query().slice(query().indexOf(before) + before.length, query().lastIndexOf(after));
  const listed = (names, name) => `, ${names}, `.includes(`, ${name}, `);
  const boxes = wanted => [...all('#area label').flatMap(label => tick(one('input', label), wanted(text(label)))), ...submit()];
  const named = () => boxes(name => listed(between('Select ', ' and click'), name));
  const similar = () => {
    const words = between('similar to ', ' and click');
    return boxes(name => SYNONYMS.some(group => group.includes(name) && group.some(word => listed(words, word))));
  };
  const radio = () => [...tick(one('input', all('#area label').find(e => text(e) === between('Select ', ' and click')))), ...submit()];
  const fromList = () => [...choose(one('#options'), between('Select ', ' from the list')), ...press(one('#area button'))];
  const fromListSeveral = () => {
    const names = between('Select ', ' from the scroll list');
    const missing = [...one('#options').options].filter(e => listed(names, text(e)) && !e.selected);
    return [...missing.flatMap(e => press(e, {modifiers: ['Control']})), ...press(one('#area > button'))];
  };
  const date = () => {
    const wanted = /\d+\/\d+\/\d+/.exec(query())[0];
    return one('#datepicker').value === wanted ? submit() : pickDate(wanted);
  };
  const menu = () => {
    const items = query().slice('Select '.length).split('>').map(name => all('#menu li > div').find(e => text(e) === name));
    const closed = items.findIndex(e => !shown(e));
    return closed > 0 ? hover(items[closed - 1], items[closed]) : press(items.at(-1));
  };
  const iconMenu = () => {
    const icon = one('#query .ui-icon'), label = /labeled "(.*)"/.exec(query());
    const wanted = all('#menu li > div').find(e => icon ? one('.ui-icon', e)?.className === icon.className : text(e) === label[1]);
    if (!shown(one('#menu'))) return press(one('#open-menu'));
    const parent = one(':scope > div', wanted.closest('ul').parentElement);
    return shown(wanted) ? press(wanted) : hover(parent, wanted);
  };
  const link = () => all('.alink').find(e => text(e) === /link "(.*)"/.exec(query())[1]);
  const tabbed = () => {
    const found = link();
    if (!found) return press(all('.ui-tab a')[1]);
    return press(shown(found) ? found : one(`a[href="#${found.closest('.ui-tabs-panel').id}"]`));
  };
  const folded = () => press(shown(link()) ? link() : link().closest('.ui-accordion-content').previousElementSibling);
  const shades = () => {
    const [, colour] = /shades of (\w+)/.exec(query());
    const missing = all('#area span').filter(e => e.dataset.color === colour && !e.matches('.selected'));
    return [...missing.flatMap(e => press(e)), ...submit()];
  };
  const TAGS = {rect: 'rectangle', circle: 'circle', polygon: 'triangle'};
  const large = e => e.tagName === 'text' ? parseFloat(e.getAttribute('font-size')) > 15 : e.getBBox().width > 15;
  const nouns = e => e.tagName in TAGS ? ['item', 'shape', TAGS[e.tagName]]
    : ['item', /\d/.test(text(e)) ? 'digit' : 'letter', text(e)];
  const shapes = description => {
    const words = description.split(' '), noun = words.pop();
    const fits = (e, word) => word === 'large' || word === 'small' ? large(e) === (word === 'large') : e.getAttribute('fill') === word;
    return all('#area_svg > *').filter(e => nouns(e).includes(noun) && words.every(word => fits(e, word)));
  };
  const shape = () => press(shapes(/Click on an? (.*)/.exec(query())[1]).find(e => shown(e)));
  const count = () => {
    const number = shapes(/How many (.*)s are there/.exec(query())[1]).length;
    return press(all('#count-buttons button').find(e => Number(text(e)) === number));
  };
  const parity = () => [...all('#numbers .row').flatMap(row => {
    const button = one(Number(text(one('.display-number', row))) % 2 ? '.odd' : '.even', row);
    return button.matches('.selected') ? [] : press(button);
  }), ...submit()];
  const pattern = () => {
    const digit = PATTERNS[Number(/"(\d)"/.exec(query())[1])].flat();
    return [...all('#checkboxes input').flatMap((e, i) => tick(e, digit[i] === 1)), ...submit()];
  };
  const ascending = () => all('#area_svg text').length ? press(all('#area_svg text')[0]) : press(one('#area_svg rect'));
  const generate = () => {
    const number = parseInt(text(one('#display-number'))), bound = Number(/\d+/.exec(query())?.[0]);
    const good = /less/.test(query()) ? number < bound : /greater/.test(query()) ? number > bound
      : number % 2 === (/odd/.test(query()) ? 1 : 0);
    return press(one(good ? '#submit' : '#generate'));
  };
  const greatest = () => {
    const cards = all('.card'), card = cards.reduce((a, b) => Number(text(b)) > Number(text(a)) ? b : a);
    return [...(card.matches('.hidden') ? press(card) : []), ...submit()];
  };
  const fromDropdown = () => {
    const [, wanted, label] = /Choose (.*) from the dropdown.*"(.*)"/.exec(query());
    const item = all('.selectric-items li').find(e => text(e) === wanted);
    return [...(one('#dropdown').value === wanted ? [] : press(shown(item) ? item : one('.selectric'))),
      ...press(all('#buttons button').find(e => text(e) === label))];
  };
  // The first item is chosen already, and remade under the pointer that rests on it: it hears a click only while the menu grows.
  const pie = () => {
    const switching = one('#wheelnav-divWheel-spreadertitle'), label = /"(.*)"/.exec(query())[1];
    const item = all('#divWheel text').find(e => e !== switching && text(e) === label), first = item.id.endsWith('-0');
    const grown = Number(/matrix\(([\d.]+)/.exec(item.getAttribute('transform'))?.[1] ?? 1) > 0.95;
    if (text(switching) === '+' || first && grown) return press(switching);
    return grown || first ? press(item) : [{type: 'wait', ms: 300}];
  };
  const ticket = () => {
    const by = /duration/.test(query()) ? e => Number(one('.time-duration', e).dataset.duration)
      : e => Number(one('.buy-ticket', e).dataset.price);
    const sign = /cheapest|shortest/.test(query()) ? 1 : -1;
    return press(one('.buy-ticket', all('.flight').reduce((a, b) => sign * by(b) < sign * by(a) ? b : a)));
  };
  return {
    'click-checkboxes': named,
    'click-checkboxes-large': named,
    'click-checkboxes-transfer': named,
    'click-checkboxes-soft': similar,
    'click-option': radio,
    'choose-list': fromList,
    'click-scroll-list': fromListSeveral,
    'choose-date': date,
    'choose-date-easy': date,
    'choose-date-medium': date,
    'choose-date-nodelay': date,
    'click-menu': menu,
    'click-menu-2': iconMenu,
    'click-link': () => press(link()),
    'click-tab-2': tabbed,
    'click-tab-2-easy': tabbed,
    'click-tab-2-medium': tabbed,
    'click-tab-2-hard': tabbed,
    'click-collapsible-2': folded,
    'click-collapsible-2-nodelay': folded,
    'click-collapsible-nodelay': () => press(all('.ui-accordion-content').some(shown) ? one('#subbtn') : one('#area h3')),
    'click-shades': shades,
    'click-shape': shape,
    'count-shape': count,
    'odd-or-even': parity,
    'number-checkboxes': pattern,
    'ascending-numbers': ascending,
    'generate-number': generate,
    'find-greatest': greatest,
    'buy-ticket': ticket,
    'click-pie': pie,
    'form-sequence-3': fromDropdown,
    'unicode-test': () => press(all('#area button').find(e => e.innerHTML === /the "(.*)" button/.exec(one('#query').innerHTML)[1])),
  };
}
