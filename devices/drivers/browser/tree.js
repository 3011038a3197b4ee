// The visible elements a person could name or touch, in document order, at most LIMIT of them.
(() => {
  const LIMIT = 500, nodes = [];
  const root = document.body || document.documentElement;
  if (!root) return nodes;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT);
  for (let e = walker.currentNode; e && nodes.length < LIMIT; e = walker.nextNode()) {
    const box = e.getBoundingClientRect();
    if (box.width < 1 || box.height < 1 || box.bottom < 0 || box.right < 0) continue;
    if (box.top > innerHeight || box.left > innerWidth || getComputedStyle(e).visibility !== 'visible') continue;
    const own = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data.trim()).join(' ').trim();
    const name = e.getAttribute('aria-label') || own || e.getAttribute('alt') || e.getAttribute('title') || '';
    const touchable = /^(A|BUTTON|INPUT|SELECT|TEXTAREA|LABEL|OPTION|SUMMARY)$/.test(e.tagName) || e.onclick;
    if (!name && !touchable) continue;
    nodes.push({role: (e.getAttribute('role') || e.tagName.toLowerCase()).slice(0, 40), name: name.slice(0, 200),
      value: String(e.value ?? '').slice(0, 200),
      box: [box.left, box.top, box.width, box.height].map(Math.round)});
  }
  return nodes;
})()
