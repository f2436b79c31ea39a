/* What the core sets up once in a process, and its one registration with pthread_atfork. */
#ifndef TPROF_PROCESS_H
#define TPROF_PROCESS_H

/* Called by each interpreter that loads the core. Returns 0 or errno. */
int tprof_process_initialise(void);

/* Let a task runtime keep its lock free in forked children: `take` is called before each fork, `release` after it in
 * the parent and in the child. A process has one runtime; a second call replaces the first. */
void tprof_process_follow_forks(void (*take)(void), void (*release)(void));

#endif
