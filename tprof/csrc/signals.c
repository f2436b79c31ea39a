/* Called only by the process's first thread, which runs Python's handlers. */
#include "signals.h"

#include <pthread.h>
#include <signal.h>

#define SIGNALS 64

static struct sigaction former[SIGNALS + 1];
static volatile sig_atomic_t noted[SIGNALS + 1];
static uint64_t held;
static int holders;
static pthread_t holder;

static void note(int number)
{
    noted[number] = 1;
}

static bool has_handler(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 || (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

static bool is_of_thread(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGTRAP ||
           number == SIGABRT || number == SIGSYS;
}

uint64_t tprof_signals_handled(void)
{
    struct sigaction action;
    uint64_t which = 0;
    for (int number = 1; number <= SIGNALS; number++)
        if (!is_of_thread(number) && sigaction(number, NULL, &action) == 0 && has_handler(&action))
            which |= TPROF_SIGNAL_BIT(number);
    return which;
}

void tprof_signals_hold(uint64_t which)
{
    if (holders++ > 0)
        return;
    holder = pthread_self();
    for (int number = 1; number <= SIGNALS; number++) {
        if ((which & TPROF_SIGNAL_BIT(number)) == 0 || sigaction(number, NULL, &former[number]) != 0)
            continue;
        struct sigaction action = {.sa_handler = note, .sa_flags = former[number].sa_flags & ~SA_SIGINFO};
        action.sa_mask = former[number].sa_mask;
        noted[number] = 0;
        if (sigaction(number, &action, NULL) == 0)
            held |= TPROF_SIGNAL_BIT(number);
    }
}

bool tprof_signals_are_held(void)
{
    return holders > 0;
}

static void put_back(int number)
{
    struct sigaction now;
    if (sigaction(number, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == note)
        (void)sigaction(number, &former[number], NULL);
}

static uint64_t put_all_back(void)
{
    const uint64_t which = held;
    held = 0;
    holders = 0;
    for (int number = 1; number <= SIGNALS; number++)
        if ((which & TPROF_SIGNAL_BIT(number)) != 0)
            put_back(number);
    return which;
}

void tprof_signals_release(void)
{
    if (holders == 0 || --holders > 0)
        return;
    const uint64_t which = put_all_back();
    for (int number = 1; number <= SIGNALS; number++) {
        if ((which & TPROF_SIGNAL_BIT(number)) == 0 || !noted[number])
            continue;
        noted[number] = 0;
        (void)raise(number);
    }
}

void tprof_signals_forget(void)
{
    for (int number = 1; number <= SIGNALS; number++)
        noted[number] = 0;
    if (holders > 0 && !pthread_equal(holder, pthread_self()))
        (void)put_all_back();
}
