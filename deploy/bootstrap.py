"""From a checkout to a running platform: `python3 deploy/bootstrap.py run`, which is what `make run` calls.

Standard library only. This file has to be read by any Python 3, the too old ones included, so that they can say so; what it
calls is in `deploy/launcher/`.
"""

import sys

OLDEST = (3, 11)


def main():  # type: ignore[no-untyped-def]
    if sys.version_info < OLDEST:
        sys.stderr.write(
            "Nehir needs Python %d.%d or newer; %s is %s. Name a newer one: make run PYTHON=python3.12\n"
            % (OLDEST + (sys.executable, sys.version.split()[0]))
        )
        return 1
    from launcher.command import main as launch

    return launch(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
