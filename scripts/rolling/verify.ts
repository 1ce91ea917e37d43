import { setTimeout as delay } from 'node:timers/promises';
import { schemaFaults } from '#infra/mongo/schema/migrate.ts';
import { exchange } from '#testing/clients/http-call.ts';
import { readAsTeacher } from '#testing/clients/sitting.ts';
import { type Book, expectedScore, refresh, rotate, type Sitting } from './book.ts';
import type { Stage } from './stage.ts';

/** One row of the report: an invariant, how many things it was checked for, and the things that break it. */
export interface Verdict {
  what: string;
  checked: number;
  faults: string[];
}

const SETTLE_MS = 90_000;
const POLL_MS = 100;
/** Runs of recurring commands are unlimited. All other commands must end. */
const UNLIMITED = 1_000_000;
const MAILBOXES = ['commands', 'attempt_notices', 'notification_deliveries'];
type Row = Record<string, unknown> & { _id: string };

/** Waits until no command is left, then checks every promise of the book on what is stored and on what the receivers got. */
export async function verifyBook(stage: Stage, book: Book): Promise<Verdict[]> {
  const unfinished = await untilSettled(stage);
  const verdicts = [
    await verifySchema(stage),
    ...(await verifySittings(stage, book)),
    await verifyNotices(stage, book),
    await verifyDeliveries(stage, book),
    await verifyFanOut(stage, book),
    await verifyJobs(stage, book),
    await verifyMoney(stage, book),
    await verifySessions(stage, book),
  ];
  const commands = await commandsOf(stage);
  const dead = commands.filter(({ status }) => status === 'DEAD');
  return [
    ...verdicts,
    { what: 'every command has ended', checked: commands.length, faults: unfinished },
    { what: 'no dead letter', checked: commands.length, faults: dead.map(nameOf) },
    {
      what: 'no call failed',
      checked: sum(stage.gateway.served.values()),
      faults: stage.gateway.failures,
    },
    { what: 'processes ended in order, logged no error', checked: 1, faults: stage.faults() },
  ];
}

const rows = ({ mongo }: Stage, name: string) => mongo.db.collection<Row>(name);

/** Returns a command as a fault states it, with all that decides when it runs next. */
function nameOf({ queue, _id, subject, lastError, attempts, nextRunAt, lockedUntil, progress }: Row): string {
  return `${queue} ${_id} ${JSON.stringify({ subject, lastError, attempts, nextRunAt, lockedUntil, progress })}`;
}

/** Returns all commands that have to end. */
async function commandsOf(stage: Stage): Promise<Row[]> {
  const found = await Promise.all(MAILBOXES.map((name) => rows(stage, name).find({}).toArray()));
  return found.flat().filter(({ maxAttempts }) => Number(maxAttempts) < UNLIMITED);
}

/** Returns the commands that do not end in time. Waits by design are cut short, as time would. */
async function untilSettled(stage: Stage): Promise<string[]> {
  const giveUpAt = performance.now() + SETTLE_MS;
  for (;;) {
    const left = (await commandsOf(stage)).filter(({ status }) => status === 'PENDING');
    if (left.length === 0 || performance.now() > giveUpAt) return left.map(nameOf);
    await hastenFanOuts(stage);
    await delay(POLL_MS);
  }
}

/**
 * Moves the two waits of a fan-out, a minute each, into the past. With `status: 'PENDING'` stand-ins of MongoDB would find no row to update,
 * with a hint too: docs/engines.md.
 */
export async function hastenFanOuts({ mongo }: Pick<Stage, 'mongo'>): Promise<void> {
  const past = Date.now() - 120_000;
  await mongo.db
    .collection('notification_fan_outs')
    .updateMany({ publishedAt: { $gt: new Date(past) } }, { $set: { publishedAt: new Date(past) } });
  const waiting = { queue: 'upkeep:fanouts', status: { $in: ['PENDING'] }, lockedUntil: null };
  const commands = mongo.db.collection('commands');
  const isLater = { ...waiting, 'progress.movedAt': { $gt: past } };
  await commands.updateMany(isLater, { $set: { 'progress.movedAt': past } });
  const isNotDue = { ...waiting, nextRunAt: { $gt: new Date() } };
  await commands.updateMany(isNotDue, { $set: { nextRunAt: new Date(past) } });
}

async function verifySchema({ mongo }: Stage): Promise<Verdict> {
  return { what: 'the schema is complete', checked: 1, faults: await schemaFaults(mongo) };
}

async function verifySittings(stage: Stage, { sittings }: Book): Promise<Verdict[]> {
  const [answers, grades]: [string[], string[]] = [[], []];
  for (const sitting of sittings) {
    const { attemptId } = sitting;
    const { data } = await readAsTeacher(stage.gateway.url, attemptId);
    const stored = new Map(data.answers.map(({ questionId, answer }) => [questionId, answer.textAnswer]));
    for (const [questionId, text] of sitting.answers)
      if (stored.get(questionId) !== text)
        answers.push(`${attemptId} ${questionId}: ${stored.get(questionId)}, saved ${text}`);
    grades.push(...(await gradeFaults(stage, sitting, data)));
    answers.push(...(await logFaults(stage, sitting)));
  }
  return [
    { what: 'no answer is lost', checked: sum(sittings.map(({ saves }) => saves)), faults: answers },
    { what: 'each attempt is graded once, right', checked: sittings.length, faults: grades },
  ];
}

async function gradeFaults(
  stage: Stage,
  sitting: Sitting,
  data: { status: string; totalScore: number | null },
): Promise<string[]> {
  const { attemptId } = sitting;
  const gradings = await rows(stage, 'commands').find({ queue: 'grading', subject: attemptId }).toArray();
  const state = `${data.status} ${data.totalScore} ${gradings.map(({ status }) => status)}`;
  const wanted = `GRADED ${expectedScore(sitting)} DONE`;
  return state === wanted ? [] : [`${attemptId}: ${state}, expected ${wanted}`];
}

/** Checks the log of an attempt: one START and one SUBMIT or TIMEOUT, each save once, numbered without a gap. */
async function logFaults(stage: Stage, { who, attemptId, saves }: Sitting): Promise<string[]> {
  const { data } = await who.log(stage.gateway.url, attemptId);
  const events = Array.isArray(data) ? data : (data as { events: { type: string }[] }).events;
  const count = (...types: string[]) => events.filter(({ type }) => types.includes(type)).length;
  const found = `${count('START')} START, ${count('SAVE_ANSWER')} SAVE_ANSWER, ${count('SUBMIT', 'TIMEOUT')} end`;
  const wanted = `1 START, ${saves} SAVE_ANSWER, 1 end`;
  return found === wanted ? [] : [`log of ${attemptId}: ${found}, expected ${wanted}`];
}

async function verifyNotices(stage: Stage, { sittings }: Book): Promise<Verdict> {
  const { notices } = stage.outside.neighbours;
  const wanted = sittings.flatMap(({ attemptId }) =>
    ['grade_released', 'grade_released_parent'].map((kind) => `${attemptId}:notification:${kind}`),
  );
  const faults = wanted
    .filter((id) => notices.get(id) !== 1)
    .map((id) => `${id} was delivered ${notices.get(id) ?? 0} times`);
  const known = new Set(wanted);
  const stored = await rows(stage, 'attempt_notices').find({}).toArray();
  for (const { _id, status } of stored)
    if (!known.has(_id) || status !== 'DELIVERED') faults.push(`${_id} is stored as ${status}`);
  return { what: 'each notice is delivered once', checked: wanted.length, faults };
}

async function verifyDeliveries(stage: Stage, { notified }: Book): Promise<Verdict> {
  const faults: string[] = [];
  for (const userId of notified) {
    const own = await rows(stage, 'notifications').find({ userId, place: 'INBOX' }).toArray();
    const sent = await rows(stage, 'notification_deliveries').find({ 'body.userId': userId }).toArray();
    const times = sent.map(({ _id }) => stage.outside.neighbours.notices.get(_id));
    const state = `${own.length} rows, ${sent.map(({ status }) => status)}, received ${times}`;
    if (state !== '1 rows, SENT, received 1') faults.push(`${userId}: ${state}`);
  }
  return { what: 'each notification is sent once', checked: notified.length, faults };
}

async function verifyFanOut(stage: Stage, { recipients }: Book): Promise<Verdict> {
  const own = await rows(stage, 'notifications')
    .find({ userId: { $in: recipients } })
    .toArray();
  const inInbox = new Set(own.filter(({ place }) => place === 'INBOX').map(({ userId }) => userId));
  const faults = recipients.filter((userId) => !inInbox.has(userId)).map((userId) => `${userId} has no row`);
  if (own.length !== recipients.length) faults.push(`${own.length} rows for ${recipients.length} recipients`);
  return { what: 'a fan-out reaches each recipient once', checked: recipients.length, faults };
}

async function verifyJobs(stage: Stage, { jobs }: Book): Promise<Verdict> {
  const faults: string[] = [];
  for (const { id, questions } of jobs) {
    const headers = { 'x-actor-id': 'teacher-1', 'x-actor-role': 'TEACHER', 'x-organization-id': 'org-1' };
    const url = `${stage.gateway.url}/v1/ai-classifier/jobs/${id}`;
    const read = () => exchange<{ job: JobView }>(url, { headers }).then(({ data }) => data.job);
    const job = await read();
    const ids = new Set(job.result?.items.map(({ questionId }) => questionId));
    const state = `${job.status}, ${ids.size} of ${job.progress.total} items, ${job.progress.succeeded} succeeded`;
    const wanted = `COMPLETED, ${questions} of ${questions} items, ${questions} succeeded`;
    if (state !== wanted) faults.push(`${id}: ${state}`);
  }
  return { what: 'each job is completed once', checked: jobs.length, faults };
}

interface JobView {
  status: string;
  result: { items: { questionId: string }[] } | null;
  progress: { total: number; succeeded: number };
}

/** Every answered generation is settled, and its usage and its debit took effect once, under its own keys. */
async function verifyMoney(stage: Stage, { topics }: Book): Promise<Verdict> {
  const { ledger } = stage.outside.neighbours;
  const found = await rows(stage, 'ai_generations').find({}).toArray();
  const faults = found
    .filter(({ state }) => state !== 'SETTLED')
    .map(({ _id, state }) => `generation ${_id} is ${state}`);
  if (found.length !== topics.size) faults.push(`${found.length} generations for ${topics.size} requests`);
  const keys = (kind: string) => found.map(({ _id }) => `ai-generation:${_id}:${kind}`);
  const differs = (wanted: string[], has: ReadonlyMap<string, unknown>) =>
    wanted.length !== has.size || wanted.some((key) => !has.has(key));
  if (differs(keys('debit'), ledger.debits)) faults.push(`the debits are ${[...ledger.debits.keys()]}`);
  if (differs(keys('usage'), ledger.consumed)) faults.push(`the usage is ${[...ledger.consumed.keys()]}`);
  const holders = await rows(stage, 'ai_generation_holds').find({}).toArray();
  for (const { _id, holds } of holders) if ((holds as unknown[]).length > 0) faults.push(`${_id} still holds credits`);
  return { what: 'each generation is paid once', checked: found.length, faults };
}

/** Each newest token is still exchanged, and the token before it is refused. */
async function verifySessions(stage: Stage, { sessions }: Book): Promise<Verdict> {
  const faults: string[] = [];
  for (const session of sessions) {
    await rotate(stage.gateway.url, session).catch((error) => void faults.push(`${session.email}: ${error.message}`));
    const again = session.used === null ? null : await refresh(stage.gateway.url, session.used);
    if (again !== null && again.status !== 401) faults.push(`${session.email}: a used token got ${again.status}`);
  }
  const rotations = sum(sessions.map((session) => session.rotations));
  return { what: 'refresh tokens rotate', checked: rotations, faults };
}

export function sum(numbers: Iterable<number>): number {
  return [...numbers].reduce((total, number) => total + number, 0);
}
