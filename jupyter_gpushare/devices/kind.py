"""From a product name, as the driver writes it, to the short kind that a share can ask for."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["kind_of"]

_LONGEST: Final = 63
_NAMELESS: Final = "gpu"
_MIG: Final = re.compile(r"(.*?)\s+MIG\s+(\S+)", re.IGNORECASE)
_TRADEMARK: Final = re.compile(r"\((?:r|tm|c)\)", re.IGNORECASE)
_BETWEEN_WORDS: Final = re.compile(r"[\s/_,()-]+")
_NOT_IN_A_KIND: Final = re.compile(r"[^a-z0-9._-]")
# Brands, form factors and memory: what does not tell one GPU model from another.
_NOISE: Final = re.compile(
    r"nvidia|amd|ati|advanced|micro|devices|inc\.?|tesla|quadro|geforce|grid|instinct|radeon"
    r"|sxm[0-9]*|pcie|nvl[0-9]*|oam|hbm[0-9a-z]*|[0-9]+gb?|gpu|graphics|device|generation|server|workstation"
    r"|edition|blackwell|ac|lc"
)


def kind_of(product: str) -> str:
    """The kind of *product*: ``NVIDIA A100-SXM4-40GB`` is ``a100``, its MIG instance ``… MIG 1g.5gb`` ``a100-1g.5gb``.

    Always a kind that the grammar of shares allows; ``gpu`` for a product without a name.
    """
    if (mig := _MIG.fullmatch(product.strip())) is not None:
        return _clean(f"{kind_of(mig[1])}-{mig[2].lower().replace('+', '.')}")
    words = _BETWEEN_WORDS.split(_TRADEMARK.sub("", product).lower())
    return _clean("-".join(word for word in words if word and not _NOISE.fullmatch(word)))


def _clean(kind: str) -> str:
    return _NOT_IN_A_KIND.sub("", kind)[:_LONGEST].strip("._-") or _NAMELESS
