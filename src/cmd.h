/*
 * The subcommands. Each gets argv with its own name as argv[0] and returns the exit code: 0 done, 1 failed, 2 wrong usage or configuration.
 */
#ifndef REA_SRC_CMD_H
#define REA_SRC_CMD_H

int cmd_serve(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_timeline(int argc, char **argv);
int cmd_upstream(int argc, char **argv);
int cmd_version(int argc, char **argv);

#endif
