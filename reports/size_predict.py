"""Predictions from ceilings: memory, concurrency, time to the first token, time of a decode step. docs/size.md states
every formula with its source, and what is not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .size_ceilings import NOTHING, Machine, Missing, Rate, Span
from .size_model import REST, TYPES, Model

MOST_GPUS = 1024


@dataclass(frozen=True)
class Plan:
    """What is asked, the same for every machine."""

    model: Model
    context: int
    batch: int
    prompt: int
    kind: str  # of the weights
    kv_kind: str
    use: float
    page: int
    gpus: int
    kernels: int  # launches a layer
    link: Rate | None  # from the options, where no ceiling tells it
    alpha_ns: float | None
    threads: str = "all"
    cold: bool = False  # nothing of the step is in a cache yet

    @property
    def arithmetic(self) -> str:
        """The type that attention and head are computed in."""
        return self.kind if TYPES[self.kind] > 1 else REST

    def pages(self, tokens: int) -> int:
        return -(-tokens // self.page)


# ---- memory ----


@dataclass(frozen=True)
class Memory:
    """Bytes on each GPU. `concurrency` is the most sequences of `context` tokens that fit, None without a cache."""

    weights: float
    kv: float
    activations: float
    device: float
    usable: float
    concurrency: int | None
    gpus_needed: int | None

    @property
    def total(self) -> float:
        return self.weights + self.kv + self.activations

    @property
    def fits(self) -> bool:
        return self.total <= self.usable


def activations(plan: Plan, machine: Machine, batch: int, gpus: int) -> float:
    """Of a decode step of the batch, or of one prompt, whichever is more; of an encoder, of the whole batch."""
    model, size = plan.model, stored_bytes(plan, machine)
    if not model.decodes:
        return model.activation_bytes(size, batch * plan.prompt, 0, gpus)
    step = model.activation_bytes(size, batch, batch, gpus)
    return max(step, model.activation_bytes(size, plan.prompt, 1, gpus))


def stored_bytes(plan: Plan, machine: Machine) -> int:
    """Of an element between operations: the host computes in f32 whatever the weights are."""
    return TYPES["f32"] if machine.on_cpu else plan.model.rest_size(plan.kind)


def sequence_bytes(plan: Plan, gpus: int) -> int:
    """Keys and values of one sequence, whole pages."""
    return plan.pages(plan.context) * plan.page * plan.model.kv_bytes(plan.kv_kind, gpus)


def most_sequences(plan: Plan, machine: Machine, usable: float) -> int:
    """By bisection, since the activations grow with the sequences too."""
    gpus = plan.gpus
    weights, each = plan.model.weight_bytes(plan.kind) / gpus, sequence_bytes(plan, gpus)

    def fits(count: int) -> bool:
        return weights + count * each + activations(plan, machine, count, gpus) <= usable

    low, high = 0, int(max(0.0, usable) // each) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def splits(model: Model, gpus: int) -> bool:
    """Whether heads can be shared out evenly."""
    return model.heads % gpus == 0 and (model.kv_heads % gpus == 0 or gpus % model.kv_heads == 0)


def _parts(plan: Plan, machine: Machine, gpus: int) -> tuple:
    weights, kv = plan.model.weight_bytes(plan.kind) / gpus, float(plan.batch * sequence_bytes(plan, gpus))
    return weights, kv, activations(plan, machine, plan.batch, gpus)


def memory(plan: Plan, machine: Machine) -> Memory:
    device = machine.memory_bytes
    usable = device * plan.use
    concurrency = most_sequences(plan, machine, usable) if plan.model.decodes else None
    needed = None
    if not machine.on_cpu and usable:
        counts = (n for n in range(1, min(plan.model.heads, MOST_GPUS) + 1) if splits(plan.model, n))
        needed = next((n for n in counts if sum(_parts(plan, machine, n)) <= usable), None)
    return Memory(*_parts(plan, machine, plan.gpus), device, usable, concurrency, needed)


# ---- time ----


@dataclass(frozen=True)
class Stage:
    """A part of a step. `limit` is the resource that its time stands for."""

    name: str
    span: Span
    limit: str
    rates: tuple = ()


@dataclass(frozen=True)
class Time:
    """A step's time from its stages, or why it is unknown. `floor` leaves launches and links out."""

    stages: tuple = ()
    missing: tuple = ()
    reason: str | None = None

    @property
    def span(self) -> Span | None:
        return None if self.missing or self.reason else _sum(self.stages)

    @property
    def floor(self) -> Span | None:
        if self.span is None:
            return None
        return _sum(s for s in self.stages if s.name not in ("launches", "all-reduce"))

    @property
    def limit(self) -> tuple:
        """(the resource that takes most of the time, its share)."""
        parts: dict = {}
        for stage in self.stages:
            parts[stage.limit] = parts.get(stage.limit, 0.0) + stage.span.value
        name = max(parts, key=parts.get)
        return name, parts[name] / sum(parts.values())

    @property
    def rates(self) -> list:
        return list({r.id: r for s in self.stages for r in s.rates}.values())

    @property
    def suspect(self) -> bool:
        return any(r.suspect for r in self.rates)

    @property
    def assumed(self) -> bool:
        """Alpha is always an option's, the link's rate unless a ceiling tells it."""
        return any(s.name == "all-reduce" for s in self.stages)


def _sum(stages) -> Span:
    total = NOTHING
    for stage in stages:
        total = total.plus(stage.span)
    return total


@dataclass
class Clock:
    """Collects stages and what is missing; every amount is that of one GPU."""

    plan: Plan
    machine: Machine
    level: str
    stages: list = field(default_factory=list)
    missing: dict = field(default_factory=dict)

    def _need(self, rate: Rate | Missing) -> Rate | None:
        if isinstance(rate, Missing):
            self.missing[rate.text] = rate
            return None
        return rate

    def stage(self, name: str, nbytes: float, flops: float, kind: str) -> None:
        """max(bytes / bandwidth, flops / matrix rate). Without the type's matrix rate the memory limits where even the
        f32 rate, which every type reaches, would leave the arithmetic the shorter one."""
        threads = self.plan.threads
        memory = self._need(self.machine.memory(self.level, threads))
        matrix = self.machine.matrix(kind, threads)
        if memory is None:
            self._need(matrix)
            return
        by_memory = Stage(name, memory.time_ns(nbytes), f"memory {self.level}", (memory,))
        if isinstance(matrix, Missing):
            least = self.machine.least_matrix(threads)
            if isinstance(least, Rate) and least.time_ns(flops).value <= by_memory.span.value:
                self.stages.append(replace(by_memory, rates=(memory, least)))
            else:
                self._need(matrix)
            return
        by_matrix = Stage(
            name, matrix.time_ns(flops), f"arithmetic {'f32' if self.machine.on_cpu else kind}", (matrix,)
        )
        self.stages.append(longer(by_memory, by_matrix))

    def launches(self, layers: int) -> None:
        """Nothing measures what a barrier of the host's threads costs, so on the CPU none is counted."""
        count = layers * self.plan.kernels
        rate = self._need(self.machine.launch()) if count and not self.machine.on_cpu else None
        if rate is not None:
            self.stages.append(Stage("launches", rate.time_ns(count), "launches", (rate,)))

    def all_reduce(self, layers: int, rows: int) -> None:
        """Two a layer, each alpha + 2 V / W for V bytes of the residual."""
        plan = self.plan
        if plan.gpus == 1:
            return
        link = self.machine.peer()
        if isinstance(link, Missing):
            link = plan.link
        if link is None or plan.alpha_ns is None:
            asked = [word for word, value in (("--link", link), ("--alpha", plan.alpha_ns)) if value is None]
            text = f"the link between GPUs: no ceiling tells it; give {' and '.join(asked)}"
            self.missing[text] = Missing("", text)
            return
        nbytes = 2.0 * rows * plan.model.d_model * TYPES[plan.arithmetic]
        each = link.time_ns(nbytes).plus(Span(plan.alpha_ns, plan.alpha_ns, plan.alpha_ns))
        self.stages.append(Stage("all-reduce", each.times(2 * layers), "link", (link,)))

    def time(self) -> Time:
        return Time(tuple(self.stages), tuple(self.missing.values()))


def longer(a: Stage, b: Stage) -> Stage:
    """The slower of two that overlap; its interval may be the other's at an end."""
    first = a if a.span.value >= b.span.value else b
    if a.span.low is None or b.span.low is None:
        return replace(first, rates=a.rates + b.rates)
    span = Span(first.span.value, max(a.span.low, b.span.low), max(a.span.high, b.span.high))
    return replace(first, span=span, rates=a.rates + b.rates)


def _clock(plan: Plan, machine: Machine, streamed: float) -> Clock:
    return Clock(plan, machine, machine.level(float("inf") if plan.cold else streamed, plan.threads))


def decode(plan: Plan, machine: Machine) -> Time:
    """One step: a token for each of the batch, the context full."""
    model, batch, n = plan.model, plan.batch, plan.gpus
    read = model.experts_read(batch)
    layers = model.layer_bytes(plan.kind, read) / n
    head = model.head_bytes(plan.kind) / n
    kv = float(batch * plan.context * model.kv_bytes(plan.kv_kind, n))
    clock = _clock(plan, machine, layers + head + kv)
    clock.stage("layers", layers, batch * model.layer_flops / n, plan.kind)
    clock.stage("attention", kv, batch * model.decode_attention_flops(plan.context) / n, plan.arithmetic)
    clock.stage("head", head, batch * model.head_flops / n, plan.arithmetic)
    clock.launches(model.layers)
    clock.all_reduce(model.layers, batch)
    return clock.time()


def prefill(plan: Plan, machine: Machine, batch: int) -> Time:
    """`batch` prompts at once; the head multiplies only the last token of each."""
    model, n, tokens = plan.model, plan.gpus, batch * plan.prompt
    layers = model.layer_bytes(plan.kind, model.experts_read(tokens)) / n
    head = model.head_bytes(plan.kind) / n
    kv = float(tokens * model.kv_bytes(plan.kv_kind, n))
    clock = _clock(plan, machine, layers + head + kv)
    clock.stage("layers", layers, tokens * model.layer_flops / n, plan.kind)
    clock.stage("attention", kv, batch * model.prompt_attention_flops(plan.prompt) / n, plan.arithmetic)
    clock.stage("head", head, batch * model.head_flops / n, plan.arithmetic)
    clock.launches(model.layers)
    clock.all_reduce(model.layers, tokens)
    return clock.time()


@dataclass(frozen=True)
class Prediction:
    """One row. An encoder has no step: `step` is None, and `first` is the forward pass of the whole batch."""

    machine: Machine
    plan: Plan
    memory: Memory
    first: Time
    step: Time | None

    @property
    def times(self) -> list:
        """(name, time) of those that there are."""
        if self.step is None:
            return [("forward", self.first)]
        return [("TTFT", self.first), ("ITL", self.step)]

    @property
    def rates(self) -> list:
        return list({r.id: r for _, t in self.times for r in t.rates}.values())

    @property
    def remedy(self) -> str | None:
        """The run that measures what is missing."""
        resources = [m.resource for _, t in self.times for m in t.missing if m.resource]
        return self.machine.remedy() if resources else None

    @property
    def throughput(self) -> Span | None:
        """Tokens a second of the whole batch; of an encoder, sequences a second."""
        time = self.step or self.first
        return None if time.span is None else time.span.over(self.plan.batch * 1e9)


def predict(plan: Plan, machine: Machine) -> Prediction:
    found = memory(plan, machine)
    if not machine.memory_bytes:
        lost = Time(reason="the result does not tell the device's memory; measure it again with `assay run`")
    elif not found.fits:
        need = "no number of these GPUs holds it" if found.gpus_needed is None else f"--gpus {found.gpus_needed} would"
        lost = Time(reason=f"it does not fit{'' if machine.on_cpu else f'; {need}'}")
    else:
        lost = None
    first = lost or prefill(plan, machine, 1 if plan.model.decodes else plan.batch)
    step = None if not plan.model.decodes else lost or decode(plan, machine)
    return Prediction(machine, plan, found, first, step)
