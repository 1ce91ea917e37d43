import type { ClientSession, Collection, Document, Filter } from 'mongodb';
import { readIn } from '#infra/mongo/causal-read.ts';
import { type Mongo, QUERY_LIMIT_MS } from '#infra/mongo/connect.ts';
import { tombstoneId } from '#infra/mongo/erased-persons.ts';
import { actAsOperator, type DeadLetterLine, type OperatorAct } from '#infra/mongo/operator-audit.ts';
import { type Command, type DeadLetterMark, type Queue, SUSPECT_LAPSES } from '#shared/kernel/command.ts';
import type { DeadActName } from '#shared/operations/bulk-act.ts';
import type { LetterFilter } from '#shared/operations/dead-letter.ts';
import { MAILBOX_OF, MAILBOXES, QUEUES } from './commands.ts';

/** Marks of the letters that are listed, replayed and dropped. Null also matches a letter without a mark. */
export const LISTED: readonly (DeadLetterMark | null)[] = [null, 'ACKNOWLEDGED'];

/** Marks that a letter may have before an act changes it. */
export const MARKS_BEFORE: Readonly<Record<DeadActName, readonly (DeadLetterMark | null)[]>> = {
  replay: LISTED,
  ack: [null],
  drop: LISTED,
};

/** Chooses dead letters. Dropped ones are chosen only by `letter: 'DROPPED'`. */
export interface DeadLetterFilter extends LetterFilter {
  letter?: DeadLetterMark;
}

/** Returns the conditions of a filter beside the mark. */
export function filterOf({ queue, cause, subject, since, until }: LetterFilter): Filter<Command> {
  return {
    ...(queue === undefined ? {} : { queue }),
    ...(cause === undefined ? {} : { 'lastError.fingerprint': cause }),
    ...(subject === undefined ? {} : { subject }),
    ...(since === undefined && until === undefined
      ? {}
      : { settledAt: { ...(since && { $gte: since }), ...(until && { $lt: until }) } }),
  };
}

/** A place in the walk over dead letters: after this id in this queue. An empty id is before all of them. */
export interface LetterPlace {
  queue: Queue;
  after: string;
}

/** Returns the place from which a walk begins. */
export function firstPlace({ queue }: LetterFilter): LetterPlace {
  return { queue: queue ?? QUEUES[0] ?? 'grading', after: '' };
}

/** Returns the place at the beginning of the next queue, or null after the last one. */
export function nextQueue({ queue }: LetterPlace, wanted: LetterFilter): LetterPlace | null {
  const next = wanted.queue === undefined ? QUEUES[QUEUES.indexOf(queue) + 1] : undefined;
  return next === undefined ? null : { queue: next, after: '' };
}

/** Dead commands of a queue that one step of a walk reads. A step stays within its time limit however rare the letters of its filter are. */
const MAX_READ = 2_000;
/** Steps of one page. */
const MAX_STEPS = 10;

/** The letters that a step of a walk found, and the id up to which it read; null at the end of the queue. */
export interface LetterStep {
  letters: Command[];
  readTo: string | null;
}

/** Options of a step. `read` is the number of dead commands that it reads. */
export interface StepOptions {
  limit: number;
  read?: number | undefined;
  session?: ClientSession;
  marks?: DeadLetterChange['marks'];
}

/**
 * Reads the dead commands after a place of its queue, by id, and returns at most `limit` of those that the filter chooses. A walk over
 * them meets each letter once while others are acted on.
 */
export async function lettersAfter(
  mongo: Mongo,
  { letter, ...wanted }: DeadLetterFilter,
  { queue, after }: LetterPlace,
  { limit, read = MAX_READ, session, marks = LISTED }: StepOptions,
): Promise<LetterStep> {
  const mailbox = mongo.db.collection<Command>(MAILBOX_OF[queue]);
  const options = { hint: 'dead_of_queue', maxTimeMS: QUERY_LIMIT_MS, ...readIn(session) };
  const dead = { queue, status: 'DEAD' } as const;
  // Read the end first. A command that leaves the dead ones between two reads would otherwise move it behind letters that no step has read.
  const end = await mailbox.findOne(
    { ...dead, _id: { $gt: after } },
    { ...options, projection: { _id: 1 }, sort: { _id: 1 }, skip: read - 1 },
  );
  const within = { $gt: after, ...(end === null ? {} : { $lte: end._id }) };
  const isMarked = { $in: letter === undefined ? [...marks] : [letter] };
  const letters = await mailbox
    .aggregate<Command>(
      [
        { $match: { ...dead, _id: within, letter: isMarked } },
        { $match: filterOf(wanted) },
        { $sort: { _id: 1 } },
        { $limit: limit },
      ],
      options,
    )
    .toArray();
  const last = letters.length === limit ? letters.at(-1) : undefined;
  return { letters, readTo: (last ?? end)?._id ?? null };
}

/** A page of a walk, and the place after it; null on the last page. */
interface LetterPage {
  letters: Command[];
  next: LetterPlace | null;
}

/**
 * Returns a page of letters over all queues that the filter allows, and the place after it; null on the last page. A page has fewer
 * letters, also none, if its steps read many dead commands that the filter does not choose.
 */
export async function letterPage(
  mongo: Mongo,
  wanted: DeadLetterFilter,
  from: LetterPlace,
  { limit, ...options }: Omit<StepOptions, 'session'>,
): Promise<LetterPage> {
  const letters: Command[] = [];
  let place: LetterPlace | null = from;
  for (let steps = 0; place !== null; ) {
    const found = await lettersAfter(mongo, wanted, place, { ...options, limit: limit - letters.length + 1 });
    for (const letter of found.letters) {
      if (letters.length === limit) return { letters, next: place };
      letters.push(letter);
      place = { queue: place.queue, after: letter._id };
    }
    if (found.readTo === null) {
      place = nextQueue(place, wanted);
      continue;
    }
    place = { queue: place.queue, after: found.readTo };
    steps += 1;
    if (steps === MAX_STEPS) return { letters, next: place };
  }
  return { letters, next: null };
}

/**
 * Returns at most `limit` letters that the filter chooses, in the order of the walk, so that a second call chooses the same ones while
 * nothing changes. No single read goes over more dead commands than one step of a walk.
 */
export async function chosenLetters(
  mongo: Mongo,
  wanted: DeadLetterFilter,
  { limit, ...options }: Omit<StepOptions, 'session'>,
): Promise<Command[]> {
  const letters: Command[] = [];
  for (let place: LetterPlace | null = firstPlace(wanted); place !== null && letters.length < limit; ) {
    const page: LetterPage = await letterPage(mongo, wanted, place, { ...options, limit: limit - letters.length });
    letters.push(...page.letters);
    place = page.next;
  }
  return letters;
}

/** Returns every collection of commands. */
export function mailboxesOf(mongo: Mongo): Collection<Command>[] {
  return MAILBOXES.map((name) => mongo.db.collection<Command>(name));
}

/** Returns the command with this id from any mailbox, or null. */
export async function findCommand(mongo: Mongo, id: string): Promise<Command | null> {
  for (const mailbox of mailboxesOf(mongo)) {
    const found = await mailbox.findOne({ _id: id });
    if (found !== null) return found;
  }
  return null;
}

/**
 * Replays a dead command once per death: it becomes due with its full number of attempts, and the audit gets a line, in one
 * transaction.
 *
 * Returns false and changes nothing if this death was replayed already, or if the letter is dropped. That also holds if the command has
 * died again meanwhile, because no operator has examined the new death yet. `chargeSuperseded` is the operator's consent for a settlement
 * (`SettlementBody`).
 */
export async function replayDead(
  mongo: Mongo,
  command: Command,
  by: OperatorAct,
  { chargeSuperseded = false }: { chargeSuperseded?: boolean } = {},
): Promise<boolean> {
  return changeDead(mongo, command, await replayOf(mongo, command, { chargeSuperseded }), by);
}

/**
 * Marks a dead letter and appends a line to the audit, in one transaction. Returns false and changes nothing if this death was replayed
 * already, or if the letter has this mark or is dropped.
 */
export async function markDead(
  mongo: Mongo,
  command: Command,
  letter: DeadLetterMark,
  by: OperatorAct,
): Promise<boolean> {
  return changeDead(mongo, command, await markOf(mongo, command, letter), by);
}

/** A change of a dead letter, with its line of the audit. */
export interface DeadLetterChange {
  pipeline: Document[];
  /** The marks that it may have before. */
  marks: readonly (DeadLetterMark | null)[];
  line: DeadLetterLine;
}

/** Returns the change that replays a letter; see `replayDead`. One that ended as a suspect runs alone again, and blocks no worker first. */
export async function replayOf(
  mongo: Mongo,
  command: Command,
  { chargeSuperseded = false }: { chargeSuperseded?: boolean } = {},
): Promise<DeadLetterChange> {
  const changes = {
    status: 'PENDING',
    attempts: 0,
    lapses: { $cond: [{ $gt: ['$lapses', SUSPECT_LAPSES] }, SUSPECT_LAPSES, '$lapses'] },
    nextRunAt: '$$NOW',
    dueAt: '$$NOW',
    lockedUntil: null,
    workerId: null,
    session: null,
    settledAt: null,
    replays: { $add: ['$replays', 1] },
    ...(chargeSuperseded ? { 'body.chargeSuperseded': true } : {}),
  };
  const line = { ...(await lineOf(mongo, 'dead.replay', command)), ...(chargeSuperseded ? { chargeSuperseded } : {}) };
  return {
    pipeline: [{ $set: changes }, { $unset: ['letter', 'failing', 'failingSince'] }],
    marks: MARKS_BEFORE.replay,
    line,
  };
}

/** Returns the change that marks a letter; see `markDead`. */
export async function markOf(mongo: Mongo, command: Command, letter: DeadLetterMark): Promise<DeadLetterChange> {
  const act = letter === 'DROPPED' ? 'drop' : 'ack';
  const line = await lineOf(mongo, `dead.${act}`, command);
  return { pipeline: [{ $set: { letter } }], marks: MARKS_BEFORE[act], line };
}

/** Queues whose commands may concern a person. The audit is stored for ever and names a person by a digest. */
const MAY_NAME_PERSON: ReadonlySet<Queue> = new Set<Queue>(['accountnotices', 'upkeep:deadletters']);

async function lineOf(mongo: Mongo, action: DeadLetterLine['action'], command: Command): Promise<DeadLetterLine> {
  const { _id: commandId, queue, lastError } = command;
  const subject = MAY_NAME_PERSON.has(queue) ? await tombstoneId(mongo, command.subject) : command.subject;
  return { action, commandId, queue, subject, lastError };
}

/** Changes a letter with its line of the audit, in one transaction. Returns false if it has changed since it was read. */
export function changeDead(
  mongo: Mongo,
  command: Command,
  change: DeadLetterChange,
  by: OperatorAct,
): Promise<boolean> {
  // The operator has not seen a death that comes after the read.
  if (command.status !== 'DEAD') return Promise.resolve(false);
  return actAsOperator(mongo, by, async (session) => {
    const result = await changeDeadIn(mongo, command, change, session);
    return { result, line: result ? change.line : null };
  });
}

/**
 * Changes a letter in the caller's transaction, which also appends `change.line` to the audit. Returns false and changes nothing if the
 * command is no longer in the death in which it was read, or has none of the marks.
 */
export async function changeDeadIn(
  mongo: Mongo,
  { _id, queue, key, settledAt, replays }: Command,
  { pipeline, marks }: DeadLetterChange,
  session: ClientSession,
): Promise<boolean> {
  const isSameDeath = { _id, key, status: 'DEAD', settledAt, replays, letter: { $in: marks } };
  const changed = await mongo.db
    .collection<Command>(MAILBOX_OF[queue])
    .updateOne(isSameDeath as Filter<Command>, pipeline, { session });
  return changed.matchedCount === 1;
}
