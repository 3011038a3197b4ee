// Native popups are windows of their own: no screenshot shows them, and under begin-frame control the browser waits
// for them for ever. So dropdowns are drawn in the page, where an agent can see and click them, and the pickers of
// dates and colours stay shut; their fields take typed text. What a click on a field for files or on a link to a
// download leads to shows nowhere either: `clicked` tells it, so that a step can wait for it.
const sheet = new CSSStyleSheet();
sheet.replaceSync(`select { appearance: base-select !important }
                   ::picker(select) { appearance: base-select !important }`);
document.adoptedStyleSheets.push(sheet);
addEventListener('click', event => {
  const path = event.composedPath();
  if (path[0].type === 'file') clicked('file');
  else if (path.some(node => node.localName === 'a' && node.hasAttribute('download'))) clicked('download');
  if (/^(color|date|datetime-local|month|time|week)$/.test(event.target.type)) event.preventDefault();
}, true);
