// The socket: opened, watched, and opened again with backoff. Speaks version 1 of the chat protocol.

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
const NOT_SIGNED_IN = 4401;
const REFUSED = 4403;

/**
 * Events: "state" (detail: connecting, open, closed, refused or signed-out) and "frame" (detail: the message).
 * It counts as open once the server has said hello, since only then does it take messages.
 */
export class Connection extends EventTarget {
  #url;
  #socket = null;
  #timer = null;
  #failures = 0;
  state = "connecting";

  constructor(path) {
    super();
    this.#url = new URL(path, location.href);
    this.#url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    addEventListener("online", () => this.#hurry());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") this.#hurry();
    });
  }

  open() {
    this.#timer = null;
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    socket.addEventListener("message", (event) => this.#receive(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => this.#closed(event.code));
  }

  /** Whether the message could be handed to an open socket. */
  send(message) {
    if (this.state !== "open" || this.#socket.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  #receive(message) {
    if (message.type === "hello") {
      this.#failures = 0;
      this.#enter("open");
    }
    this.dispatchEvent(new CustomEvent("frame", { detail: message }));
  }

  #closed(code) {
    this.#socket = null;
    if (code === NOT_SIGNED_IN) return this.#enter("signed-out");
    if (code === REFUSED) return this.#enter("refused");
    this.#enter("closed");
    const delay = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#failures);
    this.#failures += 1;
    // Half of it by chance, so that a restarted server isn't met by everybody at once.
    this.#timer = setTimeout(() => this.open(), delay * (0.5 + Math.random() / 2));
  }

  #hurry() {
    if (this.#timer === null) return;
    clearTimeout(this.#timer);
    this.#failures = 0;
    this.open();
  }

  #enter(state) {
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}
