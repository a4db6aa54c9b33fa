/* What hostile compiled code in a party's place tries: a test compiles it, and a party becomes it.

   `intruder … FILE` reads a line for each attempt from FILE, a kind, a space and a target, and prints
   `OUT <kind> <target>: <answer>`, as `intruder.py` does. A target `parent` is the process that started the
   party. Kinds that no Python program can try are here: other conventions of system calls, threads and
   children, and calls that Python lacks. */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t process(const char *target) {
    return strcmp(target, "parent") == 0 ? getppid() : (pid_t)atoi(target);
}

/* Closes a descriptor that was got; returns 0, or -1 where there is none. */
static int got(long descriptor) {
    if (descriptor < 0) return -1;
    close((int)descriptor);
    return 0;
}

static int read_file(const char *target) {
    char first;
    int file = open(target, O_RDONLY);
    if (file < 0) return -1;
    int answer = read(file, &first, 1) < 0 ? -1 : 0;
    int before = errno;
    close(file);
    errno = before;
    return answer;
}

static int read_of(const char *target, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", process(target), name);
    return read_file(path);
}

static int list(const char *target) {
    DIR *directory = opendir(target);
    if (directory == NULL) return -1;
    closedir(directory);
    return 0;
}

static int list_of(const char *target, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", process(target), name);
    return list(path);
}

static int rename_it(const char *target) {
    char to[4096];
    snprintf(to, sizeof to, "%s-moved", target);
    return rename(target, to);
}

static int truncate_it(const char *target) {
    struct stat status;
    if (stat(target, &status) < 0) status.st_size = 6;
    return truncate(target, status.st_size);
}

static int attach(const char *target) {
    pid_t other = process(target);
    if (ptrace(PTRACE_SEIZE, other, 0, 0) < 0) return -1;
    ptrace(PTRACE_DETACH, other, 0, 0);
    return 0;
}

static int own_signals(const char *target) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) return -1;
    int answer = fcntl(pair[0], F_SETOWN, process(target));
    int before = errno;
    close(pair[0]);
    close(pair[1]);
    errno = before;
    return answer;
}

static struct sockaddr_in at(const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static int tcp(const char *target, int protocol, int listens) {
    struct sockaddr_in address = at(target);
    int yes = 1, one = socket(AF_INET, SOCK_STREAM, protocol);
    if (one < 0) return -1;
    setsockopt(one, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    int answer = listens ? bind(one, (struct sockaddr *)&address, sizeof address)
                         : connect(one, (struct sockaddr *)&address, sizeof address);
    int before = errno;
    close(one);
    errno = before;
    return answer;
}

static int fast_open(const char *target) {
    struct sockaddr_in address = at(target);
    int one = socket(AF_INET, SOCK_STREAM, 0);
    if (one < 0) return -1;
    long answer = sendto(one, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&address, sizeof address);
    int before = errno;
    close(one);
    errno = before;
    return answer < 0 ? -1 : 0;
}

static int datagram(const char *target) {
    struct sockaddr_in address = at(target);
    int one = socket(AF_INET, SOCK_DGRAM, 0);
    if (one < 0) return -1;
    long answer = sendto(one, "x", 1, 0, (struct sockaddr *)&address, sizeof address);
    int before = errno;
    close(one);
    errno = before;
    return answer < 0 ? -1 : 0;
}

static int local_socket(const char *target, int hidden) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path + hidden, target, sizeof address.sun_path - 2);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)hidden + strlen(target));
    int one = socket(AF_UNIX, SOCK_STREAM, 0);
    if (one < 0) return -1;
    int answer = connect(one, (struct sockaddr *)&address, size + !hidden);
    int before = errno;
    close(one);
    errno = before;
    return answer;
}

static int limit(const char *target) {
    struct rlimit of_other;
    return prlimit(process(target), RLIMIT_CPU, NULL, &of_other);
}

/* Reads another process's memory where its own has a variable: an address that is none answers EFAULT. */
static int memory_call(const char *target) {
    char here, there = 0;
    struct iovec own = {&here, 1}, other = {&there, 1};
    long answer = process_vm_readv(process(target), &own, 1, &other, 1, 0);
    return answer < 0 && errno != EFAULT ? -1 : 0;
}

static const char *in_thread;
static int answer_of_thread, error_of_thread;

static void *thread(void *unused) {
    (void)unused;
    answer_of_thread = read_file(in_thread);
    error_of_thread = errno;
    return NULL;
}

static int read_in_thread(const char *target) {
    pthread_t one;
    in_thread = target;
    if (pthread_create(&one, NULL, thread, NULL) != 0) return -1;
    pthread_join(one, NULL);
    errno = error_of_thread;
    return answer_of_thread;
}

/* Ends a child by what it got; returns 0 if that was what it wanted. */
static int of_child(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) < 0) return -1;
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
    return errno == 0 ? 0 : -1;
}

static int read_in_child(const char *target) {
    pid_t child = fork();
    if (child == 0) _exit(read_file(target) == 0 ? 0 : errno);
    return of_child(child);
}

/* Has a program of the system read a file. */
static int read_by_program(const char *target) {
    pid_t child = fork();
    if (child == 0) {
        int nothing = open("/dev/null", O_WRONLY);
        dup2(nothing, 1);
        dup2(nothing, 2);
        execl("/bin/cat", "cat", target, (char *)NULL);
        _exit(127);
    }
    return of_child(child);
}

static int read_through_root(const char *target) {
    char path[4096];
    snprintf(path, sizeof path, "/proc/self/root%s", target);
    return read_file(path);
}

/* Goes up from the party's own directory, and down again. */
static int read_from_above(const char *target) {
    char path[4096];
    snprintf(path, sizeof path, "../../../../../../../../../../../..%s", target);
    return read_file(path);
}

static int read_through_link(const char *target) {
    if (symlink(target, "a-link") < 0) return -1;
    int answer = read_file("a-link");
    int before = errno;
    unlink("a-link");
    errno = before;
    return answer;
}

/* Opens by the call that takes its arguments in a structure. */
static int open_by_structure(const char *target) {
    struct {
        uint64_t flags, mode, resolve;
    } how = {O_RDONLY, 0, 0};
    return got(syscall(437, AT_FDCWD, target, &how, sizeof how));
}

/* Opens by the kernel's number of a file, past all directories, as root can. */
static int open_by_handle(const char *target) {
    struct {
        struct file_handle head;
        unsigned char more[MAX_HANDLE_SZ];
    } found = {.head = {.handle_bytes = MAX_HANDLE_SZ}};
    int mount, root = open("/usr", O_RDONLY | O_DIRECTORY);
    if (name_to_handle_at(AT_FDCWD, target, &found.head, &mount, 0) < 0) found.head.handle_bytes = 8;
    long opened = open_by_handle_at(root, &found.head, O_RDONLY);
    int before = errno == ESTALE || errno == EINVAL ? 0 : errno;
    close(root);
    errno = before;
    return opened < 0 && before != 0 ? -1 : opened < 0 ? 0 : got(opened);
}

/* Begins calls that the kernel carries out by itself. */
static int ring(const char *target) {
    unsigned char parameters[120] = {0};
    (void)target;
    return got(syscall(425, 1, parameters));
}

#if defined(__x86_64__)
/* Makes a call by the convention of 32 bits, whose calls have other numbers; on a path, with one number. */
static int as_32_bits(int number, const char *target, int more) {
    int answer;
    char *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (low == MAP_FAILED) return -1;
    strncpy(low, target, 4095);
    __asm__ volatile("int $0x80" : "=a"(answer) : "a"(number), "b"(low), "c"(more), "d"(0) : "memory", "r8", "r9", "r10", "r11");
    munmap(low, 4096);
    if (answer < 0) errno = -answer;
    return answer < 0 ? -1 : answer;
}

/* Opens by the numbers of another convention of the same machine. */
static int open_as_x32(const char *target) {
    return got(syscall(0x40000000 + 2, target, O_RDONLY));
}
#endif

/* Looks for a directory among the descriptors that came from before. */
static int inherited(const char *target) {
    struct stat status;
    for (int descriptor = 0; descriptor < 1024; descriptor++)
        if (fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) return got(openat(descriptor, target, O_RDONLY));
    errno = EBADF;
    return -1;
}

static int call(const char *kind, const char *target) {
    if (!strcmp(kind, "read")) return read_file(target);
    if (!strcmp(kind, "list")) return list(target);
    if (!strcmp(kind, "write")) return got(open(target, O_WRONLY | O_CREAT | O_APPEND, 0600));
    if (!strcmp(kind, "make")) return got(open(target, O_WRONLY | O_CREAT | O_EXCL, 0600));
    if (!strcmp(kind, "remove")) return unlink(target);
    if (!strcmp(kind, "move")) return rename_it(target);
    if (!strcmp(kind, "take")) return link(target, "taken");
    if (!strcmp(kind, "truncate")) return truncate_it(target);
    if (!strcmp(kind, "chmod")) return chmod(target, 0600);
    if (!strcmp(kind, "touch")) return utimensat(AT_FDCWD, target, NULL, 0);
    if (!strcmp(kind, "environ")) return read_of(target, "environ");
    if (!strcmp(kind, "memory")) return read_of(target, "maps");
    if (!strcmp(kind, "descriptors")) return list_of(target, "fd");
    if (!strcmp(kind, "attach")) return attach(target);
    if (!strcmp(kind, "signal")) return kill(process(target), 0);
    if (!strcmp(kind, "signals-of-a-socket")) return own_signals(target);
    if (!strcmp(kind, "limit")) return limit(target);
    if (!strcmp(kind, "connect")) return tcp(target, 0, 0);
    if (!strcmp(kind, "multipath")) return tcp(target, 262, 0);
    if (!strcmp(kind, "listen")) return tcp(target, 0, 1);
    if (!strcmp(kind, "fast-open")) return fast_open(target);
    if (!strcmp(kind, "datagram")) return datagram(target);
    if (!strcmp(kind, "abstract")) return local_socket(target, 1);
    if (!strcmp(kind, "unix")) return local_socket(target, 0);
    if (!strcmp(kind, "memory-call")) return memory_call(target);
    if (!strcmp(kind, "thread")) return read_in_thread(target);
    if (!strcmp(kind, "child")) return read_in_child(target);
    if (!strcmp(kind, "program")) return read_by_program(target);
    if (!strcmp(kind, "root")) return read_through_root(target);
    if (!strcmp(kind, "above")) return read_from_above(target);
    if (!strcmp(kind, "link")) return read_through_link(target);
    if (!strcmp(kind, "structure")) return open_by_structure(target);
    if (!strcmp(kind, "handle")) return open_by_handle(target);
    if (!strcmp(kind, "ring")) return ring(target);
    if (!strcmp(kind, "inherited")) return inherited(target);
#if defined(__x86_64__)
    if (!strcmp(kind, "32-bits")) return got(as_32_bits(5, target, O_RDONLY));
    if (!strcmp(kind, "32-bits-chmod")) return as_32_bits(15, target, 0600);
    if (!strcmp(kind, "x32")) return open_as_x32(target);
#endif
    errno = ENOSYS;
    return -1;
}

int main(int count, char **arguments) {
    static char line[8192];
    if (access("Player-Data", F_OK) == 0 && access("Player-Data/P0.key", F_OK) != 0)
        sleep(600); /* another party, which the first one looks for */
    FILE *attempts = count > 1 ? fopen(arguments[count - 1], "r") : NULL;
    if (attempts == NULL) return 4;
    while (fgets(line, sizeof line, attempts) != NULL) {
        line[strcspn(line, "\n")] = 0;
        char *target = strchr(line, ' ');
        if (target == NULL) continue;
        *target++ = 0;
        errno = 0;
        if (call(line, target) == 0)
            printf("OUT %s %s: done\n", line, target);
        else
            printf("OUT %s %s: refused %d\n", line, target, errno);
        fflush(stdout);
    }
    return 3;
}
