/** How a stream of a job begins. `snapshot`: as if for the first time. */
export type StreamStart = 'snapshot' | 'update' | 'nothing' | 'over';

/**
 * What a client is told first that names the last revision which it was told of. `over`: it knows the end of a finished job, and need not
 * come again.
 */
export function startOf(lastEventId: string | undefined, job: { revision: number; isOpen: boolean }): StreamStart {
  const known = /^[1-9]\d{0,14}$/.test(lastEventId ?? '') ? Number(lastEventId) : null;
  if (known === null || known > job.revision) return 'snapshot';
  if (known < job.revision) return 'update';
  return job.isOpen ? 'nothing' : 'over';
}
