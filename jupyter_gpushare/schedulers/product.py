"""Kinds of GPU as the cluster's nodes are labelled with them by NVIDIA's feature discovery."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.schedulers import manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PRODUCT_LABEL", "read_kind"]

PRODUCT_LABEL: Final = "nvidia.com/gpu.product"


def read_kind(pod: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    """The kind that *pod* is bound to, empty when any will do.

    A product that is none of *kinds* is a kind all the same, named after the product.
    """
    product = manifest.node_selector_of(pod).get(PRODUCT_LABEL, "")
    names = {value: kind for kind, value in kinds.items()}
    return names.get(product, product.lower())
