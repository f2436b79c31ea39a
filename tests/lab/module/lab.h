/* SPDX-License-Identifier: GPL-2.0 */
/* The processor that qemu's translator lacks, for trying an energy profiler on the stock kernel's own interfaces.
 *
 *   processor.c    what each processor runs and what it costs; /sys/kernel/lab
 *   registers.c    RAPL: the registers (MSRs) behind the stock drivers
 *   frequencies.c  a cpufreq driver
 *   counters.c     the PMU `cpu`
 *   rdpmc.c        reading its counters in user space
 *
 * Energy of a package = static + per processor (idle, or base + watts of what runs * (f/fmax)^2), integrated exactly at
 * each switch of the scheduler; a processor that is offline draws what an idle one does, a suspended machine only
 * `suspended_mw`. A thread says what it runs by writing a number to /sys/kernel/lab/kind (0 at first). Milliwatts and
 * events per 1000 cycles of each kind are parameters; by default the watts are nearly linear in IPC and in the rates of
 * both caches, as equation 1 of the TProf paper has it. */
#ifndef LAB_H
#define LAB_H

#include <linux/hrtimer.h>
#include <linux/kobject.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>
#include <linux/sysfs.h>
#include <linux/timekeeping.h>

#include <asm/processor.h>

#define KINDS 20
#define PACKAGES 2
#define IDLE (-1)
#define FMAX 3000000U /* kHz */

enum { CYCLES, INSTRUCTIONS, REFS, MISSES, BRANCHES, BRANCH_MISSES, STALLS, L2_REFS, EVENTS };

/* The energy registers of a package. PSYS, the whole machine, is in package 0 alone. */
enum { PACKAGE, CORE, DRAM, PSYS, REGISTERS };

struct usage {
    u64 busy_ns, core_pj, dram_pj, micro[EVENTS];
};

struct processor {
    raw_spinlock_t lock;
    u64 last_ns;
    int package;
    int kind; /* IDLE or what runs */
    unsigned int khz;
    u64 busy_ns, slowed_ns; /* slowed: of the busy time, for which the frequency has been paid */
    u64 idle_ns, idle_pj, base_pj, core_pj, dram_pj;
    u64 micro[EVENTS]; /* events * 10^6 */
    struct usage by_kind[KINDS];
    unsigned int used; /* counters */
    struct hrtimer slower;
};

DECLARE_PER_CPU(struct processor, processors);

static inline bool is_amd(void)
{
    return boot_cpu_data.x86_vendor == X86_VENDOR_AMD;
}

static inline u64 clock_ns(void)
{
    return ktime_get_mono_fast_ns();
}

/* processor.c. `advance` integrates up to now, with the processor's lock held; `become` changes what it runs; `totals`
 * sets what each register stands for, in pJ. */
void advance(struct processor *p, u64 now);
void become(struct processor *p, int kind);
int package_of(int cpu);
void totals(u64 now, u64 pj[PACKAGES][REGISTERS]);

/* registers.c. `catch_up` makes the updates that were due until now. */
void catch_up(u64 now);
u64 updates_made(void);
u64 reads_made(void);
int registers_start(struct kobject *folder);

/* frequencies.c, counters.c, rdpmc.c. `counter_value` is of the processor on which it is called, with interrupts off. */
void frequencies_prepare(struct processor *p);
int frequencies_start(void);
int counters_start(void);
s64 counter_value(int idx);
struct perf_event;
struct mm_struct;
bool rdpmc_allowed(void);
void rdpmc_allow(struct perf_event *event, struct mm_struct *mm);
u64 rdpmcs_done(void);
int rdpmc_start(void);

#endif
