import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { findTombstone, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { liveWorkers } from '#infra/mongo/live-workers.ts';
import { MAILBOX_OF, MAILBOXES } from '#infra/mongo/mailbox/commands.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { type Command, UNLIMITED_ATTEMPTS } from '#shared/kernel/command.ts';
import { deliveryJobState } from '#shared/notification/delivery.ts';
import { type ClusterFacts, commandReason, EFFECTS } from '#shared/operations/command-reason.ts';
import { type LineKind, type TraceLine, traceLine } from '#shared/operations/timeline.ts';

/** Rows that one query of a trace reads. A trace reads newest rows first and names the queries that had more. */
export const CAP = 200;
export const BOUND = { maxTimeMS: QUERY_LIMIT_MS };

/** One trace that is being read. */
export interface Reading {
  mongo: Mongo;
  cluster: ClusterFacts;
  lines: TraceLine[];
  /** Kinds of lines of which older ones were left out. */
  cut: Set<LineKind>;
}

/** Opens a trace: reads the live workers, on which the reasons of all its commands depend. */
export async function openReading(mongo: Mongo, facts: Pick<ClusterFacts, 'now' | 'redis'>): Promise<Reading> {
  const workers = await liveWorkers(mongo, facts.now);
  return { mongo, cluster: { ...facts, workers }, lines: [], cut: new Set() };
}

/** Returns the rows up to `cap`, and notes that the kind was cut if there are more. The query reads `cap + 1`. */
export function capped<Row>({ cut }: Reading, kind: LineKind, rows: readonly Row[], cap = CAP): readonly Row[] {
  if (rows.length <= cap) return rows;
  cut.add(kind);
  return rows.slice(0, cap);
}

const LINE_OF = { commands: 'command', attempt_notices: 'notice', notification_deliveries: 'delivery' } as const;

/** Adds the line of a command, a notice or a delivery. `graded` is false while its attempt waits for the grade. */
export function addCommand({ lines, cluster }: Reading, command: Command, graded = true): void {
  const { _id: id, queue, status, attempts, maxAttempts, nextRunAt, settledAt, createdAt, subject } = command;
  const kind = LINE_OF[MAILBOX_OF[queue]];
  const isLeased = (command.lockedUntil?.getTime() ?? 0) > cluster.now;
  const isPending = status === 'PENDING';
  const pending = isLeased ? 'LEASED' : 'PENDING';
  lines.push(
    traceLine({
      at: createdAt,
      kind,
      id,
      state: kind === 'delivery' ? deliveryJobState(status, isLeased) : isPending ? pending : status,
      what: queue,
      about: subject,
      attempt: maxAttempts === UNLIMITED_ATTEMPTS ? null : { n: attempts, max: maxAttempts },
      nextAt: isPending ? nextRunAt : null,
      endedAt: settledAt,
      requestId: command.cause?.requestId ?? null,
      reason: commandReason(command, cluster, graded),
      effect: EFFECTS[queue],
    }),
  );
}

/** Returns the commands of these subjects from the named mailboxes, newest first. */
export async function commandsOf(
  reading: Reading,
  subjects: readonly string[],
  mailboxes: readonly (typeof MAILBOXES)[number][],
): Promise<Command[]> {
  if (subjects.length === 0) return [];
  const found = await Promise.all(
    mailboxes.map(async (name) => {
      const rows = await reading.mongo.db
        .collection<Command>(name)
        .find({ subject: { $in: [...subjects] } }, BOUND)
        .sort({ _id: -1 })
        .limit(CAP + 1)
        .toArray();
      return capped(reading, LINE_OF[name], rows as Command[]);
    }),
  );
  return found.flat();
}

/** Returns the commands, notices and deliveries that one request has caused, newest first. */
export async function commandsOfRequest(reading: Reading, requestId: string): Promise<Command[]> {
  const found = await Promise.all(
    MAILBOXES.map(async (name) => {
      const rows = await reading.mongo.db
        .collection<Command>(name)
        .find({ 'cause.requestId': requestId }, BOUND)
        .sort({ _id: -1 })
        .limit(CAP + 1)
        .toArray();
      return capped(reading, LINE_OF[name], rows as Command[]);
    }),
  );
  return found.flat();
}

/**
 * Adds the acts of operators on these subjects: replays of their commands, changes of an account, reads of a person's data. A bulk act that
 * was requested for a subject names its digest.
 */
export async function addActs(
  reading: Reading,
  subjects: readonly string[],
  only?: readonly string[],
): Promise<number> {
  if (subjects.length === 0) return 0;
  const digests = await Promise.all(subjects.map((subject) => tombstoneId(reading.mongo, subject)));
  const rows = await operatorAudit(reading.mongo)
    .find(
      {
        subject: { $in: [...subjects, ...digests] },
        ...(only === undefined ? {} : { action: { $in: [...only] as never } }),
      },
      { ...BOUND, hint: 'subject_in_pages', sort: { at: -1 }, limit: CAP + 1 },
    )
    .toArray();
  for (const row of capped(reading, 'act', rows)) {
    const about = 'commandId' in row ? row.commandId : row.subject;
    reading.lines.push(
      traceLine({ at: row.at, kind: 'act', id: row._id, state: row.action, what: row.operator, about }),
    );
  }
  return rows.length;
}

/** Adds the acts on a person, whom the audit names by the id of an account or by a digest, and the tombstone of an erased one. */
export async function addActsOnPerson(reading: Reading, personId: string): Promise<number> {
  const count = await addActs(reading, [personId]);
  const tombstone = await findTombstone(reading.mongo, personId);
  if (tombstone === null) return count;
  const { _id: id, state, operator: what, begunAt: at, erasedAt: endedAt } = tombstone;
  reading.lines.push(traceLine({ at, kind: 'act', id, state, what, endedAt }));
  return count + 1;
}
