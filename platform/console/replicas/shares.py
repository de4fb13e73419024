"""What the page is sent of shares: what each tenant has had, beside what it is entitled to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from inference.services.shares import WINDOW_S, Share


class TenantShareRow(msgspec.Struct, frozen=True):
    """per_s: service a second; part, entitled: of the class, in percent
    short: it waits, and has had less than it is entitled to
    """

    tenant: str
    priority_class: str
    per_s: float
    part: float
    entitled: float
    waiting: int
    short: bool


class ReleaseShares(msgspec.Struct, frozen=True):
    release: str
    shares: list[TenantShareRow]


# What may be missing of a share without a word: the bound of fair sharing is in tokens, not zero.
TOLERATED = 0.05


def share_rows(
    shares: Iterable[tuple[str, Sequence[Share]]], names: Mapping[str, str]
) -> list[ReleaseShares]:
    return [
        ReleaseShares(release, [_row(share, names) for share in of_release])
        for release, of_release in shares
    ]


def _row(share: Share, names: Mapping[str, str]) -> TenantShareRow:
    return TenantShareRow(
        tenant=names.get(share.tenant_id, share.tenant_id),
        priority_class=share.priority_class,
        per_s=round(share.service / WINDOW_S, 1),
        part=round(100 * share.part, 1),
        entitled=round(100 * share.entitled, 1),
        waiting=share.waiting,
        short=share.waiting > 0 and share.part < share.entitled - TOLERATED,
    )
