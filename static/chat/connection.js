// The socket: opened, watched, and opened again with backoff. Speaks version 1 of the chat protocol.

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
// Where packets vanish, opening would take minutes to fail.
const OPENING_LIMIT_MS = 10_000;
// A socket over a dead network still looks open. After so much silence the server is asked to say something…
const QUIET_MS = 15_000;
// …and has this long to do so.
const REPLY_LIMIT_MS = 4_000;
const WATCH_MS = 1_000;
const TRY_LATER = 1013;
const TRY_LATER_DELAY_MS = 5_000;
const NOT_SIGNED_IN = 4401;
const REFUSED = 4403;

/**
 * Events: "state" (detail: connecting, queued, open, closed, full, refused or signed-out) and "frame" (detail: the message).
 * It counts as open once the server has said hello, since only then does it take messages.
 */
export class Connection extends EventTarget {
  #url;
  #socket = null;
  #retry = null;
  #failures = 0;
  // By the wall clock: others stand still while the machine sleeps.
  #heardAt = 0;
  #askedAt = null;
  state = "connecting";
  /** {position, eta_p50_s?, eta_p90_s?} while the server has no room for this socket yet. */
  place = null;

  constructor(path) {
    super();
    this.#url = new URL(path, location.href);
    this.#url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    for (const event of ["online", "offline"]) addEventListener(event, () => this.#hurry());
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") this.#hurry();
    });
    setInterval(() => this.#watch(), WATCH_MS);
  }

  open() {
    this.#retry = null;
    this.#heardAt = Date.now();
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    // What an abandoned socket still has to say is of the past.
    const current = (handle) => (event) => {
      if (socket === this.#socket) handle(event);
    };
    socket.addEventListener("open", current(() => this.#heard()));
    socket.addEventListener("message", current((event) => this.#receive(JSON.parse(event.data))));
    socket.addEventListener("close", current((event) => this.#closed(event.code)));
  }

  /** Whether the message could be handed to an open socket. */
  send(message) {
    if (this.state !== "open" || this.#socket.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  #receive(message) {
    this.#heard();
    if (message.type === "pong") return;
    if (message.type === "connection_queued") {
      this.place = message;
      return this.#enter("queued");
    }
    if (message.type === "hello") {
      this.#failures = 0;
      this.place = null;
      this.#enter("open");
    }
    this.dispatchEvent(new CustomEvent("frame", { detail: message }));
  }

  #heard() {
    this.#heardAt = Date.now();
    this.#askedAt = null;
  }

  #closed(code) {
    this.#socket = null;
    this.#askedAt = null;
    this.place = null;
    if (code === NOT_SIGNED_IN) return this.#enter("signed-out");
    if (code === REFUSED) return this.#enter("refused");
    const backoff = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#failures);
    const delay = code === TRY_LATER ? Math.max(TRY_LATER_DELAY_MS, backoff) : backoff;
    this.#failures += 1;
    // Half of it by chance, so that a restarted server isn't met by everybody at once.
    this.#retry = setTimeout(() => this.open(), delay * (0.5 + Math.random() / 2));
    this.#enter(code === TRY_LATER ? "full" : "closed");
  }

  /** Something may have changed: try at once, or find out whether the socket has survived it. */
  #hurry() {
    if (this.#retry === null) return this.#ask();
    clearTimeout(this.#retry);
    this.#failures = 0;
    this.open();
  }

  #ask() {
    if (this.#askedAt === null && this.send({ type: "ping", ref: "ping" })) this.#askedAt = Date.now();
  }

  #watch() {
    if (this.#socket === null || this.state === "queued") return;
    const now = Date.now();
    if (this.state !== "open") {
      if (now - this.#heardAt > OPENING_LIMIT_MS) this.#abandon();
    } else if (this.#askedAt !== null) {
      if (now - this.#askedAt > REPLY_LIMIT_MS) this.#abandon();
    } else if (now - this.#heardAt > QUIET_MS) this.#ask();
  }

  /** Closing a dead socket properly would wait for the other side. */
  #abandon() {
    const socket = this.#socket;
    this.#closed(null);
    socket.close();
  }

  #enter(state) {
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}
