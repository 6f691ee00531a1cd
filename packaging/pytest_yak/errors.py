"""The error of a cluster, as `yak.errors.YakError` with the fields that a test sees."""


class YakError(Exception):
    """A refusal of the cluster: a code, a message, its reason, and what to try. Tracebacks show all of it."""

    def __init__(self, code: str, message: str, *, why: str | None = None, try_: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.why = why
        self.try_ = try_
        for note in (*([f"  why:  {why}"] if why else []), *(f"  try:  {line}" for line in try_)):
            self.add_note(note)
