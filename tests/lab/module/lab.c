// SPDX-License-Identifier: GPL-2.0
/* The processor that qemu's translator lacks, for trying an energy profiler on the stock kernel's own interfaces:
 *
 *   RAPL      the registers (MSRs) behind the stock drivers intel_rapl_common, intel_rapl_msr (powercap) and rapl (perf's
 *             PMU `power`), which run unchanged: reads of these MSRs are led here by kprobes. 32 bits, 2^-14 J (DRAM
 *             2^-16 J), updated about each millisecond, wrapping.
 *   cpufreq   a driver `lab-cpufreq`. A lower frequency is lower power and really slower: a processor that is busy
 *             spins in an interrupt for the rest of each millisecond.
 *   counters  the PMU `cpu` (PERF_TYPE_RAW, which also serves PERF_TYPE_HARDWARE); `slots` of them at a time.
 *
 * Energy = static + per processor (idle, or base + watts of what runs * (f/fmax)^2), integrated exactly at each switch
 * of the scheduler. A thread says what it runs by writing a number to /sys/kernel/lab/kind (0 at first); milliwatts and
 * events per 1000 cycles of each kind are parameters. The truth, in 64 bits, is in /sys/kernel/lab/truth. */
#include <linux/cpu.h>
#include <linux/cpufreq.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kobject.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/perf_event.h>
#include <linux/random.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <linux/vmalloc.h>

#define KINDS 8
#define IDLE (-1)
#define PIDS (1 << 22)
#define SLICE_NS NSEC_PER_MSEC

enum { CYCLES, INSTRUCTIONS, REFS, MISSES, BRANCHES, BRANCH_MISSES, STALLS, L2_REFS, EVENTS };

static unsigned int kind_mw[KINDS] = {6000, 4000, 8000, 12000, 16000, 2000, 10000, 20000};
static unsigned int dram_mw[KINDS] = {500, 100, 500, 1000, 3000, 100, 2000, 500};
static unsigned int ipc[KINDS] = {1000, 2500, 2000, 1500, 500, 300, 700, 3000};
static unsigned int misses[KINDS] = {1, 0, 1, 3, 20, 0, 10, 0};
static unsigned int static_mw = 10000, dram_static_mw = 1500, idle_mw = 500, base_mw = 1500;
/* What the registers of package, core and DRAM held at first: a parameter, so that a wrap comes soon. */
static unsigned int start[3] = {1000000, 1000000, 1000000};
static unsigned int slots = 4, shared;
static unsigned int update_us = 1000, jitter_us = 40, late_permille, late_us;
static bool throttle = true;
module_param_array(kind_mw, uint, NULL, 0644);
module_param_array(dram_mw, uint, NULL, 0644);
module_param_array(ipc, uint, NULL, 0644);
module_param_array(misses, uint, NULL, 0644);
module_param(static_mw, uint, 0644);
module_param(dram_static_mw, uint, 0644);
module_param(idle_mw, uint, 0644);
module_param(base_mw, uint, 0644);
module_param_array(start, uint, NULL, 0644);
module_param(slots, uint, 0644);  /* counters besides cycles and instructions */
module_param(shared, uint, 0444); /* 1: one cpufreq policy for all processors */
module_param(update_us, uint, 0644);
module_param(jitter_us, uint, 0644);
module_param(late_permille, uint, 0644); /* so many of 1000 updates come `late_us` later */
module_param(late_us, uint, 0644);
module_param(throttle, bool, 0644);

/* ---- what each processor does, and what it costs ---- */

struct usage { u64 busy_ns, core_pj, dram_pj, micro[EVENTS]; };

struct processor {
	raw_spinlock_t lock;
	u64 last_ns;
	int kind; /* IDLE or what runs */
	unsigned int khz;
	u64 busy_ns, slowed_ns; /* slowed: of the busy time, for which the frequency has been paid */
	u64 idle_ns, idle_pj, base_pj, core_pj, dram_pj;
	u64 micro[EVENTS]; /* events * 10^6 */
	struct usage by_kind[KINDS];
	unsigned int used;
	struct hrtimer slower;
};

static DEFINE_PER_CPU(struct processor, processors);
static u8 *kinds;
static struct cpufreq_frequency_table frequencies[] = {
	{.frequency = 1000000}, {.frequency = 1500000}, {.frequency = 2000000},
	{.frequency = 2500000}, {.frequency = 3000000}, {.frequency = CPUFREQ_TABLE_END},
};
#define FMAX 3000000U

static u64 clock_ns(void) { return ktime_get_mono_fast_ns(); }

static void advance(struct processor *p, u64 now)
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
		unsigned int rate = e == CYCLES ? 1000 : e == INSTRUCTIONS ? ipc[k] : e == MISSES ? misses[k] :
			e == REFS ? 4 * misses[k] : e == BRANCHES ? ipc[k] / 5 : e == BRANCH_MISSES ? ipc[k] / 500 :
			e == STALLS ? 1000 - ipc[k] / 4 : 10 * misses[k];
		p->micro[e] += mcycles * rate;
		usage->micro[e] += mcycles * rate;
	}
}

static int kind_of(struct task_struct *task)
{
	return is_idle_task(task) ? IDLE : kinds[task->pid & (PIDS - 1)];
}

static DEFINE_RAW_SPINLOCK(registers_lock);
static u64 began_ns, next_ns, updates;
static u64 published_pkg, published_core, published_dram; /* pJ */

static void totals(u64 now, u64 *pkg, u64 *core, u64 *dram)
{
	int cpu;

	*core = 0;
	*dram = (now - began_ns) * dram_static_mw;
	for_each_online_cpu(cpu) {
		struct processor *p = per_cpu_ptr(&processors, cpu);

		raw_spin_lock(&p->lock);
		advance(p, now);
		*core += p->core_pj;
		*dram += p->dram_pj;
		raw_spin_unlock(&p->lock);
	}
	*pkg = *core + (now - began_ns) * static_mw;
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
static void catch_up(u64 now)
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

static void become(struct processor *p, int kind)
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

/* ---- the RAPL registers ---- */

#define MSR_UNIT 0x606
#define MSR_PKG 0x611
#define MSR_PKG_INFO 0x614
#define MSR_DRAM 0x619
#define MSR_PP0 0x639

/* What was read, with the truth of that moment: the last LOGGED reads of the three registers. */
#define LOGGED (1 << 18)

struct logged {
	u64 t_ns;
	u32 msr, value;
	u64 published_pj, true_pj;
};

static struct logged *logged;
static u64 logged_count;

static void add_to_log(u32 msr, u32 value, u64 now, u64 published)
{
	u64 pkg, core, dram;

	totals(now, &pkg, &core, &dram);
	logged[logged_count++ % LOGGED] = (struct logged){
		.t_ns = now, .msr = msr, .value = value, .published_pj = published,
		.true_pj = msr == MSR_PKG ? pkg : msr == MSR_PP0 ? core : dram,
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

static u64 read_msr(u32 msr) { return register_value(msr); }

static u64 read_msr_safe(u32 msr, int *error)
{
	*error = 0;
	return register_value(msr);
}

static int lead_here(struct kprobe *probe, struct pt_regs *regs)
{
	if (!ours((u32)regs->di))
		return 0;
	regs->ip = (unsigned long)(probe->symbol_name[sizeof "native_read_msr" - 1] ? (void *)read_msr_safe : (void *)read_msr);
	return 1;
}

static void nothing(struct kprobe *probe, struct pt_regs *regs, unsigned long flags) {} /* keeps the probe a trap */

static struct kprobe reads[] = {
	{.symbol_name = "native_read_msr", .pre_handler = lead_here, .post_handler = nothing},
	{.symbol_name = "native_read_msr_safe", .pre_handler = lead_here, .post_handler = nothing},
};

/* ---- cpufreq ---- */

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

	for_each_cpu(cpu, policy->cpus) {
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

static unsigned int get_frequency(unsigned int cpu) { return per_cpu_ptr(&processors, cpu)->khz; }

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

/* ---- hardware counters ---- */

static int which(const struct perf_event_attr *attr)
{
	static const int generic[] = {CYCLES, INSTRUCTIONS, REFS, MISSES, BRANCHES, BRANCH_MISSES, -1, STALLS};

	if (attr->type == PERF_TYPE_HARDWARE)
		return attr->config < ARRAY_SIZE(generic) ? generic[attr->config] : -1;
	return attr->type == PERF_TYPE_RAW && attr->config == 0xff24 ? L2_REFS : -1;
}

static int counter_init(struct perf_event *event)
{
	if (event->attr.type != PERF_TYPE_HARDWARE && event->attr.type != PERF_TYPE_RAW)
		return -ENOENT;
	if (which(&event->attr) < 0)
		return -EINVAL;
	event->hw.idx = which(&event->attr);
	return 0;
}

static u64 count_now(int idx)
{
	struct processor *p = this_cpu_ptr(&processors);
	unsigned long flags;
	u64 micro, now = clock_ns();

	catch_up(now);
	raw_spin_lock_irqsave(&p->lock, flags);
	advance(p, now);
	micro = p->micro[idx];
	raw_spin_unlock_irqrestore(&p->lock, flags);
	return micro;
}

static void counter_read(struct perf_event *event)
{
	u64 whole;

	if (event->hw.state & PERF_HES_STOPPED)
		return;
	whole = (count_now(event->hw.idx) - local64_read(&event->hw.prev_count)) / 1000000;
	local64_add(whole * 1000000, &event->hw.prev_count);
	local64_add(whole, &event->count);
}

static void counter_start(struct perf_event *event, int flags)
{
	local64_set(&event->hw.prev_count, count_now(event->hw.idx));
	event->hw.state = 0;
}

static void counter_stop(struct perf_event *event, int flags)
{
	counter_read(event);
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
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
};

/* ---- /sys/kernel/lab ---- */

static ssize_t truth_show(struct kobject *object, struct kobj_attribute *attribute, char *text)
{
	unsigned long flags;
	u64 now, pkg, core, dram, idle_ns = 0, idle_pj = 0, base_pj = 0;
	struct usage sum;
	int cpu, kind, length;

	local_irq_save(flags);
	now = clock_ns();
	catch_up(now);
	totals(now, &pkg, &core, &dram);
	local_irq_restore(flags);
	for_each_online_cpu(cpu) {
		idle_ns += per_cpu(processors, cpu).idle_ns;
		idle_pj += per_cpu(processors, cpu).idle_pj;
		base_pj += per_cpu(processors, cpu).base_pj;
	}
	length = sysfs_emit(text, "now_ns %llu\nreads %llu\nupdates %llu\npackage_uj %llu\ncore_uj %llu\ndram_uj %llu\nstatic_uj %llu\nidle_ns %llu\n"
			    "idle_uj %llu\nbase_uj %llu\n", now, logged_count, updates, pkg / 1000000, core / 1000000, dram / 1000000,
			    (now - began_ns) * static_mw / 1000000, idle_ns, idle_pj / 1000000, base_pj / 1000000);
	for (kind = 0; kind < KINDS; kind++) {
		memset(&sum, 0, sizeof sum);
		for_each_online_cpu(cpu) {
			struct usage *usage = &per_cpu(processors, cpu).by_kind[kind];

			sum.busy_ns += usage->busy_ns;
			sum.core_pj += usage->core_pj;
			sum.dram_pj += usage->dram_pj;
			sum.micro[CYCLES] += usage->micro[CYCLES];
			sum.micro[INSTRUCTIONS] += usage->micro[INSTRUCTIONS];
		}
		length += sysfs_emit_at(text, length, "kind%d busy_ns %llu dynamic_uj %llu dram_uj %llu cycles %llu instructions %llu\n",
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

/* The log in the order of its writing, once it has not gone round; a write to it empties it. */
static ssize_t log_read(struct file *file, struct kobject *object, struct bin_attribute *attribute, char *to, loff_t at, size_t size)
{
	u64 bytes = min_t(u64, logged_count, LOGGED) * sizeof(struct logged);

	return memory_read_from_buffer(to, size, &at, logged, bytes);
}

static ssize_t log_write(struct file *file, struct kobject *object, struct bin_attribute *attribute, char *from, loff_t at, size_t size)
{
	logged_count = 0;
	return size;
}

static struct bin_attribute reads_log = {
	.attr = {.name = "reads", .mode = 0600},
	.read = log_read,
	.write = log_write,
};

static struct kobject *folder;

/* ---- start; there is no end: the guest is thrown away ---- */

static void attach(struct tracepoint *point, void *data)
{
	if (!strcmp(point->name, "sched_switch"))
		WARN_ON(tracepoint_probe_register(point, on_switch, NULL));
	else if (!strcmp(point->name, "sched_process_exit"))
		WARN_ON(tracepoint_probe_register(point, on_exit, NULL));
}

static int __init lab_init(void)
{
	int cpu, error;

	kinds = kvzalloc(PIDS, GFP_KERNEL);
	folder = kobject_create_and_add("lab", kernel_kobj);
	logged = vzalloc(LOGGED * sizeof *logged);
	if (!kinds || !folder || !logged)
		return -ENOMEM;
	began_ns = next_ns = clock_ns();
	for_each_possible_cpu(cpu) {
		struct processor *p = per_cpu_ptr(&processors, cpu);

		raw_spin_lock_init(&p->lock);
		p->khz = FMAX;
		p->last_ns = began_ns;
		p->kind = IDLE;
		hrtimer_init(&p->slower, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
		p->slower.function = spin;
	}
	on_each_cpu(on_start, NULL, 1);
	for_each_kernel_tracepoint(attach, NULL);
	for (cpu = 0; cpu < ARRAY_SIZE(reads); cpu++) {
		error = register_kprobe(&reads[cpu]);
		if (error)
			pr_err("lab: no kprobe on %s: %d\n", reads[cpu].symbol_name, error);
	}
	error = cpufreq_register_driver(&driver);
	if (error)
		pr_err("lab: no cpufreq: %d\n", error);
	error = perf_pmu_register(&counters, "cpu", PERF_TYPE_RAW);
	if (error)
		pr_err("lab: no counters: %d\n", error);
	error = sysfs_create_file(folder, &truth.attr) ?: sysfs_create_file(folder, &kind.attr) ?: sysfs_create_bin_file(folder, &reads_log);
	__module_get(THIS_MODULE);
	return error;
}

module_init(lab_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A processor with RAPL, cpufreq and counters for a translated guest");
