/*
 * The subcommands. Each gets argv with its own name as argv[0] and returns the exit code: 0 done, 1 failed, 2 wrong usage or configuration
 * (rea run: 125 for both, the rest is the command's; rea check: 3 for warnings).
 */
#ifndef REA_SRC_CMD_H
#define REA_SRC_CMD_H

int cmd_call(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_contract(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_lab(int argc, char **argv);
int cmd_timeline(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_tasks(int argc, char **argv);
int cmd_torture(int argc, char **argv);
int cmd_upstream(int argc, char **argv);
int cmd_version(int argc, char **argv);

#endif
