#if defined(__APPLE__)
#include "system.h"

#include <libproc.h>
#include <mach/mach.h>
#include <stdint.h>
#include <sys/random.h>
#include <sys/sysctl.h>
#include <unistd.h>

/* The number of that name; 0 where this system has none. */
static size_t number_of(const char *name) {
    int value = 0;
    size_t bytes = sizeof value;
    return sysctlbyname(name, &value, &bytes, NULL, 0) == 0 && value > 0 ? (size_t)value : 0;
}

/* perflevel0: the fast cores; Intel's have no levels. */
size_t system_cores(void) {
    size_t fast = number_of("hw.perflevel0.physicalcpu");
    return fast ? fast : number_of("hw.physicalcpu");
}

/* Free and inactive pages, as psutil's `available`. */
size_t system_memory(const char *root) {
    (void)root;
    vm_statistics64_data_t pages = {0};
    mach_msg_type_number_t n = HOST_VM_INFO64_COUNT;
    mach_port_t host = mach_host_self();
    bool read = host_statistics64(host, HOST_VM_INFO64, (host_info64_t)&pages, &n) == KERN_SUCCESS;
    mach_port_deallocate(mach_task_self(), host);
    return read ? ((size_t)pages.free_count + pages.inactive_count) * (size_t)sysconf(_SC_PAGESIZE) : SIZE_MAX;
}

bool system_random(void *bytes, size_t n) { return getentropy(bytes, n) == 0; }

bool system_dotprod(void) { return number_of("hw.optional.arm.FEAT_DotProd"); }

bool system_mapped_at(char *path, size_t room, const void *address) {
    return proc_regionfilename(getpid(), (uintptr_t)address, path, (uint32_t)room) > 0;
}
#endif
