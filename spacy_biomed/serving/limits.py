"""How much a server takes at once, and for how long."""

from dataclasses import dataclass, fields

from ..errors import BiomedError


@dataclass(frozen=True)
class ServerLimits:
    """The limits of a server. What exceeds one is refused with a line that names it.

    Attributes:
        max_characters: of a text.
        max_documents: of a request.
        max_body: bytes of a request's body.
        max_waiting: documents of all requests that wait for the pipeline.
        max_held: bytes of the bodies of all requests that are not yet answered, which bounds the
            memory of the server.
        timeout: seconds for a request to arrive, and again for it to be annotated; and for a text.
        max_wait: seconds that a request may wait for the pipeline to begin with it.
        batch_time: seconds that a batch may take, by the speed of those before it; a single text
            may take longer.
        batch_documents, batch_characters: of a batch; a longer text is a batch by itself.
        gathering_time: seconds that an idle pipeline waits for more requests to share its batch.
    """

    max_characters: int = 100_000
    max_documents: int = 1_000
    max_body: int = 5_000_000
    max_waiting: int = 1_000
    max_held: int = 100_000_000
    timeout: float = 60.0
    max_wait: float = 10.0
    batch_time: float = 2.0
    batch_documents: int = 64
    batch_characters: int = 100_000
    gathering_time: float = 0.002

    def __post_init__(self) -> None:
        """Refuse limits that are not above zero, or of which one makes another useless."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise BiomedError(f"{field.name} = {value}: use a number above 0")
        for smaller, larger in (("max_documents", "max_waiting"), ("max_body", "max_held")):
            if getattr(self, smaller) > getattr(self, larger):
                raise BiomedError(
                    f"{smaller} = {getattr(self, smaller):,} is more than {larger} = "
                    f"{getattr(self, larger):,}: such a request could never be taken"
                )
