import { type Broadcast, broadcasts } from './judge.ts';

/** Lists of an ADMIN over all inboxes narrow them by any of these, and the place of a row. */
const NARROWED = {
  place: ['place', 'place $in'],
  state: ['', 'isRead', 'isSupport'],
  organization: ['', 'organizationId'],
  text: ['', '$or(title $regex $options|content $regex $options)'],
};
/** A page after a row is found by these two, whatever the list is. */
const AFTER = ['$and($or(createdAt $lt|_id $lt))', 'createdAt $lte'] as const;

function listsOfAllInboxes(): string[] {
  const { place, state, organization, text } = NARROWED;
  const shapes = text.flatMap((a) => state.flatMap((b) => organization.flatMap((c) => place.map((d) => [a, b, c, d]))));
  const named = (fields: readonly (string | undefined)[]) => fields.filter(Boolean).join(', ');
  return shapes.flatMap((fields) => {
    const [text, ...others] = fields;
    const after = named([AFTER[0], text, AFTER[1], ...others]);
    return [named(fields), after]
      .map((shape) => `notifications find {${shape}}`)
      .concat(`notifications aggregate {${named(fields)}}`);
  });
}

/** Filters of an ADMIN over the delivery attempts of all users. */
const ATTEMPT_LISTS: readonly string[] = [
  '',
  'channel',
  'channel, createdAt $gt $lte',
  'channel, createdAt $gt $lte, notificationId',
  'createdAt $gt',
  'createdAt $gt $lte',
  'createdAt $gt $lte, notificationId',
  'notificationId',
  'notificationId, status',
  'organizationId',
  'provider',
];

const BY_ADMIN = {
  why: 'an ADMIN lists the inboxes or the delivery attempts of all users',
  rate: 'a page of an ADMIN',
};

/** Statements on notifications and delivery attempts that go to every shard. Rows are on the shard of their user. */
export const INBOX_BROADCASTS: readonly Broadcast[] = [
  ...broadcasts({ ...BY_ADMIN, files: ['shared/infra/mongo/notification/inbox.ts'] }, listsOfAllInboxes()),
  ...broadcasts({ ...BY_ADMIN, files: ['shared/infra/mongo/notification/summarize-support.ts'] }, [
    'notifications find {isSupport, place}',
    'notifications find {isSupport, place $in}',
    'notifications aggregate {isSupport, place}',
    'notifications aggregate {isSupport, place $in}',
    'notification_delivery_attempts aggregate {isSupport}',
  ]),
  ...broadcasts({ ...BY_ADMIN, files: ['shared/infra/mongo/notification/delivery-attempts.ts'] }, [
    ...ATTEMPT_LISTS.flatMap((shape) => [
      `notification_delivery_attempts find {${shape}}`,
      `notification_delivery_attempts aggregate {${shape}}`,
    ]),
  ]),
  ...broadcasts(
    {
      why: 'the path or the report names a notification whose user is not known: of an ADMIN, of a wrong caller, or new',
      rate: 'one such request',
      files: [
        'shared/infra/mongo/notification/inbox.ts',
        'shared/infra/mongo/notification/snapshots.ts',
        'shared/infra/mongo/notification/delivery-attempts.ts',
      ],
    },
    ['notifications find {_id}'],
  ),
  ...broadcasts(
    {
      why: 'the rows of a fan-out belong to many users',
      rate: '1,000 rows of a large one',
      files: ['shared/infra/mongo/notification/stage-fan-out.ts'],
    },
    [
      'notifications find {fanOutId}',
      'notifications find {fanOutId, ordinal $gt}',
      'notifications find {fanOutId, ordinal $gt $lte, place}',
      'notifications update {fanOutId, ordinal $gt $lte}',
      'notifications delete {fanOutId, ordinal $lte}',
    ],
  ),
  ...broadcasts(
    {
      why: 'the rows of a fan-out belong to many users',
      rate: 'a replayed event',
      files: ['shared/infra/mongo/notification/fan-out.ts'],
    },
    ['notifications find {fanOutId}'],
  ),
  ...broadcasts(
    {
      why: 'the move onto shards finds the notifications of snapshots, of any user',
      rate: 'one for each move',
      files: ['shared/infra/mongo/notification/snapshots.ts'],
    },
    ['notifications find {fanOutId}'],
  ),
];
