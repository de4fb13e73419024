"""One box, one command: starts what Nehir consists of in order, keeps it running, stops it in
order.

`policy` decides (no processes, injected clock), `process` does (spawn, signals, logs), `services`
lists what runs, `launch` is the way from nothing to running. `progress` and `instance` use the
standard library only: `deploy/launcher` shares them before anything is installed.
"""
