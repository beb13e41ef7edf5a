/* relay - a wire with a latency and a rate between two network namespaces, where the kernel has no netem. It holds each
 * packet of the TUN device DEVICEa of namespace NAMEa until a wire of that rate would have carried it, and DELAY
 * longer, then writes it to DEVICEb of NAMEb; and the other way round. Used by scripts/slow_link.sh. */
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    QUEUE = 4096,  /* packets under way in a direction */
    PACKET = 2048, /* bytes of one at most */
    AHEAD = 20000  /* ns before a packet is due it stays awake: sleep is not exact */
};

typedef struct {
    int from, to;
    int64_t free_at; /* ns; when the wire has carried what it was given */
    unsigned first, end;
    struct {
        int64_t due;
        int size;
        char bytes[PACKET];
    } packet[QUEUE];
} Wire;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int open_device(const char *namespace, const char *device, char side) {
    char path[256];
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    snprintf(path, sizeof path, "/run/netns/%s%c", namespace, side);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s%c", device, side);
    int name = open(path, O_RDONLY), fd = -1;
    if (name < 0 || setns(name, CLONE_NEWNET) || (fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK)) < 0 ||
        ioctl(fd, TUNSETIFF, &request)) {
        perror(path);
        exit(1);
    }
    close(name);
    return fd;
}

static void take(Wire *w, int64_t delay, double ns_a_byte) {
    while (w->end - w->first < QUEUE) {
        int i = (int)(w->end % QUEUE);
        int64_t now;
        if ((w->packet[i].size = (int)read(w->from, w->packet[i].bytes, PACKET)) <= 0) return;
        now = now_ns();
        w->free_at = (w->free_at > now ? w->free_at : now) + (int64_t)(w->packet[i].size * ns_a_byte);
        w->packet[i].due = w->free_at + delay;
        w->end++;
    }
}

/* Returns when the next packet is due; INT64_MAX: none is under way. */
static int64_t deliver(Wire *w) {
    while (w->first != w->end) {
        int i = (int)(w->first % QUEUE);
        if (w->packet[i].due > now_ns()) return w->packet[i].due;
        if (write(w->to, w->packet[i].bytes, (size_t)w->packet[i].size) < 0)
            perror("relay"); /* as a wire: it is lost */
        w->first++;
    }
    return INT64_MAX;
}

int main(int argc, char **argv) {
    if (argc != 5) return fprintf(stderr, "usage: relay NAMESPACE DEVICE DELAY_US MBIT_S (0: no limit)\n"), 2;
    double mbit = atof(argv[4]), ns_a_byte = mbit > 0 ? 8000 / mbit : 0;
    int64_t delay = (int64_t)(atof(argv[3]) * 1000);
    static Wire wire[2];
    wire[0].from = wire[1].to = open_device(argv[1], argv[2], 'a');
    wire[0].to = wire[1].from = open_device(argv[1], argv[2], 'b');
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 10}); /* wakes when a packet is due */
    for (;;) {
        int64_t due = INT64_MAX, now = now_ns();
        for (int i = 0; i < 2; i++) {
            take(&wire[i], delay, ns_a_byte);
            int64_t next = deliver(&wire[i]);
            if (next < due) due = next;
        }
        struct pollfd fds[2] = {{wire[0].from, POLLIN, 0}, {wire[1].from, POLLIN, 0}};
        int64_t left = due - now > AHEAD ? due - now - AHEAD : 0;
        struct timespec wait = {left / 1000000000, left % 1000000000};
        ppoll(fds, 2, due == INT64_MAX ? NULL : &wait, NULL);
    }
}
