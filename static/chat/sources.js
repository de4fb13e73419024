// Each answer's text as the model wrote it, by its element: what "Copy" copies.

export const sources = new WeakMap();
