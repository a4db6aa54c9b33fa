/* Preloaded into a virtual machine of MP-SPDZ, this has every TLS link ask its peer for a certificate.
 *
 * MP-SPDZ sets `verify_peer` alone: a server then checks the certificate that a peer shows, and lets in a
 * peer that shows none. Here the server refuses that peer as well. A link whose peer shows another certificate than
 * FAIRSHARES_PEERS lists, by SHA-256, ends the machine before anything is sent. Each certificate that was accepted
 * is noted in the file that FAIRSHARES_MET names, a line for each link. What cannot be noted ends the machine, too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/ssl.h>
#include <openssl/x509.h>

static void end(const char *why)
{
    fprintf(stderr, "fairshares: {\"type\":\"failure\",\"message\":\"A link between parties %s.\"}\n", why);
    _exit(1);
}

static void *original(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        end("is not made by OpenSSL");
    return found;
}

static void note(SSL *ssl)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    char line[3 * EVP_MAX_MD_SIZE + 1];
    unsigned int length = 0;
    const char *place = getenv("FAIRSHARES_MET"), *peers = getenv("FAIRSHARES_PEERS");
    X509 *certificate = SSL_get_peer_certificate(ssl);
    if (certificate == NULL || !X509_digest(certificate, EVP_sha256(), digest, &length) || length == 0)
        end("has no certificate");
    X509_free(certificate);
    for (unsigned int i = 0; i < length; i++)
        snprintf(line + 3 * i, 4, "%02X:", digest[i]);
    line[3 * length - 1] = 0;
    if (peers == NULL || strstr(peers, line) == NULL)
        end("shows a certificate of none of them");
    line[3 * length - 1] = '\n';
    int file = place == NULL ? -1 : open(place, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 || write(file, line, 3 * length) != (ssize_t)(3 * length) || close(file))
        end("could not be noted");
}

void SSL_set_verify(SSL *ssl, int mode, SSL_verify_cb callback)
{
    void (*set)(SSL *, int, SSL_verify_cb) = original("SSL_set_verify");
    set(ssl, mode | SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, callback);
}

static int shake(const char *name, SSL *ssl)
{
    int (*handshake)(SSL *) = original(name);
    int result = handshake(ssl);
    if (result == 1)
        note(ssl);
    return result;
}

int SSL_accept(SSL *ssl)
{
    return shake("SSL_accept", ssl);
}

int SSL_connect(SSL *ssl)
{
    return shake("SSL_connect", ssl);
}
