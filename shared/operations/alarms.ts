import type { Alarm, Note } from '#shared/generated/operations.ts';
import type { Queue } from '#shared/kernel/command.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { type LiveWorker, unservedReason } from './command-reason.ts';
import {
  type FailingQueue,
  heldBackAlarms,
  heldBackNotes,
  isEventOut,
  type RunningQueue,
  refusalAlarms,
  settingOf,
  stalledRunAlarms,
} from './failing-alarms.ts';
import { span } from './reasons.ts';

/** The facts of a running cluster from which its alarms follow. */
export interface AlarmFacts {
  queues: readonly QueueFacts[];
  /** Actors with at least one live worker process. */
  liveActors: ReadonlySet<string>;
  /** True if it answers and stores rings. */
  redis: { answers: boolean };
  /** Services that did not answer the last call of a live worker; a service may be listed once for each. */
  unanswering: readonly UnansweringFacts[];
  /** Work that held the event loops of front doors and workers. */
  busyLoops: readonly BusyLoop[];
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
  /** Reasons why no process starts on this schema. */
  schemaFaults: readonly string[];
}

interface QueueFacts extends FailingQueue, RunningQueue {
  queue: string;
  /** Process type whose workers run the commands of this queue. */
  actor: string;
  due: number;
  dead: number;
  oldestDueMs: number | null;
  /** Commands that run only alone. `aloneUntil`: when the running one ends at the latest; null: it is held. */
  suspects: readonly { _id: string; aloneUntil: Date | null }[];
  /** Dead letters whose last run was one alone, and the newest of them; null: none. */
  poisoned: { count: number; newest: string } | null;
}

/** A service that a worker could not reach. */
interface UnansweringFacts {
  /** The name, in snake_case. */
  name: string;
  since: Date;
  lastAt: Date;
}

/** Age of the oldest due command from which its queue counts as overloaded, in milliseconds. */
const BACKLOG_MS = MINUTE;

/** Returns the alarms of a cluster, most urgent first; an empty list if all is well. */
export function alarmsOf(facts: AlarmFacts): Alarm[] {
  const { queues, liveActors, redis, unanswering, busyLoops, now, schemaFaults } = facts;
  return [
    ...schemaFaults.map(
      (text): Alarm => ({ kind: 'schema', about: null, text, remedy: 'run `examhall migrate --status`' }),
    ),
    ...queues.flatMap((facts) => workAlarm(facts, liveActors)),
    ...queues.flatMap((facts) => suspectAlarm(facts, liveActors)),
    ...stalledRunAlarms(queues, now),
    ...busyAlarms(busyLoops, now),
    ...(redis.answers ? [] : [REDIS_DOWN]),
    ...refusalAlarms(queues, now),
    ...dependencyAlarms(unanswering, now),
    ...heldBackAlarms(queues, now),
    ...queues.filter(({ queue, dead }) => dead > 0 && !isEventOut(queue)).map(deadAlarm),
  ];
}

const REDIS_DOWN: Alarm = {
  kind: 'redis-down',
  about: null,
  text: 'Redis does not answer or stores no rings: nothing is lost, and each command waits for the poll of its workers',
  remedy: 'run `examhall doctor`; restore Redis, or correct REDIS_URL',
};

function workAlarm({ queue, actor, due, oldestDueMs }: QueueFacts, liveActors: ReadonlySet<string>): Alarm[] {
  if (due === 0) return [];
  const age = `the oldest for ${Math.round((oldestDueMs ?? 0) / 1_000)} s`;
  if (!liveActors.has(actor)) {
    const text = `${queue}: ${due} due, ${age}, and no live worker`;
    return [{ kind: 'no-worker', about: queue, text, remedy: `scale \`${actor}\`` }];
  }
  if ((oldestDueMs ?? 0) < BACKLOG_MS) return [];
  const remedy = `scale \`${actor}\``;
  return [{ kind: 'backlog', about: queue, text: `${queue}: ${due} due, ${age}`, remedy }];
}

/** More workers would not help: the suspect would harm them too. */
function suspectAlarm({ queue, actor, suspects }: QueueFacts, liveActors: ReadonlySet<string>): Alarm[] {
  const first = suspects.find(({ aloneUntil }) => aloneUntil !== null) ?? suspects[0];
  if (first === undefined) return [];
  const { _id, aloneUntil } = first;
  const state = aloneUntil === null ? 'is held until it can run alone' : `runs alone until ${aloneUntil.toISOString()}`;
  const others = suspects.length === 1 ? '' : `; ${suspects.length - 1} more are held`;
  const text = `${queue}: two runs of ${_id} did not end, so it ${state}${others}`;
  const trace = `run \`examhall trace ${_id}\`; the command ends by itself, done or dead`;
  return [{ kind: 'suspect', about: queue, text, remedy: liveActors.has(actor) ? trace : `scale \`${actor}\`` }];
}

function deadAlarm({ queue, dead, poisoned }: QueueFacts): Alarm {
  const { text, remedy } = deadLetters(queue, dead);
  const alone = poisoned === null ? '' : `; ${poisoned.count} died in a run alone, the last one ${poisoned.newest}`;
  return { kind: 'dead-letters', about: queue, text: `${text}${alone}`, remedy };
}

function deadLetters(queue: string, dead: number): Pick<Alarm, 'text' | 'remedy'> {
  const text = `${queue}: ${dead} dead ${dead === 1 ? 'letter' : 'letters'}`;
  return { text, remedy: `run \`examhall dead list --queue ${queue}\`` };
}

interface NotedQueue extends Pick<QueueFacts, 'actor' | 'dead' | 'failing'> {
  queue: Queue;
  /** Commands that wait for a setting. */
  unserved: number;
}

/**
 * Returns the notes of a cluster; an empty list if none waits for a decision. `live` are its worker processes.
 *
 * A note is work that waits until an operator decides about it, and no alarm: no student waits for it, or the cluster lacks a setting, perhaps on
 * purpose. An alarm that such a cluster could never end would hide the next one.
 */
export function notesOf(
  queues: readonly NotedQueue[],
  live: readonly Pick<LiveWorker, 'actor' | 'queues'>[],
  now: number,
): Note[] {
  const waiting = queues.filter(({ unserved }) => unserved > 0);
  const dead = queues.filter((facts) => facts.dead > 0 && isEventOut(facts.queue));
  return [
    ...waiting.map(({ queue, actor, unserved }): Note => {
      const own = live.filter((worker) => worker.actor === actor);
      const { text, remedy } = unservedReason(queue, own);
      return {
        kind: 'not-configured',
        about: queue,
        text: `${queue}: ${unserved} waiting, because ${text}`,
        remedy: remedy ?? '',
      };
    }),
    ...heldBackNotes(queues, now),
    ...dead.map(
      (facts): Note => ({ kind: 'dead-events', about: facts.queue, ...deadLetters(facts.queue, facts.dead) }),
    ),
  ];
}

/**
 * Age from which a failed call no longer counts: the workers then have nothing to send to that service, or reach it again. Longer than the
 * longest backoff of a command, which is ten minutes.
 */
const FAILURE_COUNTS_MS = 15 * MINUTE;

function dependencyAlarms(unanswering: readonly UnansweringFacts[], now: number): Alarm[] {
  const recent = unanswering.filter(({ lastAt }) => now - lastAt.getTime() < FAILURE_COUNTS_MS);
  return [...Map.groupBy(recent, ({ name }) => name)].map(([name, reports]) => {
    const since = Math.min(...reports.map((report) => report.since.getTime()));
    const text = `the service \`${name}\` does not answer its workers since ${span(now - since)}`;
    return {
      kind: 'dependency-down',
      about: name,
      text,
      remedy: `check that service, its network and \`${settingOf(name)}\``,
    };
  });
}

/** One piece of work that held the event loop of a process. */
export interface HeldLoop {
  heldMs: number;
  /** Its end. */
  at: Date;
}

/** The longest recent one of a process. */
export interface BusyLoop extends HeldLoop {
  /** Process type, host and process id. */
  process: string;
}

/** As in the alert on the metric: half the time limit of a liveness probe, and a quarter of a lease. */
export const BUSY_FROM_MS = 2_500;
/** Age from which a piece of work no longer counts. */
export const BUSY_COUNTS_MS = 5 * MINUTE;

/** Returns the longer of two that still count; null if neither does. */
export function longestHeld<Held extends HeldLoop>(known: Held | null, next: Held | null, now: number): Held | null {
  const counting = [known, next].filter((held) => held !== null && now - held.at.getTime() < BUSY_COUNTS_MS);
  return counting.reduce((one, other) => ((other?.heldMs ?? 0) > (one?.heldMs ?? 0) ? other : one), null);
}

/** Returns an alarm for each process that one piece of work held for long, the longest first. A process may be listed several times. */
export function busyAlarms(loops: readonly BusyLoop[], now: number): Alarm[] {
  const longest = [...Map.groupBy(loops, ({ process }) => process).values()].flatMap((own) => {
    const held = own.reduce<BusyLoop | null>((one, other) => longestHeld(one, other, now), null);
    return held === null || held.heldMs < BUSY_FROM_MS ? [] : [held];
  });
  return longest
    .sort((one, other) => other.heldMs - one.heldMs)
    .map(({ process, heldMs, at }): Alarm => {
      const ago = span(Math.max(0, now - at.getTime()));
      const text = `${process}: one piece of work held its event loop for ${(heldMs / SECOND).toFixed(1)} s, ${ago} ago`;
      const remedy = `read its log at ${at.toISOString()}: the request or the run that ended then is the cause`;
      return { kind: 'busy-loop', about: process, heldMs: Math.round(heldMs), text, remedy };
    });
}
