// One finger. What a touch means follows from its events' own times and places, never from a timer: the same
// events always do the same, and a long press takes no longer than a tap to carry out.
(() => {
  const SLOP = 8, HOLD_MS = 400, FLING_MIN = 0.5, FLING_MS = 325, FLING_MAX = 3000;  // CSS pixels, ms
  let touch = null;

  const nearest = (element, has) => {
    while (element && element !== document && !has(element)) element = element.parentElement;
    return element && element !== document ? element : null;
  };
  const scrolls = axis => element => {
    const style = getComputedStyle(element);
    return axis === 'y'
      ? /auto|scroll/.test(style.overflowY) && element.scrollHeight > element.clientHeight
      : /auto|scroll/.test(style.overflowX) && element.scrollWidth > element.clientWidth;
  };
  const isField = element => element.matches('input, textarea');
  const enabled = element => element.getAttribute('aria-disabled') !== 'true' && !element.disabled;

  const begin = (x, y, at) => {
    const target = document.elementFromPoint(x, y);
    touch = {target, x, y, at, lastX: x, lastY: y, lastAt: at, speed: 0, axis: null, scroller: null};
    touch.slider = target && nearest(target, e => e.onslide);
    if (touch.slider) touch.slider.onslide(x);
  };

  const move = (x, y, at) => {
    if (!touch.axis && Math.hypot(x - touch.x, y - touch.y) > SLOP) {
      touch.axis = Math.abs(x - touch.x) > Math.abs(y - touch.y) ? 'x' : 'y';
      touch.scroller = touch.target && nearest(touch.target, scrolls(touch.axis));
    }
    if (touch.slider) touch.slider.onslide(x);
    else if (touch.scroller) scroll(touch.axis === 'y' ? touch.lastY - y : touch.lastX - x);
    const along = touch.axis === 'x' ? touch.lastX - x : touch.lastY - y;
    if (at > touch.lastAt) touch.speed = along / (at - touch.lastAt);
    Object.assign(touch, {lastX: x, lastY: y, lastAt: at});
  };

  const scroll = by => {
    if (touch.axis === 'y') touch.scroller.scrollTop += by; else touch.scroller.scrollLeft += by;
  };

  const end = at => {
    const {target, axis, scroller, slider} = touch;
    if (!target) return;
    if (slider) slider.onslid?.();
    else if (!axis) press(target, at - touch.at);
    else if (scroller) fling();
    else nearest(target, e => e.onswipe && enabled(e))?.onswipe(
      axis === 'x' ? (touch.lastX < touch.x ? 'left' : 'right') : (touch.lastY < touch.y ? 'up' : 'down'));
  };

  const fling = () => {
    const speed = touch.speed;
    if (Math.abs(speed) >= FLING_MIN) scroll(Math.sign(speed) * Math.min(Math.abs(speed) * FLING_MS, FLING_MAX));
  };

  const press = (target, ms) => {
    document.dispatchEvent(new CustomEvent('pressed', {detail: target}));
    const held = ms >= HOLD_MS && nearest(target, e => e.onhold);
    const pressed = held || nearest(target, e => e.onclick || isField(e));
    if (!pressed || !enabled(pressed)) return;
    if (held) held.onhold();
    else if (isField(pressed)) focusAt(pressed, ms);
    else pressed.onclick();  // not click(): that would press what it lies on as well
  };

  const focusAt = (field, ms) => {
    field.focus({preventScroll: true});
    if (ms >= HOLD_MS) field.select();
    else {
      const at = document.caretPositionFromPoint(touch.x, touch.y);
      if (at && at.offsetNode === field) field.setSelectionRange(at.offset, at.offset);
    }
    field.dispatchEvent(new CustomEvent('tapped', {bubbles: true}));
  };

  const on = (kind, handle) => document.addEventListener(kind, event => {
    event.preventDefault();  // nothing of the browser's own follows: no mouse, no scrolling, no focus
    const {clientX, clientY} = event.changedTouches[0];
    handle(clientX, clientY, event.timeStamp);
  }, {passive: false});
  on('touchstart', begin);
  on('touchmove', (x, y, at) => touch && move(x, y, at));
  on('touchend', (x, y, at) => { if (touch) { end(at); touch = null; } });
  document.addEventListener('touchcancel', () => { touch = null; });
})();
