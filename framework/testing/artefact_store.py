"""What every artefact store promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framework.errors import NotFound, StoreError
from framework.ports.store import ArtefactStore

HOUR_NS = 3_600 * 10**9


class KeptArtefacts:
    """An artefact store, its clock, and a way to damage what it keeps."""

    def __init__(
        self,
        store: ArtefactStore,
        pass_: Callable[[float], None],
        now: Callable[[], int],
        damage: Callable[[str], object],
    ) -> None:
        self.store, self.pass_, self.now, self.damage = store, pass_, now, damage


class ArtefactStoreContract:
    """Fixture: ``kept``, a KeptArtefacts."""

    def test_what_is_put_comes_back_and_is_kept_once(self, kept: KeptArtefacts) -> None:
        first = kept.store.put(b"traces" * 1000)
        assert kept.store.put(b"traces" * 1000) == first
        assert kept.store.get(first) == b"traces" * 1000
        assert kept.store.put(b"") != first
        with pytest.raises(NotFound):
            kept.store.get("0" * 64)

    def test_damage_is_noticed(self, kept: KeptArtefacts) -> None:
        digest = kept.store.put(b"samples")
        kept.damage(digest)
        with pytest.raises(StoreError, match="damaged"):
            kept.store.get(digest)

    def test_what_is_old_and_not_referred_to_goes(self, kept: KeptArtefacts) -> None:
        referred, unused, again = (kept.store.put(data) for data in (b"referred", b"unused", b"again"))
        kept.pass_(7_200)
        kept.store.put(b"again")
        young = kept.store.put(b"young")
        assert kept.store.remove_but({referred}, kept.now() - HOUR_NS) == 1
        for digest in (referred, again, young):
            kept.store.get(digest)
        with pytest.raises(NotFound):
            kept.store.get(unused)
