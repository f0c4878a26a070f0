"""Owns the start of the command `intentd`: also as `python -m intentd`. It minds Ctrl-C before it imports much."""

import sys


def main() -> int:
    try:
        from modelwire import own_path

        own_path.settle()
        from modelwire.interrupts import ends_at_once

        with ends_at_once():
            from intentd import cli
    except KeyboardInterrupt:
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
        return 130
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
