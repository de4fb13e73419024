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
    # Asked again because its reply was lost, it is answered and billed once.
    ask = {"method": "POST", "url": "/v1/chat/completions", "json": question}
    headers, tries = {"Idempotency-Key": uuid.uuid4().hex}, 0
    while tries < MOST_TRIES:
        tries, wait = tries + 1, min(0.25 * 2**tries, 15) * random.uniform(0.5, 1)
        try:
            with client.stream(**ask, headers=headers) as reply:
                wait = max(wait, float(reply.headers.get("Retry-After", 0)))
                for seq, body in events(reply):
                    if body is None:
                        return
                    if "id" in body:  # from now on, read it again instead of asking again
                        ask = {"method": "GET", "url": f"/v1/generations/{body['id']}/events"}
                    yield "".join(one["delta"].get("content") or "" for one in body["choices"])
                    if seq is not None:  # only now: what was yielded is not sent again
                        headers, tries = {"Last-Event-ID": seq}, 0
        except httpx.TransportError:
            pass  # cut off
        time.sleep(wait)
    raise RuntimeError("The server is away.")


def events(reply):
    """(id, data) of each event that came whole, and (None, None) for the end."""
    if reply.is_error and reply.status_code not in (429, 502, 503, 504):
        raise RuntimeError(reply.read().decode())
    event = {}
    for name, _, value in (line.partition(": ") for line in reply.iter_lines()):
        event[name] = value
        if name or "data" not in event:
            continue  # an empty line ends an event
        body = None if event["data"] == "[DONE]" else json.loads(event["data"])
        if body and ("missed" in body or body.get("error", {}).get("code") not in (None, *PASSING)):
            raise RuntimeError(event["data"])
        if body is None or "choices" in body:
            yield event.get("id"), body
        event = {}


if __name__ == "__main__":
    asked = {"model": sys.argv[1], "messages": [{"role": "user", "content": sys.argv[2]}]}
    key = {"Authorization": f"Bearer {os.environ['NEHIR_KEY']}"}
    with httpx.Client(base_url=os.environ["NEHIR_URL"], headers=key, timeout=30) as http:
        for piece in pieces(http, asked | {"stream": True}):
            print(piece, end="", flush=True)
