"""The libraries that run models, each behind the Protocol of `base`.

Whoever imports OpenVINO comes through here first: its import would report itself to a statistics server, and does
not where the package that does that cannot be imported.
"""

import sys

sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # None means "cannot be imported"
