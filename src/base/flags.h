/*
 * Flags of an open file that all who share it see, and that a program which got it may have changed.
 */
#ifndef BASE_FLAGS_H
#define BASE_FLAGS_H

/* Puts O_NONBLOCK and O_APPEND of fd back to what F_GETFL said before, `was`; -1: leaves them. */
void flags_restore(int fd, int was);

#endif
