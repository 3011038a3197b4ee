// Run in a blank page with a user's gesture. `wipe` leaves an empty clipboard; `field` makes a place to paste into, and
// `read` takes what was pasted and the place away.
({
  wipe() {
    addEventListener('copy', e => { e.clipboardData.setData('text/plain', ''); e.preventDefault(); }, {once: true});
    return document.execCommand('copy');
  },
  field() {
    const field = document.body.appendChild(document.createElement('div'));
    field.contentEditable = 'true';
    field.focus();
  },
  read() {
    const field = document.body.lastElementChild, html = field.innerHTML;
    field.remove();
    return html;
  },
})
