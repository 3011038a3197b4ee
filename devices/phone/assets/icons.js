// Line icons on a grid of 24, drawn for this phone.
const ICONS = {
  add: 'M12 5v14M5 12h14',
  alarm: 'M12 8v5l3 2M5 4 2.5 6.5M19 4l2.5 2.5M12 5.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15',
  apps: 'M5 5h3v3H5zM16 5h3v3h-3zM5 16h3v3H5zM16 16h3v3h-3z',
  archive: 'M4 5h16v4H4zM6 9v10h12V9M10 13h4',
  back: 'M19 12H5M11 6l-6 6 6 6',
  backspace: 'M9 6h11v12H9l-6-6zM12 9.5l5 5M17 9.5l-5 5',
  battery: 'M8 6h8v15H8zM10.5 3.5h3M10 19h4M10 16h4M10 13h4M10 10h4',
  bluetooth: 'M7 8l10 8-5 4V4l5 4L7 16',
  brightness: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4',
  calendar: 'M4 6h16v14H4zM4 10h16M8 3.5v4M16 3.5v4',
  call: 'M6.5 4h3l1.5 4-2 1.5a12 12 0 0 0 5.5 5.5l1.5-2 4 1.5v3a2 2 0 0 1-2 2A16 16 0 0 1 4.5 6a2 2 0 0 1 2-2z',
  callEnd: 'M3.5 14.5c5-5 12-5 17 0l-2.5 2.5-3.5-1.5v-2.5a10 10 0 0 0-5 0v2.5l-3.5 1.5z',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  chevron: 'M9 5l7 7-7 7',
  chevronLeft: 'M15 5l-7 7 7 7',
  clock: 'M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17M12 7.5V12l3.5 2',
  close: 'M6 6l12 12M18 6L6 18',
  copy: 'M8 8h12v12H8zM16 8V4H4v12h4',
  dark: 'M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z',
  del: 'M5 7h14M10 4h4M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5',
  down: 'M5 9l7 7 7-7',
  edit: 'M4 20h4L19 9l-4-4L4 16zM13 7l4 4',
  enter: 'M19 6v6H6M10 8l-4 4 4 4',
  file: 'M6 3.5h8l4 4V20.5H6zM14 3.5v4h4',
  flag: 'M6 21V4h12l-2.5 4L18 12H6',
  folder: 'M3.5 6h6l2 2.5h9V19h-17z',
  heart: 'M12 20C5 15 3 12 3 9a4.5 4.5 0 0 1 9-1 4.5 4.5 0 0 1 9 1c0 3-2 6-9 11z',
  home: 'M12 4.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15',
  info: 'M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17M12 11v5.5M12 7.5v.5',
  language: 'M12 3.5a8.5 8.5 0 1 0 0 17 8.5 8.5 0 0 0 0-17M3.5 12h17M12 3.5c-5 5-5 12 0 17M12 3.5c5 5 5 12 0 17',
  list: 'M4 7h1M8 7h12M4 12h1M8 12h12M4 17h1M8 17h12',
  location: 'M12 21c-4-5-6-8-6-11a6 6 0 0 1 12 0c0 3-2 6-6 11zM12 8a2 2 0 1 0 0 4 2 2 0 0 0 0-4',
  mail: 'M3.5 6h17v12h-17zM3.5 7l8.5 6 8.5-6',
  message: 'M4 5h16v11H10l-4 4v-4H4z',
  minus: 'M5 12h14',
  more: 'M12 5v.5M12 12v.5M12 19v.5',
  navBack: 'M15.5 5v14L6 12z',
  navRecents: 'M6.5 6.5h11v11h-11z',
  note: 'M5 4h14v11l-5 5H5zM14 20v-5h5M8 8h8M8 12h5',
  notification: 'M6 17h12l-1.5-2.5V10a4.5 4.5 0 0 0-9 0v4.5zM10.5 20h3',
  pause: 'M8 5v14M16 5v14',
  person: 'M12 4a4 4 0 1 0 0 8 4 4 0 0 0 0-8M4.5 20a7.5 5.5 0 0 1 15 0',
  phone: 'M7 3h10v18H7zM11 18h2',
  plane: 'M12 3c1 0 1.5 1 1.5 2.5V9l7 4.5v2l-7-2V18l2.5 1.5V21l-4-1-4 1v-1.5l2.5-1.5v-4.5l-7 2v-2l7-4.5V5.5C10.5 4 11 3 12 3z',
  play: 'M8 5l11 7-11 7z',
  receipt: 'M5 3.5l2 1.5 2.300-1.5L12 5l2.700-1.5L17 5l2-1.5v17L17 19l-2.300 1.5L12 19l-2.700 1.5L7 19l-2 1.5zM8.5 9h7M8.5 13h7',
  repeat: 'M5 11V9a2 2 0 0 1 2-2h11M15 4l3 3-3 3M19 13v2a2 2 0 0 1-2 2H6M9 20l-3-3 3-3',
  reset: 'M6 8a7.5 7.5 0 1 1-1.5 5M6 3.5V8h4.5',
  search: 'M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13M15.5 15.5L21 21',
  send: 'M4 4l17 8-17 8 2.5-8zM6.5 12H21',
  settings: 'M12 8.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7M10.5 2.5h3l.5 3 2 1.200 2.900-1.100 1.5 2.600-2.400 2v2.600l2.400 2-1.5 2.600-2.900-1.100-2 1.200-.5 3h-3l-.5-3-2-1.200-2.900 1.100-1.5-2.600 2.400-2v-2.600l-2.400-2 1.5-2.600 2.900 1.100 2-1.200z',
  share: 'M6 9.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M18 3a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M18 16a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M8.200 10.800l7.600-4.300M8.200 13.200l7.600 4.300',
  shift: 'M12 4l8 8h-4v7H8v-7H4z',
  signal: 'M4 20L20 4v16z',
  star: 'M12 3.5l2.600 5.600 6 .7-4.5 4.100 1.200 6L12 16.900 6.700 19.900l1.200-6L3.400 9.800l6-.7z',
  storage: 'M4 5h16v5H4zM4 14h16v5H4zM7 7.5h1M7 16.5h1',
  text: 'M5 6h14M12 6v13',
  timer: 'M10 3h4M12 6.5a7 7 0 1 0 0 14 7 7 0 0 0 0-14M12 10v4',
  up: 'M5 15l7-7 7 7',
  volume: 'M4 9.5v5h4l5 4v-13l-5 4zM16 9a4.5 4.5 0 0 1 0 6M18.5 6.5a8 8 0 0 1 0 11',
  wifi: 'M3 9a13 13 0 0 1 18 0M6 12.5a8.5 8.5 0 0 1 12 0M9 16a4 4 0 0 1 6 0M12 19.5v.2',
  cart: 'M3 4h2.5l2.5 11h10l2.5-8H6.5M9 18.5a1.200 1.200 0 1 0 0 2.400 1.200 1.200 0 0 0 0-2.400M17 18.5a1.200 1.200 0 1 0 0 2.400 1.200 1.200 0 0 0 0-2.400',
};

const SVG = 'http://www.w3.org/2000/svg';

// `solid` fills the outline.
const icon = (name, solid = false) => {
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('class', solid ? 'icon solid' : 'icon');
  const path = document.createElementNS(SVG, 'path');
  path.setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
};
