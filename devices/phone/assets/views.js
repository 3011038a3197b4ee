// What can be seen, as a tree in the terms of Android's views; boxes are cut to what shows of them.
(() => {
  const MAX_NODES = 600, MAX_TEXT = 1000;
  const ROLES = {
    switch: 'Switch', checkbox: 'CheckBox', radio: 'RadioButton', slider: 'SeekBar', tab: 'TextView', img: 'ImageView',
    combobox: 'Spinner', progressbar: 'ProgressBar', listitem: 'LinearLayout',
  };
  let left;

  const ownText = element => [...element.childNodes].filter(node => node.nodeType === 3).map(node => node.data).join('').trim();

  const className = (element, text) => {
    const role = ROLES[element.getAttribute('role')];
    if (role) return role;
    if (element.matches('input, textarea')) return 'EditText';
    if (element.localName === 'button') return text ? 'Button' : 'ImageButton';
    if (element.matches('svg, img')) return 'ImageView';
    if (scrollable(element)) return element.localName === 'ul' ? 'ListView' : 'ScrollView';
    if (text) return 'TextView';
    return element.onclick ? 'LinearLayout' : 'FrameLayout';
  };

  const scrollable = element => {
    const style = getComputedStyle(element);
    return (/auto|scroll/.test(style.overflowY) && element.scrollHeight > element.clientHeight + 1)
      || (/auto|scroll/.test(style.overflowX) && element.scrollWidth > element.clientWidth + 1);
  };

  const flagsOf = element => {
    const flags = [];
    const add = (flag, on) => { if (on) flags.push(flag); };
    const role = element.getAttribute('role');
    const field = element.matches('input, textarea');
    add('clickable', element.onclick || element.onslide || field);
    add('long', element.onhold || field);
    add('focusable', element.onclick || field);
    add('focused', element === document.activeElement && field);
    add('scrollable', scrollable(element));
    add('checkable', ['switch', 'checkbox', 'radio'].includes(role));
    add('checked', element.getAttribute('aria-checked') === 'true');
    add('disabled', element.getAttribute('aria-disabled') === 'true' || element.disabled);
    const whole = field && element === document.activeElement && element.value !== ''
      && element.selectionStart === 0 && element.selectionEnd === element.value.length;
    add('selected', element.getAttribute('aria-selected') === 'true' || whole);
    add('password', element.type === 'password');
    return flags;
  };

  const cut = (box, clip) => {
    const cutBox = [Math.max(box.left, clip[0]), Math.max(box.top, clip[1]), Math.min(box.right, clip[2]), Math.min(box.bottom, clip[3])];
    return cutBox[2] - cutBox[0] >= 1 && cutBox[3] - cutBox[1] >= 1 ? cutBox : null;
  };

  // Nodes of `element` and what is below it; an element that nobody could name or touch gives its children.
  const nodesOf = (element, clip) => {
    const style = getComputedStyle(element);
    if (left <= 0 || style.display === 'none' || style.visibility !== 'visible' || element.ariaHidden === 'true') return [];
    const box = cut(element.getBoundingClientRect(), clip);
    const inside = style.overflow === 'visible' ? clip : box;
    const field = element.matches('input, textarea');
    const text = field ? (element.value || element.placeholder || '') : ownText(element);
    const flags = flagsOf(element);
    const id = element.dataset?.id ?? '', label = element.getAttribute('aria-label') ?? '';
    const counts = box && (text || label || id || flags.includes('clickable') || flags.includes('scrollable'));
    if (counts) left -= 1;
    const children = inside && element.localName !== 'svg' ? [...element.children].flatMap(child => nodesOf(child, inside)) : [];
    if (!counts) return children;
    return [{class: 'android.widget.' + className(element, text), box, id, label, text: text.slice(0, MAX_TEXT), flags, children}];
  };

  // A dialog or menu hides what lies under it from touch, and from this tree.
  phone.views = () => {
    left = MAX_NODES;
    const clip = [0, 0, innerWidth, innerHeight];
    const over = [...document.querySelectorAll('.overlay')].pop();
    const children = nodesOf(over ?? document.body, clip);
    const tree = {class: 'android.widget.FrameLayout', box: clip, children};
    return {tree, app: phone.appTop?.() ?? 0, shows_app: phone.showsApp?.() ?? true};
  };
})();
