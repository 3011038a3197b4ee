// What the steps of MiniWoB++ pages are made of: each returns the actions that are left to do, [] if it is done already.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);
  const text = e => e.textContent.trim();
  const query = () => (said => typeof said === 'string' ? said : said.utterance)(core.getUtterance());
  const bold = () => all('#query .bold, #query b').map(e => e.textContent);
  const shown = e => e.checkVisibility({visibilityProperty: true}) && e.getBoundingClientRect().height > 0;
  const spot = (e, fx = 0.5, fy = 0.5) => {
    const {left, top, width, height} = e.getBoundingClientRect();
    return [Math.floor(left + width * fx), Math.floor(top + height * fy)];
  };
  const inside = ([x, y]) => x >= 0 && y >= 0 && x < innerWidth && y < innerHeight;
  const hits = (e, [x, y]) => (top => top === e || e.contains(top))(document.elementFromPoint(x, y));
  const PARTS = [0.5, 0.15, 0.85].flatMap(fx => [0.5, 0.15, 0.85].map(fy => [fx, fy]));
  const touchable = e => PARTS.map(([fx, fy]) => spot(e, fx, fy)).find(point => inside(point) && hits(e, point));
  const scrolls = e => e.scrollHeight > e.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(e).overflowY);
  const scroller = e => !e ? document.scrollingElement : scrolls(e) ? e : scroller(e.parentElement);
  // Wheel over what scrolls until the element is in its middle.
  const wheelTo = e => {
    const box = scroller(e.parentElement);
    const [x, y] = box === document.scrollingElement ? [innerWidth >> 1, innerHeight >> 1] : spot(box);
    return [{type: 'scroll', x, y, dy: spot(e)[1] - y}];
  };
  // Wheel over what scrolls by itself to one of its ends.
  const scrollTo = (e, end) => {
    const left = end ? e.scrollHeight - e.clientHeight - e.scrollTop : -e.scrollTop, [x, y] = spot(e);
    return Math.abs(left) < 1 ? [] : [{type: 'scroll', x, y, dy: Math.ceil(Math.abs(left)) * Math.sign(left)}];
  };
  const clickAt = ([x, y], more = {}) => [{type: 'click', x, y, ...more}];
  const press = (e, more) => !e ? [] : (at => at ? clickAt(at, more) : wheelTo(e))(touchable(e));
  const submit = () => press(one('#subbtn, #submit'));
  const focus = e => document.activeElement === e ? [] : press(e);
  const fill = (e, wanted) => e.value === wanted ? [] : [...focus(e), {type: 'type', text: wanted, clear: e.value !== ''}];
  // Fields for dates and times have parts, of which a click on the left edge chooses the first.
  const fillParts = (e, wanted, typed) => {
    if (e.value === wanted) return [];
    const {left, top, height} = e.getBoundingClientRect();
    const first = clickAt([Math.floor(left + 8), Math.floor(top + height / 2)]);
    return [...(document.activeElement === e ? [] : first), {type: 'type', text: typed}];
  };
  const tick = (e, on = true) => e.checked === on ? [] : press(e);
  // A dropdown shows its options after a click on it.
  const choose = (select, wanted) => {
    const option = [...select.options].find(e => text(e) === wanted);
    return option.selected ? [] : shown(option) && select.matches(':open') ? press(option) : [...press(select), ...press(option)];
  };
  // A field opens a calendar of one month, which has buttons to go to others; `wanted` is month/day/year.
  const pickDate = wanted => {
    const [month, day, year] = wanted.split('/').map(Number), picker = one('#ui-datepicker-div');
    if (!picker || !shown(picker)) return press(one('#datepicker'));
    const {dataset} = one('td[data-month]', picker), away = 12 * (year - dataset.year) + month - 1 - dataset.month;
    if (away) return Array(Math.abs(away)).fill(0).flatMap(() => press(one(away < 0 ? '.ui-datepicker-prev' : '.ui-datepicker-next')));
    return press(all('td a', picker).find(e => Number(text(e)) === day));
  };
  const drag = (from, to) => {
    const part = t => from.map((start, i) => Math.max(0, Math.round(start + (to[i] - start) * t)));
    return [{type: 'drag', path: [0, 0.1, 0.3, 0.5, 0.7, 0.9, 1, 1].map(part)}];
  };
  const key = (...keys) => [{type: 'key', keys}];
  // Pull the handle near to the value, then go on with arrow keys: a long range has several values a pixel.
  const slide = (slider, wanted) => {
    const at = $(slider).slider('value'), {min, max, orientation} = $(slider).slider('option');
    if (at === wanted) return [];
    const handle = one('.ui-slider-handle', slider), upright = orientation === 'vertical';
    const {width, height} = slider.getBoundingClientRect();
    const pull = (upright ? -height : width) * (wanted - at) / (max - min), [x, y] = spot(handle);
    if (document.activeElement === handle && (Math.abs(pull) < 1 || Math.abs(wanted - at) <= 2))
      return key(wanted > at ? 'ArrowRight' : 'ArrowLeft');
    return drag([x, y], upright ? [x, y + pull] : [x + pull, y]);
  };
  // A part of a menu opens a moment after the pointer has come to rest on it; a click on it would choose it.
  const hover = (e, opens) => shown(opens) ? [] : e.classList.contains('ui-state-active') || e.matches(':hover')
    ? [{type: 'wait', ms: 400}] : (([x, y]) => [{type: 'move', x, y}])(touchable(e) || spot(e));
  return {all, one, text, query, bold, shown, spot, touchable, clickAt, press, submit, fill, fillParts, tick, choose,
    drag, slide, hover, scrollTo, wheelTo, pickDate};
})()
