"""How works are queued, taken and cancelled, and threads woken for them, as models of `runtime/csrc`.

They are for `support.interleavings`. The faults of a model are lines that are changed; each lets a rule break in some
order. Two accesses that a processor might swap without a fence are such a fault in the other order.
"""

from support.interleavings import BrokenError, Model, Thread

LEFT = "left"


class Deque(Model):
    """The owner pops, pushes until its buffer grows, and pops again; two thieves steal meanwhile."""

    faults = (
        "top before the bottom",
        "last without a swap",
        "work after the bottom",
        "no room",
        "stolen without a swap",
    )

    def __init__(self, fault=None) -> None:
        super().__init__(fault)
        self.top, self.bottom, self.buffer = 0, 2, 0
        self.buffers = [{0: 0, 1: 1}, {}]  # of capacity 2, and the one that replaces it
        self.taken = []

    def threads(self):
        return [self.owns(), self.steals(), self.steals()]

    def owns(self) -> Thread:
        yield from self.pops()
        yield from self.pushes(2)
        yield from self.pushes(3)
        yield from self.pops()
        yield from self.pops()

    def capacity(self, buffer) -> int:
        return 2 << buffer

    def takes(self, work) -> None:
        if work in self.taken:
            raise BrokenError(f"{work} was taken twice")
        self.taken = [*self.taken, work]

    def pushes(self, work) -> Thread:
        yield "deque.c: const int64_t top = atomic_load_explicit(&deque->top, memory_order_acquire);"
        if self.bottom - self.top >= self.capacity(self.buffer) and self.fault != "no room":
            yield "deque.c: atomic_store_explicit(&deque->buffer, larger, memory_order_release);"
            former, capacity = self.buffers[self.buffer], self.capacity(self.buffer)
            larger = {at % (2 * capacity): former[at % capacity] for at in range(self.top, self.bottom)}
            self.buffers = [former, larger]
            self.buffer = 1
        if self.fault == "work after the bottom":
            yield "deque.c: atomic_store(&deque->bottom, bottom + 1);"
            self.bottom += 1
        yield "deque.c: atomic_store_explicit(place_of(buffer, bottom), work, memory_order_relaxed);"
        at = self.bottom - (self.fault == "work after the bottom")
        self.buffers = [dict(buffer) for buffer in self.buffers]
        self.buffers[self.buffer][at % self.capacity(self.buffer)] = work
        if self.fault != "work after the bottom":
            yield "deque.c: atomic_store(&deque->bottom, bottom + 1);"
            self.bottom += 1

    def pops(self) -> Thread:
        last = self.bottom - 1
        yield "deque.c: if (last < atomic_load_explicit(&deque->top, memory_order_relaxed))"
        if last < self.top:
            return
        if self.fault == "top before the bottom":
            yield "deque.c: int64_t top = atomic_load(&deque->top);"
            top = self.top
        yield "deque.c: atomic_store(&deque->bottom, last);"
        self.bottom = last
        if self.fault != "top before the bottom":
            yield "deque.c: int64_t top = atomic_load(&deque->top);"
            top = self.top
        won = top <= last
        if top == last and self.fault != "last without a swap":
            yield "deque.c: if (top == last && !atomic_compare_exchange_strong(&deque->top, &top, top + 1))"
            won = self.top == top
            self.top += won
        elif top == last:
            yield "deque.c: if (top == last && !atomic_compare_exchange_strong(&deque->top, &top, top + 1))"
            self.top = last + 1
        if top >= last:
            yield "deque.c: atomic_store_explicit(&deque->bottom, last + 1, memory_order_release);"
            self.bottom = last + 1
        if won:
            self.takes(self.buffers[self.buffer].get(last % self.capacity(self.buffer), LEFT))

    def steals(self) -> Thread:
        while True:
            yield "deque.c: int64_t top = atomic_load(&deque->top);"
            top = self.top
            yield "deque.c: if (top >= atomic_load(&deque->bottom))"
            if top >= self.bottom:
                return
            yield "deque.c: struct buffer *buffer = atomic_load_explicit(&deque->buffer, memory_order_acquire);"
            buffer = self.buffer
            yield "deque.c: struct work *work = atomic_load_explicit(place_of(buffer, top), memory_order_relaxed);"
            work = self.buffers[buffer].get(top % self.capacity(buffer), LEFT)
            yield "deque.c: if (atomic_compare_exchange_strong(&deque->top, &top, top + 1))"
            if self.top == top or self.fault == "stolen without a swap":
                self.top = top + 1
                self.takes(work)
                return

    def check(self):
        capacity = self.capacity(self.buffer)
        left = [self.buffers[self.buffer][at % capacity] for at in range(self.top, self.bottom)]
        if sorted([*self.taken, *left], key=str) != [0, 1, 2, 3]:
            raise BrokenError(f"taken {self.taken}, left {left}")


class Cancelling(Model):
    """A work becomes ready while two cancel it; one takes what is queued, and one helps, since it waits for it."""

    faults = ("shown without a swap", "one try", "taken without a swap", "ends what is pending")

    def __init__(self, fault=None) -> None:
        super().__init__(fault)
        self.state, self.entry = "pending", None
        self.answers, self.ran, self.ended = [], 0, 0

    def threads(self):
        return [self.becomes_ready(), self.cancels(), self.cancels(), self.takes(), self.helps()]

    def swaps(self, state, new) -> bool:
        won = self.state == state
        if won:
            self.state = new
        return won

    def becomes_ready(self) -> Thread:
        line = "queues.c: if (atomic_compare_exchange_strong(&work->state, &pending, TPROF_QUEUED))"
        yield line
        shown = self.state == "pending"
        if self.fault == "shown without a swap":
            yield line
            self.state = "queued" if shown else self.state
        elif shown:
            self.state = "queued"
        if shown:
            yield "queues.c: tprof_deque_push(deque, tprof_ref(work));"
        else:
            yield "queues.c: tprof_graph_end_cancelled(work, deferred);"
            self.ended += 1
        self.entry = shown

    def cancels(self) -> Thread:
        yield "ending.c: uint8_t state = atomic_load(&work->state);"
        seen = self.state
        while seen in ("pending", "queued"):
            yield "ending.c: if (!atomic_compare_exchange_strong(&work->state, &state, TPROF_WITHDRAWN))"
            if self.swaps(seen, "withdrawn"):
                if seen == "queued" or self.fault == "ends what is pending":
                    yield "ending.c: tprof_graph_end_cancelled(work, deferred);"
                    self.ended += 1
                self.answers = [*self.answers, True]
                return
            seen = "withdrawn" if self.fault == "one try" else self.state
        self.answers = [*self.answers, seen == "withdrawn"]

    def takes(self) -> Thread:
        yield "queues.c: if (begin(work, deferred))", lambda: self.entry is not None
        if not self.entry:
            return
        if self.fault == "taken without a swap":
            queued = self.state == "queued"
            yield "queues.c: if (tprof_queue_claim(work, TPROF_RUNNING))"
            self.state = "running" if queued else self.state
            self.ran += queued
            return
        self.ran += self.swaps("queued", "running")

    def helps(self) -> Thread:
        yield "queues.c: if (!tprof_queue_claim(work, TPROF_RUNNING))"
        self.ran += self.swaps("queued", "running")

    def check(self):
        if self.ran + self.ended != 1:
            raise BrokenError(f"it ran {self.ran} times and was cancelled {self.ended} times")
        if any(self.answers) == bool(self.ran):
            raise BrokenError(f"it ran {self.ran} times, and who cancelled it was told {self.answers}")


class CancellingAll(Model):
    """All works are cancelled while one is queued; a worker takes what it finds."""

    faults = ("asks before it claims", "does not ask")

    def __init__(self, fault=None) -> None:
        super().__init__(fault)
        self.cancelling = self.returned = self.pushed = False
        self.state, self.queued, self.ended, self.began = "pending", 0, 0, None

    def threads(self):
        return [self.becomes_ready(), self.cancels_all(), self.takes()]

    def becomes_ready(self) -> Thread:
        yield "ending.c: else if (is_unwanted(work))"
        if self.cancelling:
            self.ended += 1
        else:
            yield "queues.c: tprof_deque_push(deque, tprof_ref(work));"
            self.state, self.queued = "queued", 1
        self.pushed = True

    def cancels_all(self) -> Thread:
        yield "ending.c: atomic_store(&scheduler->cancelling, true);"
        self.cancelling = True
        yield "ending.c: for (struct work *work = tprof_queues_drain(scheduler), *next; work != NULL; work = next) {"
        drained, self.queued = self.queued, 0
        if drained:
            yield "ending.c: if (tprof_queue_claim(work, TPROF_PENDING)) {"
            if self.state == "queued":
                self.state = "pending"
                self.ended += 1
        self.returned = True

    def takes(self) -> Thread:
        yield "binding_threads.c: work = tprof_queue_take(scheduler, thread, victim, &deferred);", lambda: self.pushed
        taken, self.queued = self.queued, 0
        if not taken:
            return
        unwanted = self.cancelling
        yield "queues.c: if (tprof_queue_claim(work, TPROF_RUNNING))"
        if self.state != "queued":
            return
        self.state, returned = "running", self.returned
        if self.fault != "asks before it claims":
            yield "binding_threads.c: while (work != NULL && !tprof_graph_may_begin(work, &deferred));"
            unwanted = self.cancelling and self.fault != "does not ask"
        if unwanted:
            self.ended += 1
        else:
            self.began = "late" if returned else "in time"

    def check(self):
        if self.began == "late":
            raise BrokenError("it began after all had been cancelled")
        if self.ended + (self.began is not None) != 1:
            raise BrokenError(f"it began {self.began}, and was cancelled {self.ended} times")


class Sleeping(Model):
    """Two works come, each of which ends only beside the other; two workers look for works, and sleep."""

    faults = (
        "looks before it sleeps",
        "looks before it stops searching",
        "last to search wakes nobody",
        "looks before it queues",
    )

    def __init__(self, fault=None) -> None:
        super().__init__(fault)
        self.queued, self.begun, self.searching, self.has_idle = 0, 0, 0, False
        self.sleeping, self.posted = [], []

    def threads(self):
        return [self.queues(), self.works("one"), self.works("other")]

    def queues(self) -> Thread:
        """One thread queues both: the second may find that somebody is already on the way."""
        for _ in range(2):
            if self.fault == "looks before it queues":
                wakes = yield from self.asks()
            yield "deque.c: atomic_store(&deque->bottom, bottom + 1);"
            self.queued += 1
            if self.fault != "looks before it queues":
                wakes = yield from self.asks()
            if wakes:
                yield from self.acquire("mutex", "slots.c: tprof_lock(scheduler);")
                yield "slots.c: if (searching < works)"
                if self.searching == 0:
                    yield from self.wakes_one()
                yield from self.release("mutex", "slots.c: tprof_unlock(scheduler);")

    def asks(self):
        line = "slots.c: if (!atomic_load(&queues->has_idle) || atomic_load(&queues->searching) >= works)"
        yield line
        if not self.has_idle:
            return False
        yield line
        return self.searching == 0

    def wakes_one(self) -> Thread:
        yield "slots.c: struct thread *thread = pop(&scheduler->sleeping);"
        if self.sleeping:
            *self.sleeping, woken = self.sleeping
            self.posted = [*self.posted, woken]
            self.searching += 1
        yield from self.publish()

    def publish(self) -> Thread:
        yield "slots.c: atomic_store(&scheduler->queues->has_idle, scheduler->sleeping != NULL"
        self.has_idle = bool(self.sleeping)

    def works(self, name) -> Thread:
        searches = False
        while True:
            yield "binding_threads.c: work = tprof_queue_take(scheduler, thread, victim, &deferred);"
            if self.queued:
                self.queued -= 1
                self.begun += 1
                break
            yield from self.acquire("mutex", "binding_threads.c: tprof_lock(scheduler);")
            sleeps = yield from self.rests(name, searches)
            searches = True
            yield from self.release("mutex", "binding_threads.c: tprof_unlock(scheduler);")
            if sleeps:
                yield "binding_threads.c: tprof_thread_sleep(thread);", lambda: name in self.posted
                self.posted = [other for other in self.posted if other != name]
        if searches:
            yield from self.found()
        yield "binding_threads.c: tprof_run(thread, work, victim);", lambda: self.begun == 2

    def rests(self, name, searches):
        look = "slots.c: if (tprof_queues_are_empty(scheduler))"
        if self.fault == "looks before it sleeps":
            yield look
            empty = self.queued == 0
        yield "slots.c: scheduler->sleeping = thread;"
        self.sleeping = [*self.sleeping, name]
        yield from self.publish()
        if self.fault == "looks before it stops searching":
            yield look
            empty = self.queued == 0
        yield "slots.c: (void)stop_search(thread);"
        self.searching -= searches
        if self.fault not in ("looks before it sleeps", "looks before it stops searching"):
            yield look
            empty = self.queued == 0
        if empty:
            return True
        yield "slots.c: (void)pop(&scheduler->sleeping);"
        self.sleeping = [other for other in self.sleeping if other != name]
        yield from self.publish()
        yield "slots.c: start_search(thread);"
        self.searching += 1
        return False

    def found(self) -> Thread:
        yield "slots.c: return atomic_fetch_sub(&thread->scheduler->queues->searching, 1) == 1;"
        self.searching -= 1
        if self.searching or self.fault == "last to search wakes nobody":
            return
        yield "slots.c: !atomic_load(&scheduler->queues->has_idle) || tprof_queues_are_empty(scheduler))"
        if not self.has_idle or not self.queued:
            return
        yield from self.acquire("mutex", "slots.c: tprof_lock(scheduler);")
        yield from self.wakes_one()
        yield from self.release("mutex", "slots.c: tprof_unlock(scheduler);")

    def check(self):
        if self.queued or self.searching:
            raise BrokenError(f"{self.queued} works are left, {self.searching} threads search")


MODELS = [Deque, Cancelling, CancellingAll, Sleeping]
