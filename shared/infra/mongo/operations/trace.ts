import { sessions } from '#infra/mongo/auth/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { COMMANDS } from '#infra/mongo/mailbox/commands.ts';
import { findCommand } from '#infra/mongo/mailbox/dead-letters.ts';
import { deliveryAttempts } from '#infra/mongo/notification/collections.ts';
import { releaseKey } from '#shared/attempt/commands.ts';
import type { Command } from '#shared/kernel/command.ts';
import { SENDERS } from '#shared/notification/event.ts';
import type { ClusterFacts } from '#shared/operations/command-reason.ts';
import {
  folded,
  type LineKind,
  type Summary,
  summaryOf,
  type TraceLine,
  timelineOf,
} from '#shared/operations/timeline.ts';
import { addAccount } from './account-lines.ts';
import { addAttempt, addAttemptsOfStudent, addExam } from './attempt-lines.ts';
import { addGeneration, addJob, addModelWork } from './classifier-lines.ts';
import { addEvent, addEventsOf, addInbox, addNotification, addSuppressed } from './notification-lines.ts';
import { addActsOnPerson, addCommand, BOUND, commandsOfRequest, openReading, type Reading } from './reading.ts';

/** The object or person of a trace. `id` is any id of the system; `student` and `user` are ids of persons. */
export interface Asked {
  by: 'id' | 'student' | 'exam' | 'user';
  value: string;
}

const PREFIXES = ['student', 'exam', 'user'] as const;

/** Reads what an operator types: any id, or `student:`, `exam:` or `user:` and an id. Null: the id is missing. */
export function readAsked(text: string): Asked | null {
  for (const by of PREFIXES) {
    if (text.startsWith(`${by}:`))
      return text.length === by.length + 1 ? null : { by, value: text.slice(by.length + 1) };
  }
  return text === '' ? null : { by: 'id', value: text };
}

export interface Trace extends Summary {
  /** The kind of object that the id names: `attempt`, `exam`, `student`, `user`, `job` and so on. */
  subject: string;
  /** Id of the person whose data the trace is, if it is the trace of a person. */
  person: string | null;
  lines: TraceLine[];
  /** Kinds of lines of which the oldest or the last ones were left out. */
  cut: LineKind[];
}

/** Reads one timeline of everything that happened to an object or a person, and why something did not. Null: nothing is stored. */
export async function readTrace(
  mongo: Mongo,
  { by, value }: Asked,
  facts: Pick<ClusterFacts, 'now' | 'redis'>,
): Promise<Trace | null> {
  const reading = await openReading(mongo, facts);
  const subject = by === 'id' ? await addById(reading, value) : await addByField(reading, by, value);
  if (subject === null) return null;
  const lines = timelineOf(reading.lines);
  const person = subject.person ?? null;
  return {
    subject: subject.kind,
    person,
    ...summaryOf(lines),
    lines: folded(lines),
    cut: [...reading.cut].sort(),
  };
}

interface Subject {
  kind: string;
  person?: string;
}

async function addByField(reading: Reading, by: Exclude<Asked['by'], 'id'>, value: string): Promise<Subject | null> {
  switch (by) {
    case 'exam':
      return (await addExam(reading, value)) ? { kind: 'exam' } : null;
    case 'student': {
      const found = await addAttemptsOfStudent(reading, value);
      return found || (await addActsOnPerson(reading, value)) > 0 ? { kind: 'student', person: value } : null;
    }
    case 'user':
      return (await addUser(reading, value)) ? { kind: 'user', person: value } : null;
    default:
      return by satisfies never;
  }
}

/** Adds the account, the inbox, the model work and the acts on a person. A user of another identity service has no account here. */
async function addUser(reading: Reading, id: string): Promise<boolean> {
  const account = await addAccount(reading, id);
  const rows = await addInbox(reading, id);
  const work = await addModelWork(reading, id);
  const acts = await addActsOnPerson(reading, id);
  return account || rows + work + acts > 0;
}

/** Finds the object of an id. The kinds are searched in turn, the most frequent first, because an id does not name its kind. */
async function addById(reading: Reading, id: string): Promise<Subject | null> {
  const { mongo } = reading;
  if (await addAttempt(reading, id)) return { kind: 'attempt' };
  const command = await findCommand(mongo, id);
  if (command !== null) return addAroundCommand(reading, command);
  if (await addEvent(reading, id)) return { kind: 'event' };
  if (await addNotification(reading, id)) return { kind: 'notification' };
  if (await addJob(reading, id)) return { kind: 'job' };
  if (await addGeneration(reading, id)) return { kind: 'generation' };
  if (await addAccount(reading, id)) {
    await addUser(reading, id);
    return { kind: 'account', person: id };
  }
  const session = await sessions(mongo).findOne({ _id: id }, { ...BOUND, projection: { accountId: 1 } });
  if (session !== null) {
    await addAccount(reading, session.accountId);
    return { kind: 'session', person: session.accountId };
  }
  const sent = await deliveryAttempts(mongo).findOne({ _id: id }, { ...BOUND, projection: { notificationId: 1 } });
  if (sent !== null && (await addNotification(reading, sent.notificationId))) return { kind: 'delivery attempt' };
  return addBySource(reading, id);
}

/** Finds what another service has sent under its own id: a release, or an event with notifications. */
async function addBySource(reading: Reading, id: string): Promise<Subject | null> {
  const release = await reading.mongo.db
    .collection<Command>(COMMANDS)
    .findOne({ key: releaseKey(id), live: true }, BOUND);
  if (release !== null) return addAroundCommand(reading, release as Command);
  const found = await addEventsOf(reading, { sourceService: [...SENDERS, ANALYTICS], sourceEventIds: [id] });
  return found ? { kind: 'event' } : addRequest(reading, id);
}

/** Adds what a request has posted, directly or through other commands, and whom it did not notify. Any other is in the log of `web` only. */
async function addRequest(reading: Reading, requestId: string): Promise<Subject | null> {
  const commands = await commandsOfRequest(reading, requestId);
  for (const command of commands) addCommand(reading, command);
  const suppressed = await addSuppressed(reading, { requestId });
  return commands.length + suppressed > 0 ? { kind: 'request' } : null;
}

const ANALYTICS = 'analytics-service';

/** Adds a command and everything about its subject. A command outlives its subject, so its own line is always there. */
async function addAroundCommand(reading: Reading, command: Command): Promise<Subject> {
  const { queue, subject } = command;
  const kind = 'command';
  switch (queue) {
    case 'grading':
    case 'essayhandoff':
    case 'gradenotices:student':
    case 'gradenotices:parent':
    case 'upkeep:analytics':
      if (!(await addAttempt(reading, subject))) addCommand(reading, command);
      return { kind };
    case 'resultsrelease':
      await addExam(reading, subject);
      break;
    case 'examroom':
      if (!(await addAttempt(reading, subject))) await addExam(reading, subject);
      break;
    case 'delivery:log':
    case 'delivery:webhook':
    case 'delivery:email':
    case 'delivery:webpush':
      await addNotification(reading, subject);
      break;
    case 'upkeep:fanouts':
    case 'upkeep:audit':
      await addEvent(reading, subject);
      break;
    case 'classifier':
      await addJob(reading, subject);
      break;
    case 'settlement':
      await addGeneration(reading, subject);
      break;
    case 'accountnotices':
      await addAccount(reading, subject);
      addCommand(reading, command);
      return { kind, person: subject };
    case 'upkeep:publish':
    case 'upkeep:webhooks':
      await addAroundEvent(reading, subject);
      break;
    case 'upkeep':
    case 'upkeep:deadletters':
      break;
    default:
      return queue satisfies never;
  }
  addCommand(reading, command);
  return { kind };
}

/** Adds what an event to subscribers is about: an attempt, an exam or a job. */
async function addAroundEvent(reading: Reading, subject: string): Promise<void> {
  if (await addAttempt(reading, subject)) return;
  if (!(await addJob(reading, subject))) await addExam(reading, subject);
}
