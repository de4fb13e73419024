// A question and its answer on their way, whatever becomes of the socket meanwhile.

import { Acknowledger } from "./acknowledger.js";
import { keptAnswer } from "./kept.js";
import { texts } from "./settings.js";

// Asking the same again would fail the same way.
const NOT_AGAIN = ["invalid_request", "context_length_exceeded", "conversation_not_found"];
// Not the end of an answer: the server can't get at it just now.
const PASSING = ["service_unavailable", "too_many_answers"];
const NO_LONGER_THERE = ["log_expired", "generation_not_found"];
const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 15_000;

let asked = 0;

/**
 * Events: "accepted" (detail: the conversation), "kept" (detail: the conversation in which the question is kept though it
 * was not answered) and "ended" (detail: {words, giveBack}; giveBack: whether the question is better written anew).
 */
export class Exchange extends EventTarget {
  #connection;
  #answer;
  #acknowledger = new Acknowledger((seq) => this.#tell("ack", { seq }));
  #message = null;
  #generation = null;
  #conversation = null;
  #ref = null;
  #stopping = false;
  #failures = 0;
  #retry = null;
  #ended = false;

  /** text: the question; makeAnswer: takes what to call with positions shown, returns the Answer */
  constructor(connection, text, makeAnswer) {
    super();
    this.text = text;
    this.#connection = connection;
    this.#answer = makeAnswer((seq) => this.#acknowledger.shown(seq));
  }

  /** message: {conversation, model, text} */
  ask(message) {
    this.#conversation = message.conversation;
    this.#ref = newRef();
    // Sent again with the same key, it is not asked twice.
    this.#message = { type: "send", ref: this.#ref, key: this.#ref, ...message };
    this.#answer.wait(texts.answer.sending);
    if (!this.#connection.send(this.#message)) this.disconnected();
  }

  /** Take up an answer that is in the making already. */
  takeUp(generation, conversation) {
    this.#generation = generation;
    this.#conversation = conversation;
    this.#answer.lost(texts.answer.takingUp);
    this.reconnected();
  }

  stop() {
    this.#stopping = true;
    // Not accepted yet: it is stopped as soon as it has a name.
    if (this.#generation !== null) this.#tell("stop");
  }

  disconnected() {
    if (this.#ended) return;
    this.#answer.lost(texts.answer.resuming);
  }

  reconnected() {
    if (this.#ended) return;
    if (this.#generation !== null) this.#resume();
    else this.#connection.send(this.#message);
  }

  onFrame(frame) {
    if (this.#ended) return;
    if (frame.type === "error") {
      if (this.#isMine(frame)) this.#onError(frame);
    } else if (frame.type === "accepted") {
      if (frame.ref === this.#ref) this.#onAccepted(frame);
    } else if (frame.generation === this.#generation) this.#onProgress(frame);
  }

  #isMine({ ref, generation }) {
    const named = ref ?? generation;
    return named !== null && [this.#ref, this.#generation].includes(named);
  }

  #onAccepted({ conversation, generation }) {
    this.#generation = generation;
    this.#conversation = conversation.id;
    this.#answer.name(generation);
    this.#answer.wait(texts.answer.waiting);
    this.#dispatch("accepted", conversation);
    if (this.#stopping) this.stop();
  }

  #onProgress(frame) {
    if (frame.type === "resumed") this.#onResumed();
    else if (frame.type === "queued") this.#answer.queued(frame);
    else if (frame.type === "interrupted") this.#answer.interrupted(frame.reason);
    else if (frame.type === "gap") this.#answer.gap();
    else if (frame.type === "tokens") {
      if (frame.seq > this.#answer.seq) this.#answer.append(frame.seq, frame.text);
    } else if (frame.type === "finished") {
      this.#answer.finish(frame.finish_reason, frame.usage);
      this.#end(texts.answer.announced);
    }
  }

  #onResumed() {
    this.#failures = 0;
    this.#answer.resumed();
    if (this.#stopping) this.stop();
  }

  #onError({ error, conversation }) {
    const { code } = error;
    const words = texts.errors[code] ?? error.message;
    if (this.#generation !== null) {
      if (PASSING.includes(code)) return this.#resumeLater();
      if (NO_LONGER_THERE.includes(code)) return void this.#showKept(words);
      if (code === "invalid_position" && this.#answer.seq > 0) return this.#restart();
      if (code === "already_reading") return;
    }
    // Asked again, it is asked there.
    if (conversation) this.#dispatch("kept", conversation);
    this.#fail(words, { retry: !NOT_AGAIN.includes(code) });
  }

  #resume() {
    clearTimeout(this.#retry);
    this.#ref = newRef();
    this.#tell("resume", { ref: this.#ref, after_seq: this.#answer.seq });
  }

  #resumeLater() {
    this.#answer.lost(texts.answer.resuming);
    const delay = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#failures);
    this.#failures += 1;
    this.#retry = setTimeout(() => this.#resume(), delay * (0.5 + Math.random() / 2));
  }

  #restart() {
    this.#answer.restart();
    this.#resume();
  }

  /** It has ended elsewhere or is lost: show what is kept of it, or leave what has come. */
  async #showKept(words) {
    this.#ended = true;
    const kept = await keptAnswer(this.#conversation, this.#generation);
    if (kept === null) return this.#fail(words, { retry: true });
    this.#answer.replace(kept.text);
    if (kept.finish === "error") return this.#fail(texts.answer.failed, { retry: true });
    this.#answer.finish(kept.finish);
    this.#end(texts.answer.announced);
  }

  #fail(words, { retry }) {
    this.#answer.fail(words, { retry });
    this.#end(words, { giveBack: !retry });
  }

  #end(words, { giveBack = false } = {}) {
    this.#ended = true;
    clearTimeout(this.#retry);
    this.#acknowledger.stop();
    this.#dispatch("ended", { words, giveBack });
  }

  /** Lost with the socket if that is not open: what comes after `resume` makes up for it. */
  #tell(type, fields = {}) {
    this.#connection.send({ type, generation: this.#generation, ...fields });
  }

  #dispatch(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

function newRef() {
  asked += 1;
  const chance = Math.random().toString(36).slice(2, 8);
  return `${Date.now().toString(36)}-${asked}-${chance}`;
}
