import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { getHeapStatistics } from 'node:v8';
import { isMainThread } from 'node:worker_threads';
import { type Crash, claimsWanted, crashPoints, isReadOfClaims, type Sent } from './crash-points.ts';
import type { Poison } from './worker-process.ts';

/**
 * Loaded into a worker by `node --import <this file>`: a command harms it as TEST_HARM says. The product has no hook for this, so the driver's
 * connection and the global fetch are wrapped.
 */
type Claimed = { _id: unknown; lockedUntil: unknown; stamp: unknown };
type Reply = { toObject(): { value?: Claimed | null; cursor?: { firstBatch: Claimed[] } } };
type Send = (this: unknown, ns: unknown, command: Sent, ...rest: unknown[]) => Promise<unknown>;

const { prototype: connection }: { prototype: { command: Send } } = createRequire(import.meta.url)(
  'mongodb/lib/cmap/connection',
).Connection;
const send = connection.command;
const cause: Crash | Poison = JSON.parse(process.env.TEST_HARM ?? '');
if ('point' in cause) crashAt(cause);
else poisonBy(cause);

function crashAt(crash: Crash): void {
  const points = crashPoints(crash, (point) => {
    writeSync(2, `${point}\n`);
    process.kill(process.pid, 'SIGKILL');
    return new Promise(() => undefined);
  });
  connection.command = function crashing(ns, command, ...rest) {
    return points.command(command, () => send.call(this, ns, command, ...rest));
  };
  const call = globalThis.fetch;
  globalThis.fetch = (...request) => points.fetch(() => call(...request));
}

/** Harms the process as soon as it has claimed the command. */
function poisonBy(poison: Poison): void {
  const leases = leasesOf(poison.commandId);
  connection.command = async function poisoned(ns, command, ...rest) {
    const reply = await send.call(this, ns, command, ...rest);
    if (leases(command, reply as Reply)) harm(poison);
    return reply;
  };
}

/**
 * Returns whether a MongoDB command has claimed the poison. The reply to a claim that holds it or ends it contains no lease, and the reply
 * to a refused one the lease and the stamp of another worker. Claims of many commands are read after they were made.
 */
function leasesOf(commandId: string): (sent: Sent, reply: Reply) => boolean {
  let claims = '';
  const isClaimed = (found: Claimed | null | undefined) =>
    found?._id === commandId && found.lockedUntil instanceof Date && claims.includes(`"${found.stamp}"`);
  return (sent, reply) => {
    if (claimsWanted(sent, commandId) === true) claims += JSON.stringify([sent.update, sent.updates]);
    if (sent.findAndModify !== undefined) return isClaimed(reply.toObject().value);
    return isReadOfClaims(sent) && (reply.toObject().cursor?.firstBatch.some(isClaimed) ?? false);
  };
}

function harm({ harm: how, blockMs = 0 }: Poison): void {
  if (how === 'kill' || (how === 'memory' && isMainThread)) process.kill(process.pid, 'SIGKILL');
  if (how === 'memory') exhaust();
  const endsAt = performance.now() + (isMainThread ? blockMs : Number.POSITIVE_INFINITY);
  while (performance.now() < endsAt);
}

function exhaust(): never {
  const held: number[][] = [];
  for (;;) {
    held.push(new Array<number>(10_000).fill(held.length));
    if (getHeapStatistics().total_heap_size > 2 ** 30) throw new Error('the memory of the thread has no limit');
  }
}
