import type { Alarm, Note } from '#shared/generated/operations.ts';
import { actorOf, EVENT_QUEUES, type Queue } from '#shared/kernel/command.ts';
import type { Refusal } from '#shared/kernel/failure.ts';
import { MINUTE, SECOND } from '#shared/kernel/time.ts';
import { span } from './reasons.ts';

/** The failing commands of a queue, as far as alarms depend on them. */
export interface FailingQueue {
  queue: string;
  failing: readonly {
    refusal: Refusal | null;
    count: number;
    /** When the first of them was refused so; null without a refusal. */
    refusedSince: Date | null;
    /** Those that have failed for `HELD_BACK_MS` or longer, and when the first of them began to fail; null: none. */
    heldBack: { count: number; since: Date } | null;
    newest: { at: Date; message: string; _id: string };
  }[];
}

/** Time for which a dependency must refuse before it is an alarm: a deployment of both sides may be that long out of step. */
export const REFUSES_MS = 30 * SECOND;
/** Time for which a command must fail before it is held back, and a run without a step must last before it is stalled. */
export const HELD_BACK_MS = 10 * MINUTE;

/** A dependency that refuses the settings of calls, while commands wait for it. */
export interface RefusingService extends Refusal {
  /** Waiting commands, and their queues. */
  commands: number;
  queues: readonly string[];
  since: Date;
}

/** Returns the dependencies that have refused commands of these queues for `REFUSES_MS`, by name and status. */
export function refusingServices(queues: readonly FailingQueue[], now: number): RefusingService[] {
  const refused = queues.flatMap(({ queue, failing }) =>
    failing.flatMap(({ refusal, refusedSince: since, count }) =>
      refusal === null || since === null ? [] : [{ ...refusal, queue, since, count }],
    ),
  );
  const byCause = Map.groupBy(refused, ({ service, status }) => `${service} ${status}`);
  return [...byCause.values()]
    .flatMap((own) => {
      const [first] = own;
      if (first === undefined) return [];
      const since = new Date(Math.min(...own.map((one) => one.since.getTime())));
      const commands = own.reduce((sum, { count }) => sum + count, 0);
      return [
        { service: first.service, status: first.status, commands, queues: own.map(({ queue }) => queue).sort(), since },
      ];
    })
    .filter(({ since }) => now - since.getTime() >= REFUSES_MS)
    .sort((a, b) => a.service.localeCompare(b.service) || a.status - b.status);
}

/** Returns an alarm for each dependency that refuses calls while work waits. It ends with the last command that waits for it. */
export function refusalAlarms(queues: readonly FailingQueue[], now: number): Alarm[] {
  return refusingServices(queues, now).map((refusing) => {
    const { service, status, commands, since } = refusing;
    const settings = settingsOf(refusing);
    const waiting = `${commands} ${commands === 1 ? 'command' : 'commands'} of ${refusing.queues.join(', ')} wait`;
    return {
      kind: 'dependency-refuses',
      about: service,
      text: `the service \`${service}\` answers ${status} since ${span(now - since.getTime())} (${since.toISOString()}), and ${waiting}${commands === 1 ? 's' : ''}`,
      remedy: `correct ${either(settings)}; the commands then go on by themselves`,
      since: since.toISOString(),
      commands,
      status,
      settings,
    };
  });
}

/** Returns the number of commands of a queue that have failed for `HELD_BACK_MS`, since when, and the newest error; null: none. */
export function heldBackOf({ failing }: FailingQueue) {
  const held = failing.flatMap(({ heldBack, newest }) => (heldBack === null ? [] : [{ ...heldBack, newest }]));
  if (held.length === 0) return null;
  return {
    count: held.reduce((sum, { count }) => sum + count, 0),
    since: new Date(Math.min(...held.map(({ since }) => since.getTime()))),
    newest: held.map(({ newest }) => newest).reduce((last, one) => (one.at > last.at ? one : last)),
  };
}

/** Returns an alarm for each queue whose commands have failed for `HELD_BACK_MS`. */
export function heldBackAlarms(queues: readonly FailingQueue[], now: number): Alarm[] {
  return queues
    .filter(({ queue }) => !isEventOut(queue))
    .flatMap((facts) => heldBack(facts, now).map((told) => ({ kind: 'held-back', ...told }) as const));
}

/** Returns the same as a note for each queue of events out: no caller waits for them, and a receiver may be of another organization. */
export function heldBackNotes(queues: readonly FailingQueue[], now: number): Note[] {
  return queues
    .filter(({ queue }) => isEventOut(queue))
    .flatMap((facts) => heldBack(facts, now).map((told) => ({ kind: 'held-back-events', ...told }) as const));
}

function heldBack(facts: FailingQueue, now: number) {
  const held = heldBackOf(facts);
  if (held === null) return [];
  const { count, since, newest } = held;
  const failing = count === 1 ? '1 command has' : `${count} commands have`;
  return [
    {
      about: facts.queue,
      text: `${facts.queue}: ${failing} backed off for over 10 minutes, the first for ${span(now - since.getTime())}; newest error: ${newest.message}`,
      remedy: `remove the cause, which \`examhall trace ${newest._id}\` names; the commands then go on by themselves`,
      since: since.toISOString(),
      commands: count,
      error: newest.message,
    },
  ];
}

/** A queue whose longest run is known. */
export interface RunningQueue {
  queue: string;
  actor: string;
  /** The running command that was claimed, or has stored a step, longest ago; null: none runs. */
  stillest: { _id: string; workerId: string | null; movedAt: Date } | null;
}

/** Returns an alarm for each queue in which a run has stored no step for `HELD_BACK_MS` while its worker keeps its lease. */
export function stalledRunAlarms(queues: readonly RunningQueue[], now: number): Alarm[] {
  return queues.flatMap(({ queue, actor, stillest }) => {
    if (stillest === null || now - stillest.movedAt.getTime() < HELD_BACK_MS) return [];
    const { _id, workerId, movedAt } = stillest;
    return [
      {
        kind: 'stalled-run',
        about: queue,
        text: `${queue}: ${_id} runs since ${span(now - movedAt.getTime())} without a step, under the lease of ${workerId ?? 'a worker'}`,
        remedy: `restart that \`${actor}\` process; another then takes the command over`,
        since: movedAt.toISOString(),
      } as const,
    ];
  });
}

/** No caller waits for an event out, so what it waits for is a note. While calls fail, the service has an alarm of its own. */
export function isEventOut(queue: string): boolean {
  return EVENT_QUEUES.some((one) => one === queue);
}

/** Variables with the addresses of the channels. */
const ADDRESS_OF_CHANNEL: Readonly<Record<string, string>> = {
  webhook: 'NOTIFICATION_WEBHOOK_URL',
  email: 'NOTIFICATION_EMAIL_HOST',
  webpush: 'NOTIFICATION_WEBPUSH_PRIVATE_KEY',
};

/** Returns the variable with the address of a service. */
export function settingOf(name: string): string {
  return ADDRESS_OF_CHANNEL[name] ?? `${name.toUpperCase()}_SERVICE_URL`;
}

/** The token that calls of a process type send to the notification service, which distinguishes its senders. */
const NOTIFICATION_TOKEN_OF: Readonly<Record<string, string>> = {
  gradenotices: 'NOTIFICATION_TOKEN_ATTEMPT_SERVICE',
  accountnotices: 'NOTIFICATION_TOKEN_AUTH_SERVICE',
};
const TOKEN = 'INTERNAL_SERVICE_TOKEN';

/**
 * Returns the variables of which one is wrong: those with the credential, or that with the address of a service without such a route or method.
 * A token that is unset is read from the next variable.
 */
function settingsOf({ service, status, queues }: RefusingService): string[] {
  if (status === 404 || status === 405) return [settingOf(service)];
  if (service === 'email') return ['NOTIFICATION_EMAIL_USER', 'NOTIFICATION_EMAIL_PASSWORD'];
  if (service !== 'notification') return [TOKEN];
  const own = queues.flatMap((queue) => NOTIFICATION_TOKEN_OF[actorOf(queue as Queue)] ?? []);
  return [...new Set(own), 'NOTIFICATION_INTERNAL_SERVICE_TOKEN', TOKEN];
}

function either(settings: readonly string[]): string {
  return settings.map((name) => `\`${name}\``).join(' or ');
}

/** Every service and channel that workers call with settings of their own, as `examhall_dependency_up` names it. */
export const REFUSABLE = ['notification', 'profile', 'analytics', 'audit', 'usage', 'wallet', 'email'] as const;
