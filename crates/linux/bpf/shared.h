/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * What the page-table walk and user space say to each other, in one memory-mapped map. Mirrored by
 * hand in src/sys/bpf_shared.rs; both sides assert the sizes.
 */
#ifndef STRATA_SHARED_H
#define STRATA_SHARED_H

#define MAX_SPANS 1024
#define MAX_RECORDS 1024
#define TABLE_ENTRIES 512
#define TABLE_WORDS 8
#define MAX_NODE_RANGES 64
#define NODE_BITS 4
#define NODE_UNKNOWN 15

/* walk_shared.status, set by the program. */
enum walk_status {
	WALK_UNSEEN = 0, /* no task with an address space came by */
	WALK_DONE = 1,   /* every span was walked */
	WALK_MORE = 2,   /* stopped early; run again to resume */
	WALK_MOVED = 3,  /* the task left its address space meanwhile: records are void */
};

/* walk_record.kind: 0 for a table of pages, else one huge page, whose bitmaps are not filled. */
enum walk_kind {
	KIND_HUGE = 1,
	HUGE_PRESENT = 2,
	HUGE_ACCESSED = 4,
	HUGE_DIRTY = 8,
	HUGE_SPECIAL = 16,
	HUGE_PROTNONE = 32,
	HUGE_MIGRATING = 64,
	HUGE_INACTIVE = 128, /* known to be on a list of inactive pages (classic LRU) */
};
#define HUGE_NODE_SHIFT 8 /* above these bits: the memory node */

/* Tables [first, end): an address divided by 2 MiB. */
struct walk_span {
	u64 first;
	u64 end;
};

/* Pages of physical memory [first, end) are on this memory node, as user space numbers them. */
struct node_range {
	u64 first;
	u64 end;
	u64 node;
};

struct walk_record {
	u64 table;
	u64 kind;
	u64 leaf; /* the raw entry of a huge page, else 0 */
	u64 present[TABLE_WORDS];
	u64 accessed[TABLE_WORDS]; /* of what is present or protnone; and so dirty */
	u64 dirty[TABLE_WORDS];
	u64 swapped[TABLE_WORDS];
	u64 special[TABLE_WORDS];
	u64 protnone[TABLE_WORDS];
	u64 migrating[TABLE_WORDS];
	u64 inactive[TABLE_WORDS]; /* known to be on a list of inactive pages (classic LRU) */
	u64 node[NODE_BITS][TABLE_WORDS]; /* bit by bit the memory node of what is present; filled if nodes are told */
};

struct walk_header {
	/* Set by user space once. */
	u64 direct_base;   /* where physical address 0 is mapped */
	u64 ram_end;       /* first physical address beyond memory */
	u64 encrypt_bits;  /* address bits set in every entry (memory encryption) */
	u64 levels;        /* 4 or 5 */
	u64 pages_base;    /* where the struct page of physical page 0 lies; 0: not known */
	/* Set by user space for each walk. */
	u64 nr_spans;
	u64 budget_ns;     /* a run stops after this long */
	u64 peek_addr;     /* if not 0: also copy the first bytes of the page there */
	u64 wants_inactive; /* if not 0: also fill walk_record.inactive */
	u64 nr_node_ranges; /* if not 0: also fill walk_record.node */
	/* Resume point; 0 to begin. */
	u64 span_index;
	u64 cursor;
	u64 span_end;
	/* Set by the program. */
	u64 status;
	u64 tid;
	u64 mm;
	u64 pgd;
	u64 nr_records;
	u64 nr_tables;     /* last-level tables copied */
	u64 nr_refused;    /* entries that lead outside memory, or tables that could not be read */
	u64 nr_torn;       /* tables unlinked while they were copied */
	u64 nr_clean_huge; /* huge pages neither writable nor dirty: may be the zero page */
	u64 peek_entry;    /* top-level entry over peek_addr */
	u64 peek[8];
	u64 peek_base;     /* pages_base, as the kernel stack of the task tells it; 0: it does not */
	u64 peek_index;    /* index of the page at peek_addr in its mapping, as found by pages_base */
	u64 peek_flags;    /* flags of the page at peek_addr */
};

struct walk_shared {
	struct walk_header h;
	struct walk_span spans[MAX_SPANS];
	struct walk_record records[MAX_RECORDS];
	struct node_range node_ranges[MAX_NODE_RANGES]; /* set by user space once */
};

#define VMA_BOUND (1ULL << 63) /* in flags, where the kernel has none: a memory policy says on which nodes it lies */

/* One mapping, as vma.bpf.c streams them. */
struct vma_record {
	u64 start;
	u64 end;
	u64 flags;
};

_Static_assert(sizeof(struct walk_header) == 34 * 8, "as in bpf_shared.rs");
_Static_assert(sizeof(struct walk_record) == 99 * 8, "as in bpf_shared.rs");

#endif
