import { type Broadcast, broadcasts } from './judge.ts';

const ONE_EXPORT = 'the export of a person';
const ONE_ERASURE = 'the export or the erasure of a person';
/** Finds and counts the rows about a person. */
const FINDER = 'shared/infra/mongo/person/find.ts';
/** Exports the rows about a person. */
const EXPORT = 'shared/infra/mongo/person/export.ts';

/**
 * Statements on accounts, paid generations and erased persons that go to every shard. Sessions, refresh tokens and security events are on
 * the shard of their account, and a generation is on the shard of its key.
 */
export const ACCOUNT_BROADCASTS: readonly Broadcast[] = [
  ...broadcasts(
    {
      why: 'a pair is named by a digest of e-mail and address, and an e-mail has several',
      rate: 'an operator clears an account',
      files: ['shared/infra/mongo/auth/known-pairs.ts'],
    },
    ['auth_known_pairs update {account, tries $gt}'],
  ),
  ...broadcasts(
    {
      why: 'an operator lists the events of all accounts',
      rate: 'a command of an operator',
      files: ['shared/infra/mongo/auth/login-events.ts'],
    },
    ['auth_security_events find {}', 'auth_security_events find {metadata.address}'],
  ),
  ...broadcasts(
    {
      why: 'an operator names a settlement, an older version wrote its command, or an erasure has replaced the key',
      rate: 'a dead letter that an operator reads or replays; otherwise only what an earlier version wrote',
      files: ['shared/infra/mongo/classifier/generations.ts'],
    },
    ['ai_generations find {_id}'],
  ),
  ...broadcasts(
    {
      why: 'a dead settlement names its generation by the id',
      rate: 'the preview of a bulk replay that meets settlements',
      files: ['shared/infra/mongo/classifier/generation-epochs.ts'],
    },
    ['ai_generations find {_id $in, state}'],
  ),
  ...broadcasts(
    {
      why: 'the sweep finds erasures of any person',
      rate: 'one for each UPKEEP_INTERVAL_MS',
      files: ['shared/infra/mongo/person/second-pass.ts'],
    },
    ['erased_persons find {again.at $gt}'],
  ),
  ...broadcasts({ why: 'the e-mail of a person leads to several pairs', rate: ONE_ERASURE, files: [FINDER] }, [
    'auth_known_pairs aggregate {account}',
    'auth_known_pairs find {account}',
  ]),
  ...broadcasts(
    {
      why: 'the actor does not decide on which shard a generation or a provider call is',
      rate: ONE_ERASURE,
      files: [FINDER],
    },
    [
      'ai_generations aggregate {actor.id}',
      'ai_generations find {actor.id}',
      'ai_generations find {$or(closed, state|leaseUntil $gt, state), actor.id}',
      'ai_usage_events aggregate {actorId}',
      'ai_usage_events find {actorId}',
    ],
  ),
  ...broadcasts(
    {
      why: 'notifications about a person, or by one, are in the inboxes of others',
      rate: ONE_ERASURE,
      files: [FINDER],
    },
    [
      'notifications aggregate {actorId, entityId $ne, userId $ne}',
      'notifications aggregate {entityId, userId $ne}',
      'notifications aggregate {entityId $in, userId $ne}',
      'notifications find {actorId}',
      'notifications find {entityId}',
      'notification_delivery_attempts aggregate {notificationId, userId $ne}',
      'notification_delivery_attempts aggregate {notificationId $in, userId $ne}',
    ],
  ),
  ...broadcasts(
    {
      why: 'rows about a person are found by several fields, and some are in the inboxes of others',
      rate: ONE_EXPORT,
      files: [EXPORT],
    },
    [
      'auth_known_pairs find {account}',
      'ai_generations find {actor.id}',
      'ai_usage_events find {actorId}',
      'notifications find {entityId, userId $ne}',
    ],
  ),
  ...broadcasts(
    {
      why: 'what ends with its notification is found by its id',
      rate: `${ONE_ERASURE}, or 100 expired notifications`,
      files: [FINDER],
    },
    [
      'notification_delivery_attempts find {notificationId}',
      'notification_delivery_attempts find {notificationId $in}',
    ],
  ),
  ...broadcasts(
    {
      why: 'old rows of all users end',
      rate: 'a sweep of the retention, if one is set: once a second at most',
      files: ['shared/infra/mongo/person/retention.ts'],
    },
    ['notifications find {createdAt $lt, place $in}'],
  ),
];
