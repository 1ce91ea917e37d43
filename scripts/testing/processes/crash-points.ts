import { BY_ID } from '#infra/mongo/connect.ts';

/** The run in which a worker dies: the command, and the number of the point, from 1. */
export interface Crash {
  commandId: string;
  point: number;
}

export type Sent = Record<string, unknown>;

const DRIVER_TALK = ['hello', 'ismaster', 'isMaster', 'ping', 'endSessions', 'killSessions', 'killCursors'];
const MAILBOXES: readonly unknown[] = ['commands', 'attempt_notices', 'notification_deliveries'];

/**
 * Counts the points of one run from its claim on: before each MongoDB command, after its reply, before each call to another service, and
 * after it. Calls `die` with the name of the point at the wanted one. `die` does not return, or its promise never settles.
 */
export function crashPoints(crash: Crash, die: (point: string) => Promise<never>) {
  let running = false;
  let passed = 0;

  async function pass(name: string): Promise<void> {
    passed += 1;
    if (passed === crash.point) await die(name);
  }

  return {
    async command(command: Sent, send: () => Promise<unknown>): Promise<unknown> {
      const name = Object.keys(command)[0] ?? '';
      const isClaim = claimsWanted(command, crash.commandId);
      running = isClaim ?? running;
      if (!running || isBystander(name, command)) return send();
      await pass(`before ${name}`);
      const reply = await send();
      // Best-effort work of this run may be answered after another command is claimed. A death then would hit that command's run.
      // The reply to the claim itself always counts, even if the worker has claimed another command since.
      if (running || isClaim) await pass(`after ${name}`);
      return reply;
    },
    async fetch(call: () => Promise<Response>): Promise<Response> {
      if (running) await pass('before fetch');
      const response = await call();
      if (running) await pass('after fetch');
      return response;
    },
  };
}

/** Returns whether a MongoDB command is outside of any run or sent by a timer: polls, heartbeats, renewals, the driver's own commands. */
function isBystander(name: string, command: Sent): boolean {
  if (DRIVER_TALK.includes(name)) return true;
  if (name === 'find' && MAILBOXES.includes(command.find)) return !isReadOfClaims(command);
  return command.update === 'workers' || command.delete === 'workers' || isRenewal(command);
}

/** Returns whether a MongoDB command renews a lease. Of the updates of a mailbox, only renewals set `lockedUntil` to a time. */
function isRenewal(command: Sent): boolean {
  if (!MAILBOXES.includes(command.update) || 'autocommit' in command) return false;
  return JSON.stringify(command.updates).includes('"$set":{"lockedUntil":{"$toDate"');
}

/** Returns whether a MongoDB command reads what a claim of many commands has returned. */
export function isReadOfClaims({ hint, filter }: Sent): boolean {
  return hint === BY_ID && JSON.stringify(filter).startsWith('{"_id":{"$in"');
}

/** Returns whether a claim is for this command, alone or among others; null for any other MongoDB command. */
export function claimsWanted(sent: Sent, commandId: string): boolean | null {
  const { findAndModify, query, update, updates } = sent;
  if (MAILBOXES.includes(findAndModify)) return idOf(query) === commandId;
  // Only a claim writes many commands outside of a transaction by their guards.
  if (!MAILBOXES.includes(update) || 'autocommit' in sent) return null;
  const statements = statementsOf(updates);
  if (!JSON.stringify(statements[0]?.u?.[0] ?? null).startsWith('{"$set":{"stamp"')) return null;
  return statements.some(({ q }) => idOf(q) === commandId);
}

/** Returns the statements of an update. The driver sends those of a bulk in a section of their own. */
function statementsOf(updates: unknown): readonly { q?: unknown; u?: unknown[] }[] {
  if (Array.isArray(updates)) return updates;
  return typeof updates === 'object' && updates !== null && 'documents' in updates ? (updates.documents as []) : [];
}

function idOf(filter: unknown): unknown {
  return typeof filter === 'object' && filter !== null && '_id' in filter ? filter._id : undefined;
}
