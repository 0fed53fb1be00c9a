/* binder: Android's command-line tools, as thin as they are on a phone: they hand their words to the
 * system's services, here the rack's daemon on the other side of a socket, and print the answer.
 * Linked under the names of the tools (settings, pm, am, …); static, as it runs with and without
 * Termux's preload library.
 *
 * Sent: "NAME\0ARGUMENT\0…" behind its length. Frames after that, either way: kind, length, bytes.
 *   to the service    I  a piece of standard input (empty: its end)
 *   from the service  W  send standard input   O  standard output   E  standard error   X  exit code
 */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SERVICE "/standin/hw/binder"
#define PIECE 65536

static char buffer[PIECE];

static int write_all(int file, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = write(file, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

static int read_all(int file, char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = read(file, bytes, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

static int send_frame(int service, char kind, const char *bytes, uint32_t size)
{
    char head[5] = {kind, (char)(size >> 24), (char)(size >> 16), (char)(size >> 8), (char)size};
    return write_all(service, head, sizeof head) || write_all(service, bytes, size) ? -1 : 0;
}

static uint32_t length_of(const char *head)
{
    const unsigned char *n = (const unsigned char *)head + 1;
    return (uint32_t)n[0] << 24 | (uint32_t)n[1] << 16 | (uint32_t)n[2] << 8 | n[3];
}

static int call(const char *name, char **arguments)
{
    size_t size = strlen(name) + 1;
    for (char **word = arguments; *word != NULL; word++)
        size += strlen(*word) + 1;
    char *words = malloc(size), *end = words;
    if (words == NULL)
        return -1;
    end = stpcpy(end, name) + 1;
    for (char **word = arguments; *word != NULL; word++)
        end = stpcpy(end, *word) + 1;
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = SERVICE};
    int service = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (service < 0 || connect(service, (struct sockaddr *)&address, sizeof address) != 0)
        return -1;
    return send_frame(service, 'C', words, (uint32_t)size) == 0 ? service : -1;
}

/* One frame of the answer. Returns the exit code, -1 to go on, -2 when the service has gone. */
static int hear(int service, int *wants_input)
{
    char head[5];
    if (read_all(service, head, sizeof head) != 0)
        return -2;
    uint32_t left = length_of(head);
    if (head[0] == 'X')
        return left == 1 && read_all(service, buffer, 1) == 0 ? (unsigned char)buffer[0] : -2;
    if (head[0] == 'W')
        *wants_input = 1;
    while (left > 0) {
        uint32_t piece = left < PIECE ? left : PIECE;
        if (read_all(service, buffer, piece) != 0)
            return -2;
        if (write_all(head[0] == 'E' ? STDERR_FILENO : STDOUT_FILENO, buffer, piece) != 0)
            return 1;
        left -= piece;
    }
    return -1;
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    if (argc > 1 && strcmp(name, "binder") == 0)
        name = *++argv;
    int service = call(name, argv + 1);
    if (service < 0) {
        fprintf(stderr, "cmd: Can't find service: %s\n", name);
        return 20;
    }
    int wants_input = 0;
    for (;;) {
        struct pollfd ready[2] = {{.fd = service, .events = POLLIN},
                                  {.fd = wants_input ? STDIN_FILENO : -1, .events = POLLIN}};
        if (poll(ready, 2, -1) < 0 && errno != EINTR)
            return 20;
        if (ready[0].revents != 0) {
            int code = hear(service, &wants_input);
            if (code == -2)
                fprintf(stderr, "cmd: Failure calling service %s: Broken pipe (32)\n", name);
            if (code != -1)
                return code < 0 ? 224 : code;
        } else if (ready[1].revents != 0) {
            ssize_t n = read(STDIN_FILENO, buffer, PIECE);
            if (n <= 0)
                wants_input = 0;
            if (send_frame(service, 'I', buffer, n < 0 ? 0 : (uint32_t)n) != 0)
                wants_input = 0;
        }
    }
}
