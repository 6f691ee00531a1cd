"""The view of the cluster that all requests to one broker share: what it counts, it counts once for an image."""

from yak.broker.views.cluster import ClusterView
from yak.server.http.context import Context


def cluster_view(context: Context) -> ClusterView:
    """The one of this broker."""
    view = context.parts.get("cluster")
    if view is None:
        view = context.parts["cluster"] = ClusterView(context.broker)
    assert isinstance(view, ClusterView)
    return view
