// Markdown inside a line: code, bold, italic, links. Makes DOM nodes only; no text ever becomes markup.

const MAX_DEPTH = 8;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const WORD = /[\p{L}\p{N}_]/u;
const LINK = /\[([^[\]\n]{1,1000})\]\(((?:[^\s()]|\([^\s()]*\)){1,2000})\)/y;
const ADDRESS = /https?:\/\/[^\s<>"'`\])]{1,2000}/y;
const TRAILING = /[.,:;!?]+$/;

/** The nodes of one stretch of inline Markdown. Time is linear in its length, whatever it holds. */
export function inline(text, depth = 0) {
  const out = document.createDocumentFragment();
  const hopeless = new Set();
  let plain = "";
  let at = 0;
  const put = (node, next) => {
    if (plain) out.append(plain);
    plain = "";
    out.append(node);
    at = next;
  };
  while (at < text.length) {
    const found = depth < MAX_DEPTH ? match(text, at, depth, hopeless) : null;
    if (found) {
      put(found.node, found.next);
    } else {
      plain += text[at];
      at += 1;
    }
  }
  if (plain) out.append(plain);
  out.normalize();
  return out;
}

function match(text, at, depth, hopeless) {
  switch (text[at]) {
    case "\\":
      return PUNCTUATION.test(text[at + 1] ?? "")
        ? { node: document.createTextNode(text[at + 1]), next: at + 2 }
        : null;
    case "\n":
      return { node: document.createElement("br"), next: at + 1 };
    case "`":
      return code(text, at, hopeless);
    case "*":
    case "_":
      return emphasis(text, at, depth, hopeless);
    case "[":
      return link(text, at, depth);
    case "h":
      return address(text, at);
    default:
      return null;
  }
}

function code(text, at, hopeless) {
  let end = at;
  while (text[end] === "`") end += 1;
  const fence = text.slice(at, end);
  const literal = { node: document.createTextNode(fence), next: end };
  if (hopeless.has(fence)) return literal;
  let close = text.indexOf(fence, end);
  while (close !== -1 && (text[close - 1] === "`" || text[close + fence.length] === "`")) {
    close = text.indexOf(fence, close + 1);
  }
  if (close === -1) {
    hopeless.add(fence);
    return literal;
  }
  const node = document.createElement("code");
  const body = text.slice(end, close).replaceAll("\n", " ");
  node.textContent = /^ .*[^ ].* $/.test(body) ? body.slice(1, -1) : body;
  return { node, next: close + fence.length };
}

function emphasis(text, at, depth, hopeless) {
  const letter = text[at];
  const mark = text[at + 1] === letter ? letter + letter : letter;
  const start = at + mark.length;
  const literal = { node: document.createTextNode(mark), next: start };
  const inWord = letter === "_" && WORD.test(text[at - 1] ?? "");
  if (hopeless.has(mark) || inWord || !/\S/.test(text[start] ?? "") || text[start] === letter) {
    return literal;
  }
  const close = closing(text, start + 1, mark);
  if (close === -1) {
    // None from here on means none for any later opening either.
    hopeless.add(mark);
    return literal;
  }
  const node = document.createElement(mark.length === 2 ? "strong" : "em");
  node.append(inline(text.slice(start, close), depth + 1));
  return { node, next: close + mark.length };
}

function closing(text, from, mark) {
  const letter = mark[0];
  for (let at = text.indexOf(letter, from); at !== -1; ) {
    let end = at;
    while (text[end] === letter) end += 1;
    const outside = letter === "_" && WORD.test(text[end] ?? "");
    const fits = mark.length === 2 ? end - at >= 2 : end - at !== 2;
    if (fits && /\S/.test(text[at - 1]) && !outside) return end - mark.length;
    at = text.indexOf(letter, end);
  }
  return -1;
}

function link(text, at, depth) {
  LINK.lastIndex = at;
  const found = LINK.exec(text);
  const url = found && webAddress(found[2]);
  if (!url) return null;
  const node = anchor(url);
  node.append(inline(found[1], Math.max(depth + 1, MAX_DEPTH - 2)));
  // A link inside a link's label would nest anchors.
  for (const inner of node.querySelectorAll("a")) inner.replaceWith(...inner.childNodes);
  return { node, next: at + found[0].length };
}

function address(text, at) {
  if (WORD.test(text[at - 1] ?? "")) return null;
  ADDRESS.lastIndex = at;
  const found = ADDRESS.exec(text);
  const shown = found?.[0].replace(TRAILING, "");
  const url = shown && webAddress(shown);
  if (!url) return null;
  const node = anchor(url);
  node.textContent = shown;
  return { node, next: at + shown.length };
}

function webAddress(text) {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return null;
  return new URL(text).href;
}

function anchor(href) {
  const node = document.createElement("a");
  node.href = href;
  node.target = "_blank";
  node.rel = "noopener noreferrer nofollow";
  return node;
}
