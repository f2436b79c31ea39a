"""How threads wait and leave, as models of `runtime/csrc` for `support.interleavings`.

The faults of a model are lines that are changed; each lets a rule break in some order.
"""

from support.interleavings import BrokenError, Model, Thread


class Latch(Model):
    """A thread waits until a count falls to 0, which two others lower."""

    faults = ("no second look", "looks before it lowers")

    def __init__(self, fault=None) -> None:
        super().__init__(fault)
        self.count, self.wake_below, self.waiting, self.posted = 2, 0, False, 0

    def threads(self):
        return [self.waits(), self.falls(), self.falls()]

    def waits(self) -> Thread:
        yield from self.acquire("mutex", "binding_waiting.c: tprof_lock(scheduler);")
        yield "domain.c: atomic_store(&latch->wake_below, below);"
        self.waiting, self.wake_below = True, 1
        yield "domain.c: if (tprof_latch_count(latch) > enough)"
        waits = self.count > 0 or self.fault == "no second look"
        if not waits:
            yield "domain.c: tprof_latch_remove_waiter(latch, waiter);"
            self.waiting, self.wake_below = False, 0
        yield from self.release("mutex", "binding_waiting.c: tprof_unlock(scheduler);")
        if waits:
            yield "binding_waiting.c: failed = sem_wait(&waiter->semaphore);", lambda: self.posted > 0
        if self.count > 0:
            raise BrokenError("woken too early")

    def falls(self) -> Thread:
        if self.fault == "looks before it lowers":
            yield "domain.c: if (count >= atomic_load(&latch->wake_below))"
            below = self.wake_below
        yield "domain.c: const size_t count = atomic_fetch_sub(&latch->count, 1) - 1;"
        self.count -= 1
        count = self.count
        if self.fault != "looks before it lowers":
            yield "domain.c: if (count >= atomic_load(&latch->wake_below))"
            below = self.wake_below
        if count >= below:
            return
        yield from self.acquire("mutex", "domain.c: tprof_lock(scheduler);")
        yield "domain.c: sem_post(&waiter->semaphore);"
        if self.waiting and self.count == 0:
            self.waiting, self.wake_below = False, 0
            self.posted += 1
        yield from self.release("mutex", "domain.c: tprof_unlock(scheduler);")

    def check(self):
        if self.posted > 1 or self.waiting:
            raise BrokenError("woken twice, or left on the list")


class Closing(Model):
    """A runtime ends while two works enter; two workers serve it."""

    faults = ("no mark", "looks before it counts")

    def __init__(self, fault=None) -> None:
        super().__init__(fault)
        self.unfinished, self.closed, self.workers, self.queued = 0, False, 2, 0

    def threads(self):
        return [self.enters(), self.enters(), self.works(), self.works()]

    def enters(self) -> Thread:
        if self.fault == "looks before it counts":
            yield "entering.c: if (before >= TPROF_CLOSED) {"
            closed = self.closed
        yield "entering.c: const size_t before = atomic_fetch_add(&scheduler->unfinished, 1);"
        self.unfinished += 1
        if self.fault != "looks before it counts":
            closed = self.closed
        if closed:
            yield "entering.c: (void)atomic_fetch_sub(&scheduler->unfinished, 1);"
            self.unfinished -= 1
            return
        yield "queues.c: tprof_deque_push(deque, tprof_ref(work));"
        self.queued += 1

    def works(self) -> Thread:
        while True:
            yield "binding_threads.c: work = tprof_queue_take(scheduler, thread, victim, &deferred);"
            if self.queued:
                self.queued -= 1
                yield "ending.c: const size_t unfinished = atomic_fetch_sub(&scheduler->unfinished, 1) - 1;"
                self.unfinished -= 1
                continue
            yield "slots.c: atomic_compare_exchange_strong(&scheduler->unfinished, &unfinished, TPROF_CLOSED)"
            if self.unfinished == 0 or self.closed:
                self.closed = self.fault != "no mark"
                self.workers -= 1
                return
            yield (
                "binding_threads.c: tprof_thread_sleep(thread);",
                lambda: self.queued or not self.unfinished or self.closed,
            )

    def check(self):
        if self.queued:
            raise BrokenError("a work is left that no worker runs")


class Lock(Model):
    """Three threads take the lock of four bytes."""

    faults = ("sleepers not noted", "release wakes nobody", "taken in two steps")

    def __init__(self, fault=None) -> None:
        super().__init__(fault)
        self.state, self.inside, self.asleep, self.woken = 0, 0, 0, 0

    def threads(self):
        return [self.takes() for _ in range(3)]

    def takes(self) -> Thread:
        yield "lock.h: if (!atomic_compare_exchange_strong_explicit(&lock->state, &expected, TPROF_LOCK_HELD,"
        free = self.state == 0
        if free:
            if self.fault == "taken in two steps":
                yield "lock.h: if (!atomic_compare_exchange_strong_explicit(&lock->state, &expected, TPROF_LOCK_HELD,"
            self.state = 1
        while not free:
            yield "lock.c: while (atomic_exchange_explicit(&lock->state, TPROF_LOCK_AWAITED, memory_order_acquire)"
            free, self.state = self.state == 0, 1 if self.fault == "sleepers not noted" else 2
            if not free:
                yield from self.sleep()
        yield "lock.h: static inline void tprof_acquire(struct lock *lock)"
        self.inside += 1
        if self.inside > 1:
            raise BrokenError("two hold the lock")
        yield "lock.h: if (atomic_exchange_explicit(&lock->state, TPROF_LOCK_FREE, memory_order_release) =="
        self.inside -= 1
        awaited, self.state = self.state == 2, 0
        if awaited and self.fault != "release wakes nobody":
            yield "lock.c: (void)syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);"
            self.woken += self.asleep > self.woken

    def sleep(self) -> Thread:
        """The kernel looks at the word and lets the thread sleep in one step."""
        yield "lock.c: (void)syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, TPROF_LOCK_AWAITED, NULL, NULL, 0);"
        if self.state != (1 if self.fault == "sleepers not noted" else 2):
            return
        self.asleep += 1
        yield (
            "lock.c: (void)syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, TPROF_LOCK_AWAITED, NULL, NULL, 0);",
            lambda: self.woken > 0,
        )
        self.asleep -= 1
        self.woken -= 1

    def check(self):
        if self.state or self.asleep:
            raise BrokenError("the lock is left held, or a thread asleep")


MODELS = [Latch, Closing, Lock]
