/* Every Termux phone is called `localhost`, and Open MPI 5 breaks where nodes share one name.
 * Preloaded, this answers gethostname() and uname() with the name in the file NAME_FILE, which
 * provisioning writes; without that file, with what the kernel says.
 *
 * Freestanding: raw system calls and no C library, so that one file serves bionic, glibc and
 * musl. Built by fleetctl.provision.release. */

#define NAME_FILE "/data/data/com.termux/files/usr/etc/phonerack/name"
#define FIELD_BYTES 65 /* of struct utsname, in the kernel and in every C library */

typedef unsigned long size;

struct utsname {
    char sysname[FIELD_BYTES], nodename[FIELD_BYTES], release[FIELD_BYTES], version[FIELD_BYTES],
        machine[FIELD_BYTES], domainname[FIELD_BYTES];
};

#if defined(__x86_64__)
enum { SYS_READ = 0, SYS_CLOSE = 3, SYS_UNAME = 63, SYS_OPENAT = 257 };

static long system_call(long number, long a, long b, long c, long d) {
    register long fourth __asm__("r10") = d;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
enum { SYS_OPENAT = 56, SYS_CLOSE = 57, SYS_READ = 63, SYS_UNAME = 160 };

static long system_call(long number, long a, long b, long c, long d) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#else
#error "no system calls known for this processor"
#endif

enum { AT_FDCWD = -100, O_RDONLY_CLOEXEC = 02000000 };

/* Puts the first line of NAME_FILE, at most FIELD_BYTES - 1 long, into name; its length, or 0. */
static size read_name(char name[FIELD_BYTES]) {
    long file = system_call(SYS_OPENAT, AT_FDCWD, (long)NAME_FILE, O_RDONLY_CLOEXEC, 0);
    if (file < 0) return 0;
    long count = system_call(SYS_READ, file, (long)name, FIELD_BYTES - 1, 0);
    system_call(SYS_CLOSE, file, 0, 0, 0);
    size length = 0;
    while ((long)length < count && name[length] > ' ') length++;
    name[length] = 0;
    return length;
}

__attribute__((visibility("default"))) int uname(struct utsname *answer) {
    char name[FIELD_BYTES];
    if (system_call(SYS_UNAME, (long)answer, 0, 0, 0) < 0) return -1;
    size length = read_name(name);
    for (size i = 0; length && i <= length; i++) answer->nodename[i] = name[i];
    return 0;
}

__attribute__((visibility("default"))) int gethostname(char *answer, size bytes) {
    struct utsname system;
    if (uname(&system) < 0) return -1;
    for (size i = 0; i < bytes; i++) {
        answer[i] = system.nodename[i];
        if (!answer[i]) return 0;
    }
    return -1; /* the name is longer than the caller's buffer */
}
