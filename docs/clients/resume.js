// Ask Nehir, and get the whole answer once, whatever becomes of the connection. Node 20 or newer, or a browser:
//
//   import { pieces } from "./resume.js";
//   for await (const piece of pieces("http://127.0.0.1:8000", "nhr_…", { model: "…", messages: […] })) show(piece);

const PASSING = ["service_unavailable", "server_restarting", "too_many_connections"]; // the answer itself goes on
const MOST_TRIES = 10; // without anything new

/** The answer's text, piece by piece. Throws when there is no more of it to get. */
export async function* pieces(url, key, question) {
  const headers = { Authorization: `Bearer ${key}`, "Content-Type": "application/json" };
  const once = `${Date.now()}-${Math.random()}`; // asked again because the reply was lost: billed once
  let [generation, position] = [null, "0"];
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    let wait = Math.min(250 * 2 ** tries, 15_000) * (0.5 + Math.random() / 2);
    const call =
      generation === null
        ? ["chat/completions", { method: "POST", headers: { ...headers, "Idempotency-Key": once }, body: JSON.stringify({ ...question, stream: true }) }]
        : [`generations/${generation}/events`, { headers: { ...headers, "Last-Event-ID": position } }];
    const reply = await fetch(`${url}/v1/${call[0]}`, call[1]).catch(() => null);
    if (reply !== null) {
      if (!reply.ok && ![429, 502, 503, 504].includes(reply.status)) throw new Error(await reply.text());
      wait = Math.max(wait, 1000 * Number(reply.headers.get("Retry-After") ?? 0));
      generation = reply.headers.get("X-Generation-Id") ?? generation;
      for await (const { id, data } of events(reply)) {
        if (data === "[DONE]") return;
        const body = JSON.parse(data);
        if (body.missed || (body.error && !PASSING.includes(body.error.code))) throw new Error(data);
        generation = body.id ?? generation;
        for (const choice of body.choices ?? []) yield choice.delta.content ?? "";
        if (id !== undefined) [position, tries] = [id, -1]; // only now: what was yielded is never asked for again
      }
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
  throw new Error("The server is away.");
}

/** Fields of each event that came whole: an empty line ends one. However the reply ends, this just ends. */
async function* events(reply) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { done, value } = await reader.read().catch(() => ({ done: true }));
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s)));
      if ("data" in fields) yield fields;
    }
  }
}
