import type Queue from 'bee-queue';

/** All a job holds. Everything else is in MongoDB, under this id. */
export interface Ring {
  id: string;
}

/**
 * What both ends of a doorbell must agree on. Nothing is kept in Redis once a ring has been answered, no events are
 * sent (the replies travel on their own channel) and no delayed jobs exist (delays live in MongoDB).
 */
export const BELL_SETTINGS = {
  prefix: 'examhall',
  getEvents: false,
  sendEvents: false,
  storeJobs: false,
  activateDelayedJobs: false,
  removeOnSuccess: true,
  removeOnFailure: true,
  // Off, because the link owns its clients: a queue must not quit one that other queues share.
  quitCommandClient: false,
} as const satisfies Queue.QueueSettings;

/** One ring per attempt: while it waits or is answered, ringing again adds nothing; the next attempt rings anew. */
export function ringId(commandId: string, attempt: number): string {
  return `${commandId}:${attempt}`;
}
