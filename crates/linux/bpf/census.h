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
#define NR_AGES 4
#define MAX_RECORDS 4096
#define CHUNK_RECORDS 64 /* are kept together */
#define BLOCK_PAGES 512 /* 2 MiB: no folio but hugetlb's is larger, and each lies in one block */
#define NUMBER_MASK 0xfff /* censuses are numbered modulo this and one */
#define NUMBERS_MAX 0xf00 /* a page read longer ago counts as read so many censuses ago */

/* All in base pages. */
struct census_sums {
	u64 pages;
	u64 mapped;
	u64 dirty;
	u64 writeback;
	u64 unevictable;
	u64 used; /* mapped, or used again since it came: active; MGLRU: in the workingset, or with a count */
	u64 generations[NR_GENERATIONS];
	/* For each age: page cache, not mapped, that was read through a descriptor since then, ... */
	u64 read[NR_AGES];
	/* ... and of which that can't be told, because the kernel's count of its reads was full already. */
	u64 unknown[NR_AGES];
	/*
	 * Page cache the count of which was full at the first census and could be reset. Of the sample of which it was: all of
	 * it, the sum of the squares of its folios' sizes, and for each age what was not read. Of the rest: what is in `unknown`.
	 */
	u64 probed;
	u64 probed_squares;
	u64 probed_idle[NR_AGES];
	u64 unprobed[NR_AGES];
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
	u64 number;      /* of this census, from 1 on; 0: nothing is remembered */
	u64 first;       /* first page of the block that is remembered at place ... */
	u64 place;       /* ... this one; those after it at the places after it */
	u64 rank_max;    /* steps that the kernel can count reads in */
	u64 ages[NR_AGES]; /* a page was read since then if it was read less than so many censuses ago; 0: not told */
	u64 records_age; /* which of the ages, from 1 on: idle folios are told one by one; 0: they are not */
	u64 is_of_groups; /* if not 0: files are those of the watched groups; if 1: without those that are in memory only */
	u64 probe_limit; /* so many of 65,536 folios whose count of reads is full at the first census are a sample; 0: none */
	u64 probe_seed;  /* which */
	u64 probe_pages_max; /* larger folios are not in it */
	u64 probe_of_groups; /* if not 0: only pages that are charged to the watched groups are */
	u64 wants_full;  /* if not 0: those of the sample whose count is full are told, to have it reset */
	u64 is_confirming; /* if not 0: only look which counts were reset, after the same pages were looked at in this census */
	/* Where one file is listed: which. Then `next` and `end` are pages of the file. */
	u64 mapping;
	u64 inode;
	u64 device;
	u64 generation;
	u64 wants_mapped; /* if not 0: pages that programs have mapped are told, too */
	/* Set by the program. */
	u64 nr_records;  /* folios told */
	u64 nr_looked;
	u64 nr_holes;    /* of these, without a struct */
	u64 nr_reset;    /* pages of which a second look confirmed that the count was reset */
	u64 nr_lost;     /* pages of groups and files for which a map had no room */
	u64 kinds[NR_KINDS];
	u64 mapped[NR_KINDS];
	u64 nr_flags;    /* bits of the flags word that are single flags, from the lowest on */
	u64 page_bytes;  /* bytes of the kernel's struct of a page: nothing is looked at unless it is 64 */
	u64 file_bytes;  /* where one file is listed: its length; 0: it is another file now, or is on a disk and has no name any more */
};

/* Key of the map of groups; both pairs of words are made so that one table can keep either. */
struct census_key {
	u64 of;  /* the kernel's struct of the group; of the file */
	u64 and; /* node and kind; the kernel's struct of the group */
};

/* Page cache of a file. What is mapped is only told where one file is listed, if that is wanted. */
struct census_record {
	u64 mapping; /* the kernel's struct of the file */
	u64 group;   /* and of the group */
	u64 index;   /* of the first page, in the file */
	u64 nr_pages;
	u32 rank;    /* how far the kernel has counted reads of it */
	__u16 is_busy; /* whether it is to be written, is being written, or is locked in memory */
	__u8 is_referenced; /* the kernel's flag: it was read since it came, or since the kernel last took the flag away */
	__u8 is_mapped; /* whether any page of it is */
	/* Which file it is, where the folio is told because its count is full. */
	u64 inode;
	u64 device;
	u64 generation;
	u64 placed; /* number of its first page; above that, see below */
};

#define PLACED_ACTIVE (1ULL << 48)     /* the kernel's flags */
#define PLACED_WORKINGSET (1ULL << 49)
#define PLACED_GENERATION_SHIFT 50      /* MGLRU: 1 to 4, the number modulo 4 and one; 0: on none, or not known */

/* Page cache that has come to memory. */
struct census_arrival {
	u64 mapping; /* the kernel's struct of the file */
	u64 inode;
	u64 device;
	u64 generation;
	u64 index; /* of the first page, in the file */
	u64 nr_pages;
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
	u64 is_in_memory_only; /* tmpfs, memfd and shared memory */
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
	u64 is_there;    /* the kernel's struct is still that of this very file, and somebody holds it */
};

_Static_assert(sizeof(struct census_sums) == 29 * 8, "as in bpf_census.rs");
_Static_assert(sizeof(struct census_call) == 47 * 8, "as in bpf_census.rs");
_Static_assert(sizeof(struct census_record) == 9 * 8, "as in bpf_census.rs");
_Static_assert(sizeof(struct census_arrival) == 6 * 8, "as in bpf_arrivals.rs");
_Static_assert(sizeof(struct census_group) == 30 * 8, "as in bpf_census.rs");
_Static_assert(sizeof(struct census_file) == 36 * 8, "as in bpf_census.rs");
_Static_assert(sizeof(struct census_name_call) == 7 * 8, "as in bpf_census.rs");

#endif
