// Dialogs for a day and for a time of day.

// Midnight (UTC ms) of the day that was chosen, or undefined.
const pickDate = ms => {
  const state = {month: startOfMonth(ms), day: startOfDay(ms)};
  const holder = h('div');
  const draw = () => holder.replaceChildren(
    h('div.hero', {}, h('div.big', {id: 'date'}, dateText(state.day))),
    monthBar(state.month, month => { state.month = month; draw(); }),
    h('div', {style: {padding: '0 12px'}}, monthGrid({month: state.month, chosen: state.day, tap: day => { state.day = day; draw(); }})));
  draw();
  return dialog({body: holder, id: 'datePicker', buttons: [
    {text: 'Cancel', id: 'button2'}, {text: 'OK', id: 'button1', value: () => state.day},
  ]});
};

// Minutes since midnight, or undefined. Hours are typed as the clock is set: 1 to 12 with AM and PM, or 0 to 23.
const pickTime = (minutes, title = 'Enter time') => {
  const hour = Math.floor(minutes / 60);
  const state = {
    hour: String(hour24() ? hour : hour % 12 || 12), minute: String(minutes % 60).padStart(2, '0'), late: hour >= 12,
  };
  const number = (key, label, enter) => {
    const box = field({state, key, id: key, hint: label, kind: 'number', plain: true, enter});
    box.classList.remove('plain');
    box.setAttribute('aria-label', label);
    box.addEventListener('tapped', () => box.select());
    return box;
  };
  const typed = () => {
    const [hours, mins] = [Number(state.hour), Number(state.minute)];
    const whole = hour24() ? hours : hours % 12 + (state.late ? 12 : 0);
    const right = Number.isInteger(hours) && Number.isInteger(mins) && mins >= 0 && mins < 60
      && (hour24() ? hours >= 0 && hours < 24 : hours >= 1 && hours <= 12);
    if (right) return whole * 60 + mins;
    toast('That is no time of day');
    return undefined;
  };
  const half = (text, late) => h('button', {id: late ? 'pm' : 'am', 'aria-selected': String(state.late === late), onclick: () => {
    state.late = late;
    halves.replaceChildren(half('AM', false), half('PM', true));
  }}, text);
  const halves = h('div.halves', {});
  halves.append(half('AM', false), half('PM', true));
  const minute = number('minute', 'Minute', () => closeOverlayWith(typed()));
  const body = h('div.clockface', {}, number('hour', 'Hour', () => { minute.focus(); minute.select(); }), ':', minute, !hour24() && halves);
  return dialog({title, body, id: 'timePicker', buttons: [
    {text: 'Cancel', id: 'button2'}, {text: 'OK', id: 'button1', value: typed},
  ]});
};
