import type { Variable } from '../variable.ts';

const GROUP = 'Neighbours';

/** Other services, and how we call them. */
export const NEIGHBOURS = {
  NOTIFICATION_SERVICE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    description: 'Notification service; unset = `NOTIFICATION_SERVICE_BASE_URL`. Without either, notices wait.',
  },
  NOTIFICATION_SERVICE_BASE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    description: 'Second name of `NOTIFICATION_SERVICE_URL`.',
  },
  NOTIFICATION_TOKEN_ATTEMPT_SERVICE: {
    group: GROUP,
    kind: 'token',
    default: null,
    description: 'Token of the attempt service at the notification service; unset = the next one.',
  },
  NOTIFICATION_INTERNAL_SERVICE_TOKEN: {
    group: GROUP,
    kind: 'token',
    default: null,
    description: 'Token of any sender at the notification service; unset = `INTERNAL_SERVICE_TOKEN`.',
  },
  PROFILE_SERVICE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    description:
      'Profile service, which knows the parents; unset = `PROFILE_SERVICE_BASE_URL`. Without either, notices to parents wait.',
  },
  PROFILE_SERVICE_BASE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    description: 'Second name of `PROFILE_SERVICE_URL`.',
  },
  ANALYTICS_SERVICE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    description: 'Analytics service; unset = `ANALYTICS_SERVICE_BASE_URL`. Without either, no analytics are sent.',
  },
  ANALYTICS_SERVICE_BASE_URL: {
    group: GROUP,
    kind: 'neighbour',
    default: null,
    description: 'Second name of `ANALYTICS_SERVICE_URL`.',
  },
  OUTBOUND_TIMEOUT_MS: {
    group: GROUP,
    kind: 'integer',
    default: 5_000,
    min: 1,
    max: 120_000,
    description: 'Bound of one call to another service.',
  },
} as const satisfies Record<string, Variable>;
