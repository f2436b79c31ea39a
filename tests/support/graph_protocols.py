"""How works enter and leave the graph of dependences, as models of `runtime/csrc` for `support.interleavings`.

The faults of a model are lines that are changed; each lets a rule break in some order.
"""

from support.interleavings import BrokenError, Model, Thread


class Dependences(Model):
    """A work enters while the two that it depends on end."""

    faults = ("no guard", "no second look", "decrement in two steps", "successors taken before the lock")

    def __init__(self, fault=None) -> None:
        super().__init__(fault)
        self.unmet = self.ready = 0
        self.ended, self.linked = [False, False], [False, False]

    def threads(self):
        return [self.enters(), self.ends(0), self.ends(1)]

    def enters(self) -> Thread:
        if self.fault != "no guard":
            yield "entering.c: (void)atomic_fetch_add(&work->unmet, 1);"
            self.unmet += 1
        for at in (0, 1):
            yield from self.add_successor(at)
        yield from self.released()

    def add_successor(self, at) -> Thread:
        yield "node.c: if (node == work->node || tprof_node_has_ended(node))"
        if self.ended[at]:
            return
        yield from self.acquire(at, "node.c: tprof_acquire(&node->lock);")
        yield "node.c: if (!tprof_node_has_ended(node)) {"
        if not self.ended[at] or self.fault == "no second look":
            yield "node.c: *successor = (struct successor){tprof_ref(work), needs};"
            self.linked[at] = True
            yield "node.c: (void)atomic_fetch_add(&work->unmet, 1);"
            self.unmet += 1
        yield from self.release(at, "node.c: tprof_release(&node->lock);")

    def ends(self, at) -> Thread:
        take = "ending.c: for (uint32_t i = 0; i < node->successor_count; i++) {"
        if self.fault == "successors taken before the lock":
            yield take
            taken = self.linked[at]
        yield from self.acquire(at, "node.c: tprof_acquire(&node->lock);")
        yield "node.c: atomic_store_explicit(&node->ended, true, memory_order_release);"
        self.ended[at] = True
        yield from self.release(at, "node.c: tprof_release(&node->lock);")
        if self.fault != "successors taken before the lock":
            yield take
            taken = self.linked[at]
        if taken:
            yield from self.released()

    def released(self) -> Thread:
        yield "ending.c: if (atomic_fetch_sub(&work->unmet, 1) > 1)"
        before = self.unmet
        if self.fault == "decrement in two steps":
            yield "ending.c: if (atomic_fetch_sub(&work->unmet, 1) > 1)"
        self.unmet = before - 1
        if before > 1:
            return
        yield "ending.c: tprof_append(&deferred->ready, work);"
        self.ready += 1
        if any(linked and not ended for linked, ended in zip(self.linked, self.ended, strict=True)):
            raise BrokenError("ready before a predecessor has ended")

    def check(self):
        if self.ready != 1:
            raise BrokenError(f"made ready {self.ready} times")


class Failure(Model):
    """A writer fails; two others spawn a reader, of whom one has asked how the writer ended."""

    faults = ("state before the node", "node before the data")

    def __init__(self, fault=None) -> None:
        super().__init__(fault)
        self.state = self.ended = self.poisoned = self.acknowledged = False
        self.linked, self.taken, self.cancelled = [], [], []

    def threads(self):
        return [self.fails(), self.spawns("did not ask"), self.asks_and_spawns()]

    def fails(self) -> Thread:
        if self.fault == "state before the node":
            yield from self.set_state()
        yield from self.acquire("domain", "ending.c: tprof_acquire(&domain->lock);")
        if self.fault == "node before the data":
            yield from self.release("domain", "ending.c: tprof_release(&domain->lock);")
            yield from self.end_node()
            yield from self.acquire("domain", "ending.c: tprof_acquire(&domain->lock);")
        yield "ending.c: if (region == NULL || access->mode == TPROF_READS || tprof_is_acknowledged(cause))"
        if not self.acknowledged:
            yield "ending.c: region->cause = tprof_ref(cause);"
            self.poisoned = True
        if self.fault != "node before the data":
            yield from self.end_node()
        yield from self.release("domain", "ending.c: tprof_release(&domain->lock);")
        if self.fault != "state before the node":
            yield from self.set_state()
        yield "ending.c: if (work->outcome != TPROF_FINISHED && node->successors[i].needs) {"
        self.cancelled = [*self.cancelled, *self.taken]

    def end_node(self) -> Thread:
        yield "ending.c: tprof_node_end(work);"
        self.ended, self.taken = True, self.linked

    def set_state(self) -> Thread:
        yield "ending.c: tprof_set_state(work, (enum state)work->outcome);"
        self.state = True

    def asks_and_spawns(self) -> Thread:
        yield "binding_work.c: tprof_acknowledge(tprof_as_work(object));", lambda: self.state
        self.acknowledged = True
        yield from self.spawns("asked")

    def spawns(self, who) -> Thread:
        yield from self.acquire("domain", "entering.c: tprof_acquire(&domain->lock);")
        yield "entering.c: wait_for(work, region->writer, mode != TPROF_WRITES, deferred) < 0)"
        if not self.ended:
            self.linked = [*self.linked, who]
        yield "entering.c: tprof_set_cause(work, poisoned_nearby(region, domain, deferred));"
        if self.poisoned and not self.acknowledged:
            self.cancelled = [*self.cancelled, who]
        asked_before = self.acknowledged
        yield from self.release("domain", "entering.c: tprof_release(&domain->lock);")
        if who == "did not ask" and asked_before:
            self.cancelled = [*self.cancelled, who]  # either is right: the other thread asked first

    def check(self):
        if "asked" in self.cancelled:
            raise BrokenError("a failure that was asked about cancelled what was spawned afterwards")
        if "did not ask" not in self.cancelled:
            raise BrokenError("a task ran on data that a failure left unwritten")


class Completion(Model):
    """A parent's body ends beside its two children."""

    faults = ("both complete", "asks before it counts")

    def __init__(self, fault=None) -> None:
        super().__init__(fault)
        self.children, self.body_ended, self.completed, self.ends = 2, False, False, 0

    def threads(self):
        return [self.body(), self.child(), self.child()]

    def body(self) -> Thread:
        yield "ending.c: atomic_store(&work->body_ended, true);"
        self.body_ended = True
        yield "ending.c: if (work->children == NULL || tprof_latch_count(&work->children->unfinished) == 0)"
        if self.children == 0:
            yield from self.complete()

    def child(self) -> Thread:
        if self.fault == "asks before it counts":
            yield "ending.c: if (parent != NULL && atomic_load(&parent->body_ended)"
            ended = self.body_ended
        yield "domain.c: const size_t count = atomic_fetch_sub(&latch->count, 1) - 1;"
        self.children -= 1
        if self.fault != "asks before it counts":
            yield "ending.c: if (parent != NULL && atomic_load(&parent->body_ended)"
            ended = self.body_ended
        if not ended:
            return
        yield "ending.c: tprof_latch_count(&domain->unfinished) == 0)"
        if self.children == 0:
            yield from self.complete()

    def complete(self) -> Thread:
        yield "ending.c: if (atomic_exchange(&work->completed, true))"
        if self.completed and self.fault != "both complete":
            return
        self.completed = True
        yield "ending.c: let_end(work, work->error != NULL ? TPROF_FAILED_WORK : TPROF_FINISHED, deferred);"
        self.ends += 1
        if self.children or not self.body_ended:
            raise BrokenError("ended before its parts")

    def check(self):
        if self.ends != 1:
            raise BrokenError(f"ended {self.ends} times")


class Handle(Model):
    """The last work of a handle ends while another enters; the region is freed once, and never while it is used."""

    faults = ("frees without a second look", "counts without the lock")

    def __init__(self, fault=None) -> None:
        super().__init__(fault)
        self.users, self.region, self.frees = 1, "first", 0

    def threads(self):
        return [self.leaves("first"), self.enters()]

    def enters(self) -> Thread:
        if self.fault != "counts without the lock":
            yield from self.acquire("domain", "binding_data.c: tprof_acquire(&domain->lock);")
        yield "regions.c: for (struct region *region = *bucket_of(table, hash); region != NULL;"
        found = self.region
        yield "binding_data.c: (void)atomic_fetch_add(&(*found)->users, 1);"
        if found is None:
            found, self.region, self.users = "second", "second", 0
        if found != self.region:
            raise BrokenError("it counts on a region that was freed")
        self.users += 1
        yield from self.release("domain", "binding_data.c: tprof_release(&domain->lock);")
        yield from self.leaves(found)

    def leaves(self, region) -> Thread:
        yield "regions.c: if (atomic_fetch_sub(&region->users, 1) > 1)"
        if region != self.region:
            raise BrokenError("its region was freed while it used it")
        self.users -= 1
        if self.users > 0:
            return
        yield from self.acquire("domain", "regions.c: tprof_acquire(&domain->lock);")
        yield "regions.c: if (found == NULL || found->handle == NULL || !is_idle(found))"
        if self.fault == "frees without a second look" or (self.region == region and self.users == 0):
            self.region = None
            self.frees += 1
        yield from self.release("domain", "regions.c: tprof_release(&domain->lock);")

    def check(self):
        if self.region is not None:
            raise BrokenError("a region is left that nobody uses")


MODELS = [Dependences, Failure, Completion, Handle]
