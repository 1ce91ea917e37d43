import type { CommandStartedEvent } from 'mongodb';
import type { AttemptDeps } from '#api/attempt/deps.ts';
import type { Call } from '#api/route.ts';
import { readConfig } from '#infra/config/config.ts';
import { openAttemptRefs } from '#infra/mongo/attempt/attempts.ts';
import { openEventTails } from '#infra/mongo/attempt/event-tail.ts';
import { openPapers } from '#infra/mongo/attempt/papers.ts';
import { openReplyTexts } from '#infra/mongo/attempt/reply-texts.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { openSettledPoller } from '#infra/mongo/mailbox/mailbox.ts';
import { openWanted } from '#infra/mongo/operations/subscriptions.ts';

/** Returns the dependencies of a front door with empty caches and without Redis. Operations that ring fail. */
export function coldFrontDoor(mongo: Mongo): AttemptDeps {
  const config = readConfig({ MONGODB_URL: 'mongodb://127.0.0.1/' }, 'web');
  const never = (): never => {
    throw new Error('this front door has no Redis');
  };
  return {
    mongo,
    papers: openPapers(mongo, 8 * 1_024 * 1_024),
    attemptRefs: openAttemptRefs(mongo, 1_000),
    eventTails: openEventTails(mongo),
    replyTexts: openReplyTexts(8 * 1_024 * 1_024),
    now: Date.now,
    settings: config.attempt,
    commandAttempts: config.worker.maxAttempts,
    wanted: openWanted(mongo, Date.now, { warn: () => undefined }),
    doorbells: { ring: never, close: async () => undefined },
    settledPoller: openSettledPoller(mongo),
    replies: { register: never, size: () => 0, close: async () => undefined },
  };
}

/** Returns a call of a student that has passed all guards. */
export function studentCall<Body>(
  studentId: string,
  call: { body: Body; params: Record<string, string>; key?: string },
): Call<Body> {
  const { body, params, key } = call;
  return {
    requestId: 'bench',
    peer: '',
    params,
    query: undefined,
    body,
    headers: {},
    signal: new AbortController().signal,
    stop: new AbortController().signal,
    identity: {
      actor: { id: studentId, role: 'STUDENT' },
      ...(key === undefined ? {} : { idempotency: { key, header: 'idempotency-key' } }),
    },
  };
}

/** The MongoDB commands that a client sends, by their names. */
export interface CommandCount {
  /** Returns the commands since the last call, in order. */
  taken(): string[];
}

/**
 * Records the commands of a client by the driver's command monitoring. Call it before the client's first command. `nameOf` names a command;
 * default: its own name.
 */
export function countCommands(
  { client }: Mongo,
  nameOf: (event: CommandStartedEvent) => string = ({ commandName }) => commandName,
): CommandCount {
  let names: string[] = [];
  client.options.monitorCommands = true;
  client.on('commandStarted', (event) => names.push(nameOf(event)));
  return {
    taken() {
      const taken = names;
      names = [];
      return taken;
    },
  };
}
