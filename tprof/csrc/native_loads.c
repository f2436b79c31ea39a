/* Libraries that are loaded: threads that they create meanwhile, and their calls that are redirected. Called by any
 * thread, without a lock. */
#include <sys/syscall.h>
#include <unistd.h>

#include "calls.h"
#include "clock.h"
#include "libraries.h"
#include "mpi_calls.h"
#include "native_discovery.h"
#include "native_followers.h"
#include "native_records.h"
#include "native_threads.h"
#include "redirection.h"

static uint32_t loads; /* that are going on */
static pid_t loader;
static bool is_loader_unknown; /* two threads load at once */
static bool redirects_more;      /* of the functions that `tprof_native_redirect` named */

/* The threads that are there now are not the library's. */
void tprof_native_before_load(struct tprof_native_load *load)
{
    tprof_followers_lock();
    const pid_t tid = (pid_t)syscall(SYS_gettid);
    load->before_ns = tprof_now_ns();
    if (tprof_native_runs()) {
        tprof_discovery_take_births();
        tprof_discovery_list_if_changed(load->before_ns);
    }
    load->recording = tprof_followers.recording;
    load->first = tprof_followers.numbered;
    is_loader_unknown = loads > 0 && (is_loader_unknown || loader != tid);
    loader = tid;
    loads++;
    tprof_followers_unlock();
}

/* OpenBLAS, if it came alone since that time: it creates its pool as it is loaded, and what it creates spins from the
 * first, so that no waiting stack shows where it began. */
static struct tprof_library *loaded_openblas(uint64_t since_ns)
{
    struct tprof_library *found = NULL;
    for (struct tprof_library *one = tprof_library_next(NULL); one != NULL; one = tprof_library_next(one)) {
        if (!one->is_openblas || one->noted_ns < since_ns)
            continue;
        if (found != NULL)
            return NULL;
        found = one;
    }
    return found;
}

static void write_created(struct tprof_follower *one, uint64_t created_ns, struct tprof_library *openblas)
{
    tprof_native_write_creator(one, created_ns);
    if (!one->has_library)
        tprof_native_find_library(one, one->read_ns);
    if (!one->has_library && openblas != NULL)
        tprof_native_write_begin(one, one->read_ns, openblas);
}

/* What began meanwhile and was not created by a redirected call was created by the library as it was loaded, also if
 * the sensor thread has met it already. */
void tprof_native_after_load(const struct tprof_native_load *load)
{
    tprof_followers_lock();
    loads -= loads > 0;
    if (tprof_native_runs() || redirects_more || tprof_mpi_is_followed())
        tprof_libraries_loaded();
    if (tprof_native_runs()) {
        tprof_discovery_take_births();
        tprof_discovery_list_if_changed(tprof_now_ns());
        struct tprof_library *const openblas = loaded_openblas(load->before_ns);
        const bool is_known = load->recording == tprof_followers.recording && !is_loader_unknown;
        for (size_t i = 0; i < tprof_followers.count && is_known; i++) {
            struct tprof_follower *one = &tprof_followers.all[i];
            if (one->role != TPROF_FOLLOWED || one->number < load->first || one->birth != NULL || one->has_creator)
                continue;
            write_created(one, load->before_ns, openblas);
        }
    }
    tprof_followers_unlock();
}

void tprof_native_follow_mpi(void)
{
    tprof_followers_lock();
    tprof_calls_follow_mpi();
    tprof_libraries_unsettle();
    tprof_libraries_refresh();
    tprof_followers_unlock();
}

void tprof_native_redirect(const struct tprof_redirected *functions, size_t count)
{
    tprof_followers_lock();
    for (size_t i = 0; i < count; i++)
        tprof_redirect_also(&functions[i]);
    redirects_more = true;
    tprof_libraries_unsettle();
    tprof_libraries_refresh();
    tprof_followers_unlock();
}

void tprof_native_forget_loads(void)
{
    loads = 0;
}
