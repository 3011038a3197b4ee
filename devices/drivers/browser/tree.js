// What on the page a person could name or touch, parents first: roles, names and states as WAI-ARIA and the
// mapping of HTML to it (html-aam) have them. At most LIMIT nodes, of at most VISITS elements.
(() => {
  const LIMIT = 500, VISITS = 100000, DEPTH = 300, MAX_NAME = 400, MAX_VALUE = 1000;
  const ROLES = {
    A: 'link', ARTICLE: 'article', ASIDE: 'complementary', BLOCKQUOTE: 'blockquote', BUTTON: 'button', CAPTION: 'caption',
    CODE: 'code', DD: 'definition', DETAILS: 'group', DIALOG: 'dialog', DT: 'term', FIGURE: 'figure', FORM: 'form',
    FIELDSET: 'group', H1: 'heading', H2: 'heading', H3: 'heading', H4: 'heading', H5: 'heading', H6: 'heading',
    HR: 'separator', IFRAME: 'document', IMG: 'image', LI: 'listitem', MAIN: 'main', METER: 'meter', NAV: 'navigation',
    OL: 'list', OPTION: 'option', OUTPUT: 'status', P: 'paragraph', PROGRESS: 'progressbar', SUMMARY: 'button',
    TABLE: 'table', TD: 'cell', TEXTAREA: 'textbox', TH: 'columnheader', TR: 'row', UL: 'list', svg: 'image',
  };
  const INPUTS = {
    button: 'button', checkbox: 'checkbox', file: 'button', image: 'button', number: 'spinbutton', radio: 'radio',
    range: 'slider', reset: 'button', search: 'searchbox', submit: 'button', color: 'button',
  };
  const NAMED_BY_CONTENT = new Set(['button', 'checkbox', 'columnheader', 'gridcell', 'heading', 'link', 'menuitem',
    'menuitemcheckbox', 'menuitemradio', 'option', 'radio', 'rowheader', 'switch', 'tab', 'tooltip', 'treeitem']);
  const CONTROLS = new Set([...NAMED_BY_CONTENT, 'combobox', 'listbox', 'searchbox', 'slider', 'spinbutton', 'textbox']);
  for (const role of ['columnheader', 'gridcell', 'heading', 'rowheader', 'tooltip']) CONTROLS.delete(role);
  const TEXT_FIELDS = /^(textbox|searchbox|spinbutton|combobox)$/;
  const MUTE = /^(SCRIPT|STYLE|TEMPLATE|NOSCRIPT|SELECT|TEXTAREA|INPUT|IFRAME)$/;  // their text is not the page's
  const LABELLED = /^(BUTTON|INPUT|METER|OUTPUT|PROGRESS|SELECT|TEXTAREA)$/;
  const nodes = [];
  let visits = 0;

  const is = (e, attribute, value = 'true') => e.getAttribute(`aria-${attribute}`) === value;
  const hidden = e => is(e, 'hidden') || e.inert === true;  // a form's properties may be its fields, by their names
  const tidy = text => text.replace(/\s+/g, ' ').trim().slice(0, MAX_NAME);

  // The text that shows in an element, with what stands for its pictures.
  const said = (e, depth = 0) => {
    let text = '';
    for (const child of e.childNodes) {
      if (text.length > MAX_NAME || depth > DEPTH || ++visits > VISITS) break;
      if (child.nodeType === 3) text += child.data;
      if (child.nodeType !== 1 || MUTE.test(child.tagName) || hidden(child)) continue;
      const style = getComputedStyle(child);
      if (style.display === 'none' || style.visibility !== 'visible') continue;
      const instead = child.getAttribute('aria-label') || child.getAttribute('alt');
      const gap = style.display.startsWith('inline') && !instead ? '' : ' ';
      text += gap + (instead || said(child, depth + 1)) + gap;
    }
    return text;
  };

  const ownText = e => e.tagName === 'DETAILS' && !e.open ? '' : [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join(' ');

  const roleOf = e => {
    for (const role of (e.getAttribute('role') || '').toLowerCase().split(/\s+/)) {
      if (role === 'img') return 'image';
      if (role === 'none' || role === 'presentation') return 'generic';
      if (/^[a-z]{1,32}$/.test(role)) return role;
    }
    const tag = e.tagName;
    if (tag === 'INPUT') return INPUTS[e.type] || 'textbox';
    if (tag === 'SELECT') return e.multiple || e.size > 1 ? 'listbox' : 'combobox';
    if (tag === 'A' && !e.hasAttribute('href')) return 'generic';
    if (tag === 'TH' && e.scope === 'row') return 'rowheader';
    if (e.isContentEditable && !e.parentElement?.isContentEditable) return 'textbox';
    return ROLES[tag] || 'generic';
  };

  // https://www.w3.org/TR/accname-1.2/, without its recursion into what names the name.
  const nameOf = (e, role) => {
    const named = (e.getAttribute('aria-labelledby') || '').split(/\s+/).slice(0, 16)
      .map(id => id && e.getRootNode().getElementById?.(id)).filter(Boolean);
    const told = named.map(other => other.getAttribute('aria-label') || said(other)).join(' ').trim()
      || e.getAttribute('aria-label')
      || [...(LABELLED.test(e.tagName) && e.labels || [])].slice(0, 16).map(label => said(label)).join(' ').trim()
      || (e.tagName === 'INPUT' && role === 'button' && e.type !== 'file' && (e.alt || e.value
        || {submit: 'Submit', reset: 'Reset'}[e.type]))
      || (e.tagName === 'IMG' && e.getAttribute('alt'))
      || (e.tagName === 'FIELDSET' && e.querySelector(':scope > legend') && said(e.querySelector(':scope > legend')))
      || (e.tagName === 'svg' && e.querySelector(':scope > title')?.textContent)
      || (e.tagName === 'IFRAME' ? '' : NAMED_BY_CONTENT.has(role) ? said(e) : MUTE.test(e.tagName) || TEXT_FIELDS.test(role)
        ? '' : ownText(e));
    return tidy(told || '') || tidy(e.getAttribute('title') || e.getAttribute('placeholder') || '');
  };

  const valueOf = (e, role) => {
    if (e.type === 'password' || role === 'checkbox' || role === 'radio' || role === 'option') return '';
    if (e.tagName === 'SELECT') return [...e.selectedOptions].slice(0, 32).map(option => option.text).join(', ');
    if (e.tagName === 'INPUT' && e.type !== 'file' && role === 'button') return e.type === 'color' ? e.value : '';
    if (e.tagName === 'PROGRESS' || e.tagName === 'METER') return String(e.value);
    if (e.tagName === 'INPUT' || e.tagName === 'TEXTAREA') return e.value;
    const told = e.getAttribute('aria-valuetext') ?? e.getAttribute('aria-valuenow');
    return told ?? (TEXT_FIELDS.test(role) ? said(e).trim() : '');
  };

  const statesOf = (e, role, clickable) => {
    const editable = TEXT_FIELDS.test(role) && (e.isContentEditable || /^(INPUT|TEXTAREA)$/.test(e.tagName));
    const readonly = e.readOnly === true || is(e, 'readonly');
    const opens = e.tagName === 'SUMMARY' ? e.parentElement?.open : e.tagName === 'SELECT' && role === 'combobox' ? false : null;
    const states = {
      busy: is(e, 'busy'),
      checked: e.type === 'checkbox' || e.type === 'radio' ? e.checked && !e.indeterminate : is(e, 'checked'),
      clickable,
      collapsed: opens === false || is(e, 'expanded', 'false'),
      disabled: e.matches(':disabled') || is(e, 'disabled'),
      editable: editable && !readonly,
      expanded: opens === true || is(e, 'expanded'),
      focused: e === e.getRootNode().activeElement && e.tagName !== 'BODY',
      invalid: !!e.ariaInvalid && !is(e, 'invalid', 'false'),
      mixed: e.indeterminate === true && e.type === 'checkbox' || is(e, 'checked', 'mixed') || is(e, 'pressed', 'mixed'),
      modal: is(e, 'modal') || e.tagName === 'DIALOG' && e.matches(':modal'),
      password: e.type === 'password',
      pressed: is(e, 'pressed'),
      readonly: readonly && TEXT_FIELDS.test(role),
      required: e.required === true || is(e, 'required'),
      selected: e.tagName === 'OPTION' ? e.selected : is(e, 'selected'),
    };
    return Object.keys(states).filter(state => states[state]);
  };

  // The largest of the lines that a link covers: the middle of all of them may be beside it.
  const boxOf = e => {
    const rects = [...e.getClientRects()].slice(0, 64);
    const largest = rects.reduce((best, one) => one.width * one.height > best.width * best.height ? one : best, {width: 0, height: 0});
    return largest.width * largest.height > 0 ? largest : e.getBoundingClientRect();
  };

  const cut = (box, clip) => ({
    left: Math.max(box.left, clip.left), top: Math.max(box.top, clip.top),
    right: Math.min(box.right, clip.right), bottom: Math.min(box.bottom, clip.bottom),
  });

  // `at`: where the document lies on the screen (x, y), what of it shows (clip), the node around (parent),
  // whether that is named by what stands in it (said), and whether the pointer is a hand there.
  const walk = (e, at) => {
    if (nodes.length >= LIMIT || ++visits > VISITS || at.depth > DEPTH || hidden(e) || e.tagName === 'SCRIPT') return;
    const style = getComputedStyle(e);
    if (style.display === 'none') return;
    const box = boxOf(e);
    const place = {left: box.left + at.x, top: box.top + at.y, right: box.left + at.x + box.width, bottom: box.top + at.y + box.height};
    const screen = {left: 0, top: 0, right: innerWidth, bottom: innerHeight};
    const clip = style.position === 'fixed' ? cut(screen, screen) : at.clip;
    const part = cut(place, clip);
    const shows = style.visibility === 'visible' && box.width >= 1 && box.height >= 1
      && part.right > part.left && part.bottom > part.top;
    const inside = {...at, clip, depth: at.depth + 1, hand: style.cursor === 'pointer'};
    if (shows) {
      const role = roleOf(e);
      const clickable = !CONTROLS.has(role) && (!!e.onclick || style.cursor === 'pointer' && !at.hand);
      const name = nameOf(e, role);
      if (CONTROLS.has(role) || clickable || name && !(at.said && (role === 'generic' || role === 'image' || role === 'paragraph'))) {
        nodes.push({
          role: role === 'generic' && name ? 'text' : role, name, value: valueOf(e, role).slice(0, MAX_VALUE),
          box: [place.left, place.top, box.width, box.height].map(Math.round),
          id: String(nodes.length), parent: at.parent, states: statesOf(e, role, clickable),
        });
        inside.parent = String(nodes.length - 1);
        inside.said = NAMED_BY_CONTENT.has(role);
      }
    }
    if (style.overflowX !== 'visible' || style.overflowY !== 'visible') {
      const whole = e.getBoundingClientRect();
      if (e !== root && e !== document.documentElement) inside.clip = cut({left: whole.left + at.x, top: whole.top + at.y,
        right: whole.right + at.x, bottom: whole.bottom + at.y}, clip);
    }
    if (e.tagName === 'svg') return;
    if (e.tagName === 'IFRAME') {
      const page = e.contentDocument;  // null if it comes from elsewhere
      const x = place.left + e.clientLeft, y = place.top + e.clientTop;
      if (page?.documentElement) walk(page.documentElement, {...inside, x, y, hand: false,
        clip: cut({left: x, top: y, right: x + e.clientWidth, bottom: y + e.clientHeight}, clip)});
      return;
    }
    const slotted = e.tagName === 'SLOT' ? e.assignedElements() : [];
    for (const child of slotted) walk(child, inside);
    if (slotted.length) return;
    for (let child = (e.shadowRoot || e).firstElementChild; child; child = child.nextElementSibling) walk(child, inside);
  };

  const root = document.body || document.documentElement;
  if (root) walk(root, {x: 0, y: 0, clip: {left: 0, top: 0, right: innerWidth, bottom: innerHeight}, parent: null, depth: 0,
    said: false, hand: false});
  return nodes;
})()
