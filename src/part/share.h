/*
 * Folders of the vendors' programs that harness and executor see as one, although each room has a home of its own: where
 * the snapshot of the shell lies that every command reads first. In both homes they are links into the scratch folder,
 * which the two share anyway, so nothing else of a harness's home can be seen from the executor. A command that removes
 * the link in its own home harms its own next commands.
 */
#ifndef PART_SHARE_H
#define PART_SHARE_H

/* For a harness room or an executor that was told to go. What cannot be made is logged: programs do without. */
void share_folders(const char *home, const char *scratch);

#endif
