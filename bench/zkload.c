/* zkload: closed-loop load generator for any server that speaks the ZooKeeper client protocol.
 *
 * It measures any server alike, and costs so little that on two cores the servers are what is measured.  Each
 * connection keeps WINDOW requests in flight; a reply whose xid is not the next one counts as an order error.
 *
 *   zkload --hosts 127.0.0.1:2181,127.0.0.1:2182 --op set --conns 16 --window 32 --ops 100000 --pids 11,12
 *
 * --op    set | get | create | mix (2 reads to 1 write)
 * --ops   number of measured requests; --skip: requests before them, to warm up; --seconds: give up after this time
 * --pids  server processes, whose CPU time while requests are measured is reported as cpu_us_per_op
 * Prints one JSON object.  Linux only.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CREATE = 1, GET = 4, SET = 5 };
#define MAXCONN 4096
#define MAXWIN 4096
#define BUCKETS 4096

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static void put32(uint8_t *p, int32_t v) { v = htonl(v); memcpy(p, &v, 4); }
static int32_t get32(const uint8_t *p) { int32_t v; memcpy(&v, p, 4); return ntohl(v); }
static int64_t get64(const uint8_t *p) { return ((int64_t)get32(p) << 32) | (uint32_t)get32(p + 4); }

typedef struct {
  int fd, head, inflight, alive;
  int32_t xid, expect;
  long fresh;
  double sent[MAXWIN];
  uint8_t *in, *out;
  size_t inlen, incap, outlen, outpos, outcap;
} Conn;

static long left = 1, skip = 0;
static int size = 100, keys = 512, window = 32, nconn = 16;
static const char *op = "set", *root_path;
static uint8_t *blob;
static uint64_t rng = 88172645463325252ull;
static uint32_t rnd(void) { rng ^= rng << 13; rng ^= rng >> 7; rng ^= rng << 17; return (uint32_t)(rng >> 16); }

static size_t enc_str(uint8_t *p, const char *s) { size_t n = strlen(s); put32(p, n); memcpy(p + 4, s, n); return n + 4; }
static size_t enc_acl(uint8_t *p) { put32(p, 1); put32(p + 4, 31); size_t n = 8; n += enc_str(p + n, "world"); n += enc_str(p + n, "anyone"); return n; }
static size_t enc_create(uint8_t *p, const char *path, int bytes) {
  size_t n = enc_str(p, path); put32(p + n, bytes); memcpy(p + n + 4, blob, bytes); n += 4 + bytes;
  n += enc_acl(p + n); put32(p + n, 0); return n + 4;
}
static size_t request(uint8_t *p, int32_t xid, int idx, Conn *c) {
  char path[256]; const char *o = op;
  if (!strcmp(op, "mix")) o = rnd() % 3 ? "get" : "set";
  put32(p + 4, xid); size_t n = 12;
  snprintf(path, sizeof path, "%s/k%06d", root_path, (int)(rnd() % keys));
  if (!strcmp(o, "set")) { put32(p + 8, SET); n += enc_str(p + n, path); put32(p + n, size); memcpy(p + n + 4, blob, size); n += 4 + size; put32(p + n, -1); n += 4; }
  else if (!strcmp(o, "get")) { put32(p + 8, GET); n += enc_str(p + n, path); p[n++] = 0; }
  else { snprintf(path, sizeof path, "%s/c%d-%d-%ld", root_path, (int)getpid(), idx, ++c->fresh); put32(p + 8, CREATE); n += enc_create(p + n, path, size); }
  put32(p, (int32_t)(n - 4));
  return n;
}
static void die(const char *m) { fprintf(stderr, "zkload: %s\n", m); exit(1); }
static void readn(int fd, uint8_t *p, size_t n) { while (n) { ssize_t r = read(fd, p, n); if (r <= 0) die("server closed the connection during set-up"); p += r; n -= r; } }
static int dial(const char *host) {
  char h[64]; snprintf(h, sizeof h, "%s", host); char *c = strrchr(h, ':'); if (!c) die("host:port expected"); *c = 0;
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(c + 1))};
  if (inet_pton(AF_INET, strcmp(h, "localhost") ? h : "127.0.0.1", &a.sin_addr) != 1) die("numeric address expected");
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  if (connect(fd, (void *)&a, sizeof a)) die("cannot connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  uint8_t b[64] = {0}, r[256]; put32(b, 45); put32(b + 16, 30000); put32(b + 28, 16);
  if (write(fd, b, 49) != 49) die("write"); readn(fd, r, 4); int n = get32(r); if (n < 16 || n > 200) die("bad connect response"); readn(fd, r, n);
  if (get32(r + 4) <= 0 || get64(r + 8) == 0) die("server refused the session");
  return fd;
}
static int call(int fd, uint8_t *p, size_t n) {
  uint8_t h[4]; static uint8_t body[1 << 20]; put32(p, n - 4); if (write(fd, p, n) != (ssize_t)n) die("write"); readn(fd, h, 4); int m = get32(h); readn(fd, body, m); return get32(body + 12);
}
static double cpu_of(const char *pids) {
  double total = 0; char list[1024]; snprintf(list, sizeof list, "%s", pids);
  for (char *s = strtok(list, ","); s; s = strtok(NULL, ",")) {
    char f[64], line[2048]; snprintf(f, sizeof f, "/proc/%s/stat", s); FILE *fp = fopen(f, "r"); if (!fp) continue;
    if (fgets(line, sizeof line, fp)) { char *e = strrchr(line, ')'); unsigned long u = 0, k = 0; if (e && sscanf(e + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &u, &k) == 2) total += (double)(u + k) / sysconf(_SC_CLK_TCK); }
    fclose(fp);
  }
  return total;
}
static long hist[BUCKETS]; static double worst;
static void record(double s) { if (s > worst) worst = s; double us = s * 1e6; int b = 0; if (us >= 1) { int e = 0; double m = us; while (m >= 2) { m /= 2; e++; } b = e * 64 + (int)((m - 1) * 64); } hist[b < BUCKETS ? b : BUCKETS - 1]++; }
static double quantile(double q, long total) { long want = (long)(q * total), seen = 0; for (int b = 0; b < BUCKETS; b++) { seen += hist[b]; if (seen > want) { int e = b / 64; return (1.0 + (b % 64) / 64.0) * (double)(1ull << e) / 1000.0; } } return worst * 1e3; }

static void pump(Conn *c, int idx, double t) {
  while (c->inflight < window && left) {
    left--;
    if (c->outcap - c->outlen < (size_t)size + 512) { c->outcap = c->outcap * 2 + size + 1024; c->out = realloc(c->out, c->outcap); }
    c->outlen += request(c->out + c->outlen, ++c->xid, idx, c);
    c->sent[(c->head + c->inflight++) % MAXWIN] = t;
  }
}
int main(int argc, char **argv) {
  char *hosts = "127.0.0.1:2181", *pids = ""; double seconds = 600;
  for (int i = 1; i + 1 < argc; i += 2) {
    char *k = argv[i], *v = argv[i + 1];
    if (!strcmp(k, "--hosts")) hosts = v; else if (!strcmp(k, "--op")) op = v; else if (!strcmp(k, "--conns")) nconn = atoi(v);
    else if (!strcmp(k, "--window")) window = atoi(v); else if (!strcmp(k, "--size")) size = atoi(v); else if (!strcmp(k, "--keys")) keys = atoi(v);
    else if (!strcmp(k, "--seconds")) seconds = atof(v); else if (!strcmp(k, "--ops")) left = atol(v); else if (!strcmp(k, "--skip")) skip = atol(v); else if (!strcmp(k, "--pids")) pids = v; else die("unknown option");
  }
  long wanted = left, ahead = skip;
  left += skip;
  if (nconn < 1 || nconn > MAXCONN || window < 1 || window > MAXWIN) die("--conns or --window out of range");
  static char rp[64]; snprintf(rp, sizeof rp, "/load%d", (int)getpid()); root_path = rp;
  blob = malloc(size + 1); for (int i = 0; i < size; i++) blob[i] = rnd();
  char *hv[64]; int nh = 0; char *dup = strdup(hosts); for (char *s = strtok(dup, ","); s && nh < 64; s = strtok(NULL, ",")) hv[nh++] = s;
  int fd = dial(hv[0]); uint8_t *b = malloc(size + 1024);
  put32(b + 4, 1); put32(b + 8, CREATE); int err = call(fd, b, 12 + enc_create(b + 12, rp, 0)); if (err && err != -110) die("cannot create the root znode");
  if (strcmp(op, "create")) for (int i = 0; i < keys; i++) { char p[128]; snprintf(p, sizeof p, "%s/k%06d", rp, i); put32(b + 4, 2 + i); put32(b + 8, CREATE); if (call(fd, b, 12 + enc_create(b + 12, p, size))) die("cannot create a key"); }
  usleep(300000);
  Conn *cs = calloc(nconn, sizeof *cs); int ep = epoll_create1(0), live = nconn;
  for (int i = 0; i < nconn; i++) { cs[i].fd = dial(hv[i % nh]); fcntl(cs[i].fd, F_SETFL, O_NONBLOCK); cs[i].alive = 1; cs[i].xid = 100; cs[i].expect = 101; cs[i].incap = 1 << 16; cs[i].in = malloc(cs[i].incap); struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.u32 = i}; epoll_ctl(ep, EPOLL_CTL_ADD, cs[i].fd, &e); }
  double begin = now(), stop = begin + seconds, t = begin, cpu0 = cpu_of(pids);
  long done = 0, errors = 0, disorder = 0, dropped = 0;
  for (int i = 0; i < nconn; i++) pump(&cs[i], i, begin);
  struct epoll_event ev[256];
  while (live && (t = now()) < stop) {
    if (done >= wanted) break;
    if (ahead > 0 && skip <= 0) { ahead = 0; wanted += skip; cpu0 = cpu_of(pids); begin = t; }
    int n = epoll_wait(ep, ev, 256, 50); t = now();
    for (int j = 0; j < n; j++) {
      int i = ev[j].data.u32; Conn *c = &cs[i]; if (!c->alive) continue; int dead = 0;
      for (;;) {
        if (c->incap - c->inlen < 65536) { c->incap *= 2; c->in = realloc(c->in, c->incap); }
        ssize_t r = read(c->fd, c->in + c->inlen, c->incap - c->inlen);
        if (r == 0 || (r < 0 && errno != EAGAIN && errno != EINTR)) { dead = 1; break; }
        if (r < 0) break;
        c->inlen += r; size_t pos = 0;
        while (c->inlen - pos >= 4) {
          int len = get32(c->in + pos); if (len < 16) die("malformed reply"); if (c->inlen - pos - 4 < (size_t)len) break;
          if (get32(c->in + pos + 4) != c->expect) disorder++; c->expect++;
          if (ahead > 0) skip--;
          else { done++; if (get32(c->in + pos + 16)) errors++; record(t - c->sent[c->head]); }
          c->head = (c->head + 1) % MAXWIN; c->inflight--; pos += 4 + len;
        }
        memmove(c->in, c->in + pos, c->inlen - pos); c->inlen -= pos;
      }
      if (!dead) { pump(c, i, t); while (c->outpos < c->outlen) { ssize_t w = write(c->fd, c->out + c->outpos, c->outlen - c->outpos); if (w <= 0) { if (errno != EAGAIN) dead = 1; break; } c->outpos += w; } if (c->outpos == c->outlen) c->outpos = c->outlen = 0; }
      if (dead) { close(c->fd); c->alive = 0; live--; dropped++; }
    }
  }
  double took = now() - begin, cpu = cpu_of(pids) - cpu0;
  printf("{\"op\": \"%s\", \"hosts\": %d, \"conns\": %d, \"window\": %d, \"bytes\": %d, \"seconds\": %.2f, \"ops\": %ld, \"ops_per_s\": %.0f, \"errors\": %ld, \"order_errors\": %ld, \"dropped\": %ld, \"p50_ms\": %.3f, \"p99_ms\": %.3f",
         op, nh, nconn, window, size, took, done, done / took, errors, disorder, dropped, quantile(.5, done), quantile(.99, done));
  if (*pids) printf(", \"server_cpu_s\": %.2f, \"cpu_us_per_op\": %.1f", cpu, done ? cpu * 1e6 / done : 0);
  printf("}\n");
  return 0;
}
