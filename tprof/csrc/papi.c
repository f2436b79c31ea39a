/* Called by the thread that is counted, except where the header says otherwise; needs neither Python nor a lock.
 *
 * The library is the one that python-papi contains. Its functions are called from here, since a call from Python would
 * cost more than what a sample may. PAPI keeps its event sets in one array, which it moves as it grows while other
 * threads read from it. So the array is grown before the first read, and threads beyond its size go without counters.
 *
 * A forked child has no counters by PAPI: another thread may have held PAPI's locks at the fork. */
#include "papi.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define PAPI_OK 0
#define PAPI_NULL (-1)
#define MOST_SETS 1024

static struct {
    int (*library_init)(int);
    int (*thread_init)(unsigned long (*)(void));
    int (*register_thread)(void);
    int (*unregister_thread)(void);
    int (*create_eventset)(int *);
    int (*add_named_event)(int, const char *);
    int (*start)(int);
    int (*read)(int, long long *);
    int (*stop)(int, long long *);
    int (*cleanup_eventset)(int);
    int (*destroy_eventset)(int *);
    char *(*strerror)(int);
} papi;

static pid_t loaded_by; /* 0: it is not loaded */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static atomic_int open_sets;
static _Thread_local bool registered;

static bool find_functions(void *library)
{
    const struct {
        const char *name;
        void **place;
    } wanted[] = {
        {"PAPI_library_init", (void **)&papi.library_init},
        {"PAPI_thread_init", (void **)&papi.thread_init},
        {"PAPI_register_thread", (void **)&papi.register_thread},
        {"PAPI_unregister_thread", (void **)&papi.unregister_thread},
        {"PAPI_create_eventset", (void **)&papi.create_eventset},
        {"PAPI_add_named_event", (void **)&papi.add_named_event},
        {"PAPI_start", (void **)&papi.start},
        {"PAPI_read", (void **)&papi.read},
        {"PAPI_stop", (void **)&papi.stop},
        {"PAPI_cleanup_eventset", (void **)&papi.cleanup_eventset},
        {"PAPI_destroy_eventset", (void **)&papi.destroy_eventset},
        {"PAPI_strerror", (void **)&papi.strerror},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if ((*wanted[i].place = dlsym(library, wanted[i].name)) == NULL)
            return false;
    return true;
}

static const char *sentence(int code)
{
    const char *text = papi.strerror(code);
    return text != NULL ? text : "PAPI gives no reason";
}

static void grow_sets(void)
{
    static int sets[MOST_SETS];
    for (int i = 0; i < MOST_SETS; i++) {
        sets[i] = PAPI_NULL;
        if (papi.create_eventset(&sets[i]) != PAPI_OK)
            break;
    }
    for (int i = 0; i < MOST_SETS && sets[i] != PAPI_NULL; i++)
        (void)papi.destroy_eventset(&sets[i]);
}

static const char *load_locked(const char *path, int version)
{
    if (loaded_by != 0)
        return loaded_by == getpid() ? NULL : "it was loaded before the process forked";
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL || !find_functions(library))
        return dlerror();
    const int code = papi.library_init(version);
    if (code != version)
        return code < 0 ? sentence(code) : "the library is of another version than its Python package";
    const int threads = papi.thread_init((unsigned long (*)(void))pthread_self);
    if (threads != PAPI_OK)
        return sentence(threads);
    grow_sets();
    loaded_by = getpid();
    return NULL;
}

const char *tprof_papi_load(const char *path, int version)
{
    /* Not a wait: in a forked child the lock may belong to a thread that is not there. */
    if (pthread_mutex_trylock(&loading) != 0)
        return "another thread is loading it";
    const char *problem = load_locked(path, version);
    pthread_mutex_unlock(&loading);
    return problem;
}

/* Returns PAPI_OK or PAPI's code. */
static int add_events(struct tprof_papi_set *set, const struct tprof_papi_events *events, const char **problems,
                      uint64_t *absent)
{
    int failed = PAPI_OK;
    for (int i = 0; i < events->count; i++) {
        const int code = papi.add_named_event(set->handle, events->names[i]);
        if (problems != NULL)
            problems[i] = code == PAPI_OK ? NULL : sentence(code);
        if (code == PAPI_OK) {
            set->columns[set->count++] = i;
            continue;
        }
        failed = code;
        *absent |= UINT64_C(1) << i;
    }
    return set->count > 0 ? PAPI_OK : failed;
}

static void destroy(struct tprof_papi_set *set)
{
    (void)papi.cleanup_eventset(set->handle);
    (void)papi.destroy_eventset(&set->handle);
    atomic_fetch_sub(&open_sets, 1);
    set->count = 0;
}

uint64_t tprof_papi_open(struct tprof_papi_set *set, const struct tprof_papi_events *events, const char **problems)
{
    const uint64_t all = (UINT64_C(1) << events->count) - 1;
    uint64_t absent = 0;
    int code;
    memset(set, 0, sizeof *set);
    if (loaded_by != getpid())
        return all;
    if (atomic_fetch_add(&open_sets, 1) >= MOST_SETS) {
        atomic_fetch_sub(&open_sets, 1);
        return all;
    }
    set->handle = PAPI_NULL;
    set->owner = pthread_self();
    registered = true;
    if ((code = papi.register_thread()) == PAPI_OK && (code = papi.create_eventset(&set->handle)) == PAPI_OK &&
        (code = add_events(set, events, problems, &absent)) == PAPI_OK && (code = papi.start(set->handle)) == PAPI_OK) {
        set->open = true;
        return absent;
    }
    for (int i = 0; problems != NULL && i < events->count; i++)
        if ((absent >> i & 1) == 0)
            problems[i] = sentence(code);
    destroy(set);
    return all;
}

bool tprof_papi_read(const struct tprof_papi_set *set, uint64_t *values)
{
    long long counted[TPROF_PAPI_EVENTS];
    if (!pthread_equal(pthread_self(), set->owner))
        return true;
    if (papi.read(set->handle, counted) != PAPI_OK)
        return false;
    for (int i = 0; i < set->count; i++)
        values[set->columns[i]] = (uint64_t)counted[i];
    return true;
}

void tprof_papi_close(struct tprof_papi_set *set)
{
    long long counted[TPROF_PAPI_EVENTS];
    if (!set->open)
        return;
    set->open = false;
    (void)papi.stop(set->handle, counted);
    destroy(set);
}

void tprof_papi_end_thread(void)
{
    if (registered && loaded_by == getpid())
        (void)papi.unregister_thread();
}
