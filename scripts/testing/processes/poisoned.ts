import { createRequire } from 'node:module';
import { getHeapStatistics } from 'node:v8';
import { isMainThread } from 'node:worker_threads';

/**
 * For tests only, loaded by `node --import <this file>`: each run of the command POISON_COMMAND does POISON_HARM as soon as it is claimed.
 * - `block`: blocks the event loop of a process for POISON_BLOCK_MS, and that of a thread for ever;
 * - `kill`: kills the process with SIGKILL;
 * - `memory`: kills a process, because none may be left without memory here, and allocates in a thread until it has none.
 *
 * The product has no hook for this, so the driver's connection is wrapped.
 */
const { POISON_COMMAND, POISON_HARM = 'block', POISON_BLOCK_MS } = process.env;

type Sent = Record<string, unknown>;
type Reply = { toObject(): { value?: { lockedUntil: unknown; stamp: unknown } | null } };
type Send = (this: unknown, ns: unknown, command: Sent, ...rest: unknown[]) => Promise<Reply>;

const driver: { Connection: { prototype: { command: Send } } } = createRequire(import.meta.url)(
  'mongodb/lib/cmap/connection',
);
const send = driver.Connection.prototype.command;
driver.Connection.prototype.command = async function poisoned(ns, command, ...rest) {
  const reply = await send.call(this, ns, command, ...rest);
  if (leases(command, reply)) harm();
  return reply;
};

/**
 * Returns whether a command has claimed the poison. The reply to a claim that holds it or ends it contains no lease, and the reply to a
 * refused one the lease and the stamp of another worker.
 */
function leases({ findAndModify, query, update }: Sent, reply: Reply): boolean {
  if (findAndModify === undefined || (query as { _id?: unknown })._id !== POISON_COMMAND) return false;
  const claimed = reply.toObject().value;
  return claimed?.lockedUntil instanceof Date && JSON.stringify(update).includes(`"${claimed.stamp}"`);
}

function harm(): void {
  if (POISON_HARM === 'kill' || (POISON_HARM === 'memory' && isMainThread)) process.kill(process.pid, 'SIGKILL');
  if (POISON_HARM === 'memory') exhaust();
  const endsAt = performance.now() + (isMainThread ? Number(POISON_BLOCK_MS) : Number.POSITIVE_INFINITY);
  while (performance.now() < endsAt);
}

function exhaust(): never {
  const held: number[][] = [];
  for (;;) {
    held.push(new Array<number>(10_000).fill(held.length));
    if (getHeapStatistics().total_heap_size > 2 ** 30) throw new Error('the memory of the thread has no limit');
  }
}
