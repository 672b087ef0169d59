/*
 * Included before every file: names that break in a static, filtered binary or that are never safe. Each
 * comes with what to use instead.
 */
#ifndef BASE_POISON_H
#define BASE_POISON_H

#include <netdb.h>
#include <pwd.h>
#include <event2/util.h> /* names strerror in a macro */
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison getaddrinfo gethostbyname           /* evdns: NSS plug-ins crash in a foreign root */
#pragma GCC poison getpwnam getpwuid getgrnam getgrgid /* fgetpwent, numeric ids: base/ids.h */
#pragma GCC poison system popen                        /* base/proc.h: no shell line is ever built */
#pragma GCC poison sprintf vsprintf strcpy strcat      /* snprintf, base/buf.h */
#pragma GCC poison atoi atol strtok                    /* base/parse.h */
#pragma GCC poison strerror /* err_sys(): strerrordesc_np is static and thread-safe */

#endif
