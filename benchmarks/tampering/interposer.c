/* Stands in front of the TLS library of one party, and changes one of the messages that this party sends.
 *
 * Loaded by LD_PRELOAD. A message is one call of SSL_write. It is named by its receiver, and by how many went
 * to that receiver before. FAIRSHARES_TAMPER = "RECEIVER NUMBER KIND WHERE WHAT" says which message is changed,
 * how, and at which of its bytes; see change(). FAIRSHARES_MESSAGES names a file that gets a line for each message, "RECEIVER NUMBER
 * LENGTH NANOSECONDS", and "changed COPIES" when the message was changed.
 *
 * Parties check openings by hashes. Who changes a share on its way only is caught by its own, right hash. So
 * the kind "shift_all" changes the share in the party's memory as well, wherever it is, and the party goes on
 * as if it had computed the other one.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PARTIES = 8,
    CLIENTS = PARTIES - 1,
    CONNECTIONS = 64,
    KEPT = 1 << 20, /* bytes that are kept of what a party sent last */
    WORD = sizeof(uint64_t),
    STOPPED_EXIT = 3
};

typedef int (*transfer)(void *ssl, void *data, int length);

struct connection {
    void *ssl;
    int peer;
    int is_under_way; /* the library asked for the same message again */
    char *instead;    /* of the message that is under way, or NULL */
    int length;       /* of that */
    char *held;       /* a message that goes out after the next one, or NULL */
    int held_length;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct connection connections[CONNECTIONS];
static int count, report = -1;
static int sent[PARTIES];
static char *received[PARTIES];
static int received_length[PARTIES];
static int receiver = -1, number;
static char kind[16];
static uint64_t where, what;

static void begin(void) {
    if (report >= 0) return;
    const char *file = getenv("FAIRSHARES_MESSAGES"), *order = getenv("FAIRSHARES_TAMPER");
    report = open(file ? file : "/dev/null", O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (order) sscanf(order, "%d %d %15s %lu %lu", &receiver, &number, kind, &where, &what);
}

/* Not dprintf: where another thread ends the process meanwhile, that writes what was on its stack. */
static void tell(const char *format, ...) {
    char line[96];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (write(report, line, length) != length) abort();
}

/* Parties' certificates are in the names P0, P1 and so on, and that of whoever speaks for clients in C. */
static int peer_of(void *ssl) {
    void *(*certificate_of)(void *) = dlsym(RTLD_NEXT, "SSL_get1_peer_certificate");
    void *(*subject_of)(void *) = dlsym(RTLD_NEXT, "X509_get_subject_name");
    char *(*in_a_line)(void *, char *, int) = dlsym(RTLD_NEXT, "X509_NAME_oneline");
    char line[256] = "";
    void *certificate = certificate_of(ssl);
    if (certificate) in_a_line(subject_of(certificate), line, sizeof line);
    const char *name = strstr(line, "CN=P");
    return name ? atoi(name + 4) % PARTIES : strstr(line, "CN=C") ? CLIENTS : 0;
}

static struct connection *connection_of(void *ssl) {
    for (int i = 0; i < count; i++)
        if (connections[i].ssl == ssl) return &connections[i];
    if (count == CONNECTIONS) abort();
    connections[count].ssl = ssl;
    connections[count].peer = peer_of(ssl);
    return &connections[count++];
}

/* Replaces a word wherever this process may write it; returns how many copies there were. */
static int replace_all(uint64_t old, uint64_t new) {
    int copies = 0;
    char line[512], rights[8], file[256];
    uint64_t from, to;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps)) {
        file[0] = 0;
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &from, &to, rights, file) < 3) continue;
        if (strncmp(rights, "rw", 2) || strstr(file, ".so") || strstr(file, "[v")) continue;
        for (uint64_t *at = (uint64_t *)from; at < (uint64_t *)to; at++)
            if (*at == old) {
                *at = new;
                copies++;
            }
    }
    if (maps) fclose(maps);
    return copies;
}

/* Adds to the word at a place of the message; of "shift_all" to all its copies in this process, too. */
static int shift(char *message, int everywhere) {
    uint64_t before, after;
    memcpy(&before, message + where, WORD);
    after = before + what;
    memcpy(message + where, &after, WORD);
    int is_small = !(before >> 32) || !(~before >> 32); /* of which there are others */
    return everywhere && !is_small ? replace_all(before, after) : 0;
}

static void change(struct connection *c, const char *data, int length) {
    int copies = 0;
    c->length = length;
    c->instead = malloc(2 * (size_t)length);
    memcpy(c->instead, data, length);
    if (where >= (uint64_t)length)
        where = 0;
    if (!strcmp(kind, "flip") || (!strncmp(kind, "shift", 5) && where + WORD > (uint64_t)length))
        c->instead[where] ^= 1 + what % 255;
    else if (!strncmp(kind, "shift", 5))
        copies = shift(c->instead, !strcmp(kind, "shift_all"));
    else if (!strcmp(kind, "echo")) /* what the receiver itself sent last */
        memcpy(c->instead, received[c->peer] ? received[c->peer] : data,
               received_length[c->peer] < length ? received_length[c->peer] : length);
    else if (!strcmp(kind, "repeat")) {
        memcpy(c->instead + length, data, length);
        c->length = 2 * length;
    } else if (!strcmp(kind, "drop"))
        c->length = 0;
    else if (!strcmp(kind, "swap")) { /* with the next one */
        c->held = malloc(length);
        memcpy(c->held, data, c->held_length = length);
        c->length = 0;
    } else if (!strcmp(kind, "stop")) {
        tell("changed 0\n");
        _exit(STOPPED_EXIT);
    } else
        abort();
    tell("changed %d\n", copies);
}

static void release(struct connection *c, const char *data, int length) {
    c->length = length + c->held_length;
    c->instead = malloc(c->length);
    memcpy(c->instead, data, length);
    memcpy(c->instead + length, c->held, c->held_length);
    free(c->held);
    c->held = NULL;
}

int SSL_write(void *ssl, void *data, int length) {
    pthread_mutex_lock(&lock);
    begin();
    transfer pass = dlsym(RTLD_NEXT, "SSL_write");
    struct connection *c = connection_of(ssl);
    if (!c->is_under_way) {
        int now = sent[c->peer]++;
        struct timespec at;
        clock_gettime(CLOCK_MONOTONIC, &at);
        tell("%d %d %d %lld\n", c->peer, now, length, at.tv_sec * 1000000000LL + at.tv_nsec);
        if (c->held)
            release(c, data, length);
        else if (c->peer == receiver && now == number)
            change(c, data, length);
    }
    pthread_mutex_unlock(&lock);
    int done = length;
    if (!c->instead)
        done = pass(ssl, data, length);
    else if (c->length) { /* of a long one the first part goes out, and the caller sends the rest */
        done = pass(ssl, c->instead, c->length);
        if (done > length || (done > 0 && c->length != length)) done = length;
    }
    c->is_under_way = done <= 0;
    if (done > 0) {
        free(c->instead);
        c->instead = NULL;
    }
    return done;
}

int SSL_read(void *ssl, void *data, int length) {
    transfer pass = dlsym(RTLD_NEXT, "SSL_read");
    int done = pass(ssl, data, length);
    if (done >= WORD) {
        pthread_mutex_lock(&lock);
        begin();
        int peer = connection_of(ssl)->peer;
        if (!received[peer]) received[peer] = malloc(KEPT);
        received_length[peer] = done < KEPT ? done : KEPT;
        memcpy(received[peer], data, received_length[peer]);
        pthread_mutex_unlock(&lock);
    }
    return done;
}
