"""The view of the cluster that all requests share: it computes its counts once for each image."""

from yak.server.http.context import Context
from yak.views.cluster import ClusterView


def cluster_view(context: Context) -> ClusterView:
    """This broker's shared view."""
    view = context.parts.get("cluster")
    if view is None:
        view = context.parts["cluster"] = ClusterView(context.broker)
    assert isinstance(view, ClusterView)
    return view
