import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';

/**
 * For tests only, loaded by `node --import <this file>`: the process kills itself with SIGKILL at one point of its run of the command
 * CRASH_COMMAND. Points are counted from the claim on: before each MongoDB command, after its reply, before each call to another service,
 * and after it. CRASH_POINT is the number of the point, from 1; 0 kills the process right after every claim of the command.
 *
 * The product has no hook for this, so the driver's connection and the global fetch are wrapped.
 */
const wanted = { commandId: process.env.CRASH_COMMAND, point: Number(process.env.CRASH_POINT) };

type Sent = Record<string, unknown>;
type Send = (this: unknown, ns: unknown, command: Sent, ...rest: unknown[]) => Promise<unknown>;

const DRIVER_TALK = ['hello', 'ismaster', 'isMaster', 'ping', 'endSessions', 'killSessions', 'killCursors'];
const MAILBOXES: readonly unknown[] = ['commands', 'attempt_notices', 'notification_deliveries'];
let running = false;
let passed = 0;

function point(name: string): void {
  passed += 1;
  if (passed !== wanted.point && !(wanted.point === 0 && name === 'after findAndModify')) return;
  writeSync(2, `${name}\n`);
  process.kill(process.pid, 'SIGKILL');
}

/** Returns whether a MongoDB command is outside of any run or sent by a timer: polls, heartbeats, renewals, the driver's own commands. */
function isBystander(name: string, command: Sent): boolean {
  if (DRIVER_TALK.includes(name)) return true;
  if (name === 'find' && MAILBOXES.includes(command.find)) return true;
  return command.update === 'workers' || command.delete === 'workers' || isRenewal(command);
}

/** Returns whether a MongoDB command renews a lease. Of the updates of a mailbox, only renewals set `lockedUntil` to a time. */
function isRenewal(command: Sent): boolean {
  if (!MAILBOXES.includes(command.update) || 'autocommit' in command) return false;
  return JSON.stringify(command.updates).includes('"$set":{"lockedUntil":{"$toDate"');
}

/** Returns whether a claim is for CRASH_COMMAND; null for any other MongoDB command. */
function claimsWanted(command: Sent): boolean | null {
  const { query } = command;
  if (!MAILBOXES.includes(command.findAndModify) || typeof query !== 'object' || query === null) return null;
  return '_id' in query && query._id === wanted.commandId;
}

const driver: { Connection: { prototype: { command: Send } } } = createRequire(import.meta.url)(
  'mongodb/lib/cmap/connection',
);
const send = driver.Connection.prototype.command;
driver.Connection.prototype.command = async function crashing(ns, command, ...rest) {
  const name = Object.keys(command)[0] ?? '';
  const isClaim = claimsWanted(command);
  running = isClaim ?? running;
  if (!running || isBystander(name, command)) return send.call(this, ns, command, ...rest);
  point(`before ${name}`);
  const reply = await send.call(this, ns, command, ...rest);
  // Best-effort work of this run may be answered after another command is claimed. A kill then would hit that command's run.
  // The reply to the claim itself always counts, even if the worker has claimed another command since.
  if (running || isClaim) point(`after ${name}`);
  return reply;
};

const call = globalThis.fetch;
globalThis.fetch = async (...request) => {
  if (running) point('before fetch');
  const response = await call(...request);
  if (running) point('after fetch');
  return response;
};
