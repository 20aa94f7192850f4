// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Streams the mappings of one task: start, end and the kernel's flags of each, as binary records.
 * The iterator takes and drops the mmap lock for reading by itself, and resumes by address.
 */
#include "kernel.h"
#include "shared.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define MPOL_LOCAL_MODE 4 /* of linux/mempolicy.h */

SEC("iter/task_vma")
int list_vmas(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct vma_record record;
	struct task_struct *task = ctx->task;
	struct mempolicy *policy;

	if (!vma)
		return 0;
	record.start = vma->vm_start;
	record.end = vma->vm_end;
	record.flags = vma->vm_flags & ~VMA_BOUND;
	/* A kernel without nodes has no policies. */
	policy = 0;
	if (bpf_core_field_exists(vma->vm_policy))
		policy = BPF_CORE_READ(vma, vm_policy);
	if (!policy && task && bpf_core_field_exists(task->mempolicy))
		policy = BPF_CORE_READ(task, mempolicy);
	if (policy && BPF_CORE_READ(policy, mode) != MPOL_LOCAL_MODE)
		record.flags |= VMA_BOUND;
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}
