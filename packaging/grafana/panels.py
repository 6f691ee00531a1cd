"""Kinds of panels, queries and choices of a Grafana dashboard, in the form that Grafana wants."""

from typing import Any, Final

SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
BROKERS: Final = 'job="$job",instance=~"$instance"'
TOPICS: Final = f'{BROKERS},topic=~"$topic"'
RATE: Final = "[$__rate_interval]"
WIDTH: Final = 24

Query = tuple[str, str]
"""An expression, and what its lines are called."""


def rate(name: str, by: str, where: str = BROKERS) -> str:
    """A counter's rate, summed."""
    return f"sum by ({by}) (rate({name}{{{where}}}{RATE}))"


def quantile(share: float, name: str, by: str) -> str:
    """Of a histogram."""
    grouped = f"{by}, le" if by else "le"
    return f"histogram_quantile({share}, sum by ({grouped}) (rate({name}_bucket{{{BROKERS}}}{RATE})))"


def graph(title: str, unit: str, *queries: Query, what: str = "", stacked: bool = False) -> dict[str, Any]:
    """Lines over time."""
    custom = {
        "lineWidth": 1,
        "fillOpacity": 20 if stacked else 5,
        "showPoints": "never",
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    return {
        "type": "timeseries",
        "title": title,
        "description": what,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {
            "legend": {
                "displayMode": "table",
                "placement": "bottom",
                "calcs": ["lastNotNull", "max"],
                "showLegend": True,
            },
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": targets(queries),
    }


def number(title: str, expression: str, *, unit: str = "none", good: str = "low", what: str = "") -> dict[str, Any]:
    """One figure. `good` says when it is green: `low` at 0, `one` at 1 only, `high` at 1 or more, `any`."""
    steps: dict[str, list[dict[str, Any]]] = {
        "low": [{"color": "green", "value": None}, {"color": "red", "value": 1}],
        "one": [{"color": "red", "value": None}, {"color": "green", "value": 1}, {"color": "red", "value": 2}],
        "high": [{"color": "red", "value": None}, {"color": "green", "value": 1}],
        "any": [{"color": "text", "value": None}],
    }
    return {
        "type": "stat",
        "title": title,
        "description": what,
        "fieldConfig": {
            "defaults": {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps[good]}},
            "overrides": [],
        },
        "options": {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "area",
            "textMode": "auto",
        },
        "targets": targets([(expression, "")]),
    }


def targets(queries: "tuple[Query, ...] | list[Query]") -> list[dict[str, Any]]:
    """As Grafana names them: A, B, ..."""
    return [
        {
            "refId": chr(ord("A") + place),
            "datasource": SOURCE,
            "expr": expression,
            "legendFormat": legend,
            "range": True,
        }
        for place, (expression, legend) in enumerate(queries)
    ]


def variable(name: str, label: str, query: str, *, multi: bool) -> dict[str, Any]:
    """A choice at the top."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": f"{name}-choices"},
        "refresh": 2,
        "sort": 1,
        "multi": multi,
        "includeAll": multi,
        "allValue": ".*" if multi else None,
        "current": {"text": "All", "value": "$__all"} if multi else {},
        "options": [],
    }
