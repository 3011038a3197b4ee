// What a page of page.js can be asked for: wholly on the screen, nothing over its middle or edges, said of it alone.
(() => {
  const all = [...document.querySelectorAll('[data-say]')], times = {};
  for (const {dataset: {say}} of all) times[say] = (times[say] || 0) + 1;
  return all.flatMap(element => {
    const {left, top, right, bottom} = element.getBoundingClientRect(), {kind, say} = element.dataset;
    const x = (left + right) / 2, y = (top + bottom) / 2;
    const spots = [[x, y], [x, top + 1], [x, bottom - 1], [left + 1, y], [right - 1, y]];
    const whole = left >= 0 && top >= 0 && right <= innerWidth && bottom <= innerHeight;
    const bare = whole && spots.every(spot => element.contains(document.elementFromPoint(...spot)));
    return bare && times[say] === 1 ? [[kind, say, [left, top, right, bottom]]] : [];
  });
})()
