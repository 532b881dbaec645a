"""Contract kit of artefact stores."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framework.errors import NotFound, StoreError
from framework.ports.store import ArtefactStore

HOUR_NS = 3_600 * 10**9


class KeptArtefacts:
    """An artefact store under test.

    ``sleep``: makes its artefacts older [s].  ``now``: its clock [ns].  ``damage``: changes the bytes under a digest.
    """

    def __init__(
        self,
        store: ArtefactStore,
        sleep: Callable[[float], None],
        now: Callable[[], int],
        damage: Callable[[str], object],
    ) -> None:
        self.store, self.sleep, self.now, self.damage = store, sleep, now, damage


class ArtefactStoreContract:
    """Tests of an artefact store.  Fixture: ``kept``, a KeptArtefacts."""

    def test_equal_data_are_kept_once_and_come_back(self, kept: KeptArtefacts) -> None:
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

    def test_old_artefacts_without_a_reference_are_removed(self, kept: KeptArtefacts) -> None:
        referred, unused, again = (kept.store.put(data) for data in (b"referred", b"unused", b"again"))
        kept.sleep(7_200)
        kept.store.put(b"again")
        young = kept.store.put(b"young")
        assert kept.store.remove_but({referred}, kept.now() - HOUR_NS) == 1
        for digest in (referred, again, young):
            kept.store.get(digest)
        with pytest.raises(NotFound):
            kept.store.get(unused)
