"""Programs that several ranks run, and what came of them.

Importing torch takes seconds, so no check starts Pythons of its own. One process, the *nursery*,
imports torch once and forks ranks when it is asked to. A crew of ranks runs the programs of one
module one after another, each with a process group of its own, and writes down what came of each:
a value, an exception, or nothing because the rank died or hung. Every program is a test of its
own, which looks only at its own outcomes.

    @program(world=2)
    def sums_are_the_same_everywhere(me: Rank) -> torch.Tensor:
        tensor = torch.full((3,), float(me.rank))
        dist.all_reduce(tensor)
        return tensor

Who does what:

    program.py   marks functions as programs, lists them
    stage.py     in a rank: meets the others, runs one program, notes its outcome
    nursery.py   the process that forks ranks, and starts anew after the program that broke a crew
    crews.py     in pytest: asks for crews, hands out outcomes
    compare.py   in pytest: two results are the same
"""

from ranks.program import Program, Rank, program, programs_in

__all__ = ["Program", "Rank", "program", "programs_in"]
