"""What tools say went wrong, read from their output or from the reports that the user's own command writes."""

from intentd.plan.tools.finding import Finding, Kind, file_and_test
from intentd.plan.tools.patterns import Catalogue, PatternError, Tool, catalogue, parse_tool
from intentd.plan.tools.reader import Reader
from intentd.plan.tools.reports import ReportError, read_junit, read_reportlog

__all__ = [
    "Catalogue",
    "Finding",
    "Kind",
    "PatternError",
    "Reader",
    "ReportError",
    "Tool",
    "catalogue",
    "file_and_test",
    "parse_tool",
    "read_junit",
    "read_reportlog",
]
