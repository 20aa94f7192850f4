/*
 * jobshell: the job control of a shell, on a terminal of its own, around one command.
 *
 *   jobshell COMMAND ARGS...
 *   {"program":"jobshell","started":123}        the command runs in the foreground
 *   {"stopped":19} {"continued":1} {"exited":7} {"signaled":9}
 *
 * Reads from stdin: `key N` types the character with that number (26: Ctrl-Z, 3: Ctrl-C), `type TEXT`
 * types a line, `fg` brings a stopped command back to the foreground. When the command stops the
 * terminal is taken back, as a shell does. What the command writes to the terminal goes to stderr.
 */
#include "common.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>

static void say(const char *what, long value)
{
    printf("{\"%s\":%ld}\n", what, value);
    fflush(stdout);
}

static void start(char **argv, int terminal)
{
    setpgid(0, 0);
    tcsetpgrp(terminal, getpgrp());
    signal(SIGTTOU, SIG_DFL);
    for (int fd = 0; fd < 3; fd++)
        dup2(terminal, fd);
    execvp(argv[0], argv);
    _exit(127);
}

static void obey(const char *line, int keys, int terminal, pid_t job)
{
    if (!strncmp(line, "key ", 4)) {
        char key = (char)atoi(line + 4);
        if (write(keys, &key, 1) != 1)
            die("the key could not be typed");
    } else if (!strncmp(line, "type ", 5)) {
        if (write(keys, line + 5, strlen(line + 5)) < 0)
            die("the line could not be typed");
    } else if (!strncmp(line, "fg", 2)) {
        tcsetpgrp(terminal, job);
        kill(-job, SIGCONT);
    }
}

static int serve(char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    int keys = posix_openpt(O_RDWR | O_CLOEXEC);
    if (keys < 0 || grantpt(keys) || unlockpt(keys))
        die("no terminal: %s", strerror(errno));
    int terminal = open(ptsname(keys), O_RDWR | O_CLOEXEC);
    if (terminal < 0 || ioctl(terminal, TIOCSCTTY, 0))
        die("no controlling terminal: %s", strerror(errno));
    signal(SIGTTOU, SIG_IGN);
    pid_t job = fork();
    if (job == 0)
        start(argv, terminal);
    setpgid(job, job);
    tcsetpgrp(terminal, job);
    printf("{\"program\":\"jobshell\",\"started\":%d}\n", job);
    fflush(stdout);
    char line[4096];
    size_t used = 0;
    bool listens = true;
    for (;;) {
        struct pollfd fds[] = {{keys, POLLIN, 0}, {listens ? 0 : -1, POLLIN, 0}};
        poll(fds, 2, 20);
        if (fds[0].revents & POLLIN) {
            char text[4096];
            ssize_t count = read(keys, text, sizeof(text));
            if (count > 0 && write(2, text, (size_t)count) < 0)
                die("stderr is closed");
        }
        if (fds[1].revents) {
            ssize_t count = read(0, line + used, sizeof(line) - 1 - used);
            listens = count > 0;
            used += count > 0 ? (size_t)count : 0;
            char *end;
            while ((end = memchr(line, '\n', used))) {
                size_t length = (size_t)(end - line) + 1;
                char command[4096];
                memcpy(command, line, length);
                command[length] = 0;
                obey(command, keys, terminal, job);
                used -= length;
                memmove(line, end + 1, used);
            }
        }
        int status;
        if (waitpid(job, &status, WNOHANG | WUNTRACED | WCONTINUED) != job)
            continue;
        if (WIFSTOPPED(status)) {
            tcsetpgrp(terminal, getpgrp());
            say("stopped", WSTOPSIG(status));
        } else if (WIFCONTINUED(status)) {
            say("continued", 1);
        } else {
            say(WIFEXITED(status) ? "exited" : "signaled",
                WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
            return 0;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        die("jobshell COMMAND ARGS...");
    /* A session's leader is nobody's process group's. */
    pid_t server = fork();
    if (server == 0)
        return serve(argv + 1);
    int status = 0;
    waitpid(server, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
