import { ACCOUNTS, KNOWN_PAIRS, SECURITY_EVENTS, SESSIONS, THROTTLES, TOKENS } from '#infra/mongo/auth/collections.ts';
import {
  AI_JOB_BATCHES,
  AI_JOB_SELECTIONS,
  AI_JOBS,
  GENERATIONS,
  PREVIEW_LEASES,
  PROVIDER_SETTINGS,
  SETTING_CHANGES,
  USAGE_EVENTS,
} from '#infra/mongo/classifier/collections.ts';
import { ERASED_PERSONS } from '#infra/mongo/erased-persons.ts';
import { WORKERS } from '#infra/mongo/live-workers.ts';
import { COMMANDS, DELIVERIES, NOTICES } from '#infra/mongo/mailbox/commands.ts';
import {
  ALERT_CALLS,
  DELIVERY_ATTEMPTS,
  FAN_OUTS,
  NOTIFICATION_EVENTS,
  NOTIFICATIONS,
  PUSH_SUBSCRIPTIONS,
  SNAPSHOT_IDS,
  SUPPRESSIONS,
} from '#infra/mongo/notification/collections.ts';
import { CONSOLE_ENDS } from '#infra/mongo/operations/console-ends.ts';
import { CLUSTER_SAMPLES, SAMPLE_KEPT_MS } from '#infra/mongo/operations/samples.ts';
import { SUBSCRIPTIONS } from '#infra/mongo/operations/subscriptions.ts';
import { OPERATOR_AUDIT } from '#infra/mongo/operator-audit.ts';
import { dueInTurns, EVENT_QUEUES, SUSPECT_LAPSES, TURN_QUEUES } from '#shared/kernel/command.ts';
import { DAY, HOUR } from '#shared/kernel/time.ts';
import { ATTEMPT_INDEXES } from './attempt-indexes.ts';
import { type DeclaredIndex, expiring, plain, unique } from './index-rules.ts';
import type { CollectionName } from './personal-fields.ts';

/**
 * Every index of the product, each with the promise or the query that depends on it. Idempotency depends on the unique ones, so a
 * process does not start without them. A partial filter is an equality that the query repeats. A unique index begins with the shard key
 * of its collection (`shard-keys.ts`).
 *
 * A migration drops no index, so keys and options never change under a name, and no keys get a second name.
 */
export const INDEXES: readonly DeclaredIndex[] = [
  ...ATTEMPT_INDEXES,
  // An e-mail, an account code, a phone and an id of the previous system each belong to one account.
  unique(ACCOUNTS, 'email', { email: 1 }),
  unique(ACCOUNTS, 'account_code', { accountCode: 1 }),
  unique(ACCOUNTS, 'phone', { phone: 1 }, { hasPhone: true }),
  unique(ACCOUNTS, 'legacy_id', { legacyId: 1 }, { hasLegacyId: true }),
  plain(SESSIONS, 'live', { accountId: 1, endedAt: 1, expiresAt: 1 }),
  // A replayed token must be recognized as long as its signature is valid, so token and session rows stay longer than that.
  expiring(SESSIONS, 'expired', 'expiresAt', 7 * DAY),
  expiring(TOKENS, 'expired', 'expiresAt', 7 * DAY),
  plain(TOKENS, 'of_account', { accountId: 1 }),
  // Later than the 24 hours without a login attempt after which the count starts again anyway.
  expiring(THROTTLES, 'quiet', 'lastTryAt', 25 * HOUR),
  // An operator clears the counts of all pairs of an account.
  plain(KNOWN_PAIRS, 'of_account', { account: 1 }),
  // Later than the 30 days after which a pair is no longer known anyway.
  expiring(KNOWN_PAIRS, 'forgotten', 'signedInAt', 31 * DAY),
  plain(SECURITY_EVENTS, 'of_account', { accountId: 1, at: -1 }),
  expiring(SECURITY_EVENTS, 'old', 'at', 400 * DAY),
  // A user's inbox, newest first, and its counts. The `newest` indexes serve the admin's list of all inboxes.
  plain(NOTIFICATIONS, 'inbox', { userId: 1, place: 1, createdAt: -1, _id: -1 }),
  plain(NOTIFICATIONS, 'unread', { userId: 1, place: 1, isRead: 1, createdAt: -1, _id: -1 }),
  plain(NOTIFICATIONS, 'support', { userId: 1, place: 1, createdAt: -1, _id: -1 }, { isSupport: true }),
  plain(NOTIFICATIONS, 'newest', { place: 1, createdAt: -1, _id: -1 }),
  plain(NOTIFICATIONS, 'newest_unread', { place: 1, isRead: 1, createdAt: -1, _id: -1 }),
  plain(NOTIFICATIONS, 'newest_support', { place: 1, createdAt: -1, _id: -1 }, { isSupport: true }),
  // The support summary is counted from this index alone.
  plain(NOTIFICATIONS, 'support_summary', { place: 1, type: 1, isRead: 1 }, { isSupport: true }),
  // The rows of a fan-out, in the order in which they are moved. A replay returns the same rows.
  plain(NOTIFICATIONS, 'by_fan_out', { fanOutId: 1, ordinal: 1 }),
  plain(NOTIFICATIONS, 'of_entity', { entityId: 1 }),
  plain(NOTIFICATIONS, 'of_actor', { actorId: 1 }),
  // An event of a producer creates its rows once, whichever route receives it.
  unique(NOTIFICATION_EVENTS, 'replay_key', { sourceService: 1, sourceEventId: 1 }, { replayable: true }),
  // An event that a user sends creates its rows once. Its key belongs to the user and meets no event of a service or of another user.
  unique(
    NOTIFICATION_EVENTS,
    'replay_key_of_actor',
    { actorId: 1, sourceService: 1, sourceEventId: 1 },
    { replayableByActor: true },
  ),
  // The browsers of a user, newest first. The `_id` makes a browser the browser of one user.
  plain(PUSH_SUBSCRIPTIONS, 'of_user', { userId: 1, createdAt: -1, _id: -1 }),
  // Later than the hour within which calls are counted.
  expiring(ALERT_CALLS, 'quiet', 'lastAt', 2 * HOUR),
  plain(NOTIFICATION_EVENTS, 'support_summary', { type: 1 }, { isSupport: true }),
  plain(NOTIFICATION_EVENTS, 'of_entity', { entityId: 1 }),
  plain(NOTIFICATION_EVENTS, 'of_actor', { actorId: 1 }),
  plain(NOTIFICATION_EVENTS, 'of_target', { targetUserIds: 1 }),
  // The trace of a user finds the events that did not notify the user. An event without such recipients adds one empty key.
  plain(NOTIFICATION_EVENTS, 'of_suppressed', { 'suppressed.userId': 1 }),
  // The trace of a user, and that of a request, find what created no notification. The reason is of use for some weeks.
  plain(SUPPRESSIONS, 'of_user', { userId: 1, at: -1 }),
  plain(SUPPRESSIONS, 'of_request', { requestId: 1 }),
  expiring(SUPPRESSIONS, 'old', 'at', 30 * DAY),
  // The retention reads events by age; it finds notifications by `newest` and jobs by `by_status`.
  plain(NOTIFICATION_EVENTS, 'retention', { createdAt: 1 }),
  plain(FAN_OUTS, 'by_state', { state: 1, stageBy: 1 }),
  plain(DELIVERY_ATTEMPTS, 'of_user', { userId: 1, createdAt: -1, _id: -1 }),
  plain(DELIVERY_ATTEMPTS, 'of_notification', { notificationId: 1, createdAt: -1, _id: -1 }),
  plain(DELIVERY_ATTEMPTS, 'newest', { createdAt: -1, _id: -1 }),
  plain(DELIVERY_ATTEMPTS, 'support_summary', { status: 1 }, { isSupport: true }),
  expiring(DELIVERY_ATTEMPTS, 'old', 'updatedAt', 400 * DAY),
  // No classification job is created while an equal one is open.
  unique(AI_JOBS, 'open_key', { openKey: 1 }, { open: true }),
  // Open jobs of one actor or one organization have different slots below a limit, so no race opens more jobs than the limit. The
  // write that ends a job takes it out of these indexes and so frees its slots.
  unique(AI_JOBS, 'slot_of_actor', { actorId: 1, actorSlot: 1 }, { open: true, slotted: true }),
  unique(AI_JOBS, 'slot_of_organization', { organizationId: 1, organizationSlot: 1 }, { open: true, slotted: true }),
  plain(AI_JOBS, 'open_jobs', { open: 1, _id: 1 }, { open: true }),
  plain(AI_JOBS, 'of_owner', { organizationId: 1, actorId: 1, createdAt: -1, _id: -1 }),
  plain(AI_JOBS, 'of_owner_by_status', { organizationId: 1, actorId: 1, status: 1, createdAt: -1, _id: -1 }),
  plain(AI_JOBS, 'of_actor', { actorId: 1 }),
  // The queue summary is counted from this index alone.
  plain(AI_JOBS, 'by_status', { status: 1, finishedAt: -1 }),
  plain(AI_JOB_BATCHES, 'of_job', { jobId: 1, index: 1 }),
  // One of several equal requests inserts the row of an epoch. All of them read the newest epoch.
  unique(GENERATIONS, 'epoch', { key: 1, epoch: 1 }),
  // Deletes generations without an answer. Storing the answer clears the field, so a row whose cost is owed never expires.
  expiring(GENERATIONS, 'idle', 'idleSince', 7 * DAY),
  plain(GENERATIONS, 'of_actor', { 'actor.id': 1 }),
  // Later than every lease of a preview in flight.
  expiring(PREVIEW_LEASES, 'quiet', 'lastAt', HOUR),
  // Provider calls stay for 400 days.
  expiring(USAGE_EVENTS, 'old', 'createdAt', 400 * DAY),
  plain(USAGE_EVENTS, 'of_actor', { actorId: 1 }),
  ...mailboxIndexes(COMMANDS),
  ...mailboxIndexes(NOTICES),
  ...mailboxIndexes(DELIVERIES),
  // Operators see how many notices of an exam wait or are dead. A delivered notice is in neither index.
  plain(NOTICES, 'waiting_of_exam', { 'body.examId': 1 }, { status: 'PENDING' }),
  plain(NOTICES, 'dead_of_exam', { 'body.examId': 1, letter: 1 }, { status: 'DEAD' }),
  // The due commands of one queue in the order of their organizations: a backlog of one does not hide the others (`mailbox/due.ts`).
  ...TURN_QUEUES.map((queue) =>
    plain(COMMANDS, dueInTurns(queue), { organizationId: 1, nextRunAt: 1 }, { queue, status: 'PENDING' }),
  ),
  // An event out is a copy of what is stored elsewhere, and its change is never made again. Dead ones stay until an operator acts.
  ...EVENT_QUEUES.map((queue) =>
    expiring(COMMANDS, `settled_${queue.replace('upkeep:', '')}`, 'settledAt', 30 * DAY, { queue, status: 'DONE' }),
  ),
  // Bulk acts on dead letters, newest first.
  plain(COMMANDS, 'bulk_acts', { createdAt: -1 }, { queue: 'upkeep:deadletters' }),
  plain(OPERATOR_AUDIT, 'newest', { at: -1 }),
  // Pages of the audit. The id ends each index, so that MongoDB reads a page in order instead of sorting all rows.
  plain(OPERATOR_AUDIT, 'in_pages', { at: -1, _id: -1 }),
  // A trace finds the acts on its objects. MongoDB reads this index and the next two backwards.
  plain(OPERATOR_AUDIT, 'subject_in_pages', { subject: 1, at: 1, _id: 1 }),
  // The console filters the audit by operator and by act.
  plain(OPERATOR_AUDIT, 'operator_in_pages', { operator: 1, at: 1, _id: 1 }),
  plain(OPERATOR_AUDIT, 'action_in_pages', { action: 1, at: 1, _id: 1 }),
  // The sweep of erasures finds those whose second pass is due. Any other tombstone adds one empty key.
  plain(ERASED_PERSONS, 'again', { 'again.at': 1 }),
  // Every process that writes events reads the active subscriptions, once in some seconds.
  plain(SUBSCRIPTIONS, 'of_state', { state: 1 }),
  // Rows of killed worker processes; a live one writes its row every few seconds.
  expiring(WORKERS, 'silent', 'seenAt', HOUR),
  // The console reads the samples of the last hour.
  expiring(CLUSTER_SAMPLES, 'old', 'at', SAMPLE_KEPT_MS),
  // The cookie of a session is refused anyway once the session is over.
  expiring(CONSOLE_ENDS, 'over', 'endsAt', HOUR),
];

/**
 * Collections without an index besides `_id` into which transactions insert. They are created in advance. Otherwise the first insert
 * creates them under a lock for which a transaction waits only 5 ms, and all but one of several transactions must start again.
 */
export const MADE_BEFOREHAND: readonly CollectionName[] = [
  AI_JOB_SELECTIONS,
  PROVIDER_SETTINGS,
  SETTING_CHANGES,
  SNAPSHOT_IDS,
];

function mailboxIndexes(collection: CollectionName): DeclaredIndex[] {
  return [
    plain(collection, 'due', { queue: 1, status: 1, nextRunAt: 1 }, { status: 'PENDING' }),
    // Workers and operators find the suspects of a queue, those that have been held longest first. No other command is in this index.
    plain(collection, 'suspects', { queue: 1, nextRunAt: 1 }, { status: 'PENDING', lapses: SUSPECT_LAPSES }),
    // Operators see the commands of a queue whose last run failed, those that have failed longest first. No other command is in this index.
    plain(collection, 'failing', { queue: 1, failingSince: 1 }, { status: 'PENDING', failing: true }),
    unique(collection, 'live_key', { key: 1 }, { live: true }),
    plain(collection, 'of_subject', { subject: 1 }),
    // A trace finds what one request has caused. All but the few recurring commands name a request, so a partial index would save nothing.
    plain(collection, 'of_request', { 'cause.requestId': 1, _id: -1 }),
    plain(collection, 'dead_letters', { letter: 1, settledAt: -1 }, { status: 'DEAD' }),
    // A bulk act walks the dead letters of a queue by id, and a list of them is read in pages.
    plain(collection, 'dead_of_queue', { queue: 1, _id: 1 }, { status: 'DEAD' }),
    // A rejected command has freed its key, and nothing depends on its row. It stays for a week, so that operators can read the reason.
    expiring(collection, 'rejected', 'settledAt', 7 * DAY, { status: 'REJECTED' }),
  ];
}
