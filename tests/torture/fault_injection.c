// A library to preload: it makes chosen system calls and allocations of a program fail.
//
//   TORTURE_CALLS=write,fsync    the calls, by the names in kCalls below
//   TORTURE_PATH=checkpoints     only files whose path contains this; all files if unset
//   TORTURE_FIRST=3              the first of those calls that is struck, counted from 1
//   TORTURE_TIMES=1              number of struck calls in a row; 0 for all following calls
//   TORTURE_ACTION=ENOSPC        an error's name or number; "short": a read or write of half the
//                                bytes; "delay:20": waits 20 ms after the call
//   TORTURE_STATE=FILE           a file of sizeof(struct state) bytes for the counters
//
// It intercepts calls that the program and its libraries make by the usual names, including
// std::ofstream, std::filesystem and operator new. It does not intercept calls inside libc (the
// writes of fwrite and printf, opendir, the loader's own mmap, the stacks of threads).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "torture/fault_state.h"

enum call {
  OPEN,
  READ,
  WRITE,
  FSYNC,
  RENAME,
  MMAP,
  FTRUNCATE,
  UNLINK,
  MKDIR,
  FLOCK,
  MALLOC,
  THREAD
};

static const char* const kCalls[] = {"open",      "read",   "write", "fsync", "rename", "mmap",
                                     "ftruncate", "unlink", "mkdir", "flock", "malloc", "thread"};

enum { NUM_CALLS = sizeof kCalls / sizeof kCalls[0], FAIL = 0, SHORT, DELAY };

static struct {
  bool calls[NUM_CALLS];
  const char* path;
  uint64_t first, times;
  int action, error_number, milliseconds;
} rule;
static struct fault_state unshared, *state = &unshared;

static const struct {
  const char* name;
  int number;
} kErrors[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EMFILE", EMFILE},
               {"ENFILE", ENFILE}, {"EACCES", EACCES}, {"EPERM", EPERM},   {"EROFS", EROFS},
               {"EINTR", EINTR},   {"EBUSY", EBUSY},   {"ENOMEM", ENOMEM}, {"EAGAIN", EAGAIN},
               {"ENODEV", ENODEV}, {"ENOLCK", ENOLCK}, {"EFBIG", EFBIG},   {"EINVAL", EINVAL},
               {"ESTALE", ESTALE}};

static void read_action(const char* text) {
  if (strcmp(text, "short") == 0) rule.action = SHORT;
  if (strncmp(text, "delay:", 6) == 0) {
    rule.action = DELAY;
    rule.milliseconds = atoi(text + 6);
  }
  rule.error_number = atoi(text);
  for (size_t i = 0; i < sizeof kErrors / sizeof kErrors[0]; ++i)
    if (strcmp(text, kErrors[i].name) == 0) rule.error_number = kErrors[i].number;
}

__attribute__((constructor)) static void read_rule(void) {
  const char* calls = getenv("TORTURE_CALLS");
  if (!calls) return;
  const char* file = getenv("TORTURE_STATE");
  const int fd = file ? (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0) : -1;
  if (fd >= 0) {
    const long at =
        syscall(SYS_mmap, NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0L);
    if (at > 0) state = (struct fault_state*)at;
    syscall(SYS_close, fd);
  }
  const char* first = getenv("TORTURE_FIRST");
  const char* times = getenv("TORTURE_TIMES");
  const char* action = getenv("TORTURE_ACTION");
  rule.path = getenv("TORTURE_PATH");
  rule.first = first ? strtoull(first, NULL, 10) : 1;
  rule.times = times ? strtoull(times, NULL, 10) : 1;
  if (action) read_action(action);
  for (int i = 0; i < NUM_CALLS; ++i) {
    const char* at = strstr(calls, kCalls[i]);
    rule.calls[i] = at && (at == calls || at[-1] == ',');
  }
}

// Counts a call on `path`; returns true if the call must fail.
static bool strike(enum call call, const char* path) {
  if (!rule.calls[call]) return false;
  if (rule.path && !(path && strstr(path, rule.path))) return false;
  const uint64_t number = atomic_fetch_add(&state->num_calls, 1) + 1;
  if (number < rule.first || (rule.times && number - rule.first >= rule.times)) return false;
  if (atomic_fetch_add(&state->num_struck, 1) == 0) {
    snprintf(state->call, sizeof state->call, "%s", kCalls[call]);
    if (path) {
      strncpy(state->path, path, sizeof state->path - 1);
    }
  }
  if (rule.action == FAIL) errno = rule.error_number;
  return true;
}

static bool strike_fd(enum call call, int fd) {
  if (!rule.calls[call]) return false;
  char link[32], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const long n = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  path[n > 0 ? n : 0] = 0;
  return strike(call, path);
}

static void delay(void) {
  struct timespec rest = {rule.milliseconds / 1000, rule.milliseconds % 1000 * 1000000L};
  const int kept = errno;
  while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
  }
  errno = kept;
}

// The result of a call: `real`, or the injected error.
#define STRUCK(condition, real)                   \
  do {                                            \
    const bool struck = (condition);              \
    if (struck && rule.action == FAIL) return -1; \
    const long result = (real);                   \
    if (struck && rule.action == DELAY) delay();  \
    return result;                                \
  } while (0)

static int open_file(int folder, const char* path, int flags, mode_t mode) {
  STRUCK(strike(OPEN, path), (int)syscall(SYS_openat, folder, path, flags, mode));
}

static mode_t mode_of(int flags, va_list rest) {
  return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN_AS(name)                              \
  int name(const char* path, int flags, ...) {     \
    va_list rest;                                  \
    va_start(rest, flags);                         \
    const mode_t mode = mode_of(flags, rest);      \
    va_end(rest);                                  \
    return open_file(AT_FDCWD, path, flags, mode); \
  }
#define OPENAT_AS(name)                                    \
  int name(int folder, const char* path, int flags, ...) { \
    va_list rest;                                          \
    va_start(rest, flags);                                 \
    const mode_t mode = mode_of(flags, rest);              \
    va_end(rest);                                          \
    return open_file(folder, path, flags, mode);           \
  }
OPEN_AS(open)
OPEN_AS(open64)
OPENAT_AS(openat)
OPENAT_AS(openat64)
int creat(const char* path, mode_t mode) {
  return open_file(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

#define FOPEN_AS(name)                                                  \
  FILE* name(const char* path, const char* mode) {                      \
    const bool struck = strike(OPEN, path);                             \
    if (struck && rule.action == FAIL) return NULL;                     \
    FILE* (*real)(const char*, const char*) =                           \
        (FILE * (*)(const char*, const char*)) dlsym(RTLD_NEXT, #name); \
    FILE* file = real(path, mode);                                      \
    if (struck && rule.action == DELAY) delay();                        \
    return file;                                                        \
  }
FOPEN_AS(fopen)
FOPEN_AS(fopen64)

#define TRANSFER(call, number, fd, bytes, count, ...)                                  \
  const bool struck = strike_fd(call, fd);                                             \
  if (struck && rule.action == FAIL) return -1;                                        \
  if (struck && rule.action == SHORT && count > 1) count /= 2;                         \
  const ssize_t result = syscall(number, fd, bytes, count __VA_OPT__(, ) __VA_ARGS__); \
  if (struck && rule.action == DELAY) delay();                                         \
  return result

ssize_t read(int fd, void* bytes, size_t count) { TRANSFER(READ, SYS_read, fd, bytes, count); }
ssize_t pread(int fd, void* bytes, size_t count, off_t at) {
  TRANSFER(READ, SYS_pread64, fd, bytes, count, at);
}
ssize_t pread64(int fd, void* bytes, size_t count, off64_t at) {
  TRANSFER(READ, SYS_pread64, fd, bytes, count, at);
}
ssize_t write(int fd, const void* bytes, size_t count) {
  TRANSFER(WRITE, SYS_write, fd, bytes, count);
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t at) {
  TRANSFER(WRITE, SYS_pwrite64, fd, bytes, count, at);
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t at) {
  TRANSFER(WRITE, SYS_pwrite64, fd, bytes, count, at);
}
ssize_t writev(int fd, const struct iovec* parts, int count) {
  TRANSFER(WRITE, SYS_writev, fd, parts, count);
}

int fsync(int fd) { STRUCK(strike_fd(FSYNC, fd), (int)syscall(SYS_fsync, fd)); }
int fdatasync(int fd) { STRUCK(strike_fd(FSYNC, fd), (int)syscall(SYS_fdatasync, fd)); }
int ftruncate(int fd, off_t size) {
  STRUCK(strike_fd(FTRUNCATE, fd), (int)syscall(SYS_ftruncate, fd, size));
}
int ftruncate64(int fd, off64_t size) {
  STRUCK(strike_fd(FTRUNCATE, fd), (int)syscall(SYS_ftruncate, fd, size));
}
int flock(int fd, int operation) {
  STRUCK(strike_fd(FLOCK, fd), (int)syscall(SYS_flock, fd, operation));
}

int rename(const char* from, const char* to) {
  STRUCK(strike(RENAME, to), (int)syscall(SYS_rename, from, to));
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  STRUCK(strike(RENAME, to), (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}
int unlink(const char* path) { STRUCK(strike(UNLINK, path), (int)syscall(SYS_unlink, path)); }
int unlinkat(int folder, const char* path, int flags) {
  STRUCK(folder == AT_FDCWD ? strike(UNLINK, path) : strike_fd(UNLINK, folder),
         (int)syscall(SYS_unlinkat, folder, path, flags));
}
int rmdir(const char* path) { STRUCK(strike(UNLINK, path), (int)syscall(SYS_rmdir, path)); }
int mkdir(const char* path, mode_t mode) {
  STRUCK(strike(MKDIR, path), (int)syscall(SYS_mkdir, path, mode));
}

static void* map(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  // Memory without a file is allocated by malloc: the call MALLOC.
  const bool struck = fd >= 0 && strike_fd(MMAP, fd);
  if (struck && rule.action == FAIL) return MAP_FAILED;
  void* result = (void*)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
  if (struck && rule.action == DELAY) delay();
  return result;
}
void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) {
  return map(at, size, protection, flags, fd, offset);
}
void* mmap64(void* at, size_t size, int protection, int flags, int fd, off64_t offset) {
  return map(at, size, protection, flags, fd, offset);
}

// glibc's internal names of its allocator. dlsym() would allocate.
extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

// oneDNN 2.6 crashes if an allocation fails. The program checks real limits before it calls oneDNN
// (require_headroom() in onednn.cc), but injected failures would reach it.
static bool inside_onednn(void) {
  void* frames[64];
  const int count = backtrace(frames, 64);
  for (int i = 0; i < count; ++i) {
    Dl_info info;
    if (dladdr(frames[i], &info) && info.dli_fname && strstr(info.dli_fname, "libdnnl")) return true;
  }
  return false;
}

static bool out_of_memory(void) {
  static _Thread_local bool looking;  // backtrace() may allocate
  if (looking || !strike(MALLOC, NULL)) return false;
  looking = true;
  const bool exempt = inside_onednn();
  looking = false;
  if (exempt) return false;
  errno = ENOMEM;
  return true;
}

void* malloc(size_t size) { return out_of_memory() ? NULL : __libc_malloc(size); }
void* calloc(size_t count, size_t size) {
  return out_of_memory() ? NULL : __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) { return out_of_memory() ? NULL : __libc_realloc(old, size); }
void* memalign(size_t alignment, size_t size) {
  return out_of_memory() ? NULL : __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** out, size_t alignment, size_t size) {
  void* memory = memalign(alignment, size);
  if (memory) *out = memory;
  return memory ? 0 : ENOMEM;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) {
  if (strike(THREAD, NULL)) return EAGAIN;
  int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) =
      (int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))dlsym(RTLD_NEXT,
                                                                                 "pthread_create");
  return real(thread, attributes, run, argument);
}
