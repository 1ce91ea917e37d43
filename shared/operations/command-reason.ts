import { actorOf, type Command, FRONT_DOOR, type Queue, SUSPECT_LAPSES } from '#shared/kernel/command.ts';
import type { FailureCode } from '#shared/kernel/failure.ts';
import { type Effect, type Reason, reason, span, suppressionReason } from './reasons.ts';

/** A worker process that is alive, as its row describes it. */
export interface LiveWorker {
  _id: string;
  actor: string;
  /** The queues that it serves. */
  queues: readonly string[];
  slots: number;
  /** Ids of the commands that it runs. */
  busy: readonly string[];
}

/** The state of the cluster on which a reason depends. */
export interface ClusterFacts {
  /** Unix milliseconds by MongoDB's clock. */
  now: number;
  workers: readonly LiveWorker[];
  redis: 'up' | 'down' | 'unknown';
}

export type TracedCommand = Pick<
  Command,
  | '_id'
  | 'queue'
  | 'status'
  | 'attempts'
  | 'maxAttempts'
  | 'lapses'
  | 'nextRunAt'
  | 'lockedUntil'
  | 'workerId'
  | 'result'
  | 'lastError'
  | 'replays'
> & { body?: unknown };

/** The effect that a command has not had, as the beginning of a verdict. */
export const EFFECTS: Readonly<Record<Queue, Effect>> = {
  grading: 'not graded',
  essayhandoff: 'handoff not applied',
  resultsrelease: 'results not released everywhere',
  examroom: 'act of an examiner not finished',
  'gradenotices:student': 'student not notified',
  'gradenotices:parent': 'parents not notified',
  accountnotices: 'owner not notified',
  'delivery:log': 'not delivered over `log`',
  'delivery:webhook': 'not delivered over `webhook`',
  'delivery:email': 'not delivered over `email`',
  'delivery:webpush': 'not delivered over `webpush`',
  classifier: 'job not finished',
  settlement: 'generation not charged',
  upkeep: 'sweep not run',
  'upkeep:fanouts': 'fan-out not finished',
  'upkeep:deadletters': 'bulk act not finished',
  'upkeep:analytics': 'not reported to analytics',
  'upkeep:audit': 'not reported to audit',
  'upkeep:publish': 'event not published',
  'upkeep:webhooks': 'event not sent to a subscriber',
};

const OLD_VERSION = ['the worker does not serve the queue', 'deploy the same version everywhere'] as const;

/** Why a queue has no handler although its actor runs, and the setting that cures it. */
const UNSERVED: Readonly<Record<Queue, readonly [text: string, remedy: string]>> = {
  grading: OLD_VERSION,
  essayhandoff: OLD_VERSION,
  resultsrelease: OLD_VERSION,
  examroom: OLD_VERSION,
  upkeep: OLD_VERSION,
  'upkeep:fanouts': OLD_VERSION,
  'upkeep:deadletters': OLD_VERSION,
  'upkeep:publish': OLD_VERSION,
  'upkeep:webhooks': OLD_VERSION,
  'upkeep:analytics': ['the analytics service is not configured', 'set `ANALYTICS_SERVICE_URL`'],
  'upkeep:audit': ['the audit service is not configured', 'set `AUDIT_SERVICE_URL`'],
  'gradenotices:student': ['the notification service is not configured', 'set `NOTIFICATION_SERVICE_URL`'],
  'gradenotices:parent': ['the profile service is not configured', 'set `PROFILE_SERVICE_URL`'],
  accountnotices: ['the notification service is not configured', 'set `NOTIFICATION_SERVICE_URL`'],
  'delivery:log': ['the channel `log` is not configured', 'set `NOTIFICATION_CHANNELS`'],
  'delivery:webhook': ['the channel `webhook` is not configured', 'set `NOTIFICATION_CHANNELS`'],
  'delivery:email': ['the channel `email` is not configured', 'set `NOTIFICATION_CHANNELS`'],
  'delivery:webpush': ['the channel `webpush` is not configured', 'set `NOTIFICATION_CHANNELS`'],
  classifier: ['the classifier worker is switched off', 'set `AI_CLASSIFIER_WORKER_ENABLED=1`'],
  settlement: [
    'the settlement worker is switched off, or the usage or the wallet service is not configured',
    'set `AI_GENERATION_SETTLEMENT_WORKER_ENABLED=1` and the URLs of both services',
  ],
};

/** Returns why a command has not had its effect, or null if it had it. `graded` is false if its attempt waits for the grade. Pure. */
export function commandReason(command: TracedCommand, cluster: ClusterFacts, graded = true): Reason | null {
  switch (command.status) {
    case 'DEAD':
      return deadReason(command);
    case 'REJECTED':
      return reason('REJECTED', `a rule refused it: ${codeOf(command.result)}`);
    case 'SUPPRESSED':
      return suppressionReason(textIn(command.result, 'reason') ?? 'GONE');
    case 'DELIVERED':
      return command.queue === 'gradenotices:parent' && isNobody(command.result)
        ? reason('NO_PARENTS', 'the profile service knows no parents of the student', 'add the parents there')
        : null;
    case 'PENDING':
      return pendingReason(command, cluster, graded);
    default:
      return null;
  }
}

function deadReason(command: TracedCommand): Reason {
  const { _id, lastError, attempts } = command;
  const message = lastError?.message ?? 'no error is stored';
  const replay = `remove the cause, then \`examhall dead replay ${_id}\``;
  switch (lastError?.code) {
    case 'WORKER_KILLED':
      return reason('WORKER_KILLED', `dead: its worker ended at each of ${attempts} attempts`, replay);
    case 'POISONED':
      return reason('POISONED', `dead: ${message}`, replay);
    case 'RECEIVER_REFUSED':
      return reason('RECEIVER_REFUSED', `dead: ${message}, which is final`, replay);
    default:
      return reason('DEAD', `dead after ${attempts} attempts: ${message}`, replay);
  }
}

function pendingReason(command: TracedCommand, cluster: ClusterFacts, graded: boolean): Reason {
  const { queue, nextRunAt, lockedUntil, workerId } = command;
  const { now, workers, redis } = cluster;
  const actor = actorOf(queue);
  const own = workers.filter((worker) => worker.actor === actor);
  const leaseEnd = lockedUntil?.getTime() ?? 0;
  const isSuspect = command.lapses === SUSPECT_LAPSES;
  if (leaseEnd > now) {
    if (isSuspect) return reason('RUNNING', `runs alone, for ${span(leaseEnd - now)} at most: ${SUSPICION}`);
    const holder = workerId ?? 'a worker';
    if (holder.startsWith(FRONT_DOOR) || own.some(({ _id }) => _id === workerId))
      return reason('RUNNING', `runs now, under the lease of ${holder}`);
    if (own.length > 0)
      return lost(`its worker ${holder} was lost; another goes on when the lease ends in`, leaseEnd - now);
    return noWorker(actor, `its worker ${holder} was lost, and no other \`${actor}\` worker is alive`);
  }
  const serving = own.filter(({ queues }) => queues.includes(queue));
  if (own.length > 0 && serving.length === 0) return unservedReason(queue, own);
  if (isSuspect && leaseEnd === 0) {
    return own.length === 0
      ? noWorker(actor, `no live \`${actor}\` worker runs it alone: ${SUSPICION}`)
      : reason('HELD', `held until it can run alone: ${SUSPICION}`);
  }
  const waitMs = nextRunAt.getTime() - now;
  if (waitMs > 0) {
    const planned = plannedWait(command, now, graded);
    if (planned !== null) return planned;
  }
  if (own.length === 0) {
    const since = waitMs > 0 ? `1 command due in ${span(waitMs)}` : `1 command due since ${span(-waitMs)}`;
    return noWorker(actor, `no live \`${actor}\` worker; ${since}`);
  }
  if (waitMs > 0) return backingOff(command, waitMs);
  if (leaseEnd > 0)
    return lost(`its worker ${workerId ?? ''} was lost; a live worker takes it over, due since`, -waitMs);
  if (serving.every(({ slots, busy }) => busy.length >= slots)) {
    return reason(
      'NO_FREE_SLOT',
      `every slot of \`${actor}\` is busy; due since ${span(-waitMs)}`,
      `scale \`${actor}\``,
    );
  }
  if (redis === 'down') {
    return reason(
      'REDIS_UNAVAILABLE',
      'Redis does not answer or stores no rings; the poll runs it within a second',
      'check Redis',
    );
  }
  return reason('DUE', `due since ${span(-waitMs)}; a live worker polls the queue`);
}

/** Why a command runs only alone. */
const SUSPICION = 'two of its runs did not end';

/** Returns the reason of a wait that was decided with the command, and not by a failure; null for any other wait. */
function plannedWait({ queue, nextRunAt, lastError, body }: TracedCommand, now: number, graded: boolean) {
  const notBefore = dateIn(body, 'notBefore');
  if (notBefore !== null && notBefore.getTime() > now) {
    return reason(
      'RELEASE_AHEAD',
      `the release time is ${notBefore.toISOString()}, in ${span(notBefore.getTime() - now)}`,
    );
  }
  if (queue === 'essayhandoff' && !graded) return reason('WAITS_FOR_GRADE', 'the attempt waits for its grade');
  if (lastError !== null) return null;
  return queue === 'upkeep' ? reason('RUNNING', `the sweep runs again at ${nextRunAt.toISOString()}`) : null;
}

function backingOff(command: TracedCommand, waitMs: number): Reason {
  const { nextRunAt, lastError, attempts, maxAttempts } = command;
  const next = `next at ${nextRunAt.toISOString()}, in ${span(waitMs)}`;
  if (lastError === null) return reason('SCHEDULED', next);
  const { message, code } = lastError;
  return code !== null && Object.hasOwn(REMEDIES, code)
    ? reason(code, `${message}; ${next}`, REMEDIES[code])
    : reason('BACKS_OFF', `attempt ${attempts} of ${maxAttempts} failed: ${message}; ${next}`);
}

/** The next step of an operator for a command that waits after such a failure. */
const REMEDIES: Readonly<Partial<Record<FailureCode, string>>> = {
  CIRCUIT_OPEN: 'check the model provider',
  MISCONFIGURED: 'check the URL, the token and the name of the sender',
  WALLET_EMPTY: 'top up the wallet',
  OWNER_FAILED: 'check that service',
};

/** Returns why no live worker of its actor serves a queue. */
export function unservedReason(queue: Queue, own: readonly Pick<LiveWorker, 'queues'>[]): Reason {
  const [text, remedy] = UNSERVED[queue];
  // Parents need both services. Without any queue, the notification service is the missing one.
  const isNeither = queue === 'gradenotices:parent' && own.every(({ queues }) => queues.length === 0);
  return isNeither ? unservedReason('gradenotices:student', own) : reason('NOT_CONFIGURED', text, remedy);
}

function noWorker(actor: string, text: string): Reason {
  return reason('NO_WORKER', text, `scale \`${actor}\``);
}

function lost(text: string, ms: number): Reason {
  return reason('WORKER_LOST', `${text} ${span(ms)}`);
}

function codeOf(result: unknown): string {
  return textIn(result, 'rejected') ?? 'unknown';
}

function isNobody(result: unknown): boolean {
  return typeof result === 'object' && result !== null && 'recipients' in result && result.recipients === 0;
}

function textIn(value: unknown, field: string): string | null {
  const found = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[field] : undefined;
  return typeof found === 'string' ? found : null;
}

function dateIn(value: unknown, field: string): Date | null {
  const found = typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[field] : undefined;
  return found instanceof Date ? found : null;
}
