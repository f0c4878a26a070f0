"""Owns the start of the command `modeld`: also as `python -m modeld`. It minds Ctrl-C before it imports much."""

import sys


def main() -> None:
    try:
        from modelwire import own_path

        own_path.settle()
        from modelwire.interrupts import ends_at_once

        with ends_at_once():
            from modeld import cli
    except KeyboardInterrupt:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
