/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Layout of x86-64 page-table entries: Intel SDM vol. 3A, 4.5; AMD APM vol. 2, 5.3. The meaning of
 * the bits left to software, and of entries that are not present, is Linux's
 * (Documentation/arch/x86, include/asm/pgtable_types.h names in brackets).
 */
#ifndef STRATA_X86_64_H
#define STRATA_X86_64_H

#define BIT_PRESENT 0
#define BIT_WRITABLE 1
#define BIT_ACCESSED 5
#define BIT_DIRTY 6
#define BIT_LARGE 7     /* a page here and not a table [PSE] */
#define BIT_PROTNONE 8  /* in an entry that is not present [PROTNONE] */
#define BIT_SPECIAL 9   /* no ordinary page behind it [SPECIAL] */
/*
 * Since 6.6 Linux keeps the dirty bit here where an entry may not be written [SAVED_DIRTY]: after a fork, and in
 * what was made read-only after it was written. Before, it marks pages of DAX devices.
 */
#define BIT_SAVED_DIRTY 58

#define ENTRY_PRESENT (1ULL << BIT_PRESENT)
#define ENTRY_WRITABLE (1ULL << BIT_WRITABLE)
#define ENTRY_ACCESSED (1ULL << BIT_ACCESSED)
#define ENTRY_DIRTY (1ULL << BIT_DIRTY)
#define ENTRY_SAVED_DIRTY (1ULL << BIT_SAVED_DIRTY)
/* Whether a present entry's page was written, 0 or 1. */
#define IS_DIRTY(entry) (((entry) >> BIT_DIRTY | (entry) >> BIT_SAVED_DIRTY) & 1)
#define ENTRY_LARGE (1ULL << BIT_LARGE)
#define ENTRY_PROTNONE (1ULL << BIT_PROTNONE)
#define ENTRY_SPECIAL (1ULL << BIT_SPECIAL)
/* Hardware may set these in an empty entry on some processors: they say nothing alone. */
#define ENTRY_NOISE (ENTRY_ACCESSED | ENTRY_DIRTY)
#define ENTRY_ADDRESS 0x000ffffffffff000ULL
#define PAGE_OFFSET 0xfffULL       /* address bits inside a page */
#define LARGE_OFFSET 0x1fffffULL /* ... inside a large page */

/* An entry that is not present holds its swap type in the top 5 bits. */
#define SWAP_TYPE_SHIFT 59
/*
 * Types at and above this are markers, migration, poison and device entries. Linux takes at most 9
 * of the 32 types for those; with fewer taken the types between are swap files only when more than
 * 23 are in use at once.
 */
#define SWAP_TYPES_MIN 23

/* Bits of a virtual address below each level's index. */
#define SHIFT_PAGE 12
#define SHIFT_PMD 21
#define SHIFT_PUD 30
#define SHIFT_P4D 39
#define SHIFT_PGD5 48

#endif
