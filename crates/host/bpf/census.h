/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * What the census and user space say to each other. Mirrored by hand in src/sys/bpf_census.rs; both sides assert the
 * sizes.
 */
#ifndef STRATA_CENSUS_H
#define STRATA_CENSUS_H

#define MAX_GROUPS 65536
#define MAX_FILES (1 << 18)
#define NAMES_MAX 32
#define NAME_BYTES 256

/* What a folio is. Whether it is mapped, dirty or locked in memory is summed up beside. */
enum census_kind {
	KIND_ANON = 0,    /* of a program itself, the swap cache included */
	KIND_FILE = 1,    /* page cache of a file on a disk, and of the disk */
	KIND_SHMEM = 2,   /* tmpfs, memfd and shared memory */
	KIND_HUGETLB = 3, /* set aside as huge pages and in use */
	NR_KINDS = 4,
};

#define NR_GENERATIONS 5 /* 0: on none, or not known */

/* All in base pages. */
struct census_sums {
	u64 pages;
	u64 mapped;
	u64 dirty;
	u64 writeback;
	u64 unevictable;
	u64 active;
	u64 referenced;
	u64 workingset;
	u64 used; /* mapped, or used again since it came: active; MGLRU: in the workingset, or with a count */
	u64 generations[NR_GENERATIONS];
};

/* One call. */
struct census_call {
	/* Set by user space. */
	u64 pages_base;  /* where the struct of physical page 0 lies */
	u64 next;        /* first page to look at, a multiple of 64; left at the page after the last one looked at */
	u64 end;         /* and the one to stop before */
	u64 node;        /* the memory node of all of them */
	u64 budget_ns;   /* a call stops after this long */
	u64 wants_files; /* if not 0: also sum up by file */
	u64 wants_flush; /* if not 0: look at nothing, bring all sums to the maps */
	u64 has_generations; /* if not 0: MGLRU is on */
	u64 refs_flags;  /* MGLRU: where the count of accesses lies in the flags word; 0: not known */
	u64 gen_shift;   /* MGLRU: where the generation lies there; 0: not known */
	/* Set by the program. */
	u64 nr_looked;
	u64 nr_holes;    /* of these, without a struct */
	u64 nr_lost;     /* pages of groups and files for which a map had no room */
	u64 kinds[NR_KINDS];
	u64 mapped[NR_KINDS];
	u64 nr_flags;    /* bits of the flags word that are single flags, from the lowest on */
	u64 page_bytes;  /* bytes of the kernel's struct of a page: nothing is looked at unless it is 64 */
};

/* Key of the map of groups; both pairs of words are made so that one table can keep either. */
struct census_key {
	u64 of;  /* the kernel's struct of the group; of the file */
	u64 and; /* node and kind; the kernel's struct of the group */
};

struct census_group {
	u64 id; /* inode of its directory; 0: memory charged to none */
	struct census_sums sums;
};

struct census_file {
	u64 group_id;
	u64 inode;
	u64 device;
	u64 generation;
	u64 nr_links;
	u64 is_disk; /* page cache of a disk itself, whose number then is the device */
	struct census_sums sums;
};

/* One question for a name. */
struct census_name_call {
	/* Set by user space. */
	u64 mapping;
	u64 inode;
	u64 device;
	u64 generation;
	/* Set by the program. */
	u64 nr_names;    /* parts of the path, the last one first; 0: not known any more */
	u64 is_complete; /* the top of its file system was reached */
};

_Static_assert(sizeof(struct census_sums) == 14 * 8, "as in bpf_census.rs");
_Static_assert(sizeof(struct census_call) == 23 * 8, "as in bpf_census.rs");
_Static_assert(sizeof(struct census_group) == 15 * 8, "as in bpf_census.rs");
_Static_assert(sizeof(struct census_file) == 20 * 8, "as in bpf_census.rs");
_Static_assert(sizeof(struct census_name_call) == 6 * 8, "as in bpf_census.rs");

#endif
