// SPDX-License-Identifier: GPL-2.0
/* The RAPL registers behind the stock drivers intel_rapl_common, intel_rapl_msr (powercap) and rapl (perf's PMU `power`),
 * which run unchanged: kprobes lead their reads of these MSRs here. 32 bits, 2^-14 J (DRAM 2^-16 J), wrapping. */
#include "lab.h"

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/vmalloc.h>

#define MSR_UNIT 0x606
#define MSR_PKG 0x611
#define MSR_PKG_INFO 0x614
#define MSR_DRAM 0x619
#define MSR_PP0 0x639
#define LOGGED (1 << 18)

/* What the registers of package, core and DRAM held at first: a parameter, so that a wrap comes soon. */
static unsigned int start[3] = {1000000, 1000000, 1000000};
static unsigned int update_us = 1000, jitter_us = 40, late_permille, late_us;
module_param_array(start, uint, NULL, 0644);
module_param(update_us, uint, 0644);
module_param(jitter_us, uint, 0644);
module_param(late_permille, uint, 0644); /* so many of 1000 updates come `late_us` later */
module_param(late_us, uint, 0644);

/* What was read, with the truth of that moment: the first LOGGED reads of the three registers since the log was emptied;
 * later ones replace them. */
struct logged {
    u64 t_ns;
    u32 msr, value;
    u64 published_pj, true_pj;
};

static struct logged *logged;
static u64 logged_count;
static DEFINE_RAW_SPINLOCK(registers_lock); /* outside the processors' locks */
static u64 next_ns, updates;
static u64 published_pkg, published_core, published_dram; /* pJ */

u64 updates_made(void)
{
    return updates;
}

u64 reads_made(void)
{
    return logged_count;
}

static u64 until_next_ns(void)
{
    u64 ns = (update_us - jitter_us) * NSEC_PER_USEC;

    if (jitter_us)
        ns += get_random_u32() % (2 * jitter_us * NSEC_PER_USEC);
    if (late_permille && get_random_u32() % 1000 < late_permille)
        ns += late_us * NSEC_PER_USEC;
    return ns;
}

/* Timers of a translated guest come late, so updates are reckoned: whoever is about to change what a processor does, or
 * reads a register, first makes the updates that were due, as of when they were due. */
void catch_up(u64 now)
{
    unsigned long flags;
    u64 due;

    if (now < READ_ONCE(next_ns))
        return;
    raw_spin_lock_irqsave(&registers_lock, flags);
    if (now >= next_ns) {
        u64 missed = div_u64(now - next_ns, update_us * 1000);

        due = next_ns + missed * update_us * 1000;
        totals(due, &published_pkg, &published_core, &published_dram);
        updates += missed + 1;
        WRITE_ONCE(next_ns, due + until_next_ns());
    }
    raw_spin_unlock_irqrestore(&registers_lock, flags);
}

static void add_to_log(u32 msr, u32 value, u64 now, u64 published)
{
    u64 pkg, core, dram;

    totals(now, &pkg, &core, &dram);
    logged[logged_count++ % LOGGED] = (struct logged){
        .t_ns = now,
        .msr = msr,
        .value = value,
        .published_pj = published,
        .true_pj = msr == MSR_PKG   ? pkg
                   : msr == MSR_PP0 ? core
                                    : dram,
    };
}

static u32 register_of(u64 pj, int shift) /* pJ -> 2^-shift J */
{
    u64 joules = pj / 1000000000000ULL, rest = pj % 1000000000000ULL;

    return (u32)((joules << shift) + ((rest << shift) / 1000000000000ULL));
}

static u64 register_value(u32 msr)
{
    unsigned long flags;
    u64 now, published;
    u32 value;

    if (msr == MSR_UNIT)
        return 0x000a0e03; /* 2^-10 s, 2^-14 J, 2^-3 W */
    if (msr == MSR_PKG_INFO)
        return 150 << 3;
    local_irq_save(flags);
    now = clock_ns();
    catch_up(now);
    raw_spin_lock(&registers_lock);
    published = msr == MSR_PKG ? published_pkg : msr == MSR_PP0 ? published_core : published_dram;
    value = register_of(published, msr == MSR_DRAM ? 16 : 14) + start[msr == MSR_PKG ? 0 : msr == MSR_PP0 ? 1 : 2];
    add_to_log(msr, value, now, published);
    raw_spin_unlock_irqrestore(&registers_lock, flags);
    return value;
}

static bool ours(u32 msr)
{
    return msr == MSR_UNIT || msr == MSR_PKG || msr == MSR_PKG_INFO || msr == MSR_DRAM || msr == MSR_PP0;
}

static u64 read_msr(u32 msr)
{
    return register_value(msr);
}

static u64 read_msr_safe(u32 msr, int *error)
{
    *error = 0;
    return register_value(msr);
}

static int lead_here(struct kprobe *probe, struct pt_regs *regs)
{
    if (!ours((u32)regs->di))
        return 0;
    const bool safe = probe->symbol_name[sizeof "native_read_msr" - 1] != 0;

    regs->ip = safe ? (unsigned long)read_msr_safe : (unsigned long)read_msr;
    return 1;
}

/* It keeps the probe a trap, whose handler may change where the caller goes on. */
static void nothing(struct kprobe *probe, struct pt_regs *regs, unsigned long flags) {}

static struct kprobe reads[] = {
    {.symbol_name = "native_read_msr", .pre_handler = lead_here, .post_handler = nothing},
    {.symbol_name = "native_read_msr_safe", .pre_handler = lead_here, .post_handler = nothing},
};

/* The log in the order of its writing, once it has not gone round; a write to it empties it. */
static ssize_t log_read(struct file *file, struct kobject *object, struct bin_attribute *attribute, char *to, loff_t at,
                        size_t size)
{
    u64 bytes = min_t(u64, logged_count, LOGGED) * sizeof(struct logged);

    return memory_read_from_buffer(to, size, &at, logged, bytes);
}

static ssize_t log_write(struct file *file, struct kobject *object, struct bin_attribute *attribute, char *from,
                         loff_t at, size_t size)
{
    logged_count = 0;
    return size;
}

static struct bin_attribute reads_log = {
    .attr = {.name = "reads", .mode = 0600},
    .read = log_read,
    .write = log_write,
};

int registers_start(struct kobject *folder)
{
    int error = 0, i;

    logged = vzalloc(LOGGED * sizeof *logged);
    if (!logged)
        return -ENOMEM;
    next_ns = clock_ns();
    for (i = 0; i < ARRAY_SIZE(reads); i++)
        error = error ?: register_kprobe(&reads[i]);
    return error ?: sysfs_create_bin_file(folder, &reads_log);
}
