/* The wall clock of a process, so many seconds off: loaded before libc. What asks the kernel by another name (gettimeofday, as
   SQLite's engine does) is not touched. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long skew_s;

__attribute__((constructor)) static void begin(void)
{
    const char *skew = getenv("LEASTLOCK_TEST_SKEW_S");
    if (skew)
        skew_s = atol(skew);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME)
        now->tv_sec += skew_s;
    return (int)failed;
}
