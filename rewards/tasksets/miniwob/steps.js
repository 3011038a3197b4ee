// Of a page of steps: the actions that are left, none if nobody knows, and what can be clicked, with its words. Reads the page; never acts.
(hands, families, page) => {
  const {all, text, shown, touchable} = hands;
  if (WOB_DONE_GLOBAL) return {candidates: [], labels: [], goal: []};
  const found = all('#area *').filter(e => !e.children.length && shown(e) && touchable(e));
  const pages = Object.assign({}, ...families.map(family => family(hands)));
  return {candidates: found.map(touchable), labels: found.map(text), goal: pages[page]?.() ?? []};
}
