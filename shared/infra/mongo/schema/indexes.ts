import type { CreateIndexesOptions } from 'mongodb';
import { ATTEMPTS, EVENT_ROWS, SEATS, TEXT_ROWS } from '#infra/mongo/attempt/collections.ts';
import { ACCOUNTS, SECURITY_EVENTS, SESSIONS, THROTTLES, TOKENS } from '#infra/mongo/auth/collections.ts';
import {
  AI_JOB_BATCHES,
  AI_JOB_SELECTIONS,
  AI_JOBS,
  GENERATIONS,
  PROVIDER_SETTINGS,
  SETTING_CHANGES,
  USAGE_EVENTS,
} from '#infra/mongo/classifier/collections.ts';
import { WORKERS } from '#infra/mongo/live-workers.ts';
import { COMMANDS, DELIVERIES, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import {
  DELIVERY_ATTEMPTS,
  FAN_OUTS,
  NOTIFICATION_EVENTS,
  NOTIFICATIONS,
} from '#infra/mongo/notification/collections.ts';
import { OPERATOR_AUDIT } from '#infra/mongo/operator-audit.ts';
import { DAY, HOUR, SECOND } from '#shared/kernel/time.ts';

type Keys = Readonly<Record<string, 1 | -1>>;
/** What rows an index is about: fields and what they equal. */
type Equals = Readonly<Record<string, string | boolean>>;

export interface DeclaredIndex {
  collection: string;
  name: string;
  keys: Keys;
  options?: Pick<CreateIndexesOptions, 'unique' | 'partialFilterExpression' | 'expireAfterSeconds'>;
}

/**
 * Every index of the product, with the promise or the query that it carries. A unique one is what an idempotency
 * promise rests on, so a process does not start without it. A partial filter is an equality that the query repeats.
 */
export const INDEXES: readonly DeclaredIndex[] = [
  // A key starts one attempt of this student and exam for ever; aliases of a reused attempt are keys as well.
  unique(ATTEMPTS, 'start_key', { examId: 1, studentId: 1, startKeys: 1 }),
  // One open attempt per student and exam.
  unique(ATTEMPTS, 'open_attempt', { examId: 1, studentId: 1 }, { status: 'IN_PROGRESS' }),
  // Attempts are numbered without gap or twin: two starts that both counted n attempts cannot both become n + 1.
  unique(ATTEMPTS, 'attempt_number', { examId: 1, studentId: 1, attemptNumber: 1 }),
  plain(ATTEMPTS, 'by_student', { studentId: 1, startedAt: -1 }),
  // The overdue sweep.
  plain(ATTEMPTS, 'overdue', { status: 1, deadlineAt: 1 }, { status: 'IN_PROGRESS' }),
  // A release walks the attempts of its exam that have not been released, by id.
  plain(ATTEMPTS, 'unreleased', { examId: 1, 'exam.resultsReleasedAt': 1, _id: 1 }),
  // The admin summary is answered from this index alone.
  plain(ATTEMPTS, 'summary', {
    status: 1,
    submittedBy: 1,
    'tally.linked': 1,
    'tally.keyed': 1,
    'tally.scored': 1,
    'tally.released': 1,
    'tally.questions': 1,
    'tally.answers': 1,
    'tally.graded': 1,
    eventSeq: 1,
  }),
  unique(EVENT_ROWS, 'event_order', { attemptId: 1, seq: 1 }),
  plain(TEXT_ROWS, 'by_attempt', { attemptId: 1 }),
  // A seat is one student's, and a student has one seat.
  unique(SEATS, 'seat', { linkId: 1, seat: 1 }, { numbered: true }),
  unique(SEATS, 'seat_of_student', { linkId: 1, studentId: 1 }),
  // An e-mail, a code read aloud, a phone, an id of the previous system: each is one account's.
  unique(ACCOUNTS, 'email', { email: 1 }),
  unique(ACCOUNTS, 'account_code', { accountCode: 1 }),
  unique(ACCOUNTS, 'phone', { phone: 1 }, { hasPhone: true }),
  unique(ACCOUNTS, 'legacy_id', { legacyId: 1 }, { hasLegacyId: true }),
  plain(SESSIONS, 'live', { accountId: 1, endedAt: 1, expiresAt: 1 }),
  // A token that is replayed must be known as long as its signature holds, so token and session outlive it.
  expiring(SESSIONS, 'expired', 'expiresAt', 7 * DAY),
  expiring(TOKENS, 'expired', 'expiresAt', 7 * DAY),
  // Past the 24 quiet hours after which a count begins anew anyway.
  expiring(THROTTLES, 'quiet', 'lastTryAt', 25 * HOUR),
  plain(SECURITY_EVENTS, 'of_account', { accountId: 1, at: -1 }),
  expiring(SECURITY_EVENTS, 'old', 'at', 400 * DAY),
  // A user's inbox, newest first, and its counts; an admin's look over all of them.
  plain(NOTIFICATIONS, 'inbox', { userId: 1, place: 1, createdAt: -1, _id: -1 }),
  plain(NOTIFICATIONS, 'unread', { userId: 1, place: 1, isRead: 1, createdAt: -1, _id: -1 }),
  plain(NOTIFICATIONS, 'support', { userId: 1, place: 1, createdAt: -1, _id: -1 }, { isSupport: true }),
  plain(NOTIFICATIONS, 'newest', { place: 1, createdAt: -1, _id: -1 }),
  plain(NOTIFICATIONS, 'newest_unread', { place: 1, isRead: 1, createdAt: -1, _id: -1 }),
  plain(NOTIFICATIONS, 'newest_support', { place: 1, createdAt: -1, _id: -1 }, { isSupport: true }),
  // The support summary is counted from this index alone.
  plain(NOTIFICATIONS, 'support_summary', { place: 1, type: 1, isRead: 1 }, { isSupport: true }),
  // What a fan-out made: settled in this order, named again to a replay.
  plain(NOTIFICATIONS, 'by_fan_out', { fanOutId: 1, ordinal: 1 }),
  // An event of a producer makes its rows once, whichever route brings it.
  unique(NOTIFICATION_EVENTS, 'replay_key', { sourceService: 1, sourceEventId: 1 }, { replayable: true }),
  plain(NOTIFICATION_EVENTS, 'support_summary', { type: 1 }, { isSupport: true }),
  plain(FAN_OUTS, 'by_state', { state: 1, stageBy: 1 }),
  plain(DELIVERY_ATTEMPTS, 'of_user', { userId: 1, createdAt: -1, _id: -1 }),
  plain(DELIVERY_ATTEMPTS, 'of_notification', { notificationId: 1, createdAt: -1, _id: -1 }),
  plain(DELIVERY_ATTEMPTS, 'newest', { createdAt: -1, _id: -1 }),
  plain(DELIVERY_ATTEMPTS, 'support_summary', { status: 1 }, { isSupport: true }),
  expiring(DELIVERY_ATTEMPTS, 'old', 'updatedAt', 400 * DAY),
  // Classification jobs: an equal one is not made while one is open.
  unique(AI_JOBS, 'open_key', { openKey: 1 }, { open: true }),
  plain(AI_JOBS, 'open_jobs', { open: 1, _id: 1 }, { open: true }),
  plain(AI_JOBS, 'of_owner', { organizationId: 1, actorId: 1, createdAt: -1, _id: -1 }),
  plain(AI_JOBS, 'of_owner_by_status', { organizationId: 1, actorId: 1, status: 1, createdAt: -1, _id: -1 }),
  // The queue summary is counted from this index alone.
  plain(AI_JOBS, 'by_status', { status: 1, finishedAt: -1 }),
  plain(AI_JOB_BATCHES, 'of_job', { jobId: 1, index: 1 }),
  // Of equal requests one makes the row of an epoch; the newest is the one that they meet.
  unique(GENERATIONS, 'epoch', { key: 1, epoch: 1 }),
  // Rows that came to nothing; the field is taken out with the answer, so that what is owed never goes.
  expiring(GENERATIONS, 'idle', 'idleSince', 7 * DAY),
  // Who asked which model how often, for a year and a month.
  expiring(USAGE_EVENTS, 'old', 'createdAt', 400 * DAY),
  ...mailboxIndexes(COMMANDS),
  ...mailboxIndexes(NOTICES),
  ...mailboxIndexes(DELIVERIES),
  plain(OPERATOR_AUDIT, 'newest', { at: -1 }),
  // Rows of killed worker processes; a live one writes its row every few seconds.
  expiring(WORKERS, 'silent', 'seenAt', HOUR),
];

/**
 * Collections that have no index but `_id` and into which transactions insert. The first insert would make them, but that takes a lock
 * for which a transaction waits 5 ms, and of transactions that do so together all but one begin anew.
 */
export const MADE_BEFOREHAND: readonly string[] = [AI_JOB_SELECTIONS, PROVIDER_SETTINGS, SETTING_CHANGES];

function mailboxIndexes(collection: string): DeclaredIndex[] {
  return [
    plain(collection, 'due', { queue: 1, status: 1, nextRunAt: 1 }, { status: 'PENDING' }),
    unique(collection, 'live_key', { key: 1 }, { live: true }),
    plain(collection, 'dead', { status: 1, settledAt: -1 }, { status: 'DEAD' }),
    // A rejected command freed its key and promises nothing more: it stays for a week, for whoever asks why.
    {
      collection,
      name: 'rejected',
      keys: { settledAt: 1 },
      options: { expireAfterSeconds: (7 * DAY) / SECOND, ...filteredBy({ status: 'REJECTED' }) },
    },
  ];
}

/** Rows go so many milliseconds after the date in `field`, some time: tidying, on which no answer depends. */
function expiring(collection: string, name: string, field: string, afterMs: number): DeclaredIndex {
  return { collection, name, keys: { [field]: 1 }, options: { expireAfterSeconds: afterMs / SECOND } };
}

function plain(collection: string, name: string, keys: Keys, where?: Equals): DeclaredIndex {
  return { collection, name, keys, ...(where === undefined ? {} : { options: filteredBy(where) }) };
}

function unique(collection: string, name: string, keys: Keys, where?: Equals): DeclaredIndex {
  return { collection, name, keys, options: { unique: true, ...(where === undefined ? {} : filteredBy(where)) } };
}

function filteredBy(where: Equals): { partialFilterExpression: Equals } {
  return { partialFilterExpression: where };
}
