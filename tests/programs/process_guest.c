/*
 * A process to watch: obeys one-line commands on stdin, answers each with one line on stdout.
 * Addresses are hexadecimal, counts are pages of 4 KiB. Every page written holds its own address
 * mixed with a constant, so that `check` can tell whether any content was lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096ul
#define HUGE (512 * PAGE)
#define MIX 0x5742a7a5742a7a57ul

static char *self;

/* Ends with its parent, even one that ended before it was asked to; and some day in any case. */
static void end_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(600);
	if (getppid() != parent)
		_exit(1);
}

static void wait_for_the_end(void)
{
	for (;;)
		pause();
}

static void say(const char *format, uint64_t value)
{
	printf(format, value);
	putchar('\n');
	fflush(stdout);
}

static void fail(const char *what)
{
	printf("error %s: %s\n", what, strerror(errno));
	fflush(stdout);
}

static void write_pages(char *at, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++)
		*(volatile uint64_t *)(at + i * PAGE) = (uint64_t)(at + i * PAGE) ^ MIX;
}

static void read_pages(const char *at, uint64_t pages)
{
	for (uint64_t i = 0; i < pages; i++)
		(void)*(const volatile uint64_t *)(at + i * PAGE);
}

static uint64_t wrong_pages(const char *at, uint64_t pages)
{
	uint64_t wrong = 0;
	for (uint64_t i = 0; i < pages; i++)
		wrong += *(const uint64_t *)(at + i * PAGE) != ((uint64_t)(at + i * PAGE) ^ MIX);
	return wrong;
}

/* Fresh pages wait in a per-CPU batch before they are on a list that reclaim can take them from. */
static void drain(void)
{
	char *junk = mmap(NULL, 256 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (junk == MAP_FAILED)
		return;
	madvise(junk, 256 * PAGE, MADV_NOHUGEPAGE);
	write_pages(junk, 256);
	munmap(junk, 256 * PAGE);
}

static char *map_pages(uint64_t pages, int flags, int fd)
{
	char *at = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (at == MAP_FAILED)
		return NULL;
	madvise(at, pages * PAGE, MADV_NOHUGEPAGE);
	return at;
}

static void cmd_huge(uint64_t pages)
{
	char *at = mmap(NULL, pages * PAGE + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return fail("mmap");
	at = (char *)(((uintptr_t)at + HUGE - 1) & ~(HUGE - 1));
	if (madvise(at, pages * PAGE, MADV_HUGEPAGE))
		return fail("madvise");
	write_pages(at, pages);
	say("%lx", (uint64_t)at);
}

static void cmd_file(const char *path, uint64_t pages, int flags)
{
	int fd = open(path, O_RDWR);
	if (fd < 0)
		return fail("open");
	char *at = map_pages(pages, flags, fd);
	close(fd);
	if (!at)
		return fail("mmap");
	/* No fault-around, which would set accessed bits of its own. */
	madvise(at, pages * PAGE, MADV_RANDOM);
	read_pages(at, pages);
	say("%lx", (uint64_t)at);
}

static void cmd_fork(uint64_t children)
{
	pid_t last = 0, parent = getpid();
	for (uint64_t i = 0; i < children; i++) {
		last = fork();
		if (last < 0)
			return fail("fork");
		if (!last) {
			end_with(parent);
			wait_for_the_end();
		}
	}
	say("%lu", last);
}

/* A child that forks a grandchild and ends: the grandchild loses its parent. */
static void cmd_orphan(void)
{
	int fds[2];
	pid_t grandchild = 0;
	if (pipe(fds))
		return fail("pipe");
	pid_t child = fork();
	if (child < 0)
		return fail("fork");
	if (!child) {
		grandchild = fork();
		if (!grandchild) {
			alarm(60);
			wait_for_the_end();
		}
		if (write(fds[1], &grandchild, sizeof grandchild) < 0)
			_exit(1);
		/* Long enough for the watcher to see the three generations. */
		usleep(300000);
		_exit(0);
	}
	if (read(fds[0], &grandchild, sizeof grandchild) < 0)
		return fail("read");
	close(fds[0]);
	close(fds[1]);
	say("%lu", grandchild);
}

static int share_fds[2];
static char share_parent[16];

static int in_shared_space(void *ends)
{
	int *fds = ends;
	char go;
	alarm(60);
	if (read(fds[0], &go, 1) != 1)
		_exit(1);
	execl(self, self, "--sleep", share_parent, NULL);
	_exit(1);
}


/* A process of its own in this address space, as vfork makes it; `unshare` lets it exec. */
static void cmd_share(void)
{
	static char stack[65536] __attribute__((aligned(16)));
	if (pipe(share_fds))
		return fail("pipe");
	snprintf(share_parent, sizeof share_parent, "%d", getpid());
	pid_t child = clone(in_shared_space, stack + sizeof stack, CLONE_VM | SIGCHLD, share_fds);
	if (child < 0)
		return fail("clone");
	say("%lu", child);
}

static void cmd_maps(uint64_t mappings)
{
	for (uint64_t i = 0; i < mappings; i++) {
		int prot = i % 2 ? PROT_READ : PROT_READ | PROT_WRITE;
		if (mmap(NULL, PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			return fail("mmap");
	}
	say("%lu", mappings);
}

/* Forks until a child gets the wanted pid, which then stays. */
static void cmd_take_pid(pid_t wanted, uint64_t tries)
{
	pid_t parent = getpid();
	while (tries--) {
		pid_t child = fork();
		if (child < 0)
			return fail("fork");
		if (!child) {
			if (getpid() != wanted)
				_exit(0);
			end_with(parent);
			wait_for_the_end();
		}
		if (child == wanted)
			return say("%lu", child);
		waitpid(child, NULL, 0);
	}
	say("0", 0);
}

static void *obey(void *unused);

static void *spin(void *unused)
{
	for (;;)
		usleep(1000);
	return unused;
}

static void command(char *line)
{
	char word[32] = "", path[512] = "";
	uint64_t a = 0, b = 0;
	pthread_t thread;
	sscanf(line, "%31s", word);
	const char *rest = line + strlen(word);
#define IS(name) (!strcmp(word, name))
	if (IS("anon") && sscanf(rest, "%lu", &a) == 1) {
		char *at = map_pages(a, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		if (!at)
			return fail("mmap");
		write_pages(at, a);
		drain();
		say("%lx", (uint64_t)at);
	} else if (IS("shmem") && sscanf(rest, "%lu", &a) == 1) {
		char *at = map_pages(a, MAP_SHARED | MAP_ANONYMOUS, -1);
		if (!at)
			return fail("mmap");
		write_pages(at, a);
		drain();
		say("%lx", (uint64_t)at);
	} else if (IS("zero") && sscanf(rest, "%lu", &a) == 1) {
		char *at = map_pages(a, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		if (!at)
			return fail("mmap");
		read_pages(at, a);
		say("%lx", (uint64_t)at);
	} else if (IS("huge") && sscanf(rest, "%lu", &a) == 1) {
		cmd_huge(a);
	} else if (IS("file") && sscanf(rest, "%lu %511[^\n]", &a, path) == 2) {
		cmd_file(path, a, MAP_SHARED);
	} else if (IS("private") && sscanf(rest, "%lu %511[^\n]", &a, path) == 2) {
		cmd_file(path, a, MAP_PRIVATE);
	} else if (IS("write") && sscanf(rest, "%lx %lu", &a, &b) == 2) {
		write_pages((char *)a, b);
		drain();
		say("ok", 0);
	} else if (IS("read") && sscanf(rest, "%lx %lu", &a, &b) == 2) {
		read_pages((char *)a, b);
		say("ok", 0);
	} else if (IS("check") && sscanf(rest, "%lx %lu", &a, &b) == 2) {
		say("%lu", wrong_pages((char *)a, b));
	} else if (IS("cached") && sscanf(rest, "%lx %lu", &a, &b) == 2 && b <= 4096) {
		/* Pages of a mapped file that are in memory, whether this process has them mapped or not. */
		unsigned char in_memory[4096];
		uint64_t cached = 0;
		if (mincore((char *)a, b * PAGE, in_memory))
			return fail("mincore");
		for (uint64_t i = 0; i < b; i++)
			cached += in_memory[i] & 1;
		say("%lu", cached);
	} else if (IS("lock") && sscanf(rest, "%lx %lu", &a, &b) == 2) {
		if (mlock((char *)a, b * PAGE))
			return fail("mlock");
		say("ok", 0);
	} else if (IS("unmap") && sscanf(rest, "%lx %lu", &a, &b) == 2) {
		if (munmap((char *)a, b * PAGE))
			return fail("munmap");
		say("ok", 0);
	} else if (IS("split") && sscanf(rest, "%lx", &a) == 1) {
		/* A hole in a huge page splits it. */
		if (madvise((char *)a + PAGE, PAGE, MADV_DONTNEED))
			return fail("madvise");
		say("ok", 0);
	} else if (IS("fork") && sscanf(rest, "%lu", &a) == 1) {
		cmd_fork(a);
	} else if (IS("orphan")) {
		cmd_orphan();
	} else if (IS("share")) {
		cmd_share();
	} else if (IS("unshare")) {
		if (write(share_fds[1], "x", 1) != 1)
			return fail("write");
		say("ok", 0);
	} else if (IS("reap")) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		say("ok", 0);
	} else if (IS("maps") && sscanf(rest, "%lu", &a) == 1) {
		cmd_maps(a);
	} else if (IS("takepid") && sscanf(rest, "%lu %lu", &a, &b) == 2) {
		cmd_take_pid(a, b);
	} else if (IS("threads") && sscanf(rest, "%lu", &a) == 1) {
		for (uint64_t i = 0; i < a; i++)
			pthread_create(&thread, NULL, spin, NULL);
		say("ok", 0);
	} else if (IS("exec")) {
		execl(self, self, NULL);
		fail("exec");
	} else if (IS("leave")) {
		/* The leader ends, a thread goes on obeying. */
		pthread_create(&thread, NULL, obey, "ok");
		pthread_exit(NULL);
	} else {
		printf("error unknown command: %s\n", line);
		fflush(stdout);
	}
}

static void *obey(void *greeting)
{
	char line[1024];
	if (greeting)
		say(greeting, 0);
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		command(line);
	}
	exit(0);
}

int main(int argc, char **argv)
{
	self = argv[0];
	if (argc > 2 && !strcmp(argv[1], "--sleep")) {
		end_with(atoi(argv[2]));
		wait_for_the_end();
	}
	end_with(getppid());
	obey("ready");
}
