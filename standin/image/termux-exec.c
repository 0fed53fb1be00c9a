/* libtermux-exec.so: makes a Debian userland behave like Termux under Android, for one process.
 *
 * Preloaded into everything that runs as the app. It does three things, each by standing in front
 * of the C library:
 *   1. what Android's SELinux policy hides from an app cannot be opened: /proc/net, /proc/stat,
 *      netlink, …
 *   2. programs and script interpreters under /bin and /usr/bin are looked up in $PREFIX/bin,
 *      which is what Termux's own libtermux-exec does; and nothing starts that preloads a file
 *      which is not there, as with Android's own C library;
 *   3. OpenSSH, which Termux patches, sees the app's user whatever name was asked for, and gives
 *      its sessions the environment of a Termux session. Everybody else sees /etc/passwd.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PREFIX "/data/data/com.termux/files/usr"
#define HOME "/data/data/com.termux/files/home"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
/* The C library's own function of that name. */
#define NEXT(name)                                                             \
    (*({                                                                       \
        static __typeof__(&name) next;                                         \
        if (next == NULL)                                                      \
            next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);                 \
        next;                                                                  \
    }))

extern char **environ;

static int program_is(const char *const *names, size_t count)
{
    char path[256];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0)
        return 0;
    path[n] = '\0';
    const char *name = strrchr(path, '/') + 1;
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

/* ---- 1. what an app cannot open ------------------------------------------------------------- */

static int below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static int hidden(const char *path)
{
    static const char *const hidden_paths[] = {
        "/proc/net",       "/proc/stat",         "/proc/vmstat",           "/proc/interrupts",
        "/proc/diskstats", "/proc/version",
        "/sys/class/net",  "/sys/class/thermal", "/sys/class/power_supply", "/sys/class/hwmon",
        "/sys/devices/virtual/thermal",
    };
    /* Termux's procps asks sysinfo() instead. */
    static const char *const patched[] = {"ps", "uptime"};
    if (path == NULL)
        return 0;
    if (strcmp(path, "/proc/uptime") == 0 || strcmp(path, "/proc/loadavg") == 0)
        return !program_is(patched, COUNT(patched));
    for (size_t i = 0; i < COUNT(hidden_paths); i++)
        if (below(path, hidden_paths[i]))
            return 1;
    /* /proc/net is a link to /proc/self/net, and every process has one. */
    if (strncmp(path, "/proc/", 6) == 0) {
        const char *rest = strchr(path + 6, '/');
        return rest != NULL && below(rest, "/net");
    }
    return 0;
}

static mode_t mode_argument(int flags, va_list arguments)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

#define DENY(path, failure) \
    if (hidden(path)) {     \
        errno = EACCES;     \
        return failure;     \
    }

#define WRAP_OPEN(name)                                   \
    int name(const char *path, int flags, ...)            \
    {                                                     \
        va_list arguments;                                \
        va_start(arguments, flags);                       \
        mode_t mode = mode_argument(flags, arguments);    \
        va_end(arguments);                                \
        DENY(path, -1)                                    \
        return NEXT(name)(path, flags, mode);             \
    }
WRAP_OPEN(open)
WRAP_OPEN(open64)

#define WRAP_OPENAT(name)                                 \
    int name(int folder, const char *path, int flags, ...) \
    {                                                     \
        va_list arguments;                                \
        va_start(arguments, flags);                       \
        mode_t mode = mode_argument(flags, arguments);    \
        va_end(arguments);                                \
        DENY(path, -1)                                    \
        return NEXT(name)(folder, path, flags, mode);     \
    }
WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)

#define WRAP_FOPEN(name)                            \
    FILE *name(const char *path, const char *mode)  \
    {                                               \
        DENY(path, NULL)                            \
        return NEXT(name)(path, mode);              \
    }
WRAP_FOPEN(fopen)
WRAP_FOPEN(fopen64)

DIR *opendir(const char *path)
{
    DENY(path, NULL)
    return NEXT(opendir)(path);
}

/* What _FORTIFY_SOURCE turns open() into. */
int __open_2(const char *path, int flags) { return open(path, flags); }
int __open64_2(const char *path, int flags) { return open64(path, flags); }
int __openat_2(int folder, const char *path, int flags) { return openat(folder, path, flags); }
int __openat64_2(int folder, const char *path, int flags) { return openat64(folder, path, flags); }

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
    if (address != NULL && address->sa_family == AF_NETLINK) {
        errno = EACCES;
        return -1;
    }
    return NEXT(bind)(fd, address, length);
}

/* ---- 3. OpenSSH's view of the user ---------------------------------------------------------- */

static int is_openssh(void)
{
    static const char *const names[] = {
        "sshd", "sshd-session", "sshd-auth",   "ssh",     "scp",
        "sftp", "sftp-server",  "ssh-keygen",  "ssh-add", "ssh-agent",
    };
    return program_is(names, COUNT(names));
}

static struct passwd *app_user(struct passwd *user)
{
    static struct passwd app;
    if (user == NULL || !is_openssh())
        return user;
    app = *user;
    app.pw_dir = (char *)HOME;
    app.pw_shell = (char *)PREFIX "/bin/bash";
    return &app;
}

struct passwd *getpwuid(uid_t uid)
{
    return app_user(NEXT(getpwuid)(uid));
}

struct passwd *getpwnam(const char *name)
{
    return is_openssh() ? getpwuid(getuid()) : NEXT(getpwnam)(name);
}

/* Where the phone's clock is wrong: all programs have libfaketime from here. */
#define CLOCK_FAULT "/etc/ld.so.preload"

/* What this process was itself started with; OpenSSH may have emptied its environment later. */
static char preload[4096] = "LD_PRELOAD=";

__attribute__((constructor)) static void remember_preload(void)
{
    const char *own = getenv("LD_PRELOAD");
    if (own != NULL)
        snprintf(preload, sizeof preload, "LD_PRELOAD=%s", own);
}

/* sshd-session builds the environment of a session from nothing: keep what Termux keeps. Two facts
 * of the packaged Open MPI are added: it is relocatable only by the *_PREFIX variables, and it has
 * UCX and libfabric inside, which Termux's has not, and which must keep out of the way. */
static char **session_environment(char *const *given)
{
    const char *const additions[] = {
        "PREFIX=" PREFIX,      "HOME=" HOME,
        "TMPDIR=" PREFIX "/tmp", preload,
        "OPAL_PREFIX=" PREFIX, "PRTE_PREFIX=" PREFIX,
        "PMIX_PREFIX=" PREFIX, "OMPI_MCA_pml=ob1",
        "OMPI_MCA_osc=^ucx",   "OMPI_MCA_btl=^ofi,uct",
        "ANDROID_ROOT=/system", "ANDROID_DATA=/data",
        "PATH=" PREFIX "/bin:/system/bin",
        /* The last two, of phones with a wrong clock only: neither intervals nor files change. */
        "FAKETIME_DONT_FAKE_MONOTONIC=1", "NO_FAKE_STAT=1",
    };
    size_t addition_count = COUNT(additions) - (NEXT(access)(CLOCK_FAULT, F_OK) != 0 ? 2 : 0);
    static const char standard_path[] = "PATH=/usr/"; /* what Debian's sshd sets by itself */
    size_t given_count = 0, count = 0;
    while (given[given_count] != NULL)
        given_count++;
    char **result = calloc(given_count + COUNT(additions) + 1, sizeof *result);
    if (result == NULL)
        return (char **)given;
    for (size_t i = 0; i < given_count; i++)
        if (strncmp(given[i], standard_path, sizeof standard_path - 1) != 0)
            result[count++] = given[i];
    size_t kept = count;
    for (size_t i = 0; i < addition_count; i++) {
        size_t name = strchr(additions[i], '=') - additions[i] + 1, j = 0;
        while (j < kept && strncmp(result[j], additions[i], name) != 0)
            j++;
        if (j == kept)
            result[count++] = (char *)additions[i];
    }
    return result;
}

/* ---- 2. programs and interpreters ----------------------------------------------------------- */

/* /bin/X and /usr/bin/X become $PREFIX/bin/X where that exists. */
static const char *relocate(const char *path, char *buffer, size_t size)
{
    if (strncmp(path, "/bin/", 5) != 0 && strncmp(path, "/usr/bin/", 9) != 0)
        return path;
    snprintf(buffer, size, "%s/bin/%s", PREFIX, strrchr(path, '/') + 1);
    return NEXT(access)(buffer, X_OK) == 0 ? buffer : path;
}

struct command {
    const char *path;
    char *const *argv;
    char path_buffer[4096], header[256], interpreter[512], missing[4096];
    const char *script_argv[1024];
};

/* Fills in the interpreter of a script whose #! line names a path that Termux moves. */
static void read_shebang(struct command *command)
{
    int file = NEXT(open)(command->path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t n = read(file, command->header, sizeof command->header - 1);
    close(file);
    if (n < 3 || command->header[0] != '#' || command->header[1] != '!')
        return;
    command->header[n] = '\0';
    command->header[strcspn(command->header, "\n")] = '\0';
    char *name = command->header + 2 + strspn(command->header + 2, " \t");
    char *argument = name + strcspn(name, " \t");
    if (*argument != '\0') {
        *argument++ = '\0';
        argument += strspn(argument, " \t");
    }
    const char *interpreter =
        relocate(name, command->interpreter, sizeof command->interpreter);
    if (interpreter == name)
        return;
    size_t count = 0;
    command->script_argv[count++] = interpreter;
    if (*argument != '\0')
        command->script_argv[count++] = argument;
    command->script_argv[count++] = command->path;
    for (size_t i = 1; command->argv[0] != NULL && command->argv[i] != NULL; i++) {
        if (count + 1 >= COUNT(command->script_argv))
            return;
        command->script_argv[count++] = command->argv[i];
    }
    command->script_argv[count] = NULL;
    command->path = interpreter;
    command->argv = (char *const *)command->script_argv;
}

/* A file that the environment has preloaded and that is not there, or NULL. */
static const char *missing_preload(char *const envp[], char *buffer, size_t size)
{
    static const char name[] = "LD_PRELOAD=", between[] = ": ";
    while (envp != NULL && *envp != NULL && strncmp(*envp, name, sizeof name - 1) != 0)
        envp++;
    if (envp == NULL || *envp == NULL)
        return NULL;
    snprintf(buffer, size, "%s", *envp + sizeof name - 1);
    char *rest = buffer, *library;
    while ((library = strsep(&rest, between)) != NULL)
        if (*library == '/' && NEXT(access)(library, R_OK) != 0)
            return library;
    return NULL;
}

/* glibc goes on without such a file. Bionic does not start the program. */
static void refuse_unlinked(struct command *command, char *const envp[])
{
    const char *library = missing_preload(envp, command->missing, sizeof command->missing);
    if (library == NULL || NEXT(access)(command->path, X_OK) != 0)
        return;
    size_t count = 0;
    command->script_argv[count++] = "sh";
    command->script_argv[count++] = "-c";
    command->script_argv[count++] =
        "echo \"CANNOT LINK EXECUTABLE \\\"$0\\\": library \\\"$1\\\" not found\" >&2; exit 1";
    command->script_argv[count++] = command->path;
    command->script_argv[count++] = library;
    command->script_argv[count] = NULL;
    command->path = "/system/bin/sh";
    command->argv = (char *const *)command->script_argv;
}

static void prepare(struct command *command, const char *path, char *const argv[],
                    char *const envp[])
{
    command->argv = argv;
    command->path = relocate(path, command->path_buffer, sizeof command->path_buffer);
    read_shebang(command);
    refuse_unlinked(command, envp);
}

int execve(const char *path, char *const argv[], char *const envp[])
{
    static const char *const session[] = {"sshd-session"};
    struct command command = {0};
    if (program_is(session, COUNT(session)))
        envp = session_environment(envp);
    prepare(&command, path, argv, envp);
    return NEXT(execve)(command.path, command.argv, envp);
}

int execv(const char *path, char *const argv[])
{
    return execve(path, argv, environ);
}

/* The first PATH entry that holds the program, else the name as it is. */
static const char *search(const char *name, char *buffer, size_t size)
{
    const char *folders = getenv("PATH");
    if (strchr(name, '/') != NULL || folders == NULL)
        return name;
    while (*folders != '\0') {
        int n = (int)strcspn(folders, ":");
        snprintf(buffer, size, "%.*s/%s", n, folders, name);
        if (NEXT(access)(buffer, X_OK) == 0)
            return buffer;
        folders += n + (folders[n] == ':');
    }
    return name;
}

int execvpe(const char *name, char *const argv[], char *const envp[])
{
    char buffer[4096];
    const char *path = search(name, buffer, sizeof buffer);
    if (strchr(path, '/') == NULL) {
        errno = ENOENT;
        return -1;
    }
    return execve(path, argv, envp);
}

int execvp(const char *name, char *const argv[])
{
    return execvpe(name, argv, environ);
}

#define COLLECT(argv, first)                                                     \
    const char *argv[1024] = {first};                                            \
    va_list arguments;                                                           \
    va_start(arguments, first);                                                  \
    for (size_t i = 1; first != NULL && i < COUNT(argv) - 1; i++)                \
        if ((argv[i] = va_arg(arguments, const char *)) == NULL)                 \
            break;

int execl(const char *path, const char *first, ...)
{
    COLLECT(argv, first)
    va_end(arguments);
    return execve(path, (char *const *)argv, environ);
}

int execlp(const char *name, const char *first, ...)
{
    COLLECT(argv, first)
    va_end(arguments);
    return execvpe(name, (char *const *)argv, environ);
}

int execle(const char *path, const char *first, ...)
{
    COLLECT(argv, first)
    char *const *envp = va_arg(arguments, char *const *);
    va_end(arguments);
    return execve(path, (char *const *)argv, envp);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    struct command command = {0};
    prepare(&command, path, argv, envp);
    return NEXT(posix_spawn)(pid, command.path, actions, attributes, command.argv, envp);
}

int posix_spawnp(pid_t *pid, const char *name, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])
{
    char buffer[4096];
    return posix_spawn(pid, search(name, buffer, sizeof buffer), actions, attributes, argv, envp);
}
