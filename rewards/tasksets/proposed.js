// Shows a proposed instruction on a MiniWoB++ page, and keeps which of its elements the mouse was pressed on.
((instruction, points) => {
  const NAMEABLE = 'button, input, textarea, a, h3, circle, .color';
  const ROLES = {A: 'link', H3: 'heading', TEXTAREA: 'textbox', BUTTON: 'button', circle: 'circle', DIV: 'box'};
  const role = e => ROLES[e.tagName] || {radio: 'radio button', checkbox: 'checkbox'}[e.type] || 'textbox';
  const box = e => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
  if (!('guiagentProposal' in window)) {  // once a document, however often it is set up
    const query = document.getElementById('query');
    const {startEpisodeReal, getUtterance} = core;
    let elements = [], pressed = [], own = null, said = null;
    core.startEpisodeReal = () => {  // some pages never write their own instruction anew
      if (own !== null) query.innerHTML = own;
      own = said = null;
      startEpisodeReal();
    };
    core.getUtterance = () => said ?? getUtterance();
    // At the window and in the capture phase, before the page changes; a press and not a click, since some pages
    // are over as soon as a field has the focus.
    addEventListener('mousedown', press => {
      if (press.isTrusted) pressed.push(elements.findIndex(e => e.contains(press.target)));
    }, true);
    Object.defineProperty(window, 'guiagentProposal', {value: Object.freeze({  // the page cannot put another here
      begin: (found, text) => {
        [elements, pressed] = [found, []];
        if (text === null) return;
        [own, said] = [query.innerHTML, getUtterance()];
        query.textContent = text;
      },
      elements: labels => elements.map((e, i) => ({label: labels[i], role: role(e), box: box(e)})),
      pressed: () => pressed.slice(),
    })});
  }
  guiagentProposal.begin(points.map(([x, y]) => document.elementFromPoint(x, y).closest(NAMEABLE)), instruction);
})
