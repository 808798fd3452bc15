"""The sentences after a release: true to the byte, and honest when nothing fell."""

from __future__ import annotations

from jupyter_gpushare.notebook.cache import Freed
from jupyter_gpushare.notebook.console import text_of
from jupyter_gpushare.notebook.release import release_card
from jupyter_gpushare.notebook.view import Reading

GB = 10**9


def told(*results: Freed, before: Reading | None = None, after: Reading | None = None) -> str:
    """The release in words."""
    return text_of(release_card(results, before, after))


def exact(amount: int) -> Reading:
    """What the device says."""
    return Reading(amount, "exact")


def test_says_what_came_back_what_stays_and_why() -> None:
    """The whole truth of a release: freed, in use by variables, the context, and the device's word."""
    result = Freed("torch", 7_400_000_000, 5_100_000_000, 5_100_000_000, None)
    text = told(result, before=exact(7_900_000_000), after=exact(5_600_000_000))
    assert "Released 2.3 GB of cached memory. Every variable is still there." in text
    assert "torch  7.4 GB → 5.1 GB" in text
    assert "5.1 GB are in use by variables." in text
    assert "0.5 GB are outside the frameworks' caches, such as the GPU context" in text
    assert "`" not in text
    assert "Attested by the device: this notebook held 7.9 GB, now 5.6 GB." in text


def test_says_so_when_nothing_was_cached() -> None:
    """No success is claimed where nothing fell."""
    text = told(Freed("torch", 5 * GB, 5 * GB, 5 * GB, None))
    assert "Nothing was released: no memory was cached." in text
    assert "Released" not in text


def test_says_so_when_the_device_does_not_show_it() -> None:
    """What a framework claims to have freed is not believed against the device."""
    text = told(Freed("torch", 6 * GB, GB, GB, None), before=exact(6 * GB), after=exact(6 * GB))
    assert "More was freed than the device shows yet." in text


def test_says_so_when_the_device_cannot_attest() -> None:
    """Without a reading the figures are called the frameworks' own, with the reason."""
    blind = Reading(None, "unavailable", "the driver reports host pids")
    assert "Not attested by the device: the driver reports host pids." in told(
        Freed("torch", GB, 0, 0, None), before=blind, after=blind
    )
    assert "Not attested by the device; these are the frameworks' own figures." in told(Freed("torch", GB, 0, 0, None))


def test_a_count_from_inside_the_kernel_is_no_attestation() -> None:
    """The kernel's own count is never passed off as the device's word."""
    own = Reading(GB, "in_kernel")
    text = told(Freed("torch", 2 * GB, GB, GB, None), before=own, after=own)
    assert "Not attested by the device, which cannot tell processes apart" in text
    assert "Attested" not in text


def test_an_error_is_told_with_its_framework() -> None:
    """A framework that failed is named, and its failure is no "nothing was cached"."""
    text = told(Freed("torch", 2 * GB, 2 * GB, None, "RuntimeError: CUDA error"))
    assert "! Nothing was released." in text
    assert "torch could not free its cache: RuntimeError: CUDA error" in text


def test_fragments_that_stay_cached_are_explained() -> None:
    """Cache that could not be given back says why."""
    assert "0.7 GB stay cached: they share blocks with variables." in told(
        Freed("torch", 3 * GB, 1_700_000_000, GB, None)
    )


def test_nothing_imported_is_said_plainly() -> None:
    """A notebook without a GPU framework learns that there is nothing to release."""
    assert "no GPU framework (PyTorch, CuPy, JAX) is imported here" in told()
