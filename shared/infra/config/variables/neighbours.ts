import type { Reader } from '#infra/config/readers.ts';
import { earlierValuesOf, type Variable } from '#infra/config/variable.ts';

const GROUP = 'Neighbours';

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
export const NEIGHBOURS = {
  NOTIFICATION_SERVICE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_NOTIFICATION,
    description: 'Notification service; unset = `NOTIFICATION_SERVICE_BASE_URL`. Without either, notices wait.',
  },
  NOTIFICATION_SERVICE_BASE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_NOTIFICATION,
    description: 'Second name of `NOTIFICATION_SERVICE_URL`.',
  },
  NOTIFICATION_TOKEN_ADMIN_SERVICE: {
    group: GROUP,
    kind: 'token',
    default: null,
    readers: RECEIVER,
    description:
      'Token of the admin service at the notification service; unset = `NOTIFICATION_INTERNAL_SERVICE_TOKEN`.',
  },
  NOTIFICATION_TOKEN_ADMIN_SERVICE_PREVIOUS: earlierValuesOf('NOTIFICATION_TOKEN_ADMIN_SERVICE', GROUP, RECEIVER),
  NOTIFICATION_TOKEN_ATTEMPT_SERVICE: {
    group: GROUP,
    kind: 'token',
    default: null,
    readers: [...RECEIVER, 'gradenotices'],
    description:
      'Token of the attempt service at the notification service; unset = `NOTIFICATION_INTERNAL_SERVICE_TOKEN`.',
  },
  NOTIFICATION_TOKEN_ATTEMPT_SERVICE_PREVIOUS: earlierValuesOf('NOTIFICATION_TOKEN_ATTEMPT_SERVICE', GROUP, RECEIVER),
  NOTIFICATION_TOKEN_AUTH_SERVICE: {
    group: GROUP,
    kind: 'token',
    default: null,
    readers: [...RECEIVER, 'accountnotices'],
    description:
      'Token of the auth service at the notification service; unset = `NOTIFICATION_INTERNAL_SERVICE_TOKEN`.',
  },
  NOTIFICATION_TOKEN_AUTH_SERVICE_PREVIOUS: earlierValuesOf('NOTIFICATION_TOKEN_AUTH_SERVICE', GROUP, RECEIVER),
  NOTIFICATION_TOKEN_BFF_SERVICE: {
    group: GROUP,
    kind: 'token',
    default: null,
    readers: RECEIVER,
    description:
      'Token of the BFF at the notification service (weak topics); unset = `NOTIFICATION_INTERNAL_SERVICE_TOKEN`.',
  },
  NOTIFICATION_TOKEN_BFF_SERVICE_PREVIOUS: earlierValuesOf('NOTIFICATION_TOKEN_BFF_SERVICE', GROUP, RECEIVER),
  NOTIFICATION_TOKEN_CLASSROOM_SERVICE: {
    group: GROUP,
    kind: 'token',
    default: null,
    readers: RECEIVER,
    description:
      'Token of the classroom service at the notification service; unset = `NOTIFICATION_INTERNAL_SERVICE_TOKEN`.',
  },
  NOTIFICATION_TOKEN_CLASSROOM_SERVICE_PREVIOUS: earlierValuesOf(
    'NOTIFICATION_TOKEN_CLASSROOM_SERVICE',
    GROUP,
    RECEIVER,
  ),
  NOTIFICATION_TOKEN_EXAM_SERVICE: {
    group: GROUP,
    kind: 'token',
    default: null,
    readers: RECEIVER,
    description:
      'Token of the exam service at the notification service; unset = `NOTIFICATION_INTERNAL_SERVICE_TOKEN`.',
  },
  NOTIFICATION_TOKEN_EXAM_SERVICE_PREVIOUS: earlierValuesOf('NOTIFICATION_TOKEN_EXAM_SERVICE', GROUP, RECEIVER),
  NOTIFICATION_INTERNAL_SERVICE_TOKEN: {
    group: GROUP,
    kind: 'token',
    default: null,
    readers: [...RECEIVER, 'gradenotices', 'accountnotices'],
    description: 'Token of any sender at the notification service; unset = `INTERNAL_SERVICE_TOKEN`.',
  },
  NOTIFICATION_INTERNAL_SERVICE_TOKEN_PREVIOUS: earlierValuesOf('NOTIFICATION_INTERNAL_SERVICE_TOKEN', GROUP, RECEIVER),
  PROFILE_SERVICE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_PROFILE,
    description:
      'Profile service, which returns the parents of a student; unset = `PROFILE_SERVICE_BASE_URL`. Without either, notices to parents wait.',
  },
  PROFILE_SERVICE_BASE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_PROFILE,
    description: 'Second name of `PROFILE_SERVICE_URL`.',
  },
  ANALYTICS_SERVICE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_ANALYTICS,
    description: 'Analytics service; unset = `ANALYTICS_SERVICE_BASE_URL`. Without either, no analytics are sent.',
  },
  ANALYTICS_SERVICE_BASE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_ANALYTICS,
    description: 'Second name of `ANALYTICS_SERVICE_URL`.',
  },
  AUDIT_SERVICE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_AUDIT,
    description: 'Audit service; unset = `AUDIT_SERVICE_BASE_URL`. Without either, no events are sent to it.',
  },
  AUDIT_SERVICE_BASE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_AUDIT,
    description: 'Second name of `AUDIT_SERVICE_URL`.',
  },
  QUESTION_BANK_SERVICE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_QUESTION_BANK,
    description:
      'Question bank; unset = `QUESTION_BANK_SERVICE_BASE_URL`. Without either, prompts contain question ids only, and mode `similar` is refused.',
  },
  QUESTION_BANK_SERVICE_BASE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_QUESTION_BANK,
    description: 'Second name of `QUESTION_BANK_SERVICE_URL`.',
  },
  USAGE_SERVICE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_BILLING,
    description:
      'Usage service; unset = `USAGE_SERVICE_BASE_URL`. Without either, generation that must be paid for is refused.',
  },
  USAGE_SERVICE_BASE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_BILLING,
    description: 'Second name of `USAGE_SERVICE_URL`.',
  },
  WALLET_SERVICE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_BILLING,
    description:
      'Wallet service; unset = `WALLET_SERVICE_BASE_URL`. Without either, generation that must be paid for is refused.',
  },
  WALLET_SERVICE_BASE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    readers: OF_BILLING,
    description: 'Second name of `WALLET_SERVICE_URL`.',
  },
  OUTBOUND_TIMEOUT_MS: {
    group: GROUP,
    kind: 'integer',
    default: 5_000,
    min: 1,
    max: 120_000,
    description: 'Time limit of one call to another service.',
  },
  EVENT_SUBSCRIPTIONS_PRIVATE: {
    group: GROUP,
    kind: 'word',
    default: '0',
    words: ['0', '1'],
    description:
      '1 = subscribers to events may have addresses of private networks and any port, for receivers inside the cluster. Set the same value for `web` and `upkeep`.',
  },
} as const satisfies Record<string, Variable>;
