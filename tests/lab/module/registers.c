// SPDX-License-Identifier: GPL-2.0
/* The RAPL registers behind the stock drivers intel_rapl_common, intel_rapl_msr (powercap) and rapl (perf's PMU `power`),
 * which run unchanged: kprobes lead their reads of these MSRs here. 32 bits, wrapping, of the package of the processor that
 * reads; AMD's on one of AMD's models, where a core has a register of its own and DRAM none. */
#include "lab.h"

#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/vmalloc.h>

#define MSR_UNIT 0x606
#define MSR_PKG_INFO 0x614
#define AMD_UNIT 0xc0010299
#define ABSENT (-1)
#define LOGGED (1 << 18)

static const u32 intel[REGISTERS] = {0x611, 0x639, 0x619, 0x64d}, amd[REGISTERS] = {0xc001029b, 0xc001029a};

/* What the registers of each package held at first: a parameter, so that a wrap comes soon. */
static unsigned int start[PACKAGES * REGISTERS] = {1000000, 1000000, 1000000, 1000000,
                                                   1000000, 1000000, 1000000, 1000000};
static unsigned int energy_bits = 14, dram_bits = 16, psys;
static unsigned int update_us = 1000, jitter_us = 40, late_permille, late_us;
module_param_array(start, uint, NULL, 0644);
module_param(energy_bits, uint, 0444); /* a count is 2^-energy_bits J */
module_param(dram_bits, uint, 0444);
module_param(psys, uint, 0444); /* 1: package 0 has this register; 2: each has it, and all show the whole machine */
module_param(update_us, uint, 0644);
module_param(jitter_us, uint, 0644);
module_param(late_permille, uint, 0644); /* so many of 1000 updates come `late_us` later */
module_param(late_us, uint, 0644);

/* What was read, with the truth of that moment: the first LOGGED reads of the registers since the log was emptied;
 * later ones replace them. */
struct logged {
    u64 t_ns;
    u16 package, which;
    u32 value;
    u64 published_pj, true_pj;
};

static struct logged *logged;
static u64 logged_count;
static DEFINE_RAW_SPINLOCK(registers_lock); /* outside the processors' locks */
static u64 next_ns, updates;
static u64 published_pj[PACKAGES][REGISTERS];

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
        totals(due, published_pj);
        updates += missed + 1;
        WRITE_ONCE(next_ns, due + until_next_ns());
    }
    raw_spin_unlock_irqrestore(&registers_lock, flags);
}

static u32 register_of(u64 pj, int shift) /* pJ -> 2^-shift J */
{
    u64 joules = pj / 1000000000000ULL, rest = pj % 1000000000000ULL;

    return (u32)((joules << shift) + ((rest << shift) / 1000000000000ULL));
}

static int which_register(u32 msr)
{
    const u32 *known = is_amd() ? amd : intel;
    int which;

    for (which = 0; which < REGISTERS; which++)
        if (known[which] == msr && (which != PSYS || psys))
            return which;
    return ABSENT;
}

static u64 energy_value(int which)
{
    unsigned long flags;
    u64 now, true_pj[PACKAGES][REGISTERS];
    u32 value;
    int package, of;

    local_irq_save(flags);
    package = package_of(smp_processor_id());
    if (which == PSYS && package != 0 && psys == 1) {
        local_irq_restore(flags);
        return 0;
    }
    now = clock_ns();
    catch_up(now);
    raw_spin_lock(&registers_lock);
    totals(now, true_pj);
    of = which == PSYS ? 0 : package;
    value = register_of(published_pj[of][which], which == DRAM ? dram_bits : energy_bits) +
            start[package * REGISTERS + which];
    logged[logged_count++ % LOGGED] = (struct logged){
        .t_ns = now,
        .package = (u16)package,
        .which = (u16)which,
        .value = value,
        .published_pj = published_pj[of][which],
        .true_pj = true_pj[of][which],
    };
    raw_spin_unlock_irqrestore(&registers_lock, flags);
    return value;
}

static bool ours(u32 msr)
{
    return msr == MSR_UNIT || msr == MSR_PKG_INFO || msr == AMD_UNIT || which_register(msr) != ABSENT;
}

static u64 register_value(u32 msr)
{
    if (msr == MSR_UNIT || msr == AMD_UNIT)
        return 0x000a0003 | energy_bits << 8; /* 2^-10 s, 2^-energy_bits J, 2^-3 W */
    return msr == MSR_PKG_INFO ? 150 << 3 : energy_value(which_register(msr));
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
    if (is_amd())
        set_cpu_cap(&boot_cpu_data, X86_FEATURE_RAPL); /* rapl asks for it; qemu's models lack it */
    for (i = 0; i < ARRAY_SIZE(reads); i++)
        error = error ?: register_kprobe(&reads[i]);
    return error ?: sysfs_create_bin_file(folder, &reads_log);
}
