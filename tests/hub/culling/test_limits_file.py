"""``[culling]`` of a gpushare.toml."""

from __future__ import annotations

import pytest

from jupyter_gpushare.broker.configuration import Configuration, ConfigurationError
from jupyter_gpushare.broker.cull_policy import CullPolicy, Limits
from jupyter_gpushare.broker.culling_configuration import KEYS

WHOLE = """
[projects.team-a]
quota = 4

[culling]
check_every = "2m"
rounds = false
warning = "15m"
park_after = "20m"
end_kernels_after = "4h"
end_parked_after = "2d"
stop_after = "12h"
stop_parked_after = "7d"
max_age = "14d"

[culling.pools.class]
stop_after = "1h"

[culling.profiles."2x0.50"]
stop_after = "never"
[culling.profiles.rstudio]
max_age = "1d"
"""


def parse_policy(text: str) -> CullPolicy:
    """What a whole file says of culling."""
    return Configuration.parse(text).culling


def test_everything_can_be_said() -> None:
    """Each key sets its limit, and pools and profiles say only what they say."""
    policy = parse_policy(WHOLE)
    assert policy.base == Limits(
        park_after_s=1200.0,
        end_kernels_after_s=14400.0,
        end_parked_after_s=172800.0,
        stop_after_s=43200.0,
        stop_parked_after_s=604800.0,
        max_age_s=1209600.0,
        warning_s=900.0,
    )
    assert policy.every_s == 120
    assert not policy.has_rounds
    assert policy.pools == {"class": {"stop_after_s": 3600.0}}
    assert policy.profiles == {"2x0.5": {"stop_after_s": None}, "rstudio": {"max_age_s": 86400.0}}


def test_nothing_is_culled_unless_somebody_says_so() -> None:
    """Every step that loses something is off, with and without the table."""
    for text in ("", "[culling]\n", '[culling]\ncheck_every = "1m"\npark_after = "5m"\n'):
        assert parse_policy(text).stops_nothing
        assert parse_policy(text).limits("any", "1").spare_the_idle
    assert not parse_policy('[culling.profiles."1"]\nmax_age = "9d"\n').stops_nothing
    assert CullPolicy().limits().stops_nothing
    assert CullPolicy().limits().spare_the_idle


WRONG = [
    ("[culling]\nstop_after = 12\n", "stop_after: 12 has no unit", '"12h"'),
    ('[culling]\nstop_after = "soon"\n', "stop_after: 'soon' is no duration", '"never"'),
    ('[culling]\nstop_after = "0s"\n', "stop_after: less than a second", '"12h"'),
    ('[culling]\nwarning = "never"\n', "warning: 'never' is no duration", '"10m"'),
    ('[culling]\nstop_affter = "1h"\n', "stop_affter: is unknown; perhaps stop_after is meant", ""),
    ('[culling]\ncheck_every = "1s"\n', "check_every: more often than every 10 s", '"5m"'),
    ('[culling]\nstop_after = "2h"\nstop_parked_after = "1h"\n', "is shorter than stop_after", '"7d"'),
    ('[culling]\nend_kernels_after = "2h"\nend_parked_after = "1h"\n', "is shorter than end_kernels_after", '"7d"'),
    ('[culling]\nstop_after = "2h"\n[culling.pools.p]\nstop_parked_after = "1h"\n', "[culling.pools.p]", '"7d"'),
    ('[culling.pools."a b"]\nstop_after = "2h"\n', "a name has letters", ""),
    ("[culling.profiles]\nrstudio = 5\n", "5 is not a table", "[culling.profiles.rstudio]"),
    ("culling = 5\n", "5 is not a table", "[culling]"),
    ("[culling\n", "it is no TOML", ""),
]


@pytest.mark.parametrize(("text", "problem", "example"), WRONG)
def test_a_mistake_names_its_place_and_the_fix(text: str, problem: str, example: str) -> None:
    """A wrong file says where and shows how it is written; nothing of it holds."""
    with pytest.raises(ConfigurationError) as caught:
        parse_policy(text)
    assert problem in str(caught.value)
    assert example in str(caught.value)


def test_all_mistakes_at_once() -> None:
    """Whoever mends a file is told everything the first time."""
    with pytest.raises(ConfigurationError) as caught:
        parse_policy('[culling]\nmax_age = 1\nwarning = 2\n[culling.profiles.x]\nnonsense = "1h"\n')
    assert len(caught.value.problems) == 3


def test_parked_is_kept_at_least_as_long() -> None:
    """Where two tables together would say otherwise, what is parked is still not stopped sooner than what runs."""
    policy = parse_policy(
        '[culling]\nstop_after = "1h"\nstop_parked_after = "2h"\n[culling.pools.p]\nstop_after = "9h"\n'
    )
    assert policy.limits("p").stop_parked_after_s == 9 * 3600


def test_every_limit_has_a_key() -> None:
    """None of them can be set in the code alone."""
    assert set(KEYS.values()) == set(Limits.__dataclass_fields__)
