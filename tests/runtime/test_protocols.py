"""The runtime's protocols in every order of their atomic steps; with one line changed, each lets a rule break.

Memory is sequentially consistent in these models. The C code uses `seq_cst` where that matters (two threads that each
write one variable and read the other's, and the counts that decide who is last), and locks for the rest.
"""

import pytest
from support import graph_protocols, queue_protocols, waiting_protocols
from support.interleavings import explore, missing_lines

MODELS = [*graph_protocols.MODELS, *queue_protocols.MODELS, *waiting_protocols.MODELS]


@pytest.mark.parametrize("model", MODELS)
def test_no_order_of_steps_breaks_the_rules(model):
    found = explore(model)

    assert found.problem is None, found.problem
    assert found.states > 10


@pytest.mark.parametrize(("model", "fault"), [(model, fault) for model in MODELS for fault in model.faults])
def test_a_planted_fault_is_found(model, fault):
    assert explore(lambda: model(fault)).problem is not None


@pytest.mark.parametrize("model", MODELS)
def test_each_step_is_a_line_of_the_c_code(model):
    assert missing_lines(explore(model).lines) == []
