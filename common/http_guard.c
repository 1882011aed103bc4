// SPDX-License-Identifier: Apache-2.0
// A state for each place in a request. Bodies are skipped by length, heads are looked at byte by
// byte.
#include "common/http_guard.h"

#include "common/limits.h"
#include "common/text.h"

#include <string.h>
#include <strings.h>

enum state {
    METHOD, // the first byte of a request
    TARGET_START,
    TARGET,
    VERSION,
    LINE_LF, // after the CR of a request line or header
    NAME_START,
    NAME,
    VALUE,
    HEAD_LF, // after the CR of the empty line
    BODY,
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_CR,
    CHUNK_LF,
};

static bool refuse(struct http_guard *g, const char *why)
{
    g->why = why;
    return false;
}

static void part_clear(struct http_guard *g)
{
    g->part_len = 0;
    g->part[0] = '\0';
}

// A word that is too long is none of those looked for: its last byte becomes one that none has.
static void part_add(struct http_guard *g, char c)
{
    if (g->part_len + 1u < sizeof(g->part)) {
        g->part[g->part_len++] = c;
        g->part[g->part_len] = '\0';
    } else {
        g->part[g->part_len - 1] = '\x7f';
    }
}

// RFC 9110, section 5.6.2.
static bool is_token(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

// --- the request line ---

static bool on_method(struct http_guard *g, unsigned char c)
{
    if (c == ' ' && g->part_len > 0) {
        g->state = TARGET_START;
        return true;
    }
    if (!is_token(c) || g->part_len + 1u >= sizeof(g->part))
        return refuse(g, "the request does not start with a method");
    part_add(g, (char)c);
    return true;
}

static bool on_target(struct http_guard *g, unsigned char c)
{
    if (g->state == TARGET_START && c != '/')
        return refuse(g, "the request's target is not a path that starts with '/'");
    g->state = TARGET;
    if (c == ' ') {
        part_clear(g);
        g->state = VERSION;
        return true;
    }
    // The last three bytes tell "%00".
    g->part[0] = g->part_len > 1 ? g->part[1] : '\0';
    g->part[1] = g->part_len > 0 ? g->part[2] : '\0';
    g->part[2] = (char)c;
    g->part_len = 3;
    if (c < 0x21 || c > 0x7e)
        return refuse(g, "the request's target holds a byte that has to be percent-encoded");
    if (memcmp(g->part, "%00", 3) == 0)
        return refuse(g, "the request's target holds a NUL");
    return true;
}

static bool on_version(struct http_guard *g, unsigned char c)
{
    if (c != '\r') {
        part_add(g, (char)c);
        return c > ' ' || refuse(g, "the request line is not METHOD, path and version");
    }
    g->old_version = strcmp(g->part, "HTTP/1.0") == 0;
    if (!g->old_version && strcmp(g->part, "HTTP/1.1") != 0)
        return refuse(g, "the version is neither HTTP/1.1 nor HTTP/1.0");
    g->state = LINE_LF;
    return true;
}

// --- header lines ---

static bool on_line_lf(struct http_guard *g, unsigned char c)
{
    if (c != '\n')
        return refuse(g, "a CR without LF in the head");
    if (++g->lines > LIMIT_HEAD_LINES)
        return refuse(g, "more than 100 header lines");
    g->state = NAME_START;
    return true;
}

static bool on_name(struct http_guard *g, unsigned char c)
{
    if (g->state == NAME_START) {
        part_clear(g);
        if (c == '\r') {
            g->state = HEAD_LF;
            return true;
        }
        if (c == ' ' || c == '\t')
            return refuse(g, "a folded header line");
        g->state = NAME;
    }
    if (c != ':') {
        part_add(g, (char)c);
        return is_token(c) || refuse(g, "a header name with a space or another byte that no name "
                                        "has");
    }
    if (g->part_len == 0)
        return refuse(g, "a header line without a name");
    g->state = VALUE;
    return true;
}

static bool once(struct http_guard *g, bool *seen, const char *why)
{
    if (*seen)
        return refuse(g, why);
    *seen = true;
    return true;
}

// The name is complete and its value begins: what is to be known of the value?
enum interest { NOTHING, LENGTH, ENCODING, HOST, CREDENTIALS };

static enum interest interest(const struct http_guard *g)
{
    if (g->part[0] == '=') // already turned into the value's marker
        return (enum interest)g->part[1];
    return strcasecmp(g->part, "content-length") == 0      ? LENGTH
           : strcasecmp(g->part, "transfer-encoding") == 0 ? ENCODING
           : strcasecmp(g->part, "host") == 0              ? HOST
           : strcasecmp(g->part, "authorization") == 0     ? CREDENTIALS
                                                           : NOTHING;
}

// The value replaces the name: "=" and the interest, then its text without blanks at the ends.
static bool value_starts(struct http_guard *g, enum interest i)
{
    g->part[0] = '=';
    g->part[1] = (char)i;
    g->part[2] = '\0';
    g->part_len = 2;
    g->left = i == LENGTH ? 0 : g->left;
    if (g->trailers)
        return i == NOTHING || refuse(g, "a trailer that belongs into the head");
    return i == LENGTH        ? once(g, &g->has_length, "Content-Length twice")
           : i == ENCODING    ? once(g, &g->has_encoding, "Transfer-Encoding twice")
           : i == HOST        ? once(g, &g->has_host, "Host twice")
           : i == CREDENTIALS ? once(g, &g->has_credentials, "Authorization twice")
                              : true;
}

static bool value_ends(struct http_guard *g, enum interest i)
{
    size_t len = g->part_len;
    while (len > 2 && (g->part[len - 1] == ' ' || g->part[len - 1] == '\t'))
        g->part[--len] = '\0';
    const char *text = g->part + 2;
    if (i == ENCODING && (strcasecmp(text, "chunked") != 0 || g->old_version))
        return refuse(g, "a Transfer-Encoding that is not chunked");
    if (i != LENGTH)
        return true;
    if (text[0] == '\0' || text[strspn(text, "0123456789")] || strlen(text) > 16)
        return refuse(g, "a Content-Length that is not a number");
    for (; *text; text++)
        g->left = g->left * 10 + (uint64_t)(*text - '0');
    return true;
}

static bool on_value(struct http_guard *g, unsigned char c)
{
    enum interest i = interest(g);
    if (g->part[0] != '=' && !value_starts(g, i))
        return false;
    if (c == '\r') {
        g->state = LINE_LF;
        return value_ends(g, i);
    }
    if ((c < 0x20 && c != '\t') || c == 0x7f)
        return refuse(g, c == '\n' ? "an LF without CR in the head"
                                   : "a header value with a control character");
    bool leading = g->part_len == 2 && (c == ' ' || c == '\t');
    if (i != NOTHING && !leading)
        part_add(g, (char)c);
    return true;
}

static bool next_request(struct http_guard *g)
{
    *g = (struct http_guard){.state = METHOD, .heads = g->heads};
    return true;
}

static bool on_head_lf(struct http_guard *g, unsigned char c)
{
    if (c != '\n')
        return refuse(g, "a CR without LF in the head");
    if (g->trailers)
        return next_request(g);
    if (g->has_length && g->has_encoding)
        return refuse(g, "Content-Length beside Transfer-Encoding");
    part_clear(g);
    g->heads++;
    if (g->has_encoding) {
        g->left = 0;
        g->state = CHUNK_SIZE;
    } else if (g->has_length && g->left > 0) {
        g->state = BODY;
    } else {
        return next_request(g);
    }
    return true;
}

// --- chunks ---

static bool on_chunk_size(struct http_guard *g, unsigned char c)
{
    int digit = text_hex_digit((char)c);
    if (digit >= 0 && g->part_len < 12) {
        part_add(g, (char)c);
        g->left = g->left * 16 + (uint64_t)digit;
        return true;
    }
    if (g->part_len == 0 || digit >= 0 || (c != '\r' && c != ';'))
        return refuse(g, "a chunk without a good length");
    g->state = c == ';' ? CHUNK_EXTENSION : CHUNK_SIZE_LF;
    return true;
}

static bool on_chunk_extension(struct http_guard *g, unsigned char c)
{
    if (c == '\r')
        g->state = CHUNK_SIZE_LF;
    else if ((c < 0x20 && c != '\t') || c == 0x7f)
        return refuse(g, "a chunk without a good length");
    return true;
}

static bool on_chunk_size_lf(struct http_guard *g, unsigned char c)
{
    if (c != '\n')
        return refuse(g, "a chunk without a good length");
    part_clear(g);
    g->state = g->left ? CHUNK_DATA : NAME_START;
    g->trailers = g->left == 0;
    return true;
}

static bool on_chunk_end(struct http_guard *g, unsigned char c)
{
    if (c != (g->state == CHUNK_CR ? '\r' : '\n'))
        return refuse(g, "a chunk that is longer than its length");
    g->state = g->state == CHUNK_CR ? CHUNK_LF : CHUNK_SIZE;
    return true;
}

static bool on_byte(struct http_guard *g, unsigned char c)
{
    switch ((enum state)g->state) {
    case METHOD:
        return on_method(g, c);
    case TARGET_START:
        part_clear(g);
        return on_target(g, c);
    case TARGET:
        return on_target(g, c);
    case VERSION:
        return on_version(g, c);
    case LINE_LF:
        return on_line_lf(g, c);
    case NAME_START:
    case NAME:
        return on_name(g, c);
    case VALUE:
        return on_value(g, c);
    case HEAD_LF:
        return on_head_lf(g, c);
    case CHUNK_SIZE:
        return on_chunk_size(g, c);
    case CHUNK_EXTENSION:
        return on_chunk_extension(g, c);
    case CHUNK_SIZE_LF:
        return on_chunk_size_lf(g, c);
    case CHUNK_CR:
    case CHUNK_LF:
        return on_chunk_end(g, c);
    case BODY:
    case CHUNK_DATA:
        break; // skipped by length
    }
    return false;
}

// Skips what can be skipped of a body; returns how many bytes.
static size_t skip(struct http_guard *g, size_t len)
{
    size_t n = g->left < len ? (size_t)g->left : len;
    g->left -= n;
    if (g->left == 0 && g->state == BODY)
        (void)next_request(g);
    else if (g->left == 0)
        g->state = CHUNK_CR;
    return n;
}

static bool head_too_long(struct http_guard *g)
{
    if (g->state > HEAD_LF || ++g->head_len <= LIMIT_HEAD_BYTES)
        return false;
    g->too_large = true;
    return !refuse(g, "the request line and headers are longer than 8 KiB");
}

bool http_guard_feed(struct http_guard *g, const char *data, size_t len)
{
    size_t at = 0;
    size_t good = 0;
    while (at < len && !g->why) {
        if (g->state == BODY || g->state == CHUNK_DATA)
            at += skip(g, len - at);
        else if (!head_too_long(g) && on_byte(g, (unsigned char)data[at]))
            at++;
        if (g->state == METHOD && g->part_len == 0 && !g->why)
            good = at;
    }
    g->good = good;
    return !g->why;
}
