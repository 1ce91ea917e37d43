/** The facts of a running cluster from which its alarms follow. */
export interface AlarmFacts {
  queues: readonly QueueFacts[];
  /** Actors with at least one live worker process. */
  liveActors: ReadonlySet<string>;
  redis: { answers: boolean };
  /** Reasons why no process starts on this schema. */
  schemaFaults: readonly string[];
}

interface QueueFacts {
  queue: string;
  /** Process type whose workers run the commands of this queue. */
  actor: string;
  due: number;
  dead: number;
  oldestDueMs: number | null;
}

/** One alarm: what is wrong, and what the operator does about it. */
export interface Alarm {
  kind: 'no-worker' | 'backlog' | 'dead-letters' | 'redis-down' | 'schema';
  text: string;
  remedy: string;
}

/** Age of the oldest due command from which its queue counts as overloaded, in milliseconds. */
const BACKLOG_MS = 60_000;

/** Returns the alarms of a cluster, most urgent first; an empty list if all is well. */
export function alarmsOf({ queues, liveActors, redis, schemaFaults }: AlarmFacts): Alarm[] {
  return [
    ...schemaFaults.map((text): Alarm => ({ kind: 'schema', text, remedy: 'run `examhall migrate --status`' })),
    ...queues.flatMap((facts) => workAlarm(facts, liveActors)),
    ...(redis.answers ? [] : [REDIS_DOWN]),
    ...queues.filter(({ dead }) => dead > 0).map(deadAlarm),
  ];
}

const REDIS_DOWN: Alarm = {
  kind: 'redis-down',
  text: 'Redis does not answer: nothing is lost, and each command waits for the poll of its workers',
  remedy: 'restore Redis, or correct REDIS_URL',
};

function workAlarm({ queue, actor, due, oldestDueMs }: QueueFacts, liveActors: ReadonlySet<string>): Alarm[] {
  if (due === 0) return [];
  const age = `the oldest for ${Math.round((oldestDueMs ?? 0) / 1_000)} s`;
  if (!liveActors.has(actor)) {
    const text = `${queue}: ${due} due, ${age}, and no live worker`;
    return [{ kind: 'no-worker', text, remedy: `start the process type \`${actor}\`` }];
  }
  if ((oldestDueMs ?? 0) < BACKLOG_MS) return [];
  return [
    { kind: 'backlog', text: `${queue}: ${due} due, ${age}`, remedy: `run more processes of the type \`${actor}\`` },
  ];
}

function deadAlarm({ queue, dead }: QueueFacts): Alarm {
  return {
    kind: 'dead-letters',
    text: `${queue}: ${dead} dead ${dead === 1 ? 'letter' : 'letters'}`,
    remedy: `run \`examhall dead list --queue ${queue}\``,
  };
}
