"""What a server reads and answers, as the OpenAPI description lists it."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, model_validator

from ..errors import quote


def _refuse_surrogates(text: str) -> str:
    # JSON can have them as escapes; neither spaCy nor UTF-8 can.
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"half of a surrogate pair at character {error.start}") from None
    return text


Text = Annotated[str, AfterValidator(_refuse_surrogates)]


class _Request(BaseModel):
    """Refuses unknown fields, which are mistakes of spelling."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_fields(cls, value: object) -> object:
        # pydantic's own check makes an error of each unknown field, and there may be a million.
        for name in value if isinstance(value, dict) else ():
            if name not in cls.model_fields:
                raise ValueError(f"no field {quote(name)}; use {' or '.join(cls.model_fields)}")
        return value


class DocumentToRead(_Request):
    """A text to annotate or to de-identify."""

    text: Text = Field(
        description="The text. A pair of texts has U+001E between them.",
        examples=["Aspirin reduced the risk of colorectal cancer."],
    )
    id: Text | None = Field(None, max_length=1_000, description="The answer repeats it.")


class BatchToRead(_Request):
    """Texts to annotate or to de-identify."""

    documents: Annotated[list[DocumentToRead], FailFast()]


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Entity(_Answer):
    """A mention. Offsets are in code points of the text as given, the end is exclusive."""

    start: int
    end: int
    text: str
    label: str
    group: str | None = Field(description="Key of `doc.spans`; null for `doc.ents`.")
    confidence: float | None = Field(description="Probability; null from rules.")
    code: str | None = Field(
        None, description="This and the next two: where the pipeline has a `biomed_linker`."
    )
    code_name: str | None = None
    code_confidence: float | None = None
    attributes: dict[str, str]
    section: str | None = Field(None, description="Where the pipeline finds sections.")
    is_negated: bool | None = Field(
        None, description="This and the next four: where the pipeline looks at the context."
    )
    is_uncertain: bool | None = None
    is_historical: bool | None = None
    is_hypothetical: bool | None = None
    is_family: bool | None = None


class Relation(_Answer):
    """A relation of two mentions."""

    head_start: int
    head_end: int
    head_label: str
    tail_start: int
    tail_end: int
    tail_label: str
    label: str
    confidence: float


class AnswerToQuestion(_Answer):
    """An answer in the context of a question."""

    start: int
    end: int
    text: str
    confidence: float | None


class AnnotatedDocument(_Answer):
    """What was found in a text."""

    id: str
    characters: int
    words: int
    entities: list[Entity]
    cats: dict[str, float] | None = Field(None, description="Where the pipeline classifies.")
    relations: list[Relation] | None = Field(None, description="Where the pipeline finds them.")
    answers: list[AnswerToQuestion] | None = Field(
        None, description="Where the pipeline answers questions."
    )


class Replacement(_Answer):
    """A mention of the text and what stands for it in the new text."""

    start: int
    end: int
    new_start: int
    new_end: int
    label: str
    text: str


class DeidentifiedDocument(_Answer):
    """A text without personal data."""

    id: str
    text: str
    replacements: list[Replacement]


class FailedDocument(_Answer):
    """A document of a batch that failed; the others did not."""

    id: str
    error: str = Field(description="What failed, in a line without the text.")


class AnnotatedBatch(_Answer):
    """What was found in texts, in their order."""

    documents: list[AnnotatedDocument | FailedDocument]


class DeidentifiedBatch(_Answer):
    """Texts without personal data, in their order."""

    documents: list[DeidentifiedDocument | FailedDocument]


class Problem(_Answer):
    """Why a request was refused."""

    error: str = Field(description="A line.")


class Health(_Answer):
    """How the server is."""

    status: str
    waiting: int = Field(description="Documents that wait for the pipeline.")
