// SPDX-License-Identifier: GPL-2.0
/* User-space `rdpmc`, which qemu's translator takes for an illegal instruction: the kernel's handler of these asks here
 * first. What allows a program to use it is the kernel's own: the bit CR4.PCE, and the page of an event that is mapped. */
#include "lab.h"

#include <linux/kdebug.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/smp.h>
#include <linux/uaccess.h>

#include <asm/tlbflush.h>
#include <asm/trapnr.h>

#define WIDTH 48

static bool rdpmc;
module_param(rdpmc, bool, 0644); /* of the events that are opened from now on */
static atomic64_t done = ATOMIC64_INIT(0);

bool rdpmc_allowed(void)
{
    return rdpmc;
}

u64 rdpmcs_done(void)
{
    return (u64)atomic64_read(&done);
}

static void allow_here(void *data)
{
    cr4_set_bits_irqsoff(X86_CR4_PCE);
}

/* From here on the kernel sets the bit whenever it switches to the process. */
void rdpmc_allow(struct perf_event *event, struct mm_struct *mm)
{
    if (event->hw.flags & PERF_EVENT_FLAG_USER_READ_CNT && atomic_inc_return(&mm->context.perf_rdpmc_allowed) == 1)
        on_each_cpu_mask(mm_cpumask(mm), allow_here, NULL, 1);
}

static int on_trap(struct notifier_block *self, unsigned long what, void *data)
{
    const struct die_args *trap = data;
    struct pt_regs *regs = trap->regs;
    u64 value;
    u8 code[2];

    if (what != DIE_TRAP || trap->trapnr != X86_TRAP_UD || !user_mode(regs) || (u32)regs->cx >= EVENTS)
        return NOTIFY_DONE;
    if (copy_from_user_nofault(code, (void __user *)regs->ip, sizeof code) || code[0] != 0x0f || code[1] != 0x33)
        return NOTIFY_DONE;
    value = (u64)counter_value((int)regs->cx) & GENMASK_ULL(WIDTH - 1, 0);
    regs->ax = (u32)value;
    regs->dx = value >> 32;
    regs->ip += sizeof code;
    atomic64_inc(&done);
    return NOTIFY_STOP;
}

static struct notifier_block traps = {.notifier_call = on_trap};

/* The kernel writes the width of the counters of the processor's own PMU, of which this one has none. */
static int keep_page(struct kretprobe_instance *call, struct pt_regs *regs)
{
    *(struct perf_event_mmap_page **)call->data = (struct perf_event_mmap_page *)regs->si;
    return 0;
}

static int set_width(struct kretprobe_instance *call, struct pt_regs *regs)
{
    struct perf_event_mmap_page *page = *(struct perf_event_mmap_page **)call->data;

    if (page->cap_user_rdpmc)
        page->pmc_width = WIDTH;
    return 0;
}

static struct kretprobe pages = {
    .kp.symbol_name = "arch_perf_update_userpage",
    .entry_handler = keep_page,
    .handler = set_width,
    .data_size = sizeof(struct perf_event_mmap_page *),
};

int rdpmc_start(void)
{
    return register_kretprobe(&pages) ?: register_die_notifier(&traps);
}
