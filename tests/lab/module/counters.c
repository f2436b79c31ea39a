// SPDX-License-Identifier: GPL-2.0
/* The PMU `cpu` (PERF_TYPE_RAW, which also serves PERF_TYPE_HARDWARE): counts by what the processor runs, `slots` of them at a
 * time besides cycles and instructions. */
#include "lab.h"

#include <linux/math64.h>
#include <linux/module.h>
#include <linux/perf_event.h>

/* A counter begins below zero, as the kernel lets those of a processor. */
#define BELOW_ZERO (1LL << 31)

static unsigned int slots = 4;
module_param(slots, uint, 0644);

/* Events of a Skylake server, as which qemu shows the processor, by the bits that perf takes from a raw config. */
static int which_raw(u64 config)
{
    switch (config & X86_RAW_EVENT_MASK) {
    case 0x3c:
        return CYCLES;
    case 0xc0:
        return INSTRUCTIONS;
    case 0x4f2e:
        return REFS;
    case 0x412e:
        return MISSES;
    case 0xc4:
        return BRANCHES;
    case 0xc5:
        return BRANCH_MISSES;
    case 0x0400019c:
        return STALLS;
    case 0xff24:
        return L2_REFS;
    default:
        return -1;
    }
}

static int which(const struct perf_event_attr *attr)
{
    static const int generic[] = {CYCLES, INSTRUCTIONS, REFS, MISSES, BRANCHES, BRANCH_MISSES, -1, STALLS};

    if (attr->type == PERF_TYPE_HARDWARE)
        return attr->config < ARRAY_SIZE(generic) ? generic[attr->config] : -1;
    return attr->type == PERF_TYPE_RAW ? which_raw(attr->config) : -1;
}

static int counter_init(struct perf_event *event)
{
    if (event->attr.type != PERF_TYPE_HARDWARE && event->attr.type != PERF_TYPE_RAW)
        return -ENOENT;
    if (which(&event->attr) < 0)
        return -EINVAL;
    event->hw.idx = which(&event->attr);
    if (rdpmc_allowed())
        event->hw.flags |= PERF_EVENT_FLAG_USER_READ_CNT;
    return 0;
}

s64 counter_value(int idx)
{
    struct processor *p = this_cpu_ptr(&processors);
    unsigned long flags;
    u64 micro, now = clock_ns();

    catch_up(now);
    raw_spin_lock_irqsave(&p->lock, flags);
    advance(p, now);
    micro = p->micro[idx];
    raw_spin_unlock_irqrestore(&p->lock, flags);
    return (s64)div_u64(micro, 1000000) - BELOW_ZERO;
}

static void counter_read(struct perf_event *event)
{
    s64 now;

    if (event->hw.state & PERF_HES_STOPPED)
        return;
    now = counter_value(event->hw.idx);
    local64_add(now - local64_read(&event->hw.prev_count), &event->count);
    local64_set(&event->hw.prev_count, now);
}

static void counter_start(struct perf_event *event, int flags)
{
    local64_set(&event->hw.prev_count, counter_value(event->hw.idx));
    event->hw.state = 0;
    perf_event_update_userpage(event);
}

static void counter_stop(struct perf_event *event, int flags)
{
    counter_read(event);
    event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
    perf_event_update_userpage(event);
}

static int counter_index(struct perf_event *event)
{
    return event->hw.flags & PERF_EVENT_FLAG_USER_READ_CNT ? event->hw.idx + 1 : 0;
}

static int counter_add(struct perf_event *event, int flags)
{
    struct processor *p = this_cpu_ptr(&processors);

    if (event->hw.idx > INSTRUCTIONS) {
        if (p->used >= slots)
            return -EAGAIN;
        p->used++;
    }
    event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
    if (flags & PERF_EF_START)
        counter_start(event, flags);
    return 0;
}

static void counter_del(struct perf_event *event, int flags)
{
    counter_stop(event, PERF_EF_UPDATE);
    if (event->hw.idx > INSTRUCTIONS)
        this_cpu_ptr(&processors)->used--;
}

static struct pmu counters = {
    .module = THIS_MODULE,
    .task_ctx_nr = perf_hw_context,
    .capabilities = PERF_PMU_CAP_NO_INTERRUPT,
    .event_init = counter_init,
    .add = counter_add,
    .del = counter_del,
    .start = counter_start,
    .stop = counter_stop,
    .read = counter_read,
    .event_idx = counter_index,
    .event_mapped = rdpmc_allow,
};

int counters_start(void)
{
    return perf_pmu_register(&counters, "cpu", PERF_TYPE_RAW);
}
