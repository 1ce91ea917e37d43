import type { Reader } from '#infra/config/readers.ts';
import { earlierValuesOf, flag, guarded, inGroup, integer } from '#infra/config/rows.ts';

/** The notification service itself, which requires a token of each sender. */
const RECEIVER: readonly Reader[] = ['web:notification'];
// The readers of an address: the processes that call it, and those that only need to know whether it is configured. `grading` and
// `resultsrelease` ring for notices, and `grading` and `web` write events, only if a process will send them.
const OF_NOTIFICATION: readonly Reader[] = ['grading', 'resultsrelease', 'gradenotices', 'accountnotices'];
const OF_PROFILE: readonly Reader[] = ['grading', 'resultsrelease', 'gradenotices', 'delivery'];
const OF_ANALYTICS: readonly Reader[] = ['grading', 'upkeep'];
const OF_AUDIT: readonly Reader[] = ['web:notification', 'upkeep'];
const OF_QUESTION_BANK: readonly Reader[] = ['web:classifier', 'classifier'];
const OF_BILLING: readonly Reader[] = ['web:classifier', 'settlement'];

/** Other services, and the settings of calls to them. */
export const NEIGHBOURS = inGroup('Neighbours', {
  NOTIFICATION_SERVICE_URL: guarded(
    'neighbour',
    OF_NOTIFICATION,
    'Notification service; unset = `NOTIFICATION_SERVICE_BASE_URL`. Without either, notices wait.',
  ),
  NOTIFICATION_SERVICE_BASE_URL: guarded('neighbour', OF_NOTIFICATION, 'Second name of `NOTIFICATION_SERVICE_URL`.'),
  NOTIFICATION_TOKEN_ADMIN_SERVICE: guarded(
    'token',
    RECEIVER,
    'Token of the admin service at the notification service; unset = `NOTIFICATION_INTERNAL_SERVICE_TOKEN`.',
  ),
  NOTIFICATION_TOKEN_ADMIN_SERVICE_PREVIOUS: earlierValuesOf('NOTIFICATION_TOKEN_ADMIN_SERVICE', RECEIVER),
  NOTIFICATION_TOKEN_ATTEMPT_SERVICE: guarded(
    'token',
    [...RECEIVER, 'gradenotices'],
    'Token of the attempt service at the notification service; unset = `NOTIFICATION_INTERNAL_SERVICE_TOKEN`.',
  ),
  NOTIFICATION_TOKEN_ATTEMPT_SERVICE_PREVIOUS: earlierValuesOf('NOTIFICATION_TOKEN_ATTEMPT_SERVICE', RECEIVER),
  NOTIFICATION_TOKEN_AUTH_SERVICE: guarded(
    'token',
    [...RECEIVER, 'accountnotices'],
    'Token of the auth service at the notification service; unset = `NOTIFICATION_INTERNAL_SERVICE_TOKEN`.',
  ),
  NOTIFICATION_TOKEN_AUTH_SERVICE_PREVIOUS: earlierValuesOf('NOTIFICATION_TOKEN_AUTH_SERVICE', RECEIVER),
  NOTIFICATION_TOKEN_BFF_SERVICE: guarded(
    'token',
    RECEIVER,
    'Token of the BFF at the notification service (weak topics); unset = `NOTIFICATION_INTERNAL_SERVICE_TOKEN`.',
  ),
  NOTIFICATION_TOKEN_BFF_SERVICE_PREVIOUS: earlierValuesOf('NOTIFICATION_TOKEN_BFF_SERVICE', RECEIVER),
  NOTIFICATION_TOKEN_CLASSROOM_SERVICE: guarded(
    'token',
    RECEIVER,
    'Token of the classroom service at the notification service; unset = `NOTIFICATION_INTERNAL_SERVICE_TOKEN`.',
  ),
  NOTIFICATION_TOKEN_CLASSROOM_SERVICE_PREVIOUS: earlierValuesOf('NOTIFICATION_TOKEN_CLASSROOM_SERVICE', RECEIVER),
  NOTIFICATION_TOKEN_EXAM_SERVICE: guarded(
    'token',
    RECEIVER,
    'Token of the exam service at the notification service; unset = `NOTIFICATION_INTERNAL_SERVICE_TOKEN`.',
  ),
  NOTIFICATION_TOKEN_EXAM_SERVICE_PREVIOUS: earlierValuesOf('NOTIFICATION_TOKEN_EXAM_SERVICE', RECEIVER),
  NOTIFICATION_INTERNAL_SERVICE_TOKEN: guarded(
    'token',
    [...RECEIVER, 'gradenotices', 'accountnotices'],
    'Token of any sender at the notification service; unset = `INTERNAL_SERVICE_TOKEN`.',
  ),
  NOTIFICATION_INTERNAL_SERVICE_TOKEN_PREVIOUS: earlierValuesOf('NOTIFICATION_INTERNAL_SERVICE_TOKEN', RECEIVER),
  PROFILE_SERVICE_URL: guarded(
    'neighbour',
    OF_PROFILE,
    'Profile service, which returns the parents of a student; unset = `PROFILE_SERVICE_BASE_URL`. Without either, notices to parents wait.',
  ),
  PROFILE_SERVICE_BASE_URL: guarded('neighbour', OF_PROFILE, 'Second name of `PROFILE_SERVICE_URL`.'),
  ANALYTICS_SERVICE_URL: guarded(
    'neighbour',
    OF_ANALYTICS,
    'Analytics service; unset = `ANALYTICS_SERVICE_BASE_URL`. Without either, no analytics are sent.',
  ),
  ANALYTICS_SERVICE_BASE_URL: guarded('neighbour', OF_ANALYTICS, 'Second name of `ANALYTICS_SERVICE_URL`.'),
  AUDIT_SERVICE_URL: guarded(
    'neighbour',
    OF_AUDIT,
    'Audit service; unset = `AUDIT_SERVICE_BASE_URL`. Without either, no events are sent to it.',
  ),
  AUDIT_SERVICE_BASE_URL: guarded('neighbour', OF_AUDIT, 'Second name of `AUDIT_SERVICE_URL`.'),
  QUESTION_BANK_SERVICE_URL: guarded(
    'neighbour',
    OF_QUESTION_BANK,
    'Question bank; unset = `QUESTION_BANK_SERVICE_BASE_URL`. Without either, prompts contain question ids only, and mode `similar` is refused.',
  ),
  QUESTION_BANK_SERVICE_BASE_URL: guarded('neighbour', OF_QUESTION_BANK, 'Second name of `QUESTION_BANK_SERVICE_URL`.'),
  USAGE_SERVICE_URL: guarded(
    'neighbour',
    OF_BILLING,
    'Usage service; unset = `USAGE_SERVICE_BASE_URL`. Without either, generation that must be paid for is refused.',
  ),
  USAGE_SERVICE_BASE_URL: guarded('neighbour', OF_BILLING, 'Second name of `USAGE_SERVICE_URL`.'),
  WALLET_SERVICE_URL: guarded(
    'neighbour',
    OF_BILLING,
    'Wallet service; unset = `WALLET_SERVICE_BASE_URL`. Without either, generation that must be paid for is refused.',
  ),
  WALLET_SERVICE_BASE_URL: guarded('neighbour', OF_BILLING, 'Second name of `WALLET_SERVICE_URL`.'),
  OUTBOUND_TIMEOUT_MS: integer('outboundTimeoutMs', 5_000, [1, 120_000], 'Time limit of one call to another service.'),
  EVENT_SUBSCRIPTIONS_PRIVATE: flag(
    'subscriptions.allowsPrivate',
    '0',
    '1 = subscribers to events may have addresses of private networks and any port, for receivers inside the cluster. Set the same value for `web` and `upkeep`.',
  ),
});
