import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';

/**
 * For tests only, as `node --import <this file>`: the process kills itself (SIGKILL, no handler runs) at one point of
 * the run of the command CRASH_COMMAND. Points are counted from its claim on: one before each MongoDB command is sent
 * and one after its reply, one before and one after each call to another service. CRASH_POINT is the point's number;
 * 0 = every claim of the command is fatal, right after it.
 *
 * The product has no seam for this: what is wrapped is the driver's connection and the global fetch.
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

/** What belongs to no command's run, or comes when a timer says so: poll, heartbeat, renewals, the driver's own talk. */
function isBystander(name: string, command: Sent): boolean {
  if (DRIVER_TALK.includes(name)) return true;
  if (name === 'find' && MAILBOXES.includes(command.find)) return true;
  return command.update === 'workers' || command.delete === 'workers' || isRenewal(command);
}

/** Outside a transaction a mailbox is updated by renewals and settlements; only the latter touch the attempts or the end. */
function isRenewal(command: Sent): boolean {
  if (!MAILBOXES.includes(command.update) || 'autocommit' in command) return false;
  return JSON.stringify(command.updates).includes('"$set":{"lockedUntil":{"$toDate"');
}

/** Whether it claims the wanted command; null = it is no claim. */
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
  // A reply to best-effort work of this run may come once another command is claimed: a death then would be that one's.
  // The reply to the claim itself always counts, whatever a worker of several commands has claimed meanwhile.
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
