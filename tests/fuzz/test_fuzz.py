"""A short run of the fuzzer: mutants of the fixtures, and programs that only the grammar of Python knows."""

from __future__ import annotations

import ast
import random
import textwrap
import warnings

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.holds import check, parses
from tests.fuzz.mutants import Input
from tests.fuzz.seeds import MAKERS, SMALL, next_of, pool, programs, seeds
from tests.searching import examples

#: `benchmarks.fuzz` makes finds small; hypothesis only sees numbers
_ONCE = (Phase.explicit, Phase.generate)
#: to stand in the loop, at its end
_LAST = "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
_LOOP = f"""\
import torch
for x, y in loader:
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
{_LAST}"""

# lint raises the recursion limit, and hypothesis says so
pytestmark = pytest.mark.filterwarnings("ignore:The recursion limit will not be reset")


@pytest.mark.slow
@settings(examples(80), phases=_ONCE)
@given(seed=st.integers(0, 2**64))
def test_mutants(seed: int) -> None:
    rng = random.Random(seed)
    mutant = Input("train.py", rng.choice(programs()).encode())
    for _ in range(rng.choice((1, 1, 2, 3))):
        mutant = next_of(mutant, rng)
    check(mutant)


@pytest.mark.slow
@settings(examples(250), phases=_ONCE)
@given(seed=st.integers(0, 2**64), name=st.sampled_from(sorted(SMALL)))
def test_files_of_a_checkout(seed: int, name: str) -> None:
    rng = random.Random(seed)
    check(next_of(Input(name, rng.choice(SMALL[name])), rng))


@pytest.mark.slow
@settings(examples(60), phases=_ONCE)
@given(seed=st.integers(0, 2**64), make=st.sampled_from(sorted(MAKERS)))
def test_what_holds_programs(seed: int, make: str) -> None:
    rng = random.Random(seed)
    check(MAKERS[make](rng.choice(programs()), rng))


def _of_the_grammar() -> st.SearchStrategy[str]:
    """Made when it is first drawn from: to read the grammar takes seconds, in every process that imports this."""
    import hypothesmith

    strategy: st.SearchStrategy[str] = hypothesmith.from_grammar(auto_target=False)
    return strategy


@pytest.mark.slow
@settings(examples(15), phases=_ONCE, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(drawn=st.deferred(_of_the_grammar), inside=st.booleans())
def test_programs_of_the_grammar(drawn: str, inside: bool) -> None:
    """Beside a loop with a mistake, or in it."""
    text = _LOOP.replace(_LAST, textwrap.indent(drawn, "    ") + "\n" + _LAST) if inside else f"{_LOOP}{drawn}"
    check(Input("train.py", text.encode("utf-8", "surrogatepass")))


@pytest.mark.slow
def test_mutants_are_other_texts_and_mostly_programs() -> None:
    rng = random.Random(1)
    old = [Input("train.py", text.encode()) for text in programs()[:200]]
    new = [next_of(one, rng) for one in old]
    assert sum(one.data != other.data for one, other in zip(old, new, strict=True)) > 150
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python's parser, about the mutants
        assert sum(map(parses, new)) > 60


@pytest.mark.slow
def test_every_kind_of_file_is_a_seed_and_borrowing_leaves_the_pool_as_it_is() -> None:
    kinds = {seed.name for seed in seeds()}
    assert kinds == {"train.py", *SMALL}
    rng = random.Random(2)
    before = [pool().expression(random.Random(3)), pool().statement(random.Random(3))]
    for seed in list(seeds())[:50]:
        next_of(seed, rng)
    after = [pool().expression(random.Random(3)), pool().statement(random.Random(3))]
    assert [_dumped(x) for x in before] == [_dumped(x) for x in after]


def _dumped(node: object) -> str:
    assert isinstance(node, ast.AST)
    return ast.dump(node)
