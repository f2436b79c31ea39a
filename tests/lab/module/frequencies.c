// SPDX-License-Identifier: GPL-2.0
/* The cpufreq driver `lab-cpufreq`. A lower frequency is lower power and, with `throttle`, really slower: a processor that is
 * busy spins in an interrupt for the rest of each millisecond. */
#include "lab.h"

#include <linux/cpufreq.h>
#include <linux/module.h>
#include <linux/sched.h>

#define SLICE_NS NSEC_PER_MSEC

static unsigned int shared;
static bool throttle = true;
module_param(shared, uint, 0444); /* 1: one policy for all processors */
module_param(throttle, bool, 0644);

static struct cpufreq_frequency_table frequencies[] = {
    {.frequency = 1000000}, {.frequency = 1500000}, {.frequency = 2000000},
    {.frequency = 2500000}, {.frequency = FMAX},    {.frequency = CPUFREQ_TABLE_END},
};

static enum hrtimer_restart spin(struct hrtimer *timer)
{
    struct processor *p = container_of(timer, struct processor, slower);
    unsigned int khz = READ_ONCE(p->khz);
    u64 until;

    if (khz >= FMAX || !throttle)
        return HRTIMER_NORESTART;
    become(p, p->kind);
    if (!is_idle_task(current)) {
        u64 owed = (p->busy_ns - p->slowed_ns) * (FMAX - khz) / khz;

        for (until = clock_ns() + min_t(u64, owed, 40 * NSEC_PER_MSEC); clock_ns() < until;)
            cpu_relax();
        become(p, p->kind);
    }
    p->slowed_ns = p->busy_ns;
    hrtimer_forward_now(timer, SLICE_NS);
    return HRTIMER_RESTART;
}

static void start_spinning(void *data)
{
    struct processor *p = this_cpu_ptr(&processors);

    if (!hrtimer_active(&p->slower))
        hrtimer_start(&p->slower, SLICE_NS, HRTIMER_MODE_REL_PINNED_HARD);
}

static int set_frequency(struct cpufreq_policy *policy, unsigned int index)
{
    int cpu;

    for_each_cpu(cpu, policy->cpus)
    {
        struct processor *p = per_cpu_ptr(&processors, cpu);
        unsigned long flags;

        catch_up(clock_ns());
        raw_spin_lock_irqsave(&p->lock, flags);
        advance(p, clock_ns());
        p->khz = frequencies[index].frequency;
        p->slowed_ns = p->busy_ns;
        raw_spin_unlock_irqrestore(&p->lock, flags);
        if (frequencies[index].frequency < FMAX)
            smp_call_function_single(cpu, start_spinning, NULL, 1);
    }
    return 0;
}

static unsigned int get_frequency(unsigned int cpu)
{
    return per_cpu_ptr(&processors, cpu)->khz;
}

static int begin_policy(struct cpufreq_policy *policy)
{
    if (shared)
        cpumask_copy(policy->cpus, cpu_possible_mask);
    policy->freq_table = frequencies;
    policy->cpuinfo.transition_latency = 10000;
    policy->cur = get_frequency(policy->cpu);
    return 0;
}

static struct cpufreq_driver driver = {
    .name = "lab-cpufreq",
    .init = begin_policy,
    .verify = cpufreq_generic_frequency_table_verify,
    .target_index = set_frequency,
    .get = get_frequency,
    .attr = cpufreq_generic_attr,
};

void frequencies_prepare(struct processor *p)
{
    hrtimer_init(&p->slower, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
    p->slower.function = spin;
}

int frequencies_start(void)
{
    return cpufreq_register_driver(&driver);
}
