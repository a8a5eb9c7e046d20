"""Shapes of models: presets as `assay list --json` prints them (plan.catalogue of a result holds the same), or a folder
with a Hugging Face config.json. And what follows from a shape alone: elements, bytes and operations. docs/size.md has
each formula.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path

from .errors import InputProblem

DECODER, ENCODER = "decoder", "encoder"
LARGEST = 1 << 40  # of any field: a config with more is damaged
# Bytes of an element. The one-byte types hold the matrices of the layers; the rest then stays in REST.
TYPES = {"f32": 4, "bf16": 2, "f16": 2, "e4m3": 1, "s8": 1}
REST = "bf16"
SCALE_BYTES = 4  # f32, one for each row of a matrix, or for each key and value vector


@dataclass(frozen=True)
class Model:
    name: str
    family: str
    layers: int
    d_model: int
    heads: int
    kv_heads: int
    head_dim: int
    d_ff: int
    vocab: int
    tied: bool
    experts: int
    experts_per_token: int
    max_positions: int

    @property
    def decodes(self) -> bool:
        return self.family == DECODER

    # ---- elements; the shapes are those of kernels/inference/model.h ----

    @property
    def _q(self) -> int:
        return self.heads * self.head_dim

    @property
    def _kv(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def attention_elements(self) -> int:
        """Of one layer: QKV, output projection, and the biases and norm of an encoder."""
        matrices = (self._q + 2 * self._kv) * self.d_model + self.d_model * self._q
        return matrices if self.decodes else matrices + self._q + 2 * self._kv + 3 * self.d_model

    @property
    def mlp_elements(self) -> int:
        """Of one layer, or of one expert of it."""
        if self.decodes:
            return 3 * self.d_model * self.d_ff
        return 2 * self.d_model * self.d_ff + self.d_ff + 3 * self.d_model

    @property
    def other_elements(self) -> int:
        """Of one layer: a decoder's two norms, and the router of a mixture of experts."""
        return (2 * self.d_model if self.decodes else 0) + self.experts * self.d_model

    @property
    def embedding_elements(self) -> int:
        """What stands before the layers: of an encoder also positions, types and their norm."""
        return self.d_model * (self.vocab if self.decodes else self.vocab + self.max_positions + 4)

    @property
    def head_elements(self) -> int:
        """What the head multiplies with; stored once more only where it is not the embedding."""
        return self.vocab * self.d_model if self.decodes else 0

    @property
    def stored_head_elements(self) -> int:
        return 0 if self.tied else self.head_elements

    def layer_elements(self, experts: float) -> float:
        """Of all layers, with so many experts of each (of a dense model the one feed-forward)."""
        count = experts if self.experts else 1
        return self.layers * (self.attention_elements + self.mlp_elements * count + self.other_elements)

    @property
    def parameters(self) -> int:
        final = self.d_model if self.decodes else 0
        layers = int(self.layer_elements(self.experts))
        return self.embedding_elements + layers + final + self.stored_head_elements

    def experts_read(self, tokens: float) -> float:
        """Expected number of different experts of a layer that so many tokens choose: each takes `experts_per_token`
        different ones, all equally likely and independent of the other tokens."""
        if not self.experts:
            return 1.0
        return self.experts * (1 - (1 - self.experts_per_token / self.experts) ** tokens)

    # ---- bytes ----

    def layer_bytes(self, kind: str, experts: float) -> float:
        size = TYPES[kind]
        if size > 1:
            return self.layer_elements(experts) * size
        count = experts if self.experts else 1
        vectors = self.other_elements if self.decodes else self._q + 2 * self._kv + self.d_ff + 6 * self.d_model
        matrices = self.layer_elements(experts) / self.layers - vectors
        rows = self._q + 2 * self._kv + self.d_model + count * ((2 if self.decodes else 1) * self.d_ff + self.d_model)
        return self.layers * (matrices * size + rows * SCALE_BYTES + vectors * TYPES[REST])

    @staticmethod
    def rest_size(kind: str) -> int:
        """Bytes of an element of embedding, head and activations."""
        return TYPES[kind] if TYPES[kind] > 1 else TYPES[REST]

    def weight_bytes(self, kind: str) -> float:
        rest = self.embedding_elements + self.stored_head_elements + (self.d_model if self.decodes else 0)
        return self.layer_bytes(kind, self.experts) + rest * self.rest_size(kind)

    def head_bytes(self, kind: str) -> float:
        return self.head_elements * self.rest_size(kind)

    def kv_bytes(self, kind: str, gpus: int = 1) -> int:
        """Of one token on one of so many GPUs; a head cannot be cut, so with more GPUs than heads each holds one."""
        if not self.decodes:
            return 0
        heads = -(-self.kv_heads // gpus)
        one = self.head_dim * TYPES[kind] + (SCALE_BYTES if kind == "s8" else 0)
        return 2 * self.layers * heads * one

    def activation_bytes(self, size: int, rows: int, outputs: int, gpus: int = 1) -> float:
        """Of a step of `rows` tokens, a buffer for each intermediate of a layer, used again by the next: the residual
        in f32, its norm, q, k, v, attention's output, and what the feed-forward holds (of each expert that a token
        takes), in `size` bytes; and the logits of `outputs` tokens in f32. Attention keeps no matrix of scores."""
        taken = self.experts_per_token if self.experts else 1
        layer = 2 * self._q + 2 * self._kv + (3 if self.decodes else 1) * self.d_ff * taken
        row = self.d_model * (4 + size) + layer / gpus * size
        return rows * row + outputs * (self.vocab * 4 if self.decodes else 0)

    # ---- operations; a multiply-add is two ----

    @property
    def layer_flops(self) -> float:
        """Of one token, without attention's scores."""
        return 2.0 * self.layer_elements(self.experts_per_token)

    @property
    def head_flops(self) -> float:
        return 2.0 * self.head_elements

    def decode_attention_flops(self, context: int) -> float:
        """Scores and sums of one token over `context` positions, its own included."""
        return 4.0 * self.layers * self._q * context

    def prompt_attention_flops(self, tokens: int) -> float:
        """A decoder's token sees those up to itself, an encoder's all."""
        pairs = tokens * (tokens + 1) / 2 if self.decodes else tokens * tokens
        return 4.0 * self.layers * self._q * pairs


# ---- presets ----

_FIELDS = {f.name: f.type for f in fields(Model)}
_MAY_BE_ZERO = ("experts", "experts_per_token")


def from_record(record, where: str) -> Model:
    """One object of `models`; its `parameters` must be what the shape gives."""
    if not isinstance(record, dict):
        raise InputProblem(f"{where}: is not an object; use the assay that wrote it")
    values = {}
    for name, kind in _FIELDS.items():
        value = record.get(name)
        wanted = {"int": int, "str": str, "bool": bool}[kind]
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise InputProblem(f"{where}: {name} is {value!r}; use the assay that wrote it")
        values[name] = value
    model = Model(**values)
    check(model, where)
    if record.get("parameters") != model.parameters:
        raise InputProblem(
            f"{where}: has {record.get('parameters')!r} parameters, its shape gives {model.parameters}: "
            "the shape is another one than this version knows; use the assay that wrote it"
        )
    return model


def check(model: Model, where: str) -> None:
    for name, kind in _FIELDS.items():
        value = getattr(model, name)
        if kind == "int" and not (0 if name in _MAY_BE_ZERO else 1) <= value <= LARGEST:
            raise InputProblem(f"{where}: {name} is {value}; give a shape whose numbers are above 0")
    if model.family not in (DECODER, ENCODER):
        raise InputProblem(f"{where}: the family {model.family!r} is not known; decoder and encoder are")
    if model.heads % model.kv_heads:
        raise InputProblem(f"{where}: {model.heads} heads cannot share {model.kv_heads} key/value heads; check it")
    if not (0 < model.experts_per_token <= model.experts or model.experts == model.experts_per_token == 0):
        raise InputProblem(
            f"{where}: a token cannot take {model.experts_per_token} of {model.experts} experts; check it"
        )


# ---- a folder with config.json ----

ARCHITECTURES = {"llama": DECODER, "mistral": DECODER, "mixtral": DECODER, "bert": ENCODER}


def from_folder(folder: Path) -> Model:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputProblem(f"{path}: cannot be read ({error.strerror}); name a folder with a config.json") from None
    except (ValueError, RecursionError) as error:
        raise InputProblem(f"{path}: is not JSON ({error}); copy the model's config.json again") from None
    if not isinstance(config, dict):
        raise InputProblem(f"{path}: is not a JSON object; copy the model's config.json again")
    family = ARCHITECTURES.get(str(config.get("model_type")))
    if family is None:
        known = ", ".join(ARCHITECTURES)
        raise InputProblem(f"{path}: model_type {config.get('model_type')!r} is not modelled; {known} are")
    model = _from_config(config, family, folder, path)
    check(model, str(path))
    return model


def _from_config(config: dict, family: str, folder: Path, path: Path) -> Model:
    def number(name: str, otherwise: int | None = None) -> int:
        value = config.get(name)
        value = otherwise if value is None else value
        if not isinstance(value, int) or isinstance(value, bool):
            raise InputProblem(f"{path}: {name} is {value!r}; a whole number is needed")
        return value

    window = config.get("sliding_window")
    positions = number("max_position_embeddings")
    if isinstance(window, int) and window < positions and config["model_type"] == "mistral":
        positions = window  # beyond it the cache no longer grows, which no formula here knows
    heads, width = number("num_attention_heads"), number("hidden_size")
    if heads < 1:
        raise InputProblem(f"{path}: num_attention_heads is {heads}; at least 1 is needed")
    mixture = config["model_type"] == "mixtral"
    return Model(
        name=folder.resolve().name,
        family=family,
        layers=number("num_hidden_layers"),
        d_model=width,
        heads=heads,
        kv_heads=number("num_key_value_heads", heads),
        head_dim=number("head_dim", width // heads),
        d_ff=number("intermediate_size"),
        vocab=number("vocab_size"),
        tied=config.get("tie_word_embeddings") is True and family == DECODER,
        experts=number("num_local_experts") if mixture else 0,
        experts_per_token=number("num_experts_per_tok") if mixture else 0,
        max_positions=positions,
    )


def choose(name: str, models: list, where: str) -> Model:
    """The preset of that name from `models`, the catalogue's array; else the folder of that name."""
    for record in models:
        if isinstance(record, dict) and record.get("name") == name:
            return from_record(record, f"{where}: model {name}")
    if Path(name).is_dir():
        return from_folder(Path(name))
    known = ", ".join(str(r.get("name")) for r in models if isinstance(r, dict))
    raise InputProblem(f"--model {name}: is no preset and no folder with a config.json; presets: {known}")
