// Numbers of the next frame and of the next timer that the document would ask for, and whether anything moves by
// itself. Asking again gives the next numbers, unless the page has asked for some of its own in between.
(() => {
  const frame = requestAnimationFrame(() => {}), timer = setTimeout(() => {});
  cancelAnimationFrame(frame);
  clearTimeout(timer);
  return [frame, timer, frames.length > 0 || document.getAnimations().length > 0];
})()
