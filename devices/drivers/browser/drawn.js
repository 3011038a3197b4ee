// The browser drops input in silence, and acknowledges it, until a new document's first frame is on its way to the
// screen. What comes after the callback of a frame and in a task of its own comes after that frame.
if (self === top) requestAnimationFrame(() => setTimeout(() => drawn('')));
