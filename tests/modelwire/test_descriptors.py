"""A daemon has room for as many connections as it promises, whatever soft limit it is started with."""

import subprocess
import sys

SCRIPT = """
import resource
from modelwire.descriptors import raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (128, min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
raise_limit()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
assert soft == hard > 128, (soft, hard)
raise_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == (soft, hard)
"""


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
