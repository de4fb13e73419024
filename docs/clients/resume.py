"""Ask Nehir, and get the whole answer once, whatever becomes of the connection. Needs httpx.

NEHIR_URL=http://127.0.0.1:8000 NEHIR_KEY=nhr_… python resume.py MODEL "What is a river?"
"""

import json
import os
import random
import sys
import time
import uuid

import httpx

PASSING = ("service_unavailable", "server_restarting", "too_many_connections")  # the answer goes on
MOST_TRIES = 10  # without anything new


def pieces(client, question):
    """The answer's text, piece by piece. Raises RuntimeError when there is no more of it to get."""
    generation, position, tries = None, "0", 0
    # Asked again because its reply was lost, it is answered and billed once.
    once = {"Idempotency-Key": uuid.uuid4().hex}
    while tries < MOST_TRIES:
        if generation is None:
            ask = client.stream("POST", "/v1/chat/completions", json=question, headers=once)
        else:
            behind = {"Last-Event-ID": position}
            ask = client.stream("GET", f"/v1/generations/{generation}/events", headers=behind)
        tries, retry_after = tries + 1, 0
        try:
            with ask as reply:
                retry_after = float(reply.headers.get("Retry-After", 0))
                for seq, body in events(reply):
                    if body is None:
                        return
                    generation = body.get("id", generation)
                    for choice in body.get("choices", []):
                        yield choice["delta"].get("content") or ""
                    if seq is not None:  # only now: what was yielded is not asked for again
                        position, tries = seq, 0
        except httpx.TransportError:
            pass  # cut off: go on behind `position`
        time.sleep(max(retry_after, min(0.25 * 2**tries, 15) * random.uniform(0.5, 1)))
    raise RuntimeError("The server is away.")


def events(reply):
    """(id, data) of each event that came whole, and (None, None) for the end."""
    if reply.is_error and reply.status_code not in (429, 502, 503, 504):
        raise RuntimeError(reply.read().decode())
    fields = {}
    for line in reply.iter_lines():
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
            continue
        body = json.loads(fields["data"]) if fields.get("data", "[DONE]") != "[DONE]" else None
        if body and ("missed" in body or body.get("error", {}).get("code") not in (None, *PASSING)):
            raise RuntimeError(fields["data"])
        if "data" in fields:
            yield fields.get("id"), body
        fields = {}  # an empty line ends an event


if __name__ == "__main__":
    model, text = sys.argv[1:]
    key = {"Authorization": f"Bearer {os.environ['NEHIR_KEY']}"}
    asked = {"model": model, "messages": [{"role": "user", "content": text}], "stream": True}
    with httpx.Client(base_url=os.environ["NEHIR_URL"], headers=key, timeout=30) as http:
        for piece in pieces(http, asked):
            print(piece, end="", flush=True)
