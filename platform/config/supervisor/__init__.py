"""One box, one command: starts what Nehir consists of in order, keeps it running, replaces parts of
it while it runs, stops it in order.

`policy` and `rolling` decide (no processes, injected clock), `process` and `replacement` do (spawn,
signals, logs), `services` lists what runs, `launch` is the way from nothing to running, `control`
takes an operator's commands. `progress` and `instance` use the standard library only:
`deploy/launcher` shares them before anything is installed.
"""
