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
  if (name === 'find' && MAILBOXES.includes(command.find)) return true;
  return command.update === 'workers' || command.delete === 'workers' || isRenewal(command);
}

/** Returns whether a MongoDB command renews a lease. Of the updates of a mailbox, only renewals set `lockedUntil` to a time. */
function isRenewal(command: Sent): boolean {
  if (!MAILBOXES.includes(command.update) || 'autocommit' in command) return false;
  return JSON.stringify(command.updates).includes('"$set":{"lockedUntil":{"$toDate"');
}

/** Returns whether a claim is for this command; null for any other MongoDB command. */
function claimsWanted({ findAndModify, query }: Sent, commandId: string): boolean | null {
  if (!MAILBOXES.includes(findAndModify) || typeof query !== 'object' || query === null) return null;
  return '_id' in query && query._id === commandId;
}
