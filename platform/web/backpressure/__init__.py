"""Daphne with backpressure and drain: a slow reader makes `send` wait, a flooding client is read no
further than its application receives, and SIGTERM breaks nothing that can still end well.

`python -m web.backpressure` takes Daphne's options and those of `command.py`. Knows nothing of the
project it stands in, and no Django: it is meant to be of use to Daphne itself. POSIX; the
stall limit sees most on Linux.

What an application sees beyond Daphne:
- `send` returns when the reader has room, and raises `ClientGone`, a ConnectionResetError, once it
  left;
- `scope["extensions"]["drain"]` is {"event": DrainSignal, "grace_s": float}: the event is set when
  the server begins to leave, `grace_s` before it cancels what still runs;
- `websocket.close` takes every code a server may send, 1012 among them, and a reason;
- after the disconnect message `receive` returns it again instead of waiting for ever.

`stats.current()` has the running server's figures.
"""
