"""Which kind of depot a place is."""

from __future__ import annotations

from slurm_resilience.checkpoint.tiers.depot import Depot
from slurm_resilience.checkpoint.tiers.folder_depot import FolderDepot
from slurm_resilience.checkpoint.tiers.object_store import ObjectStore
from slurm_resilience.checkpoint.tiers.places import Folder, ObjectUrl, Place


def depot_at(place: Place) -> Depot:
    """Touches nothing yet."""
    match place:
        case Folder(path):
            return FolderDepot(path)
        case ObjectUrl(url):
            return ObjectStore(url)
