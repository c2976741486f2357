"""Regular expressions of clients: those that could stop the node are refused."""

from __future__ import annotations

import pytest

from tidelog.groups.regexes import is_acceptable


@pytest.mark.parametrize(
    "regex",
    [
        "",
        "orders",
        "^orders-.*$",
        ".*-eu-.*-v[0-9]+",
        "a.*|b.*|c.*|d.*|e.*",
        "(ab)*",
        "(dev|test|prod)-(eu|us)-.*",
        "(?:log|event)-.+",
        "(?i)orders.*",
        "(?P<kind>log)-.*",
        "[]a]*",
        "[^]*+]x",
        r"a\.b\*\+\(.*",
        r"topic\d{1,3}",
        "x{2,}",
        "(ab?c){3}",
        "a{,b",
    ],
)
def test_what_people_write_is_accepted(regex: str) -> None:
    assert is_acceptable(regex)


@pytest.mark.parametrize(
    "regex",
    [
        "(",
        "[z-a]",
        "a" * 1_001,
        "(a+)+b",
        "(a*)*",
        "(a|a)*b",
        "(aa?)*b",
        "a?" * 100 + "a" * 100,
        "(a|a)" * 30,
        "a{0,9}" * 20,
        "((a|b)*c)*d",
        "(.*a){12}",
        "(a|a){30}",
        "(.*,){2,}x",
        ".*.*.*.*x",
        "(.*a){4}",
        r"(a)\1",
        "(?=a)b",
        "(?!a)b",
        "(?<=a)b",
        "(?P<x>a)(?P=x)",
        "(?>a+)b",
        "a*+*",
    ],
)
def test_what_is_wrong_or_too_dear_is_refused(regex: str) -> None:
    assert not is_acceptable(regex)
