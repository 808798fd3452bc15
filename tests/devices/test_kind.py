"""The kinds that people can ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.devices.kind import kind_of
from jupyter_gpushare.share import Share

PRODUCTS = {
    "NVIDIA A100-SXM4-40GB": "a100",
    "NVIDIA A100 80GB PCIe": "a100",
    "A100-PCIE-40GB": "a100",
    "NVIDIA A30": "a30",
    "NVIDIA A10G": "a10g",
    "NVIDIA A40": "a40",
    "Tesla V100-SXM2-32GB": "v100",
    "Tesla V100-PCIE-16GB": "v100",
    "Tesla T4": "t4",
    "Tesla P100-PCIE-16GB": "p100",
    "Tesla K80": "k80",
    "NVIDIA L4": "l4",
    "NVIDIA L40S": "l40s",
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA H100 PCIe": "h100",
    "NVIDIA H100 NVL": "h100",
    "NVIDIA H200": "h200",
    "NVIDIA GH200 480GB": "gh200",
    "NVIDIA B200": "b200",
    "NVIDIA GB200": "gb200",
    "NVIDIA B300 SXM6 AC": "b300",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 3080 Laptop GPU": "rtx-3080-laptop",
    "NVIDIA GeForce GTX 1080 Ti": "gtx-1080-ti",
    "NVIDIA RTX A6000": "rtx-a6000",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000",
    "Quadro RTX 8000": "rtx-8000",
    "NVIDIA TITAN V": "titan-v",
    "GRID V100D-8Q": "v100d-8q",
    "NVIDIA Graphics Device": "gpu",
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb": "a100-1g.5gb",
    "NVIDIA H100 80GB HBM3 MIG 1g.10gb+me": "h100-1g.10gb.me",
    "AMD Instinct MI300X OAM": "mi300x",
    "AMD Instinct MI250X/MI250": "mi250x-mi250",
    "AMD Radeon(TM) RX 7900 XTX": "rx-7900-xtx",
    "": "gpu",
}


@pytest.mark.parametrize(("product", "kind"), PRODUCTS.items())
def test_products_have_the_kinds_that_people_expect(product: str, kind: str) -> None:
    """A share such as 0.5@a100 finds every A100, whatever its form factor and memory."""
    assert kind_of(product) == kind


@given(st.text(max_size=120))
def test_any_name_from_a_driver_gives_a_kind_that_a_share_can_name(product: str) -> None:
    """A product name that nobody foresaw still gives a kind that the grammar of shares accepts."""
    kind = kind_of(product)
    assert Share.parse(f"0.5@{kind}").kind == kind
