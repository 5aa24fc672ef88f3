"""On which hosts jobs may run."""

from __future__ import annotations

import pytest

from lcc.domain.tasks.job_hosts import check_rules, may_run


@pytest.mark.parametrize(
    ("rules", "host", "may"),
    [
        ([], "a", True),
        (["allow:a"], "A", True),
        (["allow:a"], "b", False),
        (["allow:a", "allow:b*"], "b7", True),
        (["deny:b*"], "b7", False),
        (["deny:b*"], "a", True),
        (["allow:*", "deny:b"], "b", False),
        (["allow:a", "deny:b"], "c", False),
        (["allow:a"] * 50, "a", True),
        (["allow:*"], "a", True),
    ],
)
def test_which_hosts_may_run_it(rules: list[str], host: str, may: bool) -> None:
    check_rules(rules)
    assert may_run(rules, host) is may


@pytest.mark.parametrize("rules", [["a"], ["allow:"], ["permit:a"], ["allow:a b"], ["allow:a"] * 51])
def test_bad_hosts(rules: list[str]) -> None:
    with pytest.raises(ValueError, match="allow"):
        check_rules(rules)


@pytest.mark.parametrize("rule", ["deny:*", "deny:**"])
def test_nobody_may_be_denied_by_all(rule: str) -> None:
    with pytest.raises(ValueError, match="denies all hosts"):
        check_rules(["allow:a", rule])
    check_rules([rule.replace("deny", "allow"), f"{rule}a"])
