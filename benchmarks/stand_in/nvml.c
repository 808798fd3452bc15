/* A stand-in for NVIDIA's libnvidia-ml.so.1: devices, memory, utilisation and processes without a GPU.
 *
 * It has the entry points that jupyter_gpushare and jupyterlab-nvdashboard 0.15 call through pynvml, and answers each
 * after a delay, as a real driver does. What it shows comes from the environment:
 *
 *   STAND_IN_DEVICES    how many GPUs there are (8)
 *   STAND_IN_DELAY_MS   how long each call takes, in milliseconds, decimals allowed (0)
 *   STAND_IN_MIG        how many MIG instances GPU 0 is divided into (0: not divided)
 *   STAND_IN_PROCESSES  a file with one process a line: "<device> <pid> <MiB> <per cent>"; MIG instances are
 *                       devices 1000, 1001, ...; read again when it changed
 *   STAND_IN_COUNTER    a file of 8 bytes that counts calls in a native unsigned 64-bit number, seen from outside
 *
 * Memory and utilisation vary slowly with the time. Anything else that NVML has is missing on purpose: the binding
 * then reports FUNCTION_NOT_FOUND, as it does with an old driver.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef unsigned int nvmlReturn_t;
typedef struct gpu *nvmlDevice_t;

enum {
  SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7
};
enum { MOST_DEVICES = 64, MOST_INSTANCES = 7, FIRST_INSTANCE = 1000, MOST_PROCESSES = 1024 };

static const unsigned long long MIB = 1ull << 20;
static const unsigned long long RESERVE = 512ull << 20;

struct gpu { int number; unsigned long long total; };
struct process { int device; unsigned pid; unsigned long long memory; unsigned per_cent; };

typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct {
  unsigned pid;
  unsigned long long usedGpuMemory;
  unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;
typedef struct {
  unsigned pid;
  unsigned long long timeStamp;
  unsigned smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

static struct gpu devices[MOST_DEVICES], instances[MOST_INSTANCES];
static struct process processes[MOST_PROCESSES];
static int device_count, instance_count, process_count;
static pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
static atomic_int users;
static double delay_ms;
static _Atomic uint64_t uncounted;
static _Atomic uint64_t *counter = &uncounted;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int number_from(const char *name, int otherwise, int most) {
  const char *text = getenv(name);
  int value = text && *text ? atoi(text) : otherwise;
  return value < 0 ? 0 : value > most ? most : value;
}

static void map_counter(void) {
  const char *path = getenv("STAND_IN_COUNTER");
  int file = path && *path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  if (file < 0) return;
  if (ftruncate(file, sizeof(uint64_t)) == 0) {
    void *shared = mmap(NULL, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (shared != MAP_FAILED) counter = shared;
  }
  close(file);
}

static void set_up(void) {
  const char *delay = getenv("STAND_IN_DELAY_MS");
  delay_ms = delay ? atof(delay) : 0;
  device_count = number_from("STAND_IN_DEVICES", 8, MOST_DEVICES);
  instance_count = number_from("STAND_IN_MIG", 0, MOST_INSTANCES);
  for (int i = 0; i < device_count; i++) devices[i] = (struct gpu){i, 40960 * MIB};
  for (int i = 0; i < instance_count; i++) instances[i] = (struct gpu){FIRST_INSTANCE + i, 4864 * MIB};
  map_counter();
}

/* Every entry point starts here: one call, counted, as slow as asked for. */
static void called(void) {
  pthread_once(&once, set_up);
  atomic_fetch_add(counter, 1);
  if (delay_ms > 0) {
    struct timespec wait = {(time_t)(delay_ms / 1000), (long)(delay_ms * 1e6) % 1000000000};
    nanosleep(&wait, NULL);
  }
}

#define ENTER() do { called(); if (atomic_load(&users) == 0) return UNINITIALIZED; } while (0)

static int is_instance(nvmlDevice_t gpu) { return gpu->number >= FIRST_INSTANCE; }

static unsigned long long now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

/* Goes up and down between 0 and *most* in a minute, each device at its own point. */
static unsigned wave(nvmlDevice_t gpu, unsigned most) {
  unsigned second = (unsigned)(now_us() / 1000000 + 7 * (unsigned)gpu->number) % 60;
  return most * (second < 30 ? second : 60 - second) / 30;
}

/* The process file, parsed anew only when it changed: the reader's work must not show in the user's CPU time. */
static void refresh_processes(void) {
  static struct timespec seen;
  static off_t seen_size = -1;
  const char *path = getenv("STAND_IN_PROCESSES");
  struct stat now;
  if (!path || !*path || stat(path, &now) != 0) {
    process_count = 0;
    seen_size = -1;
    return;
  }
  if (now.st_size == seen_size && now.st_mtim.tv_sec == seen.tv_sec && now.st_mtim.tv_nsec == seen.tv_nsec) return;
  FILE *file = fopen(path, "re");
  struct process p;
  process_count = 0;
  while (file && process_count < MOST_PROCESSES &&
         fscanf(file, "%d %u %llu %u", &p.device, &p.pid, &p.memory, &p.per_cent) == 4) {
    p.memory *= MIB;
    processes[process_count++] = p;
  }
  if (file) fclose(file);
  seen = now.st_mtim;
  seen_size = now.st_size;
}

static int processes_on(nvmlDevice_t gpu, struct process *found) {
  int count = 0;
  pthread_mutex_lock(&reading);
  refresh_processes();
  for (int i = 0; i < process_count; i++)
    if (processes[i].device == gpu->number) found[count++] = processes[i];
  pthread_mutex_unlock(&reading);
  return count;
}

static unsigned long long used(nvmlDevice_t gpu) {
  struct process found[MOST_PROCESSES];
  int count = processes_on(gpu, found);
  unsigned long long sum = 0;
  for (int i = 0; i < count; i++) sum += found[i].memory;
  return count ? sum : wave(gpu, 1000) * MIB;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  called();
  atomic_fetch_add(&users, 1);
  return SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
  ENTER();
  atomic_fetch_sub(&users, 1);
  return SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t code) {
  switch (code) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    default: return "Unknown Error";
  }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned length) {
  ENTER();
  snprintf(text, length, "580.00-stand-in");
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count) {
  ENTER();
  *count = (unsigned)device_count;
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *gpu) {
  ENTER();
  if (index >= (unsigned)device_count) return INVALID_ARGUMENT;
  *gpu = &devices[index];
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t gpu, char *text, unsigned length) {
  ENTER();
  snprintf(text, length, "%s-57a4d000-0000-4000-8000-%012d", is_instance(gpu) ? "MIG" : "GPU", gpu->number);
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t gpu, char *text, unsigned length) {
  ENTER();
  snprintf(text, length, "NVIDIA A100-SXM4-40GB%s", is_instance(gpu) ? " MIG 1g.5gb" : "");
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t gpu, nvmlMemory_t *info) {
  ENTER();
  info->total = gpu->total;
  info->used = used(gpu) + RESERVE;
  info->free = gpu->total - info->used;
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t gpu, nvmlMemory_v2_t *info) {
  ENTER();
  info->total = gpu->total;
  info->reserved = RESERVE;
  info->used = used(gpu);
  info->free = gpu->total - info->used - RESERVE;
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t gpu, nvmlUtilization_t *rates) {
  ENTER();
  if (is_instance(gpu)) return NOT_SUPPORTED;
  rates->gpu = wave(gpu, 100);
  rates->memory = wave(gpu, 50);
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t gpu, unsigned *count, nvmlProcessInfo_t *infos) {
  struct process found[MOST_PROCESSES];
  ENTER();
  unsigned room = *count;
  *count = (unsigned)processes_on(gpu, found);
  if (*count > room || (*count && !infos)) return INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < *count; i++)
    infos[i] = (nvmlProcessInfo_t){found[i].pid, found[i].memory, 0xFFFFFFFF, 0xFFFFFFFF};
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t gpu, unsigned *count, nvmlProcessInfo_t *infos) {
  ENTER();
  (void)gpu;
  (void)infos;
  *count = 0;
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(
    nvmlDevice_t gpu, nvmlProcessUtilizationSample_t *samples, unsigned *count, unsigned long long since_us) {
  struct process found[MOST_PROCESSES];
  ENTER();
  if (is_instance(gpu)) return NOT_SUPPORTED;
  int listed = processes_on(gpu, found);
  unsigned long long now = now_us();
  unsigned room = *count, busy = 0;
  for (int i = 0; i < listed && now > since_us; i++)
    if (found[i].per_cent) found[busy++] = found[i];
  *count = busy;
  if (!busy) return NOT_FOUND;
  if (busy > room || !samples) return INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < busy; i++)
    samples[i] = (nvmlProcessUtilizationSample_t){found[i].pid, now, found[i].per_cent, 1, 0, 0};
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t gpu, unsigned *current, unsigned *pending) {
  ENTER();
  *current = *pending = gpu->number == 0 && instance_count > 0;
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t gpu, unsigned *count) {
  ENTER();
  *count = gpu->number == 0 ? MOST_INSTANCES : 0;
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t gpu, unsigned index, nvmlDevice_t *instance) {
  ENTER();
  if (gpu->number != 0 || index >= (unsigned)instance_count) return NOT_FOUND;
  *instance = &instances[index];
  return SUCCESS;
}

/* What jupyterlab-nvdashboard asks besides. */

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t gpu, unsigned *generation) {
  ENTER();
  (void)gpu;
  *generation = 4;
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t gpu, unsigned *width) {
  ENTER();
  (void)gpu;
  *width = 16;
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t gpu, unsigned which, unsigned *kib_per_s) {
  ENTER();
  (void)which;
  *kib_per_s = wave(gpu, 1000000);
  return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t gpu, unsigned link, unsigned *version) {
  ENTER();
  (void)gpu;
  (void)link;
  (void)version;
  return NOT_SUPPORTED;
}
