import { PLACEMENTS } from '#infra/mongo/schema/shard-keys.ts';
import { ACCOUNT_BROADCASTS } from './account-broadcasts.ts';
import { ATTEMPT_BROADCASTS } from './attempt-broadcasts.ts';
import { INBOX_BROADCASTS } from './inbox-broadcasts.ts';
import { type Broadcast, broadcasts } from './judge.ts';
import { MAILBOX_BROADCASTS } from './mailbox-broadcasts.ts';

/**
 * Statements of product code that go to every shard of a sharded cluster. Everything else names the shard key with equality, and a test
 * run fails on a statement that does neither.
 */
export const BROADCASTS: readonly Broadcast[] = [
  ...MAILBOX_BROADCASTS,
  ...ATTEMPT_BROADCASTS,
  ...ACCOUNT_BROADCASTS,
  ...INBOX_BROADCASTS,
  ...broadcasts(
    {
      why: '`examhall migrate --shard` shows the size of each collection',
      rate: 'one for each plan',
      files: ['shared/infra/mongo/schema/distribute.ts'],
    },
    [
      ...Object.entries(PLACEMENTS).flatMap(([name, placement]) =>
        'shardKey' in placement ? [`${name} count {}`] : [],
      ),
    ],
  ),
];
