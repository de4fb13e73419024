"""From a checkout to a running platform: `python3 deploy/bootstrap.py run`, which is what `make
run` calls.

Standard library only. This file has to be read by any Python 3, the too old ones included, so that
they can say so; what it calls is in `deploy/launcher/`.
"""

import sys

OLDEST = (3, 11)


def main():  # type: ignore[no-untyped-def]
    if sys.version_info < OLDEST:
        # No f-string and no keyword that is new: any Python has to get as far as this line.
        sentence = (
            "Nehir needs Python {}.{} or newer; {} is {}. Name one: make run PYTHON=python3.12\n"
        )
        found = (sys.executable, sys.version.split()[0])
        sys.stderr.write(sentence.format(OLDEST[0], OLDEST[1], *found))
        return 1
    from launcher.command import main as launch

    return launch(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
