// SPDX-License-Identifier: GPL-2.0
/* What each processor runs, and what it costs. */
#include "lab.h"

#include <linux/acpi.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/sched.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>

#define PIDS (1 << 22)

/* 0: undeclared; 1 to 10: tasks; 11 to 19: what a calibration runs. */
static unsigned int kind_mw[KINDS] = {
    6000, 4000, 8000, 12000, 16000, 2000, 10000, 20000, 5000,  14000,
    7000, 7100, 1300, 8800,  8100,  9400, 18000, 8300,  22500, 12800,
};
static unsigned int dram_mw[KINDS] = {
    500, 100, 500, 1700, 1900, 100, 500, 3100, 500, 1100, 100, 100, 100, 100, 100, 1700, 2900, 700, 4100, 1300,
};
static unsigned int ipc[KINDS] = {
    1000, 1500, 2000, 800, 2600, 400, 3000, 1200, 600, 3600, 3200, 3800, 200, 1000, 2000, 300, 1500, 2500, 500, 3000,
};
static unsigned int l2_refs[KINDS] = {4, 3, 9, 16, 20, 1, 12, 25, 6, 18, 4, 0, 0, 30, 20, 8, 16, 5, 25, 10};
static unsigned int llc_refs[KINDS] = {1, 0, 2, 8, 9, 0, 2, 15, 2, 5, 0, 0, 0, 0, 0, 8, 14, 3, 20, 6};
static unsigned int static_mw = 10000, dram_static_mw = 1500, idle_mw = 500, base_mw = 1500;
static unsigned int board_mw = 5000, suspended_mw = 700;
module_param_array(kind_mw, uint, NULL, 0644);
module_param_array(dram_mw, uint, NULL, 0644);
module_param_array(ipc, uint, NULL, 0644);
module_param_array(l2_refs, uint, NULL, 0644);
module_param_array(llc_refs, uint, NULL, 0644);
module_param(static_mw, uint, 0644);
module_param(dram_static_mw, uint, 0644);
module_param(idle_mw, uint, 0644);
module_param(base_mw, uint, 0644);
module_param(board_mw, uint, 0644);     /* of psys, besides packages and DRAM */
module_param(suspended_mw, uint, 0644); /* of a package */

DEFINE_PER_CPU(struct processor, processors);
static u8 *kinds;
static u64 began_ns;
static int packages;

static unsigned int per_1000_cycles(int event, unsigned int k)
{
    switch (event) {
    case CYCLES:
        return 1000;
    case INSTRUCTIONS:
        return ipc[k];
    case REFS:
        return llc_refs[k];
    case MISSES:
        return llc_refs[k] / 4;
    case BRANCHES:
        return ipc[k] / 5;
    case BRANCH_MISSES:
        return ipc[k] / 500;
    case STALLS:
        return 1000 - ipc[k] / 4;
    default:
        return l2_refs[k];
    }
}

void advance(struct processor *p, u64 now)
{
    u64 ns, mcycles, dynamic_pj, dram_pj;
    unsigned int k = p->kind, mhz = p->khz / 1000;
    struct usage *usage;
    int e;

    if (now <= p->last_ns)
        return;
    ns = now - p->last_ns;
    p->last_ns = now;
    if (p->kind == IDLE) {
        p->idle_ns += ns;
        p->idle_pj += ns * idle_mw;
        p->core_pj += ns * idle_mw;
        return;
    }
    usage = &p->by_kind[k];
    dynamic_pj = ns * (kind_mw[k] * (u64)mhz / (FMAX / 1000) * mhz / (FMAX / 1000));
    dram_pj = ns * dram_mw[k];
    mcycles = ns * mhz;
    p->base_pj += ns * base_mw;
    p->core_pj += ns * base_mw + dynamic_pj;
    p->dram_pj += dram_pj;
    usage->busy_ns += ns;
    p->busy_ns += ns;
    usage->core_pj += dynamic_pj;
    usage->dram_pj += dram_pj;
    for (e = 0; e < EVENTS; e++) {
        const u64 rate = per_1000_cycles(e, k);

        p->micro[e] += mcycles * rate;
        usage->micro[e] += mcycles * rate;
    }
}

static int kind_of(struct task_struct *task)
{
    return is_idle_task(task) ? IDLE : kinds[task->pid & (PIDS - 1)];
}

/* Kept, since the kernel has another number for a processor while that comes online. */
int package_of(int cpu)
{
    return per_cpu(processors, cpu).package;
}

void totals(u64 now, u64 pj[PACKAGES][REGISTERS])
{
    const u64 suspended_ns = ktime_get_boot_fast_ns() - ktime_get_mono_fast_ns();
    u64 cores_pj[PACKAGES] = {0};
    int cpu, package;

    memset(pj, 0, PACKAGES * sizeof *pj);
    for_each_possible_cpu(cpu)
    {
        struct processor *p = per_cpu_ptr(&processors, cpu);

        raw_spin_lock(&p->lock);
        advance(p, now);
        package = package_of(cpu);
        cores_pj[package] += p->core_pj;
        pj[package][DRAM] += p->dram_pj;
        /* On AMD each core has its own register; the drivers read that of a package's first. */
        if (pj[package][CORE] == 0 || !is_amd())
            pj[package][CORE] = is_amd() ? p->core_pj : cores_pj[package];
        raw_spin_unlock(&p->lock);
    }
    for (package = 0; package < PACKAGES; package++) {
        pj[package][PACKAGE] = cores_pj[package] + (now - began_ns) * static_mw + suspended_ns * suspended_mw;
        pj[package][DRAM] += (now - began_ns) * dram_static_mw;
        if (package < packages)
            pj[0][PSYS] += pj[package][PACKAGE] + pj[package][DRAM];
    }
    pj[0][PSYS] += (now - began_ns) * board_mw;
}

void become(struct processor *p, int kind)
{
    unsigned long flags;
    u64 now = clock_ns();

    catch_up(now);
    raw_spin_lock_irqsave(&p->lock, flags);
    advance(p, now);
    p->kind = kind;
    raw_spin_unlock_irqrestore(&p->lock, flags);
}

static void on_switch(void *data, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int state)
{
    become(this_cpu_ptr(&processors), kind_of(next));
}

static void on_exit(void *data, struct task_struct *task)
{
    kinds[task->pid & (PIDS - 1)] = 0;
}

static void on_start(void *data)
{
    struct processor *p = this_cpu_ptr(&processors);

    p->last_ns = clock_ns();
    p->kind = kind_of(current);
}

static ssize_t truth_show(struct kobject *object, struct kobj_attribute *attribute, char *text)
{
    unsigned long flags;
    u64 now, pj[PACKAGES][REGISTERS], idle_ns = 0, idle_pj = 0, base_pj = 0;
    struct usage sum;
    int cpu, kind, package, length;

    local_irq_save(flags);
    now = clock_ns();
    catch_up(now);
    totals(now, pj);
    local_irq_restore(flags);
    for_each_possible_cpu(cpu)
    {
        idle_ns += per_cpu(processors, cpu).idle_ns;
        idle_pj += per_cpu(processors, cpu).idle_pj;
        base_pj += per_cpu(processors, cpu).base_pj;
    }
    length = sysfs_emit(text,
                        "now_ns %llu\nreads %llu\nupdates %llu\nstatic_uj %llu\nidle_ns %llu\nidle_uj %llu\n"
                        "base_uj %llu\nrdpmcs %llu\n",
                        now, reads_made(), updates_made(), (now - began_ns) * static_mw / 1000000, idle_ns,
                        idle_pj / 1000000, base_pj / 1000000, rdpmcs_done());
    for (package = 0; package < packages; package++)
        length += sysfs_emit_at(text, length, "package%d package_uj %llu core_uj %llu dram_uj %llu psys_uj %llu\n",
                                package, pj[package][PACKAGE] / 1000000, pj[package][CORE] / 1000000,
                                pj[package][DRAM] / 1000000, pj[package][PSYS] / 1000000);
    for (kind = 0; kind < KINDS; kind++) {
        memset(&sum, 0, sizeof sum);
        for_each_possible_cpu(cpu)
        {
            struct usage *usage = &per_cpu(processors, cpu).by_kind[kind];

            sum.busy_ns += usage->busy_ns;
            sum.core_pj += usage->core_pj;
            sum.dram_pj += usage->dram_pj;
            sum.micro[CYCLES] += usage->micro[CYCLES];
            sum.micro[INSTRUCTIONS] += usage->micro[INSTRUCTIONS];
        }
        length += sysfs_emit_at(text, length,
                                "kind%d busy_ns %llu dynamic_uj %llu dram_uj %llu cycles %llu instructions %llu\n",
                                kind, sum.busy_ns, sum.core_pj / 1000000, sum.dram_pj / 1000000,
                                sum.micro[CYCLES] / 1000000, sum.micro[INSTRUCTIONS] / 1000000);
    }
    return length;
}

static ssize_t kind_store(struct kobject *object, struct kobj_attribute *attribute, const char *text, size_t length)
{
    unsigned int kind;

    if (kstrtouint(text, 10, &kind) || kind >= KINDS)
        return -EINVAL;
    preempt_disable();
    kinds[current->pid & (PIDS - 1)] = kind;
    become(this_cpu_ptr(&processors), kind);
    preempt_enable();
    return length;
}

static struct kobj_attribute truth = __ATTR(truth, 0444, truth_show, NULL);
static struct kobj_attribute kind = __ATTR(kind, 0200, NULL, kind_store);

static void attach(struct tracepoint *point, void *data)
{
    if (!strcmp(point->name, "sched_switch"))
        WARN_ON(tracepoint_probe_register(point, on_switch, NULL));
    else if (!strcmp(point->name, "sched_process_exit"))
        WARN_ON(tracepoint_probe_register(point, on_exit, NULL));
}

static void report(const char *what, int error)
{
    if (error)
        pr_err("lab: no %s: %d\n", what, error);
}

/* The guest's files do not come back from what this driver does when it is suspended, so it does nothing. */
static void keep_files(void)
{
    struct device_driver *driver = driver_find("virtio-pci", &pci_bus_type);

    if (driver)
        driver->pm = NULL;
}

/* It ends a suspension to idle: the only one of this machine's events that does, each 2.3 s. */
static u32 on_timer(void *context)
{
    return ACPI_INTERRUPT_HANDLED;
}

/* There is no end: the guest is thrown away. */
static int __init lab_init(void)
{
    struct kobject *folder = kobject_create_and_add("lab", kernel_kobj);
    int cpu;

    kinds = vzalloc(PIDS);
    if (!kinds || !folder)
        return -ENOMEM;
    began_ns = clock_ns();
    for_each_possible_cpu(cpu)
    {
        struct processor *p = per_cpu_ptr(&processors, cpu);

        raw_spin_lock_init(&p->lock);
        p->khz = FMAX;
        p->last_ns = began_ns;
        p->kind = IDLE;
        p->package = clamp(topology_physical_package_id(cpu), 0, PACKAGES - 1);
        frequencies_prepare(p);
        packages = max(packages, package_of(cpu) + 1);
    }
    report("registers", registers_start(folder));
    on_each_cpu(on_start, NULL, 1);
    for_each_kernel_tracepoint(attach, NULL);
    report("cpufreq", frequencies_start());
    report("counters", counters_start());
    report("rdpmc", rdpmc_start());
    report("timer", (int)acpi_install_fixed_event_handler(ACPI_EVENT_PMTIMER, on_timer, NULL));
    keep_files();
    __module_get(THIS_MODULE);
    return sysfs_create_file(folder, &truth.attr) ?: sysfs_create_file(folder, &kind.attr);
}

module_init(lab_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A processor with RAPL, cpufreq and counters for a translated guest");
