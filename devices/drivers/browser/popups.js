// Native popups are windows of their own: no screenshot shows them, and under begin-frame control the browser waits
// for them for ever. So dropdowns are drawn in the page, where an agent can see and click them, and the pickers of
// dates and colours stay shut; their fields take typed text.
const sheet = new CSSStyleSheet();
sheet.replaceSync(`select { appearance: base-select !important }
                   ::picker(select) { appearance: base-select !important }`);
document.adoptedStyleSheets.push(sheet);
addEventListener('click', event => {
  if (/^(color|date|datetime-local|month|time|week)$/.test(event.target.type)) event.preventDefault();
}, true);
